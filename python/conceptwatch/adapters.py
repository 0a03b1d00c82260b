"""Adapters from the models of known libraries to the tensors of `Pass.log`.

Each takes a batch as in the library's own training loop, and what the model returned for it:

    p.log(**adapters.scbm(batch, model(batch["features"], epoch, validation=True)))

An adapter also serves as `extract` of the callbacks; functools.partial sets its options. `Numbered` adds row numbers.
`head` adds the intervention curves. In a run declared with missing_concept_labels=True, pass the same to the adapter: a
negative or NaN label is then unknown, otherwise the concept is absent.

n rows, k concepts, l classes, d the size of an embedding.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ._concepts import Concept, Continuous
from ._head import Call, Wrapped, embedding_head


class Numbered:
    """A map-style data set whose rows include their number: last in a tuple, as "sample_ids" in a dict.

    at: the number's place in a tuple, with None between: 5 for IntCEM and IntCBM, whose training reads five parts.
    """

    def __init__(self, rows: Any, at: int | None = None) -> None:
        if at is not None and at < 0:
            raise ValueError(f"at: got {at}, expected an index of 0 or more")
        self.rows, self.at = rows, at
        if at is not None:
            _collate_nothing()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> Any:
        found = self.rows[row]
        if isinstance(found, Mapping):
            return {**found, "sample_ids": row}
        if self.at is None:
            return (*found, row)
        if len(found) > self.at:
            raise ValueError(
                f"at: got {self.at}, but rows have {len(found)} parts already; expected {len(found)} or more"
            )
        return (*found, *[_NOTHING] * (self.at - len(found)), row)


class _Nothing:
    """In a batch it is None, which PyTorch refuses in rows."""


_NOTHING = _Nothing()


def _collate_nothing() -> None:
    """PyTorch's DataLoader then makes None of parts that are nothing in every row."""
    from torch.utils.data._utils.collate import default_collate_fn_map  # noqa: PLC0415

    default_collate_fn_map[_Nothing] = lambda batch, *, collate_fn_map=None: None


def cem(
    batch: Sequence[Any],
    outputs: Sequence[Any],
    *,
    embedding_size: int | None = None,
    logits: bool = False,
    hard: bool = False,
    head: Call | None = None,
    missing_concept_labels: bool = False,
) -> dict[str, Any]:
    """Concept embedding models and the bottleneck models of their repository: `_forward` of its Lightning modules.

    Source: github.com/mateoespinosa/cem, cem/models/cem.py and cbm.py. `_forward` returns (c_sem [n, k], bottleneck,
    y logits), with `output_latent` or `output_embeddings` more. Batches are (x, y, c) or (x, [y, c]); uncertain concept
    labels count as present above 1/2.

    embedding_size: d, `emb_size` of a concept embedding model; None for a bottleneck model.
    logits: for a head that reads logits (`sigmoidal_prob=False`), which are then the activations, with
        activation_kind="logit".
    hard: for a bottleneck model with `bool=True`, whose head reads 0 and 1: with activation_kind="hard".
    head: `model.c2y_model`. That of a concept embedding model needs `output_latent` or `output_embeddings`.
    """
    if hard and (logits or embedding_size is not None):
        raise ValueError("hard: got a model of logits or embeddings, expected a bottleneck model with bool=True")
    nested = isinstance(batch[1], (list, tuple))
    (y, c), rest = (batch[1], batch[2:]) if nested else (batch[1:3], batch[3:])
    probabilities, bottleneck, task = outputs[:3]
    k = probabilities.shape[1]
    if hard:
        # Only the bottleneck has the values that an intervention policy set.
        bottleneck = (bottleneck > 0.5).to(probabilities)
        probabilities = bottleneck[:, :k]
    tensors = {
        "concept_activations": bottleneck[:, :k] if logits else probabilities,
        "concept_labels": _present(c, missing_concept_labels),
        **_task(y, task),
        **_ids(rest),
    }
    if embedding_size is None:
        return {**tensors, **_head(None if head is None else _Extended(head, bottleneck[:, k:]))}
    tensors["concept_embeddings"] = bottleneck.reshape(-1, k, embedding_size)
    both = next((extra[0] for extra in outputs[3:] if isinstance(extra, (list, tuple))), None)
    if both is not None:
        tensors["positive_embeddings"] = both[:, :, :embedding_size]
        tensors["negative_embeddings"] = both[:, :, embedding_size:]
    elif len(outputs) >= 5 and all(getattr(extra, "ndim", 0) == 3 for extra in outputs[-2:]):
        tensors["positive_embeddings"], tensors["negative_embeddings"] = outputs[-2:]
    if head is not None and "positive_embeddings" in tensors:
        tensors["head"] = embedding_head(head, tensors["positive_embeddings"], tensors["negative_embeddings"])
    return tensors


def torch_explain(
    batch: Sequence[Any], outputs: Sequence[Any], *, missing_concept_labels: bool = False
) -> dict[str, Any]:
    """Models made of `torch_explain.nn.ConceptEmbedding` and a task predictor.

    Source: torch-explain 1.5.1, torch_explain/nn/concepts.py. `outputs` are what ConceptEmbedding returns, and the
    predictor's logits if there are any. Batches are (x, c, y); y may be one-hot.
    """
    _, c, y, *rest = batch
    embeddings, probabilities, *task = outputs
    return {
        "concept_activations": probabilities,
        "concept_labels": _present(c, missing_concept_labels),
        "concept_embeddings": embeddings,
        **_task(y, task[0] if task else None),
        **_ids(rest),
    }


def scbm(
    batch: Mapping[str, Any], outputs: Sequence[Any], *, head: Call | None = None, missing_concept_labels: bool = False
) -> dict[str, Any]:
    """Stochastic concept bottleneck models, whose concepts are Monte-Carlo samples.

    Source: github.com/mvandenhi/SCBM, models/models.py (class SCBM) and utils/training.py. Batches are {"features",
    "concepts" [n, k], "labels" [n]}. The sidecar averages the samples, as their own metrics do.

    head: `model.head`, which then gets these averages.
    """
    return {
        "concept_activations": outputs[0],
        "concept_labels": _present(batch["concepts"], missing_concept_labels),
        **_task(batch["labels"], outputs[-1]),
        **_ids(batch),
        **_head(head),
    }


def label_free_cbm(batch: Sequence[Any], outputs: Sequence[Any]) -> dict[str, Any]:
    """Label-free concept bottleneck models: activation_kind="continuous", and only scores that need no concept labels.

    Source: github.com/Trustworthy-ML-Lab/Label-free-CBM, cbm.py (class CBM_model). Batches are (images, labels [n]).
    The projections also serve as embeddings of size 1, so that `embedding_ct` is what each concept reveals about the
    task: compare it along a run, not between concept sets. State head_weights=model.final.weight for the scores of
    active concepts.
    """
    _, y, *rest = batch
    task, projections = outputs
    return {
        "concept_activations": projections,
        "concept_embeddings": projections[:, :, None],
        **_task(y, task),
        **_ids(rest),
    }


def pytorch_concepts(
    batch: Mapping[str, Any],
    outputs: Any,
    *,
    annotations: Any,
    task: str | Sequence[str],
    head: Call | None = None,
    missing_concept_labels: bool = False,
) -> dict[str, Any]:
    """Models of PyTorch Concepts (PyC), with activation_kind="logit" and concepts=pytorch_concepts_of(…).

    Source: pytorch-concepts 1.0.0a7, torch_concepts/nn/modules/outputs.py and tensor.py. `outputs` have `logits` by
    variable, and `loc` or `value` of continuous ones; those of older versions are one tensor, in the order of the
    annotations. Batches are {"inputs": …, "concepts": {"c": [n, variables]}}. Predictions and labels of continuous
    variables have the same unit: undo any scaling.

    annotations: of the data, with `labels`, `cardinalities` and `types`. task: the variable that is the task, or a list
    of those that are, in the order of the `tasks` of `init`; all others are concepts. head: from the columns of these
    concepts, in the order of the annotations and with one column for two classes, to the task.
    """
    labels, widths = list(annotations.labels), list(annotations.cardinalities)
    tasks = _tasks_of(annotations, task)
    c = _plain(batch["concepts"]["c"])
    by_name = hasattr(outputs, "logits")
    starts = [sum(widths[:index]) for index in range(len(widths))]
    numbers = _numbers_of(annotations)

    def columns(index: int) -> Any:
        if not by_name:
            return _plain(outputs[:, starts[index] : starts[index] + widths[index]])
        found = outputs.logits
        if index in numbers:
            # A normal distribution, and a point.
            found = next(found for name in ("loc", "value") if (found := getattr(outputs, name, None)) is not None)
        return _plain(found[labels[index]])

    concepts = [index for index in range(len(labels)) if index not in tasks]
    return {
        "concept_activations": _side_by_side([columns(index) for index in concepts]),
        "concept_labels": _mixed(c, concepts, numbers, missing_concept_labels),
        **_of_tasks(c, tasks, [columns(index) for index in tasks], numbers),
        **_ids(batch),
        **_head(head),
    }


def pytorch_concepts_of(annotations: Any, task: str | Sequence[str]) -> list[Concept]:
    """The concepts for `conceptwatch.init`: all variables of the annotations except the task, or a list of tasks."""
    numbers, tasks = _numbers_of(annotations), _tasks_of(annotations, task)

    def concept(index: int, name: str, classes: int) -> Concept:
        return Continuous(name) if index in numbers else (name, classes if classes > 2 else 0)

    variables = enumerate(zip(annotations.labels, annotations.cardinalities, strict=True))
    return [concept(index, str(name), int(classes)) for index, (name, classes) in variables if index not in tasks]


def _tasks_of(annotations: Any, task: str | Sequence[str]) -> list[int]:
    """The variables of PyC's annotations that are tasks."""
    labels, tasks = list(annotations.labels), [task] if isinstance(task, str) else list(task)
    unknown = next((name for name in tasks if name not in labels), None)
    if unknown is not None or not tasks:
        raise ValueError(f"task: got {unknown or tasks!r}, expected one or more of {', '.join(labels)}")
    return [labels.index(name) for name in tasks]


def _side_by_side(parts: Sequence[Any]) -> Any:
    """The columns of variables; with two classes, the difference of their logits is the logit of a binary one."""
    of_two = [part[:, 1:] - part[:, :1] if part.shape[1] == 2 else part for part in parts]
    return sys.modules["torch"].cat(of_two, 1)


def _of_tasks(c: Any, tasks: Sequence[int], parts: Sequence[Any], numbers: set[int]) -> dict[str, Any]:
    """Labels and outputs of PyC's tasks; of one task without a column of its own."""
    y = _mixed(c, tasks, numbers, missing=True)
    outputs = "task_predictions" if numbers.issuperset(tasks) else "task_logits"
    if len(tasks) > 1:
        return {"task_labels": y, outputs: _side_by_side(parts)}
    return {"task_labels": y[:, 0], outputs: parts[0][:, 0]} if tasks[0] in numbers else _task(y[:, 0], parts[0])


def _numbers_of(annotations: Any) -> set[int]:
    """The continuous variables of PyC's annotations; older ones have no types."""
    types = getattr(annotations, "types", None) or ()
    return {index for index, kind in enumerate(types) if kind == "continuous"}


def _mixed(c: Any, variables: Sequence[int], numbers: set[int], missing: bool) -> Any:
    """The labels of these variables: class numbers, and numbers as they are."""
    classes = _classes(c[:, [index for index in variables if index not in numbers]], missing)
    if not numbers.intersection(variables):
        return classes
    of_classes = iter(classes.to(c.dtype).unbind(1))
    torch = sys.modules["torch"]
    return torch.stack([c[:, index] if index in numbers else next(of_classes) for index in variables], 1)


def _present(c: Any, missing: bool) -> Any:
    """Whether each concept is present: above 1/2. With `missing`, 0 and 1, and -1 where it is negative or NaN."""
    present = c > 0.5
    return present * 1 - _unknown(c) * 1 if missing else present


def _classes(c: Any, missing: bool) -> Any:
    """Class numbers. With `missing`, -1 where one is negative or NaN."""
    if not missing:
        return c.long()
    return sys.modules["torch"].where(_unknown(c), -1, c.nan_to_num().long())


def _unknown(c: Any) -> Any:
    return ~(c >= 0)  # NaN is not, either


def _task(y: Any, outputs: Any) -> dict[str, Any]:
    """Labels as class numbers, with the logits of the classes, or the prediction from a single logit."""
    if y.ndim == 2:
        y = y.argmax(1) if y.shape[1] > 1 else y[:, 0]
    tensors = {"task_labels": y.long() if hasattr(y, "long") else y.astype("int64")}
    if outputs is not None:
        if outputs.ndim == 2 and outputs.shape[1] > 1:
            tensors["task_logits"] = outputs
        else:
            tensors["task_predictions"] = outputs.reshape(-1) > 0
    return tensors


class _Extended(Wrapped):
    """A head that reads more dimensions than the concepts, which keep the values of the batch."""

    def __init__(self, head: Call, extra: Any) -> None:
        self.head, self.extra = head, extra

    def __call__(self, concepts: Any) -> Any:
        return self.head(sys.modules["torch"].cat([concepts, self.extra.to(concepts)], 1))


def _head(head: Call | None) -> dict[str, Any]:
    return {} if head is None else {"head": head}


def _ids(found: Any) -> dict[str, Any]:
    """The row numbers that `Numbered` added, if any."""
    if isinstance(found, Mapping):
        return {"sample_ids": found["sample_ids"]} if "sample_ids" in found else {}
    # Libraries may have parts of their own before it, such as competencies [n, k].
    last = found[-1] if len(found) else None
    return {"sample_ids": last} if getattr(last, "ndim", 0) == 1 else {}


def _plain(tensor: Any) -> Any:
    """The plain tensor inside an annotated one."""
    return getattr(tensor, "tensor", tensor)
