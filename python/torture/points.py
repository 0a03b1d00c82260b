"""Points as they are compared: to the bit, without what depends on the moment."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from .job import SPLIT, Plan, Shape, joined, log_pass
from .sidecar import PATIENCE, Sidecar, running, wait_for

# Errors of changes are paired with the sample of the evaluation before, which ends with the sidecar.
OF_THE_MOMENT = ("run", "time", "seconds", "change_errors")
MATRICES = ("icl", "icl_conditional")
# Joins a point later, if the sidecar lives until then.
LATER = ("p_value", "per_concept_q", "matrix_q")
TESTED = ("ctl_conditional", "icl_conditional")

Point = dict[str, Any]


def point(sidecar: Sidecar, run: str, step: int) -> Point:
    found: Point = sidecar.ask("/api/v1/point", run=run, split=SPLIT, step=step)
    for score in MATRICES:
        try:
            matrix = sidecar.ask("/api/v1/matrix", run=run, split=SPLIT, score=score, step=step)
        except LookupError:
            continue
        found["scores"][score] |= {name: value for name, value in matrix.items() if name not in OF_THE_MOMENT}
    return {name: value for name, value in found.items() if name not in OF_THE_MOMENT}


def difference(got: Point, expected: Point) -> tuple[str, int]:
    """The first part that is different, or nothing; and the number of values that have not joined `got`."""
    late = 0
    for name in expected.keys() | got.keys():
        if name != "scores" and got.get(name) != expected.get(name):
            return f"{name}: got {got.get(name)!r}, expected {expected.get(name)!r}", late
    for id_, of_expected in expected["scores"].items():
        if id_ not in got["scores"]:
            late += 1
            continue
        of_got = got["scores"][id_]
        for name in of_expected.keys() | of_got.keys():
            if name in LATER and name not in of_got:
                late += 1
            elif of_got.get(name) != of_expected.get(name):
                return f"{id_}.{name}: got {of_got.get(name)!r}, expected {of_expected.get(name)!r}", late
    surplus = got["scores"].keys() - expected["scores"].keys()
    return (f"scores that were not expected: {sorted(surplus)}" if surplus else ""), late


def undisturbed(binary: Path, folder: Path, shape: Shape, steps: int, *options: str) -> list[Point]:
    """The points of a job of one rank whose sidecar is left alone, each with all that joins it later."""
    with running(binary, folder, *options) as sidecar:
        plan = Plan(sidecar.address, "undisturbed", 1, shape, 0)
        run = joined(plan, 0)
        for step in range(steps):
            log_pass(run, shape, step)
            # One after the other, so that none is left out.
            wait_for(lambda: run.stats.passes_unsettled == 0)
            wait_for(functools.partial(_is_whole, sidecar, step))
        if not run.finish(timeout=PATIENCE) or run.stats.passes_settled != {"point": steps}:
            raise AssertionError(f"the undisturbed job was disturbed: {run.stats}")
        return [point(sidecar, "undisturbed", step) for step in range(steps)]


def _is_whole(sidecar: Sidecar, step: int) -> bool:
    found = point(sidecar, "undisturbed", step)
    return all("p_value" in found["scores"][score] for score in TESTED)
