"""A run over two hosts with one sidecar: a SIGKILL every two seconds, checked against a job of one process."""

from __future__ import annotations

import functools
import random
import statistics
import time
from collections import Counter
from pathlib import Path
from typing import Any

from .cluster import SAMPLE, Cluster, Program, Victim, cluster
from .job import SPLIT, Job, Plan, Report, Shape
from .network import may_part
from .points import MATRICES, Point, difference, point, undisturbed
from .results import Figures, Outcome, Part, Row, Setting
from .sidecar import Sidecar, wait_for

SHAPE = Shape(rows=400, batch=25)
RANKS = 4
RUN = "killed"
EVERY = 2.0  # seconds between two kills
LONGEST = 3.0  # seconds that a victim is down at most
ADVICE = 90.0  # seconds that a rank waits for advice
# Fires and resolves repeatedly: half of the evaluations are above.
RULE = """
[[alerts]]
name = "above the middle"
score = "icl"
split = "val"
above = {limit}
hysteresis = 0.0
advise_stop = true
"""
# The answer to a rank that got none in time.
UNANSWERED = ("no advice yet", "the sidecar ")
# What it is told later, of a step at which others were advised to stop.
MISSED = "missed at step "
# Kept for some points only.
OF_MATRICES = ("step", "concepts", "matrix", "ages", "matrix_q")
APART = "steps at which some ranks stop and others do not"
KINDS = ("hub", "PostgreSQL", "sidecar", "network")


class Chaos:
    """Kills a victim every two seconds, and restarts it within three."""

    def __init__(self, victims: list[Victim], seed: int) -> None:
        self._victims, self._random = victims, random.Random(seed)
        self._down: list[tuple[float, Victim]] = []
        self._next = 0.0
        self.kills = dict.fromkeys(KINDS, 0)

    def go_on(self) -> None:
        now = time.monotonic()
        for due, victim in [one for one in self._down if one[0] <= now]:
            self._down.remove((due, victim))
            victim.start()
        if now < self._next:
            return
        self._next = now + EVERY
        down = [victim for _, victim in self._down]
        victim = self._random.choice([one for one in self._victims if one not in down])
        victim.kill()
        self.kills[victim.name.partition(" ")[0]] += 1
        self._down.append((now + self._random.choice([0.0, self._random.uniform(0.0, LONGEST)]), victim))

    def end(self) -> None:
        for _, victim in self._down:
            victim.start()
        self._down.clear()


def scenario(setting: Setting, kind: str, passes: int) -> Outcome:
    folder = setting.folder / f"hosts-{kind.replace(' ', '-')}-{time.time_ns()}"
    seed = setting.seed_of(f"hosts {kind}")
    expected = _alone(setting, passes)
    limit = statistics.median(one["scores"]["icl"]["value"] for one in expected)
    with cluster(setting, folder / "killed", RULE.format(limit=limit), parted=kind == "partitions") as hosts:
        victims = [*hosts.served]
        if kind != "hubs":
            victims.append(Program("sidecar", hosts.sidecar))
        if hosts.network is not None:
            victims += hosts.network.links
        job = Job(
            Plan(
                hosts.sidecar.address, RUN, RANKS, SHAPE, seed, pause=0.3, timeout=600.0, advice=ADVICE,
                token_file=str(hosts.token_file), hosts=hosts.hosts(RANKS),
            )
        )  # fmt: skip
        job.shared.end(passes - 1)
        chaos = Chaos(victims, seed)
        try:
            wait_for(lambda: job.shared.step >= 1)
            begun, limit_seconds = time.monotonic(), 20.0 * passes
            while job.shared.step < passes - 1:
                chaos.go_on()
                time.sleep(0.02)
                if time.monotonic() - begun > limit_seconds:
                    raise TimeoutError(
                        f"{job.shared.step} of {passes} passes after {limit_seconds:.0f} s, see {folder}"
                    )
            chaos.end()
            seconds = time.monotonic() - begun
            reports = job.end()
        finally:
            job.kill()
        for one in (*hosts.hubs, hosts.sidecar):
            one.wait_ready()
        wait_for(lambda: hosts.sidecar.ask("/api/v1/status")["upstream"]["waiting"] == 0)
        figures, faults = judged(hosts, reports, expected, sidecar_died=kind != "hubs")
    return Outcome({**figures, "seconds": round(seconds), "kills": sum(chaos.kills.values()), **chaos.kills}, faults)


@functools.cache
def _alone(setting: Setting, passes: int) -> list[Point]:
    """The points of one process. What is logged depends on the step alone, so all parts have the same."""
    return undisturbed(setting.binary, setting.folder / f"hosts-alone-{time.time_ns()}", SHAPE, passes, *SAMPLE)


def judged(
    hosts: Cluster, reports: list[Report], expected: list[Point], *, sidecar_died: bool
) -> tuple[Figures, list[str]]:
    """Compares what the sidecar and the hubs have with the logged passes, and the advice of the ranks."""
    steps = max(report.last for report in reports) + 1
    counts: dict[str, int] = dict.fromkeys(("equal", "later"), 0)
    faults: list[str] = []
    bad: Counter[str] = Counter()
    stored, past = hosts.database.points()
    bad["points that were replaced"] = past
    bad["points twice in the database"] = sum(count > 1 for count in stored.values())
    shown = hosts.sidecar.steps(RUN, SPLIT)
    bad["points twice at the sidecar"] = sum(count > 1 for count in shown.values())
    reasons = hosts.sidecar.unscored(RUN, SPLIT)
    for step in range(steps):
        for name, of in (("the sidecar", hosts.sidecar), ("a hub", hosts.hubs[step % 2])):
            if not (shown if of is hosts.sidecar else stored)[step]:
                bad[f"passes without a point at {name}"] += 1
                faults += [f"step {step}: {reasons[step]}"] if step in reasons else []
                continue
            different, late, incomplete = _compared(of, step, expected[step])
            bad[f"points that are incomplete at {name}"] += incomplete
            bad[f"points that are wrong at {name}"] += bool(different)
            faults += [f"step {step} at {name}: {different}"] if different else []
            counts["equal"] += of is hosts.sidecar and not different and not incomplete
            counts["later"] += of is hosts.sidecar and late > 0
    told = [_steps(hub) for hub in hosts.hubs]
    bad["steps that one hub shows and the other does not"] = len(told[0] ^ told[1])
    answers, of_advice = _advice(reports, steps)
    if sidecar_died:
        # A client without a sidecar, or cut off from it, gets no answer, and training goes on.
        answers["apart"] = of_advice.pop(APART, 0)
    bad += of_advice
    bad["passes unprotected"] = sum(report.stats["passes_unprotected"] for report in reports)
    bad["batches dropped"] = sum(sum(report.stats["batches_dropped"].values()) for report in reports)
    bad["ranks whose finish() was false"] = sum(not report.finished for report in reports)
    faults = faults[:3] + [f"{number} {what}" for what, number in bad.items() if number]
    repeated = {"twice": bad["points twice in the database"], "differing": bad["steps with two answers"]}
    return {"passes": steps, **counts, **answers, **repeated}, faults


def _steps(hub: Sidecar) -> set[int]:
    return set(hub.steps(RUN, SPLIT))


def _compared(sidecar: Sidecar, step: int, expected: Point) -> tuple[str, int, bool]:
    """The first value of a point that differs; how many may still join it; whether it is incomplete."""
    got = point(sidecar, RUN, step)
    if got["incomplete"]:
        return "", 0, True
    return (*difference(got, _as_kept(expected, got)), False)


def _as_kept(expected: Point, got: Point) -> Point:
    """Without the matrices that a hub does not keep."""
    scores: dict[str, Any] = dict(expected["scores"])
    for score in MATRICES:
        if "matrix" not in got["scores"].get(score, {}):
            scores[score] = {name: value for name, value in scores[score].items() if name not in OF_MATRICES}
    return {**expected, "scores": scores}


def _advice(reports: list[Report], steps: int) -> tuple[Figures, Counter[str]]:
    """All ranks of a step are told the same; one that got no answer in time does not stop, whatever others do, but
    learns it with its next answer.
    """
    bad: Counter[str] = Counter()
    answers = {"asked": 0, "stops": 0, "unanswered": 0, "missed": 0}
    for step in range(steps):
        given = [report.advice[step] for report in reports if step in report.advice]
        told = [one for one in given if not one[1].startswith(MISSED)]
        for _, reason in given:
            if reason.startswith(MISSED):
                missed = int(reason.removeprefix(MISSED).partition(":")[0])
                answers["missed"] += 1
                bad["advice missed that nobody had"] += not any(report.advice[missed][0] for report in reports)
        known = [one for one in told if not one[1].startswith(UNANSWERED)]
        answers["asked"] += bool(told)
        answers["stops"] += any(stop for stop, _ in told)
        answers["unanswered"] += len(told) - len(known)
        bad["steps with two answers"] += len(set(known)) > 1
        bad[APART] += len({stop for stop, _ in told}) > 1
    return answers, bad


def measured(figures: list[Figures]) -> str:
    def total(name: str) -> int:
        return sum(int(of.get(name, 0)) for of in figures)

    killed = ", ".join(f"{total(kind)} {kind}" for kind in KINDS if total(kind))
    return (
        f"{total('kills')} kills ({killed}) in {total('seconds')} s, {total('passes')} passes: {total('equal')} points "
        f"bit-equal to one process, {total('twice')} twice; advice asked for {total('asked')} of them, "
        f"{total('stops')} to stop, at {total('differing')} steps two different answers; {total('unanswered')} "
        f"questions of ranks without an answer in time, at {total('apart')} steps while other ranks stopped, "
        f"{total('missed')} of them answered later; {total('later')} points without all p-values"
    )


def parts(setting: Setting) -> list[Part]:
    passes = setting.size(200, 20)
    kinds = ["sidecar"] if setting.is_slice else ["hubs", "sidecar"]
    if not setting.is_slice and setting.binary != Path() and may_part():
        kinds.append("partitions")
    return [Part(kind, functools.partial(scenario, kind=kind, passes=passes)) for kind in kinds]


ROW = Row(
    "hosts",
    "a SIGKILL every 2 s among 2 hubs and PostgreSQL, during a run of 200 passes over two hosts; also of its sidecar; "
    "also with the network between the hosts, or to the hubs, down",
    parts,
    measured,
)
