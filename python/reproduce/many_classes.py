"""Data sets of more classes than TabularToy has: handwritten digits, and drawn shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]

IMAGE = 32


@dataclass(frozen=True)
class Rows:
    """Inputs x [n, d] or images [n, channels, 32, 32], concepts c [n, k] in {0, 1}, classes y [n]."""

    x: Floats
    c: Floats
    y: Labels

    def part(self, rows: slice) -> Rows:
        return Rows(self.x[rows], self.c[rows], self.y[rows])


@dataclass(frozen=True)
class Split:
    train: Rows
    val: Rows
    classes: int


def split(rows: Rows, training: int) -> Split:
    return Split(rows.part(slice(training)), rows.part(slice(training, None)), int(rows.y.max()) + 1)


# Digits that have the property.
PROPERTIES = {
    "loop": {0, 6, 8, 9},
    "straight": {1, 4, 7},
    "prime": {2, 3, 5, 7},
    "symmetric": {0, 1, 8},
    "even": {0, 2, 4, 6, 8},
    "triple": {0, 3, 6, 9},
    "high": {5, 6, 7, 8, 9},
}
# These four do not determine the digit; all seven do.
INCOMPLETE = ("loop", "straight", "prime", "symmetric")


def digits(random: np.random.Generator, names: tuple[str, ...]) -> Split:
    """The handwritten digits of scikit-learn, ten classes, in random order."""
    images, digit = load_digits(return_X_y=True)
    order = random.permutation(len(digit))
    images, digit = images[order] / 16.0, digit[order]
    c = np.stack([np.isin(digit, list(PROPERTIES[name])) for name in names], axis=1)
    return split(Rows(images.astype(np.float32), c.astype(np.float32), digit.astype(np.int64)), 1000)


def _grid() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    at = (np.arange(IMAGE) + 0.5) / IMAGE * 2 - 1
    return at[None, None, :], at[None, :, None]


def _shape(kind: Labels, u: NDArray[np.float64], v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Signed measure, negative inside, of a square, an ellipse or a heart of radius about 1 at (u, v) [n, 32, 32]."""
    square = np.maximum(np.abs(u), np.abs(v)) - 0.8
    ellipse = np.sqrt(u**2 + (v / 0.6) ** 2) - 1
    heart = np.sqrt(u**2 + (v + 0.3 - 0.8 * np.sqrt(np.abs(u) + 1e-9)) ** 2) - 0.85
    return np.choose(kind[:, None, None], [square, ellipse, heart])


def sprites(random: np.random.Generator) -> Split:
    """White shapes as in dSprites. Concepts: ellipse, heart, large, right, lower; the task is the shape and its quarter
    of the image, twelve classes. Size is a concept that the task does not need."""
    n = 6000
    kind = random.integers(0, 3, n)
    scale, angle = random.uniform(0.3, 0.6, n), random.uniform(-0.4, 0.4, n)
    across, down = random.uniform(-0.4, 0.4, (2, n))
    column, row = _grid()
    dx, dy = column - across[:, None, None], row - down[:, None, None]
    cos, sin = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
    size = scale[:, None, None]
    signed = _shape(kind, (cos * dx + sin * dy) / size, (cos * dy - sin * dx) / size)
    x = np.clip(0.5 - signed * size * IMAGE / 2, 0, 1) + 0.05 * random.standard_normal((n, IMAGE, IMAGE))
    c = np.stack([kind == 1, kind == 2, scale > 0.45, across > 0, down > 0], axis=1)
    y = kind * 4 + 2 * (across > 0) + (down > 0)
    return split(Rows(x[:, None].astype(np.float32), c.astype(np.float32), y.astype(np.int64)), 4000)


DRAW: dict[str, Callable[[np.random.Generator], Split]] = {
    "digits-10-complete": lambda random: digits(random, tuple(PROPERTIES)),
    "digits-10-incomplete": lambda random: digits(random, INCOMPLETE),
    "sprites": sprites,
}
