"""A run and its messages, as the sending thread sees them."""

from __future__ import annotations

import logging
import re
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any

from ._encode import Batch, PassKey, is_pass
from ._home import same_directory
from ._launch import Launch
from ._presample import Panel
from ._protocol import messages
from ._stats import Stats

log = logging.getLogger("conceptwatch")


def default_limits() -> messages.StartRunResponse:
    """Those of a sidecar that states none."""
    return messages.StartRunResponse(max_chunk_bytes=4 << 20, max_batch_bytes=64 << 20)


@dataclass(eq=False)
class Link:
    """A run, as the sender sees it."""

    run: Any  # as declared: with the requested name
    rank: int
    queue_bytes: int
    launch: Launch
    resume: bool = False
    limits: messages.StartRunResponse = field(default_factory=default_limits)  # as the sidecar states them
    page_url: str = ""  # as the sidecar states it
    stats: Stats = field(default_factory=Stats)
    declared: bool = False  # on the present connection
    # When it is declared again after a failure of its own, by the monotonic clock; 0 once that has succeeded.
    waits_until: float = 0.0
    declarations: int = 0  # how often the sidecar has accepted it
    unknown: bool = False  # the sidecar has not accepted anything since it did not know the run
    answered: bool = False  # by a sidecar, at least once, so that the name is the one in use
    refused: str = ""  # why nothing more is sent, as `Stats` counts it
    refusal: str = ""  # why the sidecar does not take it, now or for good, as the user is told
    superseded: int = 0  # answers since the last other one that a newer attempt has begun
    outstanding: int = 0  # items waiting or in flight
    waiting_ends: int = 0  # of these, ends of passes that no sidecar has acknowledged
    fault: str | None = None  # the first failure since the caller last checked
    warned: set[str] = field(default_factory=set)
    # Told of each evaluation that has a point, with the sender's lock held.
    on_point: Callable[[PassKey], None] | None = None
    panels: weakref.WeakSet[Panel] = field(default_factory=weakref.WeakSet)
    data_dir: str = ""  # of the curves, as the sidecar states it; empty: they are in memory
    # As the job wants it, None: in memory; ...: anywhere.
    wanted_dir: str | EllipsisType | None = ...
    told_place: bool = False  # the user knows where the curves are
    ends_unused: bool = False  # the sidecar ends once no job uses it, so one that is gone may be replaced
    # Of the sidecar's process, which a restart changes; empty where the sidecar does not say which passes are settled.
    incarnation: str = ""
    # Batches whose activations are yet to be looked at: a mistaken kind shows in the first ones.
    range_checks: int = 4

    @property
    def is_put_off(self) -> bool:
        """Whether the sidecar does not take it now, while it takes other runs of the process."""
        return self.waits_until > 0.0

    @property
    def awaited(self) -> str:
        """What evaluations of several ranks wait for, as the end of a message."""
        if self.run.world_size < 2:
            return ""
        ranks = f". Evaluations are scored once all {self.run.world_size} ranks have ended them"
        return f"{ranks}; where one rank evaluates for all, pass world_size=1 to init"

    def __post_init__(self) -> None:
        self.name: str = self.run.name  # in use: differs from the declared one where that was taken

    def adopt(self, name: str) -> bool:
        """Uses the name that the sidecar gives the run. Whether it is a new one that the user has to be told."""
        changed, self.name, self.answered = name != self.name, name, True
        return changed and name != self.run.name and self.rank == 0

    def tell_name(self) -> None:
        log.warning(
            "conceptwatch: '%s' exists already, this run is '%s' (resume=True continues the old one)",
            self.run.name,
            self.name,
        )

    def tell_place(self, before: str, address: str) -> None:
        """Warns, after a declaration, if the curves are kept where the user does not expect or want them."""
        if self.rank != 0 or not self.incarnation:
            return
        place = f"in {self.data_dir}" if self.data_dir else "in memory"
        if self.declarations > 1:
            if before != self.data_dir:
                self.warn(f"from now on another sidecar keeps this run's curves, {place}", is_fault=False)
        elif self.wanted_dir is not ... and not same_directory(self.wanted_dir, self.data_dir):
            wanted = "None" if self.wanted_dir is None else f"'{self.wanted_dir}'"
            self.warn(
                f"data_dir={wanted} is not used: the sidecar that already runs at {address} keeps curves {place}; "
                "leave out address= and CONCEPTWATCH_ADDRESS to start a sidecar of your own",
                is_fault=False,
            )
        elif not (self.data_dir or self.told_place or self.wanted_dir is None):
            self.warn(
                f"the sidecar at {address} keeps curves in memory: they are gone when it ends "
                "(conceptwatch serve --data-dir keeps them)",
                is_fault=False,
            )

    def settles(self, split: str) -> bool:
        """Whether the sidecar says when a pass of this split is settled."""
        return bool(self.incarnation) and is_pass(self.limits, split)

    def warn(self, message: str, *, is_fault: bool = True, outcome: str = "") -> None:
        """Logs each distinct message with its outcome once; those that differ only in numbers count as one.

        is_fault: it is about something that could not be sent, which `raise_errors` raises.
        outcome: what was done with the data, as a sentence of its own.
        """
        if is_fault:
            self.fault = self.fault or message
        kinds = {re.sub(r"\d+", "#", text) for text in (message, message + outcome)}
        if not kinds <= self.warned:
            self.warned |= kinds
            end = f"{'' if message.endswith('?') else '.'} {outcome}" if outcome else ""
            log.warning("conceptwatch, run '%s': %s%s", self.name, message, end)


@dataclass(eq=False)
class EndOfPass:
    split: str
    step: int
    epoch: float | None
    # Of the whole pass, as logged: fewer rows at the sidecar make the pass incomplete.
    logged_rows: int
    ordinal: int = 1
    # Why the job left the pass without ending it; empty: it has ended.
    abandoned: str = ""
    # Passes of the split before this one that were kept back and not sent.
    left_out: int = 0
    rows = 0
    bytes = 0

    @property
    def key(self) -> PassKey:
        return PassKey(self.split, self.step, self.ordinal)


@dataclass(eq=False)
class Item:
    """A message that waits, is in flight, or is kept until its pass is settled."""

    link: Link
    content: Batch | EndOfPass
    sequence: int
    again: bool = False  # it was acknowledged before, and is waiting or in flight again
