"""A run's declaration, from the arguments of `init`."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from ._concepts import Binary, Categorical, Continuous
from ._concepts import Concepts as Given
from ._head import Head, Output, even_counts
from ._labels import LABELS, TASKS, Labels
from ._names import checked
from ._protocol import messages, values_of
from ._tensors import Checks, Concepts

ACTIVATION_KINDS = values_of(messages.ActivationKind)
LABEL_KINDS = values_of(messages.LabelKind)
# By the argument of `init` and field of the declaration.
KINDS = {
    "activation_kind": ACTIVATION_KINDS,
    "activation_columns": values_of(messages.ActivationColumns),
    "training": values_of(messages.Training),
}
MOST_LATENTS = MOST_CLASSES = 65_536
CONCEPT = "name, (name, number of classes) pair, Binary, Categorical or Continuous"


def concepts_of(concepts: Given) -> list[Any]:
    """Concepts from names, (name, cardinality) pairs, concepts with kinds, or their number alone."""
    if isinstance(concepts, (int, np.integer)) and not isinstance(concepts, bool):
        if concepts < 1:
            raise ValueError(f"concepts: got {concepts}, expected at least one")
        concepts = [f"c{i}" for i in range(int(concepts))]
    # A text would be a concept for each character, a dict its keys alone, and a set has another order on each rank.
    elif isinstance(concepts, (str, bytes, Mapping, Set)) or not isinstance(concepts, Iterable):
        raise ValueError(
            f"concepts: got {shortened(concepts)}, expected a list of concepts, each a {CONCEPT}; or their number"
        )
    found = [_concept(f"concepts[{place}]", concept) for place, concept in enumerate(concepts)]
    if not found:
        raise ValueError("concepts: got none, expected at least one")
    twice = next((name for name, count in Counter(concept.name for concept in found).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"concepts: two concepts are named {twice!r}; give each a name of its own")
    return found


def _concept(field: str, concept: Any) -> Any:
    name: Any = None
    cardinality: Any = None
    kind = getattr(concept, "activation_kind", None)
    declared: dict[str, Any] = {}
    if isinstance(concept, (Binary, Categorical)):
        name, cardinality = concept.name, getattr(concept, "classes", 0)
        if isinstance(concept, Categorical) and isinstance(cardinality, (int, np.integer)) and cardinality < 2:
            raise ValueError(f"{field}.classes: got {cardinality}, expected 2 to {MOST_CLASSES}")
        declared["label_kind"] = messages.LABEL_KIND_CLASS
        if kind is not None:
            declared["activation_kind"] = kind_of(f"{field}.activation_kind", kind, ACTIVATION_KINDS)
    elif isinstance(concept, Continuous):
        name, cardinality = concept.name, 0
        declared["label_kind"] = messages.LABEL_KIND_CONTINUOUS
        declared["activation_kind"] = messages.ACTIVATION_KIND_CONTINUOUS
    elif isinstance(concept, str):
        name, cardinality = concept, 0
    elif isinstance(concept, (tuple, list)) and len(concept) == 2:
        name, cardinality = concept
    is_number = isinstance(cardinality, (int, np.integer)) and not isinstance(cardinality, bool)
    if not isinstance(name, str) or not is_number:
        raise ValueError(f"{field}: got {shortened(concept)}, expected a {CONCEPT}")
    name = checked(field, name)
    if not 0 <= cardinality <= MOST_CLASSES:
        raise ValueError(f"{field}: got {cardinality} classes, expected 0 to {MOST_CLASSES}")
    return messages.Concept(name=name, cardinality=int(cardinality), **declared)


def tasks_of(tasks: Given | None) -> list[Any]:
    """Tasks in the form of concepts."""
    if tasks is None:
        return []
    if isinstance(tasks, (int, np.integer)) and not isinstance(tasks, bool):
        tasks = [f"t{i}" for i in range(int(tasks))]
    try:
        found = concepts_of(tasks)
    except ValueError as error:
        raise ValueError(str(error).replace("concept", "task")) from None
    for place, task in enumerate(found):
        if task.activation_kind and task.label_kind == messages.LABEL_KIND_CLASS:
            raise ValueError(f"tasks[{place}].activation_kind: leave it out, only concepts have activations")
    return [messages.Task(name=task.name, cardinality=task.cardinality, label_kind=task.label_kind) for task in found]


def labels_of(labels: Mapping[str, Any] | None, project: str | None) -> dict[str, str]:
    """A run's labels as text, with its project among them."""
    named = {checked("labels", str(key)): value for key, value in (labels or {}).items()}
    texts = {key: checked(f"labels[{key!r}]", str(value)) for key, value in named.items()}
    if project is not None and "project" in texts:
        raise ValueError(f"project: got {project!r} and {texts['project']!r} in labels, expected one of them")
    return {"project": _folder_name() if project is None else checked("project", project), **texts}


def _folder_name() -> str:
    """The name of the repository that holds the script, or of its folder; in a notebook, of the working directory."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    folder = Path.cwd() if script is None else Path(script).resolve().parent
    if Path(sys.prefix).resolve() in folder.parents:  # a launcher that is installed, not a script
        folder = Path.cwd()
    repository = next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), folder)
    try:
        return checked("project", "-".join(repository.name.split()))
    except ValueError:
        return "default"


class Constants(TypedDict, total=False):
    """The arguments of `init` that some scores use."""

    reference_task_accuracy: float | None
    concept_weights: Sequence[float] | None
    head_weights: Any
    head_bias: Any
    image_size: tuple[int, int] | None
    box_size: tuple[int, int] | None
    concept_parts: Sequence[Sequence[int]] | None
    concept_score_weight: float | None
    activity_threshold: float | None
    active_top_k: int | None
    clarity_weights: Sequence[float] | None
    intervention_counts: Sequence[int] | None


def declaration_of(
    name: str, given: Mapping[str, Any], concept_labels: str = "concept_labels", task_labels: str = "task_labels"
) -> tuple[Any, Head | None, tuple[Checks, Labels]]:
    """A declaration for one rank; its head; and the checks of its tensors, and how its labels become plain.

    given: the arguments of `init` or `score` by name. concept_labels, task_labels: the names of those that state the
        kinds of labels.
    """
    found, latents = concepts_of(given["concepts"]), given["latents"]
    head = None if given["head"] is None else Head.of(given["head"])
    classes = classes_of(given["task_classes"])
    constants = cast("Constants", {name: given.get(name) for name in Constants.__annotations__})
    if head is not None:
        if latents is not None:
            raise ValueError(
                "head: leave it out with latents: their columns are no concepts that an intervention could set"
            )
        counts = head.counts(len(found))
        if constants["intervention_counts"] is None and counts != even_counts(len(found), len(counts)):
            constants["intervention_counts"] = counts
    of_latents = latents_of(latents, given["activation_columns"], len(found))
    run = messages.Run(
        name=checked("name", name),
        concepts=found,
        latents=of_latents,
        world_size=1,
        missing_concept_labels=bool(given["missing_concept_labels"]) or given["soft_labels"] is not None,
        tasks=tasks_of(given["tasks"]),
        missing_task_labels=bool(given["missing_task_labels"]),
        constants=constants_of(head is not None and head.is_linear(), of_latents or len(found), constants),
        **{field: kind_of(field, given[field], kinds) for field, kinds in KINDS.items()},
        concept_label_kind=kind_of(concept_labels, given[concept_labels], LABEL_KINDS),
        task_label_kind=kind_of(task_labels, given[task_labels], LABEL_KINDS),
    )
    signed, numbers = bool(given["signed_labels"]), continuous_concepts(run)
    labels = Labels(
        tuple(concept.name for concept in found),
        tuple(concept.cardinality <= 2 and not number for concept, number in zip(found, numbers, strict=True)),
        bool(given["missing_concept_labels"]),
        signed,
        soft_of(given["soft_labels"], signed),
        frozenset(name for name, are_numbers in NUMBERS.items() if any(are_numbers(run))),
        classes,
        run.missing_task_labels,
    )
    return run, head, (Checks(layout_of(run)), labels)


def layout_of(declared: Any) -> Concepts:
    """The columns of a run's activations."""
    two_columns = declared.activation_columns == messages.ACTIVATION_COLUMNS_TWO_PER_CONCEPT
    numbers = continuous_concepts(declared)
    beside_others = frozenset(i for i, number in enumerate(numbers) if number and not all(numbers))
    cardinalities = tuple(concept.cardinality for concept in declared.concepts)
    outputs = tuple(output.columns for output in outputs_of(declared))
    return Concepts(cardinalities, two_columns, declared.latents, beside_others, outputs)


def classes_of(task_classes: Sequence[str] | None) -> tuple[str, ...]:
    """The names of the task's classes, in the order of their numbers."""
    # A text would be a class for each character, and a set has another order on each rank.
    if isinstance(task_classes, (str, bytes, Mapping, Set)):
        raise ValueError(f"task_classes: got {shortened(task_classes)}, expected a list of names")
    names = tuple(task_classes if task_classes is not None else ())
    other = next((name for name in names if not isinstance(name, str)), None)
    if other is not None:
        raise ValueError(f"task_classes: got {shortened(other)}, expected a list of names")
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"task_classes: two classes are named {twice!r}")
    return tuple(map(str, names))  # NumPy's texts say their type in messages


def continuous_concepts(declared: Any) -> list[bool]:
    """Whether the labels of each concept are measured quantities."""
    of_run = declared.concept_label_kind
    return [(concept.label_kind or of_run) == messages.LABEL_KIND_CONTINUOUS for concept in declared.concepts]


def continuous_tasks(declared: Any) -> list[bool]:
    """Whether the labels of each task are measured quantities; one that is not declared has the run's kind."""
    of_run = declared.task_label_kind
    return [
        (task.label_kind or of_run) == messages.LABEL_KIND_CONTINUOUS for task in declared.tasks or [messages.Task()]
    ]


# The tensors of labels that may be numbers.
NUMBERS = {LABELS: continuous_concepts, TASKS: continuous_tasks}


def activation_kinds(declared: Any) -> list[Any]:
    """The kind of each concept's activation, as the protocol has it."""
    of_run = declared.activation_kind or messages.ACTIVATION_KIND_PROBABILITY
    return [concept.activation_kind or of_run for concept in declared.concepts]


Bounds = tuple[float, float]


def soft_of(soft_labels: str | Sequence[float] | None, signed_labels: bool) -> Bounds | None:
    """The bounds between which certainties are unknown."""
    if soft_labels is None:
        return None
    if signed_labels:
        raise ValueError("soft_labels: leave it out with signed_labels: certainties are from 0 to 1")
    if soft_labels == "threshold":
        return 0.5, 0.5
    try:
        low, high = (float(bound) for bound in soft_labels)
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if isinstance(soft_labels, str) or not 0 <= low <= high <= 1:
        raise ValueError(
            f'soft_labels: got {shortened(soft_labels)}, expected "threshold", or two bounds with 0 <= low <= high <= 1'
        )
    return low, high


def outputs_of(declared: Any) -> list[Output]:
    """What a head returns for each task of a run: one column for a number or two classes, else one for each class."""
    tasks = zip(declared.tasks or [messages.Task()], continuous_tasks(declared), strict=True)
    return [
        Output(task.name, task.cardinality if task.cardinality > 2 and not number else 1, number)
        for task, number in tasks
    ]


def constants_of(linear_head: bool, columns: int, constants: Constants) -> Any:
    """The constants of a run. columns: how many weights its head has for each class."""
    given: dict[str, Any] = {name: value for name, value in constants.items() if value is not None}
    image, box = given.pop("image_size", (0, 0)), given.pop("box_size", (0, 0))
    parts = [messages.ConceptParts(parts=parts) for parts in given.pop("concept_parts", ())]
    numbers = {name: _array(given[name]) for name in ("concept_weights", "head_weights", "head_bias") if name in given}
    of_head = numbers.get("head_weights", np.empty(0))
    if of_head.ndim == 2 and of_head.shape[1] != columns and of_head.shape != (columns, 1):
        raise ValueError(
            f"head_weights: got shape {list(of_head.shape)}, expected [l, {columns}], a row for each class;"
            " transpose a kernel of Keras or JAX"
        )
    given |= {name: array.ravel() for name, array in numbers.items()}
    return messages.RunConstants(
        linear_head=linear_head,
        image_height=image[0],
        image_width=image[1],
        box_height=box[0],
        box_width=box[1],
        concept_parts=parts,
        **given,
    )


def _array(values: Any) -> NDArray[np.float64]:
    """The numbers of an array or of a torch tensor on any device."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values, np.float64)


def set_as(declared: Any) -> list[str]:
    """The `kind` by which interventions set each concept of a run."""
    names = {number: name for name, number in ACTIVATION_KINDS.items()}
    # A regressed quantity with classes for labels: present and absent are its ends, as with logits.
    names[messages.ACTIVATION_KIND_CONTINUOUS] = "logit"
    kinds = [names[kind] for kind in activation_kinds(declared)]
    return ["continuous" if number else kind for kind, number in zip(kinds, continuous_concepts(declared), strict=True)]


def latents_of(latents: int | None, activation_columns: str, concepts: int) -> int:
    """The number of latents as the protocol has it: 0 where activations belong to concepts."""
    if latents is None:
        return 0
    if not concepts <= latents <= MOST_LATENTS:
        raise ValueError(
            f"latents: got {latents!r}, expected at least {concepts}, one for each concept, and at most {MOST_LATENTS}"
        )
    if activation_columns != "one_per_concept":
        raise ValueError("activation_columns: leave it out; latents states the number of columns")
    return int(latents)


def token_of(path: str | os.PathLike[str]) -> str:
    """The token in a file: 16 or more printable ASCII characters, as the sidecar reads it."""
    try:
        token = Path(path).read_text(encoding="utf-8").rstrip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"token_file: {path} cannot be read: {error}") from error
    if len(token) < 16 or not all("!" <= character <= "~" for character in token):
        raise ValueError(f"token_file: {path} must contain 16 or more printable ASCII characters")
    return token


def kind_of(field: str, value: str, kinds: Mapping[str, Any]) -> Any:
    if value not in kinds:
        raise ValueError(f"{field}: got {value!r}, expected one of {', '.join(kinds)}")
    return kinds[value]
