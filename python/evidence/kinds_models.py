"""Small concept models of the kinds of data, how each is trained, and what its evaluations find without the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from kinds_data import IGNORED, Data, Flags, Rows, drawn
from models import PERCENTILES
from numpy.typing import NDArray
from scipy.stats import rankdata
from tasks import Floats, Labels
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, leaky_relu, mse_loss, one_hot

EMBEDDING = 8
HIDDEN = 64
BATCH = 64
RATE = 2e-3
# The concept weight of late leaks, the first epoch without it, and by what the rate is multiplied then: at the low rate
# of a model that has converged, little changes in thirty epochs.
BEFORE, LATE, FASTER = 10.0, 31, 3.0
# Flat curves: epochs with the full rate, and by what it is multiplied in each epoch after these.
FULL_RATE, DECAY = 10, 0.6


class Series(nn.Sequential):
    """Series [n, channels, length] to features."""

    def __init__(self, channels: int) -> None:
        layers: list[nn.Module] = [nn.Conv1d(channels, 16, 7, stride=2, padding=3), nn.ReLU()]
        layers += [nn.Conv1d(16, 32, 5, stride=2, padding=2), nn.ReLU(), nn.Conv1d(32, 32, 3, stride=2, padding=1)]
        super().__init__(*layers, nn.ReLU(), nn.Flatten(), nn.LazyLinear(HIDDEN), nn.ReLU())


def _features(shape: tuple[int, ...]) -> nn.Module:
    if len(shape) == 2:
        return Series(shape[0])
    return nn.Sequential(nn.Linear(shape[0], HIDDEN), nn.LeakyReLU(), nn.Linear(HIDDEN, HIDDEN), nn.LeakyReLU())


class Model(nn.Module):
    """x to concept logits [n, K] to a head, which sees what `encoding` makes of them.

    A binary concept and a quantity have one column, other concepts one for each value. encoding: "soft" (quantities as
    they are), "logit", "embedding" (of binary concepts), or "quantity". Several tasks have one output each.
    """

    low: Tensor
    high: Tensor

    def __init__(self, data: Data, encoding: str, linear: bool) -> None:
        super().__init__()
        self.encoding, self.values = encoding, data.values
        self.widths = [m if m > 2 else 1 for m in data.values]
        columns = sum(self.widths)
        self.features = _features(data.train.x.shape[1:])
        self.concepts = nn.Linear(HIDDEN, columns)
        self.is_embedding = encoding == "embedding"
        if self.is_embedding:
            self.vectors = nn.Linear(HIDDEN, columns * 2 * EMBEDDING)
            self.concepts = nn.Linear(2 * EMBEDDING, 1)
        inputs = columns * EMBEDDING if self.is_embedding else columns
        hidden = [] if linear else [nn.Linear(inputs, 32), nn.ReLU()]
        outputs = data.classes[0] if len(data.classes) == 1 else len(data.classes)
        self.head = nn.Sequential(*hidden, nn.Linear(inputs if linear else 32, outputs))
        # An absent concept is set to the first, a present one to the second.
        self.register_buffer("low", torch.zeros(columns))
        self.register_buffer("high", torch.ones(columns))

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Concept logits, and the positive and negative embeddings [n, k, d] of a model that has them."""
        features = self.features(x)
        if not self.is_embedding:
            return self.concepts(features), None, None
        vectors = leaky_relu(self.vectors(features)).unflatten(1, (-1, 2 * EMBEDDING))
        return self.concepts(vectors).squeeze(2), vectors[:, :, :EMBEDDING], vectors[:, :, EMBEDDING:]

    def activations(self, logits: Tensor) -> Tensor:
        if self.encoding in ("logit", "quantity"):
            return logits
        by_values: dict[int, Callable[[Tensor], Tensor]] = {1: lambda part: part, 2: torch.sigmoid}
        parts = zip(logits.split(self.widths, dim=1), self.values, strict=True)
        return torch.cat([by_values.get(m, lambda part: part.softmax(1))(part) for part, m in parts], dim=1)

    def set_to(self, c: Tensor) -> Tensor:
        """The head's inputs [n, K] for these values of the concepts."""
        parts = [
            c[:, [place]] if m <= 2 else one_hot(c[:, place].long(), m).float() for place, m in enumerate(self.values)
        ]
        values = torch.cat(parts, dim=1)
        is_number = torch.tensor([m == 1 for m in self.values]).repeat_interleave(torch.tensor(self.widths))
        return torch.where(is_number, values, torch.where(values > 0.5, self.high, self.low))

    def task(self, activations: Tensor, positive: Tensor | None, negative: Tensor | None) -> Tensor:
        if positive is None or negative is None:
            return self.head(activations)
        share = activations.unsqueeze(2)
        return self.head((share * positive + (1 - share) * negative).flatten(1))

    def concept_loss(self, logits: Tensor, c: Tensor) -> Tensor:
        if self.encoding == "quantity":
            return mse_loss(logits, c)
        losses = []
        for place, part in enumerate(logits.split(self.widths, dim=1)):
            known = ~c[:, place].isnan()
            found, true = part[known], c[known, place]
            if self.values[place] == 1:
                losses.append(mse_loss(found[:, 0], true))
            elif found.shape[1] == 1:
                losses.append(binary_cross_entropy_with_logits(found[:, 0], true))
            else:
                losses.append(cross_entropy(found, true.long()))
        return torch.stack(losses).mean()

    @torch.no_grad()
    def note(self, x: Tensor) -> None:
        """Takes the ends of logits that are set from those of training rows."""
        if self.encoding == "logit":
            self.low, self.high = torch.quantile(self.encode(x[:2000])[0], PERCENTILES, dim=0)


@dataclass(frozen=True)
class Found:
    """An evaluation: what is logged, and the numbers that runs are told apart by.

    task: balanced accuracy, or R² of at least 0; of several tasks the mean. drop: what it loses where all concepts are
    set to their labels; clean_drop: to their true values, which differ where labels are wrong or unknown. Of several
    tasks that of the one that loses most. concepts: mean accuracy, or R² of quantities; auc: the mean over concepts of
    binary and other classes, NaN where there are only quantities.
    """

    model: Model
    activations: Tensor
    outputs: Tensor
    positive: Tensor | None
    negative: Tensor | None
    task: float
    drop: float
    clean_drop: float
    concepts: float
    auc: float


def balanced_accuracy(predictions: NDArray[np.int64], y: Labels | Floats) -> float:
    return float(np.mean([(predictions[y == one] == one).mean() for one in np.unique(y)]))


def r2(predictions: Floats, y: Labels | Floats) -> float:
    """At least 0: what a constant reaches."""
    true = y.astype(np.float64)
    return max(0.0, 1 - float(((true - predictions) ** 2).sum() / ((true - true.mean()) ** 2).sum()))


def auc(scores: Floats, present: Flags) -> float:
    positives, negatives = int(present.sum()), int((~present).sum())
    ranks = rankdata(scores)
    return float((ranks[present].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def _tasks(outputs: Tensor, y: Labels | Floats) -> NDArray[np.float64]:
    """For each task, over the rows in which it is known."""
    found = outputs.numpy()
    if y.ndim == 2:
        columns = [(found[true != IGNORED, at] > 0, true[true != IGNORED]) for at, true in enumerate(y.T)]
        return np.array([balanced_accuracy(column.astype(int), true) for column, true in columns])
    return np.array([r2(found[:, 0], y) if found.shape[1] == 1 else balanced_accuracy(found.argmax(1), y)])


def _concepts(model: Model, logits: Tensor, c: Floats) -> tuple[float, float]:
    accuracies, aucs = [], []
    for place, part in enumerate(logits.split(model.widths, dim=1)):
        known = ~np.isnan(c[:, place])
        found, true = part.numpy()[known], c[known, place]
        if model.values[place] == 1:
            accuracies.append(r2(found[:, 0], true))
            aucs.append(float("nan"))
        elif model.values[place] == 2:
            accuracies.append(float(((found[:, 0] > 0) == (true > 0.5)).mean()))
            aucs.append(auc(found[:, 0], true > 0.5))
        else:
            accuracies.append(float((found.argmax(1) == true).mean()))
            aucs.append(float(np.mean([auc(found[:, one], true == one) for one in range(found.shape[1])])))
    has_classes = any(m > 1 for m in model.values)
    return float(np.mean(accuracies)), float(np.nanmean(aucs)) if has_classes else float("nan")


@torch.no_grad()
def evaluate(model: Model, train_x: Tensor, held: Rows) -> Found:
    model.note(train_x)
    logits, positive, negative = model.encode(torch.from_numpy(held.x))
    activations = model.activations(logits)
    outputs = model.task(activations, positive, negative)
    tasks = _tasks(outputs, held.y)

    def drop(c: Floats) -> float:
        known = ~np.isnan(c)
        columns = torch.from_numpy(np.repeat(known, model.widths, axis=1))
        values = torch.where(columns, model.set_to(torch.from_numpy(np.where(known, c, 0))), activations)
        return float((tasks - _tasks(model.task(values, positive, negative), held.y)).max())

    concepts, concept_auc = _concepts(model, logits, held.c)
    drops = drop(held.c), drop(held.clean)
    return Found(model, activations, outputs, positive, negative, float(tasks.mean()), *drops, concepts, concept_auc)


def _task_loss(y: Tensor, classes: tuple[int, ...]) -> Callable[[Tensor, Tensor], Tensor]:
    if len(classes) > 1:
        return lambda outputs, of: binary_cross_entropy_with_logits(outputs[of != IGNORED], of[of != IGNORED].float())
    if classes == (1,):
        return lambda outputs, of: mse_loss(outputs[:, 0], of)
    counts = torch.bincount(y, minlength=classes[0]).float()
    # Without weights the rare class of one row in 24 would not be predicted.
    weight = len(y) / (classes[0] * counts) if counts.min() < 0.1 * counts.max() else None
    return lambda outputs, of: cross_entropy(outputs, of, weight=weight)


def trained(of: dict[str, Any]) -> tuple[Data, Iterator[Found]]:
    """The data of a run, and its evaluation after each epoch."""
    data = drawn(of["data"], of["seed"], of["hidden"])
    return data, _epochs(of, data)


def _epochs(of: dict[str, Any], data: Data) -> Iterator[Found]:
    torch.set_num_threads(1)
    torch.manual_seed(of["seed"])
    x, c, y = (torch.from_numpy(part) for part in (data.train.x, data.train.c, data.train.y))
    model = Model(data, of["encoding"], of["linear"])
    model.encode(x[:2])
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    task_loss = _task_loss(y, data.classes)
    for epoch in range(1, of["epochs"] + 1):
        weight = 0.0 if of["schedule"] == "late" and epoch >= LATE else of["weight"]
        if of["schedule"] == "late" and of["hidden"] and epoch == LATE:
            optimiser.param_groups[0]["lr"] *= FASTER
        if of["schedule"] == "flat" and epoch > FULL_RATE:
            optimiser.param_groups[0]["lr"] *= DECAY
        for rows in torch.randperm(len(y)).split(BATCH):
            logits, positive, negative = model.encode(x[rows])
            seen = model.activations(logits)
            if of["training"] == "sequential":
                seen = seen.detach()
            elif of["training"] == "independent":
                seen = model.set_to(c[rows])
            if model.is_embedding:
                seen = torch.where(torch.rand_like(seen) < of["intervened"], c[rows], seen)
            loss = task_loss(model.task(seen, positive, negative), y[rows])
            loss = loss + weight * model.concept_loss(logits, c[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        yield evaluate(model, x, data.val)
