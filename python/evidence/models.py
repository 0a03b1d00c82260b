"""Concept bottleneck models, trained jointly, and what each epoch's evaluation saw."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tasks import DRAW, Rows, Split
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

# Shares of the concepts that are set in the intervention curve, at most.
STEPS = 5
# The head's input for an absent and a present concept of a logit bottleneck: percentiles of the training logits
# (arXiv:2106.13314, and P0 there).
PERCENTILES = torch.tensor([0.05, 0.95])


@dataclass(frozen=True)
class Recipe:
    epochs: int
    batch: int
    rate: float


RECIPES = {
    "tabular": Recipe(epochs=20, batch=128, rate=1e-3),
    "digits": Recipe(epochs=24, batch=32, rate=1e-3),
    "sprites": Recipe(epochs=15, batch=64, rate=3e-3),
    "rooms": Recipe(epochs=15, batch=64, rate=3e-3),
    "birds": Recipe(epochs=12, batch=64, rate=2e-3),
}


def encoder(shape: tuple[int, ...], concepts: int) -> nn.Module:
    if len(shape) == 1:
        hidden = 64 if shape[0] <= 64 else 128
        layers = [nn.Linear(shape[0], hidden), nn.LeakyReLU(), nn.Linear(hidden, hidden), nn.LeakyReLU()]
        return nn.Sequential(*layers, nn.Linear(hidden, concepts))
    channels = [shape[0], 16, 32, 32]
    layers = []
    for before, after in itertools.pairwise(channels):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, concepts))


class Model(nn.Module):
    """x to concept logits to a head, which sees probabilities (soft) or the logits themselves (logit)."""

    def __init__(self, shape: tuple[int, ...], concepts: int, classes: int, encoding: str, linear: bool) -> None:
        super().__init__()
        self.soft = encoding == "soft"
        self.encoder = encoder(shape, concepts)
        hidden = [] if linear else [nn.Linear(concepts, 32), nn.ReLU()]
        self.head = nn.Sequential(*hidden, nn.Linear(concepts if linear else 32, classes))

    def activations(self, logits: Tensor) -> Tensor:
        return torch.sigmoid(logits) if self.soft else logits


@dataclass(frozen=True)
class Evaluation:
    """Activations [n, k] as the head receives them, predictions [n], and predictions [n, steps] after a growing share
    of the concepts was set to true and to wrong values."""

    activations: NDArray[np.float32]
    predictions: NDArray[np.int32]
    intervened: NDArray[np.int32]
    wrong: NDArray[np.int32]
    loss: float
    concept_accuracy: float
    task_accuracy: float


def counts(concepts: int) -> NDArray[np.uint32]:
    """The numbers of concepts that are set along the intervention curve."""
    return np.unique(np.round(np.linspace(0, concepts, STEPS)).astype(np.uint32))


@torch.no_grad()
def evaluate(model: Model, train_x: Tensor, x: Tensor, c: Tensor, y: Tensor, weight: float) -> Evaluation:
    logits = torch.cat([model.encoder(part) for part in x.split(2048)])
    activations = model.activations(logits)
    task = model.head(activations)
    if model.soft:
        low, high = torch.zeros(c.shape[1]), torch.ones(c.shape[1])
    else:
        low, high = torch.quantile(model.encoder(train_x[:2000]), PERCENTILES, dim=0)
    # The same order at every epoch.
    rank = torch.rand(c.shape, generator=torch.Generator().manual_seed(0)).argsort(1).argsort(1)

    def predictions(truth: Tensor) -> NDArray[np.int32]:
        values = torch.where(truth > 0.5, high, low)
        set_to = [torch.where(rank < int(count), values, activations) for count in counts(c.shape[1])]
        return torch.stack([model.head(one).argmax(1) for one in set_to], dim=1).to(torch.int32).numpy()

    loss = cross_entropy(task, y) + weight * binary_cross_entropy_with_logits(logits, c)
    return Evaluation(
        activations=activations.to(torch.float32).numpy(),
        predictions=task.argmax(1).to(torch.int32).numpy(),
        intervened=predictions(c),
        wrong=predictions(1 - c),
        loss=loss.item(),
        concept_accuracy=((logits > 0) == (c > 0.5)).float().mean().item(),
        task_accuracy=(task.argmax(1) == y).float().mean().item(),
    )


def trained(of: dict[str, Any]) -> tuple[Split, Iterator[Evaluation]]:
    """The data of a run, and its evaluations: of the untrained model and after each epoch."""
    split = DRAW[of["data"]](np.random.default_rng([of["seed"], list(DRAW).index(of["data"])]))
    return split, _epochs(of, split)


def tensors(rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return torch.from_numpy(rows.x), torch.from_numpy(rows.c), torch.from_numpy(rows.y)


def _epochs(of: dict[str, Any], split: Split) -> Iterator[Evaluation]:
    torch.set_num_threads(1)
    torch.manual_seed(of["seed"])
    x, c, y = tensors(split.train)
    held = tensors(split.val)
    # Seven concepts determine whether a digit is high, but not linearly.
    linear = not of["data"].startswith("digits-2")
    model = Model(tuple(x.shape[1:]), c.shape[1], split.classes, of["encoding"], linear)
    # The bottleneck learns from the concepts alone.
    sequential = of["training"] == "sequential"
    recipe = RECIPES[of["data"].split("-")[0]]
    optimiser = torch.optim.Adam(model.parameters(), lr=recipe.rate)
    yield evaluate(model, x, *held, of["weight"])
    # A quarter of the steps between two evaluations.
    batch = recipe.batch * (4 if of["training"] == "slow" else 1)
    for _ in range(recipe.epochs):
        for rows in torch.randperm(len(y)).split(batch):
            logits = model.encoder(x[rows])
            activations = model.activations(logits)
            loss = cross_entropy(model.head(activations.detach() if sequential else activations), y[rows])
            loss = loss + of["weight"] * binary_cross_entropy_with_logits(logits, c[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        yield evaluate(model, x, *held, of["weight"])
