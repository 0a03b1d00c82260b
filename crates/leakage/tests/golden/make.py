"""Writes mutual_information.json, mutual information (nats) by scikit-learn to compare the estimators with, and
scores.json, scores by their published formulas to compare the catalogue with; and linear.json, linear classifiers.

Run from the repository's root:

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install 'scikit-learn==1.9.*' numpy
    /tmp/golden/bin/python crates/leakage/tests/golden/make.py

The steps are those of sklearn.feature_selection's mutual_info_classif and mutual_info_regression, without their noise,
scaling and clipping, on data without ties. Those functions take one column at a time, so vectors and other numbers of
neighbours need the steps written out; where a column can be given to them as it is, the result is checked against them.

Vectors ask for algorithm="kd_tree": the default above 15 coordinates takes distances from dot products, whose rounding
puts the k-th neighbour inside its own ball in half of the rows.
"""

import json
import pathlib

import numpy as np
import sklearn
from scipy.stats import hmean
from sklearn.feature_selection._mutual_info import _compute_mi_cc, _compute_mi_cd
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, mutual_info_score, roc_auc_score
from sklearn.neighbors import KDTree, NearestNeighbors
from sklearn.svm import LinearSVC

assert sklearn.__version__.startswith("1.9."), sklearn.__version__


def psi(values):
    """The digamma function at positive integers."""
    table = np.concatenate([[np.nan, 0.0], np.cumsum(1.0 / np.arange(1, 20_000))]) - np.euler_gamma
    return table[np.asarray(values, dtype=int)]


def columns(values):
    return values.reshape(len(values), -1)


def within(points, radii, metric):
    """Points no further than each radius, the point itself included."""
    return np.asarray(KDTree(points, metric=metric).query_radius(points, radii, count_only=True))


def continuous_continuous(x, y, k):
    x, y = columns(x), columns(y)
    nearest = NearestNeighbors(metric="chebyshev", n_neighbors=k, algorithm="kd_tree").fit(np.hstack([x, y]))
    radii = np.nextafter(nearest.kneighbors()[0][:, -1], 0)
    inside = [within(side, radii, "chebyshev") for side in (x, y)]
    return psi(len(x)) + psi(k) - np.mean(psi(inside[0])) - np.mean(psi(inside[1]))


def continuous_discrete(x, labels, k):
    x = columns(x)
    radii, sizes, neighbours = np.zeros(len(x)), np.zeros(len(x)), np.zeros(len(x))
    for label in np.unique(labels):
        own = labels == label
        sizes[own] = own.sum()
        if own.sum() < 2:
            continue
        neighbours[own] = min(k, own.sum() - 1)
        nearest = NearestNeighbors(n_neighbors=int(min(k, own.sum() - 1)), algorithm="kd_tree").fit(x[own])
        radii[own] = np.nextafter(nearest.kneighbors()[0][:, -1], 0)
    kept = sizes > 1
    inside = within(x[kept], radii[kept], "euclidean")
    return psi(kept.sum()) + np.mean(psi(neighbours[kept])) - np.mean(psi(sizes[kept])) - np.mean(psi(inside))


def agrees(ours, theirs):
    assert abs(max(ours, 0.0) - theirs) < 1e-9, (ours, theirs)
    return ours


def main():
    random = np.random.default_rng(20_250_101)
    cases = []

    def rounded(values):
        """To 9 digits: short in the file, and free of ties all the same."""
        values = np.round(values, 9)
        flat = columns(values)
        assert all(len(np.unique(column)) == len(column) for column in flat.T)
        return values

    for rho, n, k in [(0.0, 200, 3), (0.6, 200, 3), (0.95, 300, 3), (-0.8, 150, 1), (0.6, 250, 10)]:
        x = random.normal(size=n)
        y = rounded(rho * x + np.sqrt(1 - rho**2) * random.normal(size=n))
        x = rounded(x)
        value = agrees(continuous_continuous(x, y, k), _compute_mi_cc(x.copy(), y.copy(), k))
        cases.append(
            {
                "name": f"gaussian, correlation {rho}",
                "neighbours": k,
                "value": value,
                "x": {"scalar": x.tolist()},
                "y": {"scalar": y.tolist()},
            }
        )

    for shift, classes, n, k in [(0.0, 2, 200, 3), (1.0, 3, 300, 3), (4.0, 2, 150, 1), (0.7, 5, 250, 8)]:
        labels = random.integers(classes, size=n)
        x = rounded(shift * labels + random.normal(size=n))
        value = agrees(continuous_discrete(x, labels, k), _compute_mi_cd(x.copy(), labels.copy(), k))
        cases.append(
            {
                "name": f"{classes} classes, shift {shift}",
                "neighbours": k,
                "value": value,
                "x": {"scalar": x.tolist()},
                "y": {"discrete": labels.tolist()},
            }
        )

    # Classes of one and of two rows: the first is left out, the second has one neighbour.
    labels = np.concatenate([random.integers(2, size=97), [7, 8, 8]])
    x = rounded(random.normal(size=100) + labels / 4)
    value = agrees(continuous_discrete(x, labels, 3), _compute_mi_cd(x.copy(), labels.copy(), 3))
    cases.append(
        {
            "name": "small classes",
            "neighbours": 3,
            "value": value,
            "x": {"scalar": x.tolist()},
            "y": {"discrete": labels.tolist()},
        }
    )

    for width, n in [(2, 200), (4, 200), (8, 150), (16, 150)]:
        labels = random.integers(3, size=n)
        x = random.normal(size=(n, width))
        x[:, 0] += 1.5 * labels
        x = rounded(x)
        cases.append(
            {
                "name": f"{width} coordinates against 3 classes",
                "neighbours": 3,
                "value": continuous_discrete(x, labels, 3),
                "x": {"vector": x.ravel().tolist(), "width": width},
                "y": {"discrete": labels.tolist()},
            }
        )

    x = random.normal(size=(200, 3))
    # Spreads are alike, as scikit-learn takes columns as they come.
    y = rounded(0.7 * (x[:, 0] + x[:, 1] + 0.5 * random.normal(size=200)))
    x = rounded(x)
    cases.append(
        {
            "name": "3 coordinates against a scalar",
            "neighbours": 3,
            "value": continuous_continuous(x, y, 3),
            "x": {"vector": x.ravel().tolist(), "width": 3},
            "y": {"scalar": y.tolist()},
        }
    )

    x, y = random.integers(4, size=300), random.integers(3, size=300)
    y = np.where(random.random(300) < 0.5, x % 3, y)
    cases.append(
        {
            "name": "two discrete variables",
            "neighbours": 3,
            "value": mutual_info_score(x, y),
            "x": {"discrete": x.tolist()},
            "y": {"discrete": y.tolist()},
        }
    )

    crates = pathlib.Path(__file__).resolve().parents[3]
    path = crates / "information/tests/golden/mutual_information.json"
    made_with = {"scikit-learn": sklearn.__version__, "numpy": np.__version__}
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    path.write_text(f'{{"made_with":{json.dumps(made_with)},"cases":[\n{lines}\n]}}\n')
    print(f"{len(cases)} cases, {path.stat().st_size} bytes")
    write_scores(made_with)
    write_linear(made_with)


def entropy(labels):
    share = np.unique(labels, return_counts=True)[1] / len(labels)
    return -np.sum(share * np.log(share))


def spread(values):
    """A matrix over pairs i != j with its mean over the others of each row, and over all."""
    k = len(values)
    return {
        "value": values.sum() / (k * (k - 1)),
        "per_concept": (values.sum(axis=1) / (k - 1)).tolist(),
        "matrix": values.tolist(),
    }


def averaged(values):
    return {"value": np.mean(values), "per_concept": list(map(float, values))}


def twice(name, values, summary):
    return {name: summary(np.maximum(values, 0)), f"{name}_excess": summary(values)}


def leakage(activations, labels, task, neighbours=3):
    """CTL, ICL (eq. 6-9 of arXiv:2504.14094) and icl_label. Without ties the estimate of I(x; x) is a constant."""
    n, k = activations.shape
    self_information = psi(n) - psi(neighbours) - 1 / neighbours
    ctl = [
        (continuous_discrete(activations[:, i], task, neighbours) - mutual_info_score(labels[:, i], task))
        / entropy(task)
        for i in range(k)
    ]
    icl, icl_label = np.zeros((k, k)), np.zeros((k, k))
    for i in range(k):
        for j in (j for j in range(k) if j != i):
            true = mutual_info_score(labels[:, i], labels[:, j])
            icl[i, j] = continuous_continuous(
                activations[:, i], activations[:, j], neighbours
            ) / self_information - true / np.sqrt(entropy(labels[:, i]) * entropy(labels[:, j]))
            learnt = continuous_discrete(activations[:, i], labels[:, j], neighbours)
            icl_label[i, j] = (learnt - true) / entropy(labels[:, j])
    return {
        **twice("ctl", np.array(ctl), averaged),
        **twice("icl", icl, spread),
        **twice("icl_label", icl_label, spread),
    }


def alignment(positive, negative, labels, task):
    """Eq. 13, both groups cut to the smaller one's size."""

    def share(vectors, rows):
        return continuous_discrete(vectors[rows], task[rows], 3) / entropy(task[rows])

    values = []
    for i in range(labels.shape[1]):
        present, absent = np.flatnonzero(labels[:, i]), np.flatnonzero(labels[:, i] == 0)
        size = min(len(present), len(absent))
        present, absent = present[:size], absent[:size]
        values.append(
            share(positive[:, i], present)
            - share(positive[:, i], absent)
            + share(negative[:, i], absent)
            - share(negative[:, i], present)
        )
    return averaged(values)


def clarity(active, present, accuracy):
    """Eq. 23 of the Clarity paper and its parts; rows without an active concept have no precision."""
    some = active.sum(axis=1) > 0
    parts = {
        "sparsity": 1 - active.mean(),
        "precision": np.mean((active * present).sum(axis=1)[some] / active.sum(axis=1)[some]),
        "accuracy": accuracy,
    }
    return {
        "sparsity": averaged(1 - active.mean(axis=0)),
        "precision": {"value": parts["precision"]},
        "rows_without_active": {"value": 1 - some.mean()},
        "binary_accuracy": averaged((active == present).mean(axis=0)),
        "clarity": {"value": hmean(list(parts.values()))},
        "clarity_dense": {"value": hmean([parts["precision"], parts["accuracy"]])},
    }


def mig(codes, labels):
    """disentanglement_lib's: 20 bins of equal width, the gap of the two largest informations over the entropy."""
    binned = [np.digitize(code, np.histogram(code, 20)[1][:-1]) for code in codes.T]
    gaps = []
    for label in labels.T:
        second, first = sorted(mutual_info_score(code, label) for code in binned)[-2:]
        gaps.append((first - second) / entropy(label))
    return averaged(gaps)


def write_linear(made_with):
    """The linear classifier of SAP, disentanglement_lib's, on one code: LinearSVC(C=0.01, class_weight="balanced")."""
    random = np.random.default_rng(20_250_103)
    cases = []
    for name, classes, shift in [("two", 2, 1.0), ("two, few present", 2, 0.4), ("three", 3, 1.0), ("four", 4, 0.5)]:
        n, train = 250, 200
        share = [0.85, 0.15] if "few" in name else np.full(classes, 1 / classes)
        labels = random.choice(classes, size=n, p=share)
        x = np.round(random.normal(size=n) + shift * labels, 9)
        svm = LinearSVC(C=0.01, class_weight="balanced", dual=False, tol=1e-12, max_iter=100_000)
        svm.fit(x[:train, None], labels[:train])
        hits = (svm.predict(x[train:, None]) == labels[train:]).astype(int)
        case = {"name": name, "x": x.tolist(), "labels": labels.tolist(), "train": train, "hits": hits.tolist()}
        if classes == 2:
            case["line"] = [svm.coef_[0, 0], svm.intercept_[0]]
        cases.append(case)
    path = pathlib.Path(__file__).with_name("linear.json")
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    path.write_text(f'{{"made_with":{json.dumps(made_with)},"cases":[\n{lines}\n]}}\n')
    print(f"{len(cases)} cases, {path.stat().st_size} bytes")


def write_scores(made_with):
    random = np.random.default_rng(20_250_102)
    cases = []

    def add(name, fields, arrays, scores):
        given = {key: {"dims": value.shape[1:], "values": value.ravel().tolist()} for key, value in arrays.items()}
        cases.append({"name": name, **fields, "arrays": given, "scores": scores})

    n, k = 160, 3
    shared = random.integers(2, size=(n, 1))
    labels = np.where(random.random((n, k)) < 0.4, shared, random.random((n, k)) < [0.5, 0.3, 0.6]).astype(int)
    task = np.minimum(labels.sum(axis=1), 2)
    task = np.where(random.random(n) < 0.2, random.integers(3, size=n), task)
    logits = np.round(2 * labels - 1 + 0.5 * task[:, None] + random.normal(size=(n, k)), 9)
    assert all(len(np.unique(column)) == n for column in logits.T)
    head = np.round(np.eye(3)[task] + random.normal(size=(n, 3)), 6)
    positive, negative = (np.round(random.normal(size=(n, k, 2)) + task[:, None, None], 9) for _ in range(2))
    embeddings = np.round(random.normal(size=(n, k, 4)) + labels[:, :, None] + 0.4 * task[:, None, None], 9)
    present = (logits > 0).astype(int)
    information = [
        [continuous_discrete(embeddings[:, i], c, 3) / entropy(c) for c in (*labels.T, task)] for i in range(k)
    ]
    to_labels = np.array(information)[:, :k]
    add(
        "binary concepts, logits",
        {"activation_kind": "logit", "cardinalities": [0] * k},
        {
            "concept_activations": logits,
            "concept_labels": labels,
            "task_labels": task,
            "task_logits": head,
            "positive_embeddings": positive,
            "negative_embeddings": negative,
            "concept_embeddings": embeddings,
        },
        {
            **leakage(logits, labels, task),
            "alignment_leakage": alignment(positive, negative, labels, task),
            "embedding_ct": averaged(np.array(information)[:, k]),
            "embedding_self": averaged(np.diag(to_labels)),
            "embedding_ic": spread(to_labels - np.diag(np.diag(to_labels))),
            "task_accuracy": {"value": accuracy_score(task, head.argmax(axis=1))},
            "concept_accuracy": averaged((present == labels).mean(axis=0)),
            "concept_f1": averaged([f1_score(labels[:, i], present[:, i]) for i in range(k)]),
            "concept_auc": averaged([roc_auc_score(labels[:, i], logits[:, i]) for i in range(k)]),
            "concept_average_precision": averaged(
                [average_precision_score(labels[:, i], logits[:, i]) for i in range(k)]
            ),
            "mig": mig(logits, labels),
            **clarity(present, labels, accuracy_score(task, head.argmax(axis=1))),
        },
    )

    n, cardinalities = 120, [3, 2, 4]
    # The last concept's class 3 occurs neither among the labels nor among the predictions.
    labels = np.stack([random.integers(min(cardinality, 3), size=n) for cardinality in cardinalities], axis=1)
    blocks = []
    for i, cardinality in enumerate(cardinalities):
        strength = 1.2 * np.eye(cardinality)[labels[:, i]] + random.normal(size=(n, cardinality))
        strength[:, 3:] -= 20
        share = np.exp(strength)
        # Each class's share in 1/4096: exact in binary, and the row sums to 1.
        share = np.round(4096 * share / share.sum(axis=1, keepdims=True)) / 4096
        share[:, 0] += 1 - share.sum(axis=1)
        blocks.append(share if cardinality > 2 else share[:, 1:])
    classes = [block.argmax(axis=1) if block.shape[1] > 1 else (block[:, 0] > 0.5).astype(int) for block in blocks]

    def auc(i):
        if blocks[i].shape[1] == 1:
            return roc_auc_score(labels[:, i], blocks[i][:, 0])
        a_class_that_never_occurs = blocks[i][:, 3:].sum(axis=1)
        assert np.all(a_class_that_never_occurs == 0)
        return roc_auc_score(labels[:, i], blocks[i][:, :3], multi_class="ovo")

    def average_precision(i):
        if blocks[i].shape[1] == 1:
            return average_precision_score(labels[:, i], blocks[i][:, 0])
        return np.mean([average_precision_score(labels[:, i] == c, blocks[i][:, c]) for c in range(3)])

    add(
        "categorical concepts, probabilities",
        {"activation_kind": "probability", "cardinalities": cardinalities},
        {"concept_activations": np.hstack(blocks), "concept_labels": labels},
        {
            "concept_accuracy": averaged([(classes[i] == labels[:, i]).mean() for i in range(3)]),
            "concept_f1": averaged(
                [f1_score(labels[:, i], classes[i], average="macro" if i != 1 else "binary") for i in range(3)]
            ),
            "concept_auc": averaged([auc(i) for i in range(3)]),
            "concept_average_precision": averaged([average_precision(i) for i in range(3)]),
        },
    )

    path = pathlib.Path(__file__).with_name("scores.json")
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    path.write_text(f'{{"made_with":{json.dumps(made_with)},"cases":[\n{lines}\n]}}\n')
    print(f"{len(cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
