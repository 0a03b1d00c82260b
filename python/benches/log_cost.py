"""The cost of `p.log()` to the training thread: a batch of 512 rows and 112 concepts, with labels and row ids.

Without --address it logs to a stand-in sidecar in another process.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import conceptwatch
import stand_in

ROWS, CONCEPTS = 512, 112


def batches(count: int, as_torch: bool) -> list[dict[str, Any]]:
    random = np.random.default_rng(0)
    made = []
    for i in range(count):
        tensors: dict[str, Any] = {
            "concept_activations": random.random((ROWS, CONCEPTS), np.float32),
            "concept_labels": random.integers(0, 2, (ROWS, CONCEPTS)),
            "task_labels": random.integers(0, 200, ROWS),
            "sample_ids": np.arange(i * ROWS, (i + 1) * ROWS),
        }
        if as_torch:
            import torch  # noqa: PLC0415

            tensors = {name: torch.from_numpy(array) for name, array in tensors.items()}
        made.append(tensors)
    return made


def measure(run: conceptwatch.Run, logged: list[dict[str, Any]], passes: range, pause: float) -> list[float]:
    """Seconds of each call, with a pause between calls in place of a training step."""
    seconds = []
    for step in passes:
        with run.evaluation("val", step=step) as p:
            for tensors in logged:
                start = time.perf_counter()
                p.log(**tensors)
                seconds.append(time.perf_counter() - start)
                time.sleep(pause)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", help="address of a sidecar; by default a stand-in is started")
    parser.add_argument("--batches", type=int, default=20, help="batches per pass")
    parser.add_argument("--passes", type=int, default=25)
    parser.add_argument("--pause", type=float, default=0.01, help="seconds between batches")
    parser.add_argument("--torch", action="store_true", help="log torch tensors instead of numpy arrays")
    arguments = parser.parse_args()

    with stand_in.sidecar_at(arguments.address) as address:
        run = conceptwatch.init("log-cost", concepts=CONCEPTS, address=address, spawn=False)
        logged = batches(arguments.batches, arguments.torch)
        measure(run, logged, range(1), arguments.pause)  # warms up
        seconds = measure(run, logged, range(1, arguments.passes + 1), arguments.pause)
        run.finish()
    median, p99 = np.quantile(seconds, [0.5, 0.99]) * 1e3
    print(f"p.log() of {ROWS} x {CONCEPTS} float32 and int64 labels: median {median:.3f} ms, p99 {p99:.3f} ms")
    print(f"{len(seconds)} batches; {run.stats}")


if __name__ == "__main__":
    main()
