"""Intervention curves: the task predictions of a job's own head after concepts were set to true or wrong values."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._call import MOST_LOGIT, above, calling, is_float
from ._concepts import Concepts
from ._declaration import LABEL_KINDS, continuous_tasks, outputs_of, tasks_of
from ._head import HALF, Call, Head, Output, Recent, even_counts, percentiles
from ._labels import Labels
from ._presample import UInt64s, siphash
from ._protocol import messages
from ._tensors import Fault

CORRECT, WRONG = "intervention_predictions", "wrong_intervention_predictions"
KINDS = ("hard", "probability", "logit", "continuous")


class Predictions(dict[str, Any]):
    """The tensors for `Pass.log`, with the numbers of concepts set in their columns."""

    counts: tuple[int, ...] = ()


class _Counted(np.ndarray[Any, Any]):
    """An array of predictions that knows its counts, so that those of the run can be compared with them."""

    conceptwatch_counts: tuple[int, ...] = ()


def interventions(
    head: Call | Head,
    activations: Any,
    labels: Any,
    *,
    kind: str | Sequence[str] = "probability",
    task_labels: str = "class",
    policy: str | Sequence[int] = "random",
    steps: int | Sequence[int] | None = None,
    groups: Sequence[Sequence[int]] | None = None,
    low: Any = None,
    high: Any = None,
    threshold: float | None = None,
    seed: int = 0,
    cardinalities: Sequence[int] | None = None,
    tasks: Concepts | None = None,
    sample_ids: Any = None,
) -> Predictions:
    """Task predictions after 0 to all concepts of a batch were set to their true, and to wrong, values.

        p.log(..., **conceptwatch.interventions(model.head, c_hat, c))

    Returns `intervention_predictions` and `wrong_intervention_predictions`, [n, m]: classes, -1 where the head's output
    is not finite; of a continuous task numbers and NaN. `counts` has the m numbers of concepts set; if these are
    unevenly spaced, state them in `init(intervention_counts=...)`.

    activations: [n, k] or [n, sum of cardinalities], as the head receives them; Monte-Carlo samples [n, k, m] are
        averaged. labels: [n, k] class numbers; unknown ones (-1 or NaN) are never set.
    kind, task_labels: as activation_kind and task_labels of `init`; kind may be a list with one for each concept.
    cardinalities: numbers of classes where concepts are categorical.
    tasks: as tasks of `init`; of several, predictions are [n, m, t].
    sample_ids: [n]; with them the random order of a row is the same in each batch.
    The other arguments are those of `Head`.

    Wrong values: the other class; of several the next ones at random; for kind "continuous" the end (`low` or `high`)
    that is farther from the label. Raises ValueError for arguments or outputs of a wrong shape, and what the head
    raises.
    """
    if isinstance(head, Head):
        options = head
    else:
        options = Head(
            head, policy=policy, steps=steps, groups=groups, low=low, high=high, threshold=threshold, seed=seed
        )
    kinds = kind if isinstance(kind, str) else list(kind)
    for one in [kinds] if isinstance(kinds, str) else kinds:
        if one not in KINDS:
            raise ValueError(f"kind: got {one!r}, expected one of {', '.join(KINDS)}")
    if task_labels not in LABEL_KINDS:
        raise ValueError(f"task_labels: got {task_labels!r}, expected one of {', '.join(LABEL_KINDS)}")
    plain = Labels(missing=True).plain({"concept_activations": activations, "concept_labels": labels})
    activations, labels = plain.values()
    batch = _Batch(options, activations, labels, kinds, cardinalities, sample_ids)
    declared = messages.Run(tasks=tasks_of(tasks), task_label_kind=LABEL_KINDS[task_labels])
    return batch.predictions(outputs_of(declared))


def lacks_predictions(tensors: Mapping[str, Any]) -> bool:
    """Whether a head can add predictions to these tensors."""
    needed = all(tensors.get(name) is not None for name in ("concept_activations", "concept_labels"))
    return needed and CORRECT not in tensors and WRONG not in tensors


def with_head(
    head: Head, declared: Any, kinds: Sequence[str], tensors: Mapping[str, Any], recent: Recent, first_row: int
) -> Predictions:
    """The predictions of a head after interventions on a batch of a run, whose rows are numbered from `first_row`.

    kinds: by which each concept is set.
    """
    if declared.latents:
        raise Fault("head: leave it out with latents: their columns are no concepts that an intervention could set")
    activations, labels = tensors["concept_activations"], tensors["concept_labels"]
    ids = tensors.get("sample_ids")
    measured = None
    if head.is_measured(kinds):
        recent.add(activations, trained=False)
        measured = recent.percentiles()
    ids = np.arange(first_row, first_row + len(labels)) if ids is None else ids
    cardinalities = [concept.cardinality for concept in declared.concepts]
    batch = _Batch(head, activations, labels, kinds, cardinalities, ids, measured, tensors.get("task_predictions"))
    return batch.predictions(outputs_of(declared))


def without_predictions(head: Head, declared: Any, rows: int) -> Predictions:
    """The tensors for rows for which the head failed."""
    counts, t = head.counts(len(declared.concepts)), len(declared.tasks)
    shape = (rows, len(counts)) if t < 2 else (rows, len(counts), t)
    numbers = any(continuous_tasks(declared))
    none = np.full(shape, np.nan, np.float32) if numbers else np.full(shape, -1, np.int32)
    return _made(none, none.copy(), counts)


def check_counts(tensors: Mapping[str, Any], k: int, declared: Sequence[int]) -> None:
    """Raises `Fault` where predictions were made for other numbers of concepts than the run's."""
    for name in (CORRECT, WRONG):
        made = getattr(tensors.get(name), "conceptwatch_counts", None)
        expected = tuple(declared) or (even_counts(k, len(made)) if made else ())
        if made and made != expected:
            raise Fault(
                f"{name} are for {list(made)} concepts set, but the run expects {list(expected)}; pass "
                f"intervention_counts={list(made)} to init"
            )


class _Batch:
    """A batch whose concepts are set. `xp` is numpy or torch, whichever the activations are of."""

    def __init__(
        self,
        head: Head,
        activations: Any,
        labels: Any,
        kinds: str | Sequence[str],
        cardinalities: Sequence[int] | None,
        ids: Any,
        measured: tuple[Any, Any] | None = None,
        own: Any = None,
    ) -> None:
        """measured: percentiles of earlier activations, for logits. own: the model's predictions, [n] or [n, t]."""
        torch = sys.modules.get("torch")
        is_torch = torch is not None and isinstance(activations, torch.Tensor)
        self.xp: Any = torch if is_torch else np
        self.head, self.measured = head, measured
        self.c_hat: Any = activations.detach() if is_torch else np.asarray(activations)
        self.c = self._like(labels)
        self.own = None if own is None else self._like(own).reshape(len(own), -1)
        if self.c_hat.ndim == 3:
            self.c_hat = self.c_hat.mean(2)
        shapes = f"activations of shape {list(self.c_hat.shape)} and labels of shape {list(self.c.shape)}"
        if self.c_hat.ndim != 2 or self.c.ndim != 2 or len(self.c_hat) != len(self.c) or 0 in self.c_hat.shape:
            raise Fault(f"interventions: got {shapes}, expected [n, K] and [n, k]")
        self.n, self.k = self.c.shape
        cardinalities = [0] * self.k if cardinalities is None else list(cardinalities)
        self.kinds = [kinds] * self.k if isinstance(kinds, str) else list(kinds)
        if len(self.kinds) != self.k:
            raise Fault(f"kind: got {len(self.kinds)} kinds, expected one, or one for each of {self.k} concepts")
        numbers = [kind == "continuous" for kind in self.kinds]
        blocks = _blocks(cardinalities, [number and not all(numbers) for number in numbers], self.c_hat.shape[1])
        if len(cardinalities) != self.k or blocks is None:
            raise Fault(
                f"interventions: got {shapes} for cardinalities {cardinalities}; activations need a column for each "
                "binary concept and one for each class of the others"
            )
        self.blocks = blocks
        self.units = head.units(self.k)
        self.concept_of_column: NDArray[np.int64] = np.repeat(np.arange(self.k), [len(block) for block in blocks])
        self.of = self._like(self.concept_of_column)  # on the activations' device
        self.ids = _ids(ids, self.n)

    def predictions(self, tasks: Sequence[Output]) -> Predictions:
        true, wrong = self._values()
        if self.head.policy == "coop" and len(tasks) > 1:
            raise Fault(f"policy: 'coop' needs a single task, but there are {len(tasks)}")
        if self.head.policy == "coop" and tasks[0].is_number:
            raise Fault("policy: 'coop' needs a task of classes, but the task is continuous")
        rank = self._ranks()[:, self._like(self.units[self.concept_of_column])]
        known = self._known()
        correct, mistaken = [], []
        with calling(self.head.call, self.c_hat, tasks) as predicted:
            for step in self.head.units_set(self.k):
                if step == 0:
                    correct.append(predicted(self.c_hat))
                    mistaken.append(correct[0])
                    continue
                chosen = known & (rank < step)
                correct.append(predicted(self.xp.where(chosen, true, self.c_hat)))
                mistaken.append(predicted(self.xp.where(chosen, wrong, self.c_hat)))
        pairs = [self._pair(task, correct, mistaken, at) for at, task in enumerate(tasks)]
        of_true, of_wrong = map(_side_by_side, zip(*pairs, strict=True))
        return _made(of_true, of_wrong, self.head.counts(self.k))

    def _pair(self, task: Output, correct: list[Any], mistaken: list[Any], at: int) -> list[Any]:
        """The predictions of a task with concepts set to true and to wrong values, [n, m] each."""
        xp: Any = np if isinstance(correct[0][at], np.ndarray) else sys.modules["torch"]
        pair = [xp.stack([step[at] for step in steps], 1) for steps in (correct, mistaken)]
        if task.is_number or not is_float(pair[0]):
            return pair
        threshold = self.head.cut(task.task, pair)
        is_guess = threshold == HALF and self.head._known_cut() is None
        if is_guess and self.own is not None and self.own.shape[0] == self.n and at < self.own.shape[1]:
            # Logits of a model that has learnt little may all be from 0 to 1, too. It then predicts class 1 of each.
            is_of_logits = above(0.0, pair[0][:, 0]) == self.own[:, at]
            threshold = 0.0 if bool(is_of_logits.all()) else HALF
        return [above(threshold, outputs) for outputs in pair]

    def _known(self) -> Any:
        """Columns of concepts whose label is known, [n, K]."""
        known = self.c == self.c  # NaN is unknown
        known = known & ((self.c >= 0) | self._like(np.array([kind == "continuous" for kind in self.kinds])))
        return known[:, self.of]

    def _is(self, kind: str) -> NDArray[np.bool_]:
        """The columns of concepts that are set by this kind, [K]."""
        return np.array([self.kinds[concept] == kind for concept in self.concept_of_column])

    def _values(self) -> tuple[Any, Any]:
        """What concepts are set to, [n, K] each: true values and wrong ones."""
        low, high = self._ends()
        numbers = self._is("continuous")
        if numbers.all():
            return self._numbers(low, high)
        found = self._class_values(low, high)
        if not numbers.any():
            return found
        pairs = zip(self._numbers(low, high), found, strict=True)
        true, wrong = (self.xp.where(self._like(numbers), number, value) for number, value in pairs)
        return true, wrong

    def _numbers(self, low: Any, high: Any) -> tuple[Any, Any]:
        c = self._cast(self.c)[:, self.of]
        return c, self.xp.where(2 * c > low + high, low, high)

    def _class_values(self, low: Any, high: Any) -> tuple[Any, Any]:
        classes, column_class = self._classes(), self._column_classes()
        true = self.xp.where(classes[:, self.of] == column_class, high, low)
        return true, self.xp.where(self._wrong_classes(classes)[:, self.of] == column_class, high, low)

    def _classes(self) -> Any:
        """Class numbers of the labels, 0 where unknown."""
        c = self.c
        if self._is_float(c):
            c = self.xp.floor(self.xp.where(self.xp.isnan(c), 0, c) + 0.5)
        return c.long() if self._is_torch else c.astype(np.int64)

    def _wrong_classes(self, classes: Any) -> Any:
        sizes = np.array([max(2, len(block)) for block in self.blocks])
        if (sizes == 2).all():
            return 1 - classes
        step = 1 + (self._hashes(np.arange(self.k), 1) % (sizes - 1).astype(np.uint64)).astype(np.int64)
        return (classes + self._like(step)) % self._like(sizes)

    def _column_classes(self) -> Any:
        """The class that each column stands for; 1 for a binary concept's only column."""
        classes = [np.arange(len(block)) if len(block) > 1 else np.ones(1) for block in self.blocks]
        return self._like(np.concatenate(classes).astype(np.int64))

    def _ends(self) -> tuple[Any, Any]:
        """`low` and `high` for each column, in the activations' type."""
        given = [self._end(name, end) for name, end in (("low", self.head.low), ("high", self.head.high))]
        measured: list[Any] = [0.0, 1.0]
        if any(end is None for end in given):
            # Numbers are set to percentiles of the labels.
            for kind, source in (("logit", lambda: self.measured or percentiles(self.c_hat)),
                                 ("continuous", lambda: [end[self.of] for end in percentiles(self.c)])):  # fmt: skip
                columns = self._is(kind)
                if columns.any():
                    ends = [self._like(end) for end in source()]
                    measured = [
                        self.xp.where(self._like(columns), end, other)
                        for end, other in zip(ends, measured, strict=True)
                    ]
        low, high = (found if end is None else end for end, found in zip(given, measured, strict=True))
        return self._cast(self._like(low)), self._cast(self._like(high))

    def _end(self, name: str, end: Any) -> Any:
        if end is None:
            return None
        end, columns = self._like(end), self.c_hat.shape[1]
        if tuple(end.shape) == (self.k,) and columns != self.k:
            end = end[self.of]
        if tuple(end.shape) not in ((), (columns,)):
            raise Fault(f"{name}: got shape {list(end.shape)}, expected a number or one for each column, [{columns}]")
        return end

    def _ranks(self) -> Any:
        """The place of each concept or group in the order of its row, [n, groups]."""
        most = int(self.units.max()) + 1
        policy = self.head.policy
        if policy == "random":
            order = np.argsort(self._hashes(np.arange(most), 0), axis=1, kind="stable")
            return self._like(np.argsort(order, axis=1, kind="stable"))
        if policy == "least_confident":
            return self._sorted(self._sorted(self._confidence(most)))
        if policy == "coop":
            return self._sorted(self._sorted(-self._coop(most)))
        order = np.arange(most) if policy == "in_order" else np.asarray(policy)
        if sorted(order.tolist()) != list(range(most)):
            raise Fault(f"policy: got {order.tolist()}, expected each of 0 to {most - 1} once")
        return self._like(np.broadcast_to(np.argsort(order), (self.n, most)).copy())

    def _confidence(self, most: int) -> Any:
        """How sure the model is of each concept or, on average, of those of a group, [n, groups]."""
        c_hat = self.c_hat.float() if self._is_torch else self.c_hat.astype(np.float64)
        if "continuous" in self.kinds:
            raise Fault("policy: 'least_confident' needs probabilities or logits, but the concepts are continuous")
        if "logit" in self.kinds and set(self.kinds) != {"logit"}:
            raise Fault("policy: 'least_confident' compares activations of one kind, but the concepts have several")
        middle = 0.0 if "logit" in self.kinds else 0.5
        parts = []
        for block in self.blocks:
            part = c_hat[:, block.start : block.stop]
            if len(block) == 1:
                parts.append(abs(part[:, 0] - middle))
            else:
                # The gap between the two likeliest classes.
                ordered = self.xp.sort(part, 1)[0] if self._is_torch else np.sort(part, 1)
                parts.append(ordered[:, -1] - ordered[:, -2])
        return self._of_units(parts, most)

    def _of_units(self, concepts: list[Any], most: int) -> Any:
        """The mean of the values of each group's concepts, [n, groups]."""
        values = self.xp.stack(concepts, 1)
        members = [np.flatnonzero(self.units == unit) for unit in range(most)]
        return self.xp.stack([values[:, self._like(member)].mean(1) for member in members], 1)

    def _coop(self, most: int) -> Any:
        """CooP, Chauhan et al. 2023, arXiv 2212.07430: what is to be gained by each concept or group, [n, groups].

        The entropy of a concept's prediction plus the expected change of the predicted class's probability when the
        concept is set to a class drawn from that prediction; of groups the mean.
        """
        other = next((kind for kind in self.kinds if kind not in ("probability", "logit")), None)
        if other is not None:
            raise Fault(f"policy: 'coop' needs probabilities or logits, but the concepts are {other}")
        xp, scores = self.xp, []
        low, high = self._ends()
        column_class = self._column_classes()
        rows = self._like(np.arange(self.n))
        with calling(self.head.call, self.c_hat, (), cut=partial(self.head.cut, "")) as probabilities:
            base = self._like(probabilities(self.c_hat))
            task = base.argmax(1)
            for concept, block in enumerate(self.blocks):
                share = self._shares(block, self.kinds[concept])
                score = -xp.where(share > 0, share * xp.log(xp.where(share > 0, share, 1.0)), 0.0).sum(1)
                inside = self.of == concept
                for number in range(share.shape[1]):
                    chosen = xp.where(column_class == number, high, low)
                    after = self._like(probabilities(xp.where(inside, chosen, self.c_hat)))
                    score = score + share[:, number] * abs(after[rows, task] - base[rows, task])
                scores.append(score)
        return self._of_units(scores, most)

    def _shares(self, block: range, kind: str) -> Any:
        """The predicted probability of each class of a concept, [n, classes]."""
        part = self.c_hat[:, block.start : block.stop]
        part = part.float() if self._is_torch else part.astype(np.float64)
        if len(block) == 1:
            one = part[:, 0]
            if kind == "logit":
                one = 1 / (1 + self.xp.exp(self.xp.clip(-one, -MOST_LOGIT, MOST_LOGIT)))
            one = self.xp.clip(one, 0, 1)
            return self.xp.stack([1 - one, one], 1)
        if kind == "probability":
            return self.xp.clip(part, 0, 1)
        exponentials = self.xp.exp(part - (part.max(1)[0] if self._is_torch else part.max(1))[:, None])
        return exponentials / exponentials.sum(1)[:, None]

    def _sorted(self, values: Any) -> Any:
        """Positions in ascending order of each row, the first of equals first."""
        if self._is_torch:
            return self.xp.argsort(values, dim=1, stable=True)
        return np.argsort(values, axis=1, kind="stable")

    def _hashes(self, numbers: NDArray[np.int64], use: int) -> UInt64s:
        """A random number for each row and each of `numbers`, by the row's id and the seed, [n, numbers]."""
        shape = (self.n, len(numbers))
        ids = np.broadcast_to(self.ids[:, None], shape).astype(np.uint64)
        return siphash((self.head.seed, use + 2), [ids, np.broadcast_to(numbers, shape).astype(np.uint64)])

    @property
    def _is_torch(self) -> bool:
        return self.xp is not np

    def _is_float(self, values: Any) -> bool:
        return bool(values.is_floating_point()) if self._is_torch else values.dtype.kind == "f"

    def _like(self, values: Any) -> Any:
        """As an array of the activations' library, on their device."""
        if not self._is_torch:
            return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)
        return self.xp.as_tensor(values).detach().to(self.c_hat.device)

    def _cast(self, values: Any) -> Any:
        """In the activations' type; whole numbers and flags become that type exactly."""
        return values.to(self.c_hat.dtype) if self._is_torch else values.astype(self.c_hat.dtype)


def _side_by_side(tasks: Sequence[Any]) -> Any:
    """Predictions [n, m] of one task, or of several as [n, m, t]."""
    if len(tasks) == 1:
        return tasks[0]
    xp: Any = np if isinstance(tasks[0], np.ndarray) else sys.modules["torch"]
    floats = [part.dtype for part in tasks if is_float(part)]
    if floats:  # classes beside numbers
        kind = xp.float64 if xp.float64 in floats else xp.float32
        tasks = [part.astype(kind) if xp is np else part.to(kind) for part in tasks]
    return xp.stack(tasks, 2)


def _made(correct: Any, wrong: Any, counts: tuple[int, ...]) -> Predictions:
    made = Predictions()
    for name, array in ((CORRECT, correct), (WRONG, wrong)):
        made[name] = array.view(_Counted) if isinstance(array, np.ndarray) else array
        made[name].conceptwatch_counts = counts
    made.counts = counts
    return made


def _blocks(cardinalities: Sequence[int], single: Sequence[bool], columns: int) -> list[range] | None:
    """The columns of each concept: one for a binary one, or two where the job sends one for each class of all.

    single: whether a concept has one column in either layout.
    """
    if len(cardinalities) != len(single):
        return None
    for of_two in (1, 2):
        widths = [1 if one else m if m > 2 else of_two for m, one in zip(cardinalities, single, strict=True)]
        ends = np.cumsum(widths).tolist()
        if ends and ends[-1] == columns:
            return [range(end - width, end) for end, width in zip(ends, widths, strict=True)]
    return None


def _ids(ids: Any, rows: int) -> UInt64s:
    if ids is None:
        return np.arange(rows, dtype=np.uint64)
    ids = ids.detach().cpu().numpy() if hasattr(ids, "detach") else np.asarray(ids)
    if ids.shape != (rows,):
        raise Fault(f"sample_ids: got shape {list(ids.shape)}, expected [{rows}] as in the activations")
    found: UInt64s = ids.astype(np.uint64)
    return found
