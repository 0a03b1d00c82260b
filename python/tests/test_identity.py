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
from conftest import K, batch, evaluated, python_environment, wait_for
from real_sidecar import answer, curve, eager, free_ports

SCORES = ("ctl", "icl")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    # Longer than any test: a pass that closes incomplete is a fault.
    with eager("--pass-deadline", "600") as address:
        yield address


def init(name: str, address: str, **arguments: Any) -> Run:
    return conceptwatch.init(name, concepts=K, address=address, spawn=False, **arguments)


def processes(address: str) -> tuple[str, str, str]:
    """The same sidecar under three addresses: for each this process has a client of its own, as three would."""
    return address, f"ipv4:{address}", f"dns:{address}"


def log(run: Run, step: int, *, rows: int = 600, seed: int = 0, first_id: int = 0, split: str = "val") -> Any:
    return evaluated(run, batch(rows, first_id=first_id, seed=seed), split=split, step=step)


def flush(run: Run) -> None:
    assert run._sender.flush(run._link, 30.0, while_down=True)


def steps(address: str, run: str) -> list[int]:
    return [point["step"] for point in curve(address, run)]


def values(scores: Any) -> list[Any]:
    return [(scores[score].value, scores[score].standard_error) for score in SCORES if score in scores]


def test_a_name_used_again_is_a_new_run_that_answers_for_itself(address: str) -> None:
    with init("again", address) as first:
        leaking = log(first, 10, seed=1).scores(timeout=60.0)
    second = init("again", address)
    # Neither the newest scores nor those of the step are the earlier training's.
    assert second.scores() is None
    assert second.scores(step=10) is None
    assert second.should_stop(step=10, timeout=0.1) is False
    assert second.diagnosis() is None
    assert (first.name, second.name) == ("again", "again-2")
    own = log(second, 10, seed=2).scores(timeout=60.0)
    assert second.finish()
    assert values(own) != values(leaking)
    assert steps(address, "again") == steps(address, "again-2") == [10]


def test_a_restart_inside_a_pass_discards_the_rows_of_the_older_attempt(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    before, *after = processes(address)
    old = init("restarted", before, job="torn", attempt=0, rank=0, world_size=2)
    log(old, 7, seed=1, first_id=5000)
    flush(old)
    # The other rank dies; both come back, and the new ones end the pass.
    new = [init("restarted", where, job="torn", attempt=1, rank=rank, world_size=2) for rank, where in enumerate(after)]
    log(new[0], 7, seed=2)
    flush(new[0])
    # A late batch of the older attempt.
    evaluated(old, batch(600, first_id=9000, seed=3), step=7)
    flush(old)
    assert old.stats.batches_dropped == {"superseded": 1}
    assert old.scores(timeout=0.1) is None
    assert old.finish()
    said = [record.getMessage() for record in caplog.records if "newer attempt" in record.getMessage()]
    # Said only where the sidecar's answer comes before the run has finished.
    early = "the evaluation of 'val' at step 7 is discarded: a newer attempt of the run began"
    assert [one for one in said if one != f"conceptwatch, run 'restarted': {early}"] == [
        "conceptwatch, run 'restarted': a newer attempt of this job has replaced attempt 0: "
        "what this process still logs is dropped"
    ]
    assert new[0].scores() is None
    scores = log(new[1], 7, seed=4, first_id=600).scores(timeout=60.0)
    assert (scores.rows, scores.incomplete) == (1200, False)
    with init("alone", address) as alone:
        with alone.evaluation("val", step=7) as p:
            p.log(**batch(600, first_id=0, seed=2))
            p.log(**batch(600, first_id=600, seed=4))
        assert values(p.scores(timeout=60.0)) == values(scores)
    assert [run.finish() for run in new] == [True, True]


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


@pytest.mark.parametrize(("launch", "ranks"), [("without an id", 2), ("with an id", 3)])
def test_torchrun_restarts_inside_a_pass(torch: Any, address: str, launch: str, ranks: int, tmp_path: Path) -> None:
    name = f"elastic {launch}, {ranks} ranks"
    how = ["--standalone"] if launch == "with an id" else ["--master-port", str(free_ports())]
    how += ["--nproc-per-node", str(ranks), "--max-restarts", "1"]
    agent = torchrun(*how, *arguments(address, name, tmp_path, 1, "workers"))
    # Another job evaluates on a split of its own meanwhile.
    wait_for(lambda: any(tmp_path.iterdir()) or agent.poll() is not None, seconds=120.0)
    with init(name, address, resume=True) as evaluator:
        before = log(evaluator, 5, seed=9, split="test")
        ended(agent)
        after = log(evaluator, 6, seed=9, split="test")
        assert [p.scores(timeout=60.0).rows for p in (before, after)] == [600, 600]
    check_elastic(address, name, ranks, 1)


def test_agents_of_torchrun_count_restarts_each_for_itself(torch: Any, address: str, tmp_path: Path) -> None:
    name = "two agents"
    how = ["--nnodes", "2", "--nproc-per-node", "2", "--max-restarts", "2", "--rdzv-backend", "c10d"]
    how += ["--rdzv-id", name, "--rdzv-endpoint", f"localhost:{free_ports()}"]
    agents = [torchrun(*how, *arguments(address, name, tmp_path, 2, "workers")) for _ in range(2)]
    for agent in agents:
        ended(agent)
    check_elastic(address, name, 4, 2)


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
def test_the_project_is_named_after_where_the_script_lies(tmp_path: Path, script: str, git: str, project: str) -> None:
    folder = tmp_path / "my birds" / "src"
    folder.mkdir(parents=True)
    if git:
        (folder / git / ".git").mkdir()
    code = "import conceptwatch\nprint(conceptwatch._declaration.labels_of(None, None))"
    if script:
        (folder / script).write_text(code, encoding="utf-8")
    command = [sys.executable, *([str(folder / script)] if script else ["-c", code])]
    answered = subprocess.run(command, cwd=folder, env=python_environment(), capture_output=True, text=True, check=True)
    assert answered.stdout.strip() == str({"project": project})


def test_a_project_is_stated_once() -> None:
    with pytest.raises(ValueError, match="project: got 'a' and 'b' in labels, expected one of them"):
        conceptwatch.init("twice", concepts=K, project="a", labels={"project": "b"}, mode="disabled")
