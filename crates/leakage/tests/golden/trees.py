"""Writes trees.json: gradient-boosted trees of scikit-learn with its defaults, on columns of at most 60 values.

Run from the repository's root:

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install 'scikit-learn==1.7.*' 'numpy==2.4.*'
    /tmp/golden/bin/python crates/leakage/tests/golden/trees.py

Columns are the fractional parts of multiples of square roots of primes, cut to multiples of 1/60. The first 400 rows
are for training, the next 100 for testing.
"""

import importlib.metadata
import json
import pathlib

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

TRAIN, TEST, LEVELS = 400, 100, 60


def main():
    numbers = np.arange(1, TRAIN + TEST + 1, dtype=float)
    parts = (numbers[:, None] * np.sqrt(np.array([2.0, 3, 5, 7, 11]))) % 1.0
    columns, noise = np.floor(parts[:, :4] * LEVELS) / LEVELS, parts[:, 4]
    flags = (columns[:, 0] + 0.8 * columns[:, 1] * columns[:, 2] + 0.6 * (noise - 0.5) > 0.7).astype(int)
    values = np.sin(6.0 * columns[:, 0]) + 0.5 * noise
    train, test = slice(0, TRAIN), slice(TRAIN, None)
    many = GradientBoostingClassifier(random_state=0).fit(columns[train], flags[train])
    one = GradientBoostingClassifier(random_state=0).fit(columns[train, :1], flags[train])
    number = GradientBoostingRegressor(random_state=0).fit(columns[train, :1], values[train])

    def rounded(array):
        return [round(float(x), 9) for x in array]

    found = {
        "made_with": {name: importlib.metadata.version(name) for name in ("scikit-learn", "numpy")},
        "importances": rounded(many.feature_importances_),
        "log_odds": rounded(many.decision_function(columns[test])),
        "log_odds_of_one_column": rounded(one.decision_function(columns[test, :1])),
        "number_of_one_column": rounded(number.predict(columns[test, :1])),
    }
    path = pathlib.Path(__file__).with_name("trees.json")
    path.write_text(json.dumps(found, separators=(",", ":")) + "\n")
    print(f"{sum(flags)} of {len(flags)} rows are 1, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
