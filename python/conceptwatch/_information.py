"""Mutual information of arrays, without a sidecar."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._child import answer_of, batch_of, number
from ._labels import Labels, check_orders, is_absent
from ._protocol import messages
from ._scores import Estimates, Score
from ._tensors import Copy, Fault

_CLASSES = np.iinfo(np.int32)


def mutual_information(
    x: Any,
    y: Any,
    given: Any = None,
    neighbors: int = 3,
    *,
    discrete_x: bool | Sequence[bool] | None = None,
    discrete_y: bool | None = None,
    discrete_given: bool | None = None,
) -> Score | Estimates:
    """Estimates I(X;Y), or I(X;Y|given), in nats, from nearest neighbours or, of classes alone, by counting.

        i = conceptwatch.mutual_information(x, y)
        i.value, i.standard_error
        each = conceptwatch.mutual_information(features, y)     # of each column, in parallel
        each.value, each.standard_error                         # arrays [m]

    Floats are numbers; integers, booleans and strings are classes, and a vector of them is one class.

    x: a column [n], or columns [n, m] or of a data frame, each of which gets an estimate of its own. [n, m, d] are m
        columns of vectors, and x[:, None] one vector.
    y: a column [n], or vectors [n, d].
    given: a column [n] of classes or numbers.
    neighbors: fewer give less bias, more less variance.
    discrete_x, discrete_y, discrete_given: whether the values are classes, where their type does not say it; for
        columns a value for each.

    Estimators: Kraskov et al. 2004 for numbers, Ross 2014 for numbers and classes, the plug-in for classes. Rounded
    values need no noise; copied rows read as information. Estimates are not clipped: without information they scatter
    around 0, except those by counting, which are too large by about (classes of x - 1)(classes of y - 1)/2n. Standard
    errors of estimates from neighbours are 75 to 90 % of their scatter. NaN where `undefined` says why.
    """
    check_orders({"x": x, "y": y, "given": given})
    columns = [("x", column) for column in _columns_of(x, discrete_x)]
    columns.append(("y", _joint("y", y, discrete_y)))
    if given is not None:
        columns.append(("given", _joint("given", given, discrete_given)))
        if columns[-1][1].shape[1] > 1:
            raise Fault(f"given has {columns[-1][1].shape[1]} columns of numbers, expected one of classes or numbers")
    rows = len(columns[0][1])
    for name, column in columns:
        if len(column) != rows:
            raise Fault(f"{name} has {len(column)} rows, but x has {rows}")
    arguments = ["--neighbours", number("neighbors", neighbors, 1, 1000)]
    answer = json.loads(answer_of("estimate", arguments, [batch_of([_copy(*column) for column in columns])]))
    name = "mutual_information" if given is None else "conditional_mutual_information"
    found = Estimates(Score(id=name, **estimate) for estimate in answer)
    return found[0] if np.ndim(x) == 1 else found


def _columns_of(x: Any, discrete: bool | Sequence[bool] | None) -> list[NDArray[Any]]:
    """Each column of x as [n, d], of classes (int32) or numbers (float64)."""
    found = _of_table(x)
    if found is None:
        array = _array("x", x)
        if not 1 <= array.ndim <= 3 or 0 in array.shape:
            raise Fault(f"x has shape {list(array.shape)} instead of [n] or [n, m] or [n, m, d]")
        found = [array] if array.ndim == 1 else list(np.moveaxis(array, 1, 0))
    are_discrete = list(discrete) if isinstance(discrete, Iterable) else [discrete] * len(found)
    if len(are_discrete) != len(found):
        raise Fault(f"discrete_x: got {len(are_discrete)} values, expected {len(found)}, one for each column of x")
    names = ["x"] if len(found) == 1 else [f"x[:, {i}]" for i in range(len(found))]
    return [_coded(*column) for column in zip(names, found, are_discrete, strict=True)]


def _joint(name: str, value: Any, discrete: bool | None) -> NDArray[Any]:
    """A column, or several as one of vectors, as [n, d] of classes (int32) or numbers (float64)."""
    of_table = _of_table(value)
    if of_table is not None and discrete is None and len({column.dtype.kind == "f" for column in of_table}) > 1:
        raise Fault(f"{name} has columns of classes and of numbers, expected one kind; discrete_{name} states it")
    array = _array(name, value) if of_table is None else np.stack(of_table, 1)
    if not 1 <= array.ndim <= 2 or 0 in array.shape:
        raise Fault(f"{name} has shape {list(array.shape)} instead of [n] or [n, d]")
    return _coded(name, array, discrete)


def _of_table(value: Any) -> list[NDArray[Any]] | None:
    """The columns of a data frame, each of its own type; None for others."""
    if hasattr(value, "get_columns"):  # Polars
        return [_array(column.name, column) for column in value.get_columns()]
    if hasattr(value, "iloc") and hasattr(value, "columns"):
        return [_array(str(name), value.iloc[:, i]) for i, name in enumerate(value.columns)]
    return None


def _array(name: str, value: Any) -> NDArray[Any]:
    """The values without what is missing, which is a fault."""
    value = Labels().plain({name: value})[name]
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    array = np.asarray(value)
    if array.dtype == object:
        if any(map(is_absent, array.flat)):
            raise Fault(f"{name}: got missing values, expected a value in each row")
        array = np.asarray(array.tolist())
    return array


def _coded(name: str, column: NDArray[Any], discrete: Any) -> NDArray[Any]:
    column = column.reshape(len(column), -1)
    kind = column.dtype.kind
    if kind not in "biufUS":
        raise Fault(f"{name} are of type {column.dtype}; give numbers, or classes as integers or strings")
    if kind == "f" and not np.isfinite(column).all():
        row = np.argwhere(~np.isfinite(column))[0][0]
        raise Fault(f"{name} has NaN or an infinity in row {row}; leave such rows out")
    if kind != "f" if discrete is None else discrete:
        return _class_numbers(column)[:, None]
    if kind in "US":
        raise Fault(f"{name} are strings, expected numbers where classes are ruled out")
    return column.astype(np.float64)


def _copy(name: str, column: NDArray[Any]) -> Copy:
    dtype = messages.DATA_TYPE_FLOAT64 if column.dtype == np.float64 else messages.DATA_TYPE_INT32
    return Copy(name, dtype, (1, 1, *column.shape), np.ascontiguousarray(column[None, None]))


def _class_numbers(rows: NDArray[Any]) -> NDArray[np.int32]:
    """The class of each row of values."""
    if rows.shape[1] > 1:
        return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)
    column = rows[:, 0]
    if rows.dtype.kind in "biu" and _CLASSES.min <= column.min() <= column.max() <= _CLASSES.max:
        return column.astype(np.int32)
    return np.unique(column, return_inverse=True)[1].astype(np.int32)
