"""More than the sidecar can take: both sides count the same for every row, and memory is bounded."""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.queues import Queue
from typing import Any

import numpy as np

import conceptwatch

from .job import PROCESSES, SPLIT, Plan, Shape, joined, log_pass
from .results import Figures, Outcome, Part, Row, Setting
from .sidecar import Sidecar, running, wait_for

SLOW = Shape(concepts=24, rows=1000, batch=250)
TINY = Shape(concepts=2, rows=8, batch=8)
TIMES, A_SECOND, CLIENTS, BATCH = 4, 1000, 8, 64 << 20
# MiB. The values of pairs of rolling windows have a fixed limit.
INGEST, SAMPLE, PAIRS, BEYOND = 128, 256, 384, 64
# Of an embedding: 64 MiB are as many rows of 4 concepts.
WIDTH = 256


@dataclass
class Count:
    """What a client says of its run at the end."""

    name: str
    passes: int
    rows: int
    finished: bool
    stats: dict[str, Any]


def _counted(run: conceptwatch.Run, passes: int, rows: int, counts: Queue[Count]) -> None:
    finished = run.finish(timeout=300.0)
    stats = {name: dict(value) if isinstance(value, dict) else value for name, value in vars(run.stats).items()}
    counts.put(Count(run.name, passes, rows, finished, stats))


def _log_passes(plan: Plan, rate: float, seconds: float, counts: Queue[Count]) -> None:
    """A client that logs passes at a rate, if it can."""
    run, passes = joined(plan, 0), 0
    began = time.monotonic()
    while (now := time.monotonic() - began) < seconds:
        if passes > now * rate:
            time.sleep(min(0.01, passes / rate - now))
            continue
        log_pass(run, plan.shape, passes)
        passes += 1
    _counted(run, passes, passes * plan.shape.rows, counts)


def _log_batches(plan: Plan, batches: int, counts: Queue[Count]) -> None:
    """A client that logs batches of 64 MiB to a rolling window, whose rows are all sent."""
    run, k = joined(plan, 0), plan.shape.concepts
    rows = BATCH // (4 * k * WIDTH)
    random = np.random.default_rng(plan.seed)
    embeddings = random.random((rows, k, WIDTH), np.float32)
    labels = random.integers(0, 2, (rows, k))
    for step in range(batches):
        run.log(
            step=step,
            concept_activations=random.random((rows, k), np.float32),
            concept_labels=labels,
            task_labels=labels[:, 0],
            concept_embeddings=embeddings,
        )
        wait_for(lambda: run.stats.queue_bytes < BATCH, seconds=300.0)
    _counted(run, 0, batches * rows, counts)


class Watch:
    """The largest resident memory, as often as the system can say."""

    def __init__(self, sidecar: Sidecar) -> None:
        self.largest, self._sidecar, self._over = 0, sidecar, threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        while not self._over.wait(0.05):
            self.largest = max(self.largest, self._sidecar.status()["resident"])

    def end(self) -> int:
        self._over.set()
        self._thread.join()
        return max(self.largest, self._sidecar.status()["peak"])


def _collected(processes: list[Any], counts: Queue[Count]) -> list[Count]:
    try:
        for process in processes:
            process.start()
        return [counts.get(timeout=900.0) for _ in processes]
    finally:
        for process in processes:
            process.join(10.0)
            process.kill()


def _compared(sidecar: Sidecar, found: list[Count], peak: int, limit: int) -> Outcome:
    """Where rows and passes went, by the clients and by the sidecar."""
    faults: list[str] = []
    total: Counter[str] = Counter()
    live = {run["name"]: run for run in sidecar.ask("/api/v1/runs")["runs"]}
    for count in found:
        stats = count.stats
        dropped = sum(stats["rows_dropped"].values())
        if stats["rows_acknowledged"] + stats["rows_left_out"] + dropped != count.rows:
            faults.append(f"{count.name}: of {count.rows} rows the client accounts for {stats}")
        settled = sum(stats["passes_settled"].values())
        if settled + stats["passes_left_out"] != count.passes:
            faults.append(f"{count.name}: of {count.passes} passes the client accounts for {stats}")
        splits = live[count.name]["splits"]
        received = sum(split["rows_received"] for split in splits)
        if received != stats["rows_acknowledged"]:
            faults.append(f"{count.name}: {stats['rows_acknowledged']} rows acknowledged, {received} received")
        points, reasons = sidecar.steps(count.name, SPLIT), sidecar.unscored(count.name, SPLIT)
        if len(points.keys() | reasons.keys()) != settled or max(points.values(), default=0) > 1:
            faults.append(f"{count.name}: {settled} passes settled, {len(points)} points, {len(reasons)} reasons")
        if not count.finished:
            faults.append(f"{count.name}: finish() was false")
        total.update({
            "rows": count.rows, "acknowledged": stats["rows_acknowledged"], "left out": stats["rows_left_out"],
            "dropped": dropped, "received": received, "passes": count.passes, "points": len(points),
            "skipped": len(reasons.keys() - points.keys()), "passes left out": stats["passes_left_out"],
        })  # fmt: skip
    metrics = sidecar.metrics()
    for metric, name in (("rows_received_total", "acknowledged"), ("rows_dropped_total", "none")):
        if metrics.get(f"conceptwatch_{metric}", 0.0) != total[name]:
            faults.append(f"{metric}: got {metrics.get(f'conceptwatch_{metric}')}, expected {total[name]}")
    if peak > limit:
        faults.append(f"{peak >> 20} MiB resident, expected at most {limit >> 20}")
    return Outcome({**total, "peak": peak, "limit": limit}, faults)


def _limit(scoring: int) -> int:
    return (INGEST + SAMPLE + PAIRS + scoring + BEYOND) << 20


def _options() -> Iterator[str]:
    yield from ("--ingest-mib", str(INGEST), "--sample-mib", str(SAMPLE))


def _rate(sidecar: Sidecar, seed: int) -> float:
    """Passes a second that are scored when one waits for the other."""
    run = joined(Plan(sidecar.address, "rate", 1, SLOW, seed), 0)
    began = time.monotonic()
    for step in range(10):
        log_pass(run, SLOW, step)
        wait_for(lambda: run.stats.passes_unsettled == 0)
    took = time.monotonic() - began
    run.finish()
    return 10 / took


def passes(setting: Setting, kind: str, seconds: float) -> Outcome:
    seed = setting.seed_of(f"overload {kind}")
    with running(setting.binary, setting.folder / f"overload-{time.time_ns()}", *_options()) as sidecar:
        if kind == "scoring":
            rate, shape, clients = TIMES * _rate(sidecar, seed), SLOW, 4
            sidecar.kill()
            sidecar.start()
            sidecar.wait_ready()
        else:
            rate, shape, clients = float(A_SECOND), TINY, 4
        watch, counts = Watch(sidecar), PROCESSES.Queue()
        processes = [
            PROCESSES.Process(
                target=_log_passes,
                args=(Plan(sidecar.address, f"load-{at}", 1, shape, seed), rate / clients, seconds, counts),
                daemon=True,
            )
            for at in range(clients)
        ]
        found = _collected(processes, counts)
        outcome = _compared(sidecar, found, watch.end(), _limit(SCORING))
        outcome.figures |= {"kind": kind, "rate": round(outcome.figures["passes"] / seconds), "wanted": round(rate)}
        return outcome


def batches(setting: Setting, each: int) -> Outcome:
    seed = setting.seed_of("overload batches")
    with running(setting.binary, setting.folder / f"overload-{time.time_ns()}", *_options()) as sidecar:
        watch, counts = Watch(sidecar), PROCESSES.Queue()
        shape = Shape(concepts=4)
        processes = [
            PROCESSES.Process(
                target=_log_batches,
                args=(Plan(sidecar.address, f"large-{at}", 1, shape, seed + at), each, counts),
                daemon=True,
            )
            for at in range(CLIENTS)
        ]
        began = time.monotonic()
        found = _collected(processes, counts)
        outcome = _compared(sidecar, found, watch.end(), _limit(SCORING))
        sent = sum(count.stats["bytes_sent"] for count in found)
        outcome.figures |= {"kind": "batches", "sent": sent, "seconds": round(time.monotonic() - began, 1)}
        return outcome


# MiB that scoring takes for these shapes, beside samples and pairs.
SCORING = 100


def measured(figures: list[Figures]) -> str:
    texts = []
    for of in figures:
        what = {
            "scoring": f"{of.get('rate')} passes per second, {TIMES} times what was scored",
            "tiny": f"{of.get('rate')} tiny passes per second",
            "batches": f"{of.get('sent', 0) / (1 << 30):.1f} GiB in batches of 64 MiB",
        }[of["kind"]]
        texts.append(
            f"{what}: {of['rows']:,} rows logged, {of['acknowledged']:,} acknowledged and {of['received']:,} received, "
            f"{of['left out']:,} left out, {of['dropped']:,} dropped; {of['points']:,} points, {of['skipped']:,} "
            f"reasons; resident at most {of['peak'] >> 20} MiB of the {of['limit'] >> 20} MiB allowed"
        )
    return "; ".join(texts)


def parts(setting: Setting) -> list[Part]:
    seconds = float(setting.size(120, 8))
    return [
        Part("four times scoring", functools.partial(passes, kind="scoring", seconds=seconds)),
        Part("tiny passes", functools.partial(passes, kind="tiny", seconds=seconds)),
        Part("large batches", functools.partial(batches, each=setting.size(40, 2))),
    ]


ROW = Row(
    "overload",
    "4 times the passes that scoring can take, 1,000 tiny passes per second, batches of 64 MiB on 8 connections",
    parts,
    measured,
)
