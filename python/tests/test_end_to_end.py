"""The whole path: real trainings, the real client and sidecar, and the page in a real Chromium."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_sidecar import validation_pass

import conceptwatch
from conftest import evaluated, node_and_browser, package, python_environment, wait_for
from real_sidecar import EAGER_OPTIONS, RealSidecar, curve

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tests" / "page"
# Enough that several passes are scored even while other work slows the scoring down.
EPOCHS = 60
# The strong and the weak supervision of concepts.
WEIGHTS = ("5", "0.01")
RUNS = [f"lambda {weight}" for weight in WEIGHTS]


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSidecar]:
    sidecar = RealSidecar(*EAGER_OPTIONS, "--data-dir", str(tmp_path_factory.mktemp("curves")))
    yield sidecar
    sidecar.stop()


@pytest.fixture(scope="module")
def trained(sidecar: RealSidecar) -> RealSidecar:
    """The sidecar after two whole runs, of strong and of weak concept supervision."""
    package("torch")
    jobs = [start_training(sidecar.address, run, weight) for weight, run in zip(WEIGHTS, RUNS, strict=True)]
    for job in jobs:
        output, errors = job.communicate(timeout=600)
        assert (job.returncode, errors) == (0, "")
        assert f"epoch {EPOCHS:3d}" in output
    return sidecar


def start_training(address: str, run: str, weight: str) -> subprocess.Popen[str]:
    """The PyTorch example; both trainings run side by side, as on a machine with several jobs."""
    example = [sys.executable, str(ROOT / "python" / "examples" / "train_cbm.py")]
    options = ["--concept-weight", weight, "--epochs", str(EPOCHS), "--name", run, "--address", address]
    return subprocess.Popen(
        [*example, *options],
        env=python_environment(CONCEPTWATCH_QUIET="1"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def log_pass(run: conceptwatch.Run, step: int, epoch: int, leak: float) -> conceptwatch.Scores | None:
    return evaluated(run, validation_pass(leak), step=step, epoch=epoch).scores(timeout=30.0)


def test_both_trainings_leave_their_curves(trained: RealSidecar) -> None:
    final = {}
    for run in RUNS:
        points = curve(trained.address, run, "ctl")
        # Of passes that come faster than they are scored, some are left out, but never the last one.
        assert len(points) >= 3
        assert (points[-1]["step"], points[-1]["epoch"]) == (14 * EPOCHS, EPOCHS)
        assert all(point["rows"] == 2000 and not point["incomplete"] for point in points)
        final[run] = points[-1]["value"]
    assert final["lambda 0.01"] > final["lambda 5"] + 0.1


@pytest.fixture(scope="module")
def node() -> tuple[str, dict[str, str]]:
    return node_and_browser(PAGE)


def test_the_page_draws_both_curves(trained: RealSidecar, node: tuple[str, dict[str, str]]) -> None:
    binary, environment = node
    looked = subprocess.run(
        [binary, "--test", "--test-name-pattern", "the running sidecar", str(PAGE / "page.test.mjs")],
        env={**environment, "CONCEPTWATCH_URL": f"http://{trained.http}", "CONCEPTWATCH_RUNS": json.dumps(RUNS)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert looked.returncode == 0, looked.stdout + looked.stderr
    assert "# pass 1\n" in looked.stdout, looked.stdout


class OpenPage:
    """The page, left open in a browser, and what can be seen on it."""

    def __init__(self, node: tuple[str, dict[str, str]], url: str) -> None:
        binary, environment = node
        self.process = subprocess.Popen(
            [binary, str(PAGE / "watch.mjs"), url],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.seen: dict[str, Any] = {}
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.seen = json.loads(line)

    def steps(self, run: str) -> list[int]:
        steps: list[int] = self.seen.get("drawn", {}).get(run, [])
        return steps

    def shows(self, what: Callable[[], bool]) -> None:
        wait_for(lambda: what() or self.process.poll() is not None)
        assert self.process.poll() is None, "the page closed"

    def close(self) -> None:
        self.process.stdin.close()
        assert self.process.wait(timeout=30) == 0
        self.reader.join()


def test_curves_go_on_after_the_sidecar_was_killed(tmp_path: Path, node: tuple[str, dict[str, str]]) -> None:
    sidecar = RealSidecar(*EAGER_OPTIONS, "--data-dir", str(tmp_path))
    run = conceptwatch.init("live", concepts=3, address=sidecar.address, spawn=False)
    stop, failures = threading.Event(), []

    def train() -> None:
        try:
            for epoch in itertools.count(1):
                log_pass(run, 10 * epoch, epoch, leak=0.1 * epoch)
                if stop.wait(0.2):
                    return
        except BaseException as error:
            failures.append(error)

    training = threading.Thread(target=train)
    training.start()
    page = None
    try:
        wait_for(lambda: run.stats.passes_ended > 3)
        wait_for(lambda: len(curve(sidecar.address, "live", "ctl")) > 3)
        page = OpenPage(node, f"http://{sidecar.http}")
        page.shows(lambda: len(page.steps("live")) > 3)
        begin = page.steps("live")
        page.shows(lambda: len(page.steps("live")) > len(begin) + 2)

        sidecar.kill()
        page.shows(lambda: page.seen["connection"] == "reconnecting")
        before = page.steps("live")
        assert before[: len(begin)] == begin
        sidecar.start()
        page.shows(lambda: page.seen["connection"] == "live")
        page.shows(lambda: page.steps("live")[-1] > before[-1] + 30)
        assert page.steps("live")[: len(before)] == before
    finally:
        stop.set()
        training.join()
        if page is not None:
            page.close()
        finished = run.finish()
        sidecar.stop()
    assert failures == []
    assert finished
    assert page.seen["complaints"] == []
    assert run.stats.batches_dropped == {}
    assert run.stats.rows_acknowledged == run.stats.rows_queued
