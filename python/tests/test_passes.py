"""Evaluations that are left, dropped or run again at their step, with the real sidecar: a point is one model's."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conceptwatch import Run, _collected
from conftest import K, Start, evaluated, wait_for
from jobs import Jobs, begin, sidecars
from real_sidecar import answer, eager, free_ports, table
from sidecar import Sidecar

ROWS = 600


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    # Longer than any test: a pass that closes incomplete is a fault.
    with eager("--pass-deadline", "600") as address:
        yield address


def init(name: str, address: str, **arguments: Any) -> Run:
    return conceptwatch.init(name, concepts=K, address=address, spawn=False, **arguments)


def rows(right: bool, first: int, count: int, *, ids: bool) -> dict[str, Any]:
    """Rows of a model that knows every concept, or of one that has each the wrong way round."""
    labels = np.random.default_rng(0).integers(0, 2, (ROWS, K))[first : first + count]
    noise = np.random.default_rng(1).random((ROWS, K))[first : first + count] * 0.2
    known = labels if right else 1 - labels
    tensors: dict[str, Any] = {
        "concept_activations": (known * 0.8 + noise).astype(np.float32),
        "concept_labels": labels,
        "task_labels": labels.sum(1) % 2,
    }
    if ids:
        tensors["sample_ids"] = np.arange(first, first + count)
    return tensors


def evaluate(run: Run, step: int, *, right: bool = True, ids: bool = True, upto: int = ROWS, first: int = 0) -> None:
    """A notebook's cell; it is interrupted before the last of its batches where it does not get that far."""
    with run.evaluation("val", step=step) as p:
        for start in range(first, min(ROWS, upto), 100):
            p.log(**rows(right, start, 100, ids=ids))
        if upto < ROWS:
            raise KeyboardInterrupt


def points(address: str, run: Run, split: str = "val") -> list[Any]:
    """Step, ordinal, rows, whether it is incomplete, whether it is superseded, and accuracy of each stored point."""
    found = answer(address, "/api/v1/points", run=run.name, split=split)["points"]
    return [
        (
            point["step"],
            point.get("ordinal", 1),
            point["rows"],
            point["incomplete"],
            point.get("superseded", False),
            point["scores"]["concept_accuracy"]["value"],
        )
        for point in found
    ]


@pytest.mark.parametrize("ids", [True, False])
def test_a_cell_that_is_interrupted_and_run_again_mixes_no_two_models(address: str, ids: bool) -> None:
    run = init(f"interrupted-{ids}", address)
    with pytest.raises(KeyboardInterrupt):
        evaluate(run, 1, right=False, ids=ids, upto=400)
    evaluate(run, 1, ids=ids)
    scores = run.scores(step=1, timeout=60.0)
    assert (scores["concept_accuracy"], scores.rows, scores.incomplete) == (1.0, ROWS, False)
    assert run.finish()
    assert points(address, run) == [(1, 2, ROWS, False, False, 1.0)]
    assert (run.stats.passes_abandoned, run.stats.passes_settled) == (1, {"point": 1})
    assert run.stats.unsettled_bytes == run.stats.queue_bytes == 0


def test_an_interrupted_evaluation_that_is_not_run_again_is_in_the_history_with_its_reason(address: str) -> None:
    run = init("left", address)
    evaluate(run, 1)
    with pytest.raises(KeyboardInterrupt):
        evaluate(run, 2, upto=300)
    assert run.finish()
    assert [step for step, *_ in points(address, run)] == [1]
    passes = answer(address, "/api/v1/unscored", run=run.name, split="val")["passes"]
    assert [(left["step"], left["outcome"], left["reason"]) for left in passes] == [
        (2, "discarded", "the job left the evaluation without ending it: KeyboardInterrupt")
    ]
    assert "1 left by an exception" in repr(run)


def test_a_step_evaluated_twice_has_two_points_of_which_the_newest_is_current(address: str) -> None:
    run = init("twice", address)
    first = run.evaluation("val", step=5)
    for right, count in ((False, 400), (True, 600)):
        with first if not right else run.evaluation("val", step=5) as p:
            p.log(**rows(right, 0, count, ids=True))
        scores = p.scores(timeout=60.0)
        assert (scores["concept_accuracy"], scores.rows) == (float(right), count)
    # Its point is superseded as soon as that of the other pass, which is read once stored, has been published.
    wait_for(lambda: first.scores(timeout=5.0) is None)
    newest = run.scores(step=5)
    assert newest["concept_accuracy"] == 1.0
    assert run.finish()
    assert points(address, run) == [(5, 2, 600, False, False, 1.0), (5, 1, 400, False, True, 0.0)]
    series = answer(address, "/api/v1/series", run=run.name, split="val", score="concept_accuracy")["points"]
    assert [(point["value"], point.get("superseded", False)) for point in series] == [(1.0, False), (0.0, True)]
    curves = answer(address, "/api/v1/curves", run=run.name, split="val", scores="concept_accuracy")
    assert (curves["step"], curves["superseded"]) == ([5, 5], [[1]])


def again(address: str, run: Run, *others: Run) -> None:
    """A training to step 20 of a model with each concept the wrong way round, and one of another model from step 0."""
    for right, steps in ((False, (0, 10, 20)), (True, (0, 15))):
        for step in steps:
            for number, rank in enumerate((run, *others)):
                count = ROWS // (1 + len(others))
                evaluated(rank, rows(right, number * count, count, ids=True), step=step)
    scores = run.scores(step=15, timeout=60.0)
    assert scores is not None
    assert (scores["concept_accuracy"], scores.rows, scores.incomplete) == (1.0, ROWS, False)
    found = points(address, run)
    assert [point[0] for point in found if not point[4]] == [0, 15]
    assert sorted((point[0], point[5]) for point in found if point[4]) == [(0, 0.0), (10, 0.0), (20, 0.0)]


def test_a_loop_run_again_with_its_run_supersedes_what_the_first_one_evaluated(address: str, warned: Any) -> None:
    run = init("loop", address)
    again(address, run)
    assert [text for text in warned() if "after step 20" in text] == [
        "conceptwatch, run 'loop': 'val' is evaluated at step 0 after step 20, as where training begins again: "
        "earlier ones from step 0 on are superseded. For another training call conceptwatch.init again; within one, "
        "count steps over all epochs, and evaluate checkpoints in the order of their steps"
    ]
    # Another split begins where it likes.
    evaluated(run, rows(True, 0, ROWS, ids=True), step=5, split="test")
    evaluate(run, 15, right=False)
    assert run.finish()
    assert [point[:2] for point in points(address, run) if not point[4]] == [(0, 1), (15, 2)]
    assert run.stats.passes_settled == {"point": 7}


def test_ranks_go_back_together(address: str) -> None:
    ranks = [
        init("loops", where, rank=rank, world_size=2, job="both")
        for rank, where in enumerate((address, f"ipv4:{address}"))
    ]
    again(address, *ranks)
    ranks[0].finish(timeout=0.0)
    assert ranks[1].finish()


def test_without_a_job_it_is_said_that_two_trainings_are_in_one_curve(
    sidecar: Sidecar, start: Start, warned: Any
) -> None:
    run = start(world_size=2, rank=0)
    for step in (3, 2):
        evaluated(run, rows(True, 0, ROWS, ids=True), step=step)
    assert [text for text in warned() if "both are in one curve" in text]
    assert run.finish()
    assert len(sidecar.starts) == 1


def test_runs_of_one_process_that_share_a_job_count_the_evaluations_of_a_step_together(address: str) -> None:
    names = set()
    for _ in range(2):
        run = init("cell", address, job="a notebook")
        evaluate(run, 1)
        assert run.scores(step=1, timeout=60.0) is not None
        names.add(run.name)
    assert run.finish()
    assert names == {"cell"}
    assert [point[:2] for point in points(address, run)] == [(1, 2), (1, 1)]


def test_ranks_of_which_one_is_interrupted_join_when_they_evaluate_again(address: str) -> None:
    # Each address is a client of its own, as another process would be.
    ranks = [
        init("ranks", where, rank=rank, world_size=2, job="two ranks")
        for rank, where in enumerate((address, f"ipv4:{address}"))
    ]
    half = ROWS // 2
    evaluate(ranks[0], 3, right=False, first=half)  # it has ended when the other one is interrupted
    with pytest.raises(KeyboardInterrupt):
        evaluate(ranks[1], 3, right=False, upto=200)
    wait_for(lambda: ranks[0].stats.passes_settled == {"discarded": 1})
    for rank, run in enumerate(ranks):
        evaluated(run, rows(True, rank * half, half, ids=True), step=3)
    scores = ranks[0].scores(step=3, timeout=60.0)
    assert (scores["concept_accuracy"], scores.rows, scores.incomplete) == (1.0, ROWS, False)
    # Only one of the ranks runs its cell again: what it logs is no whole evaluation, and is called incomplete.
    evaluate(ranks[1], 3)
    ranks[0].finish(timeout=0.0)
    assert ranks[1].finish()
    assert points(address, ranks[0]) == [(3, 2, ROWS, False, False, 1.0)]


@pytest.mark.parametrize("how", ["generator", "object"])
def test_an_evaluation_that_is_dropped_before_its_end_is_discarded(address: str, how: str) -> None:
    run = init(f"dropped-{how}", address)

    def batches() -> Iterator[None]:
        with run.evaluation("val", step=1) as p:
            while True:
                p.log(**rows(False, 0, 100, ids=True))
                yield

    if how == "generator":
        logging = batches()
        next(logging)
        del logging
    else:
        run.evaluation("val", step=1).log(**rows(False, 0, 100, ids=True))
    gc.collect()
    _collected.wait(10.0)
    evaluate(run, 1)
    assert run.finish()
    assert points(address, run) == [(1, 2, ROWS, False, False, 1.0)]


def test_nothing_can_be_logged_in_an_evaluation_that_has_ended(address: str, warned: Any) -> None:
    run = init("ended", address)
    p = evaluated(run, rows(True, 0, ROWS, ids=True))
    p.log(**rows(False, 0, 100, ids=True))
    assert run.finish()
    assert points(address, run) == [(1, 1, ROWS, False, False, 1.0)]
    assert run.stats.rows_dropped == {"invalid": 100}
    assert any("this evaluation of 'val' has ended; begin another one with run" in line for line in warned())


def test_a_run_that_nobody_finishes_is_finished_when_it_is_collected(address: str) -> None:
    def launch(seed: int) -> None:
        evaluate(init("in-a-function", address, labels={"seed": seed}, log_to=lambda values, step: None), 1)

    for seed in range(3):
        launch(seed)
    _collected.wait(60.0)
    listed = answer(address, "/api/v1/runs", search="in-a-function")["runs"]
    assert sorted(run["labels"]["seed"] for run in listed) == ["0", "1", "2"]
    assert all(run["finished"] for run in listed)
    for name in (run["name"] for run in listed):
        found = answer(address, "/api/v1/points", run=name, split="val")["points"]
        assert [(point["step"], point["rows"]) for point in found] == [(1, ROWS)]


def test_the_sidecar_of_a_job_scores_what_waits_after_the_job_has_ended(job: Jobs, tmp_path: Path) -> None:
    # Slow scores wait: they take seconds at this share, and end with a sidecar that does not go on.
    one = job("one", CONCEPTWATCH_CPU_SHARE="0.2", CONCEPTWATCH_BUSY_CPU_SHARE="0.2")
    begin(one, "a", f"127.0.0.1:{free_ports()}")
    directory = one.do("run.data_dir")
    one.do("evaluate(run, 1)")
    one.do("run.evaluation('empty', step=4).__exit__(None, None, None)")
    assert one.do("run._sender.flush(run._link, 60)") is True
    one.do("run.finish(timeout=0.0)")
    one.end()
    wait_for(lambda: not sidecars(tmp_path), 120.0)
    scores = {row["score"]: row["value"] for row in table("scores", tmp_path / "tables", "--data-dir", directory)}
    assert {"ctl_conditional", "ois"} <= {score for score, value in scores.items() if value}
    # Also of a split that has no point at all.
    unscored = table("unscored", tmp_path / "more", "--data-dir", directory)
    assert [(row["split"], row["step"], row["ordinal"], row["outcome"], row["reason"]) for row in unscored] == [
        ("empty", "4", "1", "failed", "the pass has no rows: none was sent, or all were refused")
    ]


def test_the_end_of_a_run_says_what_becomes_of_evaluations_that_are_not_settled(job: Jobs) -> None:
    said = []
    for name, data_dir in (("kept", {}), ("memory", {"data_dir": None})):
        slow = {"CONCEPTWATCH_CPU_SHARE": "0.001", "CONCEPTWATCH_BUSY_CPU_SHARE": "0.001"}
        one = job(name, **slow, CONCEPTWATCH_LINGER="1")
        begin(one, "a", f"127.0.0.1:{free_ports()}", **data_dir)
        # The first few are scored with the CPU time that was saved up.
        one.do("evaluate(run, *range(40))")
        assert one.do("run._sender.flush(run._link, 60)") is True
        assert one.do("run.finish(timeout=0.0)") is False
        said.append(one.said())
    assert "The sidecar goes on after this job, for 15 minutes by default (--linger)" in said[0]
    assert "lost with the sidecar of this job, which keeps curves in memory" in said[1]
