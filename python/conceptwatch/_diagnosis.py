"""The sidecar's verdict on a run, and its diagnosis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._protocol import fields_of, messages, values_of

# Half of a 95 % interval in standard errors, as in the sidecar's verdicts and on the page.
INTERVAL = 1.96

_STATES = {number: name for name, number in values_of(messages.DiagnosisState).items()}
_VERDICTS = {number: name for name, number in values_of(messages.VerdictState).items()}


def plus_minus(standard_error: float | None) -> str:
    """The half-width of the 95 % interval as it follows a value, such as " ± 0.0098"; empty without an error."""
    return "" if standard_error is None else f" ± {INTERVAL * standard_error:.4f}"


@dataclass(frozen=True)
class Evidence:
    """A number of the run, and the rule's limit for it."""

    score: str  # a score's id, a difference of two, "rows" or "tie_fraction"
    value: float
    standard_error: float | None
    limit: float | None  # None: shown for context
    step: int  # of the evaluation that gave it

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the 95 % interval."""
        half = INTERVAL * (self.standard_error or 0.0)
        return self.value - half, self.value + half

    def __str__(self) -> str:
        value = f"{self.value:.0f}" if self.score == "rows" else f"{self.value:.4f}"
        limit = "" if self.limit is None else f", limit {self.limit:g}"
        return f"{self.score} {value}{plus_minus(self.standard_error)}{limit}"


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


@dataclass(frozen=True)
class Action:
    """What to do, and why."""

    text: str
    why: str
    evidence: tuple[Evidence, ...]  # the numbers behind it

    def __str__(self) -> str:
        # A finding with numbers has its reason beside them.
        return self.text if self.evidence else f"{self.text}: {self.why}"


@dataclass(frozen=True)
class Verdict:
    """Whether a run leaks: the same on the page, in the API and here.

    state: "leaking", "possibly_leaking", "sound", "nothing_found" (and too little was looked at to call it sound),
        "cannot_tell" or "too_early".
    """

    state: str
    deciding: Evidence | None  # None: no number of the newest evaluations decides
    concepts: tuple[str, ...]  # where it leaks, those above the limit, the highest first; else those hardly learnt
    since_step: int | None  # where it leaks
    since_epoch: float | None
    or_earlier: bool  # no evaluation before `since_step` was looked at
    reason: str  # what limits the verdict, or why there is none
    stop_advised_by: str | None  # the alert rule that advises to stop
    task: str | None = None  # of several tasks the one whose scores decide; None: those of no single task do

    def __str__(self) -> str:
        since = "" if self.since_step is None else f" since step {self.since_step}"
        if self.since_epoch is not None:
            since = f" since epoch {self.since_epoch:g}"
        text = self.state.replace("_", " ") + since + " or earlier" * self.or_earlier
        text += f": {self.reason}" if self.reason else ""
        if self.deciding is not None:
            low, high = self.deciding.interval
            limit = "" if self.deciding.limit is None else f", limit {self.deciding.limit:g}"
            text += f"\n  {self.deciding.score} {self.deciding.value:.4f}, {low:.4f} to {high:.4f}{limit}"
        if self.task is not None:
            text += f"\n  task: {self.task}"
        if self.concepts:
            text += f"\n  concepts: {', '.join(self.concepts)}"
        return text


class Diagnosis:
    """The verdict on a split at its newest finished evaluation, what it rests on, and what to do.

    `print` shows the verdict, what to do and the findings with their numbers; if there are none, what was checked and
    how large an effect would have been detected.
    """

    def __init__(self, split: str, answer: Any) -> None:
        self.split = split
        self.step: int = answer.step
        self.epoch: float | None = answer.epoch if answer.HasField("epoch") else None
        self.rows: int = answer.rows  # N
        self.incomplete: bool = answer.incomplete  # ranks or rows were missing
        self.verdict = _verdict(answer.verdict)
        self.actions: tuple[Action, ...] = tuple(  # the most urgent first
            Action(action.text, action.why, tuple(map(_evidence, action.evidence))) for action in answer.actions
        )
        self.lines: tuple[Finding, ...] = tuple(_finding(line) for line in answer.lines)  # one for each rule

    @property
    def found(self) -> tuple[Finding, ...]:
        return tuple(line for line in self.lines if line.state == "found")

    def __str__(self) -> str:
        head = f"{self.split}, step {self.step}, " if self.split else ""
        head += f"{self.rows} rows" + ", incomplete" * self.incomplete + ", ± 95 %"
        head += f"\n{self.verdict}"
        if self.actions:
            head += "\nwhat to do:" + "".join(f"\n  {action}" for action in self.actions)
        if self.found:
            return "\n".join([head, *(str(line) for line in self.found)])
        checked = (f"  {line.subject}: {line.text}" for line in self.lines if line.state == "absent")
        unknown = (f"  {line.subject}: unknown: {line.text}" for line in self.lines if line.state == "unknown")
        return "\n".join([head, "no finding; what was checked:", *checked, *unknown])

    def __repr__(self) -> str:
        found = [line.rule for line in self.found]
        return f"Diagnosis(split={self.split!r}, step={self.step}, verdict={self.verdict.state!r}, found={found})"


def _evidence(evidence: Any) -> Evidence:
    return Evidence(**fields_of(evidence))


def _verdict(verdict: Any) -> Verdict:
    fields = fields_of(verdict)
    fields["state"] = _VERDICTS.get(verdict.state, "cannot_tell")
    fields["deciding"] = None if fields["deciding"] is None else _evidence(verdict.deciding)
    return Verdict(**{**fields, "stop_advised_by": verdict.stop_advised_by or None, "task": verdict.task or None})


def _finding(line: Any) -> Finding:
    state = _STATES.get(line.state, "unknown")
    evidence = tuple(map(_evidence, line.evidence))
    return Finding(**{**fields_of(line), "subject": line.subject or line.title, "state": state, "evidence": evidence})
