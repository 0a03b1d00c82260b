"""Trains the models that the default rules are tried on, and scores every evaluation with the program, as JSON lines.

    CONCEPTWATCH_BINARY=target/release/conceptwatch python train.py docs/evidence/runs.jsonl

A line is one trained model: its settings, the curves of its scores, the first value before training, and what it cost.
Models that are already in the file are not trained again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from grid import SEEDS, name, runs
from lines import known, say_progress
from models import trained
from scoring import curves


def processor_seconds() -> float:
    """Of this process and of the programs that it waited for."""
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def line_of(of: dict[str, Any], binary: str, processes: int) -> dict[str, Any]:
    """Trains a model and has the program score it.

    processes: models that are trained at the same time, this one included.
    """
    wall, processor = time.monotonic(), processor_seconds()
    split, epochs = trained(of)
    evaluations = list(epochs)
    loss = [round(evaluation.loss, 4) for evaluation in evaluations]
    # The 12,432 pairs of the birds' concepts take 20 times as long as all else.
    found = curves(binary, split.val, of["encoding"], evaluations, pairs=of["data"] != "birds")
    cost = {
        "seconds": round(time.monotonic() - wall, 2),
        "cpu_seconds": round(processor_seconds() - processor, 2),
        "processes": processes,
        "cores": cores(),
    }
    return {**of, "rows": len(split.val.y), "loss": loss, **found, "cost": cost}


def cores() -> int:
    """Those that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def lines_of(left: list[dict[str, Any]], binary: str, processes: int) -> Iterator[dict[str, Any]]:
    if processes == 1:
        yield from (line_of(of, binary, 1) for of in left)
        return
    # A forked process would inherit the locks of PyTorch's threads.
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for future in as_completed([pool.submit(line_of, of, binary, processes) for of in left]):
            yield future.result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="only the first seeds")
    parser.add_argument("--data", action="append", help="only these data sets")
    options = parser.parse_args()
    binary = os.environ["CONCEPTWATCH_BINARY"]
    options.file.parent.mkdir(parents=True, exist_ok=True)
    done = {name(line) for line in known(options.file)}
    chosen = [of for of in runs() if of["seed"] < options.seeds and (not options.data or of["data"] in options.data)]
    left = [of for of in chosen if name(of) not in done]
    began = time.monotonic()
    with options.file.open("a") as file:
        for count, line in enumerate(lines_of(left, binary, options.processes), 1):
            file.write(json.dumps(line) + "\n")
            file.flush()
            say_progress(count, len(left), began)
    print()


if __name__ == "__main__":
    main()
