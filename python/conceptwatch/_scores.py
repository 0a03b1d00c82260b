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
    # What the mean leaves out because it has no value of its own: indices of concepts (of a score over pairs, of those
    # without any pair), and the number of ordered pairs. `left_out_why` is the reason of the first.
    left_out: tuple[int, ...] = ()
    left_out_why: str = ""
    left_out_pairs: int = 0
    left_out_of: int = 0  # concepts that the score is over when it leaves none out
    # Probability of a value at least this high where there is no effect; None for a score without a test.
    p_value: float | None = None
    per_concept_q: tuple[float, ...] = ()  # adjusted p-values (false discovery rate); NaN: undefined
    matrix_q: tuple[float, ...] = ()  # k*k row-major, NaN on the diagonal; or empty without `matrices=True`
    curve: tuple[tuple[float, float | None], ...] = ()  # (x, value at x), None: undefined there

    def __str__(self) -> str:
        if self.value is None:
            return f"undefined ({self.undefined})"
        error = f" ± {self.standard_error:.4f}" if self.standard_error is not None else ""
        return f"{self.value:.4f}{error}" + (f" ({self._over()})" if self.left_out or self.left_out_pairs else "")

    def _over(self) -> str:
        of = self.left_out_of
        remaining = of - len(self.left_out)
        if self.left_out_pairs in (0, of * (of - 1) - remaining * (remaining - 1)):
            return f"over {remaining} of {of} concepts"
        return f"over {of * (of - 1) - self.left_out_pairs} of {of * (of - 1)} pairs"


class Scores(Mapping[str, Score]):
    """The scores of one evaluation, by id: `scores["ctl"].value`."""

    def __init__(self, point: Any) -> None:
        self.split: str = point.split
        self.step: int = point.step
        self.epoch: float | None = point.epoch if point.HasField("epoch") else None
        self.rows: int = point.rows  # N
        self.concept_rows: tuple[int, ...] = tuple(point.concept_rows)  # with a known label, k; empty: all rows
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
        left_out=tuple(score.left_out),
        left_out_why=score.left_out_why,
        left_out_pairs=score.left_out_pairs,
        left_out_of=score.left_out_of,
        p_value=score.p_value if score.HasField("p_value") else None,
        per_concept_q=tuple(score.per_concept_q),
        matrix_q=tuple(score.matrix_q),
        curve=tuple((place.x, place.y if place.HasField("y") else None) for place in score.curve),
    )
