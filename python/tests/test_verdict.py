"""One verdict: each surface of a real sidecar shows the same state, score and number for the same evaluations."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conftest import Warned, evaluated, wait_for
from real_sidecar import answer, binary, command, metrics

ROWS, K, EVALUATIONS = 600, 3, 30


def evaluation(step: int, leak: float) -> dict[str, Any]:
    """Well-known concepts that determine the task; where they leak, each tells of the task, and the head reads that."""
    random = np.random.default_rng(step)
    concepts = random.integers(0, 2, (ROWS, K))
    task = (concepts.sum(1) > 1).astype(int)
    known = 8.0 * concepts - 4.0 + random.normal(size=(ROWS, K)) + leak * task[:, None]
    return {
        "concept_activations": (1 / (1 + np.exp(-known))).astype(np.float32),
        "concept_labels": concepts,
        "task_labels": task,
        "task_predictions": task,
        "intervened_task_predictions": task * (leak == 0),
    }


def test_advice_says_once_that_no_rule_looks_at_the_split(address: str, warned: Warned) -> None:
    run = conceptwatch.init("named otherwise", concepts=K, address=address, spawn=False)

    def said() -> list[str]:
        return [text for text in warned() if "should_stop" in text]

    run.log(step=1, **evaluation(1, 3.0))
    assert run.should_stop(step=1, timeout=60.0) is False
    assert said() == [], "evaluations may follow"
    for step, split in ((2, "valid"), (3, "valid"), (4, "val")):
        evaluated(run, evaluation(step, 3.0), split=split, step=step)
        assert run.should_stop(step=step, timeout=60.0) is False
    (once,) = said()
    assert once.endswith("looks at a split of this run; the rules look at: val"), once
    assert run.finish()


@pytest.mark.parametrize(("name", "leak", "state"), [("leaking", 3.0, "leaking"), ("sound", 0.0, "sound")])
def test_thirty_evaluations_have_one_verdict_everywhere(
    address: str, tmp_path: Path, name: str, leak: float, state: str
) -> None:
    run = conceptwatch.init(name, concepts=K, address=address, spawn=False)
    for step in range(EVALUATIONS):
        p = evaluated(run, evaluation(step, leak), step=step, epoch=step)
        p.scores(timeout=60.0)
    stopped = run.should_stop(step=EVALUATIONS - 1, timeout=60.0)
    diagnosis = run.diagnosis(timeout=120.0)
    verdict, page = diagnosis.verdict, str(run.page_url).rstrip("/")
    assert (verdict.state, stopped) == (state, state == "leaking")
    score, value = verdict.deciding.score, verdict.deciding.value

    def same(found: dict[str, Any]) -> None:
        assert (found["state"], found["deciding"]["score"]) == (state, score)
        assert found["deciding"]["value"] == pytest.approx(value, abs=1e-12)
        assert found["concepts"] == list(verdict.concepts)

    same(answer(address, "/api/v1/verdict", run=name, split="val"))
    rows = answer(address, "/api/v1/overview", split="val")["runs"]
    same(next(row["verdict"] for row in rows if row["name"] == name))
    http = page.removeprefix("http://")
    printed = conceptwatch_(["diagnose", name, "--split", "val", "--address", http, "--json"])
    same(json.loads(printed))

    # Where people read it.
    words = {"leaking": "leaking since epoch ", "sound": "sound"}[state]
    number = f"{score} {value:.4f}"
    assert str(verdict).startswith(words)
    assert number in str(verdict)
    report = tmp_path / "report.html"
    conceptwatch_(["diagnose", name, "--split", "val", "--address", http, "--html", str(report)])
    for text in (conceptwatch_(["diagnose", name, "--split", "val", "--address", http]), report.read_text()):
        assert words in text
        assert number in text

    def exported() -> float | None:
        shown = re.search(
            rf'conceptwatch_verdict_value{{run="{name}",score="{score}",split="val"}} (\S+)', metrics(address)
        )
        return float(shown.group(1)) if shown is not None else None

    # The metrics follow within a second.
    wait_for(lambda: exported() == pytest.approx(value, abs=1e-12))
    assert f'conceptwatch_verdict{{run="{name}",split="val",verdict="{state}"}} 1\n' in metrics(address)
    assert_watched(run, name, address, leak, f"{name}  {words}", f"; {score} ")
    assert run.finish()


def assert_watched(run: conceptwatch.Run, name: str, address: str, leak: float, begins: str, has: str) -> None:
    """`watch` prints such a line after an evaluation."""
    watched = subprocess.Popen([binary(), "watch", name, "--address", address], stdout=subprocess.PIPE, text=True)
    said: list[str] = []
    steps = itertools.count(EVALUATIONS)

    def read() -> None:
        said.extend(watched.stdout)

    def told() -> bool:
        # It may have begun to watch after the evaluation before.
        step = next(steps)
        assert evaluated(run, evaluation(step, leak), step=step, epoch=step).scores(timeout=60) is not None
        return any(line.startswith(begins) and has in line for line in said)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        wait_for(told)
    finally:
        watched.kill()
        watched.wait()
        reader.join()


def conceptwatch_(arguments: list[str]) -> str:
    done = command(*arguments)
    # diagnose says by its exit code whether it found anything.
    assert done.returncode in (0, 3), done.stderr
    return done.stdout
