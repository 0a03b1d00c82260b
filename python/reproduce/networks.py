"""The models of "Leakage and Interpretability in Concept-Based Models" (arXiv:2504.14094), for any encoder and head.

A.2 of the paper and the released code describe different encoders for TabularToy; `toy_encoder` has both.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

import conceptwatch

Call = Callable[[Tensor], Tensor]

EMBEDDING = 16
# Values that stand for an absent and a present concept in a logit model: percentiles of its training logits.
PERCENTILES = (0.05, 0.95)


@dataclass
class Output:
    """Concept logits [n, k], the concepts as the head receives them [n, k], task logits [n, l], a CEM's embeddings."""

    concept_logits: Tensor
    activations: Tensor
    task_logits: Tensor
    positive: Tensor | None = None
    negative: Tensor | None = None

    def mixed(self) -> Tensor | None:
        if self.positive is None or self.negative is None:
            return None
        return mix(self.activations, self.positive, self.negative)


def mix(p: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    return p.unsqueeze(2) * positive + (1 - p).unsqueeze(2) * negative


class BottleneckModel(nn.Module):
    """x to k concept logits to a head, which receives probabilities (soft), logits (logit) or 0 and 1 (hard)."""

    absent: Tensor
    present: Tensor

    def __init__(self, kind: str, encoder: nn.Module, head: nn.Module, concepts: int) -> None:
        super().__init__()
        self.kind, self.encoder, self.head = kind, encoder, head
        # What the head receives for an absent and a present concept when an expert sets it.
        self.register_buffer("absent", torch.zeros(concepts))
        self.register_buffer("present", torch.ones(concepts))

    def forward(self, x: Tensor, c: Tensor | None = None, intervened: Tensor | None = None) -> Output:
        logits = self.encoder(x)
        if self.kind == "logit":
            activations = logits
        else:
            activations = torch.sigmoid(logits) if self.kind == "soft" else (logits > 0).float()
        return Output(logits, activations, self.head(activations))

    def of_concepts(self, output: Output) -> Call:
        """The task as a function of the concepts, for the rows of an output."""
        return self.head

    @torch.no_grad()
    def note_training_logits(self, x: Tensor) -> None:
        if self.kind == "logit":
            found = torch.quantile(self.encoder(x), torch.tensor(PERCENTILES), dim=0)
            self.absent.copy_(found[0])
            self.present.copy_(found[1])


class EmbeddingModel(nn.Module):
    """A concept embedding model: each concept has two vectors, and the head sees them mixed by its probability."""

    def __init__(self, encoder: nn.Module, width: int, concepts: int, classes: int) -> None:
        super().__init__()
        self.kind, self.concepts = "cem", concepts
        self.absent, self.present = 0.0, 1.0
        self.encoder = encoder
        self.vectors = nn.Linear(width, concepts * 2 * EMBEDDING)
        self.scoring = nn.Linear(2 * EMBEDDING, 1)
        self.head = nn.Linear(concepts * EMBEDDING, classes)

    def forward(self, x: Tensor, c: Tensor | None = None, intervened: Tensor | None = None) -> Output:
        vectors = leaky_relu(self.vectors(self.encoder(x))).unflatten(1, (self.concepts, 2 * EMBEDDING))
        logits = self.scoring(vectors).squeeze(2)
        probabilities = torch.sigmoid(logits)
        positive, negative = vectors[:, :, :EMBEDDING], vectors[:, :, EMBEDDING:]
        used = probabilities if intervened is None or c is None else torch.where(intervened, c, probabilities)
        return Output(logits, probabilities, self.head(mix(used, positive, negative).flatten(1)), positive, negative)

    def of_concepts(self, output: Output) -> Call:
        return conceptwatch.embedding_head(self.head, output.positive, output.negative)

    def note_training_logits(self, x: Tensor) -> None:
        pass


def toy_encoder(concepts: int, released: bool) -> nn.Module:
    """The encoder of A.2, or that of the released code: one layer more, layer norms, and a leaky ReLU and dropout on
    the concept logits.
    """
    if not released:
        return nn.Sequential(*hidden_layers(), nn.Linear(64, concepts))
    layers: list[nn.Module] = []
    for inputs in (7, 64, 64):
        layers += [nn.Linear(inputs, 64), nn.LayerNorm(64), nn.LeakyReLU()]
    return nn.Sequential(*layers, nn.Linear(64, concepts), nn.LeakyReLU(), nn.Dropout(0.2))


def encoder_for(shape: tuple[int, ...], concepts: int) -> nn.Module:
    """For vectors two hidden layers; for images [channels, 32, 32] three convolutions and a hidden layer."""
    if len(shape) == 1:
        layers = [nn.Linear(shape[0], 64), nn.LeakyReLU(), nn.Linear(64, 64), nn.LeakyReLU()]
        return nn.Sequential(*layers, nn.Linear(64, concepts))
    convolutions: list[nn.Module] = []
    for before, after in itertools.pairwise((shape[0], 16, 32, 32)):
        convolutions += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.ReLU()]
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, concepts))


def hidden_layers() -> list[nn.Module]:
    return [nn.Linear(7, 64), nn.LeakyReLU(), nn.Linear(64, 64), nn.LeakyReLU()]
