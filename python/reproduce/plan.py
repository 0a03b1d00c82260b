"""Every model of the reproduced experiments, by the settings it is trained with."""

from __future__ import annotations

import itertools
import zlib
from typing import Any

Settings = dict[str, Any]

SEEDS = 5
DELTAS = (0.25, 0.75)
LAMBDAS = (0.01, 0.1, 0.5, 1.0, 5.0, 10.0)
# λ at which the task may no longer be learnt (Appendix E).
HIGH = (20.0, 50.0)
# Low, intermediate and high concept supervision, for the experiments that take three.
THREE = (0.01, 0.5, 5.0)
CEM_LAMBDAS = (0.1, 10.0)
INTERVENTIONS = (0.0, 0.25, 0.75)
# a of the task c₁ + c₂ + c₃ - a·c₁c₂ ≥ 2, by experiment. With the paper's 1 it is c₁ + c₂ + 2c₃ ≥ 3, which a linear
# head represents exactly; with 2 it is the third concept and just one of the others.
FACTORS = {"misspecified": 2.0, "as printed": 1.0}

# Data sets of more classes, their numbers of concepts, and λ for them.
OTHERS = {"digits-10-complete": 7, "digits-10-incomplete": 4, "sprites": 5}
OTHER_LAMBDAS = (0.01, 0.05, 0.2, 1.0, 5.0)

DEFAULTS: Settings = {
    "data": "toy", "delta": 0.25, "kind": "soft", "weight": 1.0, "concepts": 3, "intervention": 0.0,
}  # fmt: skip


def plan() -> list[Settings]:
    """In an order in which a run that is stopped early has finished whole experiments."""
    found: list[Settings] = []

    def add(experiment: str, **of: Any) -> None:
        found.extend({"experiment": experiment, **DEFAULTS, **of, "seed": seed} for seed in range(SEEDS))

    for delta, kind, weight in itertools.product(DELTAS, ("soft", "logit"), LAMBDAS):
        add("grid", delta=delta, kind=kind, weight=weight)
    for delta in DELTAS:
        add("hard", delta=delta, kind="hard")
    for kind, weight in (("hard", 1.0), ("soft", 1.0), ("soft", 0.01)):
        add("two concepts", kind=kind, weight=weight, concepts=2)
    for weight, intervention in itertools.product(CEM_LAMBDAS, INTERVENTIONS):
        add("cem", kind="cem", weight=weight, intervention=intervention)
    for weight in THREE:
        add("incomplete", weight=weight, concepts=2)
    for experiment, weight in itertools.product(FACTORS, THREE):
        add(experiment, weight=weight)
    for kind, weight in itertools.product(("soft", "logit"), HIGH):
        add("high", kind=kind, weight=weight)
    for kind, weight in itertools.product(("soft", "logit"), LAMBDAS):
        add("released", kind=kind, weight=weight)
    add("released", kind="hard")
    for (data, concepts), kind, weight in itertools.product(OTHERS.items(), ("soft", "logit"), OTHER_LAMBDAS):
        add("other", data=data, concepts=concepts, kind=kind, weight=weight)
    for data, concepts in OTHERS.items():
        add("other", data=data, concepts=concepts, kind="hard")
    return found


def name_of(of: Settings) -> str:
    """A run's name, from its settings."""
    return " ".join(f"{key}={of[key]:g}" if isinstance(of[key], float) else f"{key}={of[key]}" for key in sorted(of))


def seed_of(of: Settings) -> int:
    """A model's own seed, for its data, first weights and batches: no two models share a random number."""
    return zlib.crc32(name_of(of).encode())
