"""What became of each run, and when a rule or a callback would have stopped it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from scipy import stats

Run = dict[str, Any]

COLLAPSED, HARMLESS, BEHIND = 0.3, 0.02, 0.02
PATIENCE = 3


def group(run: Run) -> str:
    """Runs of one group are compared with the best concept accuracy among them."""
    return str(run["data"] if run["training"] == "joint" else f"{run['data']}, {run['training']}")


def last(run: Run, score: str) -> float:
    value = run["scores"].get(score, [None])[-1]
    return float("nan") if value is None else float(value)


def outcomes(runs: list[Run]) -> list[str]:
    """`collapsing` runs lose more than 0.3 of their accuracy under intervention at the end; `sound` ones less than
    0.02, with a concept accuracy at most 2 points below the best of their data set; `between` are all others."""
    # Bottlenecks that learn from the concepts alone are held against the best of all that see the same data.
    best: dict[str, float] = {}
    for run in runs:
        best[run["data"]] = max(best.get(run["data"], 0.0), last(run, "concept_accuracy"))

    def outcome(run: Run) -> str:
        drop = last(run, "intervention_drop")
        if drop > COLLAPSED:
            return "collapsing"
        learnt = last(run, "concept_accuracy") >= best[run["data"]] - BEHIND
        return "sound" if drop < HARMLESS and learnt else "between"

    return [outcome(run) for run in runs]


def early_stopping(run: Run) -> int | None:
    """The epoch at which Lightning's EarlyStopping on the validation loss stops, with its default patience of 3."""
    best, waited = float("inf"), 0
    for epoch, loss in enumerate(run["loss"]):
        if epoch == 0:
            continue
        best, waited = (loss, 0) if loss < best else (best, waited + 1)
        if waited >= PATIENCE:
            return epoch
    return None


def first(run: Run, holds: Callable[[dict[str, float]], bool], evaluations: int, warm_up: int = 2) -> int | None:
    """The first epoch at which a condition on the scores has held for that many evaluations in a row. An evaluation
    that lacks a score of the condition is no evidence."""
    count = 0
    for epoch, values in enumerate(zip(*run["scores"].values(), strict=True)):
        point = {score: value for score, value in zip(run["scores"], values, strict=True) if value is not None}
        if epoch < warm_up:
            continue
        try:
            count = count + 1 if holds(point) else 0
        except KeyError:
            continue
        if count >= evaluations:
            return epoch
    return None


def interval(found: int, of: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval of a share."""
    low = stats.beta.ppf(0.025, found, of - found + 1) if found else 0.0
    high = stats.beta.ppf(0.975, found + 1, of - found) if found < of else 1.0
    return float(low), float(high)


# The limits that leaving a data set out chooses among: of the rule on conditional leakage and concept AUC, and of the
# rule on the intervention drop.
LEAKAGE = list(itertools.product((0.08, 0.1, 0.12, 0.14, 0.16), (0.75, 0.8, 0.85, 0.9, 0.95), (3, 4, 5)))
DROPS = list(itertools.product((0.1, 0.15, 0.2, 0.25, 0.3), (2, 3, 4, 5)))


def leaks(limits: tuple[float, float, int]) -> Callable[[Run], int | None]:
    leak, auc, evaluations = limits
    return lambda run: first(run, lambda p: p["ctl_conditional"] > leak and p["concept_auc"] < auc, evaluations)


def drops(limits: tuple[float, int]) -> Callable[[Run], int | None]:
    drop, evaluations = limits
    return lambda run: first(run, lambda p: p["intervention_drop"] > drop, evaluations)


def beyond(run: Run, limit: float = 0.1, evaluations: int = 3) -> int | None:
    return first(run, lambda p: p["task_excess"] > limit, evaluations)


def earliest(epochs: Iterable[int | None]) -> int | None:
    return min((epoch for epoch in epochs if epoch is not None), default=None)
