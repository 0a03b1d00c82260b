"""Writes clusters.json: the concept alignment score by scikit-learn-extra's k-medoids and scikit-learn's homogeneity.

Run from the repository's root, with Python 3.11 or older:

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install 'scikit-learn==1.5.*' 'scikit-learn-extra==0.3.*' 'numpy==1.26.*'
    /tmp/golden/bin/python crates/leakage/tests/golden/clusters.py

Rows are the fractional parts of multiples of square roots of primes: 60 rows of a binary and a three-class concept,
each with a number and with three coordinates.
"""

import importlib.metadata
import json
import pathlib
import warnings

import numpy as np
from sklearn.metrics import homogeneity_score
from sklearn_extra.cluster import KMedoids

ROWS, STEPS = 60, 50


def score(points, labels):
    # The library's own distances are rounded, which decides between the two rows of a cluster of two.
    distances = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    curve = []
    for clusters in np.linspace(2, ROWS, STEPS).astype(int):
        found = KMedoids(n_clusters=clusters, metric="precomputed", random_state=0).fit_predict(distances)
        curve.append(homogeneity_score(labels, found))
    return float(np.trapz(curve) / np.trapz(np.ones(STEPS)))


def main():
    warnings.simplefilter("ignore")
    numbers = np.arange(1, ROWS + 1, dtype=float)
    parts = (numbers[:, None] * np.sqrt(np.array([2.0, 3, 5, 7, 11]))) % 1.0
    binary = (parts[:, 0] < 0.4).astype(int)
    three = np.floor(3.0 * parts[:, 1]).astype(int)
    cases = []
    for labels in (binary, three):
        for points in (labels[:, None] + 1.5 * parts[:, 2:3], labels[:, None] + 1.2 * parts[:, 2:5]):
            cases.append({"classes": int(labels.max()) + 1, "width": points.shape[1], "score": score(points, labels)})
    made_with = {name: importlib.metadata.version(name) for name in ("scikit-learn", "scikit-learn-extra", "numpy")}
    path = pathlib.Path(__file__).with_name("clusters.json")
    path.write_text(json.dumps({"made_with": made_with, "cases": cases}, separators=(",", ":")) + "\n")
    print(cases)


if __name__ == "__main__":
    main()
