"""A stream ends where another run is declared: what the sidecar says on the next one is not lost."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from conceptwatch._protocol import messages
from conftest import Start, Warned, acknowledged, log, sent, wait_for
from sidecar import Sidecar, at_once


def test_a_second_run_of_the_process_does_not_lose_what_becomes_of_the_first(settling: Sidecar, start: Start) -> None:
    run = start()
    sent(run, *range(3))
    second = start(name="second", address=run.address)
    wait_for(lambda: second._link.declared and settling.streams == 2)
    settling.settle("val", 0, 1, 2)
    wait_for(lambda: run.stats.passes_settled == {"point": 3})
    assert [received.head.sequence for received in settling.received] == [1, 2, 4, 5, 7, 8], "no rows twice"
    stats = run.stats
    assert (stats.passes_ended, stats.passes_sent_again, stats.unsettled_bytes, stats.retries) == (3, 0, 0, 0)
    assert run.finish()
    assert second.finish()


def test_what_is_settled_while_another_run_is_declared_is_asked_about(settling: Sidecar, start: Start) -> None:
    run = start()
    sent(run, 1)

    def declaring(request: Any) -> None:
        wait_for(lambda: not settling.is_streaming)
        settling.settle("val", 1)

    settling.declaring = declaring
    second = start(name="second", address=run.address)
    wait_for(lambda: run.stats.passes_settled == {"point": 1})
    assert run.finish()
    assert second.finish()


def test_a_refused_second_run_does_not_lose_what_becomes_of_the_first(settling: Sidecar, start: Start) -> None:
    run = start()
    sent(run, 1)
    settling.refuse_start = "run.name: has the character \\n"
    second = start(name="second", address=run.address)
    wait_for(lambda: second._link.refused and settling.streams == 2)
    settling.settle("val", 1)
    wait_for(lambda: run.stats.passes_settled == {"point": 1})
    assert run.finish()


def test_a_second_run_without_room_does_not_stop_the_first(
    settling: Sidecar, start: Start, warned: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conceptwatch._sender.LONGEST_PAUSE", 0.5)
    settling.settled = at_once
    run = start()
    log(run, 1)
    wait_for(lambda: run.stats.passes_settled == {"point": 1})
    settling.refuse_start, settling.refuse_as = "run: no room", grpc.StatusCode.RESOURCE_EXHAUSTED
    second = start(name="second", address=run.address)
    log(run, 2)
    wait_for(lambda: run.stats.passes_settled == {"point": 2})
    assert any(
        "does not accept this run for now; its batches wait until it does: resource_exhausted: run: no room" in line
        for line in warned()
    )
    assert not second.should_stop(step=1, timeout=0.1)
    assert second.stop_reason(step=1).startswith("the sidecar does not accept this run for now; ")
    # Once there is room, it is measured too.
    log(second, 1)
    assert not second._link.declared
    settling.refuse_start = None
    wait_for(lambda: second.stats.passes_settled == {"point": 1})
    assert run.finish()
    assert second.finish()


def test_a_backlog_goes_on_after_a_second_run_was_declared(settling: Sidecar, start: Start) -> None:
    run = start()
    sent(run, *range(10))
    settling.restart(run.address, "second")
    wait_for(lambda: len(settling.ends) == 14)
    streams = settling.streams
    second = start(name="second", address=run.address)
    wait_for(lambda: second._link.declared and settling.streams == streams + 1)
    settling.settled = at_once
    settling.settle("val", *range(4))
    wait_for(lambda: run.stats.passes_settled == {"point": 10})
    assert run.finish()
    assert second.finish()


def test_an_end_that_is_asked_about_and_found_closed_stays_unsettled_until_it_is_settled(
    settling: Sidecar, start: Start, warned: Warned
) -> None:
    """A sidecar knows who ended the newest passes; of others it says that they are closed."""
    run = start()
    sent(run, *range(3))
    held = run.stats.unsettled_bytes

    def closed(response: Any) -> Any:
        if response.sequence in (3, 6, 9) and not response.HasField("end_pass"):
            response.outcome, response.code, response.field = messages.IngestResponse.OUTCOME_REFUSED, 9, "step"
            response.message = "step: got 0, whose pass is closed already, expected an open or a new pass"
        return response

    settling.answer = closed
    settling.restart(run.address, "first")
    wait_for(lambda: len(settling.ends) == 6 and acknowledged(run))
    stats = run.stats
    assert (stats.passes_unsettled, stats.unsettled_bytes, stats.passes_refused) == (3, held, 0)
    assert not any("refused" in line for line in warned())
    settling.settle("val", 0, 1, 2)
    wait_for(lambda: run.stats.passes_settled == {"point": 3})
    assert run.finish()
