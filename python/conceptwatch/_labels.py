"""What is logged, as plain arrays: masks and missing values become unknown labels, -1 and 1 become 0 and 1, and so do
certainties.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from reprlib import repr as shortened
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._tensors import TEXTS, Fault

LABELS, TASKS = "concept_labels", "task_labels"
# Tensors that may hold the names of classes.
NAMED = ("task_labels", "task_predictions")
# Rows, and classes, that a message names.
MOST_ROWS = 5


@dataclass(frozen=True)
class Labels:
    """How a run declares its concept labels."""

    names: Sequence[str] = ()
    # Whether each concept is binary.
    binary: Sequence[bool] = ()
    missing: bool = False
    signed: bool = False
    # The bounds between which certainties of binary concepts are unknown.
    soft: tuple[float, float] | None = None
    # The tensors of labels of which some are numbers, where the unknown ones are NaN.
    numbers: Set[str] = frozenset()
    # Names of the task's classes.
    task_classes: Sequence[str] = ()
    missing_tasks: bool = False

    def plain(self, tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        """The tensors without masks, `None` and pandas' NA. Raises `Fault` where a value that is needed is missing, or
        tables are not in one order.
        """
        check_orders(tensors, self.names)
        named = {name: self._numbered(name, _with_masks(value)) for name, value in tensors.items()}
        plain = {name: self._plain(name, value) for name, value in named.items()}
        if plain.get(LABELS) is not None:
            if self.signed:
                plain[LABELS] = self._unsigned(plain[LABELS])
            if self.soft is not None:
                plain[LABELS] = self._decided(plain[LABELS], *self.soft)
        return plain

    def _numbered(self, name: str, value: Any) -> Any:
        """The class numbers of a task's labels or predictions that are names, masked where one is absent.

        Raises `Fault` for an unknown name.
        """
        if name not in NAMED or not self.task_classes or value is None or hasattr(value, "detach"):
            return value
        names = np.asarray(value, object if isinstance(value, (list, tuple)) else None)
        if names.dtype.kind not in "OSUT" or not any(isinstance(one, (str, bytes)) for one in names.flat):
            return value
        absent = np.ma.getmaskarray(value) if isinstance(value, np.ma.MaskedArray) else _absent(names)
        numbers = {text: number for number, text in enumerate(self.task_classes)}
        # HDF5 has bytes.
        texts = (one.decode(errors="replace") if isinstance(one, bytes) else str(one) for one in names.flat)
        found = [-1 if gone else numbers.get(text) for text, gone in zip(texts, absent.flat, strict=True)]
        if None in found:
            row = found.index(None)
            known = ", ".join(map(repr, self.task_classes[:MOST_ROWS])) + ", …" * (len(numbers) > MOST_ROWS)
            got = shortened(names.ravel().tolist()[row])
            raise Fault(f"{name}: got {got} in row {row}, expected one of task_classes: {known}")
        return np.ma.MaskedArray(np.asarray(found, np.int64).reshape(names.shape), absent)

    def _plain(self, name: str, value: Any) -> Any:
        if name in TEXTS or value is None:
            return value
        if isinstance(value, np.ma.MaskedArray):
            return self._filled(name, value.data, np.ma.getmaskarray(value))
        of_pandas = hasattr(value, "isna")
        array = np.asarray(value) if of_pandas or isinstance(value, np.ndarray) else None
        if array is None or (array.dtype != object and not (of_pandas and _may_be_missing(value))):
            return value
        absent = np.asarray(value.isna()) if of_pandas else _absent(array)
        numbers = np.asarray(array[~absent].tolist())
        if numbers.dtype.kind not in "iufb":
            return value  # refused by its type
        filled = np.zeros(array.shape, numbers.dtype)
        filled[~absent] = numbers
        return self._filled(name, filled, absent)

    def _filled(self, name: str, values: NDArray[Any], absent: NDArray[np.bool_]) -> NDArray[Any]:
        """The values with -1, or NaN among floats, where one is absent."""
        if not absent.any():
            return values
        if not {LABELS: self.missing, TASKS: self.missing_tasks}.get(name, False):
            rows = np.unique(np.nonzero(absent)[0])
            named = ", ".join(map(str, rows[:MOST_ROWS])) + ", …" * (rows.size > MOST_ROWS)
            advice = f"; for unknown labels declare missing_{name}=True" if name in (LABELS, TASKS) else ""
            raise Fault(f"{name}: got masked or missing values in row {named}, expected a value in each{advice}")
        is_float = values.dtype.kind == "f"
        unknown = np.nan if is_float or name in self.numbers else -1
        kind = values.dtype if is_float else np.float64 if name in self.numbers else np.int64
        filled: NDArray[Any] = np.where(absent, unknown, values.astype(kind))
        return filled

    def _unsigned(self, labels: Any) -> Any:
        """0 and 1 in place of -1 and 1 in the columns of binary concepts."""
        xp, values = _array_of(labels)
        dtype = str(values.dtype)
        if "bool" in dtype or len(values.shape) != 2 or values.shape[1] != len(self.binary):
            return labels
        if "uint" in dtype:
            values = _as_type(values, xp.int64)
        binary = self._binary_of(values)
        if xp is np and dtype.startswith(("int", "float")):
            self._check_signed(values, binary)
        # A 0 is no label of these columns: unknown, or a class that the sidecar refuses.
        zero = -1 if self.missing else 2
        recoded = xp.where(values == -1, 0, xp.where(values == 0, zero, values))
        return _as_type(xp.where(binary, recoded, values), values.dtype)

    def _decided(self, labels: Any, low: float, high: float) -> Any:
        """1 above `high`, 0 below `low` and -1 from one to the other in the columns of binary concepts."""
        xp, values = _array_of(labels)
        if "float" not in str(values.dtype) or len(values.shape) != 2 or values.shape[1] != len(self.binary):
            return labels  # class numbers are certain; another shape is refused
        binary = self._binary_of(values)
        is_unknown = self.missing & ((values == -1) | ~((values < 0) | (values >= 0)))
        wrong = binary & ~is_unknown & ~((values >= 0) & (values <= 1))
        if bool(wrong.any()):
            row, column = (int(at) for at in (np.argwhere(wrong) if xp is np else wrong.nonzero())[0])
            unknown = ", or -1 or NaN where unknown" if self.missing else ""
            raise Fault(
                f"{LABELS}: row {row} has {float(values[row, column]):g} for concept {self.names[column]!r}, expected "
                f"0 to 1{unknown}, as soft_labels is declared"
            )
        decided = xp.where(is_unknown, -1, xp.where(values > high, 1, xp.where(values < low, 0, -1)))
        return _as_type(xp.where(binary, decided, values), values.dtype)

    def _binary_of(self, values: Any) -> Any:
        """Whether each concept is binary, as an array of the labels' library on their device."""
        binary = np.asarray(self.binary)
        if isinstance(values, np.ndarray):
            return binary
        return sys.modules["torch"].as_tensor(binary, device=values.device)

    def unknown(self, tensors: Mapping[str, Any]) -> int:
        """How many labels of binary concepts are unknown among those that certainties decide."""
        labels: Any = tensors.get(LABELS)
        if self.soft is None or getattr(labels, "ndim", 0) != 2 or labels.shape[1] != len(self.binary):
            return 0
        return int((labels == -1)[:, np.flatnonzero(self.binary)].sum())

    def _check_signed(self, values: NDArray[Any], binary: NDArray[np.bool_]) -> None:
        allowed = (np.abs(values) == 1) | np.isnan(values) | ((values == 0) & self.missing)
        wrong = np.argwhere(~allowed & binary)
        if wrong.size:
            row, column = wrong[0]
            unknown = ", or 0 where unknown" if self.missing else ""
            raise Fault(
                f"{LABELS}: row {row} has {values[row, column]} in column {column}, expected -1 or 1{unknown}, as "
                "signed_labels is declared"
            )


def check_orders(tensors: Mapping[str, Any], concepts: Sequence[str] = ()) -> None:
    """Raises `Fault` for tables that have the rows of another, by pandas' index, or the concepts in another order."""
    tables = {name: value for name, value in tensors.items() if hasattr(getattr(value, "index", None), "equals")}
    rows: tuple[str, Any] | None = None
    for name, table in tables.items():
        rows = rows or (name, table.index)
        if not table.index.equals(rows[1]) and set(table.index) == set(rows[1]):
            raise Fault(
                f"{name}: has the rows of {rows[0]} in another order, by their index; put them in one order, or pass "
                f"{name}.to_numpy() if they belong together as they stand"
            )
    orders = [list(concepts)]
    for name in ("concept_activations", LABELS):
        value: Any = tensors.get(name)
        columns = list(value.columns) if hasattr(value, "columns") and hasattr(value, "to_numpy") else []
        for expected in orders:
            if columns != expected and set(columns) == set(expected):
                raise Fault(
                    f"{name}: has the columns {shortened(columns)}, expected {shortened(expected)}; put them in the "
                    f"order of the concepts, or pass {name}.to_numpy() if they are in it"
                )
        orders.append(columns)


def _array_of(labels: Any) -> tuple[Any, Any]:
    """The library of labels, torch or numpy, and its array of them."""
    torch: Any = sys.modules.get("torch")
    is_torch = torch is not None and isinstance(labels, torch.Tensor)
    return (torch, labels) if is_torch else (np, np.asarray(labels))


def _as_type(values: Any, dtype: Any) -> Any:
    return values.astype(dtype) if isinstance(values, np.ndarray) else values.to(dtype)


def _may_be_missing(table: Any) -> bool:
    """Whether a column of pandas has a type with NA, which NumPy does not have."""
    types = table.dtypes if hasattr(table, "columns") else [table.dtype]
    return any(not isinstance(of_column, np.dtype) for of_column in types)


def _with_masks(value: Any) -> Any:
    """Masked tensors, and masked rows in a list, as masked arrays: else they would be read without their masks."""
    if hasattr(value, "get_mask") and hasattr(value, "get_data"):  # PyTorch's MaskedTensor, whose mask is of the known
        data, known = (part.detach().cpu().numpy() for part in (value.get_data(), value.get_mask()))
        return np.ma.MaskedArray(data, ~known)
    is_list = isinstance(value, (list, tuple))
    return np.ma.array(value) if is_list and any(isinstance(row, np.ma.MaskedArray) for row in value) else value


def _absent(values: NDArray[Any]) -> NDArray[np.bool_]:
    absent: NDArray[np.bool_] = np.frompyfunc(is_absent, 1, 1)(values).astype(np.bool_)
    return absent


def is_absent(value: Any) -> bool:
    """Whether it is None, NaN or pandas' NA."""
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and math.isnan(value))
