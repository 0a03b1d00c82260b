"""SIGTERM while ranks log faster than their passes are scored: what the history has when the program has ended."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

from .job import SPLIT, Job, Plan, Shape, Sight
from .results import Figures, Outcome, Part, Row, Setting
from .sidecar import Sidecar, running, wait_for

SHAPE = Shape(concepts=32, rows=1600, batch=400)
LIMIT = 5.0


def lines(setting: Setting, data: Path, folder: Path) -> tuple[set[int], set[int]]:
    """Steps with a complete point, and steps with any line in the history, read from a copy of the directory."""
    shutil.copytree(data, folder / "data")
    with running(setting.binary, folder) as reader:
        points = set(reader.steps("stopped", SPLIT))
        recorded = set(reader.unscored("stopped", SPLIT))
    shutil.rmtree(folder)
    return points, points | recorded


def stops(setting: Setting, times: int) -> Outcome:
    folder = setting.folder / f"stops-{time.time_ns()}"
    seed = setting.seed_of("sigterm")
    moments = random.Random(seed)
    sidecar = Sidecar(setting.binary, folder)
    sidecar.start()
    sidecar.wait_ready()
    job = Job(Plan(sidecar.address, "stopped", 2, SHAPE, seed, in_step=True, pause=0.06))
    took: list[float] = []
    waiting: list[float] = []
    faults: list[str] = []
    checked = {"acknowledged": 0, "settled": 0, "without a line": 0, "settled and lost": 0, "failed": 0}

    def stop(sights: list[Sight] | None = None) -> None:
        waiting.append(sidecar.metrics()["conceptwatch_passes_unsettled"])
        status, seconds = sidecar.stop()
        took.append(seconds)
        checked["failed"] += status != 0
        if status != 0 or seconds > LIMIT:
            faults.append(f"SIGTERM {len(took)}: exit status {status} after {seconds:.1f} s")
        # What has arrived at the clients is read by them at once.
        time.sleep(0.3)
        sights = sights or job.sights()
        _, written = lines(setting, sidecar.data, folder / "copy")
        for name, wanted, bad in (
            ("acknowledged", set().union(*(sight.acknowledged for sight in sights)), "without a line"),
            # Every rank is told.
            ("settled", set().union(*(sight.settled for sight in sights)), "settled and lost"),
        ):
            checked[name] += len(wanted)
            lost = wanted - written
            checked[bad] += len(lost)
            if lost:
                faults.append(f"SIGTERM {len(took)}: {len(lost)} {name} passes without a line, such as {min(lost)}")

    try:
        for _ in range(times - 1):
            first = job.shared.step
            wait_for(lambda first=first: job.shared.step > first)  # type: ignore[misc]
            time.sleep(moments.uniform(0.0, 1.5))
            stop()
            sidecar.start()
            sidecar.wait_ready()
        reports = job.end()
        faults += [f"finish() of rank {report.rank} was false" for report in reports if not report.finished]
        # After finish() everything is settled: what a SIGTERM right then leaves.
        everything = set(range(reports[0].last + 1))
        stop([Sight(everything, everything)])
    finally:
        job.kill()
        if sidecar.is_running:
            sidecar.kill()
    figures: Figures = {"stops": len(took), "slowest": round(max(took), 2), "waiting": sum(waiting), **checked}
    return Outcome({**figures, "passes": len(everything)}, faults)


def measured(figures: list[Figures]) -> str:
    of = figures[0]
    return (
        f"{of['stops']} SIGTERMs in {of['passes']} passes, {of['waiting']:.0f} passes waiting in all: slowest exit "
        f"{of['slowest']:.1f} s, {of.get('failed', 0)} with a status other than 0; of the acknowledged passes "
        f"{of['without a line']} without a line in the history, of the settled ones {of['settled and lost']} lost"
    )


def parts(setting: Setting) -> list[Part]:
    times = setting.size(20, 3)
    return [Part(f"{times} times", lambda setting: stops(setting, times))]


ROW = Row("sigterm", "SIGTERM under load, 20 times", parts, measured)
