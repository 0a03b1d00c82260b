"""The values that conditional leakage was introduced with, beside those of the models trained here."""

from __future__ import annotations

import itertools

import numpy as np
from plan import ALONE, INTRODUCED, OTHER_LAMBDAS
from pooling import separation
from results import Floats, Model, of, shown, values
from scipy import stats
from tables import COLLAPSED, INVERTED, LEAKING, SCORES, SOUND

# Models of a setting behind a stated value, and half of the last digit of one.
SEEDS, ROUNDING = 3, 0.005
COLUMNS = ("drop", "concept_accuracy", "ctl_excess", "icl_excess", "ctl_conditional", "icl_conditional")
# Soft models with seven concepts, by λ, in the order of the columns.
LEVELS = {
    0.01: (0.88, 0.54, 0.11, -0.12, 0.33, 0.27),
    0.05: (0.81, 0.62, 0.18, -0.08, 0.32, 0.27),
    0.2: (0.69, 0.72, 0.27, -0.04, 0.33, 0.30),
    1.0: (0.00, 0.98, 0.09, -0.11, 0.11, 0.05),
    5.0: (-0.03, 0.99, 0.06, -0.11, 0.07, 0.01),
}
# r with the drop and AUC for a drop above 0.05, which is not stated for the accuracy. Soft and logit models.
SEPARATIONS: dict[str, dict[str, tuple[float, float | None]]] = {
    "redundant-7": {
        "ctl": (0.44, 0.88),
        "icl": (0.10, 0.70),
        "icl_label": (0.13, 0.68),
        "ois": (0.84, 0.97),
        "ctl_conditional": (0.96, 0.95),
        "icl_conditional": (0.92, 0.97),
        "concept_accuracy": (-0.88, None),
    },
    "redundant-4": {
        "ctl": (0.68, 1.00),
        "icl": (0.32, 0.90),
        "icl_label": (0.48, 0.88),
        "ois": (0.71, 0.88),
        "ctl_conditional": (0.95, 1.00),
        "icl_conditional": (0.88, 1.00),
        "concept_accuracy": (-0.82, None),
    },
}
# Of the 60 models: how many collapse and how many are sound, the least ctl_conditional of the former and the greatest
# of the latter.
GROUPS = (40, 12, 0.16, 0.12)


def agrees(found: Floats, stated: float) -> bool:
    """Whether a mean of three models as these would be the stated value: 95 % prediction interval from their spread."""
    spread = found.std(ddof=1) * np.sqrt(1 / len(found) + 1 / SEEDS)
    return bool(abs(found.mean() - stated) <= stats.t.ppf(0.975, len(found) - 1) * spread + ROUNDING)


def marked(cell: str, agreeing: bool) -> str:
    return cell if agreeing else f"**{cell}**"


def grid(models: list[Model], data: str) -> list[Model]:
    return [model for model in of(models, data=data) if model["weight"] != ALONE]


def levels(models: list[Model]) -> list[str]:
    soft = of(models, data="redundant-7", kind="soft")
    lines = [f"| soft, 7 concepts | | {' | '.join(COLUMNS)} |", "|---|---|" + "--:|" * len(COLUMNS)]
    for weight, row in LEVELS.items():
        own = of(soft, weight=weight)
        lines.append(f"| λ = {weight:g} | stated | {' | '.join(f'{value:.2f}' for value in row)} |")
        found = [values(own, score) for score in COLUMNS]
        cells = [marked(shown(one), agrees(one, value)) for one, value in zip(found, row, strict=True)]
        lines.append(f"| | here | {' | '.join(cells)} |")
    alone = of(soft, weight=ALONE)
    return [*lines, f"| concepts alone | here | {' | '.join(shown(values(alone, score)) for score in COLUMNS)} |"]


def of_drop(models: list[Model], score: str) -> tuple[float, float]:
    """r of a score with the drop, and its AUC for a drop above the limit."""
    found, drop = values(models, score), values(models, "drop")
    parted = separation(-found if score in INVERTED else found, drop > LEAKING)
    return float(np.corrcoef(found, drop)[0, 1]), np.nan if parted is None else parted.auc


def separations(models: list[Model]) -> list[str]:
    lines = [
        "| data | score | r, stated | here | of three seeds | AUC, stated | here | of three seeds |",
        "|---|---|" + "--:|" * 6,
    ]
    for data, stated in SEPARATIONS.items():
        own = grid(models, data)
        seeds = sorted({model["seed"] for model in own})
        sets = [[m for m in own if m["seed"] in chosen] for chosen in itertools.combinations(seeds, SEEDS)]
        for score, wanted in stated.items():
            all_of_them, of_sets = of_drop(own, score), np.array([of_drop(one, score) for one in sets])
            cells = []
            for value, here, spread in zip(wanted, all_of_them, of_sets.T, strict=True):
                least, most = spread.min(), spread.max()
                inside = value is None or least - ROUNDING <= value <= most + ROUNDING
                cells += ["" if value is None else f"{value:.2f}", marked(f"{here:.2f}", inside)]
                cells.append(f"{least:.2f} to {most:.2f}")
            lines.append(f"| {INTRODUCED[data]} concepts | {SCORES[score]} | {' | '.join(cells)} |")
    return lines


def groups(models: list[Model]) -> list[str]:
    """How many models collapse and are sound, and the values of ctl_conditional that part them."""
    own = [model for data in INTRODUCED for model in grid(models, data)]
    drop, leakage = values(own, "drop"), values(own, "ctl_conditional")
    collapsed, sound = leakage[drop > COLLAPSED], leakage[drop < SOUND]
    count = len(INTRODUCED) * 2 * len(OTHER_LAMBDAS) * SEEDS
    stated = (f"{GROUPS[0]} of {count}", f"{GROUPS[1]} of {count}", f"{GROUPS[2]:.2f}", f"{GROUPS[3]:.2f}")
    here = (f"{len(collapsed)} of {len(own)}", f"{len(sound)} of {len(own)}")
    here += (f"{collapsed.min():.2f}", f"{sound.max():.2f}")
    titles = (
        f"drop above {COLLAPSED:g}",
        f"drop below {SOUND:g}",
        f"least `ctl_conditional` with a drop above {COLLAPSED:g}",
        f"greatest with a drop below {SOUND:g}",
    )
    rows = zip(titles, stated, here, strict=True)
    return ["| models of both | stated | here |", "|---|--:|--:|", *(f"| {' | '.join(row)} |" for row in rows)]
