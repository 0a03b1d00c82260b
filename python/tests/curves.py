"""A real sidecar that scores as fast as it can, and the curves it has."""

from __future__ import annotations

import contextlib
from typing import Any

from test_end_to_end import ask
from test_sidecar import serving


def eager(*options: str) -> contextlib.AbstractContextManager[str]:
    """Tests wait for the scores, so the sidecar need not step back behind a training; its address."""
    return serving("--niceness", "0", "--cpu-share", "1", "--busy-cpu-share", "1", "--log", "warn", *options)


def answer(address: str, path: str, **query: str) -> Any:
    """What the page's server says; its port is one above."""
    host, _, port = address.rpartition(":")
    return ask(f"{host}:{int(port) + 1}", path, **query)


def curve(address: str, run: str, score: str = "icl", split: str = "val") -> list[Any]:
    points: list[Any] = answer(address, "/api/v1/series", run=run, split=split, score=score)["points"]
    return points
