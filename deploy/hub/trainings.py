"""Two trainings as on two machines, each with a sidecar of its own that pushes to the hubs.

Both train a concept bottleneck model on a synthetic table. The second hardly weighs the concepts.

usage: python trainings.py [--hubs ADDRESS[,ADDRESS]] [--epochs N]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import conceptwatch

# The weight of the concept loss relative to the task's, by training.
WEIGHTS = (1.0, 0.01)
ROWS, FEATURES, CONCEPTS = 4000, 8, 3

Array = NDArray[np.float64]


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def data(seed: int) -> tuple[Array, Array, Array]:
    """Features, concepts that are noisy functions of them, and a task that the concepts do not determine."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, FEATURES))
    concepts = (x[:, :CONCEPTS] + 0.7 * rng.normal(size=(ROWS, CONCEPTS)) > 0).astype(float)
    task = (x[:, :CONCEPTS].sum(axis=1) + x[:, CONCEPTS] > 0).astype(float)
    return x, concepts, task


def train(weight: float, address: str, epochs: int) -> None:
    rng = np.random.default_rng(0)
    x, concepts, task = data(1)
    held_out_x, held_out_concepts, held_out_task = data(2)
    to_concepts, to_task = rng.normal(size=(FEATURES, CONCEPTS)) * 0.1, rng.normal(size=CONCEPTS) * 0.1

    def head(logits: Array) -> Array:
        return np.stack([-logits @ to_task, logits @ to_task], axis=1) / 2

    run = conceptwatch.init(
        f"lambda-{weight}",
        concepts=[f"concept {index}" for index in range(CONCEPTS)],
        activation_kind="logit",
        labels={"lambda": weight},
        address=address,
        spawn=False,
        head=head,
    )
    for epoch in range(epochs):
        for _ in range(20):
            logits = x @ to_concepts
            task_error = sigmoid(logits @ to_task) - task
            concept_error = weight * (sigmoid(logits) - concepts)
            to_task -= 0.5 * logits.T @ task_error / ROWS
            to_concepts -= 0.5 * x.T @ (concept_error + np.outer(task_error, to_task)) / ROWS
        logits = held_out_x @ to_concepts
        with run.evaluation("val", step=epoch, epoch=epoch) as evaluation:
            evaluation.log(
                concept_activations=logits,
                concept_labels=held_out_concepts.astype(np.int64),
                task_labels=held_out_task.astype(np.int64),
                task_logits=head(logits),
                sample_ids=np.arange(ROWS),
            )
        time.sleep(0.2)
    if not run.finish(timeout=120):
        sys.exit(f"{run.name}: not everything was settled")


def program() -> str:
    found = shutil.which("conceptwatch")
    if found is None:
        sys.exit("trainings.py: got no program conceptwatch on the PATH, expected one; install the wheel")
    return found


def waiting(page: str) -> int:
    """Changes of a sidecar's curves that no hub has yet."""
    with urllib.request.urlopen(f"http://{page}/api/v1/status", timeout=10) as answer:
        return int(json.load(answer)["upstream"]["waiting"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hubs", default="127.0.0.1:7810,127.0.0.1:7820")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--weight", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.weight is not None:
        train(told.weight, told.address, told.epochs)
        return
    with tempfile.TemporaryDirectory() as folder:
        sidecars = [
            subprocess.Popen(
                [program(), "serve", "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0",
                 "--port-file", f"{folder}/ports-{weight}", "--data-dir", f"{folder}/curves-{weight}"],
                env={**os.environ, "CONCEPTWATCH_UPSTREAM": told.hubs},
            )
            for weight in WEIGHTS
        ]  # fmt: skip
        files = [Path(folder) / f"ports-{weight}" for weight in WEIGHTS]
        while not all(file.exists() for file in files):
            time.sleep(0.05)
        addresses = [file.read_text().split() for file in files]
        trainings = [
            subprocess.Popen(
                [sys.executable, __file__, "--epochs", str(told.epochs), "--weight", str(weight), "--address", address]
            )
            for weight, (address, _) in zip(WEIGHTS, addresses, strict=True)
        ]
        failed = sum(training.wait() != 0 for training in trainings)
        # The data directories end with this program, and unsent changes with them.
        for _, page in addresses:
            while not failed and waiting(page):
                time.sleep(0.2)
        for sidecar in sidecars:
            sidecar.terminate()
        for sidecar in sidecars:
            sidecar.wait()
    sys.exit(failed)


if __name__ == "__main__":
    main()
