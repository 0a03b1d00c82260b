"""The client and the real sidecar: two runs streamed, scores read back, metrics scraped.

The binary is CONCEPTWATCH_BINARY, or target/release/conceptwatch, or target/debug/conceptwatch.
"""

from __future__ import annotations

import os
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import conceptwatch
from conftest import wait_for

ROWS, K = 3000, 3


def find_binary() -> str | None:
    target = Path(__file__).parents[2] / "target"
    built = [str(target / profile / "conceptwatch") for profile in ("release", "debug")]
    for candidate in [os.environ.get("CONCEPTWATCH_BINARY", ""), *built]:
        if candidate and os.access(candidate, os.X_OK):
            # A binary without a server says nothing when asked for help.
            asked = subprocess.run([candidate, "serve", "--help"], capture_output=True, timeout=30, check=False)
            if asked.returncode == 0 and b"--grpc-address" in asked.stdout:
                return candidate
    return None


def free_ports() -> int:
    """A port that is free together with the one above it."""
    for _ in range(100):
        with closing(socket.socket()) as first, closing(socket.socket()) as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
    raise AssertionError("no two ports in a row are free")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    binary = find_binary()
    if binary is None:
        pytest.skip("NOT TESTED: no conceptwatch binary with a server was found; build it with `cargo build --release`")
    port = free_ports()
    command = [binary, "serve", "--grpc-address", f"127.0.0.1:{port}", "--http-address", f"127.0.0.1:{port + 1}"]
    with subprocess.Popen([*command, "--exit-with-stdin"], stdin=subprocess.PIPE) as process:
        wait_for(lambda: listens(port) or process.poll() is not None, seconds=30)
        assert process.poll() is None, "the sidecar ended at once"
        yield f"127.0.0.1:{port}"
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=10) == 0


def listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def page(address: str, path: str) -> str:
    host, _, port = address.rpartition(":")
    with urllib.request.urlopen(f"http://{host}:{int(port) + 1}{path}", timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def validation_pass(leak: float) -> dict[str, np.ndarray]:
    """Soft activations of three concepts; `leak` of the task's information beyond the labels gets into them."""
    random = np.random.default_rng(0)
    z = random.standard_normal((ROWS, K))
    c = z > 0
    y = (z.sum(1) > 0).astype(np.int64)
    logits = 2.0 * (2 * c - 1) + random.standard_normal((ROWS, K)) + leak * (2 * y[:, None] - 1)
    return {
        "sample_ids": np.arange(ROWS),
        "concept_activations": (1 / (1 + np.exp(-logits))).astype(np.float32),
        "concept_labels": c,
        "task_labels": y,
        "task_predictions": y,
    }


def test_two_runs_are_streamed_and_their_leakage_read_back(address: str) -> None:
    found: dict[str, list[float]] = {}
    for name, leak in (("clean", 0.0), ("leaky", 2.0)):
        with conceptwatch.init(name, concepts=["a", "b", "c"], address=address, spawn=False, raise_errors=True) as run:
            for epoch in (1, 2):
                rows = validation_pass(leak)
                with run.evaluation("val", step=10 * epoch, epoch=epoch) as p:
                    for start in range(0, ROWS, 700):
                        p.log(**{tensor: array[start : start + 700] for tensor, array in rows.items()})
                scores = p.scores(timeout=60.0)
                assert scores is not None, run.stats
                assert (scores.step, scores.epoch, scores.rows, scores.incomplete) == (10 * epoch, epoch, ROWS, False)
                ctl = scores["ctl"]
                assert ctl.value is not None
                assert ctl.standard_error is not None
                assert len(ctl.per_concept) == K
                found.setdefault(name, []).append(ctl.value)
            assert run.should_stop(step=20) is False
            assert run.stats.rows_acknowledged == 2 * ROWS
        assert run.stats.batches_dropped == {}
        assert run.stats.passes_ended == 2
    # The same rows give the same value, and leakage shows.
    assert found["clean"][0] == found["clean"][1]
    assert min(found["leaky"]) > max(found["clean"]) + 0.1

    metrics = page(address, "/metrics")
    for run_name in ("clean", "leaky"):
        line = next(
            line
            for line in metrics.splitlines()
            if line.startswith("conceptwatch_ctl{") and f'run="{run_name}"' in line and 'split="val"' in line
        )
        assert float(line.rpartition(" ")[2]) == pytest.approx(found[run_name][1])


def test_a_sample_smaller_than_the_pass_is_full(address: str) -> None:
    random = np.random.default_rng(1)
    with conceptwatch.init("large", concepts=2, address=address, spawn=False, raise_errors=True) as run:
        with run.evaluation("val", step=1) as p:
            for start in range(0, 40_000, 1000):
                c = random.integers(0, 2, (1000, 2))
                p.log(
                    sample_ids=np.arange(start, start + 1000),
                    concept_activations=(0.8 * c + 0.1 + 0.1 * random.random((1000, 2))).astype(np.float32),
                    concept_labels=c,
                    task_labels=c[:, 0],
                )
        scores = p.scores(timeout=60.0)
    assert scores is not None
    assert scores.rows == 4096
    assert scores.rows_seen == pytest.approx(40_000, rel=0.01)


def test_what_the_sidecar_refuses_is_counted(address: str) -> None:
    run = conceptwatch.init("refused", concepts=2, address=address, spawn=False)
    run.log(step=1, concept_activations=np.full((10, 2), np.nan, np.float32))
    run.finish()
    assert run.stats.batches_dropped == {"refused": 1}
