"""The run of `mode="disabled"`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._reading import StoredRun
from ._run import Run
from ._run_channel import Link
from ._source import ReadError
from ._stats import Stats


class DisabledRun(Run):
    """A run that records and sends nothing: the job needs no change, and logging costs nothing."""

    def stored(self) -> StoredRun:
        raise ReadError(f"run '{self.name}' is disabled, so there is nothing to read")

    def __repr__(self) -> str:
        return f"<conceptwatch.Run {self.name!r}, disabled>"

    def __init__(self, link: Link, raise_errors: bool) -> None:
        self.address, self._head, self._forward = "", None, None
        self._link, self._raise_errors, self._advice = link, raise_errors, {}
        self._process, self._finished = 0, False  # no process sends for it

    @property
    def page_url(self) -> str | None:
        return None

    @property
    def data_dir(self) -> str | None:
        return None

    @property
    def stats(self) -> Stats:
        return Stats()

    def finish(self, timeout: float | None = None) -> bool:
        return True

    def _plain(self, split: str, tensors: Mapping[str, Any]) -> None:
        """None: nothing is logged of them."""

    def _epoch_of(self, epoch: Any) -> float | None:
        return None

    def _reject(self, error: Exception, split: str, rows: int) -> None:
        pass

    def _is_step(self, step: Any) -> bool:
        """False: there is nothing to ask about a step, or to end."""
        return False

    def _flush(self, timeout: float, step: int | None = None) -> None:
        """None: there can be no answer."""

    def _begin(self, split: str, step: int, epoch: float | None) -> int:
        return 1
