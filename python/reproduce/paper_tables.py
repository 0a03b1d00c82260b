"""The tables of the other papers' measures, on the results of `papers.py`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

# Means in %, in the order of the columns: Table 1 of doi:10.1609/aaai.v37i10.26392. Its MIG, R⁴ and DCI are above 99.
IMPURITY = {"pure": (4.69, 66.25, 48.74), "impure": (22.58, 72.36, 48.83)}
COLUMNS = {
    "ois": "OIS", "nis": "NIS", "sap": "SAP", "modularity": "Modularity", "modularity, equal counts": "(equal counts)",
}  # fmt: skip
# Pearson's r with trust: Table 3 of the Clarity paper, and there the highest with other weights.
TRUST = {
    "clarity": 0.9749, "geometric": 0.9673, "arithmetic": 0.9124, "sparsity": 0.6322, "precision": 0.9404,
    "accuracy": -0.4683,
}  # fmt: skip
WEIGHTED = 0.9833

Rows = Iterable[tuple[str, Sequence[str]]]


def table(title: str, columns: Iterable[str], rows: Rows) -> list[str]:
    head = [title, *columns]
    lines = [f"| {' | '.join(head)} |", "|---|" + "--:|" * (len(head) - 1)]
    return lines + [f"| {' | '.join([name, *cells])} |" for name, cells in rows]


def mean(lines: list[dict[str, float]], name: str) -> float:
    return float(np.mean([line[name] for line in lines]))


def table_1(found: dict[str, list[dict[str, float]]]) -> list[str]:
    rows = []
    for kind, published in IMPURITY.items():
        rows.append((f"{kind}, paper", [f"{value:.1f}" for value in published] + ["-"] * 2))
        rows.append((kind, [f"{100 * mean(found[kind], name):.1f}" for name in COLUMNS]))
    return table("rows", COLUMNS.values(), rows)


def helpers(found: dict[str, dict[str, list[float]]]) -> list[str]:
    of = lambda values: f"{100 * min(values):.0f}-{100 * max(values):.0f}"  # noqa: E731
    rows = [(kind, [of(values) for values in found[kind].values()]) for kind in IMPURITY]
    return table("rows", found["pure"], rows)


def clarity(found: dict[str, Any]) -> list[str]:
    weighted = f"{min(found['weights']):.2f}-{max(found['weights']):.2f}"
    rows = [
        ("paper", [f"{value:.2f}" for value in (*TRUST.values(), WEIGHTED)]),
        ("here", [*(f"{found[name]:.2f}" for name in TRUST), weighted]),
    ]
    return table("r", [*TRUST, "weighted"], rows)


def trust(found: list[dict[str, float]]) -> list[str]:
    def cell(name: str, box: int) -> str:
        return f"{mean(found, f'{name} {box}'):.2f} ({mean(found, f'{name}, other image {box}'):.2f})"

    return table(
        "box", ["one point", "all four"], [(f"{box} px", [cell("a part", box), cell("all", box)]) for box in (13, 20)]
    )


def replaced(found: dict[str, dict[str, float]]) -> list[str]:
    names = {"concept_score": "ConceptScore", "bleu": "BLEU", "meteor": "METEOR", "rouge_l": "ROUGE-L"}
    changes = [change for change in found if change != "unchanged"]
    ratio = lambda change, score: f"{found[change][score] / found['unchanged'][score]:.2f}"  # noqa: E731
    rows = [(name, [ratio(change, score) for change in changes]) for score, name in names.items()]
    return table("after / before", changes, rows)


def planted(found: dict[str, list[float]]) -> list[str]:
    rows = [(f"`{name}`", [f"{value:.3f}" for value in values]) for name, values in found.items()]
    return table("score", ["planted", "found"], rows)


def sections(found: dict[str, Any]) -> dict[str, list[str]]:
    return {of.__name__: of(found[of.__name__]) for of in (table_1, helpers, clarity, trust, replaced, planted)}
