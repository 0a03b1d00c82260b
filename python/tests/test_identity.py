"""Jobs, attempts and names of runs, with the real sidecar: a pass has one model's rows, and answers are its own."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import conceptwatch
from conceptwatch import Run
from conftest import K, batch, evaluated, python, python_environment, wait_for
from real_sidecar import answer, curve, eager, free_ports


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    # Longer than any test: a pass that closes incomplete is a fault.
    with eager("--pass-deadline", "600") as address:
        yield address


def init(name: str, address: str, **arguments: Any) -> Run:
    return conceptwatch.init(name, concepts=K, address=address, spawn=False, **arguments)


def log(run: Run, step: int, *, rows: int = 600, seed: int = 0, first_id: int = 0, split: str = "val") -> Any:
    return evaluated(run, batch(rows, first_id=first_id, seed=seed), split=split, step=step)


def flush(run: Run) -> None:
    assert run._sender.flush(run._link, 30.0)


def steps(address: str, run: str) -> list[int]:
    return [point["step"] for point in curve(address, run)]


def test_torchrun_restarts_inside_a_pass(torch: Any, address: str, tmp_path: Path) -> None:
    """The curve is that of the last start's ranks alone. Without an id of the launch its agent tells it apart."""
    name, training = "elastic", importlib.import_module("elastic_training")
    launch = ["-m", "torch.distributed.run", "--monitor-interval", "0.1", "--master-port", str(free_ports())]
    launch += ["--nproc-per-node", "2", "--max-restarts", "1", training.__file__, address, name, str(tmp_path)]
    agent = subprocess.Popen(
        [sys.executable, *launch],
        env=python_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    # Another job evaluates on a split of its own meanwhile.
    wait_for(lambda: any(tmp_path.iterdir()) or agent.poll() is not None, seconds=120.0)
    with init(name, address, resume=True) as evaluator:
        before = log(evaluator, 5, seed=9, split="test")
        _, said = agent.communicate(timeout=300)
        assert agent.returncode == 0, said[-4000:]
        after = log(evaluator, 6, seed=9, split="test")
        assert [p.scores(timeout=60.0).rows for p in (before, after)] == [600, 600]
    runs = [one["name"] for one in answer(address, "/api/v1/runs")["runs"]]
    assert [run for run in runs if run.startswith(name)] == [name]
    with init("alone", address) as alone:
        with alone.evaluation("val", step=10) as p:
            for rank in range(2):
                p.log(**training.share(rank, is_first=False))
        assert p.scores(timeout=60.0) is not None
    for score in ("ctl", "icl"):
        (both,), (one,) = curve(address, name, score), curve(address, alone.name, score)
        assert (both["rows"], both["incomplete"]) == (2 * training.ROWS, False)
        for key in ("step", "rows", "value", "standard_error", "incomplete"):
            assert both[key] == one[key], key


def test_a_run_that_goes_on_from_another_folder_stays_in_its_project(address: str) -> None:
    with init("moved", address, project="birds") as run:
        log(run, 1)
        flush(run)
    with init("moved", address, project="elsewhere", resume=True) as run:
        log(run, 2)
        flush(run)
    assert steps(address, "moved") == [1, 2]
    [listed] = [run for run in answer(address, "/api/v1/runs")["runs"] if run["name"] == "moved"]
    assert listed["labels"] == {"project": "birds"}
    assert [run["name"] for run in answer(address, "/api/v1/runs", search="project=birds")["runs"]] == ["moved"]


@pytest.mark.parametrize(
    ("script", "git", "project"),
    [("train.py", "", "src"), ("train.py", "..", "my-birds"), ("", "", "src")],
    ids=["of the folder", "of the repository", "of a notebook"],
)
def test_the_project_is_named_after_where_the_script_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, git: str, project: str
) -> None:
    folder = tmp_path / "my birds" / "src"
    folder.mkdir(parents=True)
    if git:
        (folder / git / ".git").mkdir()
    code = "import conceptwatch\nprint(conceptwatch._declaration.labels_of(None, None))"
    if script:
        (folder / script).write_text(code, encoding="utf-8")
    monkeypatch.chdir(folder)
    answered = python(folder / script) if script else python("-c", code)
    assert answered.stdout.strip() == str({"project": project})


def test_a_project_is_stated_once() -> None:
    with pytest.raises(ValueError, match="project: got 'a' and 'b' in labels, expected one of them"):
        conceptwatch.init("twice", concepts=K, project="a", labels={"project": "b"}, mode="disabled")
