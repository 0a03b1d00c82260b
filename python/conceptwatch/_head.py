"""Heads, from concepts to the task, and how concepts are set before them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

POLICIES = ("random", "least_confident", "coop", "in_order")
# With more concepts, or groups of concepts, these are not all set one after the other.
MOST_UNITS = 32
STEPS = 11
# P1: the values of absent and present concepts among a concept's training logits.
PERCENTILES = (5.0, 95.0)
RECENT_ROWS = 1024
# The threshold of a probability, and how far from it one may be: rounding takes some beyond 0 and 1.
HALF, MOST_FROM_HALF = 0.5, 0.5 + 1e-6

# A head: concept activations [n, K] to logits [n, l], one logit [n] or [n, 1] for class 1, or class numbers [n].
Call = Callable[[Any], Any]


class Output(NamedTuple):
    """What a head returns for a task."""

    task: str
    columns: int
    is_number: bool = False


@dataclass
class Head:
    """A head, and how concepts are set before it. For `init(head=...)`, `Pass.log(head=...)` and the callbacks.

    call: a module or function from activations [n, K] to logits [n, l], one logit for class 1, or class numbers [n]; of
        several tasks a list of these, or their columns side by side.
    policy: the order in which each row's concepts are set: "random", the same in each epoch; "least_confident" first;
        "coop", by the entropy of the concept plus the expected change of the predicted class's probability when it is
        set (Chauhan et al. 2023, with weights 1 and without costs; ranked once, at two calls of the head for each
        concept); "in_order"; or a sequence of all concepts or groups.
    steps: how many numbers of concepts (or groups), evenly spaced from none to all; or these numbers themselves. By
        default all of up to 32, else 11.
    groups: lists of concepts that are set together, such as the values of one attribute of CUB.
    low, high: values of an absent and a present concept: a number, one for each concept, or one for each column. By
        default 0 and 1; for logits see docs/integrations.md.
    threshold: of heads with one output: class 1 is above it. By default 0 after a linear layer, 0.5 after a sigmoid;
        else 0.5 while all are from 0 to 1, and 0 for logits.
    """

    call: Call
    _: KW_ONLY
    policy: str | Sequence[int] = "random"
    steps: int | Sequence[int] | None = None
    groups: Sequence[Sequence[int]] | None = None
    low: Any = None
    high: Any = None
    threshold: float | None = None
    seed: int = 0
    # The tasks whose single outputs are known for logits, as one was beyond 0 and 1.
    _of_logits: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not callable(self.call):
            raise ValueError(f"head: got {self.call!r}, expected a module or function from concepts to the task")
        if isinstance(self.policy, str) and self.policy not in POLICIES:
            raise ValueError(f"policy: got {self.policy!r}, expected a sequence or one of {', '.join(POLICIES)}")

    @staticmethod
    def of(head: Any) -> Head:
        """A `Head` with default options, unless it is one already."""
        return head if isinstance(head, Head) else Head(head)

    def is_linear(self) -> bool:
        """Whether it is a linear layer, or such layers in a row; False where that cannot be seen."""
        parts = _layers(self.call)
        if len(parts) > 1 and type(parts[-1]).__name__ in _OUTPUTS:
            parts.pop()
        return bool(parts) and all(_is_linear(part, is_last=part is parts[-1]) for part in parts)

    def cut(self, task: str, outputs: Iterable[Any]) -> float:
        """The threshold of single outputs."""
        known = self._known_cut()
        if known is not None:
            return known
        if task not in self._of_logits and any(bool((abs(one - HALF) > MOST_FROM_HALF).any()) for one in outputs):
            self._of_logits.add(task)
        return 0.0 if task in self._of_logits else HALF

    def _known_cut(self) -> float | None:
        """The threshold that is given, or that the last layer has; None where it cannot be seen."""
        if self.threshold is not None:
            return self.threshold
        call: Any = self.call
        while isinstance(call, Wrapped):
            call = call.head
        layers = [layer for layer in _layers(call) if type(layer).__name__ not in _UNCHANGING]
        if not layers:
            return None
        name = getattr(getattr(layers[-1], "activation", None), "__name__", "") or type(layers[-1]).__name__
        return HALF if name in ("Sigmoid", "sigmoid") else 0.0 if _is_linear(layers[-1], is_last=False) else None

    def is_measured(self, kinds: Sequence[str]) -> bool:
        """Whether percentiles set the values of some concepts, which have these kinds."""
        return "logit" in kinds and (self.low is None or self.high is None)

    def units(self, k: int) -> NDArray[np.int64]:
        """The group number of each concept; a concept in no group is a group of its own."""
        unit = np.full(k, -1)
        groups = [list(group) for group in self.groups or ()]
        for number, group in enumerate(groups):
            for concept in group:
                if not 0 <= concept < k or unit[concept] >= 0:
                    raise ValueError(f"groups: got concept {concept}, expected each of 0 to {k - 1} at most once")
                unit[concept] = number
        alone = np.flatnonzero(unit < 0)
        unit[alone] = len(groups) + np.arange(len(alone))
        if [] in groups:
            raise ValueError("groups: got an empty group, expected at least one concept in each")
        return unit

    def units_set(self, k: int) -> list[int]:
        """How many concepts or groups are set in each column of the predictions, ascending from 0 to all."""
        most = int(self.units(k).max()) + 1
        steps = self.steps
        if steps is None:
            steps = most + 1 if most <= MOST_UNITS else STEPS
        if isinstance(steps, (int, np.integer)):
            if steps < 2:
                raise ValueError(f"steps: got {steps}, expected at least 2: no concept set, and all of them")
            return _evenly(most, min(int(steps), most + 1))
        found = [int(step) for step in steps]
        if found != sorted(set(found)) or not found or found[0] != 0 or found[-1] != most:
            raise ValueError(f"steps: got {found}, expected ascending numbers from 0 to {most}")
        return found

    def counts(self, k: int) -> tuple[int, ...]:
        """Numbers of concepts set in each column; with groups their expected number in a random order."""
        units = int(self.units(k).max()) + 1
        return tuple((2 * k * step + units) // (2 * units) for step in self.units_set(k))


# Modules of PyTorch that run another one, and the attribute that is this one.
_WRAPPERS = {
    "OptimizedModule": "_orig_mod",
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "FullyShardedDataParallel": "module",
}
# Layers after which outputs are as before.
_UNCHANGING = ("Identity", "Flatten", "Dropout", "InputLayer")
# Layers that turn logits into probabilities, after which the order of the classes is the same.
_OUTPUTS = ("Softmax", "LogSoftmax", "Sigmoid")


def _layers(call: Any) -> list[Any]:
    """Those in a row, of PyTorch or of Keras; else the head alone."""
    while type(call).__name__ in _WRAPPERS:
        call = getattr(call, _WRAPPERS[type(call).__name__])
    if type(call).__name__ in ("Sequential", "FSDPSequential"):
        return list(call.children()) if hasattr(call, "children") else list(call.layers)
    return [call]


def _is_linear(part: Any, *, is_last: bool) -> bool:
    """Whether a layer of PyTorch or Keras is linear, by its name: neither package may be installed."""
    name = type(part).__name__
    if name == "Dense":
        activation = getattr(part.activation, "__name__", "")
        return activation == "linear" or (is_last and activation in ("softmax", "sigmoid"))
    # fully_shard names a layer's class FSDPLinear and so on.
    return name.removeprefix("FSDP") in ("Linear", *_UNCHANGING)


class Wrapped:
    """A function that calls a head, which may be a module."""

    head: Call


class EmbeddingHead(Wrapped):
    """The head of a concept embedding model as a function of concept values: see `embedding_head`."""

    def __init__(self, head: Call, positive: Any, negative: Any, flatten: bool) -> None:
        if tuple(positive.shape) != tuple(negative.shape) or len(positive.shape) != 3:
            raise ValueError(
                f"embedding_head: got positive embeddings of shape {list(positive.shape)} and negative ones of "
                f"{list(negative.shape)}, expected both [n, k, d]"
            )
        self.head, self.positive, self.negative, self.flatten = head, positive, negative, flatten

    def __call__(self, concepts: Any) -> Any:
        share = concepts[:, :, None]
        mixed = share * self.positive + (1 - share) * self.negative
        return self.head(mixed.reshape(mixed.shape[0], -1) if self.flatten else mixed)


def embedding_head(head: Call, positive: Any, negative: Any, *, flatten: bool = True) -> Call:
    """The head of a concept embedding model for a batch, as a function of concept values in [0, 1].

    A CEM's head reads each concept's embedding, mixed as ĉ·positive + (1 - ĉ)·negative: to set a concept is to mix with
    its true value. positive, negative: [n, k, d], of the batch. head: from [n, k d], or [n, k, d] without `flatten`.

        p.log(..., head=conceptwatch.embedding_head(model.head, positive, negative))
    """
    return EmbeddingHead(head, positive, negative, flatten)


def percentiles(logits: Any) -> tuple[Any, Any]:
    """The 5th and the 95th percentile of each column of training logits [n, K], for `low` and `high`.

    Arrays of NumPy, or tensors of PyTorch on the device of the logits.
    """
    if hasattr(logits, "detach"):
        # By hand, because torch's quantiles take 16 million elements at most, and no half precision.
        values = logits.detach().float().sort(0).values
        known = len(values) - values.isnan().sum(0, keepdim=True)  # NaN come last
        ends = []
        for percent in PERCENTILES:
            at = (known - 1).clamp(min=0).double() * percent / 100
            below, above = (values.gather(0, place.long())[0] for place in (at.floor(), at.ceil()))
            ends.append(below + (at - at.floor())[0].float() * (above - below))
        return ends[0], ends[1]
    known = np.ma.filled(np.ma.asarray(logits, np.float64), np.nan)
    low, high = np.nanpercentile(known, PERCENTILES, axis=0)
    return low, high


def _form(part: Any) -> tuple[Any, ...]:
    return type(part), part.shape[1], part.dtype, getattr(part, "device", None)


class Recent:
    """The newest activations of a run, whose percentiles stand for logits that are set.

    Those that the run trains on, where it logs them; else those that it evaluates.
    """

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self._trained = False

    def add(self, activations: Any, *, trained: bool) -> None:
        if getattr(activations, "ndim", 0) != 2 or (self._trained and not trained):
            return
        if trained and not self._trained:
            self._trained, self._parts = True, []
        # A copy: the job may overwrite its own.
        part = activations.detach().clone() if hasattr(activations, "detach") else np.array(activations)
        if self._parts and _form(part) != _form(self._parts[0]):
            self._parts = []
        self._parts.append(part)
        while sum(map(len, self._parts[1:])) >= RECENT_ROWS:
            del self._parts[0]

    def percentiles(self) -> tuple[Any, Any] | None:
        if not self._parts:
            return None
        is_torch = hasattr(self._parts[0], "detach")
        return percentiles(sys.modules["torch"].cat(self._parts) if is_torch else np.concatenate(self._parts))


def even_counts(k: int, columns: int) -> tuple[int, ...]:
    """The numbers of concepts that the sidecar takes columns for where a run declares none."""
    return tuple(_evenly(k, columns)) if 2 <= columns <= k + 1 else ()


def _evenly(most: int, columns: int) -> list[int]:
    """Numbers from 0 to `most`, evenly spaced and rounded half up."""
    last = columns - 1
    return [(2 * most * at + last) // (2 * last) for at in range(columns)]
