"""The data sets that the default rules are tried on: concepts and a task, drawn by these programs or bundled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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


def tabular_toy(random: np.random.Generator, delta: float) -> Split:
    """TabularToy of arXiv:2504.14094, A.1: three correlated Gaussians, their signs, and the majority of the signs."""
    covariance = np.full((3, 3), delta) + (1 - delta) * np.eye(3)
    z = random.standard_normal((9000, 3)) @ np.linalg.cholesky(covariance).T
    waves = np.stack([np.sin(z) + z, np.cos(z) + z], axis=2).reshape(len(z), 6)
    x = np.concatenate([waves, (z**2).sum(1, keepdims=True)], axis=1)
    c = z > 0
    return split(Rows(x.astype(np.float32), c.astype(np.float32), (c.sum(1) >= 2).astype(np.int64)), 7000)


# Digits that have the property.
PROPERTIES = {
    "loop": {0, 6, 8, 9},
    "straight": {1, 4, 7},
    "prime": {2, 3, 5, 7},
    "symmetric": {0, 1, 8},
    "even": {0, 2, 4, 6, 8},
    "triple": {0, 3, 6, 9},
    "high": {5, 6, 7, 8, 9},
    "square": {0, 1, 4, 9},
}
INCOMPLETE = ("loop", "straight", "prime", "symmetric")


def digits(random: np.random.Generator, classes: int, concepts: int) -> Split:
    """The handwritten digits of scikit-learn. The task is the digit, or whether it is 5 or more; seven properties of
    the digit determine it, four do not."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 (only this data set needs it)

    images, digit = load_digits(return_X_y=True)
    order = random.permutation(len(digit))
    images, digit = images[order] / 16.0, digit[order]
    names = INCOMPLETE if concepts == 4 else (*INCOMPLETE, "even", "triple", "high" if classes == 10 else "square")
    c = np.stack([np.isin(digit, list(PROPERTIES[name])) for name in names], axis=1)
    y = digit if classes == 10 else digit >= 5
    return split(Rows(images.astype(np.float32), c.astype(np.float32), y.astype(np.int64)), 1000)


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


def _colour(hue: NDArray[np.float64]) -> NDArray[np.float64]:
    """RGB [n, 3] of a hue in [0, 1)."""
    return 0.5 + 0.5 * np.cos(2 * np.pi * (hue[:, None] - np.array([0, 1 / 3, 2 / 3])))


def rooms(random: np.random.Generator) -> Split:
    """An object before a wall, as in 3dshapes. Concepts: floor, wall and object warm, round, large, left; the task is
    the object's colour, form and size, eight classes."""
    n = 6000
    floor, wall, thing = random.uniform(0, 1, (3, n))
    kind, scale = random.integers(0, 2, n), random.uniform(0.25, 0.6, n)
    across = random.uniform(-0.4, 0.4, n)
    column, row = _grid()
    size = scale[:, None, None]
    signed = _shape(kind, (column - across[:, None, None]) / size, (row - 0.3) / size)
    inside = np.clip(0.5 - signed * size * IMAGE / 2, 0, 1)[:, None]
    horizon = np.broadcast_to((row > 0.1)[:, None], (n, 1, IMAGE, IMAGE))
    paint = [_colour(hue)[:, :, None, None] for hue in (floor, wall, thing)]
    x = inside * paint[2] + (1 - inside) * np.where(horizon, paint[0], paint[1])
    x = x * random.uniform(0.7, 1, (n, 1, 1, 1)) + 0.05 * random.standard_normal(x.shape)
    warm = [np.abs(hue - 0.5) > 0.25 for hue in (floor, wall, thing)]
    c = np.stack([*warm, kind == 1, scale > 0.425, across < 0], axis=1)
    y = 4 * warm[2] + 2 * (kind == 1) + (scale > 0.425)
    return split(Rows(x.astype(np.float32), c.astype(np.float32), y.astype(np.int64)), 4000)


def birds(random: np.random.Generator) -> Split:
    """The shape of CUB: 200 classes, 112 correlated concepts that are properties of the class, 5,994 rows for
    training and 5,794 for evaluation. The inputs stand for features of a frozen network: sixteen latent variables of
    the bird, which are those of its class and a part of its own, and noise."""
    classes, latent, concepts, features, training, held = 200, 16, 112, 128, 5994, 5794
    z = random.standard_normal((classes, latent))
    raw = z @ random.standard_normal((latent, concepts)) / 4 + 0.3 * random.standard_normal((classes, concepts))
    # A concept is present in 15 to 50 of 100 classes.
    cut = np.quantile(raw, random.uniform(0.5, 0.85, concepts), axis=0).diagonal()
    of_class = raw > cut
    y = np.concatenate([random.permutation(np.arange(rows) % classes) for rows in (training, held)])
    bird = z[y] + 0.45 * random.standard_normal((len(y), latent))
    x = np.tanh(bird @ random.standard_normal((latent, features)) / 3)
    x += 0.3 * random.standard_normal(x.shape)
    return split(Rows(x.astype(np.float32), of_class[y].astype(np.float32), y.astype(np.int64)), training)


def blurred(random: np.random.Generator, split: Split, noise: float) -> Split:
    """The same with noise on the inputs, so that no model knows its concepts well."""

    def blur(rows: Rows) -> Rows:
        return Rows(rows.x + np.float32(noise) * random.standard_normal(rows.x.shape, dtype=np.float32), rows.c, rows.y)

    return Split(blur(split.train), blur(split.val), split.classes)


# The position of a data set seeds it.
DRAW: dict[str, Callable[[np.random.Generator], Split]] = {
    "birds": birds,
    "digits-10-complete": lambda random: digits(random, 10, 7),
    "digits-10-incomplete": lambda random: digits(random, 10, 4),
    "digits-2-complete": lambda random: digits(random, 2, 7),
    "digits-2-incomplete": lambda random: digits(random, 2, 4),
    "rooms": rooms,
    "sprites": sprites,
    "tabular-0.25": lambda random: tabular_toy(random, 0.25),
    "tabular-0.75": lambda random: tabular_toy(random, 0.75),
    "digits-10-blurred": lambda random: blurred(random, digits(random, 10, 7), 0.3),
    "tabular-blurred": lambda random: blurred(random, tabular_toy(random, 0.25), 1.0),
    "tabular-hidden": lambda random: blurred(random, tabular_toy(random, 0.25), 3.0),
}
