"""Rows that other programs of the project prove, run here with larger counts. The tests run them with smaller ones."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .results import Figures, Outcome, Part, Row, Setting

ROOT = Path(__file__).parents[2]
# Cases of a part: some minutes.
PORTION = 1000
CUTS, CORRUPTIONS, DISKS, RUNS, INPUTS = 20_000, 10_000, 1000, 1_000_000, 500
FUZZED = ("chunk", "tensors", "names", "npz", "history", "recording")


def judged(command: Sequence[str], environment: dict[str, str], line: str) -> Outcome:
    """Runs a program. line: of its output, whose named groups are numbers."""
    own = {**os.environ, **environment}
    done = subprocess.run(command, env=own, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    output = done.stdout + done.stderr
    figures: Figures = {}
    for match in re.finditer(line, output, re.MULTILINE):
        for name, number in match.groupdict().items():
            if number is not None:
                figures[name] = figures.get(name, 0) + int(number)
    faults = []
    if done.returncode != 0:
        faults.append(f"{' '.join(command)}: status {done.returncode}: {' / '.join(output.strip().splitlines()[-8:])}")
    elif not figures:
        faults.append(f"{' '.join(command)}: no line like '{line}'")
    return Outcome(figures, faults)


def tested(setting: Setting, test: str, name: str, line: str, cases: int, first: int) -> Outcome:
    """Runs a test program that takes its number of cases and its first seed from the environment."""
    command = ["cargo", "test", "--locked", "--test", test, name, "--", "--nocapture"]
    return judged(command, {"CONCEPTWATCH_CASES": str(cases), "CONCEPTWATCH_SEED": str(first)}, line)


def portions(setting: Setting, name: str, line: str, cases: int) -> list[Part]:
    """Of a slice, the first."""
    first = setting.seed_of(name) % (1 << 30)
    return [
        Part(
            f"{at + 1} to {at + PORTION}",
            functools.partial(tested, test="history", name=name, line=line, cases=PORTION, first=first + at),
        )
        for at in range(0, setting.size(cases, PORTION), PORTION)
    ]


def inputs(setting: Setting) -> list[Part]:
    line = r"^(?P<cases>\d+) bad inputs"

    def run(setting: Setting) -> Outcome:
        outcome = tested(setting, "bad_input", "", line, 0, 0)
        of_library = tested(setting, "core", "declarations", line, 0, 0)
        outcome.figures["cases"] = outcome.figures.get("cases", 0) + of_library.figures.get("cases", 0)
        outcome.faults += of_library.faults
        if outcome.figures.get("cases", 0) < INPUTS:
            outcome.faults.append(f"{outcome.figures.get('cases', 0)} bad inputs")
        return outcome

    return [] if setting.is_slice else [Part("all tables", run)]


def fuzz(setting: Setting, target: str) -> Outcome:
    line = r"^stat::number_of_executed_units:\s+(?P<runs>\d+)|^stat::peak_rss_mb:\s+(?P<mib>\d+)"
    command = ["make", "--no-print-directory", "fuzz", f"RUNS={RUNS}", f"FUZZED={target}"]
    outcome = judged(command, {}, line)
    if outcome.figures.get("runs", 0) < RUNS:
        outcome.faults.append(f"{target}: {outcome.figures.get('runs', 0)} runs")
    return outcome


def fuzzing(setting: Setting) -> list[Part]:
    return [] if setting.is_slice else [Part(name, functools.partial(fuzz, target=name)) for name in FUZZED]


def total(figures: list[Figures], name: str) -> int:
    return sum(int(of.get(name, 0)) for of in figures)


ROWS = [
    Row(
        "powercuts",
        "20,000 simulated power cuts (writes lost and reordered within what fsync allows, torn pages)",
        functools.partial(portions, name="power_cuts", line=r"^(?P<cases>\d+) cuts in ", cases=CUTS),
        lambda figures: f"{total(figures, 'cases'):,} cuts; after each, every stored point is there and right",
    ),
    Row(
        "corruptions",
        "10,000 corruptions of the data directory",
        functools.partial(
            portions,
            name="corruption",
            line=r"^(?P<cases>\d+) cases: (?P<harmless>\d+) harmless, (?P<partly>\d+) served in part, "
            r"(?P<refused>\d+) refused;.*; (?P<silent>\d+) lost",
            cases=CORRUPTIONS,
        ),
        lambda figures: (
            f"{total(figures, 'cases'):,} corruptions: {total(figures, 'harmless'):,} harmless, "
            f"{total(figures, 'partly'):,} detected and the rest served, {total(figures, 'refused'):,} refused with "
            f"the command that repairs; no wrong value; {total(figures, 'silent'):,} logs looked as after a power loss"
        ),
    ),
    Row(
        "disk",
        "ENOSPC and EIO at every operation",
        functools.partial(
            portions,
            name="faults",
            line=r"^(?P<cases>\d+) cases, (?P<failed>\d+) with a failure",
            cases=DISKS,
        ),
        lambda figures: (
            f"{total(figures, 'failed'):,} disks that fail from some operation on: the sidecar says "
            "so, continues and recovers without a restart; nothing settled is lost"
        ),
    ),
    Row(
        "fuzz",
        "six coverage-guided fuzz targets (chunk, tensors, names and questions, npz, history file, recording), "
        "1 M runs each",
        fuzzing,
        lambda figures: (
            f"{total(figures, 'runs'):,} runs, at most {max(int(of.get('mib', 0)) for of in figures)} MiB; no panic, "
            "no hang"
        ),
    ),
    Row(
        "inputs",
        "bad inputs, at every place where input comes in",
        inputs,
        lambda figures: f"{total(figures, 'cases')} bad inputs, each answered with the field and what was expected",
    ),
]
