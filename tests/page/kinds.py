"""Pictures of the page for kinds of models and states of runs: python kinds.py BINARY FOLDER

84 runs, 300 concepts, a regression, embeddings, no task labels, and a run that failed, one that stalled and one that is
lost, each by the client and a sidecar of its own. The data are drawn here, and the sidecar computes every number.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import conceptwatch

HERE = Path(__file__).parent
NAMES = ["wing bars", "hooked bill", "long tail", "crest", "webbed feet", "spots"]
ROWS = 1_000
# A run is stalled when it is silent for as long, in seconds; a bit more.
SILENT = 70.0
# Runs that go on while their picture is taken: one that is collected is finished.
UNFINISHED: list[conceptwatch.Run] = []


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def evaluation(epoch: int, leak: float, concepts: int = 6, seed: int = 0) -> dict[str, np.ndarray]:
    """Concepts learnt over epochs, and of each activation a share that tells of the task."""
    random = np.random.default_rng([seed, epoch])
    labels = random.random((ROWS, concepts)) < 0.5
    hidden = random.standard_normal((ROWS, 1))
    score = labels[:, :3].sum(1) + 1.5 * hidden[:, 0]
    learnt = 4 * (1 - np.exp(-epoch / 2))
    strength = leak * (1 - np.exp(-epoch / 4)) * np.linspace(1, 0, concepts)
    logits = learnt * (labels - 0.5) + random.standard_normal((ROWS, concepts)) + strength * hidden
    return {
        "concept_activations": sigmoid(logits).astype(np.float32),
        "concept_labels": labels.astype(np.int64),
        "task_labels": (score > 1.5).astype(np.int64),
        "score": score.astype(np.float32),
    }


def train(run: conceptwatch.Run, epochs: int, pass_of: Callable[[int], dict[str, np.ndarray]]) -> None:
    for epoch in range(1, epochs + 1):
        with run.evaluation("val", step=20 * epoch, epoch=epoch) as p:
            p.log(**pass_of(epoch))
        p.scores(timeout=120)


def leaking(epoch: int, leak: float = 2.0, **shape: Any) -> dict[str, np.ndarray]:
    found = evaluation(epoch, leak, **shape)
    del found["score"]
    return found


def many(address: str) -> str:
    for seed in range(12):
        for weight in (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0):
            labels = {"lambda": weight, "seed": seed}
            with conceptwatch.init(f"birds-{weight:g}-s{seed}", concepts=NAMES, address=address, labels=labels) as run:
                train(run, 3, lambda epoch: leaking(4 * epoch, 0.6 / (0.3 + weight), seed=seed))  # noqa: B023
    return "#/?group=lambda"


def wide(address: str) -> str:
    names = [f"attribute {i}" for i in range(300)]
    with conceptwatch.init("300 concepts", concepts=names, address=address) as run:
        train(run, 3, lambda epoch: leaking(4 * epoch, concepts=300))
    return "#/run/300%20concepts"


def regression(address: str) -> str:
    def numbers(epoch: int) -> dict[str, np.ndarray]:
        found = evaluation(epoch, 2.0)
        found["task_labels"] = found.pop("score")
        return found

    with conceptwatch.init("regression", concepts=NAMES, task_labels="continuous", address=address) as run:
        train(run, 12, numbers)
    return "#/run/regression"


def embeddings(address: str) -> str:
    """Two vectors of eight numbers for each concept, mixed by its probability."""

    def mixed(epoch: int) -> dict[str, np.ndarray]:
        found = leaking(epoch, 1.0)
        random = np.random.default_rng(epoch)
        c, y = found["concept_activations"], found["task_labels"]
        negative, positive = random.standard_normal((2, ROWS, len(NAMES), 8)).astype(np.float32)
        positive[..., 0] += 2 * (1 - np.exp(-epoch / 4)) * y[:, None]
        weight = c[..., None]
        return {
            **found,
            "concept_embeddings": weight * positive + (1 - weight) * negative,
            "positive_embeddings": positive,
            "negative_embeddings": negative,
        }

    with conceptwatch.init("embeddings", concepts=NAMES, address=address) as run:
        train(run, 8, mixed)
    return "#/run/embeddings"


def without_task(address: str) -> str:
    def concepts_only(epoch: int) -> dict[str, np.ndarray]:
        found = leaking(epoch)
        del found["task_labels"]
        return found

    with conceptwatch.init("no task labels", concepts=NAMES, address=address) as run:
        train(run, 8, concepts_only)
    return "#/run/no%20task%20labels"


def states(address: str) -> str:
    """A run that fails, one whose job is killed, one that goes on, and one that falls silent."""
    try:
        with conceptwatch.init("failed", concepts=NAMES, address=address) as run:
            train(run, 5, leaking)
            raise RuntimeError("CUDA error: device-side assert triggered")
    except RuntimeError:
        pass
    killed = subprocess.run([sys.executable, __file__, "killed", address], check=False, timeout=120)
    assert killed.returncode == 9
    stalled = conceptwatch.init("stalled", concepts=NAMES, address=address)
    train(stalled, 5, lambda epoch: leaking(epoch, 0.0))
    trains = conceptwatch.init("in training", concepts=NAMES, address=address)
    UNFINISHED.extend([stalled, trains])
    end = time.monotonic() + SILENT
    epoch = 0
    while time.monotonic() < end:
        epoch += 1
        with trains.evaluation("val", step=20 * epoch, epoch=epoch) as p:
            p.log(**leaking(epoch, 0.0))
        time.sleep(3.0)
    return "#/"


KINDS = {"84-runs": many, "300-concepts": wide, "regression": regression, "embeddings": embeddings,
         "no-task-labels": without_task, "states": states}  # fmt: skip


@contextmanager
def sidecar(binary: str) -> Iterator[tuple[str, str]]:
    """Its address for the client, and that of its page."""
    with tempfile.TemporaryDirectory() as folder:
        ports = Path(folder) / "ports"
        at_once = ["--niceness", "0", "--cpu-share", "2", "--busy-cpu-share", "2"]
        bound = ["--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0", "--port-file", str(ports)]
        command = [binary, "serve", *at_once, *bound, "--log", "error"]
        with subprocess.Popen(command) as process:
            try:
                while not (ports.exists() and ports.read_text().strip()):
                    assert process.poll() is None, "the sidecar ended at once"
                    time.sleep(0.05)
                grpc, http = ports.read_text().split()
                yield grpc, f"http://{http}"
            finally:
                process.terminate()


def main() -> None:
    if sys.argv[1] == "killed":
        train(conceptwatch.init("lost", concepts=NAMES, address=sys.argv[2]), 5, leaking)
        os._exit(9)
    binary, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[3:] or KINDS:
        with sidecar(binary) as (grpc, url):
            view = KINDS[name](grpc)
            camera = ["node", str(HERE / "screenshot.mjs"), f"{url}/{view}", str(folder / f"page-{name}.png")]
            subprocess.run([*camera, "--height", "1000"] if name == "84-runs" else camera, check=True)
        print(name, flush=True)


if __name__ == "__main__":
    main()
