"""Honest concepts of noisy labels, with the real sidecar: declared as such, or beside a reference run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conftest import evaluated
from real_sidecar import answer

ROWS, K, EPOCHS = 1200, 2, 4


def evaluations(leak: float) -> Iterator[dict[str, Any]]:
    """Concepts that determine the task, labels of which a fifth is flipped, and activations that know the concepts, and
    of the task as much more as `leak`."""
    for epoch in range(EPOCHS):
        random = np.random.default_rng(100 + epoch)
        concepts = random.integers(0, 2, (ROWS, K))
        task = concepts @ (1 << np.arange(K))
        labels = np.where(random.random((ROWS, K)) < 0.2, 1 - concepts, concepts)
        known = 4.0 * concepts - 2.0 + random.normal(size=(ROWS, K)) + leak * (task[:, None] - 1.5)
        yield {
            "concept_activations": (1 / (1 + np.exp(-known))).astype(np.float32),
            "concept_labels": labels,
            "task_labels": task,
            "task_predictions": task,
        }


def verdict(name: str, address: str, leak: float, **arguments: Any) -> tuple[conceptwatch.Verdict, bool]:
    """The verdict on a run, and whether it was advised to stop."""
    run = conceptwatch.init(name, concepts=K, address=address, spawn=False, **arguments)
    stops = []
    for step, tensors in enumerate(evaluations(leak), 1):
        evaluated(run, tensors, step=step)
        stops.append(run.should_stop(step=step, timeout=60.0))
    diagnosis = run.diagnosis(timeout=120.0)
    assert run.finish()
    return diagnosis.verdict, any(stops)


def test_what_never_saw_the_task_is_no_leakage_and_what_is_more_than_that_is(address: str) -> None:
    alone, _ = verdict("joint", address, 0.0)
    assert alone.state == "possibly_leaking"
    assert "labels may be noisy" in alone.reason
    honest, stopped = verdict("independent", address, 0.0, training="independent")
    assert (honest.state, stopped) == ("cannot_tell", False)
    beside, stopped = verdict("beside", address, 0.0, reference="independent")
    assert beside.state in ("nothing_found", "cannot_tell", "sound")
    assert "above that of the reference run 'independent': " in beside.reason
    assert not stopped
    leaking, _ = verdict("leaking", address, 1.5, reference="independent")
    assert leaking.state == "leaking"
    assert leaking.deciding.score == "ctl_conditional"
    shown = answer(address, "/api/v1/verdict", run="leaking", split="val")
    assert shown["state"] == "leaking"


def test_a_reference_that_is_not_there_is_said(address: str) -> None:
    found, _ = verdict("without", address, 0.0, reference="nobody")
    assert "the reference run 'nobody' does not exist" in found.reason


@pytest.mark.parametrize("arguments", [{"training": "late"}, {"reference": "a\nb"}])
def test_what_cannot_be_declared_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        conceptwatch.init("r", concepts=K, spawn=False, **arguments)
