"""The tables of the report, as lines of Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from plan import FACTORS, HIGH, OTHERS
from pooling import as_published, pooled, separation
from results import MISSING, Model, classes, has, of, shown, values
from scipy import stats

LEAKING = 0.05
# Drops under intervention of models that collapse and of sound ones.
COLLAPSED, SOUND = 0.3, 0.02
# Scores that are compared with the intervention score, by their names in the paper or their ids.
SCORES = {
    "ctl": "CTL", "icl": "ICL", "ois": "OIS", "icl_label": "icl_label", "ctl_conditional": "ctl_conditional",
    "icl_conditional": "icl_conditional", "concept_accuracy": "concept accuracy",
}  # fmt: skip
# Of these, less is worse.
INVERTED = ("concept_accuracy",)
# Pearson r with the intervention score, arXiv:2504.14094, Table 2.
PAPER = {
    ("TT(0.25)", "ctl"): 0.75, ("TT(0.25)", "icl"): 0.69, ("TT(0.25)", "ois"): 0.49,
    ("TT(0.75)", "ctl"): 0.54, ("TT(0.75)", "icl"): 0.51, ("TT(0.75)", "ois"): 0.27,
}  # fmt: skip
LEAKAGE = ("ctl", "icl", "icl_label", "ois", "ctl_conditional", "icl_conditional", "joint_leakage")
OUTCOMES = ("intervention_score", "drop", "task_accuracy", "concept_accuracy")

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
    lines = [
        "| data | score | the paper's r | r, as published | p | r, classes | p | r, models | p | AUC | missed "
        "| accused |",
        "|---|---|" + "--:|" * 10,
    ]
    for data, grid in grids(models).items():
        s_int = values(grid, "intervention_score")
        groups = classes(grid)
        means = np.array([values(group, "intervention_score").mean() for group in groups])
        spread = np.array([stats.sem(values(group, "intervention_score")) for group in groups])
        for score, name in SCORES.items():
            found, error = values(grid, score), np.nan_to_num(values(grid, score, "errors"))
            paper = PAPER.get((data, score))
            start = f"| {data} | {name} | {'' if paper is None else f'{paper:.2f}'} |"
            if not has(grid, score):
                continue
            if not np.isfinite(found).all():
                lines.append(f"{start} {' | '.join([MISSING] * 9)} |")
                continue
            by_class = np.array([values(group, score).mean() for group in groups])
            by_class_error = np.array([stats.sem(values(group, score)) for group in groups])
            published = as_published(by_class, by_class_error, means, spread)
            over_classes, over_models = pooled(by_class, by_class_error, means), pooled(found, error, s_int)
            parted = separation(-found if score in INVERTED else found, s_int > LEAKING)
            leaking = int((s_int > LEAKING).sum())
            shares = [MISSING] * 3
            if parted is not None:
                shares = [
                    f"{parted.auc:.2f}",
                    f"{parted.missed} of {leaking}",
                    f"{parted.accused} of {len(grid) - leaking}",
                ]
            cells = [f"{one.r:.2f} | {one.p:.1g}" for one in (published, over_classes, over_models)]
            lines.append(f"{start} {' | '.join(cells + shares)} |")
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
            cells.append(f"{np.corrcoef(found[known], drop[known])[0, 1]:.2f} ({parted.auc:.2f}{left_out})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    counts = [f"{int((values(grid, 'drop') > LEAKING).sum())} of {len(grid)}" for grid in data.values()]
    return [*lines, f"| drop > {LEAKING:g} | {' | '.join(counts)} |"]


def ranges(models: list[Model]) -> list[str]:
    """Least and greatest value of a score among the models that collapse under intervention and among sound ones."""
    wanted = ("ctl", "icl", "ctl_conditional", "icl_conditional", "joint_leakage")
    scores = [score for score in wanted if has(models, score)]
    lines = [f"| data | models | number | {' | '.join(scores)} |", "|---|---|--:|" + "--:|" * len(scores)]
    for data, grid in grids(models).items():
        drop = values(grid, "drop")
        for name, chosen in ((f"drop > {COLLAPSED:g}", drop > COLLAPSED), (f"drop < {SOUND:g}", drop < SOUND)):
            cells = []
            for score in scores:
                found = values(grid, score)[chosen]
                known = found[np.isfinite(found)]
                cells.append(f"{known.min():.3f} to {known.max():.3f}" if len(known) else MISSING)
            lines.append(f"| {data} | {name} | {chosen.sum()} | {' | '.join(cells)} |")
    return lines


def others(models: list[Model], data: str) -> list[str]:
    own = of(models, data=data)
    rows = [
        (f"{kind}, λ = {weight:g}" if kind != "hard" else "hard", of(own, kind=kind, weight=weight))
        for kind in ("soft", "logit", "hard")
        for weight in sorted({model["weight"] for model in of(own, kind=kind)})
    ]
    scores = (
        "drop",
        "intervention_score",
        "task_accuracy",
        "concept_accuracy",
        "ctl_excess",
        "icl_excess",
        "icl_label",
    )
    scores += ("ois", "ctl_conditional", "icl_conditional", "concept_gap", "joint_leakage", "intervention_area")
    scores += ("wrong_intervention_drop",)
    return table(name_of(data), rows, scores)


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
    rows = [("complete, linear task", "1.000 ± 0.000", soft)]
    rows.append(("c₃ missing", "0.786 ± 0.000", of(models, experiment="incomplete")))
    rows.append(("non-linear task, a = 1", "0.687 ± 0.000", of(models, experiment="as printed")))
    rows.append(("non-linear task, a = 2", "0.687 ± 0.000", of(models, experiment="misspecified")))
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


def incomplete(models: list[Model]) -> Rows:
    complete = of(models, experiment="grid", delta=0.25, kind="soft")
    without = of(models, experiment="incomplete")
    return [
        (f"λ = {weight:g}, {name}", of(own, weight=weight))
        for weight in (0.01, 0.5, 5.0)
        for name, own in (("all concepts", complete), ("c₃ missing", without))
    ]


def hard(models: list[Model]) -> Rows:
    toy = [(f"TT({delta:g})", of(models, experiment="hard", delta=delta)) for delta in (0.25, 0.75)]
    rows = [*toy, ("TT(0.25), released encoder", of(models, experiment="released", kind="hard"))]
    rows += [(name_of(data), of(models, data=data, kind="hard")) for data in OTHERS]
    return [(name, own) for name, own in rows if own]


def high(models: list[Model]) -> list[str]:
    """Task accuracy and leakage where the concepts weigh much more than the task."""
    grid = of(models, experiment="grid", delta=0.25) + of(models, experiment="high")
    rows = [
        (f"{kind}, λ = {weight:g}", of(grid, kind=kind, weight=weight))
        for kind in ("soft", "logit")
        for weight in (5.0, 10.0, *HIGH)
    ]
    lines = table("δ = 0.25", rows, ("ctl", "icl", "ctl_conditional", "intervention_score", "task_accuracy"))
    above = [f"{int((values(own, 'task_accuracy') > 0.9).sum())} of {len(own)}" for _, own in rows]
    ends = [" task accuracy above 0.9 |", "--:|", *(f" {count} |" for count in above)]
    return [line + end for line, end in zip(lines, ends, strict=True)]


def cem(models: list[Model]) -> Rows:
    own = of(models, experiment="cem")
    settings = sorted({(model["weight"], model["intervention"]) for model in own})
    return [(f"λ = {w:g}, p_int = {p:g}", of(own, weight=w, intervention=p)) for w, p in settings]


CEM = ("embedding_ct", "embedding_ic", "embedding_self", "alignment_leakage", "embedding_ct_conditional")
CEM += ("embedding_ic_conditional", "ctl", "icl", "intervention_score", "task_accuracy", "concept_accuracy")
HARD = ("ctl", "icl", "icl_label", "ctl_conditional", "icl_conditional", "ois", "nis_scaled", "intervention_score")
HARD += ("task_accuracy", "concept_accuracy")


# Table 1 of the paper: its pair on TabularToy(0.25).
PAPER_PAIR = {
    "soft": (0.993, 0.992, 0.992, 0.990, 0.990, 0.990, 0.000),
    "logit": (0.995, 0.995, 0.995, 0.991, 0.991, 0.991, 0.301),
}
TABLE_1 = ("concept_accuracy", "concept_f1", "concept_auc", "task_accuracy", "task_f1", "task_auc")
TABLE_1 += ("intervention_score",)
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


def pairs(models: list[Model]) -> list[str]:
    """Table 1, and the scores of Figures 4 and 17."""
    more = ("ctl", "icl", "ois", "nis_scaled", "ctl_conditional", "icl_conditional")
    scores = (*TABLE_1, *(score for score in more if has(models, score)))
    lines = [f"| TT(0.25), λ = 5 | {' | '.join(scores)} |", "|---|" + "--:|" * len(scores)]
    for kind, paper in PAPER_PAIR.items():
        cells = [f"{value:.3f}" for value in paper] + [""] * (len(scores) - len(paper))
        lines.append(f"| the paper's, {kind} | {' | '.join(cells)} |")
    for name, experiment in (("released encoder", "released"), ("the text's encoder", "grid")):
        for model in pair(models, experiment) or ():
            own = [f"{one(model, score):.3f}" if has([model], score) else MISSING for score in scores]
            lines.append(f"| {name}, {model['kind']}, seed {model['seed']} | {' | '.join(own)} |")
        for kind in ("soft", "logit"):
            group = of(models, experiment=experiment, delta=0.25, weight=5.0, kind=kind)
            own = [shown(values(group, score)) for score in scores]
            lines.append(f"| {name}, {kind}, mean | {' | '.join(own)} |")
    return lines
