"""The rows, in the order of the table. The soak stands apart: it takes an hour, and only when it is named."""

from __future__ import annotations

from . import abuse, hosts, kills, overload, programs, soak, stops
from .results import Row

_OTHERS = {row.name: row for row in programs.ROWS}

ROWS: list[Row] = [
    kills.ROW,
    *(_OTHERS[name] for name in ("powercuts", "corruptions", "disk")),
    overload.ROW,
    abuse.ROW,
    *(_OTHERS[name] for name in ("fuzz", "inputs")),
    stops.ROW,
    hosts.ROW,
    soak.ROW,
]
APART = {"soak"}
