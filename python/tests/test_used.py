"""Runs of hostile names, and one that was resumed from earlier checkpoints, as tables and on a terminal."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conceptwatch import _parquet
from conftest import package, wait_for
from jobs import Job, settled, sidecars
from real_sidecar import binary, eager

HOSTILE = ["=1+1", "@SUM(A1)", "-2+3", "+cmd|' /C calc'!A0", '<script>alert("1")</script>', "a,b", "🐦 مرحبا"]


def said(*arguments: str) -> str:
    done = subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a run whose name, concepts and labels are hostile."""
    directory = tmp_path_factory.mktemp("hostile") / "curves"
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, (200, len(HOSTILE)))
    with eager("--data-dir", str(directory)) as address:
        run = conceptwatch.init("=run", concepts=HOSTILE, labels={"=a": "=2+2"}, address=address, spawn=False)
        with run.evaluation("val", step=1) as p:
            p.log(concept_activations=labels * 0.5 + 0.2, concept_labels=labels, task_labels=labels[:, 0])
        assert run.finish()
    return directory


def column(path: Path, name: str) -> set[str]:
    with path.open(encoding="utf-8", newline="") as rows:
        return {row[name] for row in csv.DictReader(rows)}


def test_a_spreadsheet_computes_nothing_of_what_is_exported(hostile: Path, tmp_path: Path) -> None:
    said("export", "--to", str(tmp_path / "out"), "--data-dir", str(hostile))
    expected = {f"'{name}" if name[0] in "=+-@" else name for name in HOSTILE}
    assert column(tmp_path / "out/concepts.csv", "concept") == expected
    assert column(tmp_path / "out/scores.csv", "run") == {"'=run"}
    # Numbers stay numbers.
    values = column(tmp_path / "out/scores.csv", "value")
    assert all(float(value) < 2 for value in values if value)


def test_programs_read_names_as_they_are(hostile: Path, tmp_path: Path) -> None:
    said("export", "--as-is", "--to", str(tmp_path / "csv"), "--data-dir", str(hostile))
    assert column(tmp_path / "csv/concepts.csv", "concept") == set(HOSTILE)
    said("export", "--format", "jsonl", "--to", str(tmp_path / "lines"), "--data-dir", str(hostile))
    lines = (tmp_path / "lines/concepts.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["concept"] for line in lines} == set(HOSTILE)
    read: Any = conceptwatch.runs(str(hostile))["=run"].series("concept_accuracy", concept="=1+1")
    assert len(read) == 1


def test_parquet_has_names_as_they_are(hostile: Path, tmp_path: Path) -> None:
    parquet = package("pyarrow.parquet", "pyarrow")
    arguments = ["export", "--format", "parquet", "--to", str(tmp_path / "out"), "--data-dir", str(hostile)]
    assert _parquet.export(binary(), arguments) == 0
    assert set(parquet.read_table(tmp_path / "out/concepts.parquet")["concept"].to_pylist()) == set(HOSTILE)


def test_watch_shows_the_newest_branch_and_what_is_left(job: Callable[..., Job], tmp_path: Path) -> None:
    one = job("one")
    for attempt, steps in (("j0", [1, 2, 3, 4, 5]), ("j1", [3, 4]), ("j2", [2, 3])):
        one.do(f"run = conceptwatch.init('branch', concepts=3, job={attempt!r}, resume=True)")
        # One at a time: a sidecar that has little of the processor skips passes that outrun it.
        for count, step in enumerate(steps, start=1):
            one.do(f"evaluate(run, {step})")
            assert settled(one, count) == {"point": count}
        assert one.do("run.finish()") is True
    one.end()
    wait_for(lambda: not sidecars(tmp_path))
    shown = said("watch", "--scores", "concept_accuracy", "branch")
    # Three points of the newest branch; of the first branch steps 2 to 5, of the second 3 and 4.
    assert "\nbranch  finished  " in shown
    assert "step 3\n" in shown
    assert re.search(r"^  concept_accuracy  .*  limit 0\.9 +\S \S\S\S$", shown, re.MULTILINE), shown
    assert shown.rstrip().endswith("  left behind: 6 up to step 5")
