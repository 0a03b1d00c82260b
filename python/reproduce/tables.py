"""The tables of the report, as lines of Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from plan import FACTORS, OTHERS
from pooling import as_published, pooled, separation
from results import MISSING, Model, classes, has, of, shown, values
from scipy import stats

LEAKING = 0.05
# Scores that are compared with the intervention score, by their names in the paper or their ids.
SCORES = {
    "ctl": "CTL", "icl": "ICL", "ois": "OIS", "icl_label": "icl_label", "ctl_conditional": "ctl_conditional",
    "icl_conditional": "icl_conditional", "concept_accuracy": "concept accuracy",
}  # fmt: skip
PUBLISHED = ("ctl", "icl", "ois")
# Of these, less is worse.
INVERTED = ("concept_accuracy",)
# Pearson r with the intervention score, arXiv:2504.14094, Table 2.
PAPER = {
    ("TT(0.25)", "ctl"): 0.75, ("TT(0.25)", "icl"): 0.69, ("TT(0.25)", "ois"): 0.49,
    ("TT(0.75)", "ctl"): 0.54, ("TT(0.75)", "icl"): 0.51, ("TT(0.75)", "ois"): 0.27,
}  # fmt: skip

Rows = list[tuple[str, list[Model]]]


def table(title: str, rows: Rows, scores: Iterable[str]) -> list[str]:
    """Means over seeds; a score that no model has gets no column."""
    columns = [score for score in scores if any(has(own, score) or score == "drop" for _, own in rows)]
    lines = [f"| {title} | {' | '.join(columns)} |", "|---|" + "--:|" * len(columns)]
    return lines + [f"| {name} | {' | '.join(shown(values(own, score)) for score in columns)} |" for name, own in rows]


def grids(models: list[Model]) -> dict[str, list[Model]]:
    """Soft and logit models over λ, by data set."""
    toy = {f"TT({delta:g})": of(models, experiment="grid", delta=delta) for delta in (0.25, 0.75)}
    released = [model for model in of(models, experiment="released") if model["kind"] != "hard"]
    others = {name_of(data): [m for m in of(models, data=data) if m["kind"] != "hard"] for data in OTHERS}
    found = {**toy, "TT(0.25), released encoder": released, **others}
    # Of an interrupted run, the data sets that it has finished.
    return {name: own for name, own in found.items() if own and min(len(group) for group in classes(own)) > 1}


def name_of(data: str) -> str:
    return {
        "digits-10-complete": "digits, 7 concepts",
        "digits-10-incomplete": "digits, 4 concepts",
        "sprites": "drawn shapes, 5 concepts",
    }[data]


def correlations(models: list[Model]) -> list[str]:
    """r of the published scores and of concept accuracy with the intervention score, on the paper's data."""
    lines = ["| data | score | the paper's r | r, as published | p | r, models | AUC |", "|---|---|" + "--:|" * 5]
    for data, grid in grids(models).items():
        if not data.startswith("TT"):
            continue
        s_int = values(grid, "intervention_score")
        groups = classes(grid)
        means = np.array([values(group, "intervention_score").mean() for group in groups])
        spread = np.array([stats.sem(values(group, "intervention_score")) for group in groups])
        for score in (*PUBLISHED, *INVERTED):
            found, error = values(grid, score), np.nan_to_num(values(grid, score, "errors"))
            by_class = np.array([values(group, score).mean() for group in groups])
            by_class_error = np.array([stats.sem(values(group, score)) for group in groups])
            published = as_published(by_class, by_class_error, means, spread)
            parted = separation(-found if score in INVERTED else found, s_int > LEAKING)
            paper = PAPER.get((data, score))
            cells = [
                "" if paper is None else f"{paper:.2f}",
                f"{published.r:.2f}",
                f"{published.p:.1g}",
                f"{pooled(found, error, s_int):.2f}",
                MISSING if parted is None else f"{parted:.2f}",
            ]
            lines.append(f"| {data} | {SCORES[score]} | {' | '.join(cells)} |")
    return lines


def held(models: list[Model]) -> list[str]:
    """Where a score holds: r with the drop over models, and the AUC for a drop above the limit, on every data set."""
    data = grids(models)
    lines = [f"| r (AUC) | {' | '.join(data)} |", "|---|" + "--:|" * len(data)]
    for score, name in SCORES.items():
        if not any(has(grid, score) for grid in data.values()):
            continue
        cells = []
        for grid in data.values():
            found, drop = values(grid, score), values(grid, "drop")
            known = np.isfinite(found)
            parted = separation((-found if score in INVERTED else found)[known], drop[known] > LEAKING)
            if known.sum() < len(known) / 2 or parted is None:
                cells.append(MISSING)
                continue
            left_out = "" if known.all() else f", {known.sum()} of {len(known)}"
            cells.append(f"{np.corrcoef(found[known], drop[known])[0, 1]:.2f} ({parted:.2f}{left_out})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    counts = [f"{int((values(grid, 'drop') > LEAKING).sum())} of {len(grid)}" for grid in data.values()]
    return [*lines, f"| drop > {LEAKING:g} | {' | '.join(counts)} |"]


def criterion(a: list[Model], b: list[Model]) -> str:
    """The Leakage Criterion of a against b, by Welch's test on the seeds at 95 %."""
    told = set()
    for score in ("ctl", "icl"):
        test = stats.ttest_ind(values(a, score), values(b, score), equal_var=False)
        if test.pvalue < 0.05:
            told.add("more" if test.statistic > 0 else "less")
    return "undecided" if len(told) == 2 else next(iter(told), "no difference shown")


def findings(models: list[Model]) -> list[str]:
    """Whether tasks of more than one term leak more than the linear one, and what the diagnosis finds in each model."""
    lines = ["| soft, δ = 0.25 | leaks | linear head | MLP head | findings |", "|---|---|--:|--:|---|"]
    linear: list[Model] = []
    for name, own in misspecified(models):
        if own[0]["experiment"] == "grid":
            linear = own
            continue
        heads = [shown(values(own, f"reference_accuracy_{head}")) for head in ("linear", "mlp")]
        counts = Counter(rule for model in own for rule in model["findings"])
        found = ", ".join(f"{rule} {count}" for rule, count in counts.most_common()) or "none"
        lines.append(f"| {name} | {criterion(own, linear)} | {' | '.join(heads)} | {found} |")
    return lines


def references(models: list[Model]) -> list[str]:
    """Table 3: accuracies of linear heads on the true concepts."""
    soft = of(models, experiment="grid", delta=0.25, kind="soft")
    rows = [("complete, linear task", "1.000±0.000", soft)]
    rows.append(("c₃ missing", "0.786±0.000", of(models, experiment="incomplete")))
    rows.append(("non-linear task, a = 1", "0.687±0.000", of(models, experiment="as printed")))
    rows.append(("non-linear task, a = 2", "0.687±0.000", of(models, experiment="misspecified")))
    lines = ["| TT(0.25) | the paper's | here |", "|---|--:|--:|"]
    return lines + [f"| {name} | {paper} | {shown(values(own, 'reference'))} |" for name, paper, own in rows]


def misspecified(models: list[Model]) -> Rows:
    grid = of(models, experiment="grid", delta=0.25, kind="soft")
    tasks = {"linear task": grid}
    tasks |= {f"a = {a:g}": of(models, experiment=name) for name, a in sorted(FACTORS.items())}
    return [
        (f"λ = {weight:g}, {task}", of(own, weight=weight))
        for weight in (0.01, 0.5, 5.0)
        for task, own in tasks.items()
    ]


def cem(models: list[Model]) -> Rows:
    own = of(models, experiment="cem")
    settings = sorted({(model["weight"], model["intervention"]) for model in own})
    return [(f"λ = {w:g}, p_int = {p:g}", of(own, weight=w, intervention=p)) for w, p in settings]


CEM = ("embedding_self", "embedding_ic", "embedding_ct_conditional", "alignment_leakage")
# Greatest difference of the accuracies in a pair.
ALIKE = 0.01


def pair(models: list[Model], experiment: str) -> tuple[Model, Model] | None:
    """A soft and a logit model of λ = 5 with accuracies that hardly differ, whose S_int differ most."""
    grid = of(models, experiment=experiment, delta=0.25, weight=5.0)
    near = [
        (a, b)
        for a in of(grid, kind="soft")
        for b in of(grid, kind="logit")
        if all(abs(one(a, score) - one(b, score)) <= ALIKE for score in ("concept_accuracy", "task_accuracy"))
    ]
    difference = lambda both: one(both[1], "intervention_score") - one(both[0], "intervention_score")  # noqa: E731
    return max(near, key=difference, default=None)


def one(model: Model, score: str) -> float:
    return float(values([model], score)[0])
