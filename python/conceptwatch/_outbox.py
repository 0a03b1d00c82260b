"""Everything a process has logged for one sidecar that is not settled: it waits, is in flight, or is kept.

The sender calls this with its lock held. Nothing here waits or knows the connection.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import AbstractContextManager
from copy import deepcopy
from typing import Any
from weakref import WeakKeyDictionary

import grpc

from ._encode import Batch, PassKey
from ._protocol import messages
from ._queue import Lane, Queue
from ._run_channel import EndOfPass, Item, Link
from ._stats import Stats
from ._unsettled import Kept, Unsettled

# Limit on waiting ends of passes: they hold no data, but without a sidecar their number would grow.
MAX_WAITING_ENDS = 10_000
# Share of a run's memory from which on passes are compacted before they hold twice the sample's rows.
TIGHT = 0.5
# How often a process asks, answer after answer, for its place in the attempt that has superseded it. Passes that it has
# open go with each.
REJOINS = 3
_PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
# Outcomes that are said.
_REMARKABLE = {
    messages.Settled.OUTCOME_INCOMPLETE: "is incomplete",
    messages.Settled.OUTCOME_DISCARDED: "is discarded",
    messages.Settled.OUTCOME_FAILED: "has no scores",
}


class Outbox:
    def __init__(self) -> None:
        self.queue = Queue()
        self.in_flight: OrderedDict[int, Item] = OrderedDict()
        self.sequence = 0
        self._unsettled: WeakKeyDictionary[Link, Unsettled] = WeakKeyDictionary()

    @property
    def is_ready(self) -> bool:
        """Whether something may be sent now."""
        return self.queue.next() is not None

    def put(self, link: Link, content: Batch | EndOfPass, *, outage: bool) -> Lane | None:
        """Queues a batch or an end of pass. Returns its lane, unless it is kept back or dropped."""
        link.stats.queue_bytes += content.bytes
        if isinstance(content, Batch):
            link.stats.batches_queued += 1
            link.stats.rows_queued += content.rows
            self._make_room(link)
        elif link.waiting_ends >= MAX_WAITING_ENDS:
            self.drop_end(link, content)
            link.warn(
                f"the evaluation of '{content.split}' at step {content.step} will be incomplete or missing, because "
                f"{link.waiting_ends} finished evaluations already wait for a sidecar: see run.stats.ends_dropped"
            )
            return None
        else:
            if content.abandoned:
                self._abandon(link, content)
            else:
                self.unsettled(link).end(content)
            link.waiting_ends += 1
        self.sequence += 1
        link.outstanding += 1
        lane = self.queue.lane(link, content.split)
        lane.add(Item(link, content, self.sequence))
        kept = isinstance(content, EndOfPass) and not content.abandoned and self._keep(link, content, outage=outage)
        return None if kept else lane

    def drop_end(self, link: Link, end: EndOfPass) -> None:
        """Gives up the end of a pass that never waited."""
        link.stats.ends_dropped += 1
        if not end.abandoned:
            self.unsettled(link).drop_end(end)

    def next(self) -> tuple[Item, Item | None, bool]:
        """Takes the first item, and the end of its pass if both fit into one message; whether they are backlog."""
        lane = self.queue.next()
        assert lane is not None
        lane.send_kept()
        item, end = lane.take(), None
        content = item.content
        if lane.items and isinstance(content, Batch) and item.link.limits.takes_joined_ends:
            behind = lane.items[0].content
            if isinstance(behind, EndOfPass) and behind.key == content.key and not behind.abandoned:
                end = lane.take()
        for taken in (item, end) if end is not None else (item,):
            self.in_flight[taken.sequence] = taken
        return item, end, content.key in lane.backlog

    def give_up(self, item: Item, end: Item | None) -> bool:
        """An item in flight cannot be sent; the end that came with it goes alone. False if it was dropped before."""
        if self.in_flight.pop(item.sequence, None) is None:
            return False
        self.lose(item, "invalid")
        if end is not None:
            del self.in_flight[end.sequence]
            self.queue.put_back([end])
        return True

    def give_up_first(self) -> Item:
        """The item that would be sent next breaks the connection each time."""
        lane = self.queue.next()
        assert lane is not None
        item = lane.take()
        self.lose(item, "failed")
        return item

    def disconnect(self) -> None:
        """What is in flight waits again."""
        self.send_kept()
        self.queue.put_back(self.in_flight.values())
        self.in_flight.clear()

    def stats(self, link: Link) -> Stats:
        stats, unsettled = deepcopy(link.stats), self.unsettled(link)
        stats.passes_unsettled, stats.unsettled_bytes = unsettled.ended_passes, unsettled.bytes
        return stats

    def _abandon(self, link: Link, end: EndOfPass) -> None:
        """Gives up what waits and what is kept of a pass that the job has left without ending it."""
        lane = self.queue.lane(link, end.split)
        waiting = [item for item in lane.items if item.content.key == end.key]
        lane.remove(waiting)
        for item in waiting:
            self._done(item)
            if not item.again:
                link.stats.drop("abandoned", 1, item.content.rows)
        self.unsettled(link).abandon(end)
        link.stats.passes_abandoned += 1

    # ------------------------------------------------------------ passes that the sidecar would skip

    def _keep(self, link: Link, end: EndOfPass, *, outage: bool) -> bool:
        """Keeps back a pass that has just ended, replacing one kept earlier, while the sidecar cannot score its split.

        Only with one rank, since several would keep different passes; not a pass that is already partly sent; and none
        during an outage.
        """
        lane = self.queue.lane(link, end.split)
        if outage:
            lane.send_kept()
        before, lane.kept = lane.kept, []
        if before:
            end.left_out = self._leave_out(link, before)
        if link.run.world_size > 1 or outage or time.monotonic() >= lane.keep_until:
            return False
        of_pass = [item for item in lane.items if item.content.key == end.key]
        if sum(item.content.rows for item in of_pass) != end.logged_rows:
            return False
        lane.remove(of_pass)
        lane.kept = of_pass
        return True

    def _leave_out(self, link: Link, kept: list[Item]) -> int:
        """Gives up a kept pass that will not be sent. Returns the number of passes left out, including it."""
        left_out = 1
        link.stats.passes_left_out += 1
        for item in kept:
            self._done(item)
            if isinstance(item.content, EndOfPass):
                left_out += item.content.left_out
                self.unsettled(link).forget(item.content.key)
            else:
                link.stats.batches_left_out += 1
                link.stats.rows_left_out += item.content.rows
        return left_out

    def send_kept(self, link: Link | None = None) -> None:
        """Moves kept passes to where they were in the queue, so that they precede newer ones of their split."""
        for lane in self.queue.lanes(link):
            lane.send_kept()

    def send_what_was_kept_long_enough(self) -> None:
        now = time.monotonic()
        for lane in self.queue.lanes():
            if now >= lane.keep_until:
                lane.send_kept()

    # ------------------------------------------------------------ passes that are not settled

    def unsettled(self, link: Link) -> Unsettled:
        unsettled = self._unsettled.get(link)
        if unsettled is None:
            unsettled = self._unsettled[link] = Unsettled()
        return unsettled

    def _make_room(self, link: Link) -> None:
        """Releases rows of unsettled passes where new ones need their room."""
        unsettled = self.unsettled(link)
        over = link.stats.queue_bytes + unsettled.bytes - link.queue_bytes
        if over <= 0:
            return
        for kept, items in unsettled.release(over):
            link.stats.passes_unprotected += 1
            link.stats.rows_unprotected += sum(_held_rows(item) for item in items)
            again = [item for item in items if item.again]
            self.queue.lane(link, kept.key.split).remove(again)
            for item in again:
                self.in_flight.pop(item.sequence, None)
                self._done(item)
            if again:
                self._warn_of_loss(link)

    def send_again(self, link: Link, *, restarted: bool, outage: bool) -> None:
        """On a new connection: sends what the sidecar may have lost, or asks it what is settled."""
        unsettled = self.unsettled(link)
        if restarted:
            for panel in list(link.panels):
                panel.clear()
            for lane in self.queue.lanes(link):
                lane.at_sidecar.clear()
            lost = [kept for kept in unsettled if not kept.protected]
            link.stats.passes_sent_again += sum(bool(kept.batches or kept.ends) for kept in unsettled)
            if lost:
                self._warn_of_loss(link)
        self._put_again(link, unsettled.all_again() if restarted else unsettled.ends_again())
        if restarted or outage:
            for lane in self.queue.lanes(link):
                if link.settles(lane.split):
                    lane.catch_up()

    def ask_again(self, link: Link) -> None:
        """On a new stream: asks how passes were settled, because the sidecar says it only to a stream that had the end.

        A stream ends without a fault, and without a new declaration of this run, where another run has to be declared.
        """
        self._put_again(link, self.unsettled(link).ends_again())

    def _put_again(self, link: Link, again: list[Item]) -> None:
        link.outstanding += len(again)
        self.queue.put_back(again)

    def compact(self, link: Link, kept: Kept, client: str, lock: AbstractContextManager[Any]) -> None:
        """Drops rows that the sample cannot hold, where a pass has many. Called without the lock."""
        n, unsettled = link.limits.sample_rows, self.unsettled(link)
        is_tight = link.stats.queue_bytes + unsettled.bytes > TIGHT * link.queue_bytes
        if n and kept.rows > (n * 5 // 4 if is_tight else 2 * n):
            unsettled.compact(kept, link.limits, client, lock)

    @staticmethod
    def _warn_of_loss(link: Link) -> None:
        link.warn(
            "the sidecar was restarted, and rows of evaluations that it had not settled are lost, because queue_bytes "
            "had no room to keep them: see run.stats.passes_unprotected"
        )

    def note_settled(self, links: list[Link], settled: Iterable[Any]) -> None:
        """The sidecar needs nothing more of these passes."""
        for one in settled:
            # A sidecar that counts no passes has one for each step.
            key = PassKey(one.split, one.step, one.ordinal or 1)
            for link in links:
                if link.name != one.run or not self.unsettled(link).settle(key):
                    continue
                outcome = messages.Settled.Outcome.Name(one.outcome).removeprefix("OUTCOME_").lower()
                link.stats.passes_settled[outcome] += 1
                self.queue.lane(link, one.split).settle(key)
                if link.on_point is not None and outcome in ("point", "incomplete"):
                    link.on_point(key)
                found = _REMARKABLE.get(one.outcome)
                if found is not None:
                    message = f"the evaluation of '{one.split}' at step {one.step} {found}: {one.reason}"
                    link.warn(message, is_fault=False)

    # ------------------------------------------------------------ answers

    def take_answer(self, item: Item, answer: Any) -> Kept | None:
        """Notes the answer to an item. Returns the pass that the sidecar has more rows of."""
        link, content, stats = item.link, item.content, item.link.stats
        del self.in_flight[answer.sequence]
        self._done(item)
        again, item.again = item.again, False
        # A sidecar remembers who ended the newest passes only. To an end that was acknowledged a closed pass is no
        # loss: the sidecar says on this stream, too, how it is settled.
        known = again and isinstance(content, EndOfPass) and is_refused(answer, _PRECONDITION, "step")
        refused = answer.outcome == messages.IngestResponse.OUTCOME_REFUSED and not known
        superseded, kept = refused and is_refused(answer, _PRECONDITION, "attempt"), None
        unsettled = self.unsettled(link)
        if isinstance(content, EndOfPass) and content.abandoned:
            unsettled.forget(content.key)
            self.queue.lane(link, content.split).settle(content.key)
        elif isinstance(content, EndOfPass):
            lane = self.queue.lane(link, content.split)
            lane.keep_until = time.monotonic() + answer.keep_ms / 1000
            stats.passes_ended += not refused and not again
            stats.passes_refused += refused
            if not refused and link.settles(content.split):
                unsettled.acknowledge_end(item)
            else:
                unsettled.forget(content.key)
                lane.settle(content.key)
        elif refused:
            stats.drop("superseded" if superseded else "refused", 1, content.rows)
            unsettled.lose(item)
        else:
            kept = self._take_rows(item, content, answer, again=again)
        link.superseded = link.superseded + 1 if superseded else 0
        if superseded and link.launch.process and link.superseded <= REJOINS:
            # The restart of another host's ranks may have begun before it was known that this process is part of it.
            self.forget(link, "superseded")
            link.declared = False
        elif superseded:
            self.refuse(
                link,
                "superseded",
                f"a newer attempt of this job has replaced attempt {link.launch.attempt}: what this process still logs "
                "is dropped",
            )
        elif refused:
            what = "could not end an evaluation" if isinstance(content, EndOfPass) else "dropped a batch"
            why = answer.message if answer.message.startswith(answer.field) else f"{answer.field}: {answer.message}"
            link.warn(f"the sidecar {what} of '{content.split}': {why}")
        return kept

    def _take_rows(self, item: Item, batch: Batch, answer: Any, *, again: bool) -> Kept | None:
        """Notes that the sidecar has a batch. Returns its pass, if it is kept until it is settled."""
        link, stats = item.link, item.link.stats
        batch.is_exact = answer.rows_dropped == 0
        if batch.panel is not None and batch.sent_ids is not None and batch.is_exact:
            batch.panel.add(batch.sent_rows, batch.sent_ids, link.limits.sample_rows, link.limits.sample_seed)
        if batch.panel is not None and answer.HasField("sample_bound"):
            batch.panel.tighten(answer.sample_bound)
        if again:
            return None
        stats.batches_acknowledged += 1
        stats.rows_acknowledged += answer.rows
        stats.rows_duplicate += answer.rows_duplicate
        stats.rows_left_out += batch.rows - batch.sent_rows
        if batch.panel is None or not link.settles(batch.split):
            return None
        kept = self.unsettled(link).keep(item, batch)
        if kept is None:
            stats.rows_unprotected += batch.held_rows
        return kept

    def _done(self, item: Item) -> None:
        """An item is neither waiting nor in flight any more."""
        if not item.again:
            item.link.stats.queue_bytes -= item.content.bytes
            item.link.waiting_ends -= isinstance(item.content, EndOfPass)
        item.link.outstanding -= 1

    def lose(self, item: Item, reason: str) -> None:
        """Gives up an item, which is counted under this reason."""
        self._done(item)
        content = item.content
        if isinstance(content, Batch):
            item.link.stats.drop(reason, 1, content.rows)
            self.unsettled(item.link).lose(item)
        else:
            item.link.stats.ends_dropped += self.unsettled(item.link).lose_end(content)
            self.queue.lane(item.link, content.split).settle(content.key)

    def refuse(self, link: Link, reason: str, why: str) -> None:
        """Stops sending a run for good, and says why. reason: as `Stats` counts it."""
        link.refused, link.refusal = reason, why
        self.forget(link, reason)
        link.warn(why)

    def forget(self, link: Link, reason: str) -> None:
        """Drops what is not settled."""
        self.drop(link, reason)
        self._unsettled[link] = Unsettled()

    def drop(self, link: Link, reason: str) -> None:
        for item in [*self.queue.forget(link), *(item for item in self.in_flight.values() if item.link is link)]:
            self._done(item)
            if isinstance(item.content, Batch) and not item.again:
                link.stats.drop(reason, 1, item.content.rows)
        self.in_flight = OrderedDict((n, item) for n, item in self.in_flight.items() if item.link is not link)


def _held_rows(item: Item) -> int:
    return item.content.held_rows if isinstance(item.content, Batch) else 0


def is_refused(answer: Any, code: grpc.StatusCode, field: str) -> bool:
    """Whether a message was refused with this code because of this field."""
    return bool(answer.code == code.value[0] and answer.field == field)
