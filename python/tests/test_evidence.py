"""A slice of `make evidence`: a run that collapses and a sound one, trained, scored by the program and told apart."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import package
from real_sidecar import binary

EVIDENCE = Path(__file__).parents[1] / "evidence"


@pytest.fixture(scope="module")
def programs() -> Any:
    """Imports a module of the programs."""
    for name in ("torch", "scipy", "sklearn"):
        package(name)
    # Other programs have modules of these names, too.
    own = [file.stem for file in EVIDENCE.glob("*.py")]
    others = {name: sys.modules.pop(name) for name in own if name in sys.modules}
    sys.path.insert(0, str(EVIDENCE))
    yield importlib.import_module
    sys.path.remove(str(EVIDENCE))
    for name in own:
        sys.modules.pop(name, None)
    sys.modules.update(others)


def test_a_run_that_collapses_and_a_sound_one_are_told_apart(
    programs: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    train, grid, verdicts = (programs(name) for name in ("train", "grid", "verdicts"))
    wanted = [("soft", 0.01), ("soft", 10.0)]
    few = [of for of in grid.runs() if of["data"] == "digits-10-complete" and of["seed"] == 0]
    few = [of for of in few if of["training"] == "joint" and (of["encoding"], of["weight"]) in wanted]
    monkeypatch.setattr(train, "runs", lambda: few)
    monkeypatch.setenv("CONCEPTWATCH_BINARY", binary())
    file = tmp_path / "evidence" / "runs.jsonl"
    monkeypatch.setattr(sys, "argv", ["train.py", str(file), "--processes", "1"])
    train.main()
    lines = file.read_text()
    runs = sorted(map(json.loads, lines.splitlines()), key=lambda run: run["weight"])

    assert [run["weight"] for run in runs] == [0.01, 10.0]
    assert verdicts.outcomes(runs) == ["collapsing", "sound"]
    rule = verdicts.leaks((0.12, 0.85, 4))
    assert rule(runs[0]) is not None
    assert rule(runs[1]) is None
    # Each says what it cost: the CPU time of the program that scores, too.
    for cost in (run["cost"] for run in runs):
        assert cost["processes"] == 1
        assert cost["cores"] >= 1
        assert cost["seconds"] > 0
        assert cost["cpu_seconds"] > 0
    # What is known is not trained again, and a line that was cut off is.
    file.write_text(lines + lines[:40])
    before = os.stat(file).st_mtime_ns
    train.main()
    assert file.read_text() == lines
    assert os.stat(file).st_mtime_ns > before


def test_the_interval_is_clopper_and_pearsons(programs: Any) -> None:
    interval = programs("verdicts").interval
    # No event in n trials: 1 - 0.025^(1/n).
    assert interval(0, 100) == pytest.approx((0.0, 1 - 0.025 ** (1 / 100)))
    assert interval(100, 100) == pytest.approx((0.025 ** (1 / 100), 1.0))


def test_an_evaluation_without_a_score_is_no_evidence(programs: Any) -> None:
    first = programs("verdicts").first
    run = {"scores": {"ctl_conditional": [0.9, 0.9, 0.5, None, 0.5, 0.1, 0.5, 0.5]}}
    assert first(run, lambda point: point["ctl_conditional"] > 0.2, 2) == 4
    assert first(run, lambda point: point["ctl_conditional"] > 0.2, 3) is None
