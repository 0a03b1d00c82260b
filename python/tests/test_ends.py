"""Ends of passes that wait or are given up are counted as such, and their passes are not called settled."""

from __future__ import annotations

import gc
import threading
from typing import Any

import grpc
import pytest

import conceptwatch
from conceptwatch import Run, _collected
from conftest import K, Start, Warned, log, sent, wait_for
from sidecar import Sidecar, at_once


def test_only_ends_count_as_waiting_ends(settling: Sidecar, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conceptwatch._outbox.MAX_WAITING_ENDS", 3)
    settling.settled = at_once
    settling.hold = threading.Event()
    run = start()
    log(run, *range(3), batches=20)
    settling.hold.set()
    assert run.finish()
    assert (run.stats.passes_settled, run.stats.ends_dropped) == ({"point": 3}, 0)


def test_ends_that_are_asked_about_again_take_no_room_of_new_ones(
    settling: Sidecar, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conceptwatch._outbox.MAX_WAITING_ENDS", 3)
    run = start()
    for step in range(3):
        sent(run, step)
    settling.close()
    wait_for(lambda: run._sender.down)
    settling.settled, settling.hold = at_once, threading.Event()
    settling.restart(run.address, "second")
    wait_for(lambda: run._link.outstanding == 9)
    log(run, *range(3, 6))
    settling.hold.set()
    assert run.finish()
    assert (run.stats.passes_settled, run.stats.ends_dropped) == ({"point": 6}, 0)
    assert run._link.waiting_ends == 0


def test_a_pass_whose_end_has_no_room_is_counted_and_finish_names_it(
    settling: Sidecar, start: Start, warned: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conceptwatch._outbox.MAX_WAITING_ENDS", 3)
    settling.settled = at_once
    run = start()
    wait_for(lambda: run._link.declared)
    settling.close()
    wait_for(lambda: run._sender.down)
    log(run, *range(5))
    assert (run.stats.passes_unsettled, run.stats.ends_dropped) == (5, 2)
    settling.restart(run.address, "second")
    assert run.finish() is False
    stats = run.stats
    assert (stats.passes_settled, stats.passes_unsettled, stats.ends_dropped) == ({"point": 3}, 2, 2)
    assert (stats.batches_acknowledged, stats.passes_ended) == (10, 3)
    assert [
        line
        for line in warned()
        if "at step 3 will be incomplete or missing, because 3 finished evaluations already wait" in line
    ]
    assert "2 evaluations were not settled: val at step 3, val at step 4." in warned()[-1]
    assert warned()[-1].endswith("The ends of 2 could not be sent: their points are incomplete at best")


def test_a_pass_whose_end_breaks_the_connection_is_not_called_settled(
    settling: Sidecar, start: Start, warned: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conceptwatch._sender.FIRST_PAUSE", 0.01)
    settling.start.takes_joined_ends = False
    settling.settled = at_once

    def before(request: Any, context: grpc.ServicerContext) -> None:
        if request.end_pass.step == 1:
            context.abort(grpc.StatusCode.INTERNAL, "it broke")

    settling.before = before
    run = start()
    log(run, 1, 2)
    assert run.finish() is False
    assert (run.stats.passes_settled, run.stats.passes_unsettled, run.stats.ends_dropped) == ({"point": 1}, 1, 1)
    assert "1 evaluation was not settled: val at step 1" in warned()[-1]


def test_a_pass_whose_end_cannot_be_encoded_is_not_called_settled(settling: Sidecar, start: Start) -> None:
    settling.settled = at_once
    run = start()
    with run.evaluation("val", step=1) as p:
        p._rows = -1
    log(run, 2)
    assert run.finish() is False
    assert (run.stats.passes_settled, run.stats.passes_unsettled, run.stats.ends_dropped) == ({"point": 1}, 1, 1)


def test_a_collected_run_is_finished_while_a_later_one_of_its_name_has_no_answer(sidecar: Sidecar) -> None:
    address = sidecar.serve()

    def begin() -> Run:
        return conceptwatch.init("run", concepts=K, address=address, spawn=False)

    later = threading.Event()
    sidecar.declaring = lambda request: later.wait(60.0) if sidecar.starts else None
    earlier = begin()
    wait_for(lambda: sidecar.starts)
    another = begin()  # until it is answered, its name is the one that it asks for
    assert another.name == earlier.name
    del earlier
    gc.collect()
    wait_for(lambda: sidecar.finished, 10.0)
    later.set()
    _collected.wait(60.0)
    assert another.finish()
