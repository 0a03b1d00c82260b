"""The adapters, each in a loop as its library has it, with the real sidecar.

torch-explain is the real package, and `test_examples.py` has that of PyTorch Concepts. The other libraries are in no
package registry (PyPI's `cem` is another project): their models are played here by small ones with the forward, shapes
and batches of their sources, named in the adapters.
"""

from __future__ import annotations

import importlib
import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conceptwatch import adapters
from conftest import evaluated, package
from real_sidecar import curve

ROWS = 1001


@pytest.fixture
def toy(torch: Any) -> Any:
    torch.manual_seed(0)
    return importlib.import_module("toy")


def start(name: str, address: str, **options: Any) -> conceptwatch.Run:
    options = {"concepts": 3, **options}
    return conceptwatch.init(name, address=address, spawn=False, raise_errors=True, **options)


def scores_of(run: conceptwatch.Run, step: int = 1) -> conceptwatch.Scores:
    scores = run.scores("val", step=step, timeout=120.0)
    assert (scores.rows, scores.incomplete) == (ROWS, False)
    return scores


def value(scores: conceptwatch.Scores, name: str) -> float:
    found = scores[name].value
    assert found is not None, scores[name].undefined
    return found


def tuples(torch: Any, rows: Any, *order: str) -> list[Any]:
    """Batches of tuples in this order, of a numbered data set."""
    data = torch.utils.data.TensorDataset(*(getattr(rows, name) for name in order))
    return list(torch.utils.data.DataLoader(adapters.Numbered(data), 300))


def validation(toy: Any) -> Any:
    x, c, y, _ = toy.loaders()[1].dataset.tensors
    return SimpleNamespace(x=x, c=c, y=y)


def test_torch_explain(torch: Any, toy: Any, address: str) -> None:
    te = package("torch_explain")
    encoder = torch.nn.Sequential(torch.nn.Linear(7, 10), torch.nn.LeakyReLU())
    embedder = te.nn.ConceptEmbedding(10, 3, 4)
    reasoner = importlib.import_module("torch_explain.nn.concepts").ConceptReasoningLayer(4, 2)
    linear = torch.nn.Linear(12, 1)
    parts = torch.nn.ModuleList([encoder, embedder, reasoner, linear])
    optimiser = torch.optim.AdamW(parts.parameters(), lr=0.01)
    x, c, y, _ = (tensor[:1000] for tensor in toy.loaders()[0].dataset.tensors)
    for _ in range(60):
        embeddings, probabilities = embedder(encoder(x), [0, 1], c, train=True)
        truth = torch.nn.functional.one_hot(y.long(), 2).float()
        loss = torch.nn.functional.binary_cross_entropy(probabilities, c)
        loss = loss + 0.5 * torch.nn.functional.binary_cross_entropy(reasoner(embeddings, probabilities), truth)
        loss = loss + torch.nn.functional.binary_cross_entropy_with_logits(linear(embeddings.flatten(1))[:, 0], y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    for predictor in ("reasoner", "linear"):
        with (
            start(f"torch-explain {predictor}", address) as run,
            torch.no_grad(),
            run.evaluation("val", step=1) as p,
        ):
            for x, c, y, ids in tuples(torch, validation(toy), "x", "c", "y"):
                embeddings, probabilities = embedder(encoder(x))
                if predictor == "reasoner":
                    classes = torch.nn.functional.one_hot(y.long(), 2).float()
                    batch, task = (x, c, classes, ids), reasoner(embeddings, probabilities)
                else:
                    batch, task = (x, c, y, ids), linear(embeddings.flatten(1))
                p.log(**adapters.torch_explain(batch, (embeddings, probabilities, task)))
        scores = scores_of(run)
        assert {"icl", "ctl", "embedding_ct", "embedding_ic", "embedding_self"} <= set(scores)
        assert value(scores, "concept_accuracy") > 0.7
        assert value(scores, "task_accuracy") > 0.7


def cem_module(torch: Any, lightning: Any, embedding_size: int | None) -> Any:
    """A module with the forward and steps of the cem repository: steps return losses only."""
    functional = torch.nn.functional

    class Model(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.pre_concept_model = torch.nn.Sequential(torch.nn.Linear(7, 32), torch.nn.LeakyReLU())
            self.contexts = torch.nn.ModuleList(torch.nn.Linear(32, 2 * (embedding_size or 1)) for _ in range(3))
            self.prob = torch.nn.Linear(2 * (embedding_size or 1), 1)
            self.c2y_model = torch.nn.Linear(3 * (embedding_size or 1), 1)

        def _forward(
            self, x: Any, intervention_idxs: Any = None, c: Any = None, y: Any = None, train: Any = None
        ) -> Any:
            hidden = self.pre_concept_model(x)
            contexts = torch.stack([context(hidden) for context in self.contexts], 1)
            logits = self.prob(contexts)[:, :, 0]
            c_sem = torch.sigmoid(logits)
            if embedding_size is None:
                return c_sem, logits, self.c2y_model(logits)
            weights = c_sem[:, :, None]
            mixed = contexts[:, :, :embedding_size] * weights + contexts[:, :, embedding_size:] * (1 - weights)
            c_pred = mixed.view(-1, 3 * embedding_size)
            return c_sem, c_pred, self.c2y_model(c_pred), (contexts, c_sem)

        def _run_step(self, batch: Any, train: bool) -> Any:
            x = batch[0]
            y, c = batch[1] if isinstance(batch[1], list) else (batch[1], batch[2])
            c_sem, _, y_logits = self._forward(x, c=c, y=y, train=train)[:3]
            task_loss = functional.binary_cross_entropy_with_logits(y_logits.reshape(-1), y)
            return task_loss + functional.binary_cross_entropy(c_sem, c)

        def training_step(self, batch: Any, batch_no: int) -> Any:
            return {"loss": self._run_step(batch, True)}

        def validation_step(self, batch: Any, batch_no: int) -> Any:
            return {"val_loss": self._run_step(batch, False)}

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    return Model()


@pytest.mark.parametrize("embedding_size", [8, None])
def test_cem(torch: Any, toy: Any, address: str, embedding_size: int | None) -> None:
    """Trained by the Lightning callback as it is: nothing of the module is changed."""
    lightning = package("lightning.pytorch")
    monitor = importlib.import_module("conceptwatch.lightning").LeakageMonitor(
        f"cem {embedding_size}", concepts=3, method="_forward", address=address, spawn=False, timeout=120.0,
        activation_kind="logit" if embedding_size is None else "probability", raise_errors=True,
        extract=partial(adapters.cem, embedding_size=embedding_size, logits=embedding_size is None),
    )  # fmt: skip
    trainer = toy.trainer(lightning, monitor, max_epochs=2)
    x, c, y, _ = toy.loaders()[0].dataset.tensors
    data = torch.utils.data.TensorDataset(x, y, c)
    rows = validation(toy)
    trainer.fit(
        cem_module(torch, lightning, embedding_size),
        torch.utils.data.DataLoader(data, 256, shuffle=True),
        torch.utils.data.DataLoader(adapters.Numbered(torch.utils.data.TensorDataset(rows.x, rows.y, rows.c)), 300),
    )
    expected = ["icl", "ctl", "concept_accuracy", "task_accuracy"]
    embeddings = ["embedding_ct", "alignment_leakage"]
    for score in expected + embeddings * (embedding_size is not None):
        points = curve(address, f"cem {embedding_size}", score)
        assert [point["rows"] for point in points] == [ROWS, ROWS]
        assert all(point["value"] is not None for point in points), score
        if score == "concept_accuracy":
            assert points[-1]["value"] > 0.7
    assert monitor.run.stats.batches_dropped == {}


def test_unknown_labels_stay_unknown_where_the_run_takes_them(torch: Any) -> None:
    c = torch.tensor([[0.0, 1.0, math.nan], [-1.0, 0.8, 0.2]])
    x, y, outputs = torch.zeros(2, 7), torch.tensor([0, 1]), (torch.rand(2, 3), torch.rand(2, 3), torch.rand(2, 2))
    known = adapters.cem((x, y, c), outputs)["concept_labels"]
    assert known.tolist() == [[False, True, False], [False, True, False]]
    labels = adapters.cem((x, y, c), outputs, missing_concept_labels=True)["concept_labels"]
    assert labels.tolist() == [[0, 1, -1], [-1, 1, 0]]


def test_cem_takes_the_batches_and_outputs_of_all_its_forms(torch: Any) -> None:
    x, y, c = torch.zeros(4, 7), torch.tensor([0, 1, 2, 1]), torch.tensor([[0.0, 1.0, 0.2], [1, 1, 0.8]] * 2)
    c_sem, mixed, logits = torch.rand(4, 3), torch.rand(4, 6), torch.rand(4, 5)
    positive, negative = torch.rand(4, 3, 2), torch.rand(4, 3, 2)
    plain = adapters.cem((x, y, c), (c_sem, mixed, logits), embedding_size=2)
    assert set(plain) == {
        "concept_activations", "concept_labels", "task_labels", "task_logits", "concept_embeddings",
    }  # fmt: skip
    assert plain["concept_embeddings"].shape == (4, 3, 2)
    assert torch.equal(plain["concept_embeddings"][:, 1], mixed[:, 2:4])
    assert plain["concept_labels"][0].tolist() == [False, True, False]
    nested = adapters.cem((x, [y, c], torch.arange(4)), (c_sem, mixed, logits, positive, negative), embedding_size=2)
    assert nested["sample_ids"].tolist() == [0, 1, 2, 3]
    assert torch.equal(nested["positive_embeddings"], positive)
    assert torch.equal(nested["negative_embeddings"], negative)
    latent = torch.cat([positive, negative], 2), c_sem
    both = adapters.cem((x, y, c), (c_sem, mixed, logits, None, latent), embedding_size=2)
    assert torch.equal(both["positive_embeddings"], positive)
    assert torch.equal(both["negative_embeddings"], negative)
    # A bottleneck with two dimensions more than concepts, and logits as activations.
    bottleneck = torch.rand(4, 5)
    logit = adapters.cem((x, y, c), (c_sem, bottleneck, logits), logits=True)
    assert torch.equal(logit["concept_activations"], bottleneck[:, :3])
    assert "concept_embeddings" not in logit


def test_cem_logs_what_a_head_of_bool_sees(torch: Any) -> None:
    """A bottleneck model with bool=True returns probabilities, and its head reads (c_pred > 0.5).float()."""
    x, y, c = torch.zeros(64, 7), torch.randint(0, 2, (64,)), torch.randint(0, 2, (64, 3))
    bottleneck, weights = torch.rand(64, 5), torch.randn(5, 2)
    given = []

    def head(concepts: Any) -> Any:
        given.append(concepts)
        return concepts @ weights

    outputs = bottleneck[:, :3], bottleneck, head((bottleneck > 0.5).float())
    found = adapters.cem((x, y, c), outputs, hard=True, head=head)
    seen = given[0]
    assert torch.equal(found["concept_activations"], seen[:, :3])
    assert torch.equal(found["head"](found["concept_activations"]), outputs[2])
    assert torch.equal(given[1], seen), "the extra dimensions are 0 and 1, too"
    for wrong in ({"logits": True}, {"embedding_size": 2}):
        with pytest.raises(ValueError, match=r"^hard: "):
            adapters.cem((x, y, c), outputs, hard=True, **wrong)


def test_scbm(torch: Any, toy: Any, address: str) -> None:
    encoder, means, head = torch.nn.Linear(7, 16), torch.nn.Linear(16, 3), torch.nn.Linear(3, 1)

    def forward(x: Any, epoch: int, validation: bool = False) -> Any:
        c_mu = means(torch.relu(encoder(x)))
        c_triang_cov = torch.eye(3).expand(len(x), 3, 3) * 0.5
        normal = torch.distributions.MultivariateNormal(c_mu, scale_tril=c_triang_cov)
        c_mcmc_prob = torch.sigmoid(normal.rsample([8]).movedim(0, -1))
        hard = torch.bernoulli(c_mcmc_prob) if validation else c_mcmc_prob
        probabilities = sum(torch.sigmoid(head(hard[:, :, i])) for i in range(8)) / 8
        return c_mcmc_prob, c_triang_cov, torch.logit(probabilities, eps=1e-6)

    parameters = [*encoder.parameters(), *means.parameters(), *head.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=0.02)
    x, c, y, _ = (tensor[:1000] for tensor in toy.loaders()[0].dataset.tensors)
    for epoch in range(30):
        samples, _, logits = forward(x, epoch)
        loss = torch.nn.functional.binary_cross_entropy(samples.mean(-1), c)
        loss = loss + torch.nn.functional.binary_cross_entropy_with_logits(logits[:, 0], y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    rows = validation(toy)
    data = [{"features": x, "concepts": c, "labels": y.long()} for x, c, y in zip(rows.x, rows.c, rows.y, strict=True)]
    with start("scbm", address) as run, torch.no_grad(), run.evaluation("val", step=1) as p:
        for batch in torch.utils.data.DataLoader(adapters.Numbered(data), 300):
            p.log(**adapters.scbm(batch, forward(batch["features"], 0, validation=True)))
    scores = scores_of(run)
    assert {"icl", "ctl"} <= set(scores)
    assert value(scores, "concept_accuracy") > 0.7
    assert value(scores, "task_accuracy") > 0.7
    full = adapters.scbm(batch, (torch.rand(4, 3, 20), torch.rand(4, 3), torch.rand(4, 3, 3), torch.rand(4, 6)))
    assert full["task_logits"].shape == (4, 6)


def test_label_free_cbm_of_arrays(torch: Any) -> None:
    """Its features and labels are often saved by NumPy."""
    projections, labels, logits = torch.rand(6, 3), torch.tensor([0, 1, 2, 1, 0, 2]), torch.rand(6, 3)
    expected = adapters.label_free_cbm((None, labels), (logits, projections))
    found = adapters.label_free_cbm((None, labels.numpy()), (logits.numpy(), projections.numpy()))
    assert found.keys() == expected.keys()
    for name, values in found.items():
        np.testing.assert_array_equal(values, expected[name])


def test_label_free_cbm(torch: Any, toy: Any, address: str) -> None:
    """Two runs without concept labels: in one the concepts tell of the task, in the other they are noise."""
    rows = validation(toy)
    found = {}
    for name, projections in (("informed", rows.x[:, :5]), ("noise", torch.randn(ROWS, 5))):
        standard = (projections - projections.mean(0)) / projections.std(0)
        final = torch.nn.Linear(5, 2)
        optimiser = torch.optim.Adam(final.parameters(), lr=0.1)
        for _ in range(50):
            loss = torch.nn.functional.cross_entropy(final(standard), rows.y.long())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        options = {"concepts": 5, "activation_kind": "continuous", "head_weights": final.weight}
        run = start(f"label-free {name}", address, **options)
        data = SimpleNamespace(images=standard, labels=rows.y.long())
        with run, torch.no_grad(), run.evaluation("val", step=1) as p:
            for images, labels, ids in tuples(torch, data, "images", "labels"):
                p.log(**adapters.label_free_cbm((images, labels, ids), (final(images), images)))
        scores = found[name] = scores_of(run)
        assert {"embedding_ct", "task_accuracy", "sparsity"} <= set(scores)
        # What needs concept labels is not made up.
        assert not {"icl", "ctl", "concept_accuracy"} & set(scores)
    assert value(found["informed"], "embedding_ct") > value(found["noise"], "embedding_ct") + 0.05


class Annotated:
    """As AnnotatedTensor of PyTorch Concepts: columns by name, the plain tensor inside."""

    def __init__(self, tensor: Any, columns: dict[str, slice]) -> None:
        self.tensor, self.columns = tensor, columns

    def __getitem__(self, name: str) -> Any:
        return Annotated(self.tensor[:, self.columns[name]], {})


@pytest.mark.parametrize("named", [True, False])
def test_pytorch_concepts(torch: Any, toy: Any, address: str, named: bool) -> None:
    """A binary concept, one of two classes, one of three, and the task between them."""
    rows = validation(toy)
    annotations = SimpleNamespace(labels=["sign", "task", "pair", "colour"], cardinalities=[1, 1, 2, 3])
    colour = rows.c[:, 2] + (rows.x[:, 6] > 2)
    labels = torch.stack([rows.c[:, 0], rows.y, rows.c[:, 1], colour], 1)
    logits = torch.randn(ROWS, 7)
    logits[:, 0] += 4 * (labels[:, 0] - 0.5)
    logits[:, 1] += 4 * (labels[:, 1] - 0.5)
    logits[torch.arange(ROWS), 2 + labels[:, 2].long()] += 3
    logits[torch.arange(ROWS), 4 + labels[:, 3].long()] += 3
    columns = {"sign": slice(0, 1), "task": slice(1, 2), "pair": slice(2, 4), "colour": slice(4, 7)}

    concepts = adapters.pytorch_concepts_of(annotations, "task")
    assert concepts == [("sign", 0), ("pair", 0), ("colour", 3)]
    extract = partial(adapters.pytorch_concepts, annotations=annotations, task="task")
    data = [{"inputs": {"x": x}, "concepts": {"c": c}} for x, c in zip(rows.x, labels, strict=True)]
    run = start(f"pyc {named}", address, concepts=concepts, activation_kind="logit")
    with run, run.evaluation("val", step=1) as p:
        for batch in torch.utils.data.DataLoader(adapters.Numbered(data), 300):
            part = logits[batch["sample_ids"]]
            # By name in another order than that of the annotations.
            shuffled = {name: slice(7 - one.stop, 7 - one.start) for name, one in columns.items()}
            reordered = torch.cat([part[:, columns[name]] for name in ("colour", "pair", "task", "sign")], 1)
            outputs = SimpleNamespace(logits=Annotated(reordered, shuffled)) if named else part
            p.log(**extract(batch, outputs))
    scores = scores_of(run)
    assert {"icl", "ctl"} <= set(scores)
    assert value(scores, "task_accuracy") == pytest.approx(((logits[:, 1] > 0) == rows.y).float().mean().item())
    right = [
        ((logits[:, 0] > 0) == labels[:, 0]).float().mean(),
        ((logits[:, 3] > logits[:, 2]) == labels[:, 2]).float().mean(),
        (logits[:, 4:].argmax(1) == labels[:, 3]).float().mean(),
    ]
    assert value(scores, "concept_accuracy") == pytest.approx(torch.stack(right).mean().item())
    with pytest.raises(ValueError, match="task"):
        adapters.pytorch_concepts(batch, outputs, annotations=annotations, task="parity")


@pytest.mark.parametrize("quantity", ["loc", "value"])
def test_pytorch_concepts_that_are_mixed(torch: Any, toy: Any, address: str, quantity: str) -> None:
    """As annotated by 1.0.0a7: a number among binary and categorical variables, which has a quantity of its own."""
    rows = validation(toy)
    annotations = SimpleNamespace(
        labels=["size", "sign", "colour", "task"], cardinalities=[1, 1, 3, 1],
        types=["continuous", "binary", "categorical", "binary"],
    )  # fmt: skip
    size, colour = rows.x[:, 5] - 3, rows.c[:, 2] + (rows.x[:, 6] > 2)
    labels = torch.stack([size, rows.c[:, 0], colour, rows.y], 1)
    logits = torch.randn(ROWS, 5)
    logits[:, 0] += 4 * (labels[:, 1] - 0.5)
    logits[torch.arange(ROWS), 1 + colour.long()] += 3
    logits[:, 4] += 4 * (rows.y - 0.5)
    loc = (size + 0.1 * torch.randn(ROWS))[:, None]
    places = {"sign": slice(0, 1), "colour": slice(1, 4), "task": slice(4, 5)}
    concepts = adapters.pytorch_concepts_of(annotations, "task")
    assert concepts == [conceptwatch.Continuous("size"), ("sign", 0), ("colour", 3)]
    batch = {"concepts": {"c": labels}, "sample_ids": torch.arange(ROWS)}
    quantities = {"loc": None, "value": None, quantity: Annotated(loc, {"size": slice(0, 1)})}
    outputs = SimpleNamespace(logits=Annotated(logits, places), **quantities)
    with start(f"pyc mixed {quantity}", address, concepts=concepts, activation_kind="logit") as run:
        evaluated(run, adapters.pytorch_concepts(batch, outputs, annotations=annotations, task="task"))
        scores = scores_of(run)
    right = [
        ((logits[:, 0] > 0) == labels[:, 1]).float().mean(),
        (logits[:, 1:4].argmax(1) == colour).float().mean(),
    ]
    assert value(scores, "concept_accuracy") == pytest.approx(torch.stack(right).mean().item())
    assert value(scores, "concept_r2") > 0.9
    unknown = labels.clone()
    unknown[0] = torch.tensor([math.nan, math.nan, -1.0, 1.0])
    found = adapters.pytorch_concepts(
        {"concepts": {"c": unknown}}, outputs, annotations=annotations, task="task", missing_concept_labels=True
    )["concept_labels"]
    assert math.isnan(found[0, 0])
    assert found[0, 1:].tolist() == [-1, -1]
    assert found[1:].equal(labels[1:, :3])


def test_pytorch_concepts_of_several_tasks(torch: Any) -> None:
    """Classes of two, of one column and of three, in the order of the tasks; numbers; or both."""
    annotations = SimpleNamespace(
        labels=["habitat", "sign", "pair", "flies"], cardinalities=[3, 1, 2, 1], types=["categorical"] * 4
    )
    logits, tasks = torch.randn(5, 7), ["pair", "habitat", "flies"]
    c = torch.tensor([[2.0, 1, 0, 1]] * 4 + [[math.nan, 0, 1, math.nan]])
    batch = {"concepts": {"c": c}}
    found = adapters.pytorch_concepts(batch, logits, annotations=annotations, task=tasks)
    assert found["concept_labels"].tolist() == [[1]] * 4 + [[0]]
    assert found["concept_activations"].equal(logits[:, 3:4])
    # A label that is unknown is marked: NaN is no class number.
    assert found["task_labels"].tolist() == [[0, 2, 1]] * 4 + [[1, -1, -1]]
    assert found["task_logits"].equal(torch.cat([logits[:, 5:6] - logits[:, 4:5], logits[:, :3], logits[:, 6:]], 1))
    assert adapters.pytorch_concepts_of(annotations, tasks) == [("sign", 0)]

    annotations.types = ["continuous" if name == "flies" else "categorical" for name in annotations.labels]
    number = adapters.pytorch_concepts(batch, logits, annotations=annotations, task="flies")
    assert number["task_predictions"].equal(logits[:, 6])
    assert number["task_labels"][:4].tolist() == [1.0] * 4
    mixed = adapters.pytorch_concepts(batch, logits, annotations=annotations, task=tasks)
    assert mixed["task_labels"][:4].tolist() == [[0.0, 2.0, 1.0]] * 4
    assert mixed["task_labels"][4, :2].tolist() == [1.0, -1.0]
    assert math.isnan(mixed["task_labels"][4, 2])
    assert mixed["task_logits"].equal(found["task_logits"])
    with pytest.raises(ValueError, match=r"task: got \[\], expected one or more of habitat, sign, pair, flies"):
        adapters.pytorch_concepts_of(annotations, [])


def test_numbers_behind_the_parts_that_a_training_reads(torch: Any) -> None:
    """IntCEM and IntCBM take the fourth part of a batch for competencies and the fifth for interventions."""
    rows = [(torch.rand(4), torch.tensor(1), torch.tensor([1.0, 0.0])) for _ in range(6)]
    loader = torch.utils.data.DataLoader(adapters.Numbered(rows, at=5), 4, num_workers=1)
    x, y, c, competencies, interventions, numbers = next(iter(loader))
    assert (x.shape, y.shape, c.shape) == ((4, 4), (4,), (4, 2))
    assert (competencies, interventions) == (None, None)
    assert numbers.tolist() == [0, 1, 2, 3]
    found = adapters.cem([x, y, c, None, None, numbers], (torch.rand(4, 2), torch.rand(4, 2), torch.rand(4, 3)))
    assert found["sample_ids"] is numbers
    # A data set that has competencies, and no numbers.
    found = adapters.cem([x, y, c, torch.ones(4, 2)], (torch.rand(4, 2), torch.rand(4, 2), torch.rand(4, 3)))
    assert "sample_ids" not in found
    nested = next(iter(torch.utils.data.DataLoader(adapters.Numbered([(x[0], [y[0], c[0]])], at=5), 1)))
    assert nested[2:] == [None, None, None, torch.tensor([0])]


def test_a_number_has_a_place_of_its_own(torch: Any) -> None:
    with pytest.raises(ValueError, match="at: got 2, but rows have 3 parts already; expected 3 or more"):
        adapters.Numbered([(1, 2, 3)], at=2)[0]
    with pytest.raises(ValueError, match=r"at: got -1, expected an index of 0 or more"):
        adapters.Numbered([(1, 2, 3)], at=-1)
