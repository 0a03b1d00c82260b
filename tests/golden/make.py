"""Writes mutual_information.json: mutual information (nats) by scikit-learn, to compare the estimators with.

Run from the repository's root:

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install 'scikit-learn==1.9.*' numpy
    /tmp/golden/bin/python tests/golden/make.py

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
from sklearn.feature_selection._mutual_info import _compute_mi_cc, _compute_mi_cd
from sklearn.metrics import mutual_info_score
from sklearn.neighbors import KDTree, NearestNeighbors

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
    y = rounded(x[:, 0] + x[:, 1] + 0.5 * random.normal(size=200))
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

    path = pathlib.Path(__file__).with_name("mutual_information.json")
    made_with = {"scikit-learn": sklearn.__version__, "numpy": np.__version__}
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    path.write_text(f'{{"made_with":{json.dumps(made_with)},"cases":[\n{lines}\n]}}\n')
    print(f"{len(cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
