"""Tensors on a GPU, played by tensors that say they are on one: the order of events, not the device, is tested."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from conceptwatch._tensors import _copy_from_device, _side_streams
from conftest import Start
from sidecar import Sidecar


@pytest.fixture
def gpu(torch: Any) -> Callable[[Any], Any]:
    class OnGpu(torch.Tensor):  # type: ignore[misc, name-defined]
        @property
        def device(self) -> Any:
            return torch.device("cuda:0")

        def record_stream(self, stream: Any) -> None:
            pass

    def put(tensor: Any) -> Any:
        return tensor.as_subclass(OnGpu)

    return put


@pytest.fixture
def events(torch: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stands in for CUDA; what is done in which order."""
    seen: list[str] = []
    empty = torch.empty

    def unpinned(*shape: Any, pin_memory: bool = False, **kind: Any) -> Any:
        return empty(*shape, **kind)

    stream = SimpleNamespace(wait_stream=lambda other: seen.append("side waits for training"))
    event = SimpleNamespace(record=lambda _: seen.append("recorded"), synchronize=lambda: seen.append("waited"))
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: "training")
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "Event", lambda: event)
    monkeypatch.setattr(torch, "empty", unpinned)
    _side_streams.clear()
    return seen


def test_training_does_not_wait_for_a_copy_but_sending_does(
    gpu: Callable[[Any], Any], events: list[str], torch: Any, sidecar: Sidecar, start: Start
) -> None:
    values = torch.rand(10, 3, dtype=torch.float32).to(torch.bfloat16)
    expected = values.view(torch.int16).numpy().tobytes()
    array, arrived = _copy_from_device(gpu(values), None)
    assert events == ["side waits for training", "recorded"]
    assert arrived is not None
    assert array.tobytes() == expected
    run = start()
    run.log(step=1, concept_activations=gpu(values))
    values.zero_()
    assert run.finish()
    assert events[-1] == "waited"
    assert sidecar.received[0].data("concept_activations") == expected


def test_without_pinned_memory_the_copy_is_made_at_once(gpu: Callable[[Any], Any], torch: Any) -> None:
    _side_streams.clear()
    values = torch.rand(10, 3)
    expected = values.numpy().tobytes()
    if torch.cuda.is_available():
        pytest.skip("NOT TESTED: this machine has a GPU, and so pinned memory")
    array, arrived = _copy_from_device(gpu(values), None)
    values.zero_()
    assert arrived is None
    assert array.tobytes() == expected
