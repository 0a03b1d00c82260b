"""What a run says when it has finished: its last scores, what fired, where its curves are and how to open them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._outcome import told
from ._scores import Scores
from ._stats import Stats

if TYPE_CHECKING:
    from ._protocol import messages
    from ._run_channel import Link

# The scores to look at first, in the order of docs/reading.md, each with the one for numbers.
MAIN = (
    "ctl_conditional", "ctl_conditional_r2", "icl_conditional", "intervention_drop",
    "concept_accuracy", "concept_r2", "task_accuracy", "task_r2",
)  # fmt: skip
# Of a screen: splits with their scores, and alerts.
MOST_SPLITS, MOST_ALERTS = 3, 6
MOST_OF_ERROR = 200
SLOW = "the sidecar scores slower than evaluations arrive"
# Why rows were dropped, by the reasons of `Stats`.
DROPPED = {
    "invalid": "wrong name, shape or type",
    "queue_full": "no room in queue_bytes",
    "refused": "refused by the sidecar",
    "run_refused": "the sidecar refuses the run",
    "superseded": "a newer attempt of the job has begun",
    "forked": "logged in a forked process",
    "failed": "the connection broke each time they were sent",
    "unsent": "not sent before the end",
    "abandoned": "of evaluations left by an exception",
}


def is_quiet() -> bool:
    """Whether CONCEPTWATCH_QUIET asks for nothing but warnings."""
    return os.environ.get("CONCEPTWATCH_QUIET", "").lower() not in ("", "0", "false", "no")


def counted(number: int, what: str) -> str:
    """A number with its noun: "1 evaluation", "2,100 rows"."""
    return f"{number:,} {what}" + "s" * (number != 1)


def evaluations(stats: Stats) -> str:
    """How many evaluations of this process have scores, and what became of the others."""
    settled, left_out, refused = stats.passes_settled, stats.passes_left_out, stats.passes_refused
    scored = settled["point"] + settled["incomplete"]
    slow = [f"{number} {what}" for number, what in ((settled["skipped"], "skipped"), (left_out, "left out")) if number]
    lost = [f"{', '.join(slow)} ({SLOW})"] * bool(slow)
    for number, what in (
        (settled["failed"], "failed (no rows, or scores that could not be computed)"),
        (settled["discarded"], "discarded (a newer attempt of the run began, or another rank left it)"),
        (refused, "refused by the sidecar"),
        (stats.passes_abandoned, "left by an exception"),
    ):
        lost += [f"{number} {what}"] * bool(number)
    of = sum(settled.values()) + left_out + refused + stats.passes_abandoned
    found = f"{scored} of {counted(of, 'evaluation')} scored" if lost else f"{counted(scored, 'evaluation')} scored"
    found += f", {settled['incomplete']} of them incomplete" * bool(settled["incomplete"])
    found += f": {', '.join(lost)}" * bool(lost)
    return found + f", {stats.passes_unsettled} not settled" * bool(stats.passes_unsettled)


def dropped_rows(stats: Stats) -> str:
    """How many rows were dropped and why, or batches where their rows are not known; empty where none was."""
    reasons = {DROPPED.get(reason, reason): rows for reason, rows in stats.rows_dropped.items() if rows}
    if not reasons:
        batches = stats.batches_dropped.total()
        return f"{batches:,} batch{'es' * (batches != 1)} dropped (see the log)" * bool(batches)
    each = [f"{rows:,} {why}" if len(reasons) > 1 else why for why, rows in reasons.items()]
    return f"{counted(sum(reasons.values()), 'row')} dropped ({'; '.join(each)})"


def _losses(stats: Stats) -> list[str]:
    """What a run has lost: nothing where each evaluation was scored with all its rows."""
    found = [evaluations(stats), dropped_rows(stats)]
    # "12 evaluations scored" has no part after it.
    return [line for line in found if line and not line.endswith(" scored")]


def summary(
    link: Link,
    stats: Stats,
    newest: Mapping[str, Scores],
    finished: messages.FinishRunResponse,
    error: BaseException | None,
    *,
    advised: bool,
) -> str:
    """The lines, each with a line feed.

    stats: of the process that finishes the run. newest: the last scores by split. error: the exception that ended the
    script or the run's block. advised: this process was told to stop.
    """
    run, data_dir, spawned = link.name, link.data_dir, link.ends_unused
    how = "has stopped on advice" if advised else "has finished"
    if error is not None:
        how = f"was ended by an exception: {_named(error)}"
    lines = [f"conceptwatch: run '{run}' {how}"]
    for split, scores in list(newest.items())[:MOST_SPLITS]:
        epoch = "" if scores.epoch is None else f", epoch {scores.epoch:g}"
        incomplete = ", incomplete: ranks or rows were missing" * scores.incomplete
        lines.append(f"  {split}, step {scores.step}{epoch}, {counted(scores.rows, 'row')}, ± 95 %{incomplete}")
        for score in MAIN:
            if score in scores and scores[score].value is not None:
                lines.append(f"    {score:<20} {scores[score]}")
        lines += [f"    note: {warning}" for warning in scores.warnings]
    lines += [f"  {loss}" for loss in _losses(stats)]
    if stats.labels_unknown:
        lines.append(f"  {counted(stats.labels_unknown, 'label')} taken as unknown, by soft_labels")
    fired = sorted(finished.fired, key=lambda alert: alert.step)
    lines += [f"  {line}" for line in _judged(fired, finished.other_splits)]
    if link.page_url and (data_dir or not spawned):
        lines.append(f"  page    {link.page_url}" + (", while any job runs" if spawned else ""))
    if data_dir:
        lines.append(f"  curves  {data_dir}")
        split = "" if not newest or "val" in newest else f" --split {shlex.quote(next(iter(newest)))}"
        lines.append(f"  open    conceptwatch diagnose {shlex.quote(run)}{split}")
        lines.append(f"          conceptwatch serve --data-dir {shlex.quote(data_dir)}")
        lines.append(f"          in Python: conceptwatch.runs()[{run!r}]")
    elif spawned:
        lines.append("  curves  in memory: they end with the last job (data_dir= keeps them)")
    else:
        lines.append("  curves  in memory: they end with the sidecar (conceptwatch serve --data-dir keeps them)")
    return "\n".join(lines) + "\n"


def _judged(alerts: Sequence[Any], other_splits: Sequence[str]) -> list[str]:
    """What the alert rules found."""
    if not alerts and other_splits:
        named = " and ".join(map(repr, other_splits))
        return [f"no alert rule judged the run: the rules look at {named}, of which it has none"]
    of = [f"alert at step {one.step}, {one.severity}: {one.rule}: {one.evidence}" for one in alerts[:MOST_ALERTS]]
    more = len(alerts) - MOST_ALERTS
    return [*of, *[f"and {counted(more, 'more alert')}"] * (more > 0)] or ["no alert has fired"]


def _named(error: BaseException) -> str:
    """An exception on one line."""
    name, text = told(error)
    return (f"{name}: {text}" if text else name)[:MOST_OF_ERROR]
