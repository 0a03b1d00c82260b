"""What waits to be sent, in a lane for each split of a run.

Messages leave in the order in which they were logged. A split's backlog waits here and not in the sidecar: at most
`BACKLOG_AT_ONCE` of its passes are sent and not settled, and what the split logged after them waits behind. Other
splits go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ._encode import PassKey, is_pass
from ._run_channel import EndOfPass, Item, Link

BACKLOG_AT_ONCE = 4


class Lane:
    """What waits of one split of a run."""

    def __init__(self, link: Link, split: str) -> None:
        self.link, self.split = link, split
        self.items: deque[Item] = deque()
        self.bytes = 0
        # The newest whole pass, held back until the sidecar can next score the split (`time.monotonic`): a newer pass
        # replaces it here rather than there.
        self.kept: list[Item] = []
        self.keep_until = 0.0
        # Passes that ended while the sidecar could not be reached, or that are sent again to another one; and those of
        # them that it has and that are not settled.
        self.backlog: set[PassKey] = set()
        self.at_sidecar: set[PassKey] = set()

    def add(self, item: Item) -> None:
        self.items.append(item)
        self.bytes += item.content.bytes

    def remove(self, gone: Iterable[Item]) -> None:
        ids = set(map(id, gone))
        self.items = deque(item for item in self.items if id(item) not in ids)
        self.bytes = sum(item.content.bytes for item in self.items)

    def put_back(self, items: Iterable[Item]) -> None:
        """Puts items where they belong in the order of logging. Those of a pass stay together."""
        together = [*self.items, *items]
        together.sort(key=lambda item: item.sequence)
        if is_pass(self.link.limits, self.split):
            first: dict[PassKey, int] = {}
            for item in together:
                first.setdefault(item.content.key, item.sequence)
            together.sort(key=lambda item: first[item.content.key])
        self.items = deque(together)
        self.bytes = sum(item.content.bytes for item in together)

    def send_kept(self) -> None:
        if self.kept:
            kept, self.kept = self.kept, []
            self.put_back(kept)

    def catch_up(self) -> None:
        """After an outage: the passes that have ended and wait are backlog."""
        self.backlog.update(item.content.key for item in self.items if isinstance(item.content, EndOfPass))
        self.put_back(())

    @property
    def is_held(self) -> bool:
        """Whether the first item has to wait until backlog before it is settled."""
        key = self.items[0].content.key
        return key in self.backlog and key not in self.at_sidecar and len(self.at_sidecar) >= BACKLOG_AT_ONCE

    def take(self) -> Item:
        item = self.items.popleft()
        self.bytes -= item.content.bytes
        if item.content.key in self.backlog:
            self.at_sidecar.add(item.content.key)
        return item

    def settle(self, key: PassKey) -> None:
        """The sidecar needs nothing more of a pass."""
        self.backlog.discard(key)
        self.at_sidecar.discard(key)


class Queue:
    """The lanes of all runs that one thread sends for."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[Link, str], Lane] = {}

    def __bool__(self) -> bool:
        return any(lane.items for lane in self._lanes.values())

    def lane(self, link: Link, split: str) -> Lane:
        lane = self._lanes.get((link, split))
        if lane is None:
            lane = self._lanes[link, split] = Lane(link, split)
        return lane

    def lanes(self, link: Link | None = None) -> list[Lane]:
        return [lane for lane in self._lanes.values() if link is None or lane.link is link]

    def next(self) -> Lane | None:
        """The lane whose first item was logged first among those that may be sent now."""
        ready = [lane for lane in self._lanes.values() if lane.items and not lane.is_held and not lane.link.is_put_off]
        return min(ready, key=lambda lane: lane.items[0].sequence) if ready else None

    def put_back(self, items: Iterable[Item]) -> None:
        by_lane: dict[Lane, list[Item]] = {}
        for item in items:
            by_lane.setdefault(self.lane(item.link, item.content.split), []).append(item)
        for lane, back in by_lane.items():
            lane.put_back(back)

    def forget(self, link: Link) -> list[Item]:
        """Removes a run's lanes. Returns what waited in them."""
        items: list[Item] = []
        for lane in self.lanes(link):
            items += [*lane.items, *lane.kept]
            del self._lanes[link, lane.split]
        return items
