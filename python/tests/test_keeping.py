"""Passes that a sidecar could not score yet are kept back, and the newest of them is sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conceptwatch import Run
from conceptwatch._protocol import messages
from conftest import K, Start, batch, evaluated, wait_for
from sidecar import Sidecar, unavailable


def busy(sidecar: Sidecar, milliseconds: int) -> None:
    """Answers that no evaluation will be scored for so long."""
    sidecar.start.takes_joined_ends = True

    def answer(response: Any) -> Any:
        response.end_pass.keep_ms = milliseconds
        return response

    sidecar.answer = answer


def log(run: Run, step: int, rows: int = 10) -> None:
    evaluated(run, batch(rows, first_id=0, seed=step), step=step)


def steps(sidecar: Sidecar) -> list[int]:
    return [received.head.step for received in sidecar.received]


def begun(sidecar: Sidecar, run: Run) -> None:
    """After a first pass, whose answer says how long the next ones would wait."""
    log(run, 0)
    wait_for(lambda: run.stats.passes_ended == 1)


def balanced(run: Run) -> bool:
    stats = run.stats
    return stats.batches_queued == stats.batches_acknowledged + stats.batches_left_out + sum(
        stats.batches_dropped.values()
    )


def test_of_passes_that_would_wait_the_newest_is_sent_and_the_others_are_counted(
    sidecar: Sidecar, start: Start
) -> None:
    busy(sidecar, 500)
    run = start()
    begun(sidecar, run)
    for step in range(1, 10):
        log(run, step)
    assert run.stats.passes_left_out == 8
    assert run.stats.queue_bytes > 0, "one is kept"
    wait_for(lambda: run.stats.passes_ended == 2)
    assert (steps(sidecar), [end.left_out for end in sidecar.ends]) == ([0, 9], [0, 8])
    stats = run.stats
    assert (stats.batches_left_out, stats.rows_left_out, stats.queue_bytes) == (8, 80, 0)
    assert balanced(run)


def test_who_asks_for_scores_and_who_finishes_does_not_wait(sidecar: Sidecar, start: Start) -> None:
    busy(sidecar, 60_000)
    sidecar.point = messages.Point(run="run", split="val", step=1)
    run = start()
    begun(sidecar, run)
    log(run, 1)
    assert run.scores("val") is not None
    assert steps(sidecar) == [0], "nothing is gained for who looks without waiting"
    assert run.scores("val", step=1, timeout=10) is not None
    assert steps(sidecar) == [0, 1]
    log(run, 2)
    log(run, 3)
    assert run.finish()
    assert (steps(sidecar), sidecar.ends[-1].left_out) == ([0, 1, 3], 1)
    assert balanced(run)


def test_ranks_keep_nothing_back_since_each_would_keep_another_pass(sidecar: Sidecar, start: Start) -> None:
    busy(sidecar, 60_000)
    run = start(world_size=2, rank=0)
    begun(sidecar, run)
    for step in range(1, 5):
        log(run, step)
    wait_for(lambda: run.stats.passes_ended == 5)
    assert steps(sidecar) == [0, 1, 2, 3, 4]


def test_a_pass_that_is_partly_sent_goes_on_and_takes_the_place_of_one_that_is_kept(
    sidecar: Sidecar, start: Start
) -> None:
    busy(sidecar, 60_000)
    run = start(concepts=2000)
    one, wide = ({"concept_activations": np.zeros((rows, 2000), np.float32)} for rows in (1, 40))
    evaluated(run, one, step=0)
    wait_for(lambda: run.stats.passes_ended == 1)
    evaluated(run, one, step=1)
    with run.evaluation("val", step=2) as p:
        p.log(**wide)
        wait_for(lambda: steps(sidecar)[-1] == 2)
        p.log(**wide)
    wait_for(lambda: run.stats.passes_ended == 3)
    assert steps(sidecar) == [0, 1, 2, 2], "the kept pass is first, as it was logged first"
    assert run.stats.passes_left_out == 0


def test_a_pass_that_was_kept_just_before_an_outage_is_not_left_out(sidecar: Sidecar, start: Start) -> None:
    busy(sidecar, 60_000)
    run = start()
    begun(sidecar, run)
    log(run, 1)
    run._sender.down = True  # as the sending thread notes it
    log(run, 2)
    run._sender.down = False
    assert run.finish()
    assert (steps(sidecar), run.stats.passes_left_out) == ([0, 1, 2], 0)


@pytest.mark.parametrize("milliseconds", [300, 60_000])
def test_a_kept_pass_survives_a_broken_connection(sidecar: Sidecar, start: Start, milliseconds: int) -> None:
    busy(sidecar, milliseconds)
    run = start()
    begun(sidecar, run)
    log(run, 1)
    broken: list[bool] = []

    def once(request: Any, context: Any) -> None:
        if not broken:
            broken.append(True)
            unavailable(context, 0.01)

    sidecar.before = once
    with run.evaluation("train_pass", step=1) as p:  # of another split, which is sent at once
        p.log(concept_activations=np.zeros((4, K), np.float32))
    wait_for(lambda: 1 in [received.head.step for received in sidecar.received if received.head.split == "val"])
    assert balanced(run) or run.stats.queue_bytes > 0
