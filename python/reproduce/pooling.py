"""Correlations of scores that are themselves known with errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from results import Floats
from scipy import stats
from sklearn.metrics import roc_auc_score

DRAWS = 10_000


@dataclass
class Correlation:
    r: float
    p: float


def pooled(x: Floats, x_error: Floats, y: Floats, seed: int = 0) -> float:
    """Pearson r over draws of x within its error, averaged on Fisher's scale."""
    drawn = x + x_error * np.random.default_rng(seed).standard_normal((DRAWS, len(x)))
    return float(np.tanh(np.arctanh(rows_of_r(drawn, np.broadcast_to(y, drawn.shape))).mean()))


def as_published(x: Floats, x_error: Floats, y: Floats, y_error: Floats, seed: int = 0) -> Correlation:
    """The procedure of the authors' code: both variables are drawn within their errors and clipped at 0, r is the mean
    over draws, and the degrees of freedom are Rubin's, which do not fall with the number of classes.
    """
    random = np.random.default_rng(seed)
    shape = (DRAWS, len(x))
    x_drawn = np.maximum(x + x_error * random.standard_normal(shape), 0)
    y_drawn = np.maximum(y + y_error * random.standard_normal(shape), 0)
    r = rows_of_r(x_drawn, y_drawn)
    z = np.arctanh(r)
    within, between = 1.0 / (len(x) - 3), (1 + 1 / DRAWS) * z.var(ddof=1)
    freedom = (DRAWS - 1) * (1 + within / between) ** 2
    p = 2 * stats.t.sf(abs(z.mean()) / np.sqrt(within + between), freedom)
    return Correlation(float(r.mean()), float(p))


def rows_of_r(x: Floats, y: Floats) -> Floats:
    """Pearson r of each row."""
    x, y = x - x.mean(1, keepdims=True), y - y.mean(1, keepdims=True)
    r: Floats = (x * y).sum(1) / np.sqrt((x**2).sum(1) * (y**2).sum(1))
    return r


def separation(score: Floats, leaks: NDArray[np.bool_]) -> float | None:
    """How well a score separates leaking models from the others: the area under the ROC curve."""
    return None if leaks.all() or not leaks.any() else float(roc_auc_score(leaks, score))
