"""Writes the report on the results of `train.py`, with the paper's figures for comparison.

python report.py results.jsonl ../../docs/reproduce.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from scipy import stats
from sklearn.metrics import roc_auc_score

DRAWS = 10_000
LEAKING = 0.05
SCORES = {"ctl": "CTL", "icl": "ICL", "ois": "OIS", "icl_label": "icl_label"}
# Pearson r with the intervention score, arXiv:2504.14094, Table 2.
PAPER = {
    (0.25, "ctl"): 0.75, (0.25, "icl"): 0.69, (0.25, "ois"): 0.49,
    (0.75, "ctl"): 0.54, (0.75, "icl"): 0.51, (0.75, "ois"): 0.27,
}  # fmt: skip

Model = dict[str, Any]


def of(models: list[Model], **wanted: Any) -> list[Model]:
    return [model for model in models if all(model[key] == value for key, value in wanted.items())]


def values(models: Iterable[Model], score: str, part: str = "value") -> Any:
    return np.array([model["scores"].get(score, {}).get(part) or 0.0 for model in models])


def pooled(x: Any, x_error: Any, y: Any, seed: int) -> tuple[float, float]:
    """Pearson r over draws of x within its error, pooled by Rubin's rule on Fisher's scale, and its p-value.

    The degrees of freedom are those of Barnard and Rubin (1999), doi:10.1093/biomet/86.4.948.
    """
    random = np.random.default_rng(seed)
    drawn = x + x_error * random.standard_normal((DRAWS, len(x)))
    z = np.arctanh([np.corrcoef(one, y)[0, 1] for one in drawn])
    within, between = 1.0 / (len(x) - 3), z.var(ddof=1)
    total = within + (1 + 1 / DRAWS) * between
    share = (1 + 1 / DRAWS) * between / total
    of_imputation = (DRAWS - 1) / share**2 if share > 0 else np.inf
    complete = len(x) - 3
    observed = (complete + 1) / (complete + 3) * complete * (1 - share)
    freedom = 1 / (1 / of_imputation + 1 / observed)
    return float(np.tanh(z.mean())), float(2 * stats.t.sf(abs(z.mean()) / np.sqrt(total), freedom))


def classes(models: list[Model]) -> list[list[Model]]:
    """Models that differ only in their fold."""
    keys = sorted({(model["kind"], model["weight"]) for model in models})
    return [of(models, kind=kind, weight=weight) for kind, weight in keys]


def interval(found: Any) -> tuple[float, float]:
    """Mean over folds and the half-width of its 95 % interval."""
    return float(found.mean()), float(stats.t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found)))


def shown(found: Any) -> str:
    mean, half = interval(found)
    return f"{mean:.3f} ± {half:.3f}"


def correlations(models: list[Model]) -> list[str]:
    lines = [
        "| data | score | r, 12 classes | p | the paper's r | r, 60 models | p | AUC | missed | accused |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for delta in (0.25, 0.75):
        grid = of(models, experiment="grid", delta=delta)
        s_int = values(grid, "intervention_score")
        leaks = s_int > LEAKING
        groups = classes(grid)
        means = np.array([values(group, "intervention_score").mean() for group in groups])
        for score, name in SCORES.items():
            found, error = values(grid, score), values(grid, score, "standard_error")
            class_mean = np.array([values(group, score).mean() for group in groups])
            class_error = np.array([values(group, score).std(ddof=1) / np.sqrt(len(group)) for group in groups])
            over_classes, over_models = pooled(class_mean, class_error, means, 0), pooled(found, error, s_int, 1)
            # At the threshold that best separates leaking from clean models.
            best = max(np.unique(found), key=lambda at: (found[leaks] > at).mean() - (found[~leaks] > at).mean())
            missed, accused = int((found[leaks] <= best).sum()), int((found[~leaks] > best).sum())
            paper = PAPER.get((delta, score))
            lines.append(
                f"| TT({delta:g}) | {name} | {over_classes[0]:.2f} | {over_classes[1]:.1g} | "
                f"{'' if paper is None else f'{paper:.2f}'} | {over_models[0]:.2f} | {over_models[1]:.1g} | "
                f"{roc_auc_score(leaks, found):.2f} | {missed} of {leaks.sum()} | {accused} of {(~leaks).sum()} |"
            )
    return lines


def table(title: str, rows: list[tuple[str, list[Model]]], scores: list[str]) -> list[str]:
    lines = [f"| {title} | {' | '.join(scores)} |", "|---|" + "--:|" * len(scores)]
    return lines + [f"| {name} | {' | '.join(shown(values(own, score)) for score in scores)} |" for name, own in rows]


def criterion(a: list[Model], b: list[Model]) -> str:
    """The Leakage Criterion of a against b, by Welch's test on the folds at 95 %."""
    told = set()
    for score in ("ctl", "icl"):
        test = stats.ttest_ind(values(a, score), values(b, score), equal_var=False)
        if test.pvalue < 0.05:
            told.add("more" if test.statistic > 0 else "less")
    return "undecided" if len(told) == 2 else next(iter(told), "no difference shown")


def findings(models: list[Model]) -> list[str]:
    """Whether tasks of more than one term leak more than the linear one, and each finding's number of models."""
    lines = [
        "| soft, δ = 0.25 | leaks | linear head | MLP head | misspecified head | insufficient supervision | others |"
    ]
    lines.append("|---|---|--:|--:|--:|--:|--:|")
    linear: list[Model] = []
    for name, own in misspecified(models):
        if "findings" not in own[0]:
            linear = own
            continue
        heads = [shown(values(own, f"reference_accuracy_{head}")) for head in ("linear", "mlp")]
        rules = ("misspecified_head", "insufficient_supervision")
        counts = [sum(rule in model["findings"] for model in own) for rule in rules]
        others = sum(bool(set(model["findings"]) - set(rules)) for model in own)
        cells = [criterion(own, linear), *heads, *(f"{n} of {len(own)}" for n in (*counts, others))]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def misspecified(models: list[Model]) -> list[tuple[str, list[Model]]]:
    grid = of(models, experiment="grid", delta=0.25, kind="soft")
    tasks = {"linear task": grid}
    tasks |= {f"a = {a}": of(models, experiment=name) for a, name in ((1, "as printed"), (2, "misspecified"))}
    return [
        (f"λ = {weight:g}, {task}", of(own, weight=weight))
        for weight in (0.01, 0.5, 5.0)
        for task, own in tasks.items()
    ]


def pictures(models: list[Model], folder: Path) -> None:
    mpl.rcParams["svg.hashsalt"] = "conceptwatch"
    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(2, len(SCORES), figsize=(12, 5.5), sharey="row", layout="constrained")
    for row, delta in enumerate((0.25, 0.75)):
        for axis, (score, name) in zip(axes[row], SCORES.items(), strict=True):
            for kind, marker in (("soft", "o"), ("logit", "s")):
                own = of(models, experiment="grid", delta=delta, kind=kind)
                colours = np.log10(values_of(own, "weight"))
                drawn = axis.scatter(
                    values(own, score), values(own, "intervention_score"), c=colours, marker=marker, s=18, alpha=0.8,
                    label=kind,
                )  # fmt: skip
            axis.axhline(LEAKING, color="0.7", linewidth=0.8)
            axis.set_xlabel(f"{name}, δ = {delta:g}")
        axes[row][0].set_ylabel("intervention score")
    axes[0][0].legend()
    figure.colorbar(drawn, ax=axes, label="log10 λ", shrink=0.6)
    figure.savefig(folder / "intervention.svg", metadata={"Date": None})
    figure, axes = plt.subplots(2, 2, figsize=(8, 5.5), sharex=True, layout="constrained")
    for row, delta in enumerate((0.25, 0.75)):
        for axis, score in zip(axes[row], ("ctl", "icl"), strict=True):
            for kind in ("soft", "logit"):
                own = of(models, experiment="grid", delta=delta, kind=kind)
                weights = sorted({model["weight"] for model in own})
                found = [interval(values(of(own, weight=weight), score)) for weight in weights]
                axis.errorbar(weights, [mean for mean, _ in found], [half for _, half in found], capsize=3, label=kind)
            axis.set_xscale("log")
            axis.set_ylabel(f"{SCORES[score]}, δ = {delta:g}")
    axes[0][0].legend()
    for axis in axes[1]:
        axis.set_xlabel("λ")
    figure.savefig(folder / "supervision.svg", metadata={"Date": None})


def values_of(models: list[Model], key: str) -> Any:
    return np.array([model[key] for model in models], dtype=float)


def main() -> None:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    models = [json.loads(line) for line in source.read_text().splitlines()]
    pictures(models, target.with_suffix(""))
    grid = of(models, experiment="grid", delta=0.25)
    soft = of(grid, kind="soft")
    complete = [(f"λ = {weight:g}, all concepts", of(soft, weight=weight)) for weight in (0.01, 0.5, 5.0)]
    incomplete = of(models, experiment="incomplete")
    without = [(f"λ = {weight:g}, c₃ missing", of(incomplete, weight=weight)) for weight in (0.01, 0.5, 5.0)]
    hard = [(f"δ = {delta:g}", of(models, experiment="hard", delta=delta)) for delta in (0.25, 0.75)]
    cem = [
        (f"λ = {weight:g}, p_int = {p:g}", of(models, experiment="cem", weight=weight, intervention=p))
        for weight in (0.01, 5.0)
        for p in (0.0, 0.25)
    ]
    leakage = ["ctl", "icl", "icl_label", "ois", "intervention_score", "task_accuracy", "concept_accuracy"]
    embeddings = ["embedding_ct", "embedding_ic", "embedding_self", "alignment_leakage", "ctl", "icl"]
    sections = {
        "correlations": correlations(models),
        "incomplete": table("soft, δ = 0.25", [pair[i] for i in range(3) for pair in (complete, without)], leakage),
        "misspecified": table("soft, δ = 0.25", misspecified(models), leakage),
        "findings": findings(models),
        "hard": table("hard", hard, leakage),
        "cem": table("CEM, δ = 0.25", cem, [*embeddings, "task_accuracy", "concept_accuracy"]),
        "machine": [f"{len(models)} models, {values_of(models, 'seconds').sum() / 60:.0f} minutes of training in all."],
    }
    text = target.read_text() if target.exists() else "".join(mark(name) for name in sections)
    for name, lines in sections.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = before + begin + "\n".join(lines) + "\n" + end + after
    target.write_text(text)


def mark(name: str) -> str:
    return f"<!-- {name} -->\n<!-- end of {name} -->\n\n"


if __name__ == "__main__":
    main()
