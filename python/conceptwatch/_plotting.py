"""Curves with matplotlib, in the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._source import ReadError, Unknown
from ._summary import MAIN

if TYPE_CHECKING:
    from ._reading import StoredRun

COLOURS = (
    "#0f74c5", "#b45000", "#05893e", "#a8488d", "#008a8d", "#8059bb", "#b94548", "#877100", "#5a66c7", "#5e7f00",
)  # fmt: skip
# Half-width of the band in standard errors, as on the page: 95 % of a normal distribution.
BAND = 1.96


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        pyplot = import_module("matplotlib.pyplot")
    except ImportError as error:
        raise ReadError(f"plots need matplotlib, which is not installed ({error})") from None
    _, made = pyplot.subplots(figsize=(7.0, 4.0), layout="constrained")
    return made


def _draw(ax: Any, points: Sequence[dict[str, Any]], label: str, colour: str) -> None:
    left = sorted((point for point in points if point["superseded"]), key=lambda point: point["time"])
    points = [point for point in points if not point["superseded"]]
    # One line for the evaluations of each earlier attempt beyond the checkpoint that the run returned to.
    starts = [at for at, point in enumerate(left) if at == 0 or point["step"] <= left[at - 1]["step"]]
    for start, end in zip(starts, [*starts[1:], len(left)], strict=False):
        branch = left[start:end]
        values = [math.nan if point["value"] is None else point["value"] for point in branch]
        ax.plot([point["step"] for point in branch], values, color=colour, alpha=0.35, linestyle=":", linewidth=1.2)
    steps = [point["step"] for point in points]
    values = [math.nan if point["value"] is None else point["value"] for point in points]
    errors = [BAND * (point["standard_error"] or 0.0) for point in points]
    ax.plot(steps, values, color=colour, label=label, linewidth=1.6, marker="o", markersize=2.5)
    low = [value - error for value, error in zip(values, errors, strict=True)]
    high = [value + error for value, error in zip(values, errors, strict=True)]
    ax.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)


def _finish(ax: Any, title: str, entries: int) -> Any:
    ax.set_title(title, loc="left")
    ax.set_xlabel("step")
    ax.grid(color="#e6e9ed")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    if 0 < entries <= len(COLOURS):
        ax.legend(frameon=False, fontsize="small")
    return ax


def of_run(run: StoredRun, scores: Sequence[str], split: str, ax: Any) -> Any:
    """Scores of one run; by default the main ones that it has."""
    wanted = scores or MAIN
    curves = {}
    for score in wanted:
        points = run.series(score, split, frame="records")
        if scores or any(point["value"] is not None for point in points):
            curves[score] = points
    ax = _axes(ax)
    for place, (score, points) in enumerate(curves.items()):
        _draw(ax, points, score, COLOURS[place % len(COLOURS)])
    return _finish(ax, f"{run.name}, {split}", len(curves))


def plot(runs: Sequence[StoredRun], score: str, *, split: str = "val", ax: Any = None) -> Any:
    """Draws a score of several runs with matplotlib; returns the axes.

        conceptwatch.plot(conceptwatch.runs().where(model="cem"), "ctl_conditional")

    runs: of `conceptwatch.runs`; those without the split are left out.
    """
    curves = []
    for run in runs:
        try:
            curves.append((run.name, run.series(score, split, frame="records")))
        except Unknown:
            if len(runs) == 1:
                raise
    ax = _axes(ax)
    for place, (name, points) in enumerate(curves):
        _draw(ax, points, name, COLOURS[place % len(COLOURS)])
    ax.set_ylabel(score)
    return _finish(ax, f"{score}, {split}", len(curves))
