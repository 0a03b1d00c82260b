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

SCORES = ("ctl", "icl")


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
    assert run._sender.flush(run._link, 30.0, while_down=True)


def steps(address: str, run: str) -> list[int]:
    return [point["step"] for point in curve(address, run)]


def torchrun(*arguments: str) -> subprocess.Popen[str]:
    # With a store that agents share, one that joins later waits in vain for the address of the store (PyTorch 2.15).
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--monitor-interval", "0.1", *arguments],
        env=python_environment(TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1"),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def arguments(address: str, name: str, folder: Path, restarts: int, who: str) -> list[str]:
    return [str(Path(__file__).with_name("elastic_training.py")), address, name, str(folder), str(restarts), who]


def ended(agent: subprocess.Popen[str]) -> None:
    _, said = agent.communicate(timeout=300)
    assert agent.returncode == 0, said[-4000:]


def check_elastic(address: str, name: str, ranks: int, restarts: int) -> None:
    """The curve is that of the last start's ranks alone."""
    training = importlib.import_module("elastic_training")
    runs = [one["name"] for one in answer(address, "/api/v1/runs")["runs"]]
    assert [run for run in runs if run.startswith(name)] == [name]
    with init(f"{name} alone", address) as alone:
        with alone.evaluation("val", step=10) as p:
            for rank in range(ranks):
                p.log(**training.share(rank, restarts, restarts))
        assert p.scores(timeout=60.0) is not None
    for score in SCORES:
        both, one = curve(address, name, score), curve(address, alone.name, score)
        compared = ("step", "rows", "value", "standard_error", "incomplete")
        assert [[point[key] for key in compared] for point in both] == [
            [point[key] for key in compared] for point in one
        ]
        assert [(point["rows"], point["incomplete"]) for point in both] == [(ranks * training.ROWS, False)]


def test_torchrun_restarts_inside_a_pass(torch: Any, address: str, tmp_path: Path) -> None:
    name = "elastic, without an id"
    how = ["--master-port", str(free_ports()), "--nproc-per-node", "2", "--max-restarts", "1"]
    agent = torchrun(*how, *arguments(address, name, tmp_path, 1, "workers"))
    # Another job evaluates on a split of its own meanwhile.
    wait_for(lambda: any(tmp_path.iterdir()) or agent.poll() is not None, seconds=120.0)
    with init(name, address, resume=True) as evaluator:
        before = log(evaluator, 5, seed=9, split="test")
        ended(agent)
        after = log(evaluator, 6, seed=9, split="test")
        assert [p.scores(timeout=60.0).rows for p in (before, after)] == [600, 600]
    check_elastic(address, name, 2, 1)


def test_ranks_leave_and_join_under_torchrun(torch: Any, address: str, tmp_path: Path) -> None:
    """Four ranks, of which one dies with its agent; then three, until another agent brings one."""
    name = "four, three, four"
    # Where an agent hosts the store, the others cannot end after it.
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    how = ["--nnodes", "1:2", "--max-restarts", "1", "--rdzv-backend", "c10d", "--rdzv-id", name]
    how += ["--rdzv-endpoint", f"localhost:{store.port}", "--rdzv-conf", "is_host=false,last_call_timeout=15"]
    program = arguments(address, name, tmp_path, 2, "hosts")
    stays = torchrun(*how, "--nproc-per-node", "3", *program)
    leaves = torchrun(*how, "--nproc-per-node", "1", *program)
    leaves.communicate(timeout=120)
    wait_for(lambda: (tmp_path / "over-1").exists() or stays.poll() is not None, seconds=120.0)
    ended(torchrun(*how, "--nproc-per-node", "1", *program))
    ended(stays)
    check_elastic(address, name, 4, 2)


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
