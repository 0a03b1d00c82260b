"""A small sidecar in this process that speaks the protocol and does what a test scripts."""

from __future__ import annotations

import gc
import os
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any

import grpc

from conceptwatch._protocol import SERVICE, messages, status

# A forked child, such as a worker of a DataLoader, that collects a server of its parent hangs or aborts in gRPC.
os.register_at_fork(after_in_child=gc.freeze)


@dataclass
class Received:
    """A whole batch, its chunks put together."""

    chunks: list[Any]
    incarnation: str = ""

    @property
    def head(self) -> Any:
        return self.chunks[0]

    @property
    def rows(self) -> int:
        return sum(chunk.tensors[0].shape[0] for chunk in self.chunks)

    @property
    def row_numbers(self) -> list[int]:
        numbers: list[int] = []
        for chunk in self.chunks:
            own = range(chunk.first_row, chunk.first_row + chunk.tensors[0].shape[0])
            numbers.extend(chunk.row_numbers or own)
        return numbers

    def data(self, name: str) -> bytes:
        return b"".join(t.data for chunk in self.chunks for t in chunk.tensors if t.name == name)

    def texts(self, name: str) -> list[str]:
        return [text for chunk in self.chunks for t in chunk.tensors if t.name == name for text in t.texts]

    def tensor(self, name: str) -> Any:
        return next(t for t in self.head.tensors if t.name == name)


@dataclass
class Stream:
    """An Ingest call: what is to be answered, and the passes whose end it has brought."""

    answers: queue.Queue[Any] = field(default_factory=queue.Queue)
    ended: set[tuple[str, str, int]] = field(default_factory=set)


@dataclass
class Sidecar:
    """What it received, and how it answers."""

    start: Any = field(
        default_factory=lambda: messages.StartRunResponse(
            sample_rows=4096,
            max_chunk_bytes=4 << 20,
            max_batch_bytes=64 << 20,
            windows={"val": messages.WINDOW_KIND_PASS},
            default_window=messages.WINDOW_KIND_RECENT,
        )
    )
    refuse_start: str | None = None
    refuse_as: grpc.StatusCode = grpc.StatusCode.INVALID_ARGUMENT
    answer: Callable[[Any], Any] = lambda response: response
    declaring: Callable[[Any], None] = lambda request: None  # called before each declaration is answered
    # Called before each message is taken; raising ends the stream.
    before: Callable[[Any, grpc.ServicerContext], None] = lambda request, context: None
    keep: bool = True  # what was received, for the test to look at
    hold: threading.Event | None = None  # no message is taken until it is set
    point: Any = None
    stop: bool = False
    # How a pass that has ended is settled, in the answer to its end; None: later, by `settle`, or never.
    settled: Callable[[Any], Any] = lambda end: None
    unsettled: list[Any] = field(default_factory=list)  # answered by FinishRun
    credentials: grpc.ServerCredentials | None = None  # TLS

    starts: list[Any] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    ends: list[Any] = field(default_factory=list)
    order: list[Any] = field(default_factory=list)
    largest: int = 0
    streams: int = 0
    finished: list[str] = field(default_factory=list)
    finish_requests: list[Any] = field(default_factory=list)
    _open: list[Stream] = field(default_factory=list)
    # How passes were settled that no open stream has the end of, by run, split and step: said to whoever sends it next.
    _settled: dict[tuple[str, str, int], Any] = field(default_factory=dict)
    advice_asked: int = 0
    # Steps at which other ranks were advised to stop; with -1 it refuses the question.
    stopped: list[int] = field(default_factory=list)
    server: Any = None

    def serve(self, address: str = "127.0.0.1:0") -> str:
        handlers = {
            "StartRun": unary(self._start, messages.StartRunRequest),
            "FinishRun": unary(self._finish, messages.FinishRunRequest),
            "GetScores": unary(self._scores, messages.GetScoresRequest),
            "GetAdvice": unary(self._advice, messages.GetAdviceRequest),
            "Ingest": grpc.stream_stream_rpc_method_handler(
                self._ingest,
                request_deserializer=messages.IngestRequest.FromString,
                response_serializer=messages.IngestResponse.SerializeToString,
            ),
        }
        options = [("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)]
        self.server = grpc.server(futures.ThreadPoolExecutor(8), options=options)
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        if self.credentials is not None:
            port = self.server.add_secure_port(address, self.credentials)
        else:
            port = self.server.add_insecure_port(address)
        self.server.start()
        return address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}"

    def restart(self, address: str, incarnation: str) -> None:
        """Ends without a word, and starts again with nothing."""
        self.close()
        self.start.incarnation = incarnation
        self.serve(address)

    def settle(self, split: str, *steps: int, outcome: Any = messages.Settled.OUTCOME_POINT, reason: str = "") -> None:
        """Says that passes of the run 'run' are settled: on the streams that have brought their end."""
        for step in steps:
            settled = messages.Settled(run="run", split=split, step=step, outcome=outcome, reason=reason)
            told = [stream for stream in self._open if ("run", split, step) in stream.ended]
            for stream in told:
                stream.answers.put(messages.IngestResponse(settled=[settled]))
            if not told:
                self._settled["run", split, step] = settled

    @property
    def is_streaming(self) -> bool:
        """Whether a stream is open; known of a sidecar with an incarnation."""
        return bool(self._open)

    def close(self) -> None:
        if self.server is not None:
            self.server.stop(0).wait()
            self.server = None

    def _start(self, request: Any, context: grpc.ServicerContext) -> Any:
        if self.refuse_start:
            context.abort(self.refuse_as, self.refuse_start)
        self.declaring(request)
        self.starts.append(request)
        return self.start

    def _finish(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.finished.append(request.run)
        self.finish_requests.append(request)
        return messages.FinishRunResponse(unsettled=self.unsettled)

    def _scores(self, request: Any, context: grpc.ServicerContext) -> Any:
        return messages.GetScoresResponse(point=self.point)

    def _advice(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.advice_asked += 1
        if request.timeout_seconds > 3600.0 or -1 in self.stopped:
            context.abort(grpc.StatusCode.OUT_OF_RANGE, "step: no")
        missed = max(set(self.stopped) & set(request.unanswered_steps), default=None)
        return messages.GetAdviceResponse(
            stop=self.stop,
            reason="a rule fires" if self.stop else "no rule fires",
            missed_step=missed,
            missed_reason="" if missed is None else "it fired",
        )

    def _ingest(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        self.streams += 1
        if not self.start.incarnation:
            yield from self._answers(requests, context, Stream())
            return
        stream = Stream()
        answers = stream.answers
        self._open.append(stream)

        def read() -> None:
            try:
                for answer in self._answers(requests, context, stream):
                    answers.put(answer)
                answers.put(None)
            except Exception as error:
                answers.put(error)

        threading.Thread(target=read, daemon=True).start()
        try:
            while (answer := answers.get()) is not None:
                if isinstance(answer, Exception):
                    raise answer
                yield answer
        finally:
            self._open.remove(stream)

    def _answers(self, requests: Iterator[Any], context: grpc.ServicerContext, stream: Stream) -> Iterator[Any]:
        chunks: list[Any] = []
        for request in requests:
            if self.hold is not None:
                self.hold.wait()
            self.before(request, context)
            self.largest = max(self.largest, request.ByteSize())
            if request.HasField("end_pass"):
                yield self.answer(self._ended(request.end_pass, request.end_pass, stream))
                continue
            chunks.append(request.chunk)
            assert request.chunk.chunk == len(chunks) - 1
            if request.chunk.last:
                batch = Received(chunks, self.start.incarnation)
                chunks = []
                if self.keep:
                    self.received.append(batch)
                    self.order.append(batch)
                answer = self._accepted(batch.head.sequence, batch.rows)
                joined = request.chunk.end_pass
                if joined.sequence:
                    assert self.start.takes_joined_ends
                    answer.end_pass.CopyFrom(self._ended(joined, request.chunk, stream))
                yield self.answer(answer)

    def _ended(self, end: Any, head: Any, stream: Stream) -> Any:
        """The answer to an end of pass, which came alone or with the message `head`."""
        self.ends.append(end)
        self.order.append(end)
        answer = self._accepted(end.sequence, 0)
        ended = (head.run, head.split, head.step)
        stream.ended.add(ended)
        settled = self.settled(head) or self._settled.get(ended)
        if settled is not None:
            answer.settled.append(settled)
        return answer

    @staticmethod
    def _accepted(sequence: int, rows: int) -> Any:
        return messages.IngestResponse(sequence=sequence, outcome=messages.IngestResponse.OUTCOME_ACCEPTED, rows=rows)


def unary(call: Any, request: Any) -> Any:
    """The handler of a call with requests of this type."""
    return grpc.unary_unary_rpc_method_handler(
        call, request_deserializer=request.FromString, response_serializer=lambda m: m.SerializeToString()
    )


def at_once(end: Any) -> Any:
    """Settles a pass with its point in the answer to its end: for `Sidecar.settled`."""
    return messages.Settled(run=end.run, split=end.split, step=end.step, outcome=messages.Settled.OUTCOME_POINT)


def unavailable(context: grpc.ServicerContext, seconds: float) -> None:
    """Ends the call as a sidecar over its byte budget does."""
    info = status.RetryInfo()
    info.retry_delay.FromNanoseconds(int(seconds * 1e9))
    details = status.Status(code=14, message="over the byte budget")
    detail = details.details.add()
    detail.type_url, detail.value = "type.googleapis.com/google.rpc.RetryInfo", info.SerializeToString()
    context.set_trailing_metadata((("grpc-status-details-bin", details.SerializeToString()),))
    context.abort(grpc.StatusCode.UNAVAILABLE, "over the byte budget")
