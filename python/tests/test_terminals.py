"""Commands whose terminal or reader has gone end without a word, by the status that they have otherwise."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import conceptwatch
from conftest import batch, evaluated
from real_sidecar import binary, eager

Output = Callable[[], int]


@pytest.fixture(params=["terminal", "pipe"])
def gone(request: pytest.FixtureRequest) -> Iterator[Output]:
    """Outputs whose other end is closed: writing gives EIO, or EPIPE."""
    opened: list[int] = []

    def gone() -> int:
        if request.param == "pipe":
            other, output = os.pipe()
        else:
            other, output = pty.openpty()
        os.close(other)
        opened.append(output)
        return output

    yield gone
    for output in opened:
        os.close(output)


def status(output: int, *arguments: str) -> int:
    """The exit status of a command that nobody reads, as one started by nohup."""
    process = subprocess.Popen(
        [binary(), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),  # noqa: PLW1509
    )
    return process.wait(120)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    np.savez(
        tmp_path / "outputs.npz",
        concept_activations=random.random((100, 3)),
        concept_labels=random.integers(0, 2, (100, 3)),
        task_labels=random.integers(0, 2, 100),
        unknown=np.zeros(3),
    )
    (tmp_path / "scores.csv").write_text("item,s\na,1\nb,2\nc,3\n")
    (tmp_path / "ratings.csv").write_text("item,one,two\na,1,1\nb,2,1\nc,3,2\n")
    return tmp_path


def test_no_command_panics(gone: Output, files: Path) -> None:
    curves, recorded = str(files / "curves"), str(files / "recorded")
    with eager("--data-dir", curves) as address:
        for given in ({"address": address, "spawn": False}, {"mode": "offline", "offline_dir": recorded}):
            run = conceptwatch.init("a", concepts=3, **given)
            evaluated(run, batch(200))
            assert run.finish()
    (recording,) = map(str, Path(recorded).iterdir())
    commands = {
        ("rules",): 0,
        ("score", str(files / "outputs.npz"), "--scores", "icl"): 0,
        ("score", "nowhere.npz"): 2,
        ("agreement", str(files / "scores.csv"), str(files / "ratings.csv")): 0,
        ("agreement", "nowhere.csv", "nowhere.csv"): 2,
        ("ls", "--data-dir", curves): 0,
        ("diagnose", "a", "--data-dir", curves): 0,
        ("compare", "a", "nobody", "--data-dir", curves): 2,
        ("doctor", "--data-dir", curves): 0,
        ("doctor", "--data-dir", "nowhere"): 2,
        ("note", "a", "words", "--data-dir", curves): 0,
        ("watch", "--scores", "unknown"): 2,
        ("replay", recording): 0,
        ("demo", "--epochs", "1", "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0"): 0,
        ("serve", "--grpc-address", "nonsense"): 2,
        ("--help",): 0,
        ("rm", "a", "nobody", "--yes", "--data-dir", curves): 2,
        # Nobody can say yes there.
        ("rm", "a", "--data-dir", curves): 2,
        ("rm", "a", "--yes", "--data-dir", curves): 0,
    }
    assert {command: status(gone(), *command) for command in commands} == commands


def test_watching_ends_with_its_reader() -> None:
    with eager() as address:
        run = conceptwatch.init("a", concepts=3, address=address, spawn=False)
        process = subprocess.Popen([binary(), "watch", "--address", address], stdout=subprocess.PIPE)
        step = 0

        def evaluate() -> None:
            nonlocal step
            step += 1
            assert evaluated(run, batch(200), step=step).scores(timeout=60) is not None

        # It says nothing of what came before it listened.
        os.set_blocking(process.stdout.fileno(), False)
        while process.stdout.read() is None:
            evaluate()
        process.stdout.close()
        deadline = time.monotonic() + 60.0
        while process.poll() is None and time.monotonic() < deadline:
            evaluate()
        assert process.returncode == 0
        assert run.finish()


def test_an_output_that_takes_nothing_is_a_failure(files: Path) -> None:
    for command in (("rules",), ("score", str(files / "outputs.npz"), "--scores", "icl")):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [binary(), *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
            )
        assert done.returncode == 1
        assert f"conceptwatch {command[0]}: the output cannot be written: " in done.stderr
