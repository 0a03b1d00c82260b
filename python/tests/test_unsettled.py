"""Rows are kept until their pass is settled, and sent again to a sidecar that was restarted before."""

from __future__ import annotations

import threading
from typing import Any

import grpc
import numpy as np
import pytest

from conceptwatch._presample import client_hash, identities, priorities
from conceptwatch._protocol import messages
from conftest import K, Start, Warned, acknowledged, batch, log, sent, wait_for
from sidecar import Received, Sidecar, at_once

N = 64  # rows in a sample of `settling`


def messages_to(sidecar: Sidecar, incarnation: str) -> list[tuple[int, str]]:
    """Step and kind of what a sidecar received, in order."""
    found: list[tuple[int, str]] = []
    current = ""
    for item in sidecar.order:
        if isinstance(item, Received):
            current, step = item.incarnation, item.head.step
            if current == incarnation:
                found.append((step, "batch"))
        elif current == incarnation:
            found.append((step if isinstance(item, messages.JoinedEnd) else item.step, "end"))
    return found


def test_the_rows_of_a_pass_are_kept_until_it_is_settled(settling: Sidecar, start: Start) -> None:
    run = start()
    sent(run, 1)
    stats = run.stats
    assert (stats.queue_bytes, stats.unsettled_bytes > 0, stats.passes_unsettled) == (0, True, 1)
    settling.settle("val", 1)
    wait_for(lambda: run.stats.passes_unsettled == 0)
    stats = run.stats
    assert (stats.unsettled_bytes, stats.passes_settled, stats.passes_sent_again) == (0, {"point": 1}, 0)


def test_rows_of_a_rolling_window_are_not_kept(settling: Sidecar, start: Start) -> None:
    run = start()
    run.log(step=1, **batch())
    log(run, 1, split="train")
    wait_for(lambda: acknowledged(run))
    assert (run.stats.unsettled_bytes, run.stats.passes_unsettled) == (0, 0)


def test_a_restarted_sidecar_gets_every_unsettled_pass_again_in_the_order_of_logging(
    settling: Sidecar, start: Start
) -> None:
    run = start()
    sent(run, 1, 2, 3)
    settling.settle("val", 1)
    wait_for(lambda: run.stats.passes_unsettled == 2)
    with run.evaluation("val", step=4) as p:
        p.log(**batch(first_id=0))
        wait_for(lambda: acknowledged(run))
        first = {item.head.sequence: item for item in settling.received}
        settling.restart(run.address, "second")
        p.log(**batch(first_id=10))
        wait_for(lambda: len(messages_to(settling, "second")) == 8)
    wait_for(lambda: acknowledged(run))
    steps = [(step, kind) for step in (2, 3, 4) for kind in ("batch", "batch", "end")]
    assert messages_to(settling, "second") == steps
    assert [end.backlog for end in settling.ends[-3:]] == [True, True, False]
    again = [item for item in settling.received if item.incarnation == "second"]
    for item in again[:-1]:
        was = first[item.head.sequence]
        assert item.row_numbers == was.row_numbers
        assert item.data("concept_activations") == was.data("concept_activations")
    settling.settle("val", 2, 3, 4)
    assert run.finish()
    stats = run.stats
    assert (stats.passes_sent_again, stats.batches_acknowledged, stats.passes_ended) == (3, 8, 4)
    assert (stats.rows_acknowledged, stats.passes_settled) == (80, {"point": 4})
    assert (stats.queue_bytes, stats.unsettled_bytes) == (0, 0)


def test_the_same_sidecar_is_asked_what_is_settled(settling: Sidecar, start: Start) -> None:
    run = start()
    sent(run, 1, 2)
    settling.settled = at_once
    settling.restart(run.address, "first")
    wait_for(lambda: run.stats.passes_unsettled == 0)
    assert len(settling.received) == 4
    assert [end.sequence for end in settling.ends] == [3, 6, 3, 6]
    assert run.finish()


def test_a_backlog_waits_in_the_client_and_other_splits_pass_it(settling: Sidecar, start: Start) -> None:
    settling.start.windows["test"] = messages.WINDOW_KIND_PASS
    run = start()
    sent(run, *range(10))
    settling.restart(run.address, "second")
    log(run, 10)
    log(run, 5, split="test")
    wait_for(lambda: settling.received[-1].head.split == "test" and len(settling.ends) == 15)
    ended = [item.head.step for item in settling.received if item.incarnation == "second"]
    assert ended == [0, 0, 1, 1, 2, 2, 3, 3, 5, 5]
    assert run.stats.passes_unsettled == 12
    for step in range(7):
        settling.settle("val", step)
        wait_for(lambda step=step: messages_to(settling, "second")[-1] == (min(step + 4, 10), "end"))
    # The newest, which is not backlog, follows the last of them.
    wait_for(lambda: acknowledged(run))
    settling.settle("val", 7, 8, 9, 10)
    settling.settle("test", 5)
    assert run.finish()


def test_passes_of_an_outage_are_all_sent_as_backlog(settling: Sidecar, start: Start) -> None:
    def busy(response: Any) -> Any:
        response.end_pass.keep_ms = 60_000
        return response

    settling.answer, settling.settled = busy, at_once
    run = start()
    sent(run, 0)
    settling.close()
    wait_for(lambda: run._sender.down)
    log(run, *range(1, 61))
    settling.restart(run.address, "second")
    assert run.finish()
    assert [end.backlog for end in settling.ends] == [False] + [True] * 60
    assert (run.stats.passes_settled, run.stats.passes_left_out) == ({"point": 61}, 0)


@pytest.mark.parametrize("with_ids", [True, False])
def test_the_rows_kept_of_a_large_pass_are_bounded_and_give_the_same_sample(
    settling: Sidecar, start: Start, with_ids: bool
) -> None:
    run = start()
    hold = settling.hold = threading.Event()
    rows, size = 40 * N, 20
    values = np.random.default_rng(0).random((rows, K), np.float32)
    most = 0
    with run.evaluation("val", step=1) as p:
        for first in range(0, rows, size):
            ids = {"sample_ids": np.arange(first, first + size)} if with_ids else {}
            p.log(concept_activations=values[first : first + size], **ids)
            if first == 20 * N:
                hold.set()
            if first > 20 * N:
                wait_for(lambda: run.stats.queue_bytes == 0)
            most = max(most, sum(kept.rows for kept in run._sender._outbox.unsettled(run._link)))
    wait_for(lambda: acknowledged(run))
    assert N <= most <= 2 * N + size
    kept = next(iter(run._sender._outbox.unsettled(run._link)))
    assert len(kept.batches) <= 2 * N
    assert kept.bytes == run.stats.unsettled_bytes
    assert kept.rows == sum(item.content.held_rows for item in kept.batches)  # type: ignore[union-attr]
    settling.restart(run.address, "second")
    wait_for(lambda: settling.ends[-1:] and settling.ends[-1].backlog)
    samples = []
    for incarnation in ("first", "second"):
        found: dict[int, bytes] = {}
        counted = 0
        for item in settling.received:
            if item.incarnation != incarnation:
                continue
            counted += item.rows + sum(chunk.rows_left_out for chunk in item.chunks)
            data = item.data("concept_activations")
            given = np.frombuffer(item.data("sample_ids"), "<i8")
            for position, number in enumerate(item.row_numbers):
                row = int(given[position]) if with_ids else (item.head.sequence - 1) * size + number
                found[row] = data[position * 4 * K : (position + 1) * 4 * K]
        assert counted == rows == settling.ends[-1].rows
        ids = np.array(sorted(found), np.uint64)
        order = np.argsort(priorities(7, ids)) if with_ids else np.argsort(_own(settling, ids, size))
        samples.append({int(ids[i]): found[int(ids[i])] for i in order[:N]})
    assert samples[0] == samples[1]
    assert sum(item.rows for item in settling.received if item.incarnation == "second") <= 2 * N + size


def _own(sidecar: Sidecar, rows: Any, size: int) -> Any:
    """Priorities of rows without ids, logged in batches of `size`."""
    client = client_hash(sidecar.starts[0].client)
    ids = [identities(client, row // size + 1, np.array([row % size])) for row in rows.tolist()]
    return priorities(7, np.concatenate(ids))


def test_rows_without_room_are_released_for_new_ones_and_counted(
    settling: Sidecar, start: Start, warned: Warned
) -> None:
    size = sum(np.asarray(value).nbytes for value in batch(10, first_id=0).values())
    run = start(queue_bytes=5 * size)
    for step in range(4):
        sent(run, step)
        assert run.stats.queue_bytes + run.stats.unsettled_bytes <= 5 * size
    stats = run.stats
    assert (stats.batches_dropped, stats.passes_unsettled) == ({}, 4)
    assert (stats.passes_unprotected, stats.rows_unprotected) == (2, 40)
    assert warned() == []
    settling.settled = at_once
    settling.restart(run.address, "second")
    # Of those that are lost the end is sent all the same: the sidecar records that they have no rows.
    wait_for(lambda: run.stats.passes_unsettled == 0)
    assert [step for step, kind in messages_to(settling, "second") if kind == "batch"] == [2, 2, 3, 3]
    assert len(settling.ends) == 8
    assert any("are lost, because queue_bytes had no room" in line for line in warned())
    assert run.finish()


def test_rows_that_wait_to_be_sent_again_do_not_block_new_ones(settling: Sidecar, start: Start) -> None:
    size = sum(np.asarray(value).nbytes for value in batch(10, first_id=0).values())
    run = start(queue_bytes=16 * size)
    sent(run, *range(8))
    settling.restart(run.address, "second")
    wait_for(lambda: len(messages_to(settling, "second")) == 12)
    log(run, *range(8, 14))
    stats = run.stats
    assert stats.batches_dropped == {}
    assert stats.queue_bytes + stats.unsettled_bytes <= 16 * size
    assert stats.passes_unprotected == 6
    settling.settled = at_once
    settling.settle("val", *range(14))
    assert run.finish()
    assert run.stats.passes_unsettled == 0


def test_finish_waits_for_settlement_and_says_what_is_not(settling: Sidecar, start: Start, warned: Warned) -> None:
    run = start()
    log(run, 1)
    settled = threading.Timer(0.2, settling.settle, ("val", 1))
    settled.start()
    assert run.finish()
    assert 20 < settling.finish_requests[-1].timeout_seconds <= 30
    settled.join()
    second = start(address=run.address)
    settling.unsettled = [messages.Unsettled(split="train", step=9)]
    log(second, *range(12))
    assert second.finish(timeout=3) is False
    (line,) = warned()
    assert line.endswith("are kept unless that crashes or cannot write, which its page says; the others are lost")
    assert "13 evaluations were not settled: val at step 0, val at step 1" in line
    assert "and 3 more" in line
    assert second.stats.passes_unsettled == 12


def test_without_a_sidecar_finish_gives_up_soon_and_says_so(
    settling: Sidecar, start: Start, warned: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conceptwatch._finish.ALONE", 0.2)
    run = start()
    sent(run, 1)
    settling.close()
    wait_for(lambda: run._sender.down)
    assert run.finish() is False
    said = "\n".join(warned())  # the sender may say that the connection failed before or after
    assert "no sidecar answers at 127.0.0.1:" in said
    assert "1 evaluation was not settled: val at step 1. If the sidecar has received it" in said


@pytest.mark.parametrize("code", ["resource_exhausted", "internal"])
def test_a_sidecar_that_does_not_take_a_run_is_not_called_absent(
    code: str, settling: Sidecar, start: Start, warned: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conceptwatch._finish.ALONE", 0.2)
    settling.refuse_start, settling.refuse_as = "run: declarations take 9 bytes", grpc.StatusCode[code.upper()]
    run = start()
    log(run, 1)
    wait_for(lambda: run._sender.down)
    assert not run.should_stop(step=1, timeout=0.1)
    why = f"does not take the run now ({code}: run: declarations take 9 bytes)"
    assert run.stop_reason(step=1) == f"the sidecar {why}"
    assert run.finish() is False
    said = "\n".join(warned())
    assert f"{why}, waiting up to 0 s" in said
    assert "1 evaluation was not settled: val at step 1. The sidecar at 127.0.0.1:" in said
    assert " never took the run, so nothing of it is kept" in said


def test_finish_outlasts_a_restart(settling: Sidecar, start: Start) -> None:
    run = start()
    sent(run, 1)
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(run.finish()))
    thread.start()
    wait_for(lambda: settling.finished)
    settling.settled = at_once
    settling.restart(run.address, "second")
    thread.join(60)
    assert done == [True]
    # The restarted sidecar was told as well.
    assert settling.finished == ["run", "run"]


def test_a_sidecar_that_has_forgotten_the_run_is_told_of_it_again(
    settling: Sidecar, start: Start, warned: Warned
) -> None:
    forgotten = [True]

    def answer(response: Any) -> Any:
        if forgotten:
            forgotten.clear()
            refused = messages.IngestResponse.OUTCOME_REFUSED
            return messages.IngestResponse(
                sequence=response.sequence, outcome=refused, code=5, field="run", message="run: 'run' is unknown"
            )
        return response

    settling.answer, settling.settled = answer, at_once
    run = start()
    log(run, 1)
    assert run.finish()
    assert (len(settling.starts), run.stats.batches_dropped) == (2, {})


def test_a_pass_whose_end_is_refused_is_not_waited_for(settling: Sidecar, start: Start) -> None:
    def answer(response: Any) -> Any:
        if response.HasField("end_pass"):
            response.end_pass.outcome = messages.IngestResponse.OUTCOME_REFUSED
        return response

    settling.answer = answer
    run = start()
    log(run, 1)
    assert run.finish()
    assert (run.stats.passes_refused, run.stats.unsettled_bytes) == (1, 0)


def test_an_incomplete_point_is_said(settling: Sidecar, start: Start, warned: Warned) -> None:
    run = start(raise_errors=True)
    sent(run, 1)
    settling.settle("val", 1, outcome=messages.Settled.OUTCOME_INCOMPLETE, reason="rank 1 is missing")
    wait_for(lambda: run.stats.passes_settled == {"incomplete": 1})
    assert "the evaluation of 'val' at step 1 is incomplete: rank 1 is missing" in warned()[0]
    log(run, 2)
    settling.settle("val", 2)
