"""Rows that the sidecar has received and could still lose: those of passes that are not settled.

The logged batches themselves are kept, not copies. When a pass holds more than twice the sample's N rows, those that
cannot be among the N smallest priorities are dropped; a batch that is sent again states them as left out, so the sample
is the same to the bit.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._encode import Batch, PassKey, taken
from ._presample import priorities
from ._run_channel import EndOfPass, Item

# Largest number of rows that a batch can state as left out.
MOST_LEFT_OUT = (1 << 32) - 1


@dataclass(eq=False)
class Kept:
    """A pass that is not settled, with what the sidecar has acknowledged of it."""

    key: PassKey
    batches: list[Item] = field(default_factory=list)
    ends: list[Item] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    ended: bool = False  # by the job; the sidecar may not know yet
    protected: bool = True  # no row was released
    settled: bool = False  # before its end was acknowledged


class Unsettled:
    """The unsettled passes of one run, in the order in which they began."""

    def __init__(self) -> None:
        self._passes: dict[PassKey, Kept] = {}
        # Steps, by split, of the passes whose end was given up. Without a sidecar their number grows: 8 bytes each.
        self._without_end: dict[str, array[int]] = {}
        self.bytes = 0

    def __iter__(self) -> Iterator[Kept]:
        return iter(self._passes.values())

    @property
    def ended(self) -> list[tuple[str, int]]:
        """Split and step of the passes that have ended and are not settled."""
        without_end = [(split, step) for split, steps in self._without_end.items() for step in steps]
        return [(key.split, key.step) for key, kept in self._passes.items() if kept.ended] + without_end

    @property
    def ended_passes(self) -> int:
        """The number of passes that have ended and are not settled."""
        return sum(kept.ended for kept in self) + sum(map(len, self._without_end.values()))

    def end(self, end: EndOfPass) -> None:
        """The job has ended a pass."""
        self._of(end.key).ended = True

    def abandon(self, end: EndOfPass) -> None:
        """The job has left a pass without ending it: nothing of it is kept."""
        self._release(self._of(end.key))

    def drop_end(self, end: EndOfPass) -> None:
        """The end of a pass is given up. Its rows are kept like those of a pass that goes on."""
        self._without_end.setdefault(end.split, array("Q")).append(end.step)

    def lose_end(self, end: EndOfPass) -> bool:
        """The end of a pass that waited is given up. False if the pass is settled."""
        kept = self._passes.get(end.key)
        if kept is None or kept.settled or end.abandoned:
            self.forget(end.key)
            return False
        kept.ended, kept.ends = False, []
        self.drop_end(end)
        return True

    def keep(self, item: Item, batch: Batch) -> Kept | None:
        """Keeps a batch that the sidecar has acknowledged. None where an earlier one of its pass was released."""
        kept = self._of(batch.key)
        if not kept.protected or kept.settled:
            return None
        kept.batches.append(item)
        kept.rows += batch.held_rows
        self._resize(kept, batch.bytes)
        return kept

    def acknowledge_end(self, item: Item) -> None:
        """The sidecar has the end of a pass, and will say when it is settled."""
        kept = self._passes.get(item.content.key)
        if kept is None:
            return
        if kept.settled:
            self.forget(kept.key)
        elif item not in kept.ends:
            kept.ends.append(item)

    def settle(self, key: PassKey) -> bool:
        """Releases a settled pass. False if it is not known."""
        kept = self._passes.get(key)
        if kept is None:
            return False
        if kept.ends or not kept.ended:
            self.forget(key)
        else:
            self._release(kept)
            kept.settled = True
        return True

    def lose(self, item: Item) -> None:
        """A batch that was acknowledged before cannot be sent again."""
        kept = self._passes.get(item.content.key)
        if kept is not None and item in kept.batches:
            kept.batches.remove(item)
            kept.rows -= _batch(item).held_rows
            self._resize(kept, -item.content.bytes)

    def let_go(self) -> None:
        """Releases all rows. Which passes are not settled stays known."""
        for kept in self:
            self._release(kept)
            kept.ends = []

    def forget(self, key: PassKey) -> None:
        kept = self._passes.pop(key, None)
        if kept is not None:
            self._resize(kept, -kept.bytes)

    def release(self, size: int) -> list[tuple[Kept, list[Item]]]:
        """Releases passes until `size` bytes are free. Returns them with the batches they held.

        The oldest first, which are settled soonest, and those that no sidecar has last.
        """
        released = []
        for kept in sorted(self, key=lambda kept: any(item.again for item in kept.batches)):
            if size <= 0:
                break
            if kept.bytes:
                size -= kept.bytes
                released.append((kept, kept.batches))
                self._release(kept)
        return released

    def all_again(self) -> list[Item]:
        """What has to be sent to a sidecar that has nothing of it."""
        return [item for kept in self for item in (*kept.batches, *kept.ends) if _again(item)]

    def ends_again(self) -> list[Item]:
        """Ends that a sidecar has to be asked about, because its answer may have been lost."""
        return [item for kept in self for item in kept.ends if _again(item)]

    def compact(self, kept: Kept, limits: Any, client: str, lock: AbstractContextManager[Any]) -> None:
        """Drops the rows that the sample cannot hold. Called without the lock, which is taken for each change."""
        n, seed = limits.sample_rows, limits.sample_seed
        panels = {panel for item in kept.batches for panel in (_batch(item).panel,) if panel is not None}
        bounds = [bound for bound in (panel.bound(n) for panel in panels) if bound is not None]
        if not bounds:
            return
        bound = min(bounds)
        bearer: Batch | None = None  # of the rows of batches that have none left
        empty: list[Item] = []
        for item in list(kept.batches):
            batch = _batch(item)
            ids = None if item.again or not batch.is_exact else batch.row_ids(client, item.sequence)
            if ids is None:
                continue
            wanted = np.flatnonzero(priorities(seed, ids) <= bound)
            if wanted.size == 0:
                empty.append(item)
                continue
            bearer = bearer or batch
            if wanted.size < ids.size:
                smaller = _selected(batch, wanted)
                with lock:
                    if not kept.protected or item not in kept.batches:
                        return
                    kept.rows -= batch.held_rows - smaller.held_rows
                    self._resize(kept, smaller.bytes - batch.bytes)
                    batch.tensors, batch.numbers, batch.bytes = smaller.tensors, smaller.numbers, smaller.bytes
        for item in empty:
            batch = _batch(item)
            with lock:
                if bearer is None or not kept.protected or bearer.rows + batch.rows > MOST_LEFT_OUT:
                    return
                if bearer.numbers is None:
                    bearer.numbers = np.arange(bearer.rows)
                bearer.rows += batch.rows
                kept.batches.remove(item)
                kept.rows -= batch.held_rows
                self._resize(kept, -batch.bytes)

    def _of(self, key: PassKey) -> Kept:
        kept = self._passes.get(key)
        if kept is None:
            kept = self._passes[key] = Kept(key)
        return kept

    def _release(self, kept: Kept) -> None:
        self._resize(kept, -kept.bytes)
        kept.batches, kept.rows, kept.protected = [], 0, False

    def _resize(self, kept: Kept, change: int) -> None:
        kept.bytes += change
        self.bytes += change


def _again(item: Item) -> bool:
    """Marks an item as to be sent again. False if it is already."""
    item.again, before = True, item.again
    return not before


def _batch(item: Item) -> Batch:
    assert isinstance(item.content, Batch)
    return item.content


def _selected(batch: Batch, rows: NDArray[np.int64]) -> Batch:
    """A batch of some of the rows held."""
    tensors = [taken(tensor, rows) for tensor in batch.tensors]
    numbers = rows if batch.numbers is None else batch.numbers[rows]
    size = batch.bytes * rows.size // batch.held_rows
    return Batch(batch.split, batch.step, batch.epoch, tensors, batch.rows, size, batch.panel, numbers, batch.ordinal)
