"""The background thread that sends what a process logs to one sidecar, and the bounded queue in front of it.

A batch stays in the queue until the sidecar acknowledges it, and in memory until its pass is settled. After a broken
connection everything unacknowledged is sent again, and to a restarted sidecar everything unsettled; the sidecar ignores
duplicates.
"""

from __future__ import annotations

import itertools
import logging
import os
import random
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import grpc

from . import _encode
from ._connection import Contact, channel_to, described, retry_delay, serves_http
from ._encode import PassKey
from ._fork import usable
from ._launch import scheduler_job, valid_name
from ._outbox import Outbox, is_refused
from ._protocol import Calls, messages
from ._recording import SCHEME, Recorder
from ._run_channel import EndOfPass, Item, Link, default_limits
from ._stats import Stats
from ._threads import started
from ._version import __version__, same_release

log = logging.getLogger("conceptwatch")

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
# Longest pause while `finish` waits.
FINISHING_PAUSE = 0.5
CALL_TIMEOUT = 10.0
HTTP_PORT = "this is an HTTP port; a job needs the gRPC port, by default 7800"
# Consecutive failures, none of them "unavailable", after which the first unacknowledged message is given up.
GIVE_UP_AFTER = 5
# Batches of a pass wait for further ones, or for its end, up to this size and this many seconds: every message wakes
# threads here and in the sidecar, which take CPU time from training.
JOINED_BYTES, LONGEST_WAIT = 256 << 10, 0.25

# Why a declaration fails that say nothing about the sidecar: other runs of the process go on.
_OWN_FAILURES = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)
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

    def __init__(self, contact: Contact) -> None:
        self.contact, self.address = contact, contact.address
        self._inherited: list[Any] = []
        # Starts another sidecar where this one has gone; its address if this process has started one.
        self.replace: Callable[[], str | None] | None = None
        self._begin()

    def _begin(self) -> None:
        self.client = uuid.uuid4().hex
        # One lock, and separate conditions for those who wait to send and those who wait for acknowledgements: threads
        # woken for nothing take CPU time from training.
        lock = threading.RLock()
        self._wake, self._answered = threading.Condition(lock), threading.Condition(lock)
        self._outbox = Outbox()
        self._due = False  # the queue is to be sent now
        self._links: list[Link] = []
        self._thread: threading.Thread | None = None
        self._channel: grpc.Channel | Recorder | None = None
        self._calls: Calls | Recorder | None = None
        self._recorder: Recorder | None = None
        self._call: Any = None
        self._stopping = False
        self._hurry = False
        self._finishing = 0  # threads in `wait_until_sent`
        self._warned = self._hindered = False
        self._failures = itertools.count(1)
        self._progress = False  # a message was acknowledged since the last failure
        self._streaming = False
        self.down = False  # the last attempt failed
        self.down_since = 0.0  # by `time.monotonic`, while it is down
        self.refusal = ""  # why a sidecar cannot take the run, in its words
        self._outage = False  # it was down since the runs were declared last
        # Evaluations begun, by run, job, attempt, split and step: runs of one process can share all of these.
        self._begun: Counter[tuple[str, str, int, str, int]] = Counter()
        # Held from taking a sequence number until its item is queued, so that the queue is in their order.
        self.logging = threading.Lock()

    def after_fork(self) -> None:
        """In the child: forgets the parent's queue, thread and connection, which only the parent may use."""
        # Closing the parent's channel here could block on locks held by threads that do not exist in the child.
        self._inherited += [self._channel, self._calls, self._call, self._outbox]
        for link in self._links:
            link.declared, link.outstanding, link.waiting_ends, link.stats = False, 0, 0, Stats()
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

    def begin(self, link: Link, split: str, step: int) -> PassKey:
        """Begins a pass. One that is never ended has its number, too, so that all ranks count alike."""
        with self._wake:
            begun = (link.run.name, link.launch.job, link.launch.attempt, split, step)
            self._begun[begun] += 1
            return PassKey(split, step, self._begun[begun])

    def begin_branch(self, link: Link, deadline: float, alone: float) -> bool:
        """Declares the run as one more restart of its launch. False where it has no job, or where not all that it sent
        is settled in time.
        """
        if not (link.launch.job and usable() and self.wait_until_sent(link, deadline, alone, settled=True)):
            return False
        with self._wake:
            link.launch = replace(link.launch, attempt=link.launch.attempt + 1)
            link.declared = False
            self._send_now()
        return True

    def has_room(self, link: Link, size: int) -> bool:
        with self._wake:
            return link.stats.queue_bytes + size <= link.queue_bytes

    @property
    def next_sequence(self) -> int:
        """The sequence number of the next item, while `logging` is held."""
        return self._outbox.sequence + 1

    def put(self, link: Link, content: _encode.Batch | EndOfPass) -> None:
        """Queues a batch or an end of pass; the caller holds `logging`."""
        with self._wake:
            if link.refused:  # maybe while the batch was copied
                if isinstance(content, _encode.Batch):
                    link.stats.drop(link.refused, 1, content.rows)
                return
            lane = self._outbox.put(link, content, outage=self.down)
            if link not in self._links:
                self._links.append(link)  # in a child that was forked before the first connection
            self._run_thread()
            if lane is None:
                return
            of_pass = isinstance(content, _encode.Batch) and content.panel is not None
            joins = of_pass and self._call is not None and lane.bytes <= JOINED_BYTES
            if self._due or not (joins or lane.is_held):
                self._send_now()

    def flush(self, link: Link, timeout: float) -> bool:
        """Waits until all of the run's messages are acknowledged or given up. False when the time ran out.

        Also False, at once, when the sidecar cannot be reached. Without a timeout kept passes stay kept: the sidecar
        could not score them in time anyway.
        """
        with self._wake:
            if timeout > 0.0:
                self._outbox.send_kept(link)
            self._send_now()
            self._answered.wait_for(lambda: link.outstanding == 0 or self.down, timeout)
            return link.outstanding == 0

    def wait_until_sent(self, link: Link, deadline: float, alone: float, *, settled: bool = False) -> bool:
        """Waits until all of the run's messages are acknowledged, and on request all its passes settled.

        Not for passes whose end was given up, which are never settled.
        False at the deadline, or when the sidecar could not be reached for `alone` seconds.
        """
        with self._wake:
            start = time.monotonic()
            self._finishing += 1
            self._hurry = True
            self._outbox.send_kept(link)
            self._send_now()
            try:
                while link.outstanding or (settled and any(kept.ended for kept in self._outbox.unsettled(link))):
                    end = min(deadline, max(start, self.down_since) + alone) if self.down else deadline
                    left = end - time.monotonic()
                    if left <= 0.0:
                        return False
                    self._answered.wait(left)
                return True
            finally:
                self._finishing -= 1

    def unsettled(self, link: Link) -> list[tuple[str, int]]:
        """Split and step of the run's passes that have ended and are not settled."""
        with self._wake:
            return self._outbox.unsettled(link).ended

    def wait_declared(self, link: Link, timeout: float) -> bool:
        """Waits until the sidecar accepts the run. Returns at once if the sidecar refuses it or cannot be reached."""
        with self._wake:
            self._answered.wait_for(lambda: link.declared or link.refused or self.down or not usable(), timeout)
            return link.declared

    def detach(self, link: Link) -> None:
        """Drops the remaining items of a run. The sending thread closes the connection with the last run.

        The job does not wait for that: gRPC's `close` has no time limit, and returns only when every stream has ended.
        """
        with self._wake:
            self._outbox.drop(link, "unsent")
            self._outbox.unsettled(link).let_go()
            if link in self._links:
                self._links.remove(link)
            last = not self._links
            self._stopping = last
            call, thread = self._call, self._thread
            self._wake.notify_all()
        if last:
            if call is not None:
                call.cancel()
            if thread is not None and thread is not threading.current_thread():
                thread.join(1.0)

    def stats(self, link: Link) -> Stats:
        with self._wake:
            return self._outbox.stats(link)

    def count_drop(self, link: Link, reason: str, rows: int) -> None:
        with self._wake:
            link.stats.drop(reason, 1, rows)

    def drop_end(self, link: Link, end: EndOfPass) -> None:
        with self._wake:
            self._outbox.drop_end(link, end)

    def count(self, link: Link, *, heads_failed: int = 0, labels_unknown: int = 0) -> None:
        with self._wake:
            link.stats.heads_failed += heads_failed
            link.stats.labels_unknown += labels_unknown

    # ------------------------------------------------------------ the sending thread

    def _send_now(self) -> None:
        self._due = True
        self._wake.notify_all()

    def _run_thread(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = started(self._work, "conceptwatch")
            if self._thread is None and not self.down:
                self.down, self.down_since = True, time.monotonic()

    def _connected(self) -> Calls | Recorder:
        if self._calls is None and self.address.startswith(SCHEME):
            # One for all runs of the process, also after it was closed: it knows the names in use.
            self._recorder = self._recorder or Recorder(self.address.removeprefix(SCHEME))
            self._channel = self._calls = self._recorder
        if self._calls is None:
            self._channel = channel_to(self.contact)
            self._calls = Calls(self._channel, self.contact.token, self.client)
        return self._calls

    def _work(self) -> None:
        pause = FIRST_PAUSE
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._stopping or self._outbox.queue or self._undeclared())
                if self._stopping:
                    channel, self._channel, self._calls, self._thread = self._channel, None, None, None
                    break
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
                self._replace_sidecar()
                wait = pause if told is None else told
                self._rest(wait * random.uniform(1.0, 1.5))
                pause = min(pause * 2, LONGEST_PAUSE) if told is None else pause
        if channel is not None:
            channel.close()

    def _replace_sidecar(self) -> None:
        """Starts another sidecar where a job had started this one, and it has gone."""
        with self._wake:
            replace = self.replace if self.down and any(link.ends_unused for link in self._links) else None
            if replace is None or self._stopping:
                return
        try:
            if replace() is not None:
                log.warning("conceptwatch: the sidecar at %s had gone, another one was started", self.address)
        except Exception as error:  # the job goes on without
            if not self._hindered:
                log.warning("conceptwatch: the sidecar has gone, and no other could be started: %s", described(error))
            self._hindered = True

    def _undeclared(self) -> list[Link]:
        """The runs to declare now. One whose declaration failed waits while others are at work."""
        now, alone = time.monotonic(), not any(link.declared for link in self._links)
        undeclared = [link for link in self._links if not link.declared and not link.refused]
        return [link for link in undeclared if alone or now >= link.waits_until]

    def _rest(self, seconds: float) -> None:
        with self._wake:
            self._hurry = False
            if self._finishing:
                seconds = min(seconds, FINISHING_PAUSE)
            self._wake.wait_for(lambda: self._stopping or self._hurry, seconds)
            self._hurry = False

    def _note_failure(self, error: Exception, *, unavailable: bool) -> None:
        code = error.code() if isinstance(error, grpc.RpcError) and hasattr(error, "code") else None
        with self._wake:
            if self._stopping:
                return  # this side closed the connection
            if not unavailable and not self.down:
                self.down_since = time.monotonic()
            self.down = not unavailable
            answered = code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL)
            self.refusal = described(error) if answered else ""
            self._outage = self._outage or self.down
            self._answered.notify_all()
            for link in self._links:
                link.stats.retries += 1
                link.declared = False
            # No message is at fault when nothing listens or a disk is full.
            if self._progress or unavailable or code == grpc.StatusCode.UNAVAILABLE or isinstance(error, OSError):
                self._failures = itertools.count(1)
            elif self._streaming and next(self._failures) >= GIVE_UP_AFTER and self._outbox.is_ready:
                self._failures = itertools.count(1)
                item = self._outbox.give_up_first()
                item.link.warn(
                    f"a batch was dropped, because the connection broke each time it was sent: {described(error)}"
                )
            first = not self._warned and not unavailable
            self._warned = self._warned or first
        if first:
            recording = self.address.startswith(SCHEME)
            why = HTTP_PORT if not recording and serves_http(self.address) else described(error)
            log.warning(
                "conceptwatch: %s %s failed (%s). Training continues; batches wait in a bounded queue and are sent "
                "once it works again. This warning is not repeated.",
                "recording to" if recording else "the connection to the sidecar at",
                self.address.removeprefix(SCHEME),
                why,
            )

    def _declare_runs(self) -> None:
        """Declares the runs that have not been declared on this connection."""
        with self._wake:
            links, calls = self._undeclared(), self._connected()
        failed: dict[Link, grpc.RpcError] = {}
        for link in links:
            try:
                self._declare(calls, link)
            except grpc.RpcError as error:
                if error.code() in _OWN_FAILURES:
                    failed[link] = error
                elif error.code() in _REFUSALS:
                    why = f"the sidecar refuses this run, so nothing of it is scored: {self._refusal(error)}"
                    with self._wake:
                        self._outbox.refuse(link, "run_refused", why)
                        self._answered.notify_all()
                else:
                    raise
        self._put_off(failed)
        with self._wake:
            if len({link.incarnation for link in self._links if link.declared}) > 1:
                # It was restarted in between, and does not know the runs that were declared first.
                for link in self._links:
                    link.declared = False
            else:
                self._outage = False

    def _put_off(self, failed: dict[Link, grpc.RpcError]) -> None:
        """Lets runs wait that the sidecar does not take now, while it takes others. Raises where it takes none."""
        for link, error in failed.items():
            with self._wake:
                if not any(other.declared for other in self._links):
                    raise error
                link.waits_until = time.monotonic() + LONGEST_PAUSE
                link.refusal = (
                    f"the sidecar does not accept this run for now; its batches wait until it does: {described(error)}"
                )
            link.warn(link.refusal)

    def _declare(self, calls: Calls | Recorder, link: Link) -> None:
        # The same request each time, so that a restarted sidecar finds the run by its job.
        request = messages.StartRunRequest(
            run=link.run,
            client=self.client,
            client_version=__version__,
            job=link.launch.job,
            attempt=link.launch.attempt,
            process=link.launch.process,
            rank=link.rank,
            resume=link.resume,
            host=valid_name(socket.gethostname()),
            scheduler_job=scheduler_job(),
        )
        answer = calls.start_run(request, timeout=CALL_TIMEOUT)
        with self._wake:
            renamed = link.adopt(answer.run or link.run.name)
            link.declared, link.waits_until, link.refusal, link.page_url = True, 0.0, "", answer.page_url
            before, link.data_dir, link.ends_unused = link.data_dir, answer.data_dir, answer.ends_unused
            link.declarations += 1
            skewed = not same_release(answer.server_version, __version__)
            link.limits = default_limits()
            link.limits.MergeFrom(answer)  # which leaves what it does not state
            restarted = bool(link.incarnation) and link.incarnation != answer.incarnation
            link.incarnation = answer.incarnation
            self._outbox.send_again(link, restarted=restarted, outage=self._outage)
            self.down, self.refusal = False, ""
            self._answered.notify_all()
        if renamed:
            link.tell_name()
        link.tell_place(before, self.address)
        if skewed:
            link.warn(
                f"this client has version {__version__} and the sidecar {answer.server_version}: what only one of them "
                "knows is left out; install the same version of both"
            )

    def _refusal(self, error: Any) -> str:
        if error.code() != grpc.StatusCode.UNAUTHENTICATED:
            return described(error)
        fault = "it requires a token" if self.contact.token is None else "the token is not the one that it requires"
        return f"{fault}; pass token_file to init, or set CONCEPTWATCH_TOKEN_FILE"

    def _stream(self) -> None:
        """Makes one Ingest call, until it ends or a run has to be declared."""
        # Where gRPC can start no thread for a stream, that stream never ends, and neither does closing the channel.
        threading.Thread(target=int, daemon=True).start()
        ended = threading.Event()
        with self._wake:
            if self._stopping or not any(link.declared for link in self._links):
                return
            for link in self._links:
                if link.declared:
                    self._outbox.ask_again(link)
            self._streaming = self._due = True
            self._call = call = self._connected().ingest(self._requests(ended))
        try:
            for answer in call:
                self._acknowledge(answer)
                if answer.HasField("end_pass"):
                    self._acknowledge(answer.end_pass)
            asked = ended.is_set()
        except BaseException:
            call.cancel()
            raise
        finally:
            with self._wake:
                ended.set()
                self._call = None
                self._outbox.disconnect()
                self._wake.notify_all()
        if not asked:
            raise Disconnected("it ended the stream")

    def _requests(self, ended: threading.Event) -> Iterator[bytes]:
        """The requests of the Ingest call. Runs on a gRPC thread, which waits here for the next message."""
        while True:
            with self._wake:
                while not (self._is_ending(ended) or (self._due and self._outbox.is_ready)):
                    if not self._wake.wait(LONGEST_WAIT):
                        self._outbox.send_what_was_kept_long_enough()
                        self._due = self._outbox.is_ready
                if self._is_ending(ended):
                    ended.set()
                    return
                item, end, backlog = self._outbox.next()
                self._due = self._outbox.is_ready
            try:
                for request in self._encoded(item, end, backlog):
                    if ended.is_set():
                        return
                    yield request
                    item.link.stats.bytes_sent += len(request)
            except Exception as error:  # a batch that cannot be encoded must not block those behind it
                with self._wake:
                    if not self._outbox.give_up(item, end):
                        continue  # it was dropped meanwhile
                    self._due = True
                    self._answered.notify_all()
                item.link.warn(f"a batch was dropped, because it cannot be sent: {error}")

    def _is_ending(self, ended: threading.Event) -> bool:
        return ended.is_set() or self._stopping or bool(self._undeclared())

    def _encoded(self, item: Item, end: Item | None, backlog: bool) -> Iterator[bytes]:
        link, content = item.link, item.content
        if isinstance(content, _encode.Batch):
            self._check_range(link, content)
            link.stats.batches_sent += 1
            joined = None
            if end is not None and isinstance(end.content, EndOfPass):
                ended = end.content
                joined = messages.JoinedEnd(
                    sequence=end.sequence, rows=ended.logged_rows, left_out=ended.left_out, backlog=backlog
                )
            return _encode.requests(content, link.name, link.rank, self.client, item.sequence, link.limits, joined)
        end_pass = messages.EndPass(
            run=link.name,
            split=content.split,
            step=content.step,
            ordinal=content.ordinal,
            abandoned=content.abandoned,
            epoch=content.epoch,
            rank=link.rank,
            client=self.client,
            sequence=item.sequence,
            rows=content.logged_rows,
            left_out=content.left_out,
            backlog=backlog,
        )
        return iter([messages.IngestRequest(end_pass=end_pass).SerializeToString()])

    @staticmethod
    def _check_range(link: Link, batch: _encode.Batch) -> None:
        """Warns where what is declared as probabilities is none."""
        if link.range_checks <= 0:
            return
        link.range_checks -= 1
        remark = _encode.outside_unit(link.run, batch.tensors)
        if remark is not None:
            link.range_checks = 0
            link.warn(remark, is_fault=False)

    def _acknowledge(self, answer: Any) -> None:
        kept = None
        with self._wake:
            item = self._outbox.in_flight.get(answer.sequence)
            if item is not None:
                if is_refused(answer, grpc.StatusCode.NOT_FOUND, "run") and not item.link.unknown:
                    item.link.unknown = True
                    raise Disconnected("it does not know the run any more")
                self._progress, self.down, item.link.unknown = True, False, False
                kept = self._outbox.take_answer(item, answer)
            if answer.settled:
                self._outbox.note_settled(self._links, answer.settled)
                self._due = self._outbox.is_ready
                self._wake.notify_all()
            self._answered.notify_all()
        if item is not None and kept is not None:
            self._outbox.compact(item.link, kept, self.client, self._wake)


_senders: dict[Contact, Sender] = {}


def sender_to(contact: Contact) -> Sender:
    """This process's sender to a sidecar."""
    # One atomic step, so that neither a thread nor a fork can intervene. Of two senders made at once, one is not used.
    return _senders.setdefault(contact, Sender(contact))


def _after_fork() -> None:
    for sender in list(_senders.values()):
        sender.after_fork()


os.register_at_fork(after_in_child=_after_fork)
