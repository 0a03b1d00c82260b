"""The adapters, with batches and outputs of the shapes that their libraries have.

torch-explain is the real package, and `test_examples.py` has that of PyTorch Concepts. The other libraries are in no
package registry (PyPI's `cem` is another project): `test_integration_docs.py` has small models with the forward and
batches of their sources, and the real sidecar.
"""

from __future__ import annotations

import importlib
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conceptwatch import adapters
from conceptwatch._tensors import Checks, Concepts
from conftest import package


def test_torch_explain(torch: Any) -> None:
    te = package("torch_explain")
    embedder, linear = te.nn.ConceptEmbedding(10, 3, 4), torch.nn.Linear(12, 1)
    reasoner = importlib.import_module("torch_explain.nn.concepts").ConceptReasoningLayer(4, 2)
    embeddings, probabilities = embedder(torch.rand(6, 10))
    x, c, y, ids = torch.zeros(6, 10), torch.randint(0, 2, (6, 3)).float(), torch.tensor([0.0, 1] * 3), torch.arange(6)
    one_hot = torch.nn.functional.one_hot(y.long(), 2).float()
    reasoned, logits = reasoner(embeddings, probabilities), linear(embeddings.flatten(1))
    for labels, outputs in ((one_hot, reasoned), (y, logits)):
        found = adapters.torch_explain((x, c, labels, ids), (embeddings, probabilities, outputs))
        assert found["concept_activations"] is probabilities
        assert found["concept_embeddings"] is embeddings
        assert found["concept_labels"].equal(c > 0.5)
        assert found["task_labels"].equal(y.long())
        assert found["sample_ids"] is ids
        Checks(Concepts((0, 0, 0))).logged(found)
    assert found["task_predictions"].equal(logits[:, 0] > 0)
    assert adapters.torch_explain((x, c, one_hot), (embeddings, probabilities, reasoned))["task_logits"] is reasoned


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
    given: list[Any] = []
    with_head = adapters.cem((x, y, c), (c_sem, mixed, logits, None, latent), embedding_size=2, head=given.append)
    with_head["head"](c_sem)
    share = c_sem[:, :, None]
    assert torch.equal(given[0], (share * positive + (1 - share) * negative).flatten(1))
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


def test_scbm(torch: Any) -> None:
    """Its concepts are Monte-Carlo samples."""
    batch = {"concepts": torch.tensor([[0, 1, 1]] * 4), "labels": torch.tensor([5, 0, 1, 2])}
    samples, logits, head = torch.rand(4, 3, 20), torch.rand(4, 6), torch.nn.Linear(3, 6)
    found = adapters.scbm(batch, (samples, torch.rand(4, 3), torch.rand(4, 3, 3), logits), head=head)
    assert found["concept_activations"] is samples
    assert found["concept_labels"].tolist() == [[False, True, True]] * 4
    assert (found["task_labels"].tolist(), found["task_logits"], found["head"]) == ([5, 0, 1, 2], logits, head)


def test_label_free_cbm_of_arrays(torch: Any) -> None:
    """Its features and labels are often saved by NumPy."""
    projections, labels, logits = torch.rand(6, 3), torch.tensor([0, 1, 2, 1, 0, 2]), torch.rand(6, 3)
    expected = adapters.label_free_cbm((None, labels), (logits, projections))
    # Nothing that needs concept labels is made up.
    assert expected.keys() == {"concept_activations", "concept_embeddings", "task_labels", "task_logits"}
    assert expected["concept_embeddings"].shape == (6, 3, 1)
    found = adapters.label_free_cbm((None, labels.numpy()), (logits.numpy(), projections.numpy()))
    assert found.keys() == expected.keys()
    for name, values in found.items():
        np.testing.assert_array_equal(values, expected[name])


class Annotated:
    """As AnnotatedTensor of PyTorch Concepts: columns by name, the plain tensor inside."""

    def __init__(self, tensor: Any, columns: dict[str, slice]) -> None:
        self.tensor, self.columns = tensor, columns

    def __getitem__(self, name: str) -> Any:
        return Annotated(self.tensor[:, self.columns[name]], {})


@pytest.mark.parametrize("named", [True, False])
def test_pytorch_concepts(torch: Any, named: bool) -> None:
    """A binary concept, one of two classes, one of three, and the task between them."""
    annotations = SimpleNamespace(labels=["sign", "task", "pair", "colour"], cardinalities=[1, 1, 2, 3])
    assert adapters.pytorch_concepts_of(annotations, "task") == [("sign", 0), ("pair", 0), ("colour", 3)]
    c, logits = torch.tensor([[0.0, 1, 1, 2]] * 4), torch.randn(4, 7)
    # By name in another order than that of the annotations.
    places = {"sign": slice(6, 7), "task": slice(5, 6), "pair": slice(3, 5), "colour": slice(0, 3)}
    reordered = torch.cat([logits[:, 4:], logits[:, 2:4], logits[:, 1:2], logits[:, :1]], 1)
    outputs = SimpleNamespace(logits=Annotated(reordered, places)) if named else logits
    batch = {"concepts": {"c": c}, "sample_ids": torch.arange(4)}
    found = adapters.pytorch_concepts(batch, outputs, annotations=annotations, task="task")
    expected = [logits[:, :1], logits[:, 3:4] - logits[:, 2:3], logits[:, 4:]]
    assert found["concept_activations"].equal(torch.cat(expected, 1))
    assert found["concept_labels"].tolist() == [[0, 1, 2]] * 4
    assert found["task_labels"].tolist() == [1] * 4
    assert found["task_predictions"].equal(logits[:, 1] > 0)
    assert found["sample_ids"] is batch["sample_ids"]
    with pytest.raises(ValueError, match="task"):
        adapters.pytorch_concepts(batch, outputs, annotations=annotations, task="parity")


@pytest.mark.parametrize("quantity", ["loc", "value"])
def test_pytorch_concepts_that_are_mixed(torch: Any, quantity: str) -> None:
    """As annotated by 1.0.0a7: a number among binary and categorical variables, which has a quantity of its own."""
    annotations = SimpleNamespace(
        labels=["size", "sign", "colour", "task"], cardinalities=[1, 1, 3, 1],
        types=["continuous", "binary", "categorical", "binary"],
    )  # fmt: skip
    concepts = adapters.pytorch_concepts_of(annotations, "task")
    assert concepts == [conceptwatch.Continuous("size"), ("sign", 0), ("colour", 3)]
    c, logits, loc = torch.tensor([[0.7, 1, 2, 1]] * 4), torch.randn(4, 5), torch.randn(4, 1)
    c[0] = torch.tensor([math.nan, math.nan, -1.0, 1.0])
    places = {"sign": slice(0, 1), "colour": slice(1, 4), "task": slice(4, 5)}
    quantities = {"loc": None, "value": None, quantity: Annotated(loc, {"size": slice(0, 1)})}
    outputs = SimpleNamespace(logits=Annotated(logits, places), **quantities)
    found = adapters.pytorch_concepts(
        {"concepts": {"c": c}}, outputs, annotations=annotations, task="task", missing_concept_labels=True
    )
    assert found["concept_activations"].equal(torch.cat([loc, logits[:, :4]], 1))
    assert math.isnan(found["concept_labels"][0, 0])
    assert found["concept_labels"][0, 1:].tolist() == [-1, -1]
    assert found["concept_labels"][1:].equal(c[1:, :3])


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
