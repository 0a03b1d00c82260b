"""Runs that intervene on their head: what is sent, failures, callbacks and the real sidecar's scores."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conceptwatch import Head
from conceptwatch._protocol import messages
from conceptwatch.adapters import cem as cem_adapter
from conftest import K, Start, Warned, batch, evaluated, package, wait_for
from real_sidecar import curve
from sidecar import Sidecar

NAMES = ("intervention_predictions", "wrong_intervention_predictions")


def first(concepts: Any) -> Any:
    return concepts[:, 0] - 0.5


def sent(sidecar: Sidecar, batches: int = 1) -> list[dict[str, Any]]:
    """The tensors of each batch that came, as arrays."""
    wait_for(lambda: len(sidecar.received) >= batches)
    types = {
        messages.DATA_TYPE_FLOAT32: np.float32, messages.DATA_TYPE_INT32: np.int32,
        messages.DATA_TYPE_INT64: np.int64, messages.DATA_TYPE_UINT64: np.uint64,
    }  # fmt: skip
    return [
        {
            tensor.name: np.frombuffer(tensor.data, types[tensor.dtype]).reshape(list(tensor.shape))
            for tensor in one.head.tensors
        }
        for one in sidecar.received
    ]


@pytest.mark.parametrize(
    ("steps", "columns", "declared"),
    [(None, K + 1, []), ([0, 1, 3], 3, [0, 1, 3])],
    ids=["evenly spaced, which need no declaration", "uneven"],
)
def test_a_head_adds_its_predictions_to_evaluations(
    sidecar: Sidecar, start: Start, steps: Any, columns: int, declared: list[int]
) -> None:
    run = start(head=Head(first, steps=steps))
    tensors = batch(20, first_id=0)
    evaluated(run, tensors)
    run.log(step=1, **tensors)
    of_pass, of_training = sent(sidecar, 2)
    assert of_pass[NAMES[0]].shape == of_pass[NAMES[1]].shape == (20, columns)
    assert (of_pass[NAMES[0]][:, -1] == tensors["concept_labels"][:, 0]).all()
    assert (of_pass[NAMES[1]][:, -1] == 1 - tensors["concept_labels"][:, 0]).all()
    assert not set(NAMES) & set(of_training), "training steps are not evaluated twice"
    assert list(sidecar.starts[0].run.constants.intervention_counts) == declared


def test_predictions_that_are_logged_are_not_made_again(sidecar: Sidecar, start: Start) -> None:
    run = start(head=first)
    tensors = batch(20)
    own = conceptwatch.interventions(lambda x: 1 - x[:, 0], tensors["concept_activations"], tensors["concept_labels"])
    with run.evaluation("val", step=1) as p:
        p.log(**tensors, **own)
        p.log(**tensors, head=lambda x: x[:, 1] - 0.5)
    logged, of_batch = sent(sidecar, 2)
    assert (logged[NAMES[0]] == own[NAMES[0]]).all()
    assert (of_batch[NAMES[0]][:, -1] == tensors["concept_labels"][:, 1]).all()


def test_logits_are_set_to_percentiles_of_what_is_trained_on(sidecar: Sidecar, start: Start) -> None:
    random, seen = np.random.default_rng(0), []
    run = start(activation_kind="logit", head=lambda x: seen.append(x) or x[:, 0])
    validation, trained = random.normal(0, 1, (2, 300, K)), random.normal(0, 5, (2, 300, K))
    labels = np.ones((300, K), np.int64)

    def high_of_each() -> list[Any]:
        seen.clear()
        with run.evaluation("val", step=1) as p:
            for logits in validation:
                p.log(concept_activations=logits, concept_labels=labels)
        half = len(seen) // 2
        return [seen[half - 2][0], seen[-2][0]]

    def high(logits: Any) -> Any:
        return pytest.approx(np.percentile(logits.reshape(-1, K), 95, axis=0))

    assert high_of_each() == [high(validation[0]), high(validation)]
    # Of the newest 1,024 rows.
    assert high_of_each()[1] == high(np.concatenate([validation, validation]))
    for logits in trained:
        run.log(step=1, concept_activations=logits, concept_labels=labels)
    assert high_of_each() == [high(trained)] * 2
    conceptwatch.init("off", concepts=3, mode="disabled").log(step=1, concept_activations=trained[0])


def test_predictions_for_other_counts_than_the_run_s_are_refused(start: Start, warned: Warned) -> None:
    run, tensors = start(), batch(20)
    arrays = tensors["concept_activations"], tensors["concept_labels"]
    with run.evaluation("val", step=1) as p:
        p.log(**tensors, **conceptwatch.interventions(first, *arrays, steps=[0, 1, 3]))
    assert "are for [0, 1, 3] concepts set, but the run expects [0, 2, 3]; pass intervention_counts=[0, 1, 3]" in str(
        warned()
    )
    stated = start(name="stated", intervention_counts=[0, 1, 3], raise_errors=True)
    with stated.evaluation("val", step=1) as p:
        p.log(**tensors, **conceptwatch.interventions(first, *arrays, steps=[0, 1, 3]))
        with pytest.raises(ValueError, match=r"are for \[0, 1, 2, 3\] concepts set, but the run expects \[0, 1, 3\]"):
            p.log(**tensors, **conceptwatch.interventions(first, *arrays))


def raises(concepts: Any) -> Any:
    raise RuntimeError("out of memory")


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (raises, "head: RuntimeError: out of memory"),
        (lambda x: x[1:], r"head returned shape [19, 3] for concepts of shape [20, 3]; it must return logits [20, l]"),
        (lambda x: None, "head returned None"),
        (lambda x: np.array(["a"] * len(x)), "head returned elements"),
    ],
)
def test_a_head_that_fails_costs_its_own_scores_only(
    sidecar: Sidecar, start: Start, warned: Warned, head: Any, says: str
) -> None:
    run = start(head=head)
    with run.evaluation("val", step=1) as p:
        for _ in range(3):
            p.log(**batch(20))
    for tensors in sent(sidecar, 3):
        assert tensors["concept_activations"].shape == (20, K)
        assert (tensors[NAMES[0]] == -1).all()
        assert tensors[NAMES[1]].shape == (20, K + 1)
    assert (run.stats.heads_failed, run.stats.batches_dropped) == (3, {})
    messages = [message for message in warned() if says in message]
    assert len(messages) == 1, warned()
    with pytest.raises((RuntimeError, ValueError)):
        start(name="strict", head=head, raise_errors=True).evaluation("val", step=1).log(**batch(20))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"head": 7}, "head: got 7"),
        ({"head": first, "latents": 5}, "head: leave it out with latents"),
        ({"head": Head(first, steps=[0, 5])}, "steps"),
        ({"head": Head(first, groups=[[0, 9]])}, "groups"),
    ],
)
def test_options_that_cannot_work_are_errors_of_init(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        conceptwatch.init("run", concepts=3, spawn=False, **wrong)


def test_a_batch_without_concepts_is_logged_as_it_is(sidecar: Sidecar, start: Start) -> None:
    run, tensors = start(head=first), batch(20)
    del tensors["concept_labels"]
    evaluated(run, tensors)
    (found,) = sent(sidecar)
    assert set(found) == {"concept_activations", "task_labels"}


def test_of_a_measured_task_the_numbers_are_logged(sidecar: Sidecar, start: Start) -> None:
    def head(values: Any) -> Any:
        found = values @ np.array([1.0, 2.0, 4.0], np.float32)
        return np.where(np.arange(len(found)) == 3, np.inf, found)[:, None]

    run, tensors = start(head=head, task_labels="continuous"), batch(20)
    evaluated(run, tensors)
    (found,) = sent(sidecar)
    all_true = found["intervention_predictions"][:, -1]
    expected = tensors["concept_labels"] @ np.array([1.0, 2.0, 4.0])
    assert np.isnan(all_true[3])
    assert np.allclose(np.delete(all_true, 3), np.delete(expected, 3))
    assert run.stats.heads_failed == 0


def test_a_head_of_several_outputs_is_none_of_a_measured_task(sidecar: Sidecar, start: Start, warned: Warned) -> None:
    run = start(head=lambda values: np.zeros((len(values), 2)), task_labels="continuous")
    evaluated(run, batch(20))
    (found,) = sent(sidecar)
    assert np.isnan(found["intervention_predictions"]).all()
    assert any("must return a number a row" in message for message in warned())


def test_a_disabled_run_does_not_call_its_head() -> None:
    with conceptwatch.init("off", concepts=3, mode="disabled", head=raises) as run, run.evaluation("v", step=1) as p:
        p.log(**batch(20))


# ---------------------------------------------------------------- the real sidecar


def test_the_sidecar_scores_what_the_head_loses(address: str) -> None:
    """The task is the first concept; the head has learnt it from what leaked into the third."""
    random = np.random.default_rng(0)
    c = random.integers(0, 2, (600, 3))
    y = c[:, 0]
    c_hat = np.column_stack([random.random((600, 2)), np.where(y == 1, 0.7, 0.3)]).astype(np.float32)
    tensors = {"concept_activations": c_hat, "concept_labels": c, "task_labels": y}
    with conceptwatch.init("leaks", concepts=3, address=address, spawn=False, head=lambda x: x[:, 2] - 0.5) as run:
        with run.evaluation("val", step=1) as p:
            for start in range(0, 600, 200):
                p.log(**{name: array[start : start + 200] for name, array in tensors.items()})
        scores = p.scores(timeout=60.0)
    after = float(np.mean([np.mean(c[y == label, 2] == label) for label in (0, 1)]))  # balanced
    assert scores["intervention_drop"].value == pytest.approx(1 - after)
    assert scores["wrong_intervention_drop"].value == pytest.approx(after)
    # In a random order the third concept is set in a third of the rows after each step.
    assert scores["intervention_area"].value == pytest.approx((1 + after) / 2, abs=0.05)


def test_lightning_finds_the_head(torch: Any, address: str) -> None:
    lightning = package("lightning.pytorch", "lightning")
    toy = importlib.import_module("toy")
    module = toy.module(lightning, 0.01)
    options = {"head": "model.head", "raise_errors": True, "scores": ("intervention_drop",), "timeout": 120.0}
    monitor = toy.monitor("lightning head", address, **options)
    trainer = toy.trainer(lightning, monitor, max_epochs=2)
    trainer.fit(module, *toy.loaders())
    assert "leakage/intervention_drop" in trainer.callback_metrics
    before, area = (curve(address, "lightning head", score)[-1] for score in ("task_accuracy", "intervention_area"))
    # The head's own predictions on untouched concepts are the model's.
    assert before["value"] is not None
    assert area["value"] is not None
    assert monitor.run.stats.heads_failed == 0


def test_a_head_of_cem_that_reads_more_than_concepts_keeps_the_rest(torch: Any) -> None:
    torch.manual_seed(0)
    c_sem, extended = torch.rand(50, 3), torch.nn.Linear(5, 2)
    x, y, c = torch.zeros(50, 7), torch.randint(0, 2, (50,)), torch.randint(0, 2, (50, 3)).float()
    bottleneck = torch.cat([c_sem, torch.randn(50, 2)], 1)
    tensors = cem_adapter((x, y, c), (c_sem, bottleneck, extended(bottleneck)), head=extended)
    found = conceptwatch.interventions(tensors["head"], tensors["concept_activations"], tensors["concept_labels"])
    assert (found[NAMES[0]][:, 0] == extended(bottleneck).argmax(1)).all()
    assert (found[NAMES[0]][:, -1] == extended(torch.cat([c, bottleneck[:, 3:]], 1)).argmax(1)).all()
