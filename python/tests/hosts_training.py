"""Ranks on two hosts log evaluations to one sidecar; a program of `test_hosts.py`.

    python hosts_training.py NAME FOLDER HOW

Ranks are in step by files in the folder. After `PAUSED` they wait for the file `go`. What they logged and were answered
is in the folder at the end, a file for each rank. HOW:

    plain: only the last evaluation is asked about.
    asking: the same, and every rank asks after each evaluation whether to stop, but does not.
    restarted: at `PAUSED`, the last rank dies once inside an evaluation that the others have ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import conceptwatch
from conftest import wait_for

STEPS, PAUSED = 6, 2
# Not a multiple of the ranks: some rows are logged twice.
ROWS, BATCH = 203, 64
K = 3


def share(rank: int, world_size: int) -> list[int]:
    """A rank's rows, as PyTorch's DistributedSampler shares them."""
    return [*range(ROWS), *range(-ROWS % world_size)][rank::world_size]


def batches(step: int, ids: list[int]) -> list[dict[str, Any]]:
    """What a model has for these rows at a step. Its activations know the task better with every step."""
    random = np.random.default_rng(step)
    labels = random.integers(0, 2, (ROWS, K))
    noise = random.random((ROWS, K))
    task = labels[:, 0] ^ (noise[:, 1] < 0.3)
    activations = 0.5 * labels + 0.3 * noise + 0.02 * step * task[:, None]
    logits = np.stack([-activations[:, 0], activations[:, 0]], axis=1)
    of_all = {
        "concept_activations": activations.astype(np.float32),
        "concept_labels": labels,
        "task_labels": task,
        "task_logits": logits.astype(np.float32),
        "sample_ids": np.arange(ROWS),
    }
    cut = [ids[at : at + BATCH] for at in range(0, len(ids), BATCH)]
    return [{name: values[of_batch] for name, values in of_all.items()} for of_batch in cut]


def main() -> None:
    name, folder, how = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    died = folder / "died"
    attempt, first = (1, PAUSED) if died.exists() else (0, 0)
    run = conceptwatch.init(name, concepts=K, labels={"how": how})
    ids = share(rank, world_size)
    answers: dict[int, tuple[bool, str]] = {}
    for step in range(first, STEPS):
        dies = how == "restarted" and (attempt, step, rank) == (0, PAUSED, world_size - 1)
        with run.evaluation("val", step=step, epoch=step) as p:
            for one in batches(step, ids):
                p.log(**one)
                if dies:
                    wait_for(lambda: len(list(folder.glob(f"0-{PAUSED}-*"))) == rank)
                    died.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
        (folder / f"{attempt}-{step}-{rank}").touch()
        meet = f"{attempt}-{step}-*"
        wait_for(lambda meet=meet: len(list(folder.glob(meet))) == world_size)  # type: ignore[misc]
        p.scores(timeout=1.0)
        if how == "asking" and step < PAUSED:
            # Longer than a point takes: a newer pass replaces one that waits where most come faster than that, and all
            # that were logged during a cut come at once.
            time.sleep(1.0)
        if how == "asking" and step < STEPS - 1:
            answers[step] = run.should_stop(step=step, timeout=0.5), run.stop_reason(step=step)
        if step == PAUSED:
            wait_for((folder / "go").exists)
    answers[STEPS - 1] = run.should_stop(step=STEPS - 1, timeout=30.0), run.stop_reason(step=STEPS - 1)
    finished = run.finish(timeout=60.0)
    stats = {name: value for name, value in vars(run.stats).items() if isinstance(value, (int, dict))}
    found = {"attempt": attempt, "finished": finished, "answers": answers, "stats": stats}
    (folder / f"rank{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
