"""Hands the scores of settled evaluations to the job's own loggers, from a thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from ._encode import PassKey
from ._loggers import PREFIX, Loggers
from ._scores import Scores
from ._threads import started

# The scores of an evaluation; None where there is no answer.
Read = Callable[[PassKey], "Scores | None"]

# Evaluations of a split that are read again for scores that join later, such as those that train networks.
AGAIN = 3


class Forward:
    """One run's. `settled` is called with the sender's lock held, so it only notes what is to be read."""

    def __init__(self, loggers: Loggers, read: Read) -> None:
        self._loggers, self._read = loggers, read
        self._settled: queue.SimpleQueue[PassKey | None] = queue.SimpleQueue()
        self._written: dict[PassKey, set[str]] = {}
        self._thread: threading.Thread | None = None

    def settled(self, key: PassKey) -> None:
        self._settled.put(key)

    def notice(self) -> None:
        """The job logs an evaluation, on its own thread."""
        self._loggers.notice()
        if self._thread is None:
            self._thread = started(self._work, "conceptwatch loggers")

    def finish(self, timeout: float) -> None:
        """Writes what is settled. Called once nothing more will be."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._settled.put(None)
        thread.join(timeout)
        self._loggers.close()

    def _work(self) -> None:
        while (key := self._settled.get()) is not None:
            for known in self._again(key.split):
                self._forward(known)
            self._forward(key)
        for known in list(self._written):
            self._forward(known)

    def _again(self, split: str) -> list[PassKey]:
        of_split = [known for known in self._written if known.split == split]
        for old in of_split[:-AGAIN]:
            del self._written[old]
        return of_split[-AGAIN:]

    def _forward(self, key: PassKey) -> None:
        split, step, _ = key
        scores = self._read(key)
        if scores is None or scores.step != step:
            return
        written = self._written.setdefault(key, set())
        values = {name: value for name, value in scores.defined.items() if name not in written}
        written.update(values)
        self._loggers.write({f"{PREFIX}/{split}/{name}": value for name, value in values.items()}, step)
