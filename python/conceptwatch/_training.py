"""Shared by the callbacks for training frameworks: a run, its open passes, and the scores read back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from ._child import answer_of
from ._init import init
from ._launch import new_job, own_launch
from ._run import ConceptwatchError, Pass, Run
from ._tensors import Fault

# From a batch and the model's outputs for it: the tensors of `Pass.log` by name, or None to leave the batch out.
Extract = Callable[[Any, Any], Mapping[str, Any] | None]

PREFIX = "leakage/"
# What the callbacks report by default: what to look at first, and the published scores.
USUAL = ("ctl_conditional", "icl_conditional", "intervention_drop", "icl", "ctl")
# What the callbacks report besides scores: task accuracy less conditional leakage into the task, a share of the task's
# entropy. The least leakage alone is that of a model that has not learnt anything.
ACCURACY_LESS_LEAKAGE = "accuracy_less_leakage"


@dataclass(frozen=True)
class Reading:
    """The defined scores of one evaluation, by id."""

    step: int
    values: Mapping[str, float] = field(default_factory=dict)


class Stream:
    """A run that a callback streams to. `arguments` are those of `conceptwatch.init`."""

    def __init__(self, name: str, extract: Extract, scores: Sequence[str], arguments: Mapping[str, Any]) -> None:
        if not callable(extract):
            raise TypeError(f"extract: got {extract!r}, expected a function of a batch and the model's outputs")
        if isinstance(scores, str):
            raise TypeError(
                f"scores: got {scores!r}, expected a sequence of score ids such as ('ctl_conditional', 'icl')"
            )
        self.name = name
        self.scores = tuple(scores)
        check_scores("scores", self.scores)
        self.run: Run | None = None
        self._restored: str | None = None  # the run of a loaded checkpoint
        self._extract = extract
        self._arguments = dict(arguments)
        self._passes: dict[str, Pass] = {}

    def declaration(self, world_size: int | None = None) -> dict[str, Any]:
        """The arguments of `conceptwatch.init` on which all ranks must agree.

        The run of a loaded checkpoint, or of an earlier training, is continued.

        world_size: number of ranks that share this declaration, and so a job even without a launcher.
        """
        job, attempt = self._arguments.get("job"), self._arguments.get("attempt")
        before = self._restored
        if self.run is not None:
            job = job or self.run.job or None
            # Its model may be another one, whose steps start again.
            attempt = self.run._link.launch.attempt + 1
            # A name that no sidecar has confirmed may be another run's: the job is enough.
            before = before or (self.run.name if self.run._link.answered else None)
        if world_size is not None:
            launch = own_launch(self.name, world_size, job, attempt)
            job, attempt = launch.job or new_job(), launch.attempt
        resume = before is not None or bool(self._arguments.get("resume"))
        return {"name": before or self.name, "job": job, "attempt": attempt, "resume": resume}

    def start(self, declaration: Mapping[str, Any], model: Any = None, **ranks: Any) -> Run:
        """Starts the run, unless it is started and not finished. A head given by name is that part of the model."""
        if self.run is None or self.run._finished:
            head = ranks.pop("head", self._arguments.get("head"))
            if isinstance(head, str):
                head = _part(model, head)
            self.run = init(**{**self._arguments, **ranks, **declaration, "head": head})
            self._restored = None
        return self.run

    def saved(self) -> dict[str, str]:
        """The run's entry in a checkpoint; empty until its name is known."""
        if self.run is not None and self.run._link.answered:
            return {"run": self.run.name, "job": self.run.job}
        return {} if self._restored is None else {"run": self._restored}

    def restore(self, saved: Mapping[str, str]) -> None:
        """Makes the next start continue the run of a checkpoint."""
        self._restored = saved.get("run") or None

    def begin(self, splits: Sequence[str], step: int, epoch: float | None) -> None:
        assert self.run is not None
        self._passes = {split: self.run.evaluation(split, step=step, epoch=epoch).__enter__() for split in splits}

    def evaluated(self, split: str, batch: Any, outputs: Callable[[], Any]) -> None:
        """Logs a batch of an open pass."""
        opened = self._passes.get(split)
        if opened is not None:
            tensors = self._tensors(split, batch, outputs)
            if tensors is None:
                opened._rows += 1  # at least one row is missing, so the point is marked incomplete
            elif tensors:
                opened.log(**tensors)

    def trained(self, split: str, batch: Any, outputs: Callable[[], Any], step: int, epoch: float | None) -> None:
        """Logs a batch of a split that is evaluated over recent steps."""
        assert self.run is not None
        tensors = self._tensors(split, batch, outputs)
        if tensors:
            tensors.pop("head", None)  # concepts are set in evaluations only
            self.run.log(split=split, step=step, epoch=epoch, **tensors)

    def end(self, error: BaseException | None = None) -> None:
        """Ends the open passes for this rank. After an error they are discarded."""
        passes, self._passes = self._passes, {}
        for opened in passes.values():
            opened.__exit__(None if error is None else type(error), error, None)

    def read(self, split: str, step: int, timeout: float) -> Reading | None:
        """This evaluation's scores, waited for; those of the one before where they are late. None if there are none."""
        assert self.run is not None
        found = self.run.scores(split, step=step, timeout=timeout) or self.run.scores(split)
        # A run that returned to an earlier step already has later ones.
        if found is None or found.step > step:
            return None
        values = {name: found[name].value for name in self.scores if name in found}
        if ACCURACY_LESS_LEAKAGE in self.scores and {"task_accuracy", "ctl_conditional"} <= found.keys():
            # NaN where either is undefined, which is left out.
            values[ACCURACY_LESS_LEAKAGE] = found["task_accuracy"] - max(0.0, found["ctl_conditional"])
        return Reading(
            found.step, {name: value for name, value in values.items() if value is not None and math.isfinite(value)}
        )

    def advice(self, step: int, timeout: float) -> str | None:
        """Why training should stop, where the sidecar advises it."""
        if self.run is None or not self.run.should_stop(step=step, timeout=timeout):
            return None
        return self.run.stop_reason(step=step) or "the sidecar advises it"

    def finish(self, timeout: float = 30.0) -> None:
        if self.run is not None:
            self.run.finish(timeout)

    def _tensors(self, split: str, batch: Any, outputs: Callable[[], Any]) -> dict[str, Any] | None:
        """The tensors to log for a batch, possibly none; None where `extract` failed, which is counted."""
        assert self.run is not None
        try:
            return dict(self._extract(batch, outputs()) or {})
        except Exception as error:
            fault = Fault(f"extract: {type(error).__name__}: {error}")
            fault.__cause__ = error
            self.run._reject(fault, split, 0)
            return None


def check_scores(name: str, scores: Sequence[str]) -> None:
    """Raises ValueError for an id that no score has: it would never be reported. Without the program all pass."""
    unusual = [score for score in scores if score not in (*USUAL, ACCURACY_LESS_LEAKAGE)]
    try:
        if unusual:
            answer_of("score-tensors", [f"--scores={','.join(unusual)}"], [])
    except ConceptwatchError:
        pass
    except ValueError as error:  # also of known ids, because the program gets no tensors
        if str(error).startswith("scores: "):
            raise ValueError(f"{name}: {str(error).removeprefix('scores: ')}") from None


def splits_of(splits: str | Sequence[str]) -> tuple[str, ...]:
    """The splits that a callback streams, one or several."""
    found = (splits,) if isinstance(splits, str) else tuple(splits)
    if not found:
        raise ValueError("splits: got none, expected at least one name")
    return found


def _part(model: Any, name: str) -> Any:
    try:
        return attrgetter(name)(model)
    except AttributeError:
        raise ValueError(f"head: got {name!r}, expected the name of a part of {type(model).__name__}") from None


class Monitor:
    """The callbacks whose trainers have ranks of their own, and evaluate several splits at a step."""

    splits: tuple[str, ...]
    timeout: float
    _stream: Stream

    @property
    def run(self) -> Run | None:
        """The run, once training has started."""
        return self._stream.run

    def _start(self, model: Any, rank: int, world_size: int, agreed: Callable[[Any], Any]) -> None:
        """Starts the run on each rank. agreed: the first rank's value, on every rank."""
        ranks = {"rank": rank, "world_size": world_size}
        declaration: dict[str, Any] | None = None
        # If a sidecar has to be started, the first rank does it: its process ends last.
        if rank == 0:
            declaration = self._stream.declaration(world_size)
            self._stream.start(declaration, model, **ranks)
        self._stream.start(agreed(declaration), model, **ranks)

    def _read(self, split: str, step: int, rank: int, agreed: Callable[[Any], Any]) -> Reading | None:
        """The first rank's reading on every rank, so that all have the same scores."""
        is_asked = rank == 0 and self.timeout > 0
        reading: Reading | None = agreed(self._stream.read(split, step, self.timeout) if is_asked else None)
        return reading


class Tap:
    """Keeps the return value of a method's first call since the last `take`; the method works as before.

    The first call, because models that also intervene on concepts call the same method again to do so.
    """

    def __init__(self, owner: Any, method: str) -> None:
        if not callable(getattr(owner, method, None)):
            raise AttributeError(f"method: got {method!r}, expected a method of {type(owner).__name__}")
        self._owner, self._name = owner, method
        self._own = vars(owner).get(method)  # an attribute of the instance itself
        self._called = getattr(owner, method)
        self._kept: tuple[Any] | None = None
        setattr(owner, method, self)

    def __call__(self, *positional: Any, **named: Any) -> Any:
        returned = self._called(*positional, **named)
        if self._kept is None:
            self._kept = (returned,)
        return returned

    def clear(self) -> None:
        self._kept = None

    def take(self) -> Any:
        kept, self._kept = self._kept, None
        if kept is None:
            raise LookupError(f"method: the model did not call {self._name!r} for a batch")
        return kept[0]

    def close(self) -> None:
        if vars(self._owner).get(self._name) is self:
            delattr(self._owner, self._name)
            if self._own is not None:
                setattr(self._owner, self._name, self._own)
