"""The rank of this process and the number of ranks, from the framework or launcher that knows them."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping

log = logging.getLogger("conceptwatch")

# Rank and number of ranks as launchers state them: torchrun and those like it, Open MPI, MVAPICH, the PMI of MPICH and
# Intel MPI, and srun. MPI comes before srun, by which mpirun may have started its agents. In the script of a batch
# job SLURM_PROCID is 0 and SLURM_NTASKS the number of tasks that it may start: only variables of a step count.
_TORCH = ("RANK", "WORLD_SIZE")
_LAUNCHERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("MVP_COMM_WORLD_RANK", "MVP_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
_said: set[str] = set()


def rank_and_world_size(
    rank: int | None, world_size: int | None, environment: Mapping[str, str] = os.environ
) -> tuple[int, int] | None:
    """As given; else from torch.distributed, RANK and WORLD_SIZE, JAX, MPI or srun; else 0 of 1.

    None where this is one of several tasks whose number is not known: each would be a run of its own.
    """
    if world_size == 1 and rank is None:
        return 0, 1
    if rank is None or world_size is None:
        found = _found(environment)
        if found is None and world_size is None:
            return None
        found = found or (0, 1)
        rank = found[0] if rank is None else rank
        world_size = found[1] if world_size is None else world_size
    if not 0 <= rank < world_size:
        raise ValueError(f"rank: got {rank}, expected 0 to {world_size - 1} (world_size is {world_size})")
    return rank, world_size


def _found(environment: Mapping[str, str]) -> tuple[int, int] | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    jax = sys.modules.get("jax")
    states = [(_number(environment, rank), _number(environment, size)) for rank, size in (_TORCH, *_LAUNCHERS)]
    whole = [(rank, size) for rank, size in states if rank is not None and size is not None]
    # To ask JAX about a program that has not connected its processes would start its backend.
    # Releases before 0.5.3 cannot be asked.
    is_connected = getattr(getattr(jax, "distributed", None), "is_initialized", lambda: False)
    if jax is not None and states[0] not in whole and is_connected():
        return jax.process_index(), jax.process_count()
    if whole:
        return whole[0]
    size = max((size for _, size in states if size is not None), default=1)
    if size > 1:
        _warn(f"this is one of {size} tasks, and its rank is not known: evaluations will be incomplete")
        return 0, size
    # PMIx states no size.
    if any(rank for rank, _ in states) or _number(environment, "PMIX_RANK"):
        _warn("this is one of several tasks, and their number is not known: it records nothing")
        return None
    return 0, 1


def _number(environment: Mapping[str, str], name: str) -> int | None:
    value = environment.get(name, "")
    return int(value) if value.isdecimal() else None


def _warn(fault: str) -> None:
    if fault not in _said:
        _said.add(fault)
        log.warning(
            "conceptwatch: %s; set RANK and WORLD_SIZE, or pass rank=… and world_size=… to init (world_size=1: each "
            "task is a run of its own)",
            fault,
        )
