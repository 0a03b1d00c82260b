"""Leaving rows out never changes the sample."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conceptwatch import _sender
from conceptwatch._presample import client_hash, identities, priorities
from conceptwatch._protocol import messages
from conftest import Start, batch, evaluated, wait_for
from real_sidecar import eager
from sidecar import Sidecar

MASK = (1 << 64) - 1


@pytest.fixture(autouse=True)
def promptly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small batch does not wait for more: many tests here wait for each before they log the next."""
    monkeypatch.setattr(_sender, "LONGEST_WAIT", 0.01)


def reference(key: tuple[int, int], message: bytes, rounds: tuple[int, int] = (1, 3)) -> int:
    """SipHash with Python's own integers, following the paper."""
    words = [int.from_bytes(b"somepseudorandomlygeneratedbytes"[i : i + 8], "big") for i in range(0, 32, 8)]
    v = [words[0] ^ key[0], words[1] ^ key[1], words[2] ^ key[0], words[3] ^ key[1]]

    def rotl(x: int, bits: int) -> int:
        return ((x << bits) | (x >> (64 - bits))) & MASK

    def sip_round() -> None:
        v[0] = (v[0] + v[1]) & MASK
        v[2] = (v[2] + v[3]) & MASK
        v[1] = rotl(v[1], 13) ^ v[0]
        v[3] = rotl(v[3], 16) ^ v[2]
        v[0] = rotl(v[0], 32)
        v[2] = (v[2] + v[1]) & MASK
        v[0] = (v[0] + v[3]) & MASK
        v[1] = rotl(v[1], 17) ^ v[2]
        v[3] = rotl(v[3], 21) ^ v[0]
        v[2] = rotl(v[2], 32)

    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) & 0xFF])
    for i in range(0, len(padded), 8):
        word = int.from_bytes(padded[i : i + 8], "little")
        v[3] ^= word
        for _ in range(rounds[0]):
            sip_round()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(rounds[1]):
        sip_round()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_the_reference_gives_the_value_of_the_papers_appendix() -> None:
    key = (0x0706050403020100, 0x0F0E0D0C0B0A0908)
    assert reference(key, bytes(range(15)), rounds=(2, 4)) == 0xA129CA6149BE45E5


def test_priorities_are_siphash_1_3_of_the_id() -> None:
    ids = np.array([0, 1, 255, 1 << 40, MASK, 0x0102030405060708], np.uint64)
    for seed in (0, 1, 42, MASK):
        expected = [reference((seed, 0), int(i).to_bytes(8, "little")) for i in ids]
        assert priorities(seed, ids).tolist() == expected


def test_ids_of_rows_without_sample_ids_are_siphash_1_3_of_client_sequence_and_row() -> None:
    name = "0123456789abcdef0123456789abcdef"
    client = client_hash(name)
    assert client == reference((0, 1), name.encode())
    expected = [
        reference((0, 1), b"".join(word.to_bytes(8, "little") for word in (client, 1 << 33, row)))
        for row in (0, 7, 500)
    ]
    assert identities(client, 1 << 33, np.array([0, 7, 500])).tolist() == expected


def sample(sidecar: Sidecar, size: int, seed: int, row_id: Callable[[Any, int], int]) -> dict[int, bytes]:
    """What a sidecar keeps of what it received: the rows of smallest priority with their activations."""
    rows: dict[int, bytes] = {}
    for received in sidecar.received:
        values = received.data("concept_activations")
        for position, number in enumerate(received.row_numbers):
            rows[row_id(received, position if "sample_ids" in names(received) else number)] = values[
                position * 12 : position * 12 + 12
            ]
    order = sorted(rows, key=lambda i: reference((seed, 0), i.to_bytes(8, "little")))
    return {i: rows[i] for i in order[:size]}


def names(received: Any) -> list[str]:
    return [tensor.name for tensor in received.head.tensors]


def by_sample_id(received: Any, position: int) -> int:
    return int(np.frombuffer(received.data("sample_ids"), "<u8")[position])


def by_client(received: Any, number: int) -> int:
    words = (client_hash(received.head.client), received.head.sequence, number)
    return reference((0, 1), b"".join(word.to_bytes(8, "little") for word in words))


def small_sample(sidecar: Sidecar, rows: int = 64) -> None:
    sidecar.start.sample_rows, sidecar.start.sample_seed = rows, 7


@pytest.mark.parametrize("as_torch", [False, True])
def test_the_sample_is_the_same_with_and_without_thinning(
    as_torch: bool, sidecar: Sidecar, start: Start, request: pytest.FixtureRequest
) -> None:
    convert = request.getfixturevalue("torch").from_numpy if as_torch else lambda array: array
    small_sample(sidecar)
    sidecar.start.max_chunk_bytes = 4096 + 1000
    run = start()
    order = np.random.default_rng(3).permutation(2000)
    values = np.random.default_rng(4).random((2000, 3), np.float32)
    with run.evaluation("val", step=1) as p:
        for i in range(0, 2000, 100):
            # 20 rows of each batch were in the one before: a distributed sampler's padding.
            rows = order[max(0, i - 20) : i + 100]
            p.log(
                concept_activations=convert(values[rows]),
                concept_labels=convert(np.ones((len(rows), 3), np.int64)),
                task_labels=convert(np.ones(len(rows), np.int64)),
                sample_ids=convert(rows),
            )
            wait_for(lambda: run.stats.queue_bytes == 0)
    assert run.finish()
    every = sorted(range(2000), key=lambda i: reference((7, 0), i.to_bytes(8, "little")))[:64]
    assert sample(sidecar, 64, 7, by_sample_id) == {i: values[i].tobytes() for i in every}
    sent = sum(received.rows for received in sidecar.received)
    logged = run.stats.rows_queued
    assert sent < logged // 3, "thinning leaves most rows out"
    assert (
        sum(chunk.rows_left_out for received in sidecar.received for chunk in received.chunks)
        == logged - sent
        == run.stats.rows_left_out
    )


def test_rows_without_sample_ids_are_thinned_by_the_ids_the_sidecar_will_give_them(
    sidecar: Sidecar, start: Start
) -> None:
    small_sample(sidecar)
    run = start()
    values = np.random.default_rng(4).random((20, 100, 3), np.float32)
    with run.evaluation("val", step=1) as p:
        for part in values:
            p.log(concept_activations=part)
            wait_for(lambda: run.stats.queue_bytes == 0)
    assert run.finish()
    client = client_hash(sidecar.starts[0].client)
    ids = {}
    for sequence in range(1, 21):
        for row, i in enumerate(identities(client, sequence, np.arange(100)).tolist()):
            ids[i] = values[sequence - 1, row].tobytes()
    order = sorted(ids, key=lambda i: reference((7, 0), i.to_bytes(8, "little")))[:64]
    assert sample(sidecar, 64, 7, by_client) == {i: ids[i] for i in order}
    assert sum(received.rows for received in sidecar.received) < 2000 // 3


def test_a_backlog_is_thinned_before_it_is_sent(sidecar: Sidecar, start: Start) -> None:
    small_sample(sidecar)
    sidecar.hold = threading.Event()
    run = start()
    with run.evaluation("val", step=1) as p:
        for i in range(12):
            p.log(**batch(1000, first_id=1000 * i, seed=i))
    sidecar.hold.set()
    assert run.finish()
    every = sorted(range(12_000), key=lambda i: reference((7, 0), i.to_bytes(8, "little")))[:64]
    assert sorted(sample(sidecar, 64, 7, by_sample_id)) == sorted(every)


def test_rows_of_a_refused_batch_bound_nothing(sidecar: Sidecar, start: Start) -> None:
    small_sample(sidecar)
    refused = messages.IngestResponse.OUTCOME_REFUSED
    sidecar.answer = lambda response: (
        messages.IngestResponse(sequence=response.sequence, outcome=refused, field="tensors", message="no")
        if response.sequence == 1
        else response
    )
    run = start()
    with run.evaluation("val", step=1) as p:
        for i in range(2):
            p.log(**batch(1000, first_id=1000 * i))
            wait_for(lambda: run.stats.queue_bytes == 0)
    assert run.finish()
    assert [received.rows for received in sidecar.received] == [1000, 1000]


def test_nothing_is_left_out_of_a_rolling_window_or_of_a_new_pass(sidecar: Sidecar, start: Start) -> None:
    small_sample(sidecar)
    run = start()
    for _ in range(3):
        run.log(step=1, **batch(1000, first_id=0))
        wait_for(lambda: run.stats.queue_bytes == 0)
    for step in (1, 2):
        evaluated(run, batch(1000, first_id=0), step=step)
        wait_for(lambda: run.stats.queue_bytes == 0)
    assert run.finish()
    assert [received.rows for received in sidecar.received] == [1000] * 5


def test_a_batch_none_of_whose_rows_can_be_sampled_still_reports_them(sidecar: Sidecar, start: Start) -> None:
    small_sample(sidecar, 4)
    ids = np.arange(1000, dtype=np.uint64)
    last = ids[np.argsort(priorities(7, ids))[-10:]]
    run = start()
    with run.evaluation("val", step=1) as p:
        p.log(**batch(1000, first_id=0))
        wait_for(lambda: run.stats.queue_bytes == 0)
        p.log(**{**batch(10), "sample_ids": last})
    assert run.finish()
    second = sidecar.received[1]
    assert (second.rows, second.chunks[-1].rows_left_out) == (1, 9)


def test_ranks_leave_out_what_the_sample_of_all_of_them_cannot_hold() -> None:
    random = np.random.default_rng(5)
    order, labels = random.permutation(2000), random.integers(0, 2, (2000, 3))
    activations = (0.6 * labels + 0.4 * random.random((2000, 3))).astype(np.float32)

    def watched(world_size: int) -> tuple[Any, int]:
        """The scores of a pass in steps of 50 rows a rank, and how many rows were left out."""
        with eager("--sample-rows", "256") as address:
            runs = []
            for rank in range(world_size):
                _sender._senders.clear()  # each has a connection of its own
                given = {"address": address, "spawn": False, "rank": rank, "world_size": world_size, "job": "job"}
                runs.append(conceptwatch.init("ranks", concepts=3, **given))  # type: ignore[arg-type]
            passes = [run.evaluation("val", step=1) for run in runs]
            for one in passes:
                one.__enter__()
            for at, first in enumerate(range(0, 2000, 50)):
                rows, run = order[first : first + 50], runs[at % world_size]
                passes[at % world_size].log(
                    sample_ids=rows,
                    concept_activations=activations[rows],
                    concept_labels=labels[rows],
                    task_labels=labels[rows, 0],
                )
                wait_for(lambda run=run: run.stats.queue_bytes == 0)
            for one in passes:
                one.__exit__(None, None, None)
            scores = passes[0].scores(timeout=60)
            left_out = sum(run.stats.rows_left_out for run in runs)
            assert [run.finish() for run in runs] == [True] * world_size
        return scores.defined, left_out

    (alone, alone_left_out), (together, left_out) = watched(1), watched(4)
    assert together == alone
    assert alone_left_out > 1000
    # A rank learns of the others' rows with its next answer, so it sends a little more.
    assert left_out > 0.8 * alone_left_out
