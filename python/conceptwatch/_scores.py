"""Scores read back from the sidecar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Score:
    """One score at one curve point. `value` is None when it is undefined; `undefined` then says why."""

    id: str
    value: float | None
    standard_error: float | None
    undefined: str
    per_concept: tuple[float, ...]  # NaN: undefined for that concept
    matrix: tuple[float, ...]  # k*k row-major, or empty without `matrices=True`
    # Seconds from the sample that its oldest pair was computed on to this one; None when all pairs are of this sample.
    # Only rolling windows have older pairs, where the sidecar's CPU share is too small for all of them in an interval.
    age: float | None = None

    def __str__(self) -> str:
        if self.value is None:
            return f"undefined ({self.undefined})"
        return f"{self.value:.4f}" + (f" ± {self.standard_error:.4f}" if self.standard_error is not None else "")


class Scores(Mapping[str, Score]):
    """The scores of one evaluation, by id: `scores["ctl"].value`."""

    def __init__(self, point: Any) -> None:
        self.split: str = point.split
        self.step: int = point.step
        self.epoch: float | None = point.epoch if point.HasField("epoch") else None
        self.rows: int = point.rows  # N
        self.rows_seen: int = point.rows_seen
        self.provisional: bool = point.provisional
        self.incomplete: bool = point.incomplete
        self.tie_fraction: float = point.tie_fraction
        self.estimator: str = point.estimator
        self.seconds: float = point.seconds
        self._scores = {score.id: _score(score) for score in point.scores}

    def __getitem__(self, score: str) -> Score:
        return self._scores[score]

    def __iter__(self) -> Iterator[str]:
        return iter(self._scores)

    def __len__(self) -> int:
        return len(self._scores)

    def __repr__(self) -> str:
        scores = ", ".join(f"{name}={score}" for name, score in self.items())
        return f"Scores(split={self.split!r}, step={self.step}, rows={self.rows}, {scores})"


def _score(score: Any) -> Score:
    return Score(
        id=score.id,
        value=score.value if score.HasField("value") else None,
        standard_error=score.standard_error if score.HasField("standard_error") else None,
        undefined=score.undefined,
        per_concept=tuple(score.per_concept),
        matrix=tuple(score.matrix),
        age=score.age if score.HasField("age") else None,
    )
