"""Kinds of data that no limit was chosen on: concepts and a task, drawn by this program.

The true concepts nearly determine each task. What they leave is noise, or a latent variable that the inputs show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from tasks import Floats, Labels

Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Share of concept labels that are wrong, of both the training and the evaluated rows.
FLIPPED = 0.2
# Share of labels that are unknown, and how such a label of a task is marked.
UNKNOWN, IGNORED = 1 / 3, -100


@dataclass(frozen=True)
class Rows:
    """Inputs x [n, d] or series [n, channels, length], concept labels c [n, k], the task y [n], or tasks [n, t].

    c: 0 and 1, class numbers, or measured quantities. clean: c without wrong or unknown labels. y: classes, or numbers.
    Unknown labels are NaN in c, and -100 in y.
    """

    x: Floats
    c: Floats
    y: Labels | Floats
    clean: Floats

    def part(self, rows: slice) -> Rows:
        return Rows(self.x[rows], self.c[rows], self.y[rows], self.clean[rows])


@dataclass(frozen=True)
class Data:
    """Rows for training and for evaluation, and what is declared of them.

    values: the number of values of each concept, 1 for a measured quantity. classes: of each task, 1 for a number; 2 of
    each of several.
    """

    train: Rows
    val: Rows
    values: tuple[int, ...]
    classes: tuple[int, ...]


def _data(x: Doubles, c: NDArray[np.generic], y: NDArray[np.generic], values: tuple[int, ...], training: int) -> Data:
    is_number = y.dtype.kind == "f"
    classes = (1,) if is_number else tuple(int(most) + 1 for most in np.atleast_1d(y.max(0)))
    rows = Rows(
        x=x.astype(np.float32),
        c=c.astype(np.float32),
        y=y.astype(np.float32) if is_number else y.astype(np.int64),
        clean=c.astype(np.float32),
    )
    return Data(rows.part(slice(training)), rows.part(slice(training, None)), values, classes)


def _binary(x: Doubles, c: Flags, y: NDArray[np.generic], training: int) -> Data:
    return _data(x, c, y, (2,) * c.shape[1], training)


def survey(random: np.random.Generator) -> Data:
    """Answers from 1 to 5 to 24 questions about six attitudes. Who holds an attitude is the concept; the task is the
    group, of three, by the number of attitudes held."""
    n = 3200
    attitude = random.standard_normal((n, 6)) @ np.linalg.cholesky(np.full((6, 6), 0.2) + 0.8 * np.eye(6)).T
    loading = np.repeat(np.eye(6), 4, axis=0) + 0.15 * random.standard_normal((24, 6))
    answers = np.clip(np.round(3 + attitude @ loading.T + 0.5 * random.standard_normal((n, 24))), 1, 5)
    c = attitude > np.array([-0.3, 0.0, 0.2, 0.0, 0.3, -0.2])
    held = c.sum(1)
    y = (held >= 2).astype(int) + (held >= 4)
    return _binary((answers - 3) / 1.3, c, y, 2200)


def documents(random: np.random.Generator) -> Data:
    """Counts of 300 words. The 24 concepts are themes that a document treats, each with words of its own; five topics,
    each the one whose themes the document treats most."""
    n, themes, words = 4000, 24, 300
    c = random.random((n, themes)) < random.uniform(0.12, 0.35, themes)
    rate = 0.15 * random.gamma(0.5, 1.0, (themes, words)) + 1.2 * (random.random((themes, words)) < 0.04)
    counts = random.poisson(0.1 + c @ rate)
    weights = random.standard_normal((themes, 5))
    score = (c - c.mean(0)) @ weights
    y = (score / score.std(0) + 0.1 * random.standard_normal((n, 5))).argmax(1)
    return _binary(np.log1p(counts), c, y, 2800)


def medical(random: np.random.Generator) -> Data:
    """Thirty measurements of a patient, seven findings, and a rare outcome: one patient in 24 has it."""
    n = 9000
    state = random.standard_normal((n, 7)) @ np.linalg.cholesky(np.full((7, 7), 0.15) + 0.85 * np.eye(7)).T
    x = np.tanh(state @ random.standard_normal((7, 30)) / 2) + 0.1 * random.standard_normal((n, 30))
    c = state > random.uniform(0.2, 0.8, 7)
    risk = c @ np.array([1.6, 1.4, 1.2, 1.0, 0.8, 0.6, 0.4]) + 0.15 * state[:, :3].sum(1)
    y = (risk > np.quantile(risk, 1 - 1 / 24)).astype(int)
    return _binary(x, c, y, 6000)


def series(random: np.random.Generator) -> Data:
    """Two sensors over 64 moments. Concepts: a trend upwards, an oscillation, a burst, a step, and a lag between the
    sensors; the task is one of four states of the machine."""
    n, length = 3200, 64
    at = np.linspace(0, 1, length)
    slope, swing, burst, step, lag = random.standard_normal((5, n))
    c = np.stack([slope > 0, swing > 0.2, burst > 0.3, step > 0, lag > 0], axis=1)
    phase = random.uniform(0, 2 * np.pi, n)[:, None]
    wave = np.exp(0.7 * swing)[:, None] * np.sin(2 * np.pi * 6 * at + phase)
    shifted = np.exp(0.7 * swing)[:, None] * np.sin(2 * np.pi * 6 * at + phase - np.pi / 2 * np.tanh(lag)[:, None])
    peak = random.uniform(0.2, 0.8, n)[:, None]
    bump = np.exp(burst)[:, None] * np.exp(-(((at - peak) / 0.03) ** 2))
    edge = 1.2 * step[:, None] * (at > random.uniform(0.3, 0.7, n)[:, None])
    base = 1.5 * slope[:, None] * (at - 0.5)
    x = np.stack([base + wave + bump, base + shifted + edge], axis=1) + 0.2 * random.standard_normal((n, 2, length))
    y = 2 * (c[:, 0].astype(int) + c[:, 1] + c[:, 4] >= 2) + (c[:, 2] | c[:, 3])
    return _binary(x, c, y, 2200)


def regression(random: np.random.Generator) -> Data:
    """A price from six properties of a thing, of which 5 % varies with how much of a property it has."""
    n = 3200
    z = random.standard_normal((n, 6))
    x = np.concatenate([np.sin(z) + z, np.cos(z) + z, z[:, :3] * z[:, 3:]], axis=1)
    c = z > random.uniform(-0.4, 0.4, 6)
    of = c @ np.array([1.0, -0.8, 0.7, 0.6, -0.5, 0.4])
    within = z @ np.array([0.3, -0.3, 0.2, 0.2, -0.2, 0.1])
    y = (of - of.mean()) / of.std() + 0.22 * within / within.std() + 0.1 * random.standard_normal(n)
    return _binary(x + 0.05 * random.standard_normal(x.shape), c, y, 2200)


def quantities(random: np.random.Generator) -> Data:
    """Five measured quantities behind twenty channels; four classes by two sums of them."""
    n = 3200
    z = random.standard_normal((n, 5))
    c = z + 0.3 * np.roll(z, 1, axis=1) ** 2
    c = (c - c.mean(0)) / c.std(0)
    x = np.tanh(z @ random.standard_normal((5, 20)) / 2) + 0.1 * random.standard_normal((n, 20))
    noise = 0.1 * random.standard_normal((2, n))
    y = 2 * (c[:, 0] + c[:, 1] - c[:, 2] + noise[0] > 0) + (c[:, 3] + c[:, 4] + noise[1] > 0)
    return _data(x, c, y, (1,) * 5, 2200)


def categories(random: np.random.Generator) -> Data:
    """Five attributes of 2 to 5 values each; five classes, each the one whose values it has most of."""
    n, values = 4000, (2, 3, 4, 5, 3)
    c = np.stack([random.integers(0, m, n) for m in values], axis=1)
    x = np.zeros((n, 40))
    score = np.zeros((n, 5))
    for place, m in enumerate(values):
        x += random.standard_normal((m, 40))[c[:, place]]
        score += random.standard_normal((m, 5))[c[:, place]]
    x = np.tanh(x / 2) + 0.45 * random.standard_normal((n, 40))
    y = (score - score.mean(0) + 0.1 * random.standard_normal((n, 5))).argmax(1)
    return _data(x, c, y, values, 2800)


def sparse(random: np.random.Generator) -> Data:
    """Fifty concepts, each present in 3 to 12 of 100 rows, behind 120 features; six classes."""
    n, k = 3600, 50
    c = random.random((n, k)) < random.uniform(0.03, 0.12, k)
    strength = c * random.uniform(0.7, 1.3, (n, k))
    x = np.tanh(strength @ random.standard_normal((k, 120))) + 0.25 * random.standard_normal((n, 120))
    score = c @ (1.5 * random.standard_normal((k, 6))) + 0.1 * random.standard_normal((n, 6))
    return _binary(x, c, score.argmax(1), 3000)


def mixed(random: np.random.Generator) -> Data:
    """Five signs of hidden Gaussians behind waves of them; whether most of them are positive."""
    n = 3400
    z = random.standard_normal((n, 5))
    x = np.concatenate([np.sin(2 * z) + z, np.cos(2 * z) + z, (z**2).sum(1, keepdims=True) / 5], axis=1)
    c = z > 0
    return _binary(x + 0.1 * random.standard_normal(x.shape), c, (c.sum(1) >= 3).astype(int), 2400)


def noisy(random: np.random.Generator) -> Data:
    """The same with wrong labels of the concepts. The task follows the right ones."""
    data = mixed(random)

    def flipped(rows: Rows) -> Rows:
        wrong = random.random(rows.c.shape) < FLIPPED
        return replace(rows, c=np.where(wrong, 1 - rows.c, rows.c).astype(np.float32))

    return replace(data, train=flipped(data.train), val=flipped(data.val))


def mixed_kinds(random: np.random.Generator) -> Data:
    """Two signs, attributes of 3 and 4 values and two measured quantities behind 40 features; three classes, each the
    one that these speak for most."""
    n, values = 3400, (2, 2, 3, 4, 1, 1)
    c = np.stack([random.integers(0, m, n) if m > 1 else random.standard_normal(n) for m in values], axis=1)
    x, score = np.zeros((n, 40)), np.zeros((n, 3))
    for m, column in zip(values, c.T, strict=True):
        for sums in (x, score):
            effect = random.standard_normal((m, sums.shape[1]))
            sums += effect[column.astype(int)] if m > 1 else column[:, None] * effect  # noqa: PLW2901, in place
    x = np.tanh(x / 2) + 0.3 * random.standard_normal(x.shape)
    y = (score - score.mean(0) + 0.1 * random.standard_normal(score.shape)).argmax(1)
    return _data(x, c, y, values, 2400)


def several_tasks(random: np.random.Generator) -> Data:
    """Eight signs of how strong hidden variables are, three diagnoses that two to four of them make likely, and another
    that also depends on how strong one is. Of the labels of signs and diagnoses a third is unknown."""
    n, k = 4500, 8
    z = random.standard_normal((n, k)) @ np.linalg.cholesky(np.full((k, k), 0.15) + 0.85 * np.eye(k)).T
    x = np.tanh(z @ random.standard_normal((k, 40)) / 2) + 0.2 * random.standard_normal((n, 40))
    c = z > random.uniform(-0.2, 0.6, k)
    weights = np.zeros((k, 4))
    for task, count in enumerate((2, 3, 4, 3)):
        weights[random.choice(k, count, replace=False), task] = random.uniform(0.8, 1.6, count)
    risk = (c - c.mean(0)) @ weights + 0.2 * random.standard_normal((n, 4))
    risk[:, 3] += 0.5 * z[:, weights[:, 3].argmax()]
    data = _binary(x, c, (risk > 0.2).astype(int), 3000)

    def partly_known(rows: Rows) -> Rows:
        no_sign, no_diagnosis = (random.random(labels.shape) < UNKNOWN for labels in (rows.c, rows.y))
        c = np.where(no_sign, np.nan, rows.c).astype(np.float32)
        return replace(rows, c=c, y=np.where(no_diagnosis, IGNORED, rows.y))

    return replace(data, train=partly_known(data.train), val=partly_known(data.val))


# The position of a kind seeds it.
DRAW: dict[str, Callable[[np.random.Generator], Data]] = {
    "survey": survey,
    "documents": documents,
    "medical": medical,
    "series": series,
    "regression": regression,
    "quantities": quantities,
    "categories": categories,
    "sparse": sparse,
    "noisy": noisy,
    "mixed": mixed,
    "mixed kinds": mixed_kinds,
    "several tasks": several_tasks,
}


def drawn(kind: str, seed: int, hidden: int = 0) -> Data:
    """hidden: first concepts that the set leaves out, though the task depends on them."""
    data = DRAW[kind](np.random.default_rng([2026, seed, list(DRAW).index(kind)]))

    def cut(rows: Rows) -> Rows:
        return replace(rows, c=rows.c[:, hidden:], clean=rows.clean[:, hidden:])

    return replace(data, train=cut(data.train), val=cut(data.val), values=data.values[hidden:])
