"""A training job: ranks in processes of their own that log evaluations with the real client.

What is logged at a step depends on the step alone, so that two jobs can be compared.
"""

from __future__ import annotations

import multiprocessing
import random
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from typing import Any

import numpy as np

import conceptwatch

from .network import enter

# A forked process would inherit the threads of gRPC.
PROCESSES = multiprocessing.get_context("spawn")
SPLIT = "val"


@dataclass(frozen=True)
class Shape:
    """What a pass has."""

    concepts: int = 3
    rows: int = 240
    batch: int = 60


@dataclass(frozen=True)
class Plan:
    """What all ranks know."""

    address: str
    name: str
    world_size: int
    shape: Shape
    seed: int
    in_step: bool = True
    pause: float = 0.05  # seconds between two passes, on average
    timeout: float = 400.0  # seconds for `finish`
    token_file: str | None = None
    hosts: tuple[str, ...] = ()  # of each rank, in `torture.network`
    advice: float = 0.0  # seconds that a rank waits for the advice of a step; 0: it does not ask

    def asks_after(self, step: int) -> bool:
        """Whether all ranks ask after this step, for its advice and that of the steps before: several are open then."""
        return self.advice > 0 and random.Random(f"{self.seed} asks {step}").random() < 0.5


@dataclass
class Report:
    """What a rank knows at its end."""

    rank: int
    finished: bool
    last: int
    stats: dict[str, Any] = field(default_factory=dict)
    unsettled: list[tuple[str, int]] = field(default_factory=list)
    # Whether to stop and why, by step.
    advice: dict[int, tuple[bool, str]] = field(default_factory=dict)


@dataclass
class Sight:
    """What the client of a rank knows at a moment: steps of its passes."""

    acknowledged: set[int]  # received, perhaps not settled
    settled: set[int]


def log_pass(run: conceptwatch.Run, shape: Shape, step: int, rank: int = 0, world_size: int = 1) -> None:
    """A rank's share of the pass of a step."""
    random_rows = np.random.default_rng(step)
    labels = random_rows.integers(0, 2, (shape.rows, shape.concepts))
    noise = random_rows.random((shape.rows, shape.concepts))
    activations = (0.6 * labels + 0.4 * noise).astype(np.float32)
    tasks = labels[:, 0] ^ (noise[:, 0] < 0.1)
    with run.evaluation(SPLIT, step=step, epoch=float(step)) as p:
        for first in range(rank * shape.batch, shape.rows, world_size * shape.batch):
            part = slice(first, first + shape.batch)
            p.log(
                sample_ids=np.arange(shape.rows)[part],
                concept_activations=activations[part],
                concept_labels=labels[part],
                task_labels=tasks[part],
            )


def joined(plan: Plan, rank: int) -> conceptwatch.Run:
    return conceptwatch.init(
        plan.name,
        concepts=plan.shape.concepts,
        address=plan.address,
        token_file=plan.token_file,
        spawn=False,
        rank=rank,
        world_size=plan.world_size,
        job=f"{plan.name}-{plan.seed}",
    )


def _sight(run: conceptwatch.Run, ended: int) -> Sight:
    """ended: passes so far."""
    sender, link = run._sender, run._link
    with sender._wake:
        passes = list(sender._outbox.unsettled(link))
        waiting = {kept.key.step for kept in passes}
        acknowledged = {kept.key.step for kept in passes if kept.ends}
    settled = {step for step in range(ended) if step not in waiting}
    return Sight(acknowledged | settled, settled)


def _answer(run: conceptwatch.Run, rank: int, shared: Shared) -> None:
    """Tells the parent what it asks for."""
    while shared.questions[rank].get() is not None:
        shared.sights.put(_sight(run, shared.ended[rank]))


def _rank(plan: Plan, rank: int, shared: Shared, reports: Queue[Report]) -> None:
    if plan.hosts:
        enter(plan.hosts[rank])
    run = joined(plan, rank)
    threading.Thread(target=_answer, args=(run, rank, shared), daemon=True).start()
    pauses = random.Random(f"{plan.seed} {rank}")
    step = 0
    advice: dict[int, tuple[bool, str]] = {}
    while shared.may_log(rank, step):
        log_pass(run, plan.shape, step, rank, plan.world_size)
        if plan.asks_after(step):
            for asked in range(len(advice), step + 1):
                stop = run.should_stop(step=asked, timeout=plan.advice)
                advice[asked] = stop, run.stop_reason(step=asked)
        step += 1
        shared.ended[rank] = step
        if plan.in_step:
            time.sleep(plan.pause * random.Random(f"{plan.seed} {step}").uniform(0.5, 1.5))
            shared.meet()
        else:
            # Mostly short, sometimes long: the ranks drift apart by many passes, and back.
            time.sleep(plan.pause * min(40.0, pauses.lognormvariate(-0.7, 1.2)))
    finished = run.finish(timeout=plan.timeout)
    stats = run.stats
    counts = {name: dict(value) if isinstance(value, dict) else value for name, value in vars(stats).items()}
    reports.put(Report(rank, finished, step - 1, counts, run._sender.unsettled(run._link), advice))


class Shared:
    """What the ranks agree on: the step each is at, and the last one."""

    def __init__(self, plan: Plan) -> None:
        self._lock = PROCESSES.Lock()
        self._steps = PROCESSES.RawArray("q", [-1] * plan.world_size)
        self._last = PROCESSES.RawValue("q", -1)
        self._barrier = PROCESSES.Barrier(plan.world_size)
        self.ended = PROCESSES.RawArray("q", [0] * plan.world_size)
        self.questions: list[Queue[bool | None]] = [PROCESSES.Queue() for _ in range(plan.world_size)]
        self.sights: Queue[Sight] = PROCESSES.Queue()

    def may_log(self, rank: int, step: int) -> bool:
        with self._lock:
            if 0 <= self._last.value < step:
                return False
            self._steps[rank] = step
            return True

    def meet(self) -> None:
        self._barrier.wait()

    def end(self, step: int = 0) -> None:
        """No rank goes beyond this step, or beyond the one that some rank is at."""
        with self._lock:
            self._last.value = max(*self._steps, step)

    @property
    def step(self) -> int:
        """Of the slowest rank."""
        with self._lock:
            return min(int(step) for step in self._steps)


class Job:
    """Runs from its construction on."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.shared = plan, Shared(plan)
        self._reports: Queue[Report] = PROCESSES.Queue()
        self._processes = [
            PROCESSES.Process(target=_rank, args=(plan, rank, self.shared, self._reports), daemon=True)
            for rank in range(plan.world_size)
        ]
        for process in self._processes:
            process.start()

    def sights(self) -> list[Sight]:
        for question in self.shared.questions:
            question.put(True)
        return [self.shared.sights.get(timeout=60.0) for _ in self._processes]

    def end(self) -> list[Report]:
        """No rank begins another pass; their reports, by rank."""
        self.shared.end()
        reports = [self._reports.get(timeout=self.plan.timeout + 120.0) for _ in self._processes]
        for process in self._processes:
            process.join(30.0)
        return sorted(reports, key=lambda report: report.rank)

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()
