"""The figures of the report, as SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from evaluate import Evaluation, evaluate
from matplotlib import pyplot as plt
from plan import CEM_LAMBDAS, OTHERS, Settings, plan
from results import Model, has, interval, of, values
from tables import LEAKING, name_of, one, pair
from train import file_of

# Scores against the intervention score, and how they are labelled.
SCATTERED = {
    "ctl": "CTL", "icl": "ICL", "ois": "OIS", "ctl_conditional": "ctl_conditional",
    "icl_conditional": "icl_conditional", "concept_accuracy": "concept accuracy",
}  # fmt: skip
TRUTHS = ("tab:blue", "tab:orange")


def draw(models: list[Model], weights: Path, folder: Path) -> None:
    """All figures. Those of a model's outputs need its weights, and are left as they are without."""
    mpl.rcParams.update({"svg.hashsalt": "conceptwatch", "svg.fonttype": "none", "savefig.dpi": 80, "font.size": 8})
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        (f"TT({delta:g})", of(models, experiment="grid", delta=delta), "intervention_score") for delta in (0.25, 0.75)
    ]
    released = [model for model in of(models, experiment="released") if model["kind"] != "hard"]
    rows.append(("released encoder", released, "intervention_score"))
    scatter([row for row in rows if row[1]], folder / "intervention.svg", "intervention score")
    rows = [(name_of(data), [m for m in of(models, data=data) if m["kind"] != "hard"], "drop") for data in OTHERS]
    scatter([row for row in rows if row[1]], folder / "others.svg", "drop under intervention")
    supervision(models, folder / "supervision.svg")
    pairs(models, folder / "pair.svg")
    chosen = {
        name: [o for o in plan() if o["experiment"] == name and o["seed"] == 0] for name in ("two concepts", "cem")
    }
    if all(file_of(settings, weights).exists() for group in chosen.values() for settings in group):
        leaking(models, chosen["two concepts"], weights, folder / "leaking.svg")
        embeddings(chosen["cem"], weights, folder / "embeddings.svg")


def save(figure: Any, file: Path) -> None:
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def scatter(rows: list[tuple[str, list[Model], str]], file: Path, label: str) -> None:
    scores = [score for score in SCATTERED if any(has(own, score) for _, own, _ in rows)]
    size = (2.1 * len(scores) + 1, 2.3 * len(rows))
    figure, axes = plt.subplots(len(rows), len(scores), figsize=size, sharey="row", squeeze=False, layout="constrained")
    for (name, models, target), line in zip(rows, axes, strict=True):
        for axis, score in zip(line, scores, strict=True):
            for kind, marker in (("soft", "o"), ("logit", "s")):
                own = of(models, kind=kind)
                weight = np.log10([model["weight"] for model in own])
                points = axis.scatter(
                    values(own, score), values(own, target), c=weight, vmin=-2, vmax=1, marker=marker, s=14,
                    alpha=0.8, label=kind, rasterized=True,
                )  # fmt: skip
            axis.axhline(LEAKING, color="0.7", linewidth=0.8)
            axis.set_xlabel(SCATTERED[score])
        line[0].set_ylabel(f"{label}\n{name}")
    axes[0][0].legend()
    figure.colorbar(points, ax=axes, label="log10 λ", shrink=0.6)
    save(figure, file)


def supervision(models: list[Model], file: Path) -> None:
    """Figures 6, 19 and 20: scores against λ."""
    scores = [score for score in ("ctl", "icl", "ctl_conditional", "icl_conditional") if has(models, score)]
    figure, axes = plt.subplots(
        2, len(scores), figsize=(2.6 * len(scores), 4.6), sharex=True, squeeze=False, layout="constrained"
    )
    for line, delta in zip(axes, (0.25, 0.75), strict=True):
        for axis, score in zip(line, scores, strict=True):
            for kind in ("soft", "logit"):
                own = of(models, experiment="grid", delta=delta, kind=kind)
                own += of(models, experiment="high", delta=delta, kind=kind)
                weights = sorted({model["weight"] for model in own})
                found = [interval(values(of(own, weight=weight), score)) for weight in weights]
                axis.errorbar(weights, [mean for mean, _ in found], [half for _, half in found], capsize=3, label=kind)
            axis.set_xscale("log")
            axis.set_ylabel(f"{SCATTERED[score]}, δ = {delta:g}")
    axes[0][0].legend()
    for axis in axes[1]:
        axis.set_xlabel("λ")
    save(figure, file)


def pairs(models: list[Model], file: Path) -> None:
    """Figures 4, 17 and 18: two models with about the same accuracies, under intervention and by their scores."""
    both = pair(models, "released")
    if both is None:
        return
    figure, (curve, whole, by_concept) = plt.subplots(1, 3, figsize=(10, 2.8), layout="constrained")
    scores = [score for score in (*SCATTERED, "nis_scaled") if score != "concept_accuracy" and has(both, score)]
    concepts = [score for score in ("ctl", "icl", "ctl_conditional", "icl_conditional") if has(both, score)]
    for at, model in enumerate(both):
        label, shift = f"{model['kind']}, λ = {model['weight']:g}", 0.4 * at - 0.2
        accuracies = model["accuracies"]
        curve.plot(range(len(accuracies)), accuracies, marker="o", label=label)
        errors = [1.96 * model["errors"].get(score, 0.0) for score in scores]
        whole.bar(
            np.arange(len(scores)) + shift, [one(model, score) for score in scores], 0.4, yerr=errors, label=label
        )
        found = [value or 0.0 for score in concepts for value in model["per_concept"][score]]
        by_concept.bar(np.arange(len(found)) + shift, found, 0.4, label=label)
    curve.set(xlabel="concepts set to their true values", ylabel="task accuracy")
    curve.xaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
    whole.set_xticks(range(len(scores)), scores, rotation=40, ha="right")
    k = both[0]["concepts"]
    by_concept.set_xticks(
        range(k * len(concepts)), [f"{s} {i + 1}" for s in concepts for i in range(k)], rotation=60, ha="right"
    )
    curve.legend()
    save(figure, file)


def leaking(models: list[Model], chosen: list[Settings], weights: Path, file: Path) -> None:
    """Figures 2 and 3: the activations of concept 1 by its label and the task's, and accuracy under intervention of
    every seed."""
    figure, axes = plt.subplots(1, len(chosen) + 1, figsize=(2.8 * (len(chosen) + 1), 2.5), layout="constrained")
    for axis, settings in zip(axes, chosen, strict=False):
        found = evaluate(settings, weights)
        c, y = labels(found)
        shown = activation(found, settings)
        for concept, task in ((0, 0), (0, 1), (1, 1)):
            rows = (c[:, 0] == concept) & (y == task)
            axis.hist(shown[rows], bins=np.linspace(0, 1, 41), alpha=0.7, label=f"c₁ = {concept}, y = {task}")
        name = "hard" if settings["kind"] == "hard" else f"soft, λ = {settings['weight']:g}"
        axis.set(title=name, xlabel="activation of concept 1", yscale="log")
        own = of(models, experiment="two concepts", kind=settings["kind"], weight=settings["weight"])
        for at, model in enumerate(own):
            axes[-1].plot((0, 1, 2), model["accuracies"], color=f"C{chosen.index(settings)}", label="" if at else name)
    axes[0].legend()
    axes[-1].set(xlabel="concepts set to their true values", ylabel="task accuracy", xticks=(0, 1, 2))
    axes[-1].legend()
    save(figure, file)


def labels(found: Evaluation) -> tuple[Any, Any]:
    c, y = found.tensors["concept_labels"], found.tensors["task_labels"]
    assert c is not None
    assert y is not None
    return c.numpy(), y.numpy()


def activation(found: Evaluation, settings: Settings) -> Any:
    """Of concept 1. Of a hard model, the probability before it becomes 0 or 1."""
    tensor = found.probabilities if settings["kind"] == "hard" else found.tensors["concept_activations"]
    assert tensor is not None
    return tensor[:, 0].numpy()


def embeddings(chosen: list[Settings], weights: Path, file: Path) -> None:
    """Figures 9, 11, 23 and 24: two principal components of the weighted embeddings of concept 1."""
    columns = [s for s in chosen if s["weight"] in CEM_LAMBDAS and s["intervention"] in (0.0, 0.75)]
    figure, axes = plt.subplots(3, len(columns), figsize=(2.2 * len(columns), 6), layout="constrained")
    for line, settings in zip(axes.T, columns, strict=True):
        found = evaluate(settings, weights)
        vectors = found.tensors["concept_embeddings"]
        assert vectors is not None
        centred = vectors[:, 0].numpy() - vectors[:, 0].numpy().mean(0)
        places = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
        c, y = labels(found)
        for axis, truth, name in zip(line, (y, c[:, 1], c[:, 2]), ("y", "c₂", "c₃"), strict=True):
            colours = [TRUTHS[int(value)] for value in truth]
            axis.scatter(*places.T, c=colours, s=3, alpha=0.6, linewidths=0, rasterized=True)
            axis.set(xticks=(), yticks=(), xlabel=f"colour: {name}")
        line[0].set_title(f"λ = {settings['weight']:g}, p_int = {settings['intervention']:g}")
    save(figure, file)
