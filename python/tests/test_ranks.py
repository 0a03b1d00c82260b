"""Which rank a process is, by what its framework or launcher says."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import conceptwatch
from conceptwatch import _ranks
from conceptwatch._ranks import rank_and_world_size
from conftest import Warned, batch, evaluated, package, python_environment
from real_sidecar import free_ports

SRUN = {"SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0", "SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4"}
# As mpirun starts its agents by srun: one task on each node.
AGENT = {**SRUN, "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ranks, "_said", set())


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, (0, 1)),
        ({"RANK": "1", "WORLD_SIZE": "2", **SRUN}, (1, 2)),
        (SRUN, (2, 4)),
        ({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8", "PMIX_RANK": "5", **AGENT}, (5, 8)),
        ({"MV2_COMM_WORLD_RANK": "5", "MV2_COMM_WORLD_SIZE": "8"}, (5, 8)),
        ({"MVP_COMM_WORLD_RANK": "5", "MVP_COMM_WORLD_SIZE": "8"}, (5, 8)),
        ({"PMI_RANK": "5", "PMI_SIZE": "8", **AGENT}, (5, 8)),
        ({"PMIX_RANK": "2", **SRUN}, (2, 4)),
        ({"WORLD_SIZE": "4", **SRUN}, (2, 4)),
        # The script of a batch job is one process, whatever it may start.
        ({"SLURM_JOB_ID": "17", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, (0, 1)),
        ({"PMIX_RANK": "0"}, (0, 1)),
    ],
)
def test_launchers_state_ranks(environment: dict[str, str], expected: tuple[int, int], warned: Warned) -> None:
    assert rank_and_world_size(None, None, environment) == expected
    assert rank_and_world_size(None, 1, environment) == (0, 1), "each task is a training of its own"
    assert rank_and_world_size(1, 3, environment) == (1, 3)
    assert warned() == []


@pytest.mark.parametrize(
    ("environment", "expected", "fault"),
    [
        ({"WORLD_SIZE": "4"}, (0, 4), "this is one of 4 tasks, and its rank is not known: evaluations will be"),
        ({"PMI_SIZE": "2"}, (0, 2), "this is one of 2 tasks"),
        ({"PMIX_RANK": "3"}, None, "this is one of several tasks, and their number is not known: it records nothing"),
        ({"RANK": "3"}, None, "this is one of several tasks"),
    ],
)
def test_tasks_that_do_not_know_each_other_are_one_warning(
    environment: dict[str, str], expected: Any, fault: str, warned: Warned
) -> None:
    assert [rank_and_world_size(None, None, environment) for _ in range(2)] == [expected] * 2
    (said,) = warned()
    assert said.startswith(f"conceptwatch: {fault}")
    assert "; set RANK and WORLD_SIZE, or pass rank=… and world_size=… to init (world_size=1: " in said


def test_one_of_several_tasks_of_unknown_number_records_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMIX_RANK", "3")
    run = conceptwatch.init("run", concepts=3, address="127.0.0.1:1", spawn=False)
    evaluated(run, batch())
    assert run.finish()
    assert isinstance(run, conceptwatch._disabled.DisabledRun)


def test_an_old_jax_that_cannot_be_asked_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(distributed=SimpleNamespace()))
    assert rank_and_world_size(None, None, {}) == (0, 1)


def test_processes_that_jax_connects_are_ranks() -> None:
    package("jax")
    program = (
        "import sys, jax; from conceptwatch._ranks import rank_and_world_size as found\n"
        "before = found(None, None)\n"
        "jax.distributed.initialize(f'localhost:{sys.argv[1]}', 2, int(sys.argv[2])); print(before, found(None, None))"
    )
    port = str(free_ports())
    environment = python_environment(JAX_PLATFORMS="cpu")
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", program, port, str(rank)], env=environment, stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    assert [rank.communicate(timeout=120)[0].strip() for rank in ranks] == ["(0, 1) (0, 2)", "(0, 1) (1, 2)"]
