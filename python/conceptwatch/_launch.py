"""The launch that a process belongs to, from what its launcher sets in the environment.

The sidecar keeps runs of one name apart by their job, so all ranks of a launch must find the same job, and two launches
must find different ones. Where no launcher guarantees that for several ranks, the job is empty, and the sidecar groups
clients in the order of their declarations. A restart by the launcher keeps the job and raises the attempt. But agents
of torchrun on several hosts count restarts differently: there the process that was started as a rank tells them apart.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ._private import folder, opened

MAX_ATTEMPT = (1 << 31) - 1

_NAME = re.compile(r"[A-Za-z0-9_.:/ -]{1,128}")
_ELASTIC = "TORCHELASTIC_RUN_ID"
_SLURM = "slurm-"
_OTHER = re.compile(r"[^A-Za-z0-9_.:/ -]")


@dataclass(frozen=True)
class Launch:
    """job: a name the sidecar accepts, or empty. attempt: restarts of that launch so far.

    process: a name for the process that torchrun started as this rank, or empty. With it `attempt` is a lower bound.
    """

    job: str
    attempt: int = 0
    process: str = ""


@dataclass(frozen=True)
class Started:
    """Names of the process that torchrun started as this rank, and of its agent, which started all on this host."""

    worker: str
    agent: str


def new_job() -> str:
    return uuid.uuid4().hex


def launch_of(
    world_size: int,
    job: str | None = None,
    attempt: int | None = None,
    *,
    before: Callable[[str, int], int] = lambda job, restart: 0,
    environment: Mapping[str, str] = os.environ,
    started: Callable[[], Started | None] | None = None,
) -> Launch:
    """As stated by the arguments or CONCEPTWATCH_JOB; else of the launcher; else a new job where the run has one rank.

    before: number of runs of the same name that the launcher's job has started before in this restart. With one rank
        each gets a job of its own; with several it is not asked for, because ranks may have started different numbers.
    started: by whom this process was started, or None where it is not known.
    """
    if attempt is not None and not 0 <= attempt <= MAX_ATTEMPT:
        raise ValueError(f"attempt: got {attempt}, expected 0 to {MAX_ATTEMPT}")
    by = started or _started_by
    restart = restarts(environment) if attempt is None else attempt
    found = job or environment.get("CONCEPTWATCH_JOB")
    if not found:
        found = launcher_job(world_size, environment, by)
        if found and world_size == 1:
            try:
                count = before(found, restart)
                found = f"{found}:{count + 1}" if count else found
            except OSError:  # a job that cannot be told from others is a new one
                found = None
    if not found and world_size == 1:
        found = new_job()
    if not found:
        return Launch("", restart)
    of = by() if _ELASTIC in environment else None
    return Launch(valid_name(found), restart, of.worker if of else "")


_started: Counter[tuple[str, int]] = Counter()


def own_launch(name: str, world_size: int, job: str | None = None, attempt: int | None = None) -> Launch:
    """The launch of a run that this process starts now."""

    def before(found: str, restart: int) -> int:
        return starts_before(found, restart, name) if found.startswith(_SLURM) else _started[name, world_size]

    launch = launch_of(world_size, job, attempt, before=before)
    _started[name, world_size] += job is None
    return launch


def launcher_job(world_size: int, environment: Mapping[str, str], started: Callable[[], Started | None]) -> str | None:
    """The launcher's own name for the launch; None where it has none on which all ranks are certain to agree."""
    elastic = _ELASTIC in environment
    if elastic and environment[_ELASTIC] not in ("", "none"):
        return environment[_ELASTIC]
    if elastic and _same(environment, "LOCAL_WORLD_SIZE", environment.get("WORLD_SIZE")):
        of = started()
        return of.agent if of else None
    if world_size == 1:
        return _batch_task(environment)
    # One task of the step is one rank, or one torchrun agent. Otherwise something else started the ranks, and they may
    # be in different steps or in none.
    tasks = environment.get("GROUP_WORLD_SIZE") if elastic else str(world_size)
    if {"SLURM_JOB_ID", "SLURM_STEP_ID"} <= environment.keys() and _same(environment, "SLURM_STEP_NUM_TASKS", tasks):
        return f"{_SLURM}{environment['SLURM_JOB_ID']}.{environment['SLURM_STEP_ID']}"
    # A PMIx namespace is the launch, by definition.
    if "PMIX_NAMESPACE" in environment and _same(environment, "OMPI_COMM_WORLD_SIZE", str(world_size)):
        return f"pmix-{environment['PMIX_NAMESPACE']}"
    return None


def _batch_task(environment: Mapping[str, str]) -> str | None:
    """The script of a Slurm job or a task of one of its steps, also after the job was requeued."""
    job, step = environment.get("SLURM_JOB_ID", ""), environment.get("SLURM_STEP_ID")
    if not job.isdecimal():
        return None
    if step is None:
        return f"{_SLURM}{job}"
    return f"{_SLURM}{job}.{step}.{environment.get('SLURM_PROCID', '0')}"


def starts_before(job: str, restart: int, name: str) -> int:
    """Counts this start of a run of that name in a restart of a Slurm job, and returns how many came before it.

    A script may train several models under one name, each in a process of its own. When the job is requeued, each goes
    on with its own run by this number. The count is in the user's runtime directory on the node, where scripts start
    their processes one after another.
    """
    descriptor = opened(folder() / f"{_digest(f'{job} {restart}')}.starts", os.O_CREAT | os.O_RDWR | os.O_APPEND)
    try:
        line = f"{_digest(name)}\n".encode()
        os.write(descriptor, line)
        # An append is atomic, and the offset is behind it: others may have appended since.
        written = os.pread(descriptor, os.lseek(descriptor, 0, os.SEEK_CUR), 0)
    finally:
        os.close(descriptor)
    return written.splitlines(keepends=True).count(line) - 1


# Ranks of a launch and those of this node, as torchrun, Open MPI, MVAPICH and PMI state them.
_RANKS = (
    ("WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_SIZE", "MPI_LOCALNRANKS"),
)


def spans_nodes(world_size: int, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a launcher has started the ranks of a run on several nodes. False where none says so."""
    for all_ranks, ranks_here in _RANKS:
        if _same(environment, all_ranks, str(world_size)) and ranks_here in environment:
            return _count(environment, ranks_here) < world_size
    # Tasks of a step may also be runs of one rank each, or agents that start the ranks of one node.
    is_rank = world_size > 1 and _same(environment, "SLURM_STEP_NUM_TASKS", str(world_size))
    return is_rank and _count(environment, "SLURM_STEP_NUM_NODES") > 1


def restarts(environment: Mapping[str, str]) -> int:
    """Restarts of the launch. A requeued Slurm job starts torchrun again, whose own count then starts from 0."""
    requeued, restarted = (_count(environment, name) for name in ("SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT"))
    return min(requeued << 16 | min(restarted, 0xFFFF), MAX_ATTEMPT)


# Set in every process of a job by Slurm, PBS and LSF.
_SCHEDULER_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")


def scheduler_job(environment: Mapping[str, str] = os.environ) -> str:
    """The scheduler's own id of the job, or empty without one."""
    return next((valid_name(environment[name]) for name in _SCHEDULER_JOBS if environment.get(name)), "")


def valid_name(text: str) -> str:
    """The text where the sidecar accepts it as a name; else its beginning, other characters replaced, and a hash."""
    if _NAME.fullmatch(text):
        return text
    return f"{_OTHER.sub('-', text)[:95]}-{_digest(text)}"


def _same(environment: Mapping[str, str], name: str, value: str | None) -> bool:
    return value is not None and environment.get(name) == value


def _count(environment: Mapping[str, str], name: str) -> int:
    value = environment.get(name, "")
    return int(value) if value.isdecimal() else 0


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]


def _started_by(processes: Path = Path("/proc")) -> Started | None:
    """The agent is the nearest ancestor that torchrun has not started, also where ranks run inside shells.

    Both are named by process number and start, boot and host. None where the system has no /proc.
    """
    try:
        boot = (processes / "sys/kernel/random/boot_id").read_text().strip()
        process, worker = os.getpid(), ""
        while process > 0:
            # Behind the program's name, which may hold anything: state, parent, ..., start in clock ticks.
            fields = (processes / str(process) / "stat").read_text(errors="replace").rpartition(")")[2].split()
            variables = (processes / str(process) / "environ").read_bytes().split(b"\0")
            name = f"torchrun-{_digest(f'{socket.gethostname()} {boot} {process} {fields[19]}')}"
            # What this process has set for itself since it started does not stand there.
            if worker and not any(variable.startswith(_ELASTIC.encode() + b"=") for variable in variables):
                return Started(worker, name)
            process, worker = int(fields[1]), name
    except (OSError, ValueError, IndexError):
        pass
    return None
