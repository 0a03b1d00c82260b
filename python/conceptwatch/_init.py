"""`init`: from the arguments of a job to its run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import EllipsisType
from typing import Any

from . import _sidecar
from ._concepts import Concepts
from ._connection import Contact, contact_to, is_local
from ._declaration import declaration_of, labels_of, token_of
from ._disabled import DisabledRun
from ._home import user_home
from ._launch import own_launch, spans_nodes
from ._loggers import loggers_of
from ._names import checked
from ._ranks import rank_and_world_size
from ._recording import SCHEME
from ._run import Run
from ._run_channel import Link
from ._sidecar_lease import reach
from ._summary import is_quiet

MODES = ("online", "offline", "disabled")
DEFAULT_FOLDER = "conceptwatch-offline"


def init(
    name: str,
    *,
    concepts: Concepts,
    activation_kind: str = "probability",
    activation_columns: str = "one_per_concept",
    latents: int | None = None,
    concept_labels: str = "class",
    task_labels: str = "class",
    missing_concept_labels: bool = False,
    tasks: Concepts | None = None,
    missing_task_labels: bool = False,
    signed_labels: bool = False,
    task_classes: Sequence[str] | None = None,
    soft_labels: str | Sequence[float] | None = None,
    labels: Mapping[str, object] | None = None,
    project: str | None = None,
    training: str = "joint",
    reference: str | None = None,
    reference_task_accuracy: float | None = None,
    concept_weights: Sequence[float] | None = None,
    head_weights: Any = None,
    head_bias: Any = None,
    image_size: tuple[int, int] | None = None,
    box_size: tuple[int, int] | None = None,
    concept_parts: Sequence[Sequence[int]] | None = None,
    concept_score_weight: float | None = None,
    activity_threshold: float | None = None,
    active_top_k: int | None = None,
    clarity_weights: Sequence[float] | None = None,
    head: Any = None,
    intervention_counts: Sequence[int] | None = None,
    world_size: int | None = None,
    rank: int | None = None,
    job: str | None = None,
    attempt: int | None = None,
    resume: bool = False,
    mode: str | None = None,
    offline_dir: str | os.PathLike[str] | None = None,
    address: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    ca_file: str | os.PathLike[str] | None = None,
    cert_file: str | os.PathLike[str] | None = None,
    key_file: str | os.PathLike[str] | None = None,
    spawn: bool = True,
    data_dir: str | os.PathLike[str] | EllipsisType | None = ...,
    log_to: Any = None,
    queue_bytes: int = 256 << 20,
    raise_errors: bool = False,
) -> Run:
    """Starts a run. Where another job has used the name, the run becomes name-2, name-3, ...; see `Run.name`.

    concepts: names, (name, number of classes) pairs, or a number k for concepts named c0, c1, ...; in a model that
        mixes kinds `Binary`, `Categorical` and `Continuous`.
    activation_kind: "hard", "probability" (sigmoid or softmax outputs), "logit" or "continuous".
    activation_columns: "one_per_concept", or "two_per_concept": absent and present. Categorical concepts have a column
        for each class.
    latents: number of columns of concept_activations learnt without labels, as by a sparse autoencoder.
    concept_labels, task_labels: "class", or "continuous" for measured quantities.
    missing_concept_labels: concept labels of -1 or NaN are unknown.
    tasks: as concepts, such as ["edema", ("grade", 3), Continuous("age")], or a number t for tasks named t0, t1, ...
    missing_task_labels: task labels of -1, -100 (PyTorch's ignore_index) or NaN are unknown.
    signed_labels: labels of binary concepts are -1 (absent) and 1 (present); 0 is then the unknown one.
    task_classes: names of the task's classes, in the order of the logits, where task_labels and task_predictions are
        such names. State the same on all ranks.
    soft_labels: labels of binary concepts are certainties from 0 to 1. "threshold": present above 0.5, absent below,
        unknown at 0.5. Two bounds (low, high): unknown from one to the other.
    labels: facts that distinguish runs, such as {"lambda": 0.01}.
    project: the label `project`; by default the name of the script's repository, or of its folder.
    training: "joint"; or "sequential" or "independent" if the concepts never saw the task: then nothing that they hold
        is leakage.
    reference: name of a run of the same data and concepts at the same sidecar, trained without the task. Leakage counts
        above what its newest evaluation has.
    reference_task_accuracy: accuracy of a task head on true concepts, for the intervention score.
    concept_weights: k weights for the mean leakage to the task. head_weights: [l, k] (or [l, latents]), of a linear
        task head. head_bias: its l biases.
    image_size, box_size: (height, width) in pixels. concept_parts: for each concept, indices of its parts.
    concept_score_weight: the factor of ConceptScore.
    activity_threshold, active_top_k: for Clarity, concepts are active above it, or if among the K largest.
    clarity_weights: of sparsity, precision and accuracy.
    head: the part of the model from concepts to the task, a module or function, or a `Head` with options, for
        interventions.
    intervention_counts: numbers of concepts set in intervention predictions that you log yourself, if not evenly spaced
        from 0 to k.
    rank, world_size: by default those of torch.distributed; or RANK and WORLD_SIZE; or of JAX, Open MPI, MVAPICH, PMI
        or srun; or 0 of 1.
    job: name of this launch, the same on all ranks. By default CONCEPTWATCH_JOB, or the launch of torchrun, Slurm or
        Open MPI; see docs/integrations.md.
    attempt: restarts of the job so far, by default as torchrun and Slurm count them, or 0.
    resume: continue the run of exactly this name, as from a checkpoint; if there is none, start it.
    mode: "online"; "offline": write files for `conceptwatch replay`; "disabled": record nothing. By default
        CONCEPTWATCH_MODE, or "online".
    offline_dir: folder for those files; by default CONCEPTWATCH_OFFLINE_DIR, or conceptwatch-offline.
    address: of the sidecar: HOST:PORT, https://HOST:PORT or unix:///path. By default CONCEPTWATCH_ADDRESS, or that of a
        sidecar of this user or of root that suits; see docs/operating.md.
    token_file: file with the sidecar's token; by default CONCEPTWATCH_TOKEN_FILE, or none.
    ca_file, cert_file, key_file: PEM files with the authorities of an https sidecar, and a client's certificate and
        key. By default CONCEPTWATCH_CA_FILE, CONCEPTWATCH_CERT_FILE and CONCEPTWATCH_KEY_FILE.
    spawn: start a sidecar when nothing listens at a local address. With port 0 it serves this process alone.
    data_dir: directory of the curves; None keeps them in the sidecar's memory. By default CONCEPTWATCH_DATA_DIR, or one
        below the user's data directory.
    log_to: "wandb", "tensorboard", "tensorboard:FOLDER", "mlflow", "trackio" or "aim"; an object of these or a logger
        of Lightning; a function of values and step; or a list of these.
    queue_bytes: memory for batches not yet acknowledged and rows of evaluations not yet settled. Batches beyond it are
        dropped; unsettled rows make way for new ones.
    raise_errors: raise instead of warning.

    Raises ValueError for arguments that no sidecar accepts.
    """
    given = locals()
    ranks = rank_and_world_size(rank, world_size)
    rank, world_size = ranks or (0, 1)
    declared, own_head, checks = declaration_of(name, given)
    declared.world_size, name = world_size, declared.name
    declared.labels.update(labels_of(labels, project))
    declared.reference = "" if reference is None else checked("reference", reference)
    mode = mode or os.environ.get("CONCEPTWATCH_MODE") or "online"
    if mode not in MODES:
        raise ValueError(f"mode: got {mode!r}, expected one of {', '.join(MODES)}")
    launch = own_launch(name, world_size, job, attempt)
    link = Link(declared, rank, queue_bytes, launch, resume)
    if mode == "disabled" or ranks is None:
        return DisabledRun(link, raise_errors)
    loggers = loggers_of(log_to, lambda: link.name) if rank == 0 else []
    if mode == "offline":
        folder = os.fspath(offline_dir or os.environ.get("CONCEPTWATCH_OFFLINE_DIR") or DEFAULT_FOLDER)
        print(f"conceptwatch: offline, recording to {folder}", file=sys.stderr)
        if loggers:
            link.warn("log_to: offline there are no scores, so nothing is logged", is_fault=False)
        return Run(link, Contact(SCHEME + os.path.abspath(folder)), raise_errors, checks, own_head)
    address = address or os.environ.get("CONCEPTWATCH_ADDRESS") or None
    token_file = token_file or os.environ.get("CONCEPTWATCH_TOKEN_FILE") or None
    token = None if token_file is None else token_of(token_file)
    contact = contact_to(address or _sidecar.DEFAULT, token, ca_file, cert_file, key_file)
    stated = contact.address if address else None
    # With spawn=False an address of this node may be a tunnel to the sidecar.
    if spans_nodes(world_size) and (stated is None or (spawn and is_local(contact.target))):
        got = "none" if stated is None else f"{stated}, which only this node reaches,"
        raise ValueError(
            f"address: got {got} in a launch over several nodes; start one sidecar for all ranks and set "
            "CONCEPTWATCH_ADDRESS to its address on every node, see docs/scale.md"
        )
    wish = _sidecar.Wish(token_file, data_dir)
    hindrance = wish.hindrance() if spawn else ""
    if hindrance and _starts_one(stated, wish, token, rank):
        if rank == 0:
            link.warn(
                f"data_dir: {wish.directory} cannot be written ({hindrance}): the curves are in memory instead, and "
                "end with the sidecar",
                is_fault=False,
            )
        wish, data_dir = _sidecar.Wish(token_file, None), None
    reached = reach(stated, wish, token, spawn=spawn, rank=rank)
    link.ends_unused, link.told_place, link.wanted_dir = reached.started, reached.told, wish.directory
    run = Run(link, replace(contact, address=reached.address), raise_errors, checks, own_head, loggers)
    run._token_file = None if token_file is None else os.fspath(token_file)
    if spawn:
        run._sender.replace = partial(_sidecar.ensure, reached.address, wish)
    if reached.started and not is_quiet():
        print(f"conceptwatch: started a sidecar, its page is {run.page_url}{_kept(run, data_dir)}", file=sys.stderr)
    return run


def _starts_one(stated: str | None, wish: _sidecar.Wish, token: str | None, rank: int) -> bool:
    """Whether a sidecar will be started. One that runs may keep curves where this process cannot write."""
    if stated is not None:
        return is_local(stated) and not _sidecar.listens(_sidecar.own_address(stated))
    return not reach(None, wish, token, spawn=False, rank=rank).told


def _kept(run: Run, wanted: object) -> str:
    """Where the curves are, for the line that says that a sidecar was started."""
    if run.data_dir is not None:
        return f"; curves are kept in {run.data_dir}"
    home = user_home()
    if wanted is None or home is None or not run._link.declared or not run._link.incarnation:
        return ""
    return f"; curves are in memory, because {home} cannot be written"
