"""Joint leakage on ten laws of known truth: the sidecar's predictors beside gradient boosting.

    cargo build --release && .venv-peers/bin/python python/benches/joint_leakage.py target/release/conceptwatch

Each law draws concepts c, activations and a task y; its truth is I(y; activations | c) / H(y), in closed form or as the
mean of ln p(y | c, activations) - ln p(y | c) over 200,000 rows. Gradient boosting is scikit-learn's
HistGradientBoostingClassifier, cross-fitted over four parts too: its loss from c less its loss from c and activations.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold

FLIP = 0.02


def entropy(p):
    return -(p * np.log(p) + (1 - p) * np.log(1 - p))


def coins(random, n, k):
    return random.integers(0, 2, (n, k))


def logits(c, noise):
    return 4.0 * (2 * c - 1) + noise


def flipped(random, bits, share):
    return bits ^ (random.random(len(bits)) < share)


def two_sides(log_ratio_given_y, y):
    """I(y; x) in nats of a fair y, from ln p(x | y = 1) - ln p(x | y = 0) of each row."""
    sign = np.where(y == 1, 1.0, -1.0)
    return np.mean(np.log(2.0) - np.log1p(np.exp(-sign * log_ratio_given_y)))


def honest(random, n):
    c = coins(random, n, 6)
    y = flipped(random, (c[:, 0] ^ c[:, 1]).astype(bool), 0.2)
    return c, logits(c, random.normal(size=(n, 6))), y, 0.0


def parity(random, n):
    c = coins(random, n, 6)
    return c, logits(c, random.normal(size=(n, 6))), c[:, :3].sum(1) % 2, 0.0


def cub_honest(random, n):
    """112 concepts given by 200 classes, each flipped in 5 % of the rows; activations depend on the concepts alone."""
    patterns = coins(np.random.default_rng(7), 200, 112)
    y = np.arange(n) % 200
    c = patterns[y] ^ (random.random((n, 112)) < 0.05)
    return c, logits(c, random.normal(size=(n, 112))), y, 0.0


def shift(random, n, k=6, size=1.0, shifted=1):
    c = coins(random, n, k)
    y = random.integers(0, 2, n)
    noise = random.normal(size=(n, k))
    noise[:, :shifted] += size * y[:, None]
    many = np.random.default_rng(1)
    y_many = many.integers(0, 2, 200_000)
    noise_many = many.normal(size=(200_000, shifted)) + size * y_many[:, None]
    return c, logits(c, noise), y, two_sides(size * (noise_many - size / 2).sum(1), y_many) / np.log(2)


def weak(random, n):
    return shift(random, n, 20, 0.25, 20)


def fine(k):
    def law(random, n):
        c, noise = coins(random, n, k), random.normal(size=(n, k))
        y = flipped(random, (noise[:, 0] > 0) ^ (noise[:, 1] > 0), FLIP)
        return c, logits(c, noise), y, 1 - entropy(FLIP) / np.log(2)

    return law


def spread(random, n):
    c, noise = coins(random, n, 6), random.normal(size=(n, 6))
    y = flipped(random, np.abs(noise[:, 0]) > 0.6745, FLIP)
    return c, logits(c, noise), y, 1 - entropy(FLIP) / np.log(2)


def by_concept(random, n):
    c, noise = coins(random, n, 6), random.normal(size=(n, 6))
    y = flipped(random, (noise[:, 0] > 0) ^ (c[:, 1] > 0), FLIP)
    return c, logits(c, noise), y, 1 - entropy(FLIP) / np.log(2)


def three(random, n):
    c, noise = coins(random, n, 6), random.normal(size=(n, 6))
    y = flipped(random, (noise[:, :3] > 0).sum(1) % 2 == 1, FLIP)
    return c, logits(c, noise), y, 1 - entropy(FLIP) / np.log(2)


LAWS = {
    "honest, noisy task": honest,
    "parity of 3 of 6 concepts": parity,
    "112 concepts, 200 classes, honest": cub_honest,
    "one logit shifted by the task": shift,
    "20 logits shifted a little": weak,
    "exclusive or of two logits, k = 6": fine(6),
    "exclusive or of two logits, k = 112": fine(112),
    "distance of a logit from its mean": spread,
    "exclusive or of a logit and a concept": by_concept,
    "parity of three logits, k = 6": three,
}


def boosting(c, activations, y):
    def losses(inputs):
        out = np.zeros(len(y))
        for train, test in StratifiedKFold(4, shuffle=True, random_state=0).split(inputs, y):
            model = HistGradientBoostingClassifier(early_stopping=True, max_iter=200, random_state=0)
            model.fit(inputs[train], y[train])
            p = model.predict_proba(inputs[test])[np.arange(len(test)), np.searchsorted(model.classes_, y[test])]
            out[test] = -np.log(p * 2047 / 2048 + 1 / 2048 / len(model.classes_))
        return out.mean()

    shares = np.bincount(y.astype(int)) / len(y)
    h = -(shares[shares > 0] * np.log(shares[shares > 0])).sum()
    both = np.column_stack([c, activations])
    from_c = losses(c)
    return (from_c - losses(both)) / h, from_c / h


def cell(values):
    return f"{np.mean(values):.3f}" + (f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--no-boosting", action="store_true")
    arguments = parser.parse_args()
    print("| law | truth | joint_leakage | p | baseline | seconds | boosting | its baseline | seconds |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name, law in LAWS.items():
        if arguments.only not in name:
            continue
        ours, p, base, seconds, theirs, their_base, their_seconds = ([] for _ in range(7))
        for seed in range(arguments.seeds):
            c, activations, y, truth = law(np.random.default_rng(100 + seed), arguments.rows)
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "law.npz"
                activations = activations.astype(np.float32)
                np.savez(path, concept_activations=activations, concept_labels=c, task_labels=y.astype(int))
                command = [arguments.binary, "score", str(path), "--json", "--threads", "1"]
                command += ["--scores", "joint_leakage,joint_leakage_baseline"]
                started = time.perf_counter()
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                seconds.append(time.perf_counter() - started)
            scores = json.loads(done.stdout)["scores"]
            ours.append(scores["joint_leakage"]["value"])
            p.append(scores["joint_leakage"]["p_value"])
            base.append(scores["joint_leakage_baseline"]["value"])
            # Boosting 200 classes takes minutes and finds no class of ten rows.
            if not arguments.no_boosting and len(np.unique(y)) <= 20:
                started = time.perf_counter()
                value, from_c = boosting(c, activations, y.astype(int))
                their_seconds.append(time.perf_counter() - started)
                theirs.append(value)
                their_base.append(from_c)
        row = [name, f"{truth:.3f}", cell(ours), f"{max(p):.3f}", f"{np.mean(base):.2f}", f"{np.mean(seconds):.1f}"]
        if theirs:
            row += [cell(theirs), f"{np.mean(their_base):.2f}", f"{np.mean(their_seconds):.1f}"]
        else:
            row += ["", "", ""]
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
