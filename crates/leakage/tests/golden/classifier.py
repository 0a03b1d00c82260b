"""Writes classifier.json: the losses of scikit-learn's MLPClassifier by epoch, as the Niche Impurity Score trains it.

Run from the repository's root:

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install 'scikit-learn==1.9.*' 'numpy==2.4.*'
    /tmp/golden/bin/python crates/leakage/tests/golden/classifier.py

Rows are the fractional parts of multiples of square roots of primes, which every program computes to the same bits:
1,200 rows of 5 binary concepts, and activations near 0 or 1 whose place within [0, 0.05] or [0.95, 1] is random (even
seeds) or says what the other four concepts are (odd seeds). Seed s takes the rows from 1,200 s on and random_state s.
"""

import importlib.metadata
import json
import pathlib
import warnings

import numpy as np
from sklearn.neural_network import MLPClassifier

ROWS, CONCEPTS, SEEDS = 1200, 5, 20
PRIMES = np.array([2, 3, 5, 7, 11, 13, 17, 19, 23, 29], dtype=float)


def rows(seed):
    numbers = np.arange(seed * ROWS + 1, (seed + 1) * ROWS + 1, dtype=float)
    parts = (numbers[:, None] * np.sqrt(PRIMES)) % 1.0
    concepts = (parts[:, :CONCEPTS] < 0.5).astype(int)
    place = parts[:, CONCEPTS:]
    if seed % 2:
        for i in range(CONCEPTS):
            others = np.zeros(ROWS)
            for j in range(CONCEPTS):
                if j != i:
                    others = 2.0 * others + concepts[:, j]
            place[:, i] = (others + place[:, i]) / 16.0
    return 0.05 * place + 0.95 * concepts, concepts


def main():
    warnings.simplefilter("error")
    losses = []
    for seed in range(SEEDS):
        activations, concepts = rows(seed)
        classifier = MLPClassifier((20, 20), max_iter=1000, batch_size=512, random_state=seed)
        classifier.fit(activations, concepts)
        losses.append([round(loss, 6) for loss in classifier.loss_curve_])
    path = pathlib.Path(__file__).with_name("classifier.json")
    made_with = {name: importlib.metadata.version(name) for name in ("scikit-learn", "numpy")}
    lines = ",\n".join(json.dumps(curve, separators=(",", ":")) for curve in losses)
    path.write_text(f'{{"made_with":{json.dumps(made_with)},"losses":[\n{lines}\n]}}\n')
    print(f"{len(losses)} curves, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
