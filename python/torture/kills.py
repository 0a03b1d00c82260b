"""SIGKILL: at random moments, and at the Nth call that changes a file, of which half are torn writes."""

from __future__ import annotations

import functools
import math
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from .job import SPLIT, Job, Plan, Report, Shape
from .points import difference, point, undisturbed
from .results import Figures, Outcome, Part, Row, Setting
from .sidecar import PATIENCE, Sidecar, wait_for

SHAPE = Shape()
# Seconds from the start of the program to a kill: some fall into the start itself.
LONGEST = 1.5
# File changes from the start of the program to a kill.
MOST_WRITES = 400
KINDS = ("moment", "write", "half")
SCENARIOS = {
    "1 rank": (1, True),
    "2 ranks in step": (2, True),
    "2 ranks out of step": (2, False),
    "4 ranks in step": (4, True),
    "4 ranks out of step": (4, False),
}


def shim(folder: Path) -> Path | None:
    """The library that counts writes; None without a C compiler, and then all kills are at random moments."""
    library = folder / "kill_at.so"
    source = Path(__file__).with_name("kill_at.c")
    try:
        command = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
        subprocess.run(command, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return library


class Killer:
    def __init__(self, sidecar: Sidecar, library: Path | None, seed: int) -> None:
        self.sidecar, self._library, self._random = sidecar, library, random.Random(seed)
        self.kills = dict.fromkeys(KINDS, 0)
        self.faults: list[str] = []

    def kill(self) -> None:
        """One life of the sidecar."""
        kind = self._random.choice(KINDS if self._library else KINDS[:1])
        environment: dict[str, str] = {}
        if kind != "moment":
            n = math.ceil(math.exp(self._random.uniform(0.0, math.log(MOST_WRITES))))
            environment = {"LD_PRELOAD": str(self._library), "KILL_AT": str(n)}
            if kind == "half":
                environment["KILL_HALF"] = "1"
        self.sidecar.start(environment)
        assert self.sidecar.process is not None
        if kind == "moment":
            time.sleep(self._random.uniform(0.0, LONGEST))
            if self.sidecar.is_running:
                self.sidecar.kill()
        else:
            try:
                self.sidecar.process.wait(timeout=4 * LONGEST)
            except subprocess.TimeoutExpired:
                kind = "moment"
                self.sidecar.kill()
        status = self.sidecar.process.returncode
        if status != -signal.SIGKILL:
            self.faults.append(f"a sidecar ended by itself with status {status}, see {self.sidecar.log}")
        self.kills[kind] += 1
        # Sometimes an outage that the clients notice.
        time.sleep(self._random.choice([0.0, 0.0, 0.5]))


def scenario(setting: Setting, name: str, kills: int) -> Outcome:
    ranks, in_step = SCENARIOS[name]
    folder = setting.folder / f"kills-{name.replace(' ', '-')}"
    seed = setting.seed_of(f"sigkill {name}")
    sidecar = Sidecar(setting.binary, folder / str(time.time_ns()))
    killer = Killer(sidecar, shim(setting.folder), seed)
    sidecar.start()
    sidecar.wait_ready()
    job = Job(Plan(sidecar.address, "killed", ranks, SHAPE, seed, in_step, pause=0.15))
    try:
        wait_for(lambda: job.shared.step >= 1)
        sidecar.kill()
        killer.kills["moment"] += 1
        while sum(killer.kills.values()) < kills:
            killer.kill()
        sidecar.start()
        sidecar.wait_ready()
        reports = job.end()
        wait_for(lambda: not any(report.unsettled for report in reports) or not sidecar.is_running, PATIENCE)
        steps = max(report.last for report in reports) + 1
        expected = undisturbed(setting.binary, folder / f"undisturbed-{time.time_ns()}", SHAPE, steps)
        figures, faults = compared(sidecar, "killed", reports, steps, expected)
        return Outcome({**figures, "kills": sum(killer.kills.values()), **killer.kills}, killer.faults + faults)
    finally:
        job.kill()
        if sidecar.is_running:
            sidecar.kill()


def compared(
    sidecar: Sidecar, run: str, reports: list[Report], steps: int, expected: list[dict[str, Any]]
) -> tuple[Figures, list[str]]:
    """What the history has of the passes that were logged."""
    found, reasons = sidecar.steps(run, SPLIT), sidecar.unscored(run, SPLIT)
    counts = dict.fromkeys(("equal", "incomplete", "unequal", "later", "recorded", "absent", "twice"), 0)
    faults: list[str] = []
    for step in range(steps):
        if found[step]:
            got = point(sidecar, run, step)
            counts["twice"] += found[step] > 1
            different, late = difference(got, expected[step])
            counts["later"] += late > 0
            kind = "incomplete" if got["incomplete"] else "unequal" if different else "equal"
            counts[kind] += 1
            if different and kind == "unequal" and counts["unequal"] < 3:
                faults.append(f"step {step}: {different}")
        elif step in reasons:
            counts["recorded"] += 1
        else:
            counts["absent"] += 1
    # A pass that the client replaced by a newer one was never sent, and the job's counters say so.
    left_out = sum(report.stats["passes_left_out"] for report in reports) if len(reports) == 1 else 0
    counts["left out"] = min(left_out, counts["absent"])
    counts["absent"] -= counts["left out"]
    unprotected = sum(report.stats["passes_unprotected"] for report in reports)
    dropped = sum(sum(report.stats["batches_dropped"].values()) for report in reports)
    unfinished = sum(not report.finished for report in reports)
    bad = {
        "passes absent": counts["absent"],
        "passes twice": counts["twice"],
        "points unequal to those of a run without kills": counts["unequal"],
        "incomplete points, though every client lived": counts["incomplete"],
        "passes unprotected": unprotected,
        "batches dropped": dropped,
        "ranks whose finish() was false": unfinished,
    }
    faults += [f"{number} {what}" for what, number in bad.items() if number]
    sent_again = sum(report.stats["passes_sent_again"] for report in reports)
    return {"passes": steps, **counts, "sent again": sent_again}, faults


def measured(figures: list[Figures]) -> str:
    def total(name: str) -> int:
        return sum(int(of[name]) for of in figures)

    text = (
        f"{total('kills')} kills ({total('moment')} at random moments, {total('write')} before a write, "
        f"{total('half')} in a write), {total('passes')} passes: {total('equal')} complete points, bit-equal to a run "
        f"without kills, {total('recorded')} with a recorded reason, {total('absent')} absent, {total('twice')} twice"
    )
    if total("left out"):
        text += f", {total('left out')} left out by the client and counted by it"
    if total("later"):
        text += f"; {total('later')} points without p-values, which join a point later and are not computed again"
    return text


def parts(setting: Setting) -> list[Part]:
    kills = setting.size(60, 4)
    names = ("1 rank", "2 ranks out of step", "4 ranks in step") if setting.is_slice else tuple(SCENARIOS)
    return [Part(name, functools.partial(scenario, name=name, kills=kills)) for name in names]


ROW = Row(
    "sigkill",
    "300 SIGKILLs at random moments and at every Nth write; 1, 2 and 4 ranks, in and out of step; real Python client",
    parts,
    measured,
)
