"""The client and the real sidecar: a diagnosis with its numbers, and ranks that finish apart."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conftest import evaluated, python_environment

ROWS, K = 3000, 3


def validation_pass(leak: float) -> dict[str, np.ndarray]:
    """Soft activations of three concepts; `leak` of the task's information beyond the labels gets into them."""
    random = np.random.default_rng(0)
    z = random.standard_normal((ROWS, K))
    c = z > 0
    y = (z.sum(1) > 0).astype(np.int64)
    logits = 2.0 * (2 * c - 1) + random.standard_normal((ROWS, K)) + leak * (2 * y[:, None] - 1)
    return {
        "sample_ids": np.arange(ROWS),
        "concept_activations": (1 / (1 + np.exp(-logits))).astype(np.float32),
        "concept_labels": c,
        "task_labels": y,
        "task_predictions": y,
    }


def test_a_run_is_read_with_its_numbers(address: str) -> None:
    rows = validation_pass(2.0)
    # Labels of other rows: what the activations tell is the task.
    rows["concept_labels"] = np.roll(rows["concept_labels"], 1, axis=0)
    with conceptwatch.init("read", concepts=K, address=address, spawn=False, raise_errors=True) as run:
        evaluated(run, rows)
        # It waits for the evaluation.
        diagnosis = run.diagnosis(timeout=120.0)
        assert {line.rule: line.subject for line in diagnosis.lines}["incomplete_concept_set"] == "Concept set"
        assert (diagnosis.split, diagnosis.step, diagnosis.rows, len(diagnosis.lines)) == ("val", 1, ROWS, 13)
        found = {line.rule: line for line in diagnosis.found}
        assert "insufficient_supervision" in found
        evidence = {one.score: one for one in found["insufficient_supervision"].evidence}
        ctl, accuracy = evidence["ctl_conditional"], evidence["concept_accuracy"]
        assert ctl.value > ctl.limit
        assert accuracy.value < accuracy.limit
        text = str(diagnosis)
        assert "\nwhat to do:\n  Raise the weight of the concept loss\n" in text
        assert "Insufficient concept supervision (arXiv:2504.14094, Section 7)" in text
        assert f"ctl_conditional {ctl.value:.4f} ± {1.96 * ctl.standard_error:.4f}" in text
        unknown = next(line for line in diagnosis.lines if line.rule == "alignment_leakage")
        assert (unknown.state, unknown.evidence) == ("unknown", ())
        assert "alignment_leakage" in unknown.text
        expected = "has no evaluation of 'test', expected one of its splits: val"
        with pytest.raises(conceptwatch.ConceptwatchError, match=expected):
            run.diagnosis("test")


RANK = """
import sys, time, numpy as np, conceptwatch
address, rank = sys.argv[1], int(sys.argv[2])
run = conceptwatch.init("ranks", concepts=2, address=address, spawn=False, rank=rank, world_size=2, raise_errors=True)
random = np.random.default_rng(rank)
for step in (1, 2):
    if rank == 1 and step == 2:
        sys.stdin.readline()  # until the other rank has finished
    with run.evaluation("val", step=step) as p:
        c = random.integers(0, 2, (500, 2))
        p.log(sample_ids=np.arange(rank, 1000, 2), concept_activations=0.8 * c + 0.1 * random.random((500, 2)),
              concept_labels=c, task_labels=c[:, 0])
if rank == 1:
    scores = p.scores(timeout=60)
    print(scores.step, scores.rows, scores.incomplete)
# The first rank's last pass is not settled before the other rank has ended it.
assert run._sender.flush(run._link, 60.0)
assert run.finish(timeout=2.0 if rank == 0 else 60.0) or rank == 0
stats = run.stats
print(stats.rows_acknowledged, stats.passes_ended, stats.passes_refused, dict(stats.batches_dropped), flush=True)
"""


def test_a_rank_that_finishes_late_is_refused_nothing(address: str) -> None:
    def rank(number: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", RANK, address, str(number)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return subprocess.Popen(command, env=python_environment(), text=True, **pipes)

    with rank(0) as early, rank(1) as late:
        assert early.communicate(timeout=300)[0] == "1000 2 0 {}\n"
        # Its last pass has the rows of both.
        assert late.communicate("go on\n", timeout=60)[0] == "2 1000 False\n1000 2 0 {}\n"
