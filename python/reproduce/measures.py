"""Measures of the papers that are no scores of the sidecar, as functions of arrays."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import mutual_info_score, roc_auc_score

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Value = Callable[[Sequence[str]], float]

BINS = 20


def bins_of_equal_width(x: Floats) -> Labels:
    """Bin numbers of each column [n, m], as the mutual information gap of the impurity paper takes them (A.7)."""
    scaled = (x - x.min(0)) / np.ptp(x, axis=0)
    return np.minimum((scaled * BINS).astype(np.int64), BINS - 1)


def bins_of_equal_count(x: Floats) -> Labels:
    return np.floor((rankdata(x, axis=0) - 0.5) * BINS / len(x)).astype(np.int64)


def informations(bins: Labels, concepts: Labels) -> Floats:
    """Mutual information in nats of each column [n, m] and each concept [n, k]."""
    return np.array([[mutual_info_score(column, concept) for concept in concepts.T] for column in bins.T])


def modularity(information: Floats) -> float:
    """Mean over columns of 1 - Σ m² / ((k - 1) max m²) over other concepts: 1 where a column has information about one
    concept only, 0 where it has the same about all (Ridgeway & Mozer 2018). [m, k], each row above 0 somewhere."""
    squares = information**2
    best = squares.max(1)
    return float((1 - (squares.sum(1) - best) / (best * (information.shape[1] - 1))).mean())


def explicitness(x: Floats, concepts: Labels) -> float:
    """How well logistic regressions on all columns predict each concept in the last fifth of the rows: 2 AUC - 1, mean
    over concepts (Ridgeway & Mozer 2018)."""
    train = len(x) * 4 // 5
    fits = (LogisticRegression().fit(x[:train], concept[:train]) for concept in concepts.T)
    pairs = zip(fits, concepts.T, strict=True)
    aucs = [roc_auc_score(concept[train:], fit.decision_function(x[train:])) for fit, concept in pairs]
    return float(2 * np.mean(aucs) - 1)


def one_vs_all_auc(scores: Floats, classes: Labels) -> float:
    """Mean over classes of the AUC of a class's column [n, classes] against all other rows."""
    return float(np.mean([roc_auc_score(classes == at, column) for at, column in enumerate(scores.T)]))


def power_mean(parts: Floats, power: int, weights: Sequence[float] | None = None) -> Floats:
    """The weighted harmonic (-1), geometric (0) or arithmetic (1) mean along the last axis."""
    w = np.ones(parts.shape[-1]) if weights is None else np.array(weights)
    w = w / w.sum()
    if power == 0:
        return np.exp((w * np.log(parts)).sum(-1))
    return (w * parts**power).sum(-1) ** (1 / power)


def cohens_d(means: tuple[float, float], deviations: tuple[float, float]) -> float:
    return (means[0] - means[1]) / math.sqrt((deviations[0] ** 2 + deviations[1] ** 2) / 2)


def inside(peaks: Floats, points: Floats, side: float) -> NDArray[np.bool_]:
    """Whether each point [n, p, 2] is in the square box around each peak [n, k, 2]: [n, k, p]."""
    return (np.abs(peaks[:, :, None] - points[:, None]) <= side / 2).all(-1)


def implied_cosine(concept_score: float, ref_concept_score: float) -> float:
    """The cosine of the predicted and the annotated concepts' texts, from both scores by eq. 3."""
    return 1 / (2 / ref_concept_score - 1 / concept_score)


def shapley(value: Value, names: Sequence[str]) -> dict[str, float]:
    """Each name's mean contribution to the value of a set, over all orders in which the sets grow."""
    n = len(names)

    def share(name: str) -> float:
        others = [other for other in names if other != name]
        sets = (subset for size in range(n) for subset in itertools.combinations(others, size))
        return sum((value([*s, name]) - value(s)) / (n * math.comb(n - 1, len(s))) for s in sets)

    return {name: share(name) for name in names}


def greedy(value: Value, names: Sequence[str]) -> list[str]:
    """Adds the name that raises the value most, until none does."""
    chosen: list[str] = []
    while left := [name for name in names if name not in chosen]:
        best = max(left, key=lambda name: value([*chosen, name]))
        if value([*chosen, best]) <= value(chosen):
            break
        chosen.append(best)
    return chosen
