"""`init`: from the arguments of a job to its run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import EllipsisType
from typing import Any

from . import _declaration, _sidecar
from ._connection import Contact, contact_to, is_local
from ._disabled import DisabledRun
from ._head import Head
from ._home import user_home
from ._launch import own_launch, spans_nodes
from ._loggers import Loggers, loggers_of
from ._names import checked
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
    concepts: int | Sequence[str | tuple[str, int]],
    activation_kind: str = "probability",
    activation_columns: str = "one_per_concept",
    latents: int | None = None,
    concept_labels: str = "class",
    task_labels: str = "class",
    missing_concept_labels: bool = False,
    signed_labels: bool = False,
    labels: Mapping[str, object] | None = None,
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

    concepts: names, (name, number of classes) pairs, or a number k for concepts named c0, c1, ...
    activation_kind: "hard", "probability" (sigmoid or softmax outputs), "logit" or "continuous".
    activation_columns: "one_per_concept", or "two_per_concept": absent and present. Categorical concepts always have a
        column for each class.
    latents: the number of columns of concept_activations where these were learnt without labels, as by a sparse
        autoencoder. `alignment` matches them to the concepts.
    concept_labels, task_labels: "class", or "continuous" for measured quantities.
    missing_concept_labels: a concept label of -1, or NaN among floats, is unknown. A score of a concept or pair then
        uses the rows in which its labels are known, 50 at least. Otherwise such a label is an error.
    signed_labels: labels of binary concepts are -1 (absent) and 1 (present), as in CelebA. With missing_concept_labels
        0 or NaN is unknown.
    labels: facts that distinguish runs, such as {"lambda": 0.01}.
    training: "joint": the task's loss reaches the concepts. "sequential" or "independent": they are trained without the
        task, so nothing that they hold is leakage, and no default rule advises to stop.
    reference: the name of a run of the same data and concepts, kept by the same sidecar, that was trained without the
        task. Leakage counts above what its newest evaluation has.
    reference_task_accuracy: accuracy in [0, 1] of the task head on true concepts, for the intervention score.
    concept_weights: k weights for the mean concepts-task leakage. head_weights: [l, k], of a linear task head; with
        latents [l, latents]. head_bias: its l biases.
    image_size, box_size: (height, width) in pixels. concept_parts: for each concept, indices of its parts.
    concept_score_weight: the factor of ConceptScore.
    activity_threshold, active_top_k: the concepts that count as active for Clarity: those above it, or the largest K.
    clarity_weights: weights of sparsity, precision and accuracy in Clarity.
    head: the part of the model from concepts to the task, a module or function, or a `Head` with options. Each batch of
        an evaluation is then also predicted with concepts set to true and to wrong values.
    intervention_counts: numbers of concepts set in the columns of intervention predictions that you log yourself, if
        these are not evenly spaced from 0 to k.
    rank, world_size: by default those of torch.distributed, or RANK and WORLD_SIZE, or 0 of 1.
    job: names this launch of the training, the same on all its ranks, which share a run. By default CONCEPTWATCH_JOB,
        or the launch of torchrun, Slurm or Open MPI; docs/integrations.md says what follows without these.
    attempt: restarts of the job so far, by default as torchrun and Slurm count them, or 0. Open evaluations of an older
        attempt are discarded.
    resume: continue the run of exactly this name, as after loading a checkpoint; if there is none, start it.
    mode: "online"; "offline": what is logged goes to files for `conceptwatch replay`; "disabled": nothing is recorded
        or sent. By default CONCEPTWATCH_MODE, or "online".
    offline_dir: folder for those files; by default CONCEPTWATCH_OFFLINE_DIR, or conceptwatch-offline.
    address: of the sidecar: HOST:PORT, https://HOST:PORT or unix:///path. By default CONCEPTWATCH_ADDRESS, or the Unix
        socket of this user's sidecar, or 127.0.0.1:7800 where a sidecar of this user or of root listens there and
        suits, as docs/operating.md says. Ranks on several nodes need the address of one sidecar, as docs/scale.md says.
    token_file: file with the sidecar's token; by default CONCEPTWATCH_TOKEN_FILE, or no token.
    ca_file: PEM file with the authorities of an https sidecar's certificate. cert_file, key_file: PEM files with a
        client certificate and its key. By default CONCEPTWATCH_CA_FILE, CONCEPTWATCH_CERT_FILE and
        CONCEPTWATCH_KEY_FILE.
    spawn: start a sidecar when nothing listens at a local address. With port 0 it serves this process alone.
    data_dir: where the curves are to be kept; None keeps them in memory, until the sidecar ends. By default
        CONCEPTWATCH_DATA_DIR, or a directory below the user's data directory, which `run.data_dir` names. A running
        sidecar that keeps curves elsewhere is not joined.
    log_to: "wandb", "tensorboard" (event files in runs/NAME), "tensorboard:FOLDER" or "mlflow"; a run of W&B, a
        SummaryWriter, a logger of Lightning; a function of values and step; or a list of these. Scores of evaluations
        go there as `conceptwatch/SPLIT/SCORE`, at the step of the evaluation.
    queue_bytes: memory for batches that the sidecar has not acknowledged, and for rows of evaluations that are not
        settled. Batches beyond it are dropped; unsettled rows make way for new ones. Both are counted.
    raise_errors: raise instead of warning. By default nothing here raises into the training loop.

    Raises ValueError for arguments that no sidecar accepts.
    """
    rank, world_size = _declaration.rank_and_world_size(rank, world_size)
    own_head = None if head is None else Head.of(head)
    declared = _declaration.declared(
        name,
        concepts=concepts,
        activation_kind=activation_kind,
        activation_columns=activation_columns,
        latents=latents,
        concept_labels=("concept_labels", concept_labels),
        task_labels=("task_labels", task_labels),
        missing_concept_labels=missing_concept_labels,
        training=training,
        head=own_head,
        constants={
            "reference_task_accuracy": reference_task_accuracy,
            "concept_weights": concept_weights,
            "head_weights": head_weights,
            "head_bias": head_bias,
            "image_size": image_size,
            "box_size": box_size,
            "concept_parts": concept_parts,
            "concept_score_weight": concept_score_weight,
            "activity_threshold": activity_threshold,
            "active_top_k": active_top_k,
            "clarity_weights": clarity_weights,
            "intervention_counts": intervention_counts,
        },
    )
    declared.world_size, name = world_size, declared.name
    declared.labels.update(_declaration.labels_of(labels))
    declared.reference = "" if reference is None else checked("reference", reference)
    mode = mode or os.environ.get("CONCEPTWATCH_MODE") or "online"
    if mode not in MODES:
        raise ValueError(f"mode: got {mode!r}, expected one of {', '.join(MODES)}")
    launch = own_launch(name, world_size, job, attempt)
    link = Link(declared, rank, queue_bytes, launch, resume)
    if mode == "disabled":
        return DisabledRun(link, raise_errors)
    loggers = Loggers(loggers_of(log_to, lambda: link.name) if rank == 0 else (), partial(link.warn, is_fault=False))
    if mode == "offline":
        folder = os.fspath(offline_dir or os.environ.get("CONCEPTWATCH_OFFLINE_DIR") or DEFAULT_FOLDER)
        print(f"conceptwatch: offline, recording to {folder}", file=sys.stderr)
        if loggers:
            link.warn("log_to: offline there are no scores, so nothing is logged", is_fault=False)
        return Run(link, Contact(SCHEME + os.path.abspath(folder)), raise_errors, own_head, None, signed_labels)
    address = address or os.environ.get("CONCEPTWATCH_ADDRESS") or None
    token_file = token_file or os.environ.get("CONCEPTWATCH_TOKEN_FILE") or None
    token = None if token_file is None else _declaration.token_of(token_file)
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
    run = Run(link, replace(contact, address=reached.address), raise_errors, own_head, loggers, signed_labels)
    run._token_file = None if token_file is None else os.fspath(token_file)
    if spawn:
        run._sender.replace = partial(_sidecar.replace, reached.address, wish)
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
