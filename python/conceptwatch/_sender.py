"""The background thread that sends what a process logs to one sidecar, and the bounded queue in front of it.

A batch stays in the queue until the sidecar acknowledges it. After a broken connection everything unacknowledged is
sent again; the sidecar ignores duplicates.
"""

from __future__ import annotations

import itertools
import logging
import os
import random
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import grpc

from . import _encode
from ._connection import channel_to, described, retry_delay
from ._fork import usable
from ._link import EndOfPass, Item, Limits, Link
from ._protocol import Calls, messages
from ._recording import SCHEME, Recorder
from ._stats import Stats
from ._version import __version__

log = logging.getLogger("conceptwatch")

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
CALL_TIMEOUT = 10.0
# Consecutive failures, none of them "unavailable", after which the first unacknowledged message is given up.
GIVE_UP_AFTER = 5
# Batches of a pass wait for further ones, or for its end, up to this size and this many seconds: every message wakes
# threads here and in the sidecar, which take CPU time from training.
JOINED_BYTES, LONGEST_WAIT = 256 << 10, 0.25
# Limit on waiting ends of passes: they hold no data, but without a sidecar their number would grow.
MAX_WAITING_ENDS = 10_000

_REFUSALS = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
)


class Disconnected(Exception):
    """The sidecar ended the stream while messages were unacknowledged."""


class Sender:
    """Sends for all runs of this process that use one address."""

    def __init__(self, address: str, token: str | None) -> None:
        self.address, self.token = address, token
        self._inherited: list[Any] = []
        self._begin()

    def _begin(self) -> None:
        self.client = uuid.uuid4().hex
        # One lock, and separate conditions for those who wait to send and those who wait for acknowledgements: threads
        # woken for nothing take CPU time from training.
        lock = threading.RLock()
        self._wake, self._settled = threading.Condition(lock), threading.Condition(lock)
        self._waiting: deque[Item] = deque()
        self._in_flight: OrderedDict[int, Item] = OrderedDict()
        self._waiting_bytes = 0
        self._due = False  # the queue is to be sent now
        self._sequence = 0
        self._links: list[Link] = []
        self._thread: threading.Thread | None = None
        self._channel: grpc.Channel | Recorder | None = None
        self._calls: Calls | Recorder | None = None
        self._recorder: Recorder | None = None
        self._call: Any = None
        self._stopping = False
        self._hurry = False
        self._warned = False
        self._failures = itertools.count(1)
        self._progress = False  # a message was acknowledged since the last failure
        self._streaming = False
        self.down = False  # the last attempt failed
        # Held from taking a sequence number until its item is queued, so that the queue is in their order.
        self.logging = threading.Lock()

    def after_fork(self) -> None:
        """In the child: forgets the parent's queue, thread and connection, which only the parent may use."""
        # Closing the parent's channel here could block on locks held by threads that do not exist in the child.
        self._inherited += [self._channel, self._calls, self._call, self._waiting, self._in_flight]
        for link in self._links:
            link.declared, link.outstanding, link.stats = False, 0, Stats()
            link.kept.clear()
        self._begin()

    # ------------------------------------------------------------ called by the job's threads

    def attach(self, link: Link) -> None:
        with self._wake:
            if not usable():
                return
            if link not in self._links:
                self._links.append(link)
            self._stopping = False
            self._run_thread()
            self._wake.notify_all()

    def calls(self) -> Calls | Recorder:
        with self._wake:
            return self._connected()

    def has_room(self, link: Link, size: int) -> bool:
        with self._wake:
            return link.stats.queue_bytes + size <= link.queue_bytes

    @property
    def next_sequence(self) -> int:
        """The sequence number of the next item, while `logging` is held."""
        return self._sequence + 1

    def put(self, link: Link, content: _encode.Batch | EndOfPass) -> None:
        """Queues a batch or an end of pass; the caller holds `logging`."""
        with self._wake:
            link.stats.queue_bytes += content.bytes
            if isinstance(content, _encode.Batch):
                link.stats.batches_queued += 1
                link.stats.rows_queued += content.rows
            elif link.outstanding >= MAX_WAITING_ENDS:
                return
            self._sequence += 1
            link.outstanding += 1
            self._waiting.append(Item(link, content, self._sequence))
            self._waiting_bytes += content.bytes
            if link not in self._links:
                self._links.append(link)  # in a child that was forked before the first connection
            self._run_thread()
            if isinstance(content, EndOfPass) and self._keep(link, content):
                return
            of_pass = isinstance(content, _encode.Batch) and content.panel is not None
            joins = of_pass and self._call is not None and self._waiting_bytes <= JOINED_BYTES
            if self._due or not joins:
                self._send_now()

    def flush(self, link: Link, timeout: float, *, while_down: bool) -> bool:
        """Waits until all of the run's messages are acknowledged or given up. False when the time ran out.

        Without `while_down` also False, at once, when the sidecar cannot be reached. Without a timeout kept passes stay
        kept: the sidecar could not score them in time anyway.
        """
        with self._wake:
            self._hurry = self._hurry or while_down
            if timeout > 0.0 or while_down:
                self._send_kept(link)
            self._send_now()
            self._settled.wait_for(lambda: link.outstanding == 0 or (self.down and not while_down), timeout)
            return link.outstanding == 0

    def wait_declared(self, link: Link, timeout: float) -> bool:
        """Waits until the sidecar accepts the run. Returns at once if the sidecar refuses it or cannot be reached."""
        with self._wake:
            self._settled.wait_for(lambda: link.declared or link.refused or self.down or not usable(), timeout)
            return link.declared

    def detach(self, link: Link) -> None:
        """Drops the remaining items of a run. The connection closes with the last run."""
        with self._wake:
            self._drop_waiting(link, "unsent")
            if link in self._links:
                self._links.remove(link)
            last = not self._links
            self._stopping = last
            call, channel, thread = self._call, self._channel, self._thread
            self._wake.notify_all()
        if last:
            if call is not None:
                call.cancel()
            if thread is not None and thread is not threading.current_thread():
                thread.join(1.0)
            if channel is not None:
                channel.close()
            with self._wake:
                if self._channel is channel:
                    self._channel = self._calls = None

    def stats(self, link: Link) -> Stats:
        with self._wake:
            dropped = {name: getattr(link.stats, name).copy() for name in ("batches_dropped", "rows_dropped")}
            return replace(link.stats, **dropped)

    def count_drop(self, link: Link, reason: str, rows: int) -> None:
        with self._wake:
            link.stats.drop(reason, 1, rows)

    def count_failed_head(self, link: Link) -> None:
        with self._wake:
            link.stats.heads_failed += 1

    # ------------------------------------------------------------ passes that the sidecar would skip

    def _keep(self, link: Link, end: EndOfPass) -> bool:
        """Keeps back a pass that has just ended, replacing one kept earlier, while the sidecar cannot score its split.

        Only with one rank, since several would keep different passes; and not a pass that is already partly sent.
        """
        before = link.kept.pop(end.split, None)
        if before is not None:
            end.left_out = self._leave_out(link, before)
        if link.run.world_size > 1 or time.monotonic() >= link.keep_until.get(end.split, 0.0):
            return False
        of_pass = [item for item in self._waiting if item.link is link and _is_of(item, end)]
        if sum(item.content.rows for item in of_pass) != end.logged_rows:
            return False
        self._waiting = deque(item for item in self._waiting if item not in of_pass)
        self._waiting_bytes -= sum(item.content.bytes for item in of_pass)
        link.kept[end.split] = of_pass
        return True

    def _leave_out(self, link: Link, kept: list[Item]) -> int:
        """Settles a kept pass that will not be sent. Returns the number of passes left out, including it."""
        left_out = 1
        link.stats.passes_left_out += 1
        for item in kept:
            self._settle(item)
            if isinstance(item.content, EndOfPass):
                left_out += item.content.left_out
            else:
                link.stats.batches_left_out += 1
                link.stats.rows_left_out += item.content.rows
        return left_out

    def _send_kept(self, link: Link, split: str | None = None) -> None:
        """Moves kept passes to the front of the queue, so that they precede newer ones of their split."""
        for kept in [split] if split is not None else list(link.kept):
            items = link.kept.pop(kept, [])
            self._waiting.extendleft(reversed(items))
            self._waiting_bytes += sum(item.content.bytes for item in items)

    def _send_what_was_kept_long_enough(self) -> None:
        now = time.monotonic()
        for link in self._links:
            for split in [split for split in link.kept if now >= link.keep_until.get(split, 0.0)]:
                self._send_kept(link, split)

    # ------------------------------------------------------------ the sending thread

    def _send_now(self) -> None:
        self._due = True
        self._wake.notify_all()

    def _run_thread(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name="conceptwatch", daemon=True)
            self._thread.start()

    def _connected(self) -> Calls | Recorder:
        if self._calls is None and self.address.startswith(SCHEME):
            # One for all runs of the process, also after it was closed: it knows the names in use.
            self._recorder = self._recorder or Recorder(self.address.removeprefix(SCHEME))
            self._channel = self._calls = self._recorder
        if self._calls is None:
            self._channel = channel_to(self.address)
            self._calls = Calls(self._channel, self.token)
        return self._calls

    def _work(self) -> None:
        pause = FIRST_PAUSE
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._stopping or self._waiting or self._undeclared())
                if self._stopping:
                    self._thread = None
                    return
                self._progress = self._streaming = False
            try:
                self._declare_runs()
                self._stream()
                pause = FIRST_PAUSE
            except Exception as error:  # no failure here may end the thread or the job
                if self._progress:
                    pause = FIRST_PAUSE
                told = retry_delay(error)
                self._note_failure(error, unavailable=told is not None)
                wait = pause if told is None else told
                self._rest(wait * random.uniform(1.0, 1.5))
                pause = min(pause * 2, LONGEST_PAUSE) if told is None else pause

    def _undeclared(self) -> list[Link]:
        return [link for link in self._links if not link.declared and not link.refused]

    def _rest(self, seconds: float) -> None:
        with self._wake:
            self._hurry = False
            self._wake.wait_for(lambda: self._stopping or self._hurry, seconds)
            self._hurry = False

    def _note_failure(self, error: Exception, *, unavailable: bool) -> None:
        code = error.code() if isinstance(error, grpc.RpcError) and hasattr(error, "code") else None
        with self._wake:
            if self._stopping:
                return  # this side closed the connection
            self.down = not unavailable
            self._settled.notify_all()
            for link in self._links:
                link.stats.retries += 1
                link.declared = False
                # A restarted sidecar no longer has the rows it accepted, so they give no bound.
                for panel in list(link.panels):
                    panel.clear()
            # No message is at fault when nothing listens or a disk is full.
            if self._progress or unavailable or code == grpc.StatusCode.UNAVAILABLE or isinstance(error, OSError):
                self._failures = itertools.count(1)
            elif self._streaming and next(self._failures) >= GIVE_UP_AFTER and self._waiting:
                self._failures = itertools.count(1)
                item = self._waiting.popleft()
                self._waiting_bytes -= item.content.bytes
                self._settle(item)
                item.link.stats.drop("failed", 1, item.content.rows)
                item.link.warn(f"gave up on a message that breaks the connection: {described(error)}")
            first = not self._warned and not unavailable
            self._warned = self._warned or first
        if first:
            recording = self.address.startswith(SCHEME)
            log.warning(
                "conceptwatch: %s %s failed (%s). Training continues; batches wait in a bounded queue and are sent "
                "once it works again. This warning is not repeated.",
                "recording to" if recording else "the connection to the sidecar at",
                self.address.removeprefix(SCHEME),
                described(error),
            )

    def _declare_runs(self) -> None:
        """Declares the runs that have not been declared on this connection."""
        with self._wake:
            links, calls = self._undeclared(), self._connected()
        for link in links:
            # The same request each time, so that a restarted sidecar finds the run by its job.
            request = messages.StartRunRequest(
                run=link.run,
                client=self.client,
                client_version=__version__,
                job=link.launch.job,
                attempt=link.launch.attempt,
                rank=link.rank,
                resume=link.resume,
            )
            try:
                answer = calls.start_run(request, timeout=CALL_TIMEOUT)
            except grpc.RpcError as error:
                if error.code() not in _REFUSALS:
                    raise
                with self._wake:
                    self._refuse(link, "run_refused")
                link.warn(f"the sidecar refuses it, so nothing is measured: {self._refusal(error)}")
                continue
            with self._wake:
                renamed = link.adopt(answer.run or link.run.name)
                link.declared, link.page_url = True, answer.page_url
                skewed = not _same_release(answer.server_version)
                default = Limits()
                link.limits = Limits(
                    sample_rows=answer.sample_rows,
                    sample_seed=answer.sample_seed,
                    max_chunk_bytes=answer.max_chunk_bytes or default.max_chunk_bytes,
                    max_batch_bytes=answer.max_batch_bytes or default.max_batch_bytes,
                    windows=dict(answer.windows),
                    default_window=answer.default_window,
                    takes_joined_ends=answer.takes_joined_ends,
                )
                self.down = False
                self._settled.notify_all()
            if renamed:
                link.tell_name()
            if skewed:
                link.warn(
                    f"this client has version {__version__} and the sidecar {answer.server_version}: what either of "
                    "them does not know is left out"
                )

    def _refusal(self, error: Any) -> str:
        if error.code() != grpc.StatusCode.UNAUTHENTICATED:
            return described(error)
        fault = "it requires a token and got none" if self.token is None else "it got a token that is not its own"
        return f"{fault} (token_file, or CONCEPTWATCH_TOKEN_FILE)"

    def _stream(self) -> None:
        """Makes one Ingest call, until it ends or a run has to be declared."""
        ended = threading.Event()
        with self._wake:
            if self._stopping or not any(link.declared for link in self._links):
                return
            self._streaming = self._due = True
            self._call = call = self._connected().ingest(self._requests(ended))
        try:
            for answer in call:
                self._acknowledge(answer)
                if answer.HasField("end_pass"):
                    self._acknowledge(answer.end_pass)
            asked = ended.is_set()
        finally:
            with self._wake:
                ended.set()
                self._call = None
                for link in self._links:
                    self._send_kept(link)
                self._waiting.extendleft(reversed(self._in_flight.values()))
                self._in_flight.clear()
                self._waiting_bytes = sum(item.content.bytes for item in self._waiting)
                self._wake.notify_all()
        if not asked:
            raise Disconnected("it ended the stream")

    def _requests(self, ended: threading.Event) -> Iterator[bytes]:
        """The requests of the Ingest call. Runs on a gRPC thread, which waits here for the next message."""
        while True:
            with self._wake:
                while not (ended.is_set() or self._stopping or self._undeclared() or (self._waiting and self._due)):
                    if not self._wake.wait(LONGEST_WAIT):
                        self._send_what_was_kept_long_enough()
                        self._due = bool(self._waiting)
                if ended.is_set() or self._stopping or self._undeclared():
                    ended.set()
                    return
                item, end = self._next()
            try:
                for request in self._encoded(item, end):
                    if ended.is_set():
                        return
                    yield request
                    item.link.stats.bytes_sent += len(request)
            except Exception as error:  # a batch that cannot be encoded must not block those behind it
                with self._wake:
                    if self._in_flight.pop(item.sequence, None) is None:
                        continue  # it was dropped meanwhile
                    self._settle(item)
                    item.link.stats.drop("invalid", 1, item.content.rows)
                    if end is not None:
                        del self._in_flight[end.sequence]
                        self._waiting.appendleft(end)
                        self._due = True
                item.link.warn(f"a batch cannot be sent: {error}")

    def _next(self) -> tuple[Item, Item | None]:
        """Takes the first item, and the end of its pass if both fit into one message."""
        first = self._waiting[0]
        if first.content.split in first.link.kept:
            self._send_kept(first.link, first.content.split)
        item, end = self._waiting.popleft(), None
        content = item.content
        if self._waiting and isinstance(content, _encode.Batch) and item.link.limits.takes_joined_ends:
            behind = self._waiting[0]
            if behind.link is item.link and isinstance(behind.content, EndOfPass) and behind.content.is_of(content):
                end = self._waiting.popleft()
        for taken in (item, end) if end is not None else (item,):
            self._in_flight[taken.sequence] = taken
            self._waiting_bytes -= taken.content.bytes
        self._due = bool(self._waiting)
        return item, end

    def _encoded(self, item: Item, end: Item | None) -> Iterator[bytes]:
        link, content = item.link, item.content
        if isinstance(content, _encode.Batch):
            link.stats.batches_sent += 1
            joined = None
            if end is not None and isinstance(end.content, EndOfPass):
                ended = end.content
                joined = messages.JoinedEnd(sequence=end.sequence, rows=ended.logged_rows, left_out=ended.left_out)
            return _encode.requests(content, link.name, link.rank, self.client, item.sequence, link.limits, joined)
        end_pass = messages.EndPass(
            run=link.name,
            split=content.split,
            step=content.step,
            epoch=content.epoch,
            rank=link.rank,
            client=self.client,
            sequence=item.sequence,
            rows=content.logged_rows,
            left_out=content.left_out,
        )
        return iter([messages.IngestRequest(end_pass=end_pass).SerializeToString()])

    def _acknowledge(self, answer: Any) -> None:
        with self._wake:
            item = self._in_flight.pop(answer.sequence, None)
            if item is None:
                return
            self._progress, self.down = True, False
            self._settle(item)
            stats, content = item.link.stats, item.content
            refused = answer.outcome == messages.IngestResponse.OUTCOME_REFUSED
            superseded = refused and _is_superseded(answer)
            if isinstance(content, EndOfPass):
                stats.passes_ended += not refused
                stats.passes_refused += refused
                item.link.keep_until[content.split] = time.monotonic() + answer.keep_ms / 1000
            elif refused:
                stats.drop("superseded" if superseded else "refused", 1, content.rows)
            else:
                stats.batches_acknowledged += 1
                stats.rows_acknowledged += answer.rows
                stats.rows_duplicate += answer.rows_duplicate
                stats.rows_left_out += content.rows - content.sent_rows
                if content.panel is not None and content.sent_ids is not None and answer.rows_dropped == 0:
                    limits = item.link.limits
                    content.panel.add(content.sent_rows, content.sent_ids, limits.sample_rows, limits.sample_seed)
            if superseded:
                self._refuse(item.link, "superseded")
        if superseded:
            item.link.warn(
                f"a newer attempt of this job replaces attempt {item.link.launch.attempt}: this process sends no more"
            )
        elif refused:
            what = "an end of pass" if isinstance(content, EndOfPass) else "a batch"
            why = answer.message if answer.message.startswith(answer.field) else f"{answer.field}: {answer.message}"
            item.link.warn(f"the sidecar refused {what}: {why}")

    def _settle(self, item: Item) -> None:
        item.link.stats.queue_bytes -= item.content.bytes
        item.link.outstanding -= 1
        self._settled.notify_all()

    def _refuse(self, link: Link, reason: str) -> None:
        """Stops sending a run for good."""
        link.refused = reason
        self._drop_waiting(link, reason)
        self._settled.notify_all()

    def _drop_waiting(self, link: Link, reason: str) -> None:
        self._send_kept(link)
        for items in (self._waiting, list(self._in_flight.values())):
            for item in [item for item in items if item.link is link]:
                self._settle(item)
                if isinstance(item.content, _encode.Batch):
                    link.stats.drop(reason, 1, item.content.rows)
        self._waiting = deque(item for item in self._waiting if item.link is not link)
        self._waiting_bytes = sum(item.content.bytes for item in self._waiting)
        self._in_flight = OrderedDict((n, item) for n, item in self._in_flight.items() if item.link is not link)


def _is_of(item: Item, end: EndOfPass) -> bool:
    """Whether an item is this end of a pass or one of its batches."""
    return item.content is end or (isinstance(item.content, _encode.Batch) and end.is_of(item.content))


def _is_superseded(answer: Any) -> bool:
    """Whether a message was refused because a newer attempt of its job has begun."""
    return bool(answer.code == grpc.StatusCode.FAILED_PRECONDITION.value[0] and answer.field == "attempt")


def _same_release(version: str) -> bool:
    """Whether a sidecar's version equals the client's up to the patch number. An unknown version counts as equal.

    A client that runs from a checkout has no release number.
    """
    return not version or "+" in __version__ or version.split(".")[:2] == __version__.split(".")[:2]


_senders: dict[tuple[str, str | None], Sender] = {}


def sender_to(address: str, token: str | None) -> Sender:
    """This process's sender for an address and a token."""
    # One atomic step, so that neither a thread nor a fork can intervene. Of two senders made at once, one is not used.
    return _senders.setdefault((address, token), Sender(address, token))


def _after_fork() -> None:
    for sender in list(_senders.values()):
        sender.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
