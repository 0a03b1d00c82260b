"""Writes agreement.json: ratings of items with Kendall's tau-b, Fleiss' kappa and Krippendorff's alpha.

Run from the repository's root:

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install numpy scipy 'statsmodels==0.15.*' 'krippendorff==0.9.*'
    /tmp/golden/bin/python crates/leakage/tests/golden/agreement.py
"""

import importlib.metadata
import json
import pathlib

import krippendorff
import numpy as np
from scipy.stats import kendalltau
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa


def main():
    random = np.random.default_rng(20_250_105)
    cases = []
    for name, items, raters, noise, missing in [
        ("agreeing", 60, 5, 0.4, 0.0),
        ("noisy", 40, 3, 2.0, 0.0),
        ("with gaps", 50, 4, 0.7, 0.2),
        ("two raters", 30, 2, 1.0, 0.0),
    ]:
        truth = random.normal(size=items)
        ratings = np.clip(np.round(2.5 + truth[:, None] + noise * random.normal(size=(items, raters))), 1, 4)
        ratings[random.random((items, raters)) < missing] = np.nan
        ratings[np.isnan(ratings).all(axis=1), 0] = 2
        scores = np.round(truth + random.normal(size=items), 1)
        case = {
            "name": name,
            "ratings": [[None if np.isnan(cell) else cell for cell in row] for row in ratings],
            "scores": scores.tolist(),
            "kendall_tau": float(kendalltau(scores, np.nanmean(ratings, axis=1)).statistic),
        }
        if not missing:
            case["fleiss_kappa"] = float(fleiss_kappa(aggregate_raters(ratings.astype(int))[0]))
        for level in ("nominal", "ordinal", "interval"):
            case[level] = float(krippendorff.alpha(reliability_data=ratings.T, level_of_measurement=level))
        cases.append(case)
    path = pathlib.Path(__file__).with_name("agreement.json")
    made_with = {name: importlib.metadata.version(name) for name in ("scipy", "statsmodels", "krippendorff")}
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    path.write_text(f'{{"made_with":{json.dumps(made_with)},"cases":[\n{lines}\n]}}\n')
    print(f"{len(cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
