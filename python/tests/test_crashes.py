"""The sidecar is killed while a job logs: every pass has the point that it would have had."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conceptwatch import Run, _sender
from conftest import wait_for
from real_sidecar import EAGER_OPTIONS, RealSidecar, answer, curve

K, ROWS, BATCH = 2, 240, 60
# Errors of changes are paired with the sample of the evaluation before, which ends with the sidecar; and what is slow
# joins a point later, if the sidecar lives.
OF_THE_MOMENT = ("time", "seconds", "change_errors")
SLOW = ("p_value", "per_concept_q", "matrix_q")


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Callable[..., RealSidecar]]:
    """Starts sidecars, each with a directory of its name; they end with the test."""
    started: list[RealSidecar] = []

    def start(name: str, *options: str) -> RealSidecar:
        started.append(RealSidecar(*EAGER_OPTIONS, "--data-dir", str(tmp_path / name), *options))
        return started[-1]

    yield start
    for sidecar in started:
        sidecar.kill()


def point_of(sidecar: RealSidecar, step: int) -> dict[str, Any]:
    found: dict[str, Any] = answer(sidecar.address, "/api/v1/point", run="run", split="val", step=str(step))
    for score in found["scores"].values():
        for name in SLOW:
            score.pop(name, None)
    return {name: value for name, value in found.items() if name not in OF_THE_MOMENT}


def joined(address: str, rank: int = 0, world_size: int = 1, **options: Any) -> Run:
    """A rank of the run, with a connection of its own."""
    _sender._senders.clear()
    return conceptwatch.init(
        "run", concepts=K, address=address, spawn=False, rank=rank, world_size=world_size, job="job", **options
    )


def log(run: Run, step: int, rank: int = 0, world_size: int = 1, pause: float = 0.0) -> None:
    rows = np.random.default_rng(step)
    labels = rows.integers(0, 2, (ROWS, K))
    activations = (0.6 * labels + 0.4 * rows.random((ROWS, K))).astype(np.float32)
    with run.evaluation("val", step=step, epoch=step) as p:
        for first in range(rank * BATCH, ROWS, world_size * BATCH):
            part = slice(first, first + BATCH)
            p.log(
                sample_ids=np.arange(ROWS)[part],
                concept_activations=activations[part],
                concept_labels=labels[part],
                task_labels=labels[part, 0],
            )
            time.sleep(pause)


def undisturbed(sidecar: RealSidecar, steps: int) -> dict[int, dict[str, Any]]:
    """The points of a run without kills."""
    run = joined(sidecar.address)
    for step in range(steps):
        log(run, step)
        wait_for(lambda: run.stats.passes_unsettled == 0)
    assert run.finish(timeout=60.0)
    assert run.stats.passes_settled == {"point": steps}
    return {step: point_of(sidecar, step) for step in range(steps)}


def killer(sidecar: RealSidecar, seed: int, done: threading.Event, kills: list[float]) -> threading.Thread:
    """Kills the sidecar again and again, after random times."""
    choose = random.Random(seed)

    def work() -> None:
        while not done.wait(choose.uniform(0.05, 1.2)):
            sidecar.kill()
            kills.append(time.monotonic())
            time.sleep(choose.choice([0.0, 0.3]))
            sidecar.start()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize(("ranks", "sample_rows"), [(1, 4096), (2, 48)])
def test_every_pass_survives_kills_to_the_bit(mortal: Callable[..., RealSidecar], ranks: int, sample_rows: int) -> None:
    steps = 24
    # With a small sample the client leaves out most rows, and keeps few of those that it has sent.
    options = ("--sample-rows", str(sample_rows))
    expected = undisturbed(mortal("undisturbed", *options), steps)
    sidecar = mortal("killed", *options)
    runs = [joined(sidecar.address, rank, ranks) for rank in range(ranks)]
    done, kills = threading.Event(), list[float]()
    killing = killer(sidecar, ranks, done, kills)

    def train(rank: int) -> None:
        for step in range(steps):
            # The ranks drift apart.
            log(runs[rank], step, rank, ranks, pause=0.04 * (1 + rank * (step % 3)))

    threads = [threading.Thread(target=train, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    killing.join()
    endings: list[bool] = []
    finishing = [threading.Thread(target=lambda run=run: endings.append(run.finish(timeout=200.0))) for run in runs]
    for thread in finishing:
        thread.start()
    for thread in finishing:
        thread.join()
    assert endings == [True] * ranks
    assert len(kills) >= 2
    for run in runs:
        stats = run.stats
        assert (stats.batches_dropped, stats.passes_unprotected, stats.passes_refused) == ({}, 0, 0), stats
        assert set(stats.passes_settled) <= {"point", "skipped"}, stats
        assert stats.passes_settled.total() + stats.passes_left_out == steps, stats
    settled = runs[0].stats.passes_settled["point"]
    found = {point["step"] for point in curve(sidecar.address, "run", "ctl")}
    assert len(found) == settled >= steps // 2
    for step in sorted(found):
        point, undisturbed_point = point_of(sidecar, step), expected[step]
        scores, undisturbed_scores = point.pop("scores"), undisturbed_point.pop("scores")
        assert point == undisturbed_point
        both = scores.keys() & undisturbed_scores.keys()
        assert both >= {"ctl", "icl", "ctl_conditional", "icl_conditional", "concept_accuracy"}
        for score in both:
            assert scores[score] == undisturbed_scores[score], (step, score)
