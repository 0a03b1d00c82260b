"""A batch on its way to the sidecar: which of its rows are sent, cut into messages of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._protocol import messages
from ._tensors import Copy, as_row_ids
from ._thinning import Panel, UInt64s, client_hash, identities, priorities

# Room for names, shapes and framing in a message.
HEADROOM = 4 * 1024


class TooLarge(ValueError):
    """One row alone is larger than a message may be."""


@dataclass
class Batch:
    """Rows of one call to `log`, copied. `rows` counts those logged, `numbers` are those still here."""

    split: str
    step: int
    epoch: float | None
    tensors: list[Copy]
    rows: int
    bytes: int
    panel: Panel | None = None  # of the pass it belongs to
    numbers: NDArray[np.int64] | None = None  # None: all of them
    sent: UInt64s | None = field(default=None, repr=False)  # priorities of the rows last sent
    sent_rows: int = 0

    def priorities(self, client: str, sequence: int, seed: int) -> UInt64s | None:
        """Priorities of the rows still here; None when their ids are no row ids."""
        given = next((tensor.array for tensor in self.tensors if tensor.name == "sample_ids"), None)
        if given is None:
            numbers = np.arange(self.rows) if self.numbers is None else self.numbers
            return priorities(seed, identities(client_hash(client), sequence, numbers))
        ids = as_row_ids(given)
        return None if ids is None else priorities(seed, ids)


def requests(batch: Batch, run: str, rank: int, client: str, sequence: int, limits: Any) -> Iterator[Any]:
    """The messages of a batch. Its rows that the sample cannot use by now are left out."""
    for tensor in batch.tensors:
        tensor.wait()
    numbers, columns, batch.sent = batch.numbers, batch.tensors, None
    if batch.panel is not None and limits.is_pass(batch.split):
        batch.sent = batch.priorities(client, sequence, limits.sample_seed)
        bound = batch.panel.bound(limits.sample_rows)
        if bound is not None and batch.sent is not None:
            wanted = wanted_rows(batch.sent, bound)
            if wanted.size < batch.sent.size:
                numbers = wanted if numbers is None else numbers[wanted]
                columns, batch.sent = [_take(column, wanted) for column in columns], batch.sent[wanted]
    batch.sent_rows = columns[0].shape[0]
    ends = chunk_ends(columns, limits.max_chunk_bytes - HEADROOM)
    start = 0
    for chunk, end in enumerate(ends):
        yield messages.IngestRequest(
            chunk=messages.BatchChunk(
                run=run,
                split=batch.split,
                step=batch.step,
                epoch=batch.epoch,
                rank=rank,
                client=client,
                sequence=sequence,
                chunk=chunk,
                last=end == ends[-1],
                first_row=start if numbers is None else int(numbers[start]),
                tensors=[_rows(column, start, end) for column in columns],
                row_numbers=None if numbers is None else numbers[start:end].tolist(),
                rows_left_out=batch.rows - batch.sent_rows,
            )
        )
        start = end


def chunk_ends(columns: list[Copy], limit: int) -> list[int]:
    """Where each message's rows end, so that no message holds more than `limit` bytes."""
    rows = columns[0].shape[0]
    sizes = np.full(rows, sum(c.array.nbytes // rows for c in columns if c.array is not None) + 8, np.int64)
    for column in columns:
        if column.array is None:
            sizes += np.fromiter((len(text.encode()) + 4 for text in column.texts), np.int64, rows)
    if sizes.max() > limit:
        raise TooLarge(f"a row has {sizes.max()} bytes, a message takes at most {limit}")
    until = np.cumsum(sizes)
    ends: list[int] = []
    sent = 0
    while not ends or ends[-1] < rows:
        end = int(np.searchsorted(until, sent + limit, side="right"))
        ends.append(end)
        sent = int(until[end - 1])
    return ends


def wanted_rows(priorities: UInt64s, bound: np.uint64) -> NDArray[np.int64]:
    """Rows that may still be sampled, ascending. One row always stays, to carry the number of those left out."""
    wanted = np.flatnonzero(priorities <= bound)
    return wanted if wanted.size else np.array([priorities.argmin()], np.int64)


def _take(column: Copy, rows: NDArray[np.int64]) -> Copy:
    shape = (rows.size, *column.shape[1:])
    if column.array is None:
        return Copy(column.name, column.dtype, shape, None, tuple(column.texts[row] for row in rows))
    return Copy(column.name, column.dtype, shape, np.take(column.array, rows, axis=0))


def _rows(column: Copy, start: int, end: int) -> Any:
    return messages.Tensor(
        name=column.name,
        dtype=column.dtype,
        shape=[end - start, *column.shape[1:]],
        data=b"" if column.array is None else column.array[start:end].tobytes(),
        texts=column.texts[start:end],
    )
