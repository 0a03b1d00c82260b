"""Hours of a usual day: jobs that come and go, a tenth of them killed, readers of the page, scrapes."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np

from .job import PROCESSES, Plan, Shape, joined, log_pass
from .results import Figures, Outcome, Part, Row, Setting
from .sidecar import Sidecar, running
from .slope import block_means, slope

SHAPE = Shape(concepts=4, rows=400, batch=100)
JOBS, KILLED = 4, 0.1
PASSES = 20
# The memory of runs whose job died is released after this many seconds.
FORGET = 60
# The bound that is reached last, small enough to be reached before the measurement begins: until then there are more
# runs to list at each reading. An eighth of it is for declarations, here of 800 runs.
HISTORY = 8
SAMPLE_EVERY = 2.0
HOUR = 3600.0
# Of the time, before the slopes are taken.
WARM_UP = 1 / 3
# Standard errors within which a slope is none; and what is none in any case, by the hour.
ERRORS = 3.0
NONE = {"resident": 1 << 20, "files": 0.5, "threads": 0.5}
# Also measured: bytes allocated and not freed. Resident memory includes what the allocator keeps free.
HEAP = "conceptwatch_heap_bytes"
# What the page, Prometheus and people read.
PAGES = ("/", "/metrics", "/api/v1/runs")


def _job(address: str, name: str, seed: int, dies: bool) -> None:
    choose = random.Random(seed)
    run = joined(Plan(address, name, 1, SHAPE, seed), 0)
    labels = np.random.default_rng(seed).integers(0, 2, (SHAPE.batch, SHAPE.concepts))
    last = choose.randrange(PASSES) if dies else PASSES
    for step in range(last):
        run.log(
            step=step,
            concept_activations=labels * 0.5 + np.float32(0.25),
            concept_labels=labels,
            task_labels=labels[:, 0],
        )
        log_pass(run, SHAPE, step)
        time.sleep(choose.uniform(0.0, 0.3))
    if dies:
        os.kill(os.getpid(), 9)
    run.finish(timeout=60.0)


class Crowd:
    """Starts a job as soon as another has ended, and readers that never rest for long."""

    def __init__(self, sidecar: Sidecar, seed: int) -> None:
        self.sidecar, self._random, self._over = sidecar, random.Random(seed), threading.Event()
        self.jobs = self.killed = self.read = 0
        # Why readings were not answered, each with how many.
        self.unread: Counter[str] = Counter()
        self._threads = [threading.Thread(target=self._churn, args=(at,)) for at in range(JOBS)]
        self._threads += [threading.Thread(target=self._read, args=(path,)) for path in PAGES]
        for thread in self._threads:
            thread.start()

    def _churn(self, at: int) -> None:
        number = 0
        while not self._over.is_set():
            dies = self._random.random() < KILLED
            seed = self._random.getrandbits(32)
            process = PROCESSES.Process(target=_job, args=(self.sidecar.address, f"job-{at}-{number}", seed, dies))
            process.start()
            process.join()
            self.jobs, self.killed, number = self.jobs + 1, self.killed + dies, number + 1

    def _read(self, path: str) -> None:
        while not self._over.wait(0.5):
            try:
                status, _ = self.sidecar.get(path)
                self.read += 1
                if status != 200:
                    self.unread[f"{path}: status {status}"] += 1
            except OSError as error:
                self.unread[f"{path}: {error!r}"] += 1

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


def _is_filled(sidecar: Sidecar) -> bool:
    """Whether declarations of runs have been removed to make room for others."""
    return bool(re.search(r'history_dropped_total\{kind="run"\} [1-9]', sidecar.get("/metrics")[1].decode()))


def soak(setting: Setting, seconds: float) -> Outcome:
    folder: Path = setting.folder / f"soak-{time.time_ns()}"
    options = ("--history-mib", str(HISTORY), "--forget-after", str(FORGET), "--linger", "30")
    seen: dict[str, list[float]] = {name: [] for name in ("seconds", *NONE, "heap")}
    with running(setting.binary, folder, *options) as sidecar:
        crowd, filled = Crowd(sidecar, setting.seed_of("soak")), False
        began = time.monotonic()
        while (now := time.monotonic() - began) < seconds:
            if now >= WARM_UP * seconds:
                if not seen["seconds"]:
                    filled = _is_filled(sidecar)
                status = sidecar.status()
                seen["seconds"].append(now)
                for name in NONE:
                    seen[name].append(float(status[name]))
                seen["heap"].append(sidecar.metrics().get(HEAP, float("nan")))
            time.sleep(SAMPLE_EVERY)
        crowd.end()
        faults = [] if sidecar.is_running else ["the sidecar ended"]
        if not filled:
            faults.append("the history had not reached its bound when the measurement began")
        figures: Figures = {"seconds": round(seconds), "jobs": crowd.jobs, "killed": crowd.killed}
        figures |= {"read": crowd.read, "unread": crowd.unread.total()}
        for name in (*NONE, "heap"):
            found, error = slope(seen["seconds"], seen[name])
            figures[name] = [found, error, float(np.mean(seen[name]))]
            if name in NONE and abs(found) > max(ERRORS * error, NONE[name]):
                faults.append(f"{name}: slope of {found:.4g} an hour, standard error {error:.2g}")
        figures["blocks"] = {name: block_means(seen[name]) for name in ("resident", "heap")}
        if seconds < HOUR:
            faults.append(f"{seconds / 60:.0f} minutes are no hour")
        if crowd.unread:
            why = ", ".join(f"{reason} ({count})" for reason, count in crowd.unread.most_common(5))
            faults.append(f"{crowd.unread.total()} of {crowd.read} readings were not answered: {why}")
        return Outcome(figures, faults)


def measured(figures: list[Figures]) -> str:
    of = figures[0]

    def text(name: str, unit: float = 1.0) -> str:
        found, error, mean = (value / unit for value in of[name])
        return f"{found:+.2f} ± {error:.2f} an hour at {mean:.1f}"

    def blocks(name: str) -> str:
        return " ".join(f"{mean / (1 << 20):.1f}" for mean in of["blocks"][name])

    measured = (
        f"{of['seconds'] / 60:.0f} minutes, {of['jobs']:,} jobs of which {of['killed']} were killed, {of['read']:,} "
        f"readings; slopes ± standard error: memory {text('resident', 1 << 20)} MiB, open files {text('files')}, "
        f"threads {text('threads')}"
    )
    if "blocks" not in of:  # measured before they were
        return measured
    return (
        f"{measured}; heap in use {text('heap', 1 << 20)} MiB; means of blocks in MiB: memory {blocks('resident')}, "
        f"heap {blocks('heap')}"
    )


def parts(setting: Setting) -> list[Part]:
    seconds = float(os.environ.get("SOAK_SECONDS", HOUR))
    return [Part(f"{seconds:.0f} seconds", lambda setting: soak(setting, seconds))]


ROW = Row(
    "soak",
    "an hour of jobs that come and go, 10 % of them killed, with page and scrapes",
    parts,
    measured,
)
