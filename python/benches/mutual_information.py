"""`conceptwatch.mutual_information` beside scikit-learn: times of 100 columns, and values where the truth is known.

    make bench-information

Times are medians of calls in turns, each with one thread and as called by default. Values are means over ten samples.
"""

import math
import os
import statistics
import time

import numpy as np
from sklearn.feature_selection import mutual_info_classif, mutual_info_regression

import conceptwatch

ROWS, COLUMNS, TURNS, SAMPLES = 2048, 100, 5, 10
CORRELATION = 0.8


def normal(random, columns=1):
    """Standard normal columns and a target with this correlation to each."""
    y = random.standard_normal((ROWS, 1))
    noise = random.standard_normal((ROWS, columns))
    return CORRELATION * y + math.sqrt(1 - CORRELATION**2) * noise, y[:, 0]


def seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def times(name, x, y, peer):
    taken = {"peer": [], "one thread": [], "default": []}
    for _ in range(TURNS):
        taken["peer"].append(seconds(lambda: peer(x, y, discrete_features=False)))
        for threads in ("one thread", "default"):
            os.environ["RAYON_NUM_THREADS"] = "1" if threads == "one thread" else "0"
            taken[threads].append(seconds(lambda: conceptwatch.mutual_information(x, y)))
    peer_time, one, default = (statistics.median(of) for of in taken.values())
    ratios = f"{peer_time / one:.0f} | {peer_time / default:.0f}"
    print(f"| {name} | {peer_time:.2f} | {1e3 * one:.0f} | {1e3 * default:.0f} | {ratios} |", flush=True)


def values(name, truth, sample, peer):
    found = []
    for seed in range(SAMPLES):
        x, y = sample(np.random.default_rng(seed))
        found.append((peer(x[:, None], y)[0], conceptwatch.mutual_information(x, y).value))
    theirs, ours = np.mean(found, 0)
    print(f"| {name} | {truth:.3f} | {theirs:.3f} | {ours:.3f} |", flush=True)


def of_rounded(step):
    """The information of a normal pair, each rounded to multiples of step, counted in many rows."""
    random = np.random.default_rng(0)
    y = random.standard_normal(4_000_000)
    x = CORRELATION * y + math.sqrt(1 - CORRELATION**2) * random.standard_normal(len(y))
    cells = [np.unique(np.round(column / step), return_inverse=True)[1] for column in (x, y)]
    joint = np.zeros([cell.max() + 1 for cell in cells])
    np.add.at(joint, tuple(cells), 1 / len(y))
    apart = joint.sum(1, keepdims=True) * joint.sum(0)
    return float((joint[joint > 0] * np.log(joint[joint > 0] / apart[joint > 0])).sum())


def main():
    x, y = normal(np.random.default_rng(0), COLUMNS)
    print(f"{COLUMNS} columns, {ROWS} rows\n")
    print("| columns | scikit-learn, s | one thread, ms | default, ms | ratio, one thread | ratio, default |")
    print("|---|--:|--:|--:|--:|--:|")
    times("numbers, numbers", x, y, mutual_info_regression)
    times("the same, rounded to 0.1", np.round(x, 1), np.round(y, 1), mutual_info_regression)
    times("numbers, 2 classes", x, (y > 0).astype(int), mutual_info_classif)
    times("numbers, 10 classes", x, np.digitize(y, np.linspace(-1.5, 1.5, 9)), mutual_info_classif)

    print("\n| one column | truth | scikit-learn | conceptwatch |\n|---|--:|--:|--:|")

    def changed(change):
        def sample(random):
            x, y = normal(random)
            return change(x[:, 0], y)

        return sample

    def coins(random):
        return tuple(random.integers(0, 2, (2, ROWS)).astype(float))

    truth = -0.5 * math.log(1 - CORRELATION**2)
    values("normal, correlation 0.8", truth, changed(lambda x, y: (x, y)), mutual_info_regression)
    values("the same, 10⁹ added", truth, changed(lambda x, y: (x + 1e9, y)), mutual_info_regression)
    values("the same, 10¹⁰ added", truth, changed(lambda x, y: (x + 1e10, y)), mutual_info_regression)
    for step in (1.0, 2.0):
        rounded = changed(lambda x, y, step=step: (step * np.round(x / step), step * np.round(y / step)))
        values(f"both rounded to {step:.0f}", of_rounded(step), rounded, mutual_info_regression)
    values("independent, 0 or 1", 0.0, coins, mutual_info_regression)


if __name__ == "__main__":
    main()
