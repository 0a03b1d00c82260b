"""What is logged arrives bit by bit, whatever its type and layout, and what cannot be sent is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conceptwatch import Run
from conceptwatch._protocol import messages
from conceptwatch._tensors import Checks, Concepts, Fault
from conftest import Start, Warned, batch
from sidecar import Received, Sidecar


def sent(run: Run, sidecar: Sidecar, **tensors: Any) -> Received:
    run.log(step=1, **tensors)
    assert run.finish()
    assert run.stats.batches_dropped == {}
    return sidecar.received[0]


@pytest.mark.parametrize(
    "dtype",
    ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"],
)
def test_numpy_arrays_of_any_type_arrive_as_they_are(dtype: str, sidecar: Sidecar, start: Start) -> None:
    values = np.arange(30).reshape(10, 3).astype(dtype)
    arrived = sent(start(), sidecar, concept_activations=values)
    tensor = arrived.tensor("concept_activations")
    assert tensor.dtype == getattr(messages, f"DATA_TYPE_{dtype.upper()}")
    assert list(tensor.shape) == [10, 3]
    assert tensor.data == values.tobytes()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "int64", "bool"])
def test_torch_tensors_of_any_layout_arrive_as_they_are(dtype: str, sidecar: Sidecar, start: Start, torch: Any) -> None:
    values = (torch.arange(120).reshape(3, 40) / 7).to(getattr(torch, dtype)).T[::4]
    assert not values.is_contiguous()
    arrived = sent(start(), sidecar, concept_activations=values)
    tensor = arrived.tensor("concept_activations")
    assert tensor.dtype == getattr(messages, f"DATA_TYPE_{dtype.upper()}")
    assert tensor.data == values.contiguous().view(torch.uint8).numpy().tobytes()


def test_a_tensor_of_the_graph_is_taken_without_its_gradient(sidecar: Sidecar, start: Start, torch: Any) -> None:
    weights = torch.randn(4, 3, requires_grad=True)
    activations = torch.sigmoid(torch.randn(10, 4) @ weights)
    arrived = sent(start(), sidecar, concept_activations=activations)
    assert arrived.data("concept_activations") == activations.detach().numpy().tobytes()
    activations.sum().backward()
    assert weights.grad is not None


@pytest.mark.parametrize("kind", ["transposed", "strided", "reversed", "broadcast", "big_endian", "list"])
def test_layout_does_not_matter(kind: str, sidecar: Sidecar, start: Start) -> None:
    values = np.arange(30, dtype=np.float32).reshape(10, 3)
    logged_as: Any = {
        "transposed": np.ascontiguousarray(values.T).T,
        "strided": np.repeat(np.repeat(values, 2, 0), 2, 1)[::2, ::2],
        "reversed": np.ascontiguousarray(values[::-1])[::-1],
        "broadcast": np.broadcast_to(values[0], (10, 3)),
        "big_endian": values.astype(">f4"),
        "list": values.astype(np.float64).tolist(),
    }[kind]
    expected = {"broadcast": np.tile(values[0], (10, 1)), "list": values.astype("<f8")}.get(kind, values)
    assert sent(start(), sidecar, concept_activations=logged_as).data("concept_activations") == expected.tobytes()


def test_log_takes_a_copy_and_leaves_the_callers_arrays_alone(sidecar: Sidecar, start: Start, torch: Any) -> None:
    array, tensor = np.ones((10, 3), np.float32), torch.ones(10, 3, dtype=torch.int64)
    run = start(address="127.0.0.1:1")
    run.log(step=1, concept_activations=array, concept_labels=tensor)
    assert array.flags.writeable
    assert array.sum() == 30
    array[:] = 7.0
    tensor[:] = 0
    waiting = run._sender._outbox.queue.lanes()[0].items[0].content
    assert [copy.array.sum() for copy in waiting.tensors] == [30, 30]


def test_texts_arrive(sidecar: Sidecar, start: Start) -> None:
    texts = ["a red beak", "", "ein Vögelchen 🐦"]
    arrived = sent(start(), sidecar, predicted_text=texts, reference_text=np.array(texts))
    assert arrived.tensor("predicted_text").dtype == messages.DATA_TYPE_STRING
    assert arrived.texts("predicted_text") == arrived.texts("reference_text") == texts


def test_none_is_left_out(sidecar: Sidecar, start: Start) -> None:
    arrived = sent(start(), sidecar, **batch(), sample_ids=None)
    assert "sample_ids" not in [tensor.name for tensor in arrived.head.tensors]


FINE = np.zeros((10, 3), np.float32)


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({"activations": FINE}, "activations is not a tensor that can be logged; did you mean"),
        ({"concept_activations": FINE[:, :2]}, "concept_activations has 2 columns, but init declared 3 concepts"),
        ({"concept_activations": FINE[0]}, "concept_activations has shape [3] instead of [n, 3] or [n, 3, m]"),
        ({"concept_activations": FINE[:0]}, "concept_activations is empty: its shape is [0, 3]"),
        ({"concept_labels": FINE[:, :, None]}, "concept_labels has shape [10, 3, 1] instead of [n, 3]"),
        ({"task_labels": np.zeros((10, 3))}, "task_labels has shape [10, 3] instead of [n] or "),
        ({"task_labels": np.eye(10)}, "of one-hot labels send the class numbers, for several tasks pass tasks to init"),
        ({"task_labels": 3}, "task_labels has shape []"),
        ({"part_locations": np.zeros((10, 4, 3))}, "instead of [n, p, 2]"),
        (
            {"concept_activations": FINE, "task_labels": np.zeros(9)},
            "task_labels has 9 rows, but concept_activations has 10",
        ),
        ({"concept_activations": FINE.astype(complex)}, "concept_activations are of type complex128; send numbers"),
        ({"concept_activations": np.array([["a"] * 3])}, "concept_activations are strings; send numbers"),
        ({"predicted_text": ["a", 3]}, "predicted_text contains a value that is not a string"),
        ({"predicted_text": ["ö" * 2049]}, "predicted_text: the text in row 0 has more than 4096 bytes"),
        ({"sample_ids": np.arange(10)}, "there is nothing to score"),
        ({}, "there is nothing to score"),
    ],
)
def test_a_wrong_tensor_is_one_clear_warning_and_is_counted(
    tensors: dict[str, Any], said: str, start: Start, warned: Warned
) -> None:
    run = start()
    for _ in range(3):
        run.log(step=1, **tensors)
    assert run.stats.batches_dropped == {"invalid": 3}
    assert run.stats.batches_queued == 0
    assert len(warned()) == 1
    assert said in warned()[0]


def test_raise_errors_raises(start: Start) -> None:
    run = start(raise_errors=True)
    with pytest.raises(ValueError, match="activations is not a tensor"):
        run.log(step=1, activations=FINE)


@pytest.mark.parametrize(
    ("concepts", "columns"),
    [(Concepts((0, 2, 5)), 1 + 1 + 5), (Concepts((0, 2, 5), True), 2 + 2 + 5), (Concepts((0, 2, 5), latents=8), 8)],
)  # fmt: skip
def test_activations_have_the_columns_of_their_layout(concepts: Concepts, columns: int) -> None:
    checks = Checks(concepts)
    assert checks.logged({"concept_activations": np.zeros((4, columns))})[0].shape == (4, columns)
    assert checks.logged({"concept_activations": np.zeros((4, columns, 3))})[0].shape == (4, columns, 3)
    with pytest.raises(Fault, match=f"concept_activations has 6 columns, but init declared .*{columns}"):
        checks.logged({"concept_activations": np.zeros((4, 6))})


@pytest.mark.parametrize(("two_columns", "columns", "layout"), [(False, 4, "two"), (True, 2, "one")])
def test_another_layout_that_would_fit_is_named(two_columns: bool, columns: int, layout: str) -> None:
    with pytest.raises(Fault, match=f"pass activation_columns='{layout}_per_concept' to init, or latents={columns}"):
        Checks(Concepts((0, 2), two_columns)).logged({"concept_activations": np.zeros((4, columns))})
