"""Which job a process finds itself in, and what the client does with the name that the sidecar gives its run."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

import conceptwatch
from conceptwatch import _launch
from conceptwatch._launch import MAX_ATTEMPT, Launch, Started, launch_of, valid_name
from conceptwatch._protocol import messages
from conftest import K, Start, Warned, acknowledged, batch, evaluated, wait_for
from sidecar import Received, Sidecar, unavailable

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "3d1f",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "LOCAL_WORLD_SIZE": "2",
    "WORLD_SIZE": "4",
    "GROUP_WORLD_SIZE": "2",
}
SLURM = {"SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4"}


def find(world_size: int, environment: Mapping[str, str], **arguments: Any) -> Launch:
    arguments.setdefault("started", lambda: Started("worker", "agent"))
    return launch_of(world_size, environment=environment, **arguments)


@pytest.mark.parametrize(
    ("world_size", "environment", "expected"),
    [
        (4, {}, Launch("")),
        (4, {"CONCEPTWATCH_JOB": "mine"}, Launch("mine")),
        (4, {"CONCEPTWATCH_JOB": "", **SLURM}, Launch("slurm-17.0")),
        (4, TORCHRUN, Launch("3d1f")),
        (4, {**TORCHRUN, "TORCHELASTIC_RESTART_COUNT": "2"}, Launch("3d1f", 2)),
        (4, {**TORCHRUN, "CONCEPTWATCH_JOB": "mine", "TORCHELASTIC_RESTART_COUNT": "2"}, Launch("mine", 2)),
        # One process: a restart of it joins its run.
        (1, {**TORCHRUN, "LOCAL_WORLD_SIZE": "1", "WORLD_SIZE": "1", "GROUP_WORLD_SIZE": "1"}, Launch("3d1f")),
        # Without an id of its own: the agent that all ranks have, where they are on one host.
        (4, {**TORCHRUN, "TORCHELASTIC_RUN_ID": "none", "LOCAL_WORLD_SIZE": "4"}, Launch("agent")),
        (4, {**TORCHRUN, "TORCHELASTIC_RUN_ID": "", "LOCAL_WORLD_SIZE": "4"}, Launch("agent")),
        (4, {**TORCHRUN, "TORCHELASTIC_RUN_ID": "none"}, Launch("")),
        # Its agents are the tasks of one Slurm step, or of several steps that know nothing of each other.
        (4, {**TORCHRUN, **SLURM, "TORCHELASTIC_RUN_ID": "none", "SLURM_STEP_NUM_TASKS": "2"}, Launch("slurm-17.0")),
        (4, {**TORCHRUN, **SLURM, "TORCHELASTIC_RUN_ID": "none", "SLURM_STEP_NUM_TASKS": "1"}, Launch("")),
        (4, SLURM, Launch("slurm-17.0")),
        (4, {**SLURM, "SLURM_RESTART_COUNT": "1"}, Launch("slurm-17.0", 1 << 16)),
        # A requeued torchrun counts from 0 again.
        (4, {**TORCHRUN, "SLURM_RESTART_COUNT": "1", "TORCHELASTIC_RESTART_COUNT": "3"}, Launch("3d1f", 65539)),
        # Ranks that one task has started, and those that mpirun has started on other nodes by a step of its own.
        (4, {**SLURM, "SLURM_STEP_NUM_TASKS": "1"}, Launch("")),
        (4, {"SLURM_JOB_ID": "17"}, Launch("")),
        (4, {"PMIX_NAMESPACE": "a@1", "OMPI_COMM_WORLD_SIZE": "4"}, Launch(valid_name("pmix-a@1"))),
        (4, {"PMIX_NAMESPACE": "33", "OMPI_COMM_WORLD_SIZE": "2"}, Launch("")),
        (4, {"PBS_JOBID": "17", "LSB_JOBID": "18"}, Launch("")),
        (4, {"TORCHELASTIC_RUN_ID": "a", "TORCHELASTIC_RESTART_COUNT": "-1"}, Launch("a")),
    ],
)  # fmt: skip
def test_ranks_find_the_job_of_their_launcher(world_size: int, environment: dict[str, str], expected: Launch) -> None:
    process = "worker" if expected.job and "TORCHELASTIC_RUN_ID" in environment else ""
    assert find(world_size, environment) == replace(expected, process=process)


def test_what_is_stated_comes_first() -> None:
    environment = {**TORCHRUN, "CONCEPTWATCH_JOB": "environment", "TORCHELASTIC_RESTART_COUNT": "1"}
    assert find(4, environment, job="argument", attempt=7) == Launch("argument", 7, "worker")
    assert find(4, environment, job="argument", before=lambda job, restart: 3) == Launch("argument", 1, "worker")
    assert find(4, environment, job="argument", started=lambda: None) == Launch("argument", 1)
    with pytest.raises(ValueError, match=f"attempt: got -1, expected 0 to {MAX_ATTEMPT}"):
        find(4, environment, attempt=-1)


SPANNING = [
    (4, TORCHRUN, True),
    (4, {**TORCHRUN, "LOCAL_WORLD_SIZE": "4", "GROUP_WORLD_SIZE": "1"}, False),
    # A rank that logs alone, whatever it was started with.
    (1, TORCHRUN, False),
    (4, {**SLURM, "SLURM_STEP_NUM_NODES": "2"}, True),
    (4, {**SLURM, "SLURM_STEP_NUM_NODES": "1", "SLURM_NNODES": "2"}, False),
    # Each task is a run of its own, or starts the ranks of its node.
    (1, {**SLURM, "SLURM_STEP_NUM_NODES": "2"}, False),
    (8, {**SLURM, "SLURM_STEP_NUM_NODES": "2"}, False),
    (4, {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4", **SLURM, "SLURM_STEP_NUM_NODES": "2"}, False),
    (4, {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, True),
    (4, {"WORLD_SIZE": "4"}, False),
    (4, {}, False),
]


@pytest.mark.parametrize(("world_size", "environment", "expected"), SPANNING)
def test_a_launch_over_several_nodes_is_known(world_size: int, environment: dict[str, str], expected: bool) -> None:
    assert _launch.spans_nodes(world_size, environment) is expected


@pytest.fixture
def over_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONCEPTWATCH_ADDRESS", raising=False)
    for name, value in {**TORCHRUN, "RANK": "3"}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("address", "got"),
    [
        (None, "none in a launch"),
        ("127.0.0.1:7800", "127.0.0.1:7800, which only this node reaches, in a launch"),
        ("http://localhost:0", "localhost:0, which only this node reaches, in a launch"),
        ("https://[::1]:7800", r"https://\[::1\]:7800, which"),
        ("unix:///run/x.sock", "unix:///run/x.sock, which"),
    ],
)
def test_ranks_on_several_nodes_need_the_address_of_one_sidecar(
    over_nodes: None, monkeypatch: pytest.MonkeyPatch, address: str | None, got: str
) -> None:
    with pytest.raises(ValueError, match=f"address: got {got}.* set CONCEPTWATCH_ADDRESS .* see docs/scale.md"):
        conceptwatch.init("run", concepts=K, address=address)
    if address is not None:
        monkeypatch.setenv("CONCEPTWATCH_ADDRESS", address)
        with pytest.raises(ValueError, match=got):
            conceptwatch.init("run", concepts=K)


def test_only_what_would_divide_the_run_among_nodes_is_refused(
    over_nodes: None, sidecar: Sidecar, start: Start, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="address: got none"):
        conceptwatch.init("run", concepts=K, spawn=False)
    # Another host; a tunnel; modes that need no sidecar.
    conceptwatch.init("run", concepts=K, address="sidecar.invalid:7800").finish(timeout=0.0)
    address = sidecar.serve()
    assert start(address=address).finish()
    assert conceptwatch.init("run", concepts=K, mode="disabled").finish()
    assert conceptwatch.init("run", concepts=K, mode="offline", offline_dir=tmp_path).finish()
    # One rank logs for all.
    assert conceptwatch.init("run", concepts=K, rank=0, world_size=1, address=address).finish()


def test_one_rank_without_a_launcher_is_another_job_each_time() -> None:
    for environment in ({}, {"OMPI_COMM_WORLD_SIZE": "1", "PMIX_NAMESPACE": "33"}):
        jobs = {find(1, environment).job for _ in range(3)}
        assert len(jobs) == 3
        assert all(valid_name(job) == job for job in jobs)


def test_a_name_used_again_in_one_launch_is_another_run_where_no_rank_can_disagree() -> None:
    assert [find(1, TORCHRUN, before=lambda job, restart, n=n: n).job for n in range(3)] == ["3d1f", "3d1f:2", "3d1f:3"]
    assert [find(4, TORCHRUN, before=lambda job, restart, n=n: n).job for n in range(3)] == ["3d1f"] * 3


@pytest.mark.parametrize(
    ("environment", "job"),
    [
        # The script of a batch job; the only task of a step; a task that is a training of its own.
        ({"SLURM_JOB_ID": "17", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, "slurm-17"),
        ({**SLURM, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, "slurm-17.0.0"),
        ({**SLURM, "SLURM_PROCID": "3"}, "slurm-17.0.3"),
    ],
)
def test_a_requeued_slurm_job_of_one_process_is_the_same_job(environment: dict[str, str], job: str) -> None:
    assert find(1, environment) == Launch(job)
    assert find(1, {**environment, "SLURM_RESTART_COUNT": "2"}) == Launch(job, 2 << 16)


def test_processes_of_a_slurm_job_that_use_one_name_are_counted_in_each_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    asked = [("17", 0, "a"), ("17", 0, "b"), ("17", 0, "a"), ("17", 1, "a"), ("18", 0, "a"), ("17", 1, "a")]
    assert [_launch.starts_before(*one) for one in asked] == [0, 0, 1, 0, 0, 1]
    # A batch script trains twice under one name, one after the other, and is requeued on the same node.
    monkeypatch.setenv("SLURM_JOB_ID", "19")
    for restart in (0, 1):
        monkeypatch.setenv("SLURM_RESTART_COUNT", str(restart))
        jobs = [_launch.own_launch("queued", 1) for _ in range(2)]
        assert jobs == [Launch("slurm-19", restart << 16), Launch("slurm-19:2", restart << 16)]

    def unwritable(job: str, restart: int) -> int:
        raise PermissionError

    # Without a count it might be the training of another process.
    assert len({find(1, SLURM, before=unwritable).job for _ in range(3)} - {"slurm-17.0.0"}) == 3


def test_a_job_is_a_name_the_sidecar_takes() -> None:
    assert valid_name("a/b:c_d.e-f 1") == "a/b:c_d.e-f 1"
    replaced = [valid_name(text) for text in ("größe", "groesse@", "x" * 129, "x" * 130, "\n")]
    assert len(set(replaced)) == len(replaced)
    assert all(len(name) <= 128 and valid_name(name) == name for name in replaced)
    assert replaced[0].startswith("gr--e-")


def processes(folder: Path, *found: tuple[int, int, bytes]) -> Path:
    """A /proc of processes: number, parent, environment."""
    for number, parent, environment in found:
        (folder / str(number)).mkdir(parents=True)
        start = 1000 + number
        (folder / str(number) / "stat").write_text(f"{number} (a (b) 1) S {parent} " + "0 " * 17 + f"{start} 0 0\n")
        (folder / str(number) / "environ").write_bytes(environment)
    (folder / "sys/kernel/random").mkdir(parents=True)
    (folder / "sys/kernel/random/boot_id").write_text("boot\n")
    return folder


def test_the_agent_is_the_ancestor_that_it_has_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = b"HOME=/\0TORCHELASTIC_RUN_ID=none\0"
    found = processes(
        tmp_path, (40, 30, ranks), (41, 20, b""), (31, 20, ranks), (30, 20, ranks), (20, 10, b"HOME=/\0"), (10, 1, b"")
    )
    names = {}
    # A rank of the agent inside a shell, one that the agent has started, and one that has the variable from elsewhere.
    for process in (40, 30, 31, 41, 10):
        monkeypatch.setattr("os.getpid", lambda process=process: process)
        names[process] = _launch._started_by(found)
    assert names[10] is None
    started = [of for of in names.values() if of is not None]
    assert len(started) == 4
    assert {of.agent for of in started} == {started[0].agent}
    # What a rank starts is the same rank.
    assert [of.worker == started[0].worker for of in started] == [True, True, False, False]
    assert len({of.worker for of in started} | {started[0].agent}) == 4
    assert all(valid_name(name) == name for of in started for name in (of.worker, of.agent))
    monkeypatch.setattr("os.getpid", lambda: 50)
    assert _launch._started_by(found) is None
    assert _launch._started_by(tmp_path / "nothing") is None


# ---------------------------------------------------------------- what the client sends, and the name it adopts


class Naming(Sidecar):
    """Names the runs of jobs as the sidecar does, in memory: forgets them when it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[tuple[str, str], str] = {}
        self.asked: list[str] = []
        self.address = ""

    def close(self) -> None:
        super().close()
        self.names.clear()

    def _start(self, request: Any, context: Any) -> Any:
        self.starts.append(request)
        wait_for(lambda: self.hold is None or self.hold.is_set())
        declared = request.run.name
        taken = list(self.names.values())
        free = next(name for name in [declared, *(f"{declared}-{n}" for n in range(2, 9))] if name not in taken)
        name = self.names.setdefault((declared, request.job), declared if request.resume else free)
        answer = messages.StartRunResponse()
        answer.CopyFrom(self.start)
        answer.run = name
        return answer

    def _scores(self, request: Any, context: Any) -> Any:
        self.asked.append(request.run)
        return super()._scores(request, context)

    def _advice(self, request: Any, context: Any) -> Any:
        self.asked.append(request.run)
        return super()._advice(request, context)


@pytest.fixture
def sidecar() -> Iterator[Naming]:
    server = Naming()
    yield server
    if server.hold is not None:
        server.hold.set()
    server.close()


def runs(sidecar: Sidecar) -> list[str]:
    return [item.head.run if isinstance(item, Received) else item.run for item in sidecar.order]


def test_a_declaration_says_job_attempt_rank_and_resume(sidecar: Naming, start: Start) -> None:
    run = start(job="a job", attempt=3, rank=1, world_size=2, resume=True)
    assert run.finish()
    (declared,) = sidecar.starts
    assert (declared.job, declared.attempt, declared.rank, declared.resume) == ("a job", 3, 1, True)
    (finished,) = sidecar.finish_requests
    assert (finished.client, finished.rank) == (declared.client, 1)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({"SLURM_JOB_ID": "4711"}, "4711"), ({"SLURM_JOB_ID": "", "PBS_JOBID": "12.head"}, "12.head"), ({}, "")],
)
def test_a_declaration_says_where_it_runs(
    environment: dict[str, str], expected: str, sidecar: Naming, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert start(job="a job").finish()
    (declared,) = sidecar.starts
    assert (declared.job, declared.host, declared.scheduler_job) == ("a job", socket.gethostname(), expected)


@pytest.mark.parametrize(("world_size", "again"), [(4, ("3d1f", "run")), (1, ("3d1f:2", "run-2"))])
def test_the_launcher_is_found_in_the_environment(
    world_size: int, again: tuple[str, str], sidecar: Naming, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = {"WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "GROUP_WORLD_SIZE": "1"} if world_size == 1 else {}
    for name, value in {**TORCHRUN, **alone, "RANK": str(world_size - 1), "TORCHELASTIC_RESTART_COUNT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(_launch, "_started", type(_launch._started)())
    address = sidecar.serve()
    first, second = start(address=address), start(address=address)
    assert [run.finish() for run in (first, second)] == [True, True]
    assert [(declared.job, declared.attempt, declared.rank) for declared in sidecar.starts] == [
        ("3d1f", 1, world_size - 1),
        (again[0], 1, world_size - 1),
    ]
    assert (first.name, second.name) == ("run", again[1])


def test_three_inits_in_one_process_are_three_runs(sidecar: Naming, start: Start, warned: Warned) -> None:
    sidecar.start.takes_joined_ends = False
    address = sidecar.serve()
    for _ in range(3):
        run = start(name="digits", address=address)
        evaluated(run, batch())
        assert run.finish()
    assert runs(sidecar) == ["digits"] * 2 + ["digits-2"] * 2 + ["digits-3"] * 2
    assert sidecar.finished == ["digits", "digits-2", "digits-3"]
    assert len({declared.job for declared in sidecar.starts}) == 3
    assert warned() == [
        f"conceptwatch: 'digits' exists already, this run is 'digits-{n}' (resume=True continues the old one)"
        for n in (2, 3)
    ]


def test_ranks_of_a_job_share_a_run_and_one_says_its_name(sidecar: Naming, start: Start, warned: Warned) -> None:
    address = sidecar.serve()
    assert start(address=address).finish()
    ranks = [start(rank=rank, world_size=2, job="launch", address=address) for rank in (0, 1)]
    for run in ranks:
        run.log(step=1, **batch())
        assert run.finish()
    assert [run.name for run in ranks] == ["run-2", "run-2"]
    assert runs(sidecar) == ["run-2", "run-2"]
    assert len(warned()) == 1


def test_questions_wait_for_the_name_in_use(sidecar: Naming, start: Start) -> None:
    sidecar.point = messages.Point(run="run", split="val", step=1)
    address = sidecar.serve()
    assert start(address=address).finish()
    sidecar.hold = threading.Event()
    run = start(address=address)
    assert run.name == "run"
    assert run.scores("val", timeout=0.2) is None
    assert run.should_stop(step=1, timeout=0.2) is False
    assert sidecar.asked == [], "another run may have that name"
    threading.Timer(0.3, sidecar.hold.set).start()
    assert run.scores("val", timeout=10.0) is not None
    run.should_stop(step=2, timeout=10.0)
    assert sidecar.asked == ["run-2", "run-2"]


def test_a_restarted_sidecar_is_declared_to_again_and_its_answer_counts(sidecar: Naming, start: Start) -> None:
    address = sidecar.serve()
    assert start(address=address).finish()
    run = start(address=address, resume=False, job="mine")
    run.log(step=1, **batch())
    wait_for(lambda: run.stats.queue_bytes == 0)
    sidecar.close()
    run.log(step=2, **batch())
    wait_for(lambda: run.stats.retries >= 1)
    sidecar.serve(address)
    wait_for(lambda: acknowledged(run))
    before, after = [declared for declared in sidecar.starts if declared.job == "mine"]
    assert before == after, "the same request"
    # In memory the first run is forgotten, so that its name is free again.
    assert (runs(sidecar), run.name) == (["run-2", "run"], "run")
    assert run.finish()
    assert sidecar.finished[-1] == "run"


def test_a_resumed_run_keeps_its_name_when_it_is_declared_again(sidecar: Naming, start: Start, warned: Warned) -> None:
    address = sidecar.serve()
    assert start(address=address).finish()
    run = start(address=address, resume=True)
    once = [True]
    sidecar.before = lambda request, context: unavailable(context, 0.01) if once and once.pop() else None
    run.log(step=1, **batch())
    assert run.finish()
    first, second = sidecar.starts[1:]
    assert first == second
    assert first.resume
    assert (run.name, runs(sidecar)) == ("run", ["run"])
    assert warned() == []


@pytest.mark.parametrize("joined", [True, False])
def test_a_client_of_an_older_attempt_says_so_once_and_sends_no_more(
    joined: bool, sidecar: Naming, start: Start, warned: Warned
) -> None:
    sidecar.start.takes_joined_ends = joined

    def refused(sequence: int) -> Any:
        return messages.IngestResponse(
            sequence=sequence, outcome=messages.IngestResponse.OUTCOME_REFUSED,
            code=grpc.StatusCode.FAILED_PRECONDITION.value[0], field="attempt",
            message="got a message of attempt 1, attempt 2 of job 'launch' has begun",
        )  # fmt: skip

    def answer(response: Any) -> Any:
        found = refused(response.sequence)
        if response.HasField("end_pass"):
            found.end_pass.CopyFrom(refused(response.end_pass.sequence))
        return found

    sidecar.answer = answer
    run = start(job="launch", attempt=1)
    evaluated(run, batch())
    wait_for(lambda: bool(run._link.refused))
    received = len(sidecar.received)
    assert evaluated(run, batch(), step=2).scores(timeout=10.0) is None
    assert not run.should_stop(step=2)
    assert run.stop_reason(step=2).startswith("a newer attempt of this job has replaced attempt 1: ")
    assert run.finish()
    assert warned() == [
        "conceptwatch, run 'run': a newer attempt of this job has replaced attempt 1: "
        "what this process still logs is dropped"
    ]
    assert (len(sidecar.received), sidecar.streams, run.stats.retries) == (received, 1, 0)
    assert run.stats.batches_dropped == {"superseded": 2}
    assert run.stats.queue_bytes == 0


def test_recordings_keep_the_identity(tmp_path: Path) -> None:
    """Of the declarations, `test_offline.py` has the job: a recording that is replayed again is the same run."""
    names = []
    for arguments in ({}, {"job": "launch", "attempt": 2}, {"resume": True}):
        run = conceptwatch.init("digits", concepts=K, mode="offline", offline_dir=tmp_path, **arguments)
        evaluated(run, batch())
        assert run.finish()
        names.append(run.name)
    assert names == ["digits", "digits-2", "digits"]
    assert sorted(file.name.rpartition("-")[0] for file in tmp_path.iterdir()) == ["digits", "digits-2"]
