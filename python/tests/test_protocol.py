"""How the client behaves towards a sidecar that refuses, restarts, stalls or is not there."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

import conceptwatch
from conceptwatch._protocol import messages
from conftest import Start, Warned, batch, evaluated, wait_for
from sidecar import Received, Sidecar, unavailable


def test_an_end_of_pass_follows_its_batches(sidecar: Sidecar, start: Start) -> None:
    run = start(rank=0)
    for step in (10, 20):
        with run.evaluation("val", step=step, epoch=step / 10) as p:
            for i in range(5):
                p.log(**batch(seed=i))
    assert run.finish()
    kinds = ["batch" if isinstance(item, Received) else "end" for item in sidecar.order]
    assert kinds == (["batch"] * 5 + ["end"]) * 2
    assert [(end.split, end.step, end.epoch, end.rank) for end in sidecar.ends] == [
        ("val", 10, 1, 0),
        ("val", 20, 2, 0),
    ]
    heads = [item.head if isinstance(item, Received) else item for item in sidecar.order]
    assert [head.sequence for head in heads] == list(range(1, 13))
    assert {head.client for head in heads} == {sidecar.starts[0].client}
    assert sidecar.finished == ["run"]
    stats = run.stats
    assert (stats.batches_acknowledged, stats.rows_acknowledged, stats.passes_ended) == (10, 100, 2)
    assert stats.queue_bytes == 0


def test_an_end_goes_with_the_last_batch_of_its_pass_where_the_sidecar_takes_that(
    sidecar: Sidecar, start: Start
) -> None:
    sidecar.start.takes_joined_ends = True
    messages_seen: list[Any] = []
    sidecar.before = lambda request, context: messages_seen.append(request)
    run = start()
    wait_for(lambda: run._sender._call is not None)
    with run.evaluation("val", step=7) as p:
        for i in range(3):
            p.log(**batch(seed=i))
    assert run.finish()
    assert [request.WhichOneof("message") for request in messages_seen] == ["chunk"] * 3
    assert [request.chunk.end_pass.sequence for request in messages_seen] == [0, 0, 4]
    assert [(end.sequence, end.rows) for end in sidecar.ends] == [(4, 30)]
    stats = run.stats
    assert (stats.batches_acknowledged, stats.passes_ended, stats.queue_bytes) == (3, 1, 0)


@pytest.mark.parametrize("lost", ["the batch", "both"])
def test_an_end_that_went_with_a_batch_is_sent_again_with_it(lost: str, sidecar: Sidecar, start: Start) -> None:
    sidecar.start.takes_joined_ends = True
    breaks = [True]

    def before(request: Any, context: grpc.ServicerContext) -> None:
        if lost == "the batch" and breaks:
            unavailable(context, breaks.pop() * 0.01)

    def answer(response: Any) -> Any:
        if lost == "both" and breaks:
            breaks.clear()
            raise RuntimeError("the connection breaks")
        return response

    sidecar.before, sidecar.answer = before, answer
    run = start()
    evaluated(run, batch(), step=7)
    assert run.finish()
    assert {end.sequence for end in sidecar.ends} == {2}
    assert (run.stats.batches_acknowledged, run.stats.passes_ended) == (1, 1)
    assert (run.stats.retries, run.stats.queue_bytes) == (1, 0)


def test_an_end_goes_alone_when_its_batch_cannot_be_sent(sidecar: Sidecar, start: Start, warned: Warned) -> None:
    sidecar.start.takes_joined_ends = True
    sidecar.start.max_chunk_bytes = 20_000
    run = start()
    wait_for(lambda: run._sender._call is not None)
    with run.evaluation("val", step=7) as p:
        p.log(image_embeddings=np.zeros((2, 10_000), np.float32))
    run.log(step=8, **batch())
    assert run.finish()
    assert [received.head.step for received in sidecar.received] == [8]
    assert [(end.sequence, end.rows) for end in sidecar.ends] == [(2, 2)]
    assert run.stats.batches_dropped == {"invalid": 1}
    assert (run.stats.passes_ended, run.stats.queue_bytes) == (1, 0)
    assert "one of its rows takes" in warned()[0]


def test_a_small_batch_of_a_pass_waits_for_more_but_not_for_long(sidecar: Sidecar, start: Start) -> None:
    run = start()
    wait_for(lambda: run._sender._call is not None)
    wait_for(lambda: not run._sender._due)
    with run.evaluation("val", step=1) as p:
        p.log(**batch())
        assert run._sender._due is False, "its threads are left asleep"
        wait_for(lambda: run.stats.queue_bytes == 0)
        assert len(sidecar.received) == 1
        p.log(**batch(10_000))
        assert run._sender._due or run.stats.queue_bytes == 0, "a large one goes at once"
    assert run.finish()


def test_an_evaluation_that_an_exception_leaves_is_given_up_and_the_sidecar_is_told(
    sidecar: Sidecar, start: Start, warned: Warned
) -> None:
    run = start()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), run.evaluation("val", step=1) as p:  # noqa: PT012
            p.log(**batch())
            raise ZeroDivisionError
    assert run.finish()
    assert [(end.step, end.ordinal, end.abandoned) for end in sidecar.ends] == [
        (1, 1, "ZeroDivisionError"),
        (1, 2, "ZeroDivisionError"),
    ]
    # What had not been sent is not sent any more.
    assert sum(received.rows for received in sidecar.received) + run.stats.rows_dropped["abandoned"] == 20
    assert (run.stats.passes_abandoned, run.stats.passes_ended, run.stats.queue_bytes) == (2, 0, 0)
    assert len(warned()) == 1
    assert "ZeroDivisionError left an evaluation of 'val'" in warned()[0]


def test_large_batches_go_in_chunks_no_larger_than_the_sidecar_takes(sidecar: Sidecar, start: Start) -> None:
    sidecar.start.max_chunk_bytes = 20_000
    run = start()
    wait_for(lambda: run._link.declared)
    tensors = batch(5000)
    tensors["predicted_text"] = ["x" * (i % 50) for i in range(5000)]
    run.log(step=1, **tensors)
    assert run.finish()
    (received,) = sidecar.received
    assert sidecar.largest <= 20_000
    assert len(received.chunks) > 5000 * 52 // 20_000
    assert [chunk.last for chunk in received.chunks] == [False] * (len(received.chunks) - 1) + [True]
    assert received.row_numbers == list(range(5000))
    for name in ("concept_activations", "concept_labels", "task_labels"):
        assert received.data(name) == tensors[name].tobytes()
    assert received.texts("predicted_text") == tensors["predicted_text"]


def test_a_batch_larger_than_the_sidecar_takes_goes_as_several(sidecar: Sidecar, start: Start) -> None:
    sidecar.start.max_batch_bytes = 50_000
    run = start()
    wait_for(lambda: run._link.declared)
    tensors = batch(5000, first_id=0)
    run.log(step=1, **tensors)
    assert run.finish()
    assert len(sidecar.received) > 5
    assert all(sum(len(t.data) for c in r.chunks for t in c.tensors) <= 50_000 for r in sidecar.received)
    assert b"".join(r.data("sample_ids") for r in sidecar.received) == tensors["sample_ids"].tobytes()
    assert [r.head.sequence for r in sidecar.received] == list(range(1, len(sidecar.received) + 1))


def test_over_its_budget_the_sidecar_is_given_the_time_it_asks_for(
    sidecar: Sidecar, start: Start, warned: Warned
) -> None:
    refusals = [0.01] * 3

    def before(request: Any, context: grpc.ServicerContext) -> None:
        # In the middle of the second batch: it has to come again from its first chunk.
        if request.chunk.sequence == 2 and request.chunk.chunk == 1 and refusals:
            unavailable(context, refusals.pop())

    sidecar.before = before
    sidecar.start.max_chunk_bytes = 20_000
    run = start()
    wait_for(lambda: run._link.declared)
    for i in range(4):
        run.log(step=1, **batch(1000, seed=i))
    assert run.finish()
    assert [received.head.sequence for received in sidecar.received][-3:] == [2, 3, 4]
    assert {received.rows for received in sidecar.received} == {1000}
    assert (run.stats.retries, sidecar.streams) == (3, 4)
    assert warned() == []


def test_a_sidecar_that_dies_and_comes_back_gets_everything_unacknowledged(
    sidecar: Sidecar, start: Start, warned: Warned
) -> None:
    run = start()
    run.log(step=1, **batch(seed=1))
    wait_for(lambda: run.stats.queue_bytes == 0)
    sidecar.close()
    for i in range(5):
        run.log(step=2 + i, **batch(seed=i))
    wait_for(lambda: run.stats.retries >= 2)
    sidecar.serve(run.address)
    assert run.finish()
    assert [received.head.step for received in sidecar.received] == [1, 2, 3, 4, 5, 6]
    assert len(sidecar.starts) == 2
    assert "the connection to the sidecar at" in warned()[0]
    assert "waiting up to 5 s" in warned()[1]


def test_the_port_of_the_page_is_named_as_that(start: Start, warned: Warned) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as page:
        threading.Thread(target=page.serve_forever, daemon=True).start()
        run = start(address=f"127.0.0.1:{page.server_port}")
        run.log(step=1, **batch())
        wait_for(warned)
        page.shutdown()
    assert "failed (this is an HTTP port; a job needs the gRPC port, by default 7800)" in warned()[0]


def test_a_batch_whose_acknowledgement_was_lost_is_sent_again_the_same(sidecar: Sidecar, start: Start) -> None:
    lost = [True]

    def answer(response: Any) -> Any:
        if response.sequence == 2 and lost:
            lost.clear()
            raise RuntimeError("the connection breaks")
        return response

    sidecar.answer = answer
    run = start()
    for i in range(3):
        run.log(step=1, **batch(seed=i))
    assert run.finish()
    by_sequence: dict[int, set[bytes]] = {}
    for received in sidecar.received:
        by_sequence.setdefault(received.head.sequence, set()).add(received.data("concept_activations"))
    assert sorted(by_sequence) == [1, 2, 3]
    assert all(len(versions) == 1 for versions in by_sequence.values())
    assert len(sidecar.received) >= 4


def test_an_unreachable_sidecar_is_one_warning(start: Start, warned: Warned) -> None:
    run = start(address="127.0.0.1:1")
    p = evaluated(run, batch())
    wait_for(lambda: run.stats.retries >= 3)
    assert p.scores(timeout=60.0) is None, "at once, since nothing can come"
    assert run.should_stop(step=1, timeout=60.0) is False
    assert len(warned()) == 1
    assert not run.finish(timeout=0.1)
    assert run.stats.batches_dropped == {"unsent": 1}
    run.log(step=2, **batch())
    assert run.stats.batches_dropped == {"unsent": 1, "invalid": 1}


def test_a_full_queue_drops_and_counts(sidecar: Sidecar, start: Start) -> None:
    sidecar.hold = threading.Event()
    size = sum(np.asarray(value).nbytes for value in batch(100).values())
    run = start(queue_bytes=3 * size)
    for i in range(10):
        run.log(step=i, **batch(100))
    stats = run.stats
    assert (stats.batches_queued, stats.queue_bytes) == (3, 3 * size)
    assert stats.batches_dropped == {"queue_full": 7}
    assert stats.rows_dropped == {"queue_full": 700}
    sidecar.hold.set()
    wait_for(lambda: run.stats.queue_bytes == 0)
    run.log(step=99, **batch(100))
    assert run.finish()
    assert [received.head.step for received in sidecar.received] == [0, 1, 2, 99]


def test_refused_batches_are_said_once_for_each_message(sidecar: Sidecar, start: Start, warned: Warned) -> None:
    def answer(response: Any) -> Any:
        field = "tensors.task_labels" if response.sequence % 2 else "tensors.concept_labels"
        return messages.IngestResponse(
            sequence=response.sequence, outcome=messages.IngestResponse.OUTCOME_REFUSED, code=3, field=field,
            message=f"row {response.sequence} has 7, expected 0 to 1",
        )  # fmt: skip

    sidecar.answer = answer
    run = start()
    for i in range(6):
        run.log(step=i, **batch())
    assert run.finish()
    assert len(warned()) == 2
    assert "tensors.task_labels: row 1 has 7, expected 0 to 1" in warned()[0]
    assert run.stats.batches_dropped == {"refused": 6}
    assert run.stats.rows_dropped == {"refused": 60}
    assert (run.stats.rows_acknowledged, sidecar.streams) == (0, 1)


def test_a_refused_run_is_said_once_and_sends_nothing(sidecar: Sidecar, start: Start, warned: Warned) -> None:
    sidecar.refuse_start = "run.name: has the character \\n"
    run = start()
    run.log(step=1, **batch())
    wait_for(lambda: run._link.refused)
    run.log(step=2, **batch())
    evaluated(run, batch(), step=2)
    assert not run.should_stop(step=2)
    why = "the sidecar refuses this run, so nothing of it is scored: invalid_argument: run.name: has the character \\n"
    assert run.stop_reason(step=2) == why
    assert why in repr(run)
    assert not run.finish()
    assert run.stats.batches_dropped == {"run_refused": 3}
    assert sidecar.received == []
    assert len(warned()) == 1
    assert "run.name: has the character" in warned()[0]


def test_a_batch_that_is_copied_while_its_run_is_refused_is_counted_and_not_waited_for(
    sidecar: Sidecar, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start()

    def refused_meanwhile(*_: Any) -> bool:
        run._sender._outbox.refuse(run._link, "run_refused", "no")
        return True

    monkeypatch.setattr(run._sender, "has_room", refused_meanwhile)
    run.log(step=1, **batch())
    began = time.monotonic()
    assert not run.finish(timeout=60)
    assert time.monotonic() - began < 30
    assert run.stats.batches_dropped == {"run_refused": 1}
    assert sidecar.received == []


def test_what_a_sidecar_refuses_is_raised_on_request(sidecar: Sidecar, start: Start) -> None:
    sidecar.refuse_start = "no"
    run = start(raise_errors=True)
    wait_for(lambda: run._link.fault is not None)
    with pytest.raises(conceptwatch.ConceptwatchError, match="refuses this run"):
        run.log(step=1, **batch())


def test_a_message_that_breaks_the_connection_each_time_is_given_up(
    sidecar: Sidecar, start: Start, warned: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conceptwatch._sender.FIRST_PAUSE", 0.01)

    def before(request: Any, context: grpc.ServicerContext) -> None:
        if request.chunk.step == 1:
            context.abort(grpc.StatusCode.INTERNAL, "it broke")

    sidecar.before = before
    run = start()
    for step in (1, 2, 3):
        run.log(step=step, **batch())
    assert run.finish()
    assert [received.head.step for received in sidecar.received] == [2, 3]
    assert run.stats.batches_dropped == {"failed": 1}
    assert sidecar.streams < 10, "with a growing pause between attempts"
    assert any("broke each time it was sent" in line for line in warned())


def test_two_runs_of_a_process_share_a_connection(sidecar: Sidecar, start: Start) -> None:
    first = start(name="a")
    first.log(step=1, **batch())
    wait_for(lambda: first.stats.batches_acknowledged == 1)
    second = start(name="b", address=first.address)
    second.log(step=1, **batch())
    first.log(step=2, **batch())
    assert second.finish()
    assert first.finish()
    assert sorted(received.head.run for received in sidecar.received) == ["a", "a", "b"]
    assert {received.head.client for received in sidecar.received} == {sidecar.starts[0].client}
    assert {start.run.name for start in sidecar.starts} == {"a", "b"}
    assert sorted(sidecar.finished) == ["a", "b"]


def test_without_a_sidecar_that_reads_runs_there_is_no_diagnosis(sidecar: Sidecar, start: Start) -> None:
    run = start()
    # One of an older version, which does not know the call, and one that is gone.
    assert run.diagnosis(timeout=5.0) is None
    sidecar.close()
    assert run.diagnosis() is None


def test_many_threads_may_log(sidecar: Sidecar, start: Start) -> None:
    run = start()

    def work(thread: int) -> None:
        for i in range(25):
            run.log(step=1, **batch(20, first_id=1000 * thread + 20 * i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert run.finish()
    ids = np.concatenate([np.frombuffer(r.data("sample_ids"), "<u8") for r in sidecar.received])
    assert sorted(ids) == sorted(1000 * t + i for t in range(8) for i in range(500))
    assert [received.head.sequence for received in sidecar.received] == list(range(1, 201))


def test_unix_sockets_and_ipv6_are_addresses(sidecar: Sidecar, start: Start, tmp_path: Path) -> None:
    for address in (f"unix:{tmp_path}/s", "[::1]:0"):
        run = start(address=sidecar.serve(address))
        run.log(step=1, **batch())
        assert run.finish()
        sidecar.close()
    assert len(sidecar.received) == 2


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    sidecar: Sidecar, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    run = start()
    run.log(step=1, **batch())
    assert run.finish()
