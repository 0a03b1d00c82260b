"""Curves with matplotlib, as the page draws them: its colours and limits, and epochs along the axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._diagnosis import INTERVAL
from ._source import ReadError, Unknown
from ._summary import MAIN

if TYPE_CHECKING:
    from ._reading import StoredRun

# The page's --s1 to --s6 and --leak on a light ground.
COLOURS = ("#0067a5", "#8f6200", "#9c3f7e", "#007a63", "#343a42", "#5a58c0")
LIMIT = "#b3261e"
# Of six series, each has dashes and a mark of its own, which a print in grey keeps. Dashes are in line widths.
DASHES: tuple[Any, ...] = (
    "solid", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 2, 1.2, 2)), (0, (2.5, 1.2)), (0, (6, 1.5, 1.2, 1.5, 1.2, 1.5)),
)  # fmt: skip
MARKS = ("o", "s", "^", "D", "v", "P")
MOST_MARKS = 24

Points = Sequence[dict[str, Any]]
# Each with its label.
Curves = Sequence[tuple[str, Points]]


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        pyplot = import_module("matplotlib.pyplot")
    except ImportError as error:
        raise ReadError(f"plots need matplotlib, which is not installed ({error})") from None
    _, made = pyplot.subplots(figsize=(7.0, 4.0), layout="constrained")
    return made


def _look(place: int) -> dict[str, Any]:
    """Colour, dashes and mark of a series: once all colours are used, each has other dashes."""
    look = (place + place // len(COLOURS)) % len(DASHES)
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": DASHES[look], "marker": MARKS[look]}


def _along(curves: Curves, ax: Any) -> str:
    """Epochs where all points have one, else steps; what is drawn already stays comparable."""
    points = [point for _, curve in curves for point in curve]
    has_epochs = bool(points) and all(point.get("epoch") is not None for point in points)
    return "epoch" if has_epochs and not (ax.lines and ax.get_xlabel() == "step") else "step"


def _draw(ax: Any, points: Points, label: str, look: Mapping[str, Any], along: str) -> None:
    colour = look["color"]
    left = sorted((point for point in points if point["superseded"]), key=lambda point: point["time"])
    points = [point for point in points if not point["superseded"]]
    # One line for the evaluations of each earlier attempt beyond the checkpoint that the run returned to.
    starts = [at for at, point in enumerate(left) if at == 0 or point["step"] <= left[at - 1]["step"]]
    for start, end in zip(starts, [*starts[1:], len(left)], strict=False):
        branch = left[start:end]
        values = [math.nan if point["value"] is None else point["value"] for point in branch]
        ax.plot([point[along] for point in branch], values, color=colour, alpha=0.35, linestyle=":", linewidth=1.2)
    places = [point[along] for point in points]
    values = [math.nan if point["value"] is None else point["value"] for point in points]
    errors = [INTERVAL * (point["standard_error"] or 0.0) for point in points]
    every = max(1, len(points) // MOST_MARKS)
    ax.plot(places, values, label=label, linewidth=1.6, markersize=4.0, markevery=every, **look)
    low = [value - error for value, error in zip(values, errors, strict=True)]
    high = [value + error for value, error in zip(values, errors, strict=True)]
    ax.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)


def _draw_limits(ax: Any, run: StoredRun, scores: Sequence[str]) -> None:
    """A line at the limit of each score that has one."""
    of: dict[tuple[float, str], list[str]] = {}
    for limit in run.source.ask("/api/v1/catalogue")["limits"]:
        if limit["score"] in scores:
            of.setdefault((limit["limit"], limit["bad"]), []).append(limit["score"])
    along = ax.get_yaxis_transform()
    for (at, bad), limited in of.items():
        ax.hlines(at, 0.0, 1.0, transform=along, color=LIMIT, linestyle=(0, (4, 3)), linewidth=0.9)
        named = f" of {', '.join(limited)}" if len(scores) > 1 else ""
        text = f"{bad} the limit{named}, {at:.4g}"
        # On the side where values are beyond it.
        side = "bottom" if bad == "above" else "top"
        ax.text(0.995, at, text, transform=along, ha="right", va=side, fontsize="x-small", color=LIMIT)


def _plotted(curves: Curves, limits_of: StoredRun | None, scores: Sequence[str], title: str, ax: Any) -> Any:
    """The axes, with these curves and the limits of these scores, which a run's source states."""
    ax = _axes(ax)
    along = _along(curves, ax)
    for place, (label, points) in enumerate(curves):
        _draw(ax, points, label, _look(place), along)
    if limits_of is not None:
        _draw_limits(ax, limits_of, scores)
    ax.set_title(title, loc="left")
    ax.set_xlabel(along)
    ax.grid(color="#e6e9ed")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    if 0 < len(curves) <= len(COLOURS) * len(DASHES):
        # Beside the data. A figure without a layout engine would cut it off there.
        beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if ax.figure.get_layout_engine() else {}
        ax.legend(frameon=False, fontsize="small", handlelength=3.6, **beside)
    return ax


def of_run(run: StoredRun, scores: Sequence[str], split: str, ax: Any) -> Any:
    """Scores of one run; by default the main ones that it has."""
    read = [(score, run.series(score, split, frame="records")) for score in dict.fromkeys(scores or MAIN)]
    curves = [(score, points) for score, points in read if scores or any(one["value"] is not None for one in points)]
    return _plotted(curves, run, [score for score, _ in curves], f"{run.name}, {split}", ax)


def plot(runs: Sequence[StoredRun], score: str, *, split: str = "val", ax: Any = None) -> Any:
    """Draws a score of several runs with matplotlib; returns the axes.

        conceptwatch.plot(conceptwatch.runs().where(model="cem"), "ctl_conditional")

    Epochs are along the axis where all evaluations have one, else steps; a line marks the score's limit.

    runs: of `conceptwatch.runs`; those without the split are left out.
    """
    curves, shown, lacking = [], [], None
    for run in runs:
        try:
            curves.append((run.name, run.series(score, split, frame="records")))
            shown.append(run)
        except Unknown as error:
            lacking = error
    if lacking is not None and not shown:
        raise lacking
    ax = _plotted(curves, shown[0] if shown else None, (score,), f"{score}, {split}", ax)
    ax.set_ylabel(score)
    return ax
