"""Named tensors: the checks on what is logged, and copies that the training step cannot overwrite.

Accepts numpy arrays and torch tensors on any device and of any float type, without converting single elements. torch is
never imported here: a job that logs its tensors has imported it.
"""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from ._protocol import messages

MAX_TEXT = 4096
# Forms cached for a run; a job has a handful.
MOST_FORMS = 256

# Dimensions: n rows, k concepts, K activation columns, t tasks; other letters are any size.
SHAPES: Mapping[str, tuple[str, ...]] = {
    "concept_activations": ("n K", "n K m"),
    "concept_labels": ("n k",),
    "task_labels": ("n", "n t"),
    "task_predictions": ("n", "n t"),
    "task_logits": ("n l", "n"),
    "intervened_task_predictions": ("n", "n t"),
    "intervention_predictions": ("n m", "n m t"),
    "wrong_intervention_predictions": ("n m", "n m t"),
    "concept_embeddings": ("n k d",),
    "positive_embeddings": ("n k d",),
    "negative_embeddings": ("n k d",),
    "active_concepts": ("n k",),
    "image_embeddings": ("n D",),
    "predicted_text_embeddings": ("n D",),
    "reference_text_embeddings": ("n D",),
    "predicted_text": ("n",),
    "reference_text": ("n",),
    "localization_maps": ("n k h w",),
    "localization_peaks": ("n k 2",),
    "part_locations": ("n p 2",),
    "deep_features": ("n d h w",),
    "shallow_features": ("n D h w",),
    "cross_image_difference": ("n d h w",),
    "sample_ids": ("n",),
    "ablated_task_predictions": ("n", "n t"),
    "groups": ("n",),
}


class Tensors(TypedDict, total=False):
    """The keywords of `Pass.log`, for type checkers: the names of `SHAPES`."""

    concept_activations: Any
    concept_labels: Any
    task_labels: Any
    task_predictions: Any
    task_logits: Any
    intervened_task_predictions: Any
    intervention_predictions: Any
    wrong_intervention_predictions: Any
    concept_embeddings: Any
    positive_embeddings: Any
    negative_embeddings: Any
    active_concepts: Any
    image_embeddings: Any
    predicted_text_embeddings: Any
    reference_text_embeddings: Any
    predicted_text: Any
    reference_text: Any
    localization_maps: Any
    localization_peaks: Any
    part_locations: Any
    deep_features: Any
    shallow_features: Any
    cross_image_difference: Any
    sample_ids: Any
    ablated_task_predictions: Any
    groups: Any


TEXTS = ("predicted_text", "reference_text")

_SIZES = {
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int8": 1, "int16": 2, "int32": 4, "int64": 8,
    "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "bool": 1,
}  # fmt: skip


class Fault(ValueError):
    """A logged tensor that cannot be sent. The message names it, what is wrong with it and what to send."""


@dataclass(frozen=True)
class Concepts:
    """The concepts' numbers of classes and the layout of activations, which determine the shapes of a run's tensors."""

    cardinalities: tuple[int, ...]
    two_columns: bool = False
    latents: int = 0
    # Continuous concepts beside others, which have one column in either layout.
    numbers: frozenset[int] = frozenset()
    tasks: tuple[int, ...] = ()  # numbers of logits of each of several tasks

    def shapes(self, name: str) -> tuple[str, ...]:
        """The shapes that a tensor may have. Of several tasks each has columns of its own."""
        if len(self.tasks) < 2 or ("task" not in name and "intervention" not in name):
            return SHAPES[name]
        return (f"n {sum(self.tasks)}",) if name == "task_logits" else SHAPES[name][-1:]

    def width(self, letter: str) -> int | None:
        """The size of a dimension, or None for any."""
        if letter == "k":
            return len(self.cardinalities)
        if letter == "K":
            return self.latents or self.columns(self.two_columns)
        if letter == "t":
            return max(1, len(self.tasks))
        return int(letter) if letter.isdigit() else None

    def columns(self, two_columns: bool) -> int:
        """Activation columns of the concepts, with one or two for a binary concept."""
        return sum(self.widths(two_columns))

    def widths(self, two_columns: bool) -> list[int]:
        """The activation columns of each concept."""
        of_two = 1 + two_columns
        return [1 if i in self.numbers else m if m > 2 else of_two for i, m in enumerate(self.cardinalities)]

    def misfit(self, columns: int) -> str:
        """Why this number of activation columns does not fit, and what to pass to `init` so that it does."""
        if self.latents:
            return f"but init declared latents={self.latents}"
        k, fitting = len(self.cardinalities), self.columns(self.two_columns)
        declared = f"but init declared {k} concept{'s' * (k != 1)}"
        misfit = declared + f", which take {fitting} columns" * (fitting != k)
        latents = f"latents={columns} if some columns are learnt without labels"
        if self.columns(not self.two_columns) == columns:
            layout = "one_per_concept" if self.two_columns else "two_per_concept"
            return f"{misfit}; pass activation_columns={layout!r} to init, or {latents}"
        return f"{misfit}; pass to init {latents}" if columns > k else misfit


@dataclass(slots=True)
class Copy:
    """A copy of a tensor, row-major and little-endian. `arrived` is set while a copy from a GPU is in flight."""

    name: str
    dtype: messages.DataType
    shape: tuple[int, ...]
    array: NDArray[Any] | None
    texts: Sequence[str] = ()
    arrived: Any = None

    def wait(self) -> None:
        """Waits for a copy from the GPU. Called on the sending thread."""
        if self.arrived is not None:
            self.arrived.synchronize()
            self.arrived = None


@dataclass(frozen=True, slots=True)
class Form:
    """The properties shared by tensors of one name, element type and row shape."""

    name: str
    dtype: str
    number: messages.DataType
    row_bytes: int  # 0 for texts
    is_torch: bool
    on_host: bool


@dataclass(slots=True)
class Logged:
    """A tensor as logged, still in the caller's memory."""

    form: Form
    shape: tuple[int, ...]
    source: Any  # a numpy array, a torch tensor, or a list of strings

    @property
    def name(self) -> str:
        return self.form.name

    @property
    def row_bytes(self) -> int:
        if self.form.dtype == "string":
            return sum(map(len, self.source)) // len(self.source) + 4
        return self.form.row_bytes

    def row_ids(self) -> NDArray[np.uint64] | None:
        """The values as row ids, without a copy where possible; None unless they are non-negative integers."""
        form = self.form
        if "int" not in form.dtype or not form.on_host:
            return None
        return as_row_ids(self.source.numpy(force=True) if form.is_torch else self.source)

    def part(self, start: int, end: int) -> Logged:
        """A range of rows, without copying."""
        return Logged(self.form, (end - start, *self.shape[1:]), self.source[start:end])

    def copy(self, rows: NDArray[np.int64] | None) -> Copy:
        """A copy of all rows, or of these."""
        form, shape = self.form, self.shape if rows is None else (len(rows), *self.shape[1:])
        if form.dtype == "string":
            texts = tuple(self.source) if rows is None else tuple(self.source[row] for row in rows)
            return Copy(form.name, form.number, shape, None, texts)
        if not form.on_host:
            array, arrived = _copy_from_device(self.source, rows)
            return Copy(form.name, form.number, shape, array, arrived=arrived)
        array = _host_array(self.source) if form.is_torch else self.source
        array = array.copy() if rows is None else np.take(array, rows, axis=0)
        return Copy(form.name, form.number, shape, array.astype(array.dtype.newbyteorder("<"), copy=False))


def as_row_ids(values: NDArray[Any]) -> NDArray[np.uint64] | None:
    """Integers as row ids; None where one is negative, since the sidecar refuses that batch."""
    if values.dtype.kind == "i" and values.size and values.min() < 0:
        return None
    return values.astype(np.uint64)


class Checks:
    """Checks what is logged for a run. A form that was found valid is not checked again."""

    def __init__(self, concepts: Concepts) -> None:
        self._concepts = concepts
        self._forms: dict[Any, Form] = {}

    def logged(self, tensors: Mapping[str, Any]) -> list[Logged]:
        """Checks names, shapes and element types. Raises `Fault` naming the first tensor that is wrong."""
        for name in tensors:
            if name not in SHAPES:
                like = difflib.get_close_matches(name, SHAPES, 1)
                known = f"did you mean {like[0]}?" if like else f"the tensors are {', '.join(SHAPES)}"
                raise Fault(f"{name} is not a tensor that can be logged; {known}")
        found = [self._checked(name, value) for name, value in tensors.items() if value is not None]
        if not any(tensor.form.name != "sample_ids" for tensor in found):
            raise Fault("there is nothing to score; log at least concept_activations")
        first = found[0]
        for tensor in found:
            if tensor.shape[0] != first.shape[0]:
                raise Fault(f"{tensor.name} has {tensor.shape[0]} rows, but {first.name} has {first.shape[0]}")
        return found

    def _checked(self, name: str, value: Any) -> Logged:
        if name in TEXTS:
            texts = _texts(name, value)
            found = Logged(Form(name, "string", messages.DATA_TYPE_STRING, 0, False, True), (len(texts),), texts)
            self._check_shape(found)
            return found
        torch = sys.modules.get("torch")
        is_torch = torch is not None and isinstance(value, torch.Tensor)
        source: Any = value if is_torch else np.asarray(value)
        shape = tuple(source.shape)
        kind: Any = (source.layout, source.device) if is_torch else None
        key = (name, source.dtype, shape[1:], kind)
        form = self._forms.get(key)
        if form is None or not shape or not shape[0]:
            form = _form(name, source, is_torch)
            self._check_shape(Logged(form, shape, source))
            if len(self._forms) >= MOST_FORMS:
                self._forms.clear()
            self._forms[key] = form
        if not is_torch and form.dtype == "bfloat16":
            source = source.view(np.int16)
        return Logged(form, shape, source)

    def _check_shape(self, tensor: Logged) -> None:
        name, shape = tensor.name, tensor.shape
        shapes = self._concepts.shapes(name)
        if not any(_fits(shape, dims, self._concepts) for dims in shapes):
            if 0 in shape:
                raise Fault(f"{name} is empty: its shape is {list(shape)}")
            if name == "concept_activations" and len(shape) in (2, 3):
                raise Fault(f"{name} has {shape[1]} columns, {self._concepts.misfit(shape[1])}")
            expected = " or ".join(_described(dims, self._concepts) for dims in shapes)
            hint = ""
            if len(self._concepts.tasks) > 1 and shapes != SHAPES[name]:
                hint = f" for the {len(self._concepts.tasks)} tasks of init"
            elif name == "task_labels" and len(shape) == 2:
                hint = "; of one-hot labels send the class numbers, for several tasks pass tasks to init"
            raise Fault(f"{name} has shape {list(shape)} instead of {expected}{hint}")


def _form(name: str, source: Any, is_torch: bool) -> Form:
    dtype = str(source.dtype).removeprefix("torch.") if is_torch else source.dtype.name
    if dtype not in _SIZES:
        named = dtype == "object" and any(isinstance(value, str) for value in source.flat)
        raise Fault(_of_no_number(name, "str" if named else dtype))
    if is_torch and str(source.layout) != "torch.strided":
        raise Fault(f"{name} is a {source.layout} tensor; send a dense one, for example with to_dense()")
    number: messages.DataType = getattr(messages, f"DATA_TYPE_{dtype.upper()}")
    row_bytes = math.prod(source.shape[1:]) * _SIZES[dtype]
    return Form(name, dtype, number, row_bytes, is_torch, not is_torch or source.device.type == "cpu")


def _of_no_number(name: str, dtype: str) -> str:
    """Why elements of this type cannot be sent, and what to send."""
    if not dtype.startswith(("str", "bytes", "Str")):
        what = "Python objects" if dtype == "object" else f"of type {dtype}"
        return f"{name} are {what}; send numbers, for example of type float32 or int64"
    if name not in ("task_labels", "concept_labels", "task_predictions"):
        return f"{name} are strings; send numbers"
    named = "pass their names to init as task_classes, or " if name != "concept_labels" else ""
    return f"{name} are strings; {named}send class numbers, for example from numpy.unique(y, return_inverse=True)[1]"


def _fits(shape: tuple[int, ...], dims: str, concepts: Concepts) -> bool:
    letters = dims.split()
    if len(letters) != len(shape) or 0 in shape:
        return False
    allowed = [concepts.width(letter) for letter in letters]
    return all(expected in (None, size) for size, expected in zip(shape, allowed, strict=True))


def _described(dims: str, concepts: Concepts) -> str:
    sizes = ((letter, concepts.width(letter)) for letter in dims.split())
    return f"[{', '.join(letter if width is None else str(width) for letter, width in sizes)}]"


def _texts(name: str, value: Iterable[Any]) -> list[str]:
    texts = [text for text in value if isinstance(text, str)]
    if len(texts) != len(value):  # type: ignore[arg-type]
        raise Fault(f"{name} contains a value that is not a string; send one string for each row")
    for row, text in enumerate(texts):
        # A character has at most four bytes, so most rows need not be encoded here.
        if len(text) * 4 > MAX_TEXT and len(text.encode(errors="replace")) > MAX_TEXT:
            raise Fault(f"{name}: the text in row {row} has more than {MAX_TEXT} bytes; shorten it")
    return texts


def _host_array(tensor: Any) -> NDArray[Any]:
    """A tensor on the CPU as an array, sharing its memory where possible."""
    if tensor.dtype is sys.modules["torch"].bfloat16:
        # numpy has no bfloat16, so its bits are sent as they are.
        tensor = tensor.detach().resolve_neg().view(sys.modules["torch"].int16)
    array: NDArray[Any] = tensor.numpy(force=True)
    return array


_side_streams: dict[Any, Any] = {}


def _copy_from_device(tensor: Any, rows: NDArray[np.int64] | None) -> tuple[NDArray[Any], Any]:
    """A copy of a tensor on a GPU or another device, and the event that marks its arrival, if it has not arrived.

    On CUDA a copy on the device is ordered after the work that produces the tensor and before any that overwrites it.
    The copy to pinned memory then runs concurrently with training.
    """
    torch = sys.modules["torch"]
    tensor = tensor.detach()
    if rows is not None:
        # The row numbers are not in pinned memory, so they are staged before this returns and may then be freed.
        tensor = tensor.index_select(0, torch.from_numpy(rows).to(tensor.device, non_blocking=True))
    if tensor.device.type != "cuda":
        return _host_array(tensor.cpu()).copy(), None
    own = tensor.clone(memory_format=torch.contiguous_format) if rows is None else tensor
    try:
        side = _side_streams.get(tensor.device)
        if side is None:
            side = _side_streams[tensor.device] = torch.cuda.Stream(tensor.device)
        host = torch.empty(own.shape, dtype=own.dtype, pin_memory=True)
        side.wait_stream(torch.cuda.current_stream(tensor.device))
        with torch.cuda.stream(side):
            host.copy_(own, non_blocking=True)
            arrived = torch.cuda.Event()
            arrived.record(side)
        own.record_stream(side)
    except RuntimeError:  # no pinned memory left
        return _host_array(own.cpu()), None
    return _host_array(host), arrived
