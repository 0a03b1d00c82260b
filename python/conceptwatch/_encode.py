"""Encoding of batches: selects the rows to send, and cuts them into messages of bounded size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._declaration import activation_kinds, layout_of
from ._presample import Panel, UInt64s, client_hash, identities, priorities
from ._protocol import messages
from ._tensors import Copy, as_row_ids

# How far rounding may take a probability beyond 0 or 1; the sidecar takes it as 0 or 1.
ROUNDING = 1e-6
# Room for names, shapes and framing in a message.
HEADROOM = 4 * 1024


class PassKey(NamedTuple):
    """A pass of a run. The ordinal is its number among those of its split and step that this process has begun."""

    split: str
    step: int
    ordinal: int


@dataclass
class Batch:
    """A copy of the rows of one call to `log`. `rows` counts those logged; `numbers` are the row numbers kept."""

    split: str
    step: int
    epoch: float | None
    tensors: list[Copy]
    rows: int
    bytes: int
    panel: Panel | None = None  # of its pass
    numbers: NDArray[np.int64] | None = None  # None: all rows
    ordinal: int = 1  # of its pass
    sent_rows: int = 0  # when it was last sent
    sent_ids: Callable[[], UInt64s | None] | None = None
    is_exact: bool = True  # the sidecar took every row, so that one left out counts like one sent

    @property
    def key(self) -> PassKey:
        """Its pass."""
        return PassKey(self.split, self.step, self.ordinal)

    @property
    def held_rows(self) -> int:
        return self.tensors[0].shape[0]

    def row_ids(self, client: str, sequence: int) -> UInt64s | None:
        """Ids of the rows held; None where `sample_ids` are not valid ids."""
        given = next((tensor.array for tensor in self.tensors if tensor.name == "sample_ids"), None)
        return _row_ids(given, self.rows, self.numbers, client, sequence)


def outside_unit(declared: Any, tensors: list[Copy]) -> str | None:
    """A remark on an activation that is declared a probability and is none. Called on the sending thread."""
    kinds = activation_kinds(declared)
    probabilities = [kind == messages.ACTIVATION_KIND_PROBABILITY for kind in kinds]
    if not any(probabilities) or declared.latents:
        return None
    found = next((tensor for tensor in tensors if tensor.name == "concept_activations"), None)
    if found is None or found.array is None or not found.array.size:
        return None
    found.wait()
    values = found.array
    if found.dtype == messages.DATA_TYPE_BFLOAT16:
        values = (values.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if not all(probabilities):
        layout = layout_of(declared)
        values = values[:, np.repeat(probabilities, layout.widths(layout.two_columns))]
    for value in (float(values.min()), float(values.max())):
        if not -ROUNDING <= value <= 1 + ROUNDING and math.isfinite(value):
            return (
                f"concept_activations contains {value:.4g}, which is not a probability. It is scored with the "
                "threshold 0.5. For logits pass activation_kind='logit' to init, for other quantities 'continuous'"
            )
    return None


def is_pass(limits: messages.StartRunResponse, split: str) -> bool:
    """Whether a split is evaluated pass by pass, as the sidecar states it."""
    return bool(limits.windows.get(split, limits.default_window) == messages.WINDOW_KIND_PASS)


def requests(
    batch: Batch, run: str, rank: int, client: str, sequence: int, limits: Any, end_pass: Any = None
) -> Iterator[bytes]:
    """The serialised messages of a batch, without the rows that the sample can no longer use.

    end_pass: the `JoinedEnd`, if the batch is the last of its pass.
    """
    for tensor in batch.tensors:
        tensor.wait()
    numbers, columns, batch.sent_ids = batch.numbers, batch.tensors, None
    if batch.panel is not None and is_pass(limits, batch.split):
        wanted = wanted_rows(batch.panel, limits, partial(batch.row_ids, client, sequence))
        if wanted is not None:
            numbers = wanted if numbers is None else numbers[wanted]
            columns = [taken(column, wanted) for column in columns]
        given = next((column.array for column in columns if column.name == "sample_ids"), None)
        batch.sent_ids = partial(_row_ids, given, batch.rows, numbers, client, sequence)
    batch.sent_rows = columns[0].shape[0]
    ends = chunk_ends(columns, limits.max_chunk_bytes - HEADROOM)
    start = 0
    for chunk, end in enumerate(ends):
        head = messages.BatchChunk(
            run=run,
            split=batch.split,
            step=batch.step,
            ordinal=batch.ordinal,
            epoch=batch.epoch,
            rank=rank,
            client=client,
            sequence=sequence,
            chunk=chunk,
            last=end == ends[-1],
            first_row=start if numbers is None else int(numbers[start]),
            row_numbers=None if numbers is None else numbers[start:end].tolist(),
            # Of the whole batch, stated once.
            rows_left_out=batch.rows - batch.sent_rows if end == ends[-1] else 0,
            end_pass=end_pass if end == ends[-1] else None,
        )
        yield b"".join(parts(head, columns, start, end))
        start = end


def _row_ids(
    given: NDArray[Any] | None, rows: int, numbers: NDArray[np.int64] | None, client: str, sequence: int
) -> UInt64s | None:
    """Ids of rows with these `sample_ids`, or of the rows of these numbers, or of all."""
    if given is not None:
        return as_row_ids(given)
    return identities(client_hash(client), sequence, np.arange(rows) if numbers is None else numbers)


def chunk_ends(columns: list[Copy], limit: int) -> list[int]:
    """Where each message's rows end, so that no message holds more than `limit` bytes."""
    rows = columns[0].shape[0]
    if sum(limit + 1 if c.array is None else c.array.nbytes for c in columns) + 8 * rows <= limit:
        return [rows]
    sizes = np.full(rows, sum(c.array.nbytes // rows for c in columns if c.array is not None) + 8, np.int64)
    for column in columns:
        if column.array is None:
            sizes += np.fromiter((len(text.encode()) + 4 for text in column.texts), np.int64, rows)
    if sizes.max() > limit:
        raise ValueError(
            f"one of its rows takes {sizes.max()} bytes, and at most {limit} can be sent; log smaller tensors"
        )
    until = np.cumsum(sizes)
    ends: list[int] = []
    sent = 0
    while not ends or ends[-1] < rows:
        end = int(np.searchsorted(until, sent + limit, side="right"))
        ends.append(end)
        sent = int(until[end - 1])
    return ends


def wanted_rows(panel: Panel, limits: Any, row_ids: Callable[[], UInt64s | None]) -> NDArray[np.int64] | None:
    """Rows of a pass that may still be sampled, ascending; at least one, to carry the number of rows left out.

    None for all of them.
    """
    bound = panel.bound(limits.sample_rows)
    ids = None if bound is None else row_ids()
    if bound is None or ids is None:
        return None
    hashed = priorities(limits.sample_seed, ids)
    wanted = np.flatnonzero(hashed <= bound)
    wanted = wanted if wanted.size else np.array([hashed.argmin()], np.int64)
    return wanted if wanted.size < ids.size else None


def taken(column: Copy, rows: NDArray[np.int64]) -> Copy:
    """A copy of some of the rows."""
    shape = (rows.size, *column.shape[1:])
    if column.array is None:
        return Copy(column.name, column.dtype, shape, None, tuple(column.texts[row] for row in rows))
    return Copy(column.name, column.dtype, shape, np.take(column.array, rows, axis=0))


def parts(head: Any, columns: list[Copy], start: int, end: int) -> list[Any]:
    """An IngestRequest with these rows, assembled here so that their bytes are copied once instead of three times."""
    found: list[Any] = [b"", head.SerializeToString()]
    size = len(found[1])
    for column in columns:
        shape = (end - start, *column.shape[1:])
        if column.array is None:
            message = messages.Tensor(
                name=column.name, dtype=column.dtype, shape=shape, texts=column.texts[start:end]
            ).SerializeToString()
            found.append(_TENSORS + varint(len(message)) + message)
            size += len(found[-1])
        else:
            values = column.array[start:end]
            before = _tensor_before(column.name, column.dtype, shape, values.nbytes)
            found += (before, values)
            size += len(before) + values.nbytes
    found[0] = _CHUNK + varint(size)
    return found


@lru_cache(maxsize=1024)
def _tensor_before(name: str, dtype: messages.DataType, shape: tuple[int, ...], length: int) -> bytes:
    """The encoding that precedes a tensor's bytes, cached because most batches repeat the shapes of the last."""
    message = messages.Tensor(name=name, dtype=dtype, shape=shape).SerializeToString() + _DATA + varint(length)
    return _TENSORS + varint(len(message) + length) + message


def varint(number: int) -> bytes:
    """A number as protobuf encodes it."""
    digits = []
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


def _tag(message: Any, field: str) -> bytes:
    """The tag that precedes the length of a bytes or message field."""
    return varint(message.DESCRIPTOR.fields_by_name[field].number << 3 | 2)


_CHUNK = _tag(messages.IngestRequest, "chunk")
_TENSORS = _tag(messages.BatchChunk, "tensors")
_DATA = _tag(messages.Tensor, "data")
