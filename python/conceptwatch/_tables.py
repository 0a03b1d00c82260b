"""Rows as data frames where a package for them is installed, and as HTML in notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from ._source import ReadError

FRAMES = ("pandas", "polars", "records")
# Columns that are times: Unix seconds in records, UTC timestamps in frames.
TIMES = ("time", "since", "started")


def framed(rows: Sequence[dict[str, Any]], columns: Sequence[str], frame: str | None) -> Any:
    """The rows as `frame` names; by default a pandas frame, else a Polars one, else a list of dicts.

    Times are UTC timestamps in frames: `datetime64[ns, UTC]` in pandas, `Datetime("us", "UTC")` in Polars.
    """
    if frame is not None and frame not in FRAMES:
        raise ValueError(f"frame: got {frame!r}, expected one of {', '.join(FRAMES)}")
    kind = frame or next((name for name in FRAMES[:2] if find_spec(name) is not None), "records")
    if kind == "records":
        return list(rows)
    try:
        package = import_module(kind)
    except ImportError as error:
        raise ReadError(f"frame: {kind} is not installed ({error})") from None
    data: dict[str, Any] = {column: [row.get(column) for row in rows] for column in columns}
    for column in columns:
        if column in TIMES:
            data[column] = _timestamps(package, kind, data[column])
    if kind == "polars":
        return package.DataFrame(data, strict=False)
    return package.DataFrame(data, columns=list(columns))


def _timestamps(package: Any, kind: str, seconds: Sequence[float | None]) -> Any:
    # To microseconds: a float of this size resolves 0.24 of one.
    at = np.array(["NaT" if one is None else round(one * 1e6) for one in seconds], "datetime64[us]")
    if kind == "polars":
        return package.Series(at).dt.replace_time_zone("UTC")
    return package.Series(at.astype("datetime64[ns]")).dt.tz_localize("UTC")


def shown(value: Any) -> str:
    """A value as people read it."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def html_table(head: Iterable[str], rows: Iterable[Iterable[Any]], caption: str = "") -> str:
    """A table of escaped text."""
    top = "".join(f"<th>{escape(str(one))}</th>" for one in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(shown(one))}</td>" for one in row) + "</tr>" for row in rows)
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{said}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
