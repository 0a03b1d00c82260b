"""What a run says when it has finished: its last scores, what fired, where its curves are and how to open them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from ._scores import Scores

# The scores to look at first, in the order of docs/reading.md.
MAIN = (
    "ctl_conditional",
    "icl_conditional",
    "intervention_drop",
    "concept_accuracy",
    "task_accuracy",
)
# Of a screen: splits with their scores, and alerts.
MOST_SPLITS, MOST_ALERTS = 3, 6


def is_quiet() -> bool:
    """Whether CONCEPTWATCH_QUIET asks for nothing but warnings."""
    return os.environ.get("CONCEPTWATCH_QUIET", "").lower() not in ("", "0", "false", "no")


def summary(
    run: str,
    newest: Mapping[str, Scores],
    fired: Iterable[Any],
    *,
    data_dir: str | None,
    page_url: str | None,
    spawned: bool,
) -> str:
    """The lines, each with a line feed. newest: the last scores by split. spawned: the page ends with the jobs."""
    lines = [f"conceptwatch: run '{run}' has finished"]
    for split, scores in list(newest.items())[:MOST_SPLITS]:
        epoch = "" if scores.epoch is None else f", epoch {scores.epoch:g}"
        lines.append(f"  {split}, step {scores.step}{epoch}, {scores.rows} rows")
        for score in MAIN:
            if score in scores and scores[score].value is not None:
                lines.append(f"    {score:<20} {scores[score]}")
    alerts = sorted(fired, key=lambda alert: alert.step)
    for alert in alerts[:MOST_ALERTS]:
        lines.append(f"  alert at step {alert.step}, {alert.severity}: {alert.rule}: {alert.evidence}")
    if len(alerts) > MOST_ALERTS:
        lines.append(f"  and {len(alerts) - MOST_ALERTS} more alerts")
    if not alerts:
        lines.append("  no alert has fired")
    if page_url is not None and not (spawned and data_dir is None):
        lines.append(f"  page    {page_url}" + (", while any job runs" if spawned else ""))
    if data_dir is not None:
        lines.append(f"  curves  {data_dir}")
        lines.append(f"  open    conceptwatch diagnose {shlex.quote(run)}")
        lines.append(f"          conceptwatch serve --data-dir {shlex.quote(data_dir)}")
        lines.append(f"          in Python: conceptwatch.runs()[{run!r}]")
    elif spawned:
        lines.append("  curves  in memory: they end with the last job (data_dir= keeps them)")
    else:
        lines.append("  curves  in memory: they end with the sidecar (conceptwatch serve --data-dir keeps them)")
    return "\n".join(lines) + "\n"
