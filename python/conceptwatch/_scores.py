"""Scores read back from the sidecar."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._diagnosis import INTERVAL, Diagnosis, Verdict, plus_minus
from ._protocol import fields_of
from ._tables import framed, html_table


class Score(float):
    """One score at one curve point: a float, with all that is known about it.

    It behaves as its value does; where it is undefined it is NaN. As text, ± is half of its 95 % interval.

        >>> score = Score(0.25, id="icl", standard_error=0.01)
        >>> f"{score:.3f}", score > 0.2, score.standard_error, str(score)
        ('0.250', True, 0.01, '0.2500 ± 0.0196')
        >>> Score(id="ois", undefined="one class").value is None
        True
    """

    id: str = ""
    undefined: str = ""  # why it has no value; else empty
    standard_error: float | None = None
    per_concept: tuple[float, ...] = ()  # NaN: undefined for that concept
    matrix: tuple[float, ...] = ()  # k*k row-major, or empty without `matrices=True`
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
    per_task: tuple[Score, ...] = ()  # of several tasks the score of each, in their order; the value is the mean

    def __new__(cls, value: float | None = None, **fields: Any) -> Score:
        self = super().__new__(cls, math.nan if value is None else value)
        unknown = fields.keys() - cls.__annotations__
        if unknown:
            raise TypeError(f"Score has no {', '.join(sorted(unknown))}")
        vars(self).update(fields)
        return self

    @property
    def value(self) -> float | None:
        """The value; None where it is undefined, and `undefined` says why."""
        return None if math.isnan(self) else float(self)

    def __str__(self) -> str:
        if self.value is None:
            return f"undefined ({self.undefined})"
        over = f" ({self._over()})" if self.left_out or self.left_out_pairs else ""
        return f"{self:.4f}{plus_minus(self.standard_error)}{over}"

    def __repr__(self) -> str:
        return f"Score({self.id}={self})"

    def _over(self) -> str:
        of = self.left_out_of
        remaining = of - len(self.left_out)
        if self.left_out_pairs in (0, of * (of - 1) - remaining * (remaining - 1)):
            return f"over {remaining} of {of} concepts"
        return f"over {of * (of - 1) - self.left_out_pairs} of {of * (of - 1)} pairs"


class Estimates(list[Score]):
    """Estimates of several columns, in their order."""

    @property
    def value(self) -> NDArray[np.float64]:
        """The values [m]; NaN where one is undefined."""
        return np.array([float(score) for score in self])

    @property
    def standard_error(self) -> NDArray[np.float64]:
        """The standard errors [m]; NaN where there is none."""
        return np.array([np.nan if score.standard_error is None else score.standard_error for score in self])


class Scores(dict[str, Score]):
    """The scores of one evaluation, by id: `scores["ctl"]`.

    `json.dumps(scores.defined)` and `wandb.log(scores.defined)` take those that have a value.
    """

    def __init__(self, point: Any, diagnosis: Diagnosis | None = None) -> None:
        super().__init__((score.id, _score(score)) for score in point.scores)
        self._diagnosis = diagnosis
        self.split: str = point.split
        self.step: int = point.step
        self.epoch: float | None = point.epoch if point.HasField("epoch") else None
        self.rows: int = point.rows  # N
        self.concept_rows: tuple[int, ...] = tuple(point.concept_rows)  # with a known label, k; empty: all rows
        self.rows_seen: int = point.rows_seen
        self.repeated_rows: int = point.repeated_rows
        self.provisional: bool = point.provisional
        self.incomplete: bool = point.incomplete
        self.tie_fraction: float = point.tie_fraction
        self.warnings: tuple[str, ...] = tuple(point.warnings)  # remarks that affect how the values are read
        self.estimator: str = point.estimator
        self.seconds: float = point.seconds

    @property
    def defined(self) -> dict[str, float]:
        """The values of the scores that have one, by id."""
        return {name: score.value for name, score in self.items() if score.value is not None}

    @property
    def verdict(self) -> Verdict | None:
        """Whether the model leaks; None for an evaluation of a run, which `Run.diagnosis` judges with those before."""
        return None if self._diagnosis is None else self._diagnosis.verdict

    def diagnosis(self) -> Diagnosis | None:
        """The verdict with what it rests on; None for an evaluation of a run, see `Run.diagnosis`."""
        return self._diagnosis

    def to_frame(self, frame: str | None = None) -> Any:
        """A row for each score; for `frame` see `StoredRun.series`."""
        columns = ("score", "value", "standard_error", "p_value", "undefined")
        rows = [
            (name, score.value, score.standard_error, score.p_value, score.undefined or None)
            for name, score in self.items()
        ]
        return framed([dict(zip(columns, row, strict=True)) for row in rows], columns, frame)

    def _repr_html_(self) -> str:
        rows = [
            (name, score.value, score.standard_error and INTERVAL * score.standard_error, score.undefined)
            for name, score in self.items()
        ]
        title = f"{self.split}, step {self.step}, " if self.split else ""
        title += f"{self.rows} rows" + ", incomplete" * self.incomplete
        title += "" if self.verdict is None else f": {self.verdict}"
        return html_table(("score", "value", "± 95 %", "undefined"), rows, title)

    def __repr__(self) -> str:
        of = f"split={self.split!r}, step={self.step}, " if self.split else ""
        scores = ", ".join(f"{name}={score}" for name, score in self.items())
        return f"Scores({of}rows={self.rows}, ± 95 %: {scores})"


def _score(score: Any) -> Score:
    curve = tuple((place.x, place.y if place.HasField("y") else None) for place in score.curve)
    return Score(**{**fields_of(score), "curve": curve, "per_task": tuple(map(_score, score.per_task))})
