"""Interventions on heads whose behaviour is known, without a sidecar."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conceptwatch import Head, interventions, percentiles
from conceptwatch._declaration import concepts_of
from conceptwatch._head import Recent, even_counts
from conceptwatch._interventions import with_head
from conceptwatch._protocol import messages
from conftest import python

N, K = 400, 5


def data(seed: int = 0) -> tuple[Any, Any, Any]:
    """Probabilities that know nothing, labels, and a task: whether the first concept is present."""
    random = np.random.default_rng(seed)
    c = random.integers(0, 2, (N, K))
    return random.random((N, K), np.float32), c, c[:, 0]


def accuracies(predictions: Any, y: Any) -> list[float]:
    return [float(np.mean(column == y)) for column in np.asarray(predictions).T]


def both(found: Any) -> tuple[Any, Any]:
    return np.asarray(found["intervention_predictions"]), np.asarray(found["wrong_intervention_predictions"])


class Seen:
    """A head that returns its concepts, and keeps what they were in each call."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, x: Any) -> Any:
        self.calls.append(np.asarray(x).copy())
        return x


@pytest.fixture(params=["numpy", "torch"])
def array(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """Arrays of each library, so that every closed form holds for both."""
    if request.param == "numpy":
        return np.asarray
    return request.getfixturevalue("torch").as_tensor  # type: ignore[no-any-return]


def test_a_head_that_ignores_its_concepts_predicts_the_same_everywhere(array: Any) -> None:
    c_hat, c, y = data()
    right, wrong = both(interventions(lambda x: array(y.astype(np.int64)), array(c_hat), array(c)))
    assert right.shape == wrong.shape == (N, K + 1)
    assert accuracies(right, y) == accuracies(wrong, y) == [1.0] * (K + 1)


@pytest.mark.parametrize("policy", ["random", "least_confident", "coop", "in_order", [3, 0, 1, 2, 4]])
def test_a_head_of_the_first_concept_is_right_once_that_is_set(array: Any, policy: Any) -> None:
    c_hat, c, y = data()
    found = interventions(lambda x: x[:, 0] - 0.5, array(c_hat), array(c), policy=policy)
    right, wrong = (accuracies(predictions, y) for predictions in both(found))
    assert (right[-1], wrong[-1]) == (1.0, 0.0)
    assert right == sorted(right)
    assert wrong == sorted(wrong, reverse=True)
    untouched = float(np.mean((c_hat[:, 0] > 0.5) == y))
    assert right[0] == wrong[0] == untouched
    place = {"in_order": 1, "[3, 0, 1, 2, 4]": 2}.get(str(policy))
    if place is not None:
        assert right == [untouched] * place + [1.0] * (K + 1 - place)
    if policy == "random":
        # In a random order the first concept is among j of k with probability j / k.
        expected = [untouched + (1 - untouched) * j / K for j in range(K + 1)]
        assert np.abs(np.array(right) - expected).max() < 4 * 0.5 / np.sqrt(N)


def test_a_head_of_an_exclusive_or_is_right_only_when_both_are_set(array: Any) -> None:
    c_hat, c, _ = data()
    y = c[:, 0] ^ c[:, 1]
    found = interventions(lambda x: (x[:, 0] > 0.5) != (x[:, 1] > 0.5), array(c_hat), array(c), policy="in_order")
    right, wrong = (accuracies(predictions, y) for predictions in both(found))
    assert right[2:] == [1.0] * (K - 1)
    assert max(right[:2]) < 0.6
    # Two wrong concepts leave their exclusive or as it was.
    assert wrong[2:] == [1.0] * (K - 1)


def test_the_least_confident_concepts_are_set_first(array: Any) -> None:
    c_hat = np.array([[0.5, 0.9, 0.2], [0.01, 0.45, 0.6]], np.float32)
    head = Seen()
    interventions(head, array(c_hat), array(1 - (c_hat > 0.5)), policy="least_confident")
    # Calls alternate between true and wrong values after the first.
    assert head.calls[1].tolist() == [[1, c_hat[0, 1], c_hat[0, 2]], [c_hat[1, 0], 1, c_hat[1, 2]]]
    assert head.calls[3].tolist() == [[1, c_hat[0, 1], 1], [c_hat[1, 0], 1, 0]]
    assert head.calls[5].tolist() == [[1, 0, 1], [1, 1, 0]]
    assert head.calls[6].tolist() == [[0, 1, 0], [0, 0, 1]]


def test_coop_sets_uncertain_and_decisive_concepts_first(array: Any) -> None:
    """By hand: entropy of the concept, and expected change of the predicted class's probability."""
    c_hat = np.array([[0.5, 0.6, 0.2], [0.99, 0.98, 0.5]])
    weights = np.array([0.0, 6.0, 1.0])

    def share(x: Any) -> Any:
        logit = np.asarray(x) @ weights - 3
        return 1 / (1 + np.exp(-logit))

    expected = np.zeros((2, 3))
    for i in range(3):
        p = c_hat[:, i]
        ends = []
        for value in (0, 1):
            moved = c_hat.copy()
            moved[:, i] = value
            ends.append(abs(share(moved) - share(c_hat)))
        expected[:, i] = -p * np.log(p) - (1 - p) * np.log(1 - p) + (1 - p) * ends[0] + p * ends[1]
    assert np.argsort(-expected).tolist() != np.argsort(abs(c_hat - 0.5)).tolist(), "the head decides, too"
    seen: list[Any] = []

    def head(x: Any) -> Any:
        seen.append(np.asarray(x))
        return x @ array(weights) - 3

    interventions(head, array(c_hat), array(np.ones((2, 3), int)), policy="coop")
    seen = seen[1 + 2 * 3 :]  # those that rank
    assert np.array_equal(seen[0], c_hat)
    for row in range(2):
        first = int(np.argmax(expected[row]))
        assert seen[1][row].tolist() == [1.0 if i == first else c_hat[row, i] for i in range(3)]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"kind": "hard"}, "policy: 'coop' needs probabilities or logits, but the concepts are hard"),
        ({"kind": "continuous"}, "policy: 'coop' needs probabilities or logits, but the concepts are continuous"),
        ({"task_labels": "continuous"}, "policy: 'coop' needs a task of classes, but the task is continuous"),
    ],
)
def test_coop_says_what_it_needs(options: Any, why: str) -> None:
    c_hat, c, _ = data()
    with pytest.raises(ValueError, match=why):
        interventions(lambda x: x[:, 0] - 0.5, c_hat, c, policy="coop", **options)
    with pytest.raises(ValueError, match="needs a head that returns logits or probabilities, but it returned int64"):
        interventions(lambda x: (x[:, 0] > 0.5).astype(np.int64), c_hat, c, policy="coop")


def test_logits_are_set_to_percentiles(array: Any) -> None:
    random = np.random.default_rng(3)
    logits, c = random.normal(2.0, 3.0, (N, 2)), random.integers(0, 2, (N, 2))
    low, high = conceptwatch.percentiles(array(logits))
    assert np.allclose([low, high], np.percentile(logits, [5, 95], axis=0))
    outliers = np.ma.array(np.where(logits > 6, 1e6, logits), mask=logits > 6)
    assert (conceptwatch.percentiles(outliers)[1] < 6).all()
    head = Seen()
    for ends, expected in [
        ({"low": low, "high": high}, (low, high)),
        ({}, (low, high)),  # of the batch itself
        ({"low": -4.0, "high": [3.0, 5.0]}, (np.full(2, -4.0), np.array([3.0, 5.0]))),
    ]:
        head.calls.clear()
        interventions(head, array(logits), array(c), kind="logit", **ends)  # type: ignore[arg-type]
        assert np.allclose(head.calls[-2], np.where(c == 1, expected[1], expected[0]), atol=1e-5)
        assert np.allclose(head.calls[-1], np.where(c == 1, expected[0], expected[1]), atol=1e-5)


def test_categorical_concepts_are_set_in_blocks(array: Any) -> None:
    random = np.random.default_rng(4)
    c = np.stack([random.integers(0, 2, N), random.integers(0, 4, N)], 1)
    c_hat = random.random((N, 5), np.float32)
    head = Seen()
    interventions(head, array(c_hat), array(c), cardinalities=[2, 4], policy="in_order")
    true, wrong = head.calls[-2:]
    assert (true[:, 0] == c[:, 0]).all()
    assert (true[:, 1:] == np.eye(4)[c[:, 1]]).all()
    assert (wrong[:, 0] == 1 - c[:, 0]).all()
    assert (wrong[:, 1:].sum(1) == 1).all()
    assert (wrong[:, 1:].argmax(1) != c[:, 1]).all()
    # Each of the other classes about as often.
    offsets = np.bincount((wrong[:, 1:].argmax(1) - c[:, 1]) % 4, minlength=4)
    assert offsets[1:].min() > N / 3 - 4 * np.sqrt(N)
    # One concept set: its column, or all columns of its block.
    assert (head.calls[1][:, 0] == c[:, 0]).all()
    assert (head.calls[1][:, 1:] == c_hat[:, 1:]).all()
    # Two columns for every binary concept where all have a column for each class.
    head.calls.clear()
    interventions(head, array(random.random((N, 6), np.float32)), array(c), cardinalities=[2, 4])
    assert (head.calls[-2][:, :2] == np.eye(2)[c[:, 0]]).all()


def test_groups_are_set_together(array: Any) -> None:
    c_hat, c, _ = data()
    for policy in ("random", "least_confident", "coop", "in_order"):
        head = Seen()
        found = interventions(head, array(c_hat), array(c), groups=[[0, 3], [1, 2]], policy=policy)
        assert both(found)[0].shape == (N, 4)
        assert found.counts == (0, 2, 3, 5)
        is_set = head.calls[2 + 2 * K if policy == "coop" else 1] == c  # coop ranks by calls of its own
        assert (is_set[:, 0] == is_set[:, 3]).all()
        assert (is_set[:, 1] == is_set[:, 2]).all()
        assert (is_set[:, [0, 1, 4]].sum(1) == 1).all()


def test_counts_are_those_the_sidecar_takes_for_granted() -> None:
    assert Head(abs).counts(7) == even_counts(7, 8) == tuple(range(8))
    assert Head(abs).counts(112) == even_counts(112, 11) == (0, 11, 22, 34, 45, 56, 67, 78, 90, 101, 112)
    assert Head(abs, steps=3).counts(7) == even_counts(7, 3) == (0, 4, 7)
    groups = [list(range(4 * group, 4 * group + 4)) for group in range(28)]
    assert Head(abs, groups=groups).counts(112) == even_counts(112, 29)
    assert Head(abs, steps=[0, 1, 7]).counts(7) == (0, 1, 7)


def test_unknown_labels_are_never_set(array: Any) -> None:
    c_hat, c, _ = data()
    unknown = np.arange(c.size).reshape(c.shape) % 3 == 0
    marked = np.where(unknown, -1, c)
    for labels in (array(marked), array(np.where(unknown, np.nan, c)), np.ma.array(c, mask=unknown)):
        head = Seen()
        interventions(head, array(c_hat), labels)
        for values in head.calls[-2:]:
            assert (values[unknown] == c_hat[unknown]).all()
            assert np.isin(values[~unknown], (0, 1)).all()


def test_measured_concepts_are_set_to_their_value() -> None:
    c = np.linspace(0, 1, 2 * N).reshape(N, 2)
    head = Seen()
    interventions(head, c + 0.3, c, kind="continuous")
    assert (head.calls[-2] == c).all()
    assert (abs(head.calls[-1] - c) >= 0.45).all()


def test_predicted_numbers_keep_their_precision(array: Any) -> None:
    c_hat, c, _ = data()
    for offset, kind in ((1.7e9, np.float64), (1.5, np.float32)):
        made = interventions(
            lambda x, o=offset, k=kind: array(np.asarray(x, k)[:, 0] + o),
            array(c_hat),
            array(c),
            task_labels="continuous",
        )
        found = np.asarray(made["intervention_predictions"])
        assert found.dtype == kind
        assert (found[:, 0] == np.asarray(c_hat, kind)[:, 0] + offset).all()


def test_orders_follow_the_rows_and_the_seed() -> None:
    c_hat, c, _ = data()
    ids = np.arange(N)[::-1].copy()

    def head(x: Any) -> Any:
        return x[:, 0] - 0.5

    def made(seed: int, order: Any, ids: Any) -> Any:
        found = interventions(head, c_hat[order], c[order], seed=seed, sample_ids=ids[order])
        return both(found)[0]

    plain, half = np.arange(N), np.arange(0, N, 2)
    assert (made(0, plain, ids)[half] == made(0, half, ids)).all()
    assert (made(0, plain, ids) != made(1, plain, ids)).any()


def test_outputs_become_classes() -> None:
    c_hat, c, _ = data()

    def classes(output: Any, **options: Any) -> Any:
        return both(interventions(lambda x: output, c_hat, c, **options))[0][:, 0]

    logits = np.random.default_rng(5).normal(size=(N, 3))
    assert (classes(logits) == logits.argmax(1)).all()
    assert (classes(logits[:, :1]) == (logits[:, 0] > 0)).all()
    assert (classes(logits[:, 0]) == (logits[:, 0] > 0)).all()
    assert (classes(c_hat[:, 0], threshold=0.5) == (c_hat[:, 0] > 0.5)).all()
    assert (classes(c[:, 1] + 3) == c[:, 1] + 3).all()
    logits[3, 1], logits[4, 2] = np.nan, np.inf
    assert np.flatnonzero(classes(logits) == -1).tolist() == [3, 4]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"labels": np.zeros((N, K - 1))}, r"shape \[400, 5\] and labels of shape \[400, 4\]"),
        ({"labels": np.zeros((N - 1, K))}, r"shape \[400, 5\] and labels of shape \[399, 5\]"),
        ({"labels": np.zeros(N)}, r"labels of shape \[400\]"),
        ({"cardinalities": [2, 2, 2, 2, 3]}, r"cardinalities \[2, 2, 2, 2, 3\]"),
        ({"kind": "sigmoid"}, "kind: got 'sigmoid', expected one of hard"),
        ({"policy": "greedy"}, "policy: got 'greedy'"),
        ({"policy": [0, 0, 1, 2, 3]}, r"policy: got \[0, 0, 1, 2, 3\], expected each of 0 to 4 once"),
        ({"steps": 1}, "steps: got 1, expected at least 2"),
        ({"steps": [0, 3, 2, 5]}, r"steps: got \[0, 3, 2, 5\], expected ascending numbers from 0 to 5"),
        ({"steps": [0, 4]}, "expected ascending numbers from 0 to 5"),
        ({"groups": [[0, 1], [1, 2]]}, "groups: got concept 1"),
        ({"groups": [[7]]}, "groups: got concept 7, expected each of 0 to 4 at most once"),
        ({"low": [0.0, 1.0]}, r"low: got shape \[2\]"),
        ({"sample_ids": np.arange(3)}, r"sample_ids: got shape \[3\]"),
        ({"activations": np.ma.masked_all((N, K))}, "concept_activations: got masked or missing values in row 0"),
        ({"head": 5}, "head: got 5"),
        ({"head": lambda x: None}, "head returned None"),
        ({"head": lambda x: (x, x)}, "head returned a tuple"),
        ({"head": lambda x: x[1:]}, r"head returned shape \[399, 5\] for concepts of shape \[400, 5\]"),
        ({"head": lambda x: x[:, :, None]}, r"returned shape \[400, 5, 1\]"),
        ({"head": lambda x: x[:, :0]}, r"returned shape \[400, 0\]"),
    ],
)
def test_what_does_not_fit_is_named_with_what_was_expected(change: dict[str, Any], says: str) -> None:
    c_hat, c, _ = data()
    arguments = {"head": lambda x: x, "activations": c_hat, "labels": c, **change}
    with pytest.raises(ValueError, match=says):
        interventions(**arguments)


@pytest.mark.parametrize("policy", ["random", "coop"])
def test_a_head_that_works_in_place_leaves_the_activations_as_they_are(array: Any, policy: str) -> None:
    def in_place(x: Any) -> Any:
        x -= 0.5
        return x[:, 0] + x[:, 1]

    c_hat, c, _ = data()
    samples = np.stack([c_hat, c_hat], 2)
    for activations in (c_hat, samples):
        given = array(activations.copy())
        found = both(interventions(in_place, given, array(c), policy=policy))
        expected = both(interventions(lambda x: in_place(x + 0), array(activations), array(c), policy=policy))
        assert (np.asarray(given) == activations).all()
        assert all((one == other).all() for one, other in zip(found, expected, strict=True))


# ---------------------------------------------------------------- modules


@pytest.mark.parametrize("by_method", [False, True])
def test_a_module_keeps_its_modes_gradients_and_randomness(torch: Any, by_method: bool) -> None:
    class Noisy(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.drop, self.out = torch.nn.BatchNorm1d(K), torch.nn.Dropout(), torch.nn.Linear(K, 3)
            self.norm.eval()

        def forward(self, x: Any) -> Any:
            assert not any(part.training for part in self.modules())
            assert not torch.is_grad_enabled()
            return self.out(self.drop(self.norm(x)))

    head = Noisy()
    called = head.forward if by_method else head
    c_hat, c, _ = data()
    logits = torch.as_tensor(c_hat).requires_grad_()
    torch.manual_seed(1)
    before = {name: tensor.clone() for name, tensor in head.state_dict().items()}
    modes = [part.training for part in head.modules()]
    found = interventions(called, logits, torch.as_tensor(c))
    assert [part.training for part in head.modules()] == modes == [True, False, True, True]
    assert all((before[name] == tensor).all() for name, tensor in head.state_dict().items())
    assert all(parameter.grad is None for parameter in head.parameters())
    assert found["intervention_predictions"].dtype == torch.int32
    drawn = torch.rand(3)
    torch.manual_seed(1)
    assert (drawn == torch.rand(3)).all()
    # A head that raises gets its modes back as well.
    with pytest.raises(RuntimeError):
        interventions(called, logits[:, :4], torch.as_tensor(c[:, :4]))
    assert [part.training for part in head.modules()] == modes


def test_a_function_s_random_numbers_are_given_back(torch: Any) -> None:
    c_hat, c, _ = data()

    def head(x: Any) -> Any:
        np.random.random(3)
        return torch.nn.functional.dropout(x, 0.5)

    for array in (np.asarray, torch.as_tensor):
        torch.manual_seed(2)
        np.random.seed(2)
        called = head if array is torch.as_tensor else (lambda x: head(torch.as_tensor(x)).numpy())
        interventions(called, array(c_hat), array(c))
        drawn = torch.rand(1).item(), np.random.random()
        torch.manual_seed(2)
        np.random.seed(2)
        assert drawn == (torch.rand(1).item(), np.random.random())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_activations_of_another_type_reach_the_head_in_its_own(torch: Any, dtype: str) -> None:
    head = torch.nn.Linear(K, 3)
    c_hat, c, _ = data()
    plain = both(interventions(head, torch.as_tensor(c_hat), torch.as_tensor(c)))[0]
    other = both(interventions(head, torch.as_tensor(c_hat).to(getattr(torch, dtype)), torch.as_tensor(c)))[0]
    # With all concepts set the values are exact in every type.
    assert (plain[:, -1] == other[:, -1]).all()
    assert (plain == other).mean() > 0.97
    assert (both(interventions(head, c_hat, c))[0] == plain).all(), "arrays are taken by a module too"


def test_a_head_in_half_precision_runs_in_it(torch: Any) -> None:
    seen = []

    class Half(torch.nn.Linear):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            seen.append(x.dtype)
            return super().forward(x)

    c_hat, c, _ = data()
    interventions(Half(K, 3).bfloat16(), torch.as_tensor(c_hat), torch.as_tensor(c))
    assert set(seen) == {torch.bfloat16}
    seen.clear()
    with torch.autocast("cpu", torch.bfloat16):
        found = interventions(Half(K, 3), torch.as_tensor(c_hat).bfloat16(), torch.as_tensor(c))
    assert set(seen) == {torch.bfloat16}, "autocast converts by itself"
    assert (np.asarray(found["intervention_predictions"]) >= 0).all()


def test_a_cem_is_intervened_on_by_mixing_its_embeddings(torch: Any) -> None:
    torch.manual_seed(3)
    positive, negative = torch.randn(N, K, 4), torch.randn(N, K, 4)
    head = torch.nn.Linear(4 * K, 3)
    c_hat, c, _ = data()
    found = interventions(
        conceptwatch.embedding_head(head, positive, negative), torch.as_tensor(c_hat), torch.as_tensor(c)
    )
    share = torch.as_tensor(c)[:, :, None].float()
    with torch.no_grad():
        expected = head((share * positive + (1 - share) * negative).flatten(1)).argmax(1)
    assert (found["intervention_predictions"][:, -1] == expected).all()
    seen = []
    unflattened = conceptwatch.embedding_head(
        lambda e: seen.append(e.shape) or e[:, :, 0], positive, negative, flatten=False
    )
    interventions(unflattened, torch.as_tensor(c_hat), torch.as_tensor(c))
    assert set(seen) == {(N, K, 4)}
    with pytest.raises(ValueError, match=r"shape \[400, 5, 4\] and negative ones of \[400, 5, 3\]"):
        conceptwatch.embedding_head(head, positive, negative[:, :, 1:])


def test_scikit_learn_s_classifiers_are_heads() -> None:
    c_hat, c, y = data()

    class Classifier:
        def predict(self, x: Any) -> Any:
            return (x[:, 0] > 0.5).astype(np.int64)

    assert accuracies(both(interventions(Classifier().predict, c_hat, c))[0], y)[-1] == 1.0


def test_a_linear_head_is_known_as_one(torch: Any) -> None:
    nn = torch.nn
    layer = nn.Linear(3, 2)
    linear = [layer, nn.Sequential(layer, nn.Softmax(1)), nn.Sequential(nn.Flatten(), layer)]
    others = [
        nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(3, 4), nn.Sigmoid(), nn.Linear(4, 2)),
        nn.Bilinear(3, 3, 2),
        lambda c: c,
    ]
    assert [Head.of(head).is_linear() for head in linear] == [True] * 3
    assert [Head.of(head).is_linear() for head in others] == [False] * 4


@pytest.mark.parametrize("policy", ["random", "coop"])
def test_a_head_of_probabilities_predicts_and_orders_as_its_logits_do(array: Any, policy: str) -> None:
    c_hat, c, _ = data(6)

    def logits(x: Any) -> Any:
        return np.asarray(x) @ (np.arange(K) - 2.0)

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-logits(x)))

    def made(head: Callable[[Any], Any], **options: Any) -> Any:
        return both(interventions(lambda x: array(head(x)), array(c_hat), array(c), policy=policy, **options))

    expected = made(logits)
    assert 0 < expected[0].mean() < 1
    assert np.array_equal(made(lambda x: np.stack([0 * logits(x), logits(x)], 1)), expected)
    assert np.array_equal(made(lambda x: np.stack([1 - sigmoid(x), sigmoid(x)], 1)), expected), "a softmax"
    assert np.array_equal(made(sigmoid), expected)
    assert np.array_equal(made(sigmoid, threshold=0.5), expected)


def test_logits_of_one_task_and_probabilities_of_another_predict_the_same(array: Any) -> None:
    c_hat, c, _ = data(6)

    def outputs(x: Any) -> list[Any]:
        logits = np.asarray(x) @ (np.arange(K) - 2.0)
        return [array(logits), array(1 / (1 + np.exp(-logits)))]

    tasks = ["by logits", "by probabilities"]
    for found in both(interventions(outputs, array(c_hat), array(c), tasks=tasks)):
        assert np.array_equal(found[..., 0], found[..., 1])
        assert found[..., 0].any()


def test_logits_are_known_by_those_of_earlier_batches() -> None:
    head = Head(lambda x: x.sum(1) - 2.0)
    ones = np.ones((4, K), int)
    assert both(interventions(head, np.zeros((4, K)), ones))[0][:, 0].tolist() == [0] * 4
    head.steps, head.low, head.high = 2, 0.43, 0.5
    found = both(interventions(head, np.full((1, K), 0.45), ones[:1]))
    assert np.ravel(found).tolist() == [1] * 4, "logits of 0.25, 0.5 and 0.15"


def test_small_logits_of_a_model_that_has_learnt_little_are_logits(torch: Any) -> None:
    layer = torch.nn.Linear(K, 1)
    with torch.no_grad():
        layer.weight.fill_(0.01)
        layer.bias.fill_(0.2)
    c_hat, c = torch.rand(16, K), torch.randint(0, 2, (16, K))
    vectors = torch.rand(16, K, 1)
    for head in (
        layer,
        torch.nn.Sequential(layer, torch.nn.Flatten(0)),
        conceptwatch.embedding_head(layer, vectors, vectors),
    ):
        assert all((predictions == 1).all() for predictions in both(interventions(head, c_hat, c)))
    sigmoid = torch.nn.Sequential(layer, torch.nn.Sigmoid(), torch.nn.Flatten(0))
    assert all((predictions == 1).all() for predictions in both(interventions(sigmoid, c_hat, c)))
    # A function shows no layer; the model's own predictions decide.
    for own in (0, 1):
        tensors = {"concept_activations": c_hat, "concept_labels": c, "task_predictions": torch.full((16,), own)}
        run = messages.Run(concepts=concepts_of(K))
        made = with_head(Head(layer.forward), run, ["probability"] * K, tensors, Recent(), 0)
        assert all((predictions == own).all() for predictions in both(made))


@pytest.mark.parametrize("layer", [False, True])
def test_probabilities_of_a_model_with_another_threshold_stay_probabilities(torch: Any, layer: bool) -> None:
    c_hat, c = torch.rand(64, K), torch.randint(0, 2, (64, K))
    linear = torch.nn.Linear(K, 1)
    with torch.no_grad():
        linear.weight.fill_(2.0)
        linear.bias.fill_(-float(K))
    head = torch.nn.Sequential(linear, torch.nn.Sigmoid())
    own = (head(c_hat)[:, 0] > 0.1).int()  # most of them are class 1
    run = messages.Run(concepts=concepts_of(K))
    tensors = {"concept_activations": c_hat, "concept_labels": c, "task_predictions": own}
    made = with_head(Head(head if layer else head.forward), run, ["probability"] * K, tensors, Recent(), 0)
    assert (both(made)[0][:, 0] == (head(c_hat)[:, 0] > 0.5).int().numpy()).all()


def test_wrappers_of_a_linear_head_leave_it_linear_and_its_curves(torch: Any) -> None:
    torch.manual_seed(0)
    c_hat, c = torch.rand(64, 3), torch.randint(0, 2, (64, 3))
    layer = torch.nn.Linear(3, 2)
    expected = interventions(layer, c_hat, c)
    for wrapped in (torch.compile(layer, backend="eager"), torch.nn.DataParallel(layer)):
        assert Head.of(wrapped).is_linear()
        found = interventions(wrapped, c_hat, c)
        assert all((found[name] == expected[name]).all() for name in expected)


SHARDED = """
import os, sys, torch, conceptwatch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard

rank = int(os.fork() == 0)  # so that the packages are imported once
torch.distributed.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=2)
cpu, mesh = torch.device("cpu"), init_device_mesh("cpu", (2,))

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)
    def forward(self, x):
        return self.head(self.encoder(x))

def curves(model, head):
    model(torch.rand(8, 4)).sum().backward()
    try:
        found = conceptwatch.interventions(head, torch.rand(8, 3), torch.randint(0, 2, (8, 3)))
        return found.counts, conceptwatch.Head(head).is_linear()
    except ValueError as error:
        return "FSDP has its parameters only while the whole model runs" in str(error)

found = []
model = Model()
model.head = FSDP(model.head, device_id=cpu)
found.append(curves(FSDP(model, device_id=cpu), model.head))
model = Model()
fully_shard(model.head, mesh=mesh)
found.append(curves(fully_shard(model, mesh=mesh), model.head))
for wrapped in (
    lambda model: FSDP(model, device_id=cpu), lambda model: FSDP(model, device_id=cpu, use_orig_params=True),
    lambda model: fully_shard(model, mesh=mesh),
):
    model = Model()
    found.append(curves(wrapped(model), model.head))
with open(f"{sys.argv[1]}-{rank}", "w") as file:
    file.write(repr(found))
if rank == 0:
    assert os.wait()[1] == 0
"""


def test_a_head_under_fsdp_has_curves_or_one_reason(torch: Any, tmp_path: Path) -> None:
    done = python("-W", "ignore", "-c", SHARDED, tmp_path / "rank")
    assert done.returncode == 0, done.stderr[-3000:]
    for rank in range(2):
        assert (tmp_path / f"rank-{rank}").read_text() == str([((0, 1, 2, 3), True)] * 2 + [True] * 3)


def test_percentiles_take_more_than_torch_s_quantiles(torch: Any) -> None:
    values = torch.randn(1001, 3)
    values[5, 0] = values[:, 2] = torch.nan
    for found, expected in zip(percentiles(values), np.nanpercentile(values[:, :2], (5, 95), axis=0), strict=True):
        np.testing.assert_allclose(found[:2], expected, rtol=1e-5)
        assert torch.isnan(found[2])
    # torch.quantile refuses 16 million and more.
    low, high = percentiles(torch.arange(17_000_001).flip(0)[:, None])
    assert (low.item(), high.item()) == (850_000, 16_150_000)
    assert percentiles(values.half())[0].dtype == torch.float32


def test_each_concept_is_set_by_its_own_kind(array: Any) -> None:
    """A probability, a logit, three classes and a number: the head shows what it is given."""
    random = np.random.default_rng(0)
    labels = np.stack([np.arange(N) % 2, np.arange(N) % 2, np.arange(N) % 3, random.normal(size=N) * 10], 1)
    c_hat = random.normal(size=(N, 6)).astype(np.float32)
    c_hat[:, 0] = 0.5
    head = Seen()
    kinds = ["probability", "logit", "probability", "continuous"]
    options = {"kind": kinds, "cardinalities": [0, 0, 3, 0], "policy": "in_order", "steps": [0, 4]}
    interventions(head, array(c_hat), array(labels.astype(np.float32)), **options)
    _, true, wrong = head.calls
    ends = np.percentile(c_hat[:, 1].astype(np.float64), [5, 95]).astype(np.float32)
    assert np.array_equal(true[:, 0], labels[:, 0])
    assert np.array_equal(wrong[:, 0], 1 - labels[:, 0])
    np.testing.assert_allclose(true[:, 1], ends[labels[:, 1].astype(int)], rtol=1e-6)
    assert np.array_equal(true[:, 2:5].argmax(1), labels[:, 2])
    assert (wrong[:, 2:5].argmax(1) != labels[:, 2]).all()
    np.testing.assert_allclose(true[:, 5], labels[:, 3], rtol=1e-6)
    low, high = np.percentile(labels[:, 3], [5, 95])
    np.testing.assert_allclose(wrong[:, 5], np.where(2 * labels[:, 3] > low + high, low, high), rtol=1e-5)
    # A number may be negative, and only NaN is unknown.
    unknown = labels.copy()
    unknown[0] = [-1, -1, -1, np.nan]
    head.calls.clear()
    interventions(head, array(c_hat), array(unknown.astype(np.float32)), **options)
    assert np.array_equal(head.calls[1][0], c_hat[0])
    with pytest.raises(ValueError, match="kind: got 2 kinds, expected one, or one for each of 4 concepts"):
        interventions(head, array(c_hat), array(labels), **{**options, "kind": ["logit", "logit"]})
    with pytest.raises(ValueError, match="kind: got 'number', expected one of hard"):
        interventions(head, array(c_hat), array(labels), **{**options, "kind": ["number"] * 4})
