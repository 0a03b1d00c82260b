"""Scores of arrays, without a sidecar."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._child import answer_of, batch_of, number
from ._concepts import Concepts
from ._declaration import Constants, declaration_of, kind_of, set_as
from ._diagnosis import Diagnosis
from ._encode import outside_unit
from ._head import Recent
from ._interventions import check_counts, lacks_predictions, with_head
from ._protocol import messages
from ._scores import Scores
from ._tensors import SHAPES, Fault, Tensors

if TYPE_CHECKING:
    from typing_extensions import Unpack

ESTIMATORS = {name: name for name in ("tie_aware", "published")}


class Given(Tensors, Constants, total=False):
    """The other keywords of `score`, for type checkers."""


def score(
    *,
    concepts: Concepts | None = None,
    activation_kind: str = "probability",
    activation_columns: str = "one_per_concept",
    latents: int | None = None,
    concept_kind: str = "class",
    task_kind: str = "class",
    task_classes: Sequence[str] | None = None,
    missing_concept_labels: bool = False,
    tasks: Concepts | None = None,
    missing_task_labels: bool = False,
    signed_labels: bool = False,
    soft_labels: str | Sequence[float] | None = None,
    training: str = "joint",
    head: Any = None,
    scores: Sequence[str] | None = None,
    estimator: str = "tie_aware",
    neighbors: int = 3,
    repeats: int = 5,
    seed: int = 0,
    threads: int | None = None,
    memory_mib: int | None = None,
    **tensors: Unpack[Given],
) -> Scores:
    """Scores arrays in memory, such as the outputs of a model on its validation set.

        scores = conceptwatch.score(concept_activations=c_hat, concept_labels=c, task_labels=y)
        print(scores.verdict)
        scores["ctl_conditional"], scores.diagnosis(), scores.to_frame()

    tensors: those of `Pass.log`, with all rows; and the constants of `init`, such as head_weights.
    concepts: as in `init`; by default the columns of a data frame of labels, or as many as tensors have.
    concept_kind, task_kind: as concept_labels and task_labels of `init`.
    scores: ids of the scores to compute; by default all whose tensors are given.
    estimator, neighbors: "tie_aware", or "published", which breaks ties by noise of this `seed`, several times
        (`repeats`); and its number of neighbours.
    threads: by default all cores. The scores do not depend on it.
    memory_mib: MiB that tensors and scoring may take, by default half of what is available, at most 4096.
    The other arguments are those of `init`.

    Raises ValueError for tensors that `Pass.log` refuses, and ConceptwatchError if the program fails, as for lack of
    memory.
    """
    given = {**locals(), **tensors}
    logged = {name: value for name, value in tensors.items() if name not in Constants.__annotations__}
    given["concepts"] = (_names_in(logged) or _concepts_in(logged, latents)) if concepts is None else concepts
    run, own_head, (checks, labels) = declaration_of("notebook", given, "concept_kind", "task_kind")
    try:
        plain = labels.plain(logged)
        check_counts(plain, len(run.concepts), run.constants.intervention_counts)
        found = checks.logged(plain)
    except Fault as fault:
        raise Fault(str(fault).replace("init declared", "score got").replace(" to init", "")) from None
    if own_head is not None and lacks_predictions(plain):
        found += checks.logged(with_head(own_head, run, set_as(run), plain, Recent(), 0))
    arguments = ["--estimator", kind_of("estimator", estimator, ESTIMATORS)]
    arguments += ["--neighbours", number("neighbors", neighbors, 1, 1000)]
    arguments += ["--repeats", number("repeats", repeats, 1, 1000), "--seed", number("seed", seed, 0, (1 << 64) - 1)]
    arguments += [] if threads is None else ["--threads", number("threads", threads, 1, 1024)]
    arguments += [] if memory_mib is None else ["--memory-mib", number("memory_mib", memory_mib, 8, 1 << 24)]
    if scores is not None:
        arguments += [f"--scores={','.join([scores] if isinstance(scores, str) else scores)}"]
    copies = [tensor.copy(None) for tensor in found]
    for copy in copies:
        copy.wait()
    remark = outside_unit(run, copies)
    if remark is not None:
        warnings.warn(remark.replace(" to init", ""), stacklevel=2)
    answer = answer_of("score-tensors", arguments, [[run.SerializeToString()], batch_of(copies)])
    end = 8 + int.from_bytes(answer[:8], "little")
    diagnosis = Diagnosis("", messages.GetDiagnosisResponse.FromString(answer[end:]))
    return Scores(messages.Point.FromString(answer[8:end]), diagnosis)


def _names_in(tensors: dict[str, Any]) -> list[str]:
    """The columns of a data frame of labels, if they are names."""
    columns = list(getattr(tensors.get("concept_labels"), "columns", ()))
    are_names = all(isinstance(column, str) and column for column in columns) and len({*columns}) == len(columns)
    return columns if are_names else []


def _concepts_in(tensors: dict[str, Any], latents: int | None) -> int:
    """How many concepts the tensors have."""
    for letter in "k" if latents else "kK":
        for name, value in tensors.items():
            shape = np.shape(value)
            dims = next((dims.split() for dims in SHAPES.get(name, ()) if len(dims.split()) == len(shape)), [])
            if letter in dims:
                return int(shape[dims.index(letter)])
    return 1
