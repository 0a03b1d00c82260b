"""The sidecar's diagnosis of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._protocol import messages

_STATES = {
    messages.DIAGNOSIS_STATE_FOUND: "found",
    messages.DIAGNOSIS_STATE_ABSENT: "absent",
}


@dataclass(frozen=True)
class Evidence:
    """A number of the run, and the rule's limit for it."""

    score: str  # a score's id, a difference of two, "rows" or "tie_fraction"
    value: float
    standard_error: float | None
    limit: float | None  # None: shown for context
    step: int  # of the evaluation that gave it

    def __str__(self) -> str:
        value = f"{self.value:.0f}" if self.score == "rows" else f"{self.value:.4f}"
        error = "" if self.standard_error is None else f" ± {self.standard_error:.4f}"
        return f"{self.score} {value}{error}" + ("" if self.limit is None else f", limit {self.limit:g}")


@dataclass(frozen=True)
class Finding:
    """A rule's verdict on a run.

    state: "found", "absent" or "unknown", of which `text` says what is missing.
    """

    rule: str
    title: str
    subject: str  # what is examined
    source: str
    state: str
    text: str
    evidence: tuple[Evidence, ...]  # empty only where unknown

    def __str__(self) -> str:
        head = f"{self.title} ({self.source}): {self.text}"
        return "\n".join([head, *(f"  {evidence}" for evidence in self.evidence)])


class Diagnosis:
    """The verdicts of all rules on a split's newest finished evaluation.

    `print` shows the findings with their numbers; if there are none, what was checked and how large an effect would
    have been detected.
    """

    def __init__(self, split: str, answer: Any) -> None:
        self.split = split
        self.step: int = answer.step
        self.epoch: float | None = answer.epoch if answer.HasField("epoch") else None
        self.rows: int = answer.rows  # N
        self.incomplete: bool = answer.incomplete  # ranks or rows were missing
        self.lines: tuple[Finding, ...] = tuple(_finding(line) for line in answer.lines)  # one for each rule

    @property
    def found(self) -> tuple[Finding, ...]:
        return tuple(line for line in self.lines if line.state == "found")

    def __str__(self) -> str:
        head = f"{self.split}, step {self.step}, {self.rows} rows" + ", incomplete" * self.incomplete
        if self.found:
            return "\n".join([head, *(str(line) for line in self.found)])
        checked = (f"  {line.subject}: {line.text}" for line in self.lines if line.state == "absent")
        unknown = (f"  {line.subject}: unknown: {line.text}" for line in self.lines if line.state == "unknown")
        return "\n".join([f"{head}: no finding; what was checked:", *checked, *unknown])

    def __repr__(self) -> str:
        return f"Diagnosis(split={self.split!r}, step={self.step}, found={[line.rule for line in self.found]})"


def _finding(line: Any) -> Finding:
    return Finding(
        rule=line.rule,
        title=line.title,
        subject=line.subject or line.title,
        source=line.source,
        state=_STATES.get(line.state, "unknown"),
        text=line.text,
        evidence=tuple(
            Evidence(
                score=evidence.score,
                value=evidence.value,
                standard_error=evidence.standard_error if evidence.HasField("standard_error") else None,
                limit=evidence.limit if evidence.HasField("limit") else None,
                step=evidence.step,
            )
            for evidence in line.evidence
        ),
    )
