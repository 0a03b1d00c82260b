"""Parquet and PyTorch files for `python -m conceptwatch score`, as archives that the program reads.

The program has no reader of its own for them: that of Parquet would double the time of its build, and what PyTorch
writes is pickled. `torch.load(weights_only=True)` reads tensors and built-in containers and refuses code.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import pickle
import re
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._declaration import Constants
from ._tensors import SHAPES

PARQUET = (".parquet", ".pq")
PYTORCH = (".pt", ".pth")
# As of the program where --memory-mib does not say otherwise: 4 GiB at most.
DEFAULT_MIB = 4096
# The arrays that are no tensors, as in `src/cli/outputs/names.rs`.
CONSTANTS = {
    "concept_names", "task_names", "cardinalities", "activation_kind", "activation_columns", "latents",
    *Constants.__annotations__,
}  # fmt: skip
# Options of `score` whose value, the next argument, may end as a file does.
_VALUED = ("--map", "--html")

Array = NDArray[Any]


class Unreadable(Exception):
    """A file that cannot be scored; the message names it."""


def score(binary: str, arguments: list[str]) -> int | None:
    """Scores with the arguments of `score`, and returns the exit status; None where no file needs this module."""
    places = [at for at, argument in _files(arguments) if argument.lower().endswith((*PARQUET, *PYTORCH))]
    if not places:
        return None
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--map", action="append", default=[])
    parser.add_argument("--memory-mib", default=DEFAULT_MIB)
    stated = parser.parse_known_args(arguments)[0]
    mapped = [text.partition("=")[2] for text in stated.map]
    limit = (int(stated.memory_mib) if str(stated.memory_mib).isdecimal() else DEFAULT_MIB) << 20
    try:
        with tempfile.TemporaryDirectory(prefix="conceptwatch-") as folder:
            for number, at in enumerate(places):
                path = Path(arguments[at])
                # Under its own name, which messages and the report quote.
                made = Path(folder) / str(number) / f"{path.name}.npz"
                made.parent.mkdir()
                arrays = (
                    _parquet(path, mapped, limit) if path.suffix.lower() in PARQUET else _pytorch(path, mapped, limit)
                )
                _write(made, arrays)
                arguments = [*arguments[:at], str(made), *arguments[at + 1 :]]
            return subprocess.run([binary, "score", *arguments], check=False).returncode
    except Unreadable as fault:
        # Names in a file are untrusted: they must not break the line or send escape sequences to the terminal.
        print("".join(c if c.isprintable() else repr(c)[1:-1] for c in str(fault)), file=sys.stderr)
    except OSError as error:
        print(f"conceptwatch score: {error}", file=sys.stderr)
    return 2


def _files(arguments: list[str]) -> Iterator[tuple[int, str]]:
    """The arguments that are neither options nor their values."""
    valued = False
    for at, argument in enumerate(arguments):
        if not valued and not argument.startswith("-"):
            yield at, argument
        valued = not valued and argument in _VALUED


def wanted(name: str, mapped: list[str]) -> bool:
    """Whether the program may take an array of this name; it decides."""
    for array in mapped:
        prefix = array[:-1] if array.endswith("*") else array
        if name == array or (name.startswith(prefix) and (array.endswith("*") or name[len(prefix)] in ".[")):
            return True
    base = name.replace("[", ".").partition(".")[0]
    return base in SHAPES or base in CONSTANTS


def _check_size(name: str, shape: tuple[int, ...], item: int, limit: int) -> None:
    size = item * math.prod(shape)
    if size > limit:
        needs, most = -(-size >> 20), limit >> 20
        raise Unreadable(
            f"{name}: has shape {list(shape)}, which needs {needs} MiB, expected at most {most}: see --memory-mib"
        )


def _write(path: Path, arrays: Iterator[tuple[str, Array]]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        seen = set()
        for name, array in arrays:
            if name in seen:
                raise Unreadable(f"{name}: is given twice")
            seen.add(name)
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asarray(array), allow_pickle=False)


# An array that the program only names.
_EMPTY = np.zeros(0, np.uint8)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """What a package raises about a file, as one line that names it."""
    try:
        yield
    except Unreadable:
        raise
    except MemoryError as error:
        raise Unreadable(f"{path}: does not fit into memory: see --memory-mib") from error
    except FileNotFoundError as error:
        raise Unreadable(f"{path}: cannot be opened: no such file") from error
    except Exception as error:
        # Packages raise their own types for damaged files, with messages of many lines.
        said = " ".join(str(error).split())
        raise Unreadable(f"{path}: cannot be read: {said[:300] or type(error).__name__}") from error


def _parquet(path: Path, mapped: list[str], limit: int) -> Iterator[tuple[str, Array]]:
    try:
        pa, pq = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise Unreadable(f"{path}: is a Parquet file, which needs pyarrow: pip install pyarrow") from error
    with _reading(path), open(path, "rb") as opened, pq.ParquetFile(opened) as file:
        rows = int(file.metadata.num_rows)
        names = list(file.schema_arrow.names)
        taken = [name for name in names if wanted(name, mapped)]
        # Its head may state any number of rows, in few bytes.
        _check_size(str(path), (rows, max(1, len(taken))), 8, limit)
        for name in names:
            if name not in taken:
                yield name, _EMPTY
        parts: dict[str, list[Array]] = {name: [] for name in taken}
        used = 0
        for batch in file.iter_batches(batch_size=4096, columns=taken) if taken else ():
            used += batch.nbytes
            _check_size(str(path), (used,), 1, limit)
            for name in taken:
                parts[name].append(_column(path, name, batch.column(batch.schema.get_field_index(name)), limit, pa))
        for name in taken:
            pieces = parts.pop(name)
            if len({piece.shape[1:] for piece in pieces}) > 1:
                raise Unreadable(f"{path}: column {name} has lists of several lengths, expected one")
            yield name, np.concatenate(pieces) if pieces else np.zeros(0, np.float32)


def _texts(name: str, values: list[str], limit: int) -> Array:
    # Each takes as much as the longest.
    _check_size(name, (len(values), max(map(len, values), default=0)), 4, limit)
    return np.asarray(values, np.str_)


def _column(path: Path, name: str, column: Any, limit: int, pa: Any) -> Array:
    kinds, widths = pa.types, []
    while kinds.is_list(column.type) or kinds.is_large_list(column.type) or kinds.is_fixed_size_list(column.type):
        rows, values = len(column), column.flatten()
        is_ragged = not kinds.is_fixed_size_list(column.type) and len(set(column.value_lengths().to_pylist())) > 1
        if column.null_count or (rows and len(values) % rows) or is_ragged:
            raise Unreadable(f"{path}: column {name} has lists of several lengths, expected one")
        widths.append(len(values) // rows if rows else 0)
        column = values
    if kinds.is_dictionary(column.type):
        column = column.dictionary_decode()
    if kinds.is_string(column.type) or kinds.is_large_string(column.type):
        found = _texts(name, ["" if value is None else value for value in column.to_pylist()], limit)
    elif kinds.is_boolean(column.type) or kinds.is_integer(column.type) or kinds.is_floating(column.type):
        # An empty cell is NaN: an unknown label.
        found = column.to_numpy(zero_copy_only=False)
        if found.dtype == object:
            found = np.asarray([np.nan if value is None else value for value in found], np.float64)
    else:
        raise Unreadable(f"{path}: column {name} holds {column.type}, expected numbers, text or lists of numbers")
    return found.reshape(-1, *widths) if widths else found


def _pytorch(path: Path, mapped: list[str], limit: int) -> Iterator[tuple[str, Array]]:
    try:
        torch = import_module("torch")
    except ImportError as error:
        raise Unreadable(f"{path}: is a PyTorch file, which needs PyTorch: pip install torch") from error
    with _reading(path):
        if not zipfile.is_zipfile(path):
            os.stat(path)
            raise Unreadable(f"{path}: is not a file that torch.save of PyTorch 1.6 or newer has written")
        with zipfile.ZipFile(path) as archive:
            # A compressed entry may unfold to any size; torch.save compresses none.
            _check_size(str(path), (sum(entry.file_size for entry in archive.infolist()),), 1, limit)
        try:
            with warnings.catch_warnings():
                # About layouts that are refused below.
                warnings.simplefilter("ignore")
                found = torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            # PyTorch goes on to say how the code could be run after all.
            code = re.search(r"GLOBAL (\S+)", str(error))
            what = f" ({code[1]})" if code else ""
            raise Unreadable(
                f"{path}: holds more than tensors{what}, which is not read: its code could do anything"
            ) from error
        named = dict(_tensors(found, path.stem, torch, mapped))
        if not named:
            raise Unreadable(f"{path}: holds {type(found).__name__} without a tensor, expected a dict of tensors")
        for name, tensor in named.items():
            if not wanted(name, mapped):
                yield name, _EMPTY
                continue
            if isinstance(tensor, list):
                yield name, _texts(name, tensor, limit)
                continue
            if isinstance(tensor, np.ndarray):
                _check_size(name, tensor.shape, tensor.itemsize, limit)
                yield name, tensor
                continue
            if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_complex():
                raise Unreadable(
                    f"{name}: is a {tensor.dtype} tensor of layout {tensor.layout}, expected plain numbers"
                )
            # Strides of 0 make any shape of one number.
            _check_size(name, tuple(tensor.shape), max(4, tensor.element_size()), limit)
            plain = tensor.detach()
            yield name, (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()


def _tensors(found: Any, name: str, torch: Any, mapped: list[str], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The tensors, and the lists of texts and numbers, in nested dicts; single ones under names of arrays.

    Names are joined by full stops; a tensor alone has the name of its file. Raises `Unreadable` for another value of
    such a name.
    """
    is_list = isinstance(found, (list, tuple)) and bool(found)
    if isinstance(found, torch.Tensor):
        yield name, found
    elif is_list and all(isinstance(one, str) for one in found):
        yield name, list(found)
    elif isinstance(found, Mapping) and depth < 8:
        for key, value in found.items():
            yield from _tensors(value, f"{name}.{key}" if depth else str(key), torch, mapped, depth + 1)
    elif is_list and _are_numbers(found) and (array := np.asarray(found)).dtype != object:
        yield name, array
    elif wanted(name, mapped) and found is not None:
        if isinstance(found, str):
            yield name, [found]
        elif isinstance(found, (int, float)) and (array := np.asarray(found)).dtype != object:
            yield name, array
        else:
            are_batches = is_list and all(isinstance(one, torch.Tensor) for one in found)
            hint = "; join the tensors of batches with torch.cat" if are_batches else ""
            raise Unreadable(f"{name}: is a {type(found).__name__}, expected a tensor, numbers or texts{hint}")


def _are_numbers(found: Any) -> bool:
    if isinstance(found, (list, tuple)):
        return bool(found) and all(map(_are_numbers, found))
    return isinstance(found, (int, float))
