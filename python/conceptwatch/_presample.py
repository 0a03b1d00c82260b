"""Thinning: rows that a sample cannot use are neither copied from the GPU nor sent.

Of a pass the sidecar keeps the N rows with the smallest priorities, which are hashes of the row ids. A row whose
priority exceeds the N-th smallest among the rows already accepted can never be one of them. A rank knows the rows that
it has sent; of those of all ranks the sidecar tells the N-th smallest with each answer.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

UInt64s = NDArray[np.uint64]

_MASK = (1 << 64) - 1


def priorities(seed: int, row_ids: UInt64s) -> UInt64s:
    """Unsigned 64-bit priorities of rows: SipHash-1-3 of each id under the key (seed, 0)."""
    return siphash((seed, 0), [row_ids])


def identities(client: int, sequence: int, rows: NDArray[np.int64]) -> UInt64s:
    """Ids of rows logged without `sample_ids`: SipHash-1-3 of (client, sequence, row) under the key (0, 1)."""
    numbers = rows.astype(np.uint64)
    return siphash((0, 1), [np.full_like(numbers, client), np.full_like(numbers, sequence), numbers])


def client_hash(name: str) -> int:
    """The number of a client in row ids. The length of its name in UTF-8 must be a multiple of 8 bytes."""
    words = np.frombuffer(name.encode(), "<u8").astype(np.uint64)
    return int(siphash((0, 1), [words[i : i + 1] for i in range(words.size)])[0])


def siphash(key: tuple[int, int], words: list[UInt64s]) -> UInt64s:
    """SipHash-1-3 (Aumasson and Bernstein 2012, doi:10.1007/978-3-642-34931-7_28) of many messages at once.

    Message i is the i-th element of each word, as 8 little-endian bytes.
    """
    k0, k1 = (k & _MASK for k in key)
    shape = words[0].shape
    v0 = np.full(shape, k0 ^ 0x736F6D6570736575, np.uint64)
    v1 = np.full(shape, k1 ^ 0x646F72616E646F6D, np.uint64)
    v2 = np.full(shape, k0 ^ 0x6C7967656E657261, np.uint64)
    v3 = np.full(shape, k1 ^ 0x7465646279746573, np.uint64)
    scratch = np.empty_like(v0)

    def rotate(v: UInt64s, bits: int) -> None:
        np.right_shift(v, np.uint64(64 - bits), out=scratch)
        np.left_shift(v, np.uint64(bits), out=v)
        np.bitwise_or(v, scratch, out=v)

    def rounds(count: int) -> None:
        for _ in range(count):
            np.add(v0, v1, out=v0)
            rotate(v1, 13)
            np.bitwise_xor(v1, v0, out=v1)
            rotate(v0, 32)
            np.add(v2, v3, out=v2)
            rotate(v3, 16)
            np.bitwise_xor(v3, v2, out=v3)
            np.add(v0, v3, out=v0)
            rotate(v3, 21)
            np.bitwise_xor(v3, v0, out=v3)
            np.add(v2, v1, out=v2)
            rotate(v1, 17)
            np.bitwise_xor(v1, v2, out=v1)
            rotate(v2, 32)

    length = np.uint64((8 * len(words) & 0xFF) << 56)
    for word in (*words, length):
        np.bitwise_xor(v3, word, out=v3)
        rounds(1)
        np.bitwise_xor(v0, word, out=v0)
    np.bitwise_xor(v2, np.uint64(0xFF), out=v2)
    rounds(3)
    result: UInt64s = v0 ^ v1 ^ v2 ^ v3
    return result


class Panel:
    """The smallest priorities among the rows of one pass that the sidecar has accepted from this process.

    Only accepted rows count. Dropped or refused rows would lower the bound, and rows of the true sample would be left
    out.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._smallest: UInt64s = np.empty(0, np.uint64)
        self._unhashed: list[Callable[[], UInt64s | None]] = []
        self._accepted = 0
        self._of_all: np.uint64 | None = None

    def tighten(self, bound: int) -> None:
        """Notes the largest priority in the sample of all ranks, which is full."""
        found = np.uint64(bound)
        self._of_all = found if self._of_all is None else min(self._of_all, found)

    def add(self, accepted: int, row_ids: Callable[[], UInt64s | None], rows: int, seed: int) -> None:
        """Counts a batch of accepted rows; a sample keeps `rows`. Hashing starts once that many are accepted."""
        self._accepted += accepted
        self._unhashed.append(row_ids)
        if self._accepted < rows:
            return
        found = [ids for ids in (row_ids() for row_ids in self._unhashed) if ids is not None]
        self._unhashed.clear()
        if not found:
            return
        hashed = priorities(seed, np.concatenate(found))
        bound = self.bound(rows)
        if bound is not None:
            hashed = hashed[hashed < bound]
        # Duplicate rows count once, as in the sample.
        self._smallest = np.union1d(self._smallest, hashed)[:rows]

    def bound(self, rows: int) -> np.uint64 | None:
        """The `rows`-th smallest priority, or None while fewer rows are known: a row above it cannot be sampled."""
        smallest = self._smallest
        known = [self._of_all] if self._of_all is not None else []
        if 0 < rows <= smallest.size:
            known.append(smallest[rows - 1])
        return min(known, default=None)
