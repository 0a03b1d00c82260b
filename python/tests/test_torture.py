"""What the torture reports, and what it does not repeat."""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torture import __main__ as torture
from torture import hosts, points
from torture.job import Report
from torture.results import Outcome, Part, Results, Row, Setting, read
from torture.slope import slope

ROW = Row("kind", "a test", lambda setting: [], lambda figures: f"{sum(of['n'] for of in figures)} cases")


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    binary = tmp_path / "binary"
    binary.write_bytes(b"one")
    return Setting(binary, tmp_path, 7, is_slice=True)


def test_what_was_reached_with_this_binary_and_seed_is_not_repeated(setting: Setting, tmp_path: Path) -> None:
    file, part = tmp_path / "results.jsonl", Part("a part", lambda setting: Outcome({}))

    def is_known(of: Setting) -> bool:
        return Results(file, of).known(ROW, part) is not None

    Results(file, setting).add(ROW, part, Outcome({"n": 1}, ["a fault"]), 0.0, 0.0)
    Results(file, setting).add(ROW, part, Outcome({"n": 1}, late=["a time"]), 0.0, 0.0)
    assert not is_known(setting)
    Results(file, setting).add(ROW, part, Outcome({"n": 1}), 0.0, 0.0)
    with file.open("a") as cut_off:
        cut_off.write('{"row": ')
    assert is_known(setting)
    assert len(read(file)) == 3
    assert not is_known(dataclasses.replace(setting, seed=8))
    assert not is_known(dataclasses.replace(setting, is_slice=False))
    setting.binary.write_bytes(b"another")
    assert not is_known(setting)


def test_a_part_that_fails_ends_neither_the_others_nor_the_table(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(setting: Setting) -> Outcome:
        raise OSError("no disk")

    parts = [Part("first", breaks), Part("second", lambda setting: Outcome({"n": 3}))]
    monkeypatch.setattr(torture, "ROWS", [dataclasses.replace(ROW, parts=lambda setting: parts)])
    monkeypatch.setenv("CONCEPTWATCH_BINARY", str(setting.binary))
    monkeypatch.setattr(sys, "argv", ["torture", str(tmp_path), "--slice"])
    assert torture.main() == 1
    printed = capsys.readouterr().out
    assert re.search(r"\| a test \| \*\*not reached\*\*: first: OSError: no disk; 3 cases \|", printed)


def test_points_differ_by_a_bit_and_lack_what_joins_later() -> None:
    def of(value: float, **more: Any) -> dict[str, Any]:
        return {"rows": 4, "scores": {"icl": {"value": value, **more}}}

    assert points.difference(of(0.1), of(0.1)) == ("", 0)
    assert points.difference(of(0.1), of(0.1, p_value=0.5)) == ("", 1)
    different, _ = points.difference(of(math.nextafter(0.1, 1.0)), of(0.1))
    assert different.startswith("icl.value: got 0.1")
    different, _ = points.difference(of(0.1, p_value=0.4), of(0.1, p_value=0.5))
    assert different.startswith("icl.p_value")


def test_ranks_are_told_the_same_or_do_not_stop() -> None:
    def bad(*told: tuple[bool, str]) -> dict[str, int]:
        reports = [Report(rank, True, 0, advice={0: answer}) for rank, answer in enumerate(told)]
        return {what: number for what, number in hosts._advice(reports, 1)[1].items() if number}

    late = (False, "no advice yet: the hub did not answer in time (it is away)")
    assert bad((True, "it leaks"), (True, "it leaks")) == {}
    assert bad((False, "no rule fires"), late) == {}
    assert bad((True, "it leaks"), (True, "it leaks more")) == {"steps with two answers": 1}
    assert bad((True, "it leaks"), late) == {"steps at which some ranks stop and others do not": 1}


def test_the_slope_has_the_error_of_what_it_is_taken_from() -> None:
    seconds = [float(second) for second in range(0, 3600, 2)]
    rising, error = slope(seconds, [5.0 + 2.0 * second / 3600 for second in seconds])
    assert rising == pytest.approx(2.0)
    assert error == pytest.approx(0.0, abs=1e-9)
    random = np.random.default_rng(0)
    within = 0
    for _ in range(100):
        found, error = slope(seconds, list(random.normal(size=len(seconds))))
        within += abs(found) < 2.3 * error  # 95 % of a t distribution of 10 degrees of freedom
    assert within >= 88
