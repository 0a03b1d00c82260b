"""The CPU time of evaluation passes, by thread of the training job and of the sidecar.

Epochs are those of `epoch_cost.py`: at k = 3 a pass is one batch of 2,000 rows, at k = 112 four of 512. The sidecar
gets almost no CPU share for scoring, so what remains is the cost of every pass.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import epoch_cost

import conceptwatch
from conceptwatch import _sidecar


def cpu_by_thread(process: int) -> dict[tuple[str, str], float]:
    """CPU seconds of each thread so far, by its number and name."""
    found = {}
    for task in Path(f"/proc/{process}/task").iterdir():
        try:
            name = "training" if task.name == str(process) else (task / "comm").read_text().strip()
            found[task.name, name] = int((task / "schedstat").read_text().split()[0]) / 1e9
        except OSError:  # the thread has ended
            continue
    return found


def spent(process: int, before: dict[tuple[str, str], float], passes: int) -> dict[str, float]:
    """CPU milliseconds per pass since then, by thread name."""
    found: dict[str, float] = {}
    for (number, name), seconds in cpu_by_thread(process).items():
        found[name] = found.get(name, 0.0) + (seconds - before.get((number, name), 0.0)) * 1e3 / passes
    return found


class Timed:
    """A pass that records the CPU seconds of logging on the training thread."""

    def __init__(self, evaluation: conceptwatch.Pass, seconds: list[float]) -> None:
        self._evaluation, self._seconds = evaluation, seconds

    def log(self, **tensors: Any) -> None:
        start = time.thread_time()
        self._evaluation.log(**tensors)
        self._seconds.append(time.thread_time() - start)


def measure(address: str, sidecar: int, passes: int, training: str) -> None:
    concepts, make = epoch_cost.TRAININGS[training]
    run = conceptwatch.init("pass cost", concepts=concepts, address=address, spawn=False)
    epoch = make()
    logs: list[float] = []
    ends: list[float] = []

    def several(count: int, first: int) -> None:
        for step in range(first, first + count):
            with run.evaluation("val", step=step, epoch=step) as p:
                epoch(Timed(p, logs))  # type: ignore[arg-type]
                start = time.thread_time()
            ends.append(time.thread_time() - start)

    several(passes // 4, 0)
    logs.clear()
    ends.clear()
    before = [cpu_by_thread(process) for process in (os.getpid(), sidecar)]
    several(passes, passes)
    while run.stats.queue_bytes:
        time.sleep(0.01)
    job, beside = (spent(process, was, passes) for process, was in zip((os.getpid(), sidecar), before, strict=True))
    run.finish()
    print(f"{'the training thread':<26}{1e3 * (median(logs) + median(ends)):.3f} ms, median")
    print(f"  {'log':<24}{1e3 * median(logs):.3f}\n  {'end of the pass':<24}{1e3 * median(ends):.3f}")
    # The training thread's own work, and that of PyTorch's threads.
    own = {name: ms for name, ms in job.items() if name not in ("training", "pt_autograd_0")}
    for title, found in (("other threads of the job", own), ("the sidecar", beside)):
        print(f"{title:<26}{sum(found.values()):.3f} ms, mean")
        for name, ms in sorted(found.items(), key=lambda item: -item[1]):
            if ms >= 0.001:
                print(f"  {name:<24}{ms:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=int, default=400)
    parser.add_argument("--training", choices=epoch_cost.TRAININGS, default="3")
    options = parser.parse_args()
    # More threads of PyTorch could not be distinguished from those that send.
    epoch_cost.torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        ports = Path(directory) / "ports"
        command = [_sidecar.find_binary() or "conceptwatch", "serve", "--grpc-address", "127.0.0.1:0"]
        command += ["--http-address", "127.0.0.1:0", "--cpu-share", "0.001", "--port-file", str(ports)]
        with subprocess.Popen([*command, "--log", "error", "--exit-with-stdin"], stdin=subprocess.PIPE) as sidecar:
            while not ports.exists():
                time.sleep(0.01)
            measure(ports.read_text(encoding="utf-8").split()[0], sidecar.pid, options.passes, options.training)


if __name__ == "__main__":
    main()
