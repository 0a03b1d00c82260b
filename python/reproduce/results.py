"""The scored models, and what the report says of a group of them.

A score that a model lacks is NaN here and "-" in the report.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from plan import plan
from scipy import stats

Model = dict[str, Any]
Floats = NDArray[np.float64]
MISSING = "-"


def read(file: Path) -> list[Model]:
    """In the order of the plan."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    keys = list(plan()[0])
    order = {tuple(of[key] for key in keys): at for at, of in enumerate(plan())}
    known = [line for line in lines if tuple(line[key] for key in keys) in order]
    return sorted(known, key=lambda line: order[tuple(line[key] for key in keys)])


def of(models: Iterable[Model], **wanted: Any) -> list[Model]:
    return [model for model in models if all(model[key] == value for key, value in wanted.items())]


def classes(models: list[Model]) -> list[list[Model]]:
    """Models that differ only in their seed."""
    keys = sorted({(model["kind"], model["weight"]) for model in models})
    return [of(models, kind=kind, weight=weight) for kind, weight in keys]


def values(models: Sequence[Model], score: str, part: str = "scores") -> Floats:
    """One for each model. `drop` is the task accuracy less that with all concepts true, and `reference` the accuracy of
    a linear head that is trained on them.
    """
    if score == "drop":
        return np.array([model["accuracies"][0] - model["accuracies"][-1] for model in models])
    if score == "reference":
        return values(models, "intervention_score") + np.array([model["accuracies"][-1] for model in models])
    found = [model[part].get(score) for model in models]
    return np.array([np.nan if value is None else value for value in found], dtype=float)


def has(models: Sequence[Model], score: str) -> bool:
    return bool(np.isfinite(values(models, score)).any())


def interval(found: Floats) -> tuple[float, float]:
    """Mean over seeds and the half-width of its 95 % interval."""
    return float(found.mean()), float(stats.t.ppf(0.975, len(found) - 1) * stats.sem(found))


def shown(found: Floats) -> str:
    defined = found[np.isfinite(found)]
    if len(defined) < 2:
        return MISSING
    mean, half = interval(defined)
    left_out = "" if len(defined) == len(found) else f" ({len(defined)} of {len(found)})"
    return f"{mean:.3f}±{half:.3f}{left_out}"
