"""What the other papers measure, as far as it needs no data that is not here, as one JSON file.

    python papers.py FOLDER papers.json

FOLDER has the weights of `train.py`; models that it lacks are trained. The sidecar's program has every score it knows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import data
import measures
import numpy as np
import torch
from evaluate import evaluate
from measures import Floats, Labels
from plan import SEEDS, Settings, plan
from scipy import stats
from score import rounded
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.tree import DecisionTreeClassifier
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, interpolate
from train import built, file_of, train

import conceptwatch
from conceptwatch import Categorical, prompt

Helper = Callable[[Floats, Labels, Floats, int], Floats]

# Table 1 of the impurity paper (P1). A SAP near 0.49 shows that its concepts are independent.
ROWS, CONCEPTS = 3000, 5
TABLE_1 = ("ois", "nis", "sap", "mig", "r4", "dci_disentanglement")
# Weights of sparsity, precision and accuracy in Table 3 of the Clarity paper (P2).
WEIGHTS = ((0.1, 0.4, 1.0), (0.1, 0.3, 0.8), (0.1, 0.3, 0.7), (0.1, 0.4, 0.9), (0.2, 0.4, 1.0))
# Sides of the box in pixels of a 32 x 32 image: 90 of 224 as in the trustworthiness paper (P3), and a larger one.
SIDES = (13, 20)
TEXT_SCORES = ("concept_score", "bleu", "meteor", "rouge_l")
# ConceptScore and Ref-ConceptScore in Figure 2 of P4.
FIGURE_2 = {"unchanged": (0.5625, 0.6958), "replaced": (0.3811, 0.5297), "reordered": (0.5136, 0.6513)}
# The helper networks (P1, Appendix A.3) are trained as the sidecar trains them.
EPOCHS, BATCH, RATE = 25, 512, 1e-3


def scores_of(names: Sequence[str], **tensors: Any) -> dict[str, float]:
    found = conceptwatch.score(scores=names, threads=1, **tensors)
    return {name: float(found[name]) for name in names}


def table_1(impure: bool, seed: int) -> tuple[Floats, Labels]:
    """Activations near 0 or 1 that say nothing but their concept, or where they fall within 0.05 the others' state."""
    random = np.random.default_rng(seed)
    c = random.integers(0, 2, (ROWS, CONCEPTS))
    within = random.random(c.shape)
    if impure:
        powers = 2 ** np.arange(CONCEPTS - 1)
        within = (np.stack([np.delete(c, i, 1) @ powers for i in range(CONCEPTS)], 1) + within) / 2 ** (CONCEPTS - 1)
    return 0.95 * c + 0.05 * within, c


def table_1_scores(impure: bool, seed: int) -> dict[str, float]:
    x, c = table_1(impure, seed)
    return {
        **scores_of(TABLE_1, concept_activations=x, concept_labels=c),
        "modularity": measures.modularity(measures.informations(measures.bins_of_equal_width(x), c)),
        "modularity, equal counts": measures.modularity(measures.informations(measures.bins_of_equal_count(x), c)),
        "explicitness": measures.explicitness(x, c),
    }


def networks(hidden: int) -> Helper:
    """The authors' helper, one for each pair of concepts, all trained at once: a hidden layer, started as by Keras."""

    def predict(x: Floats, c: Labels, test: Floats, seed: int) -> Floats:
        torch.manual_seed(seed)
        k = c.shape[1]
        # Network k·i + j reads column i and predicts concept j.
        read, target = torch.arange(k).repeat_interleave(k), torch.from_numpy(c).float().T.repeat(k, 1)
        bound = (6 / (1 + hidden)) ** 0.5
        draw = lambda *shape: (torch.rand(k * k, *shape) * 2 - 1) * bound  # noqa: E731
        weights = [draw(1, hidden), torch.zeros(k * k, 1, hidden), draw(hidden, 1), torch.zeros(k * k, 1, 1)]
        optimiser = torch.optim.Adam([one.requires_grad_() for one in weights], lr=RATE)

        def logits(rows: Tensor) -> Tensor:
            inner = torch.relu(rows.T[read].unsqueeze(2) @ weights[0] + weights[1])
            return (inner @ weights[2] + weights[3]).squeeze(2)

        inputs = torch.from_numpy(x).float()
        for _ in range(EPOCHS):
            for chosen in torch.randperm(len(x)).split(BATCH):
                # Summed over networks, of which none shares a weight.
                loss = binary_cross_entropy_with_logits(logits(inputs[chosen]), target[:, chosen]) * k * k
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        with torch.no_grad():
            return logits(torch.from_numpy(test).float()).reshape(k, k, -1).double().numpy()

    return predict


def each(model: Callable[[], Any]) -> Helper:
    def predict(x: Floats, c: Labels, test: Floats, seed: int) -> Floats:
        fit = lambda i, j: model().fit(x[:, [i]], c[:, j]).predict_proba(test[:, [i]])[:, 1]  # noqa: E731
        return np.array([[fit(i, j) for j in range(c.shape[1])] for i in range(c.shape[1])])

    return predict


HELPERS: dict[str, Helper] = {
    "logistic": each(LogisticRegression),
    **{f"{hidden} units": networks(hidden) for hidden in (8, 32, 64)},
    "tree": each(lambda: DecisionTreeClassifier(min_samples_leaf=20)),
}


def ois(x: Floats, c: Labels, helper: Helper, seed: int) -> float:
    """Definition 3.2 with a helper of choice; each of the two matrices has a split of its own."""

    def purity(inputs: Floats, own: int) -> Floats:
        order = np.random.default_rng([seed, own]).permutation(len(c))
        train, test = np.split(order, [len(c) * 4 // 5])
        found = helper(inputs[train], c[train], inputs[test], seed)
        return np.array([[roc_auc_score(c[test, j], cell) for j, cell in enumerate(row)] for row in found])

    oracle = purity(c.astype(float), 1)
    np.fill_diagonal(oracle, 1)
    return float(2 / c.shape[1] * np.linalg.norm(purity(x, 0) - oracle))


def of_plan(folder: Path, **wanted: Any) -> list[Settings]:
    """The settings of the plan's models, which are trained if they are not."""
    found = [of for of in plan() if all(of[key] == value for key, value in wanted.items())]
    for of in found:
        if not file_of(of, folder).exists():
            train(of, folder)
    return found


def outputs(of: Settings, folder: Path) -> tuple[Floats, Labels]:
    found = evaluate(of, folder).tensors
    x, c = found["concept_activations"], found["concept_labels"]
    return x.numpy().astype(np.float64), c.numpy().astype(np.int64)


def ablation(folder: Path) -> dict[str, dict[str, list[float]]]:
    """OIS of the rows of Table 1, and of drawn shapes as in Appendix A.4, by the helper that it uses."""
    made = {name: [table_1(name == "impure", seed) for seed in range(SEEDS)] for name in ("pure", "impure")}
    for kind in ("soft", "logit"):
        models = of_plan(folder, data="sprites", kind=kind, weight=1.0)
        made[kind] = [outputs(of, folder) for of in models]
    return {
        name: {
            helper: [ois(x, c, predict, seed) for seed, (x, c) in enumerate(pairs)]
            for helper, predict in HELPERS.items()
        }
        for name, pairs in made.items()
    }


def holes() -> dict[str, float]:
    """A concept of three unequal classes, the holes of a blurred digit: its AUC one against all, and over pairs."""
    split = data.tasks.DRAW["digits-10-blurred"](np.random.default_rng(0))
    number = np.array([1, 0, 0, 0, 0, 0, 1, 0, 2, 1])
    fit = LogisticRegression(max_iter=1000).fit(split.train.x, number[split.train.y])
    shares, classes = fit.predict_proba(split.val.x), number[split.val.y]
    pairs = scores_of(
        ["concept_auc"],
        concepts=[Categorical("holes", 3)],
        concept_activations=shares,
        concept_labels=classes[:, None],
    )
    return {"one against all": measures.one_vs_all_auc(shares, classes), "pairs": pairs["concept_auc"]}


def digits(folder: Path) -> list[dict[str, float]]:
    """Models on digits: the parts of Clarity, scores of their concepts as texts, and the drop under intervention."""
    names = (*data.tasks.INCOMPLETE, "even", "triple", "high")

    def text(weights: Iterable[float]) -> str:
        return prompt(1, {name: round(float(weight), 1) for name, weight in zip(names, weights, strict=True)}, top=3)

    def line(of: Settings) -> dict[str, float]:
        found = evaluate(of, folder)
        tensors = found.tensors
        p, c = found.probabilities.numpy(), tensors["concept_labels"].numpy()
        parts = scores_of(
            ["sparsity", "precision", "task_accuracy", "clarity"],
            concept_activations=p,
            **{name: tensors[name] for name in ("concept_labels", "task_labels", "task_logits")},
        )
        texts = scores_of(
            TEXT_SCORES,
            image_embeddings=c,
            predicted_text_embeddings=p,
            predicted_text=[text(row) for row in p],
            reference_text=[text(row) for row in c],
        )
        return {**parts, **texts, "drop": found.accuracies[0] - found.accuracies[-1]}

    models = of_plan(folder, data="digits-10-complete")
    return [line(of) for of in models if of["kind"] != "hard"]


def clarity(models: list[dict[str, float]]) -> dict[str, Any]:
    """Pearson's r of Clarity, its parts and its variants with the accuracy that interventions keep."""
    parts = np.array([[model[name] for name in ("sparsity", "precision", "task_accuracy")] for model in models])
    kept = -np.array([model["drop"] for model in models])
    r = lambda values: float(np.corrcoef(values, kept)[0, 1])  # noqa: E731
    harmonic, sound = measures.power_mean(parts, -1), kept > -0.05
    assert np.allclose(harmonic, [model["clarity"] for model in models], atol=1e-6), "the sidecar has another Clarity"
    groups = harmonic[sound], harmonic[~sound]
    return {
        "clarity": r(harmonic),
        **{name: r(parts[:, at]) for at, name in enumerate(("sparsity", "precision", "accuracy"))},
        "geometric": r(measures.power_mean(parts, 0)),
        "arithmetic": r(measures.power_mean(parts, 1)),
        "weights": [r(measures.power_mean(parts, -1, weights)) for weights in WEIGHTS],
        "d": measures.cohens_d(
            *(tuple(of(group) for group in groups) for of in (np.mean, lambda x: np.std(x, ddof=1)))
        ),
        "sound": [int(sound.sum()), len(models)],
    }


def combination(models: list[dict[str, float]]) -> dict[str, Any]:
    """Kendall's τ of text scores with the accuracy that interventions keep, and of means of them (P4, Appendix I)."""
    kept = [-model["drop"] for model in models]
    columns = {name: stats.zscore([model[name] for model in models]) for name in TEXT_SCORES}

    def value(names: Sequence[str]) -> float:
        return float(stats.kendalltau(sum(columns[name] for name in names), kept).statistic) if names else 0.0

    chosen = measures.greedy(value, TEXT_SCORES)
    tau = {name: value([name]) for name in TEXT_SCORES}
    shares = measures.shapley(value, TEXT_SCORES)
    return {"tau": tau, "shapley": shares, "all": value(TEXT_SCORES), "chosen": chosen, "best": value(chosen)}


def trust(folder: Path) -> list[dict[str, float]]:
    """Whether boxes around Grad-CAM's maxima have one of the shape's four outermost points, as the sidecar reads eq. 1,
    or all of them, with the maxima of the image or of another one; and how many shapes fit into a box at all."""

    def line(of: Settings) -> dict[str, float]:
        peaks, points, c = localised(of, folder)
        present = [c[:, i] > 0 for i in range(3)]
        found = {}
        for side in SIDES:
            given = {"localization_peaks": peaks, "part_locations": points, "concept_labels": c}
            box = {"image_size": (32, 32), "box_size": (side, side), "concept_parts": [[0, 1, 2, 3]] * 3}
            found[f"a part {side}"] = scores_of(["concept_trustworthiness"], **given, **box)["concept_trustworthiness"]
            held, others = (measures.inside(those, points, side) for those in (peaks, np.roll(peaks, 1, axis=0)))
            fits = np.ptp(points, axis=1).max(1) <= side
            for name, holds in (
                ("a part, other image", others.any(2)),
                ("all", held.all(2)),
                ("all, other image", others.all(2)),
                ("fits", np.repeat(fits[:, None], 3, 1)),
            ):
                found[f"{name} {side}"] = float(np.mean([holds[rows, i].mean() for i, rows in enumerate(present)]))
        return found

    return [line(of) for of in of_plan(folder, data="sprites", kind="soft", weight=1.0)]


def localised(of: Settings, folder: Path) -> tuple[Floats, Floats, Labels]:
    """Maxima of Grad-CAM for ellipse, heart and large [n, 3, 2], a shape's outermost points [n, 4, 2], and labels."""
    parts = data.parts(of)
    model = built(of, parts)
    model.load_state_dict(torch.load(file_of(of, folder))["state"])
    x = parts.test.x
    # After the last convolution: [n, 32, 4, 4].
    features = model.encoder[:6](x).detach().requires_grad_()
    logits = model.encoder[6:](features)
    maps = []
    for i in range(3):
        (slope,) = torch.autograd.grad(logits[:, i].sum(), features, retain_graph=True)
        maps.append(torch.relu((slope.mean((2, 3), keepdim=True) * features).sum(1)))
    large = interpolate(torch.stack(maps, 1), size=(32, 32), mode="bicubic").detach().flatten(2)
    at = large.argmax(2).numpy()
    peaks = np.stack([at // 32, at % 32], 2) + 0.5
    drawn = x[:, 0].numpy() > 0.5
    points = np.full((len(x), 4, 2), np.nan)
    for row, image in enumerate(drawn):
        places = np.argwhere(image) + 0.5
        if len(places):
            points[row] = places[[*places.argmin(0), *places.argmax(0)]]
    return peaks, points, parts.test.c[:, :3].numpy().astype(np.int64)


def replaced() -> dict[str, dict[str, float]]:
    """Figure 2 of P4, eight of 80 concepts in each of 200 images: the most important replaced by absent ones, or all
    reordered. The vector of the concepts' weights stands for the encoder."""
    random = np.random.default_rng(0)
    colours = ("black", "white", "brown", "grey", "red", "yellow", "blue", "green")
    parts = ("wing", "belly", "bill", "crown", "back", "tail", "throat", "breast", "nape", "eye")
    names = [f"{colour} {part}" for part in parts for colour in colours]
    order = np.array([random.permutation(len(names)) for _ in range(200)])
    weights = np.arange(8, 0, -1)

    def given(concepts: Labels, weights: Labels) -> tuple[Floats, list[str]]:
        vectors = np.zeros((len(concepts), len(names)))
        np.put_along_axis(vectors, concepts, np.broadcast_to(weights, concepts.shape), 1)
        return vectors, [prompt(1, {names[at]: row[at] for at in np.flatnonzero(row)}, top=8) for row in vectors]

    truth, reference = given(order[:, :8], weights)
    made = {
        name: given(np.concatenate([order[:, 8 : 8 + count], order[:, count:8]], 1), weights)
        for name, count in {"unchanged": 0, "first replaced": 1, "four replaced": 4}.items()
    }
    made["reordered"] = given(order[:, :8], random.permuted(np.tile(weights, (200, 1)), axis=1))
    return {
        name: scores_of(
            TEXT_SCORES,
            image_embeddings=truth,
            predicted_text_embeddings=vectors,
            predicted_text=texts,
            reference_text=reference,
        )
        for name, (vectors, texts) in made.items()
    }


def planted() -> dict[str, list[float]]:
    """Scores that no paper gives a number for: the value that a sample was made to have, and the one that is found."""
    random, rows = np.random.default_rng(0), 2000
    normal = random.standard_normal((rows, 4))
    y = np.arange(rows) % 2
    c = random.random((rows, 4)) < (uniform := random.random((rows, 4)))
    # Variances of one and three, about the mean of the two logits.
    head, side = np.array([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]]), np.sqrt(3) * random.standard_normal(rows)
    # The first concept holds in half of the rows and the second in a tenth of those, where the latent of the first is
    # silent and its own fires. Another latent never does.
    parent = y == 1
    child = parent & (np.arange(rows) % 20 == 1)
    fired = np.stack([parent & ~child, child, np.zeros(rows)], 1).astype(float)
    hierarchy = {"concept_activations": fired, "concept_labels": np.stack([parent, child], 1), "latents": 3}
    noisy = np.where(random.random(rows) < 0.1, 1 - y, y)
    given: dict[str, tuple[float, dict[str, Any]]] = {
        "number_of_contributing_concepts": (  # of 1, 1/2, ... to 1/512 the first five are 97 %, the first four 94 %
            5.0,
            {"concept_activations": np.ones((rows, 10)), "head_weights": 0.5 ** np.arange(10)[None]},
        ),
        "side_channel_share": (
            0.75,
            {
                "concept_activations": normal,
                "activation_kind": "logit",
                "head_weights": head,
                "task_logits": normal @ head.T + np.stack([side, -side], 1),
            },
        ),
        "concept_ablation_drop": (
            float((noisy == y).mean() - 0.5),
            {"task_labels": y, "task_predictions": noisy, "ablated_task_predictions": np.zeros(rows, int)},
        ),
        "random_concept_baseline": (  # one random direction of two, at a uniform angle to the one that decides
            0.75,
            {
                "task_labels": normal[:, 0] > 0,
                "concept_embeddings": normal[:, None, :2],
                "concept_activations": uniform[:, :1],
                "concept_labels": c[:, :1],
            },
        ),
        "concept_brier": (1 / 6, {"concept_activations": uniform, "concept_labels": c}),
        "concept_ece": (0.0, {"concept_activations": uniform, "concept_labels": c}),
        "dead_latents": (1 / 3, hierarchy),
        "absorption": (0.1 / 2, hierarchy),
    }

    def found(name: str, tensors: dict[str, Any]) -> float:
        """The mean over seeds, which random directions differ by."""
        return float(np.mean([scores_of([name], seed=seed, **tensors)[name] for seed in range(20)]))

    return {name: [truth, found(name, tensors)] for name, (truth, tensors) in given.items()}


def short(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: short(value) for key, value in found.items()}
    if isinstance(found, list):
        return [short(value) for value in found]
    return rounded(found) if isinstance(found, float) else found


def main() -> None:
    folder, file = (Path(argument) for argument in sys.argv[1:3])
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    models = digits(folder)
    found = {
        "table_1": {
            kind: [table_1_scores(kind == "impure", seed) for seed in range(SEEDS)] for kind in ("pure", "impure")
        },
        "helpers": ablation(folder),
        "holes": holes(),
        "clarity": clarity(models),
        "trust": trust(folder),
        "replaced": replaced(),
        "implied_cosine": {name: measures.implied_cosine(*pair) for name, pair in FIGURE_2.items()},
        "combination": combination(models),
        "planted": planted(),
    }
    file.write_text(json.dumps(short(found), indent=1) + "\n")


if __name__ == "__main__":
    main()
