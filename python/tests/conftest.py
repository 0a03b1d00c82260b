"""What all tests share: a sidecar in this process, the client's log lines, waiting, and what to skip."""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
# Threads of small models spend their time waiting for each other where two test processes share the cores. Processes
# that the tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import conceptwatch
from conceptwatch import _sender, _sidecar_lease
from sidecar import Sidecar

K = 3
T = TypeVar("T")
# The types that the fixtures `start` and `warned` return.
Start = Callable[..., conceptwatch.Run]
Warned = Callable[[], list[str]]


def batch(rows: int = 10, first_id: int | None = None, seed: int = 0) -> dict[str, Any]:
    """Tensors of a batch as a job with three binary concepts logs them."""
    random = np.random.default_rng(seed)
    tensors: dict[str, Any] = {
        "concept_activations": random.random((rows, K), np.float32),
        "concept_labels": random.integers(0, 2, (rows, K)),
        "task_labels": random.integers(0, 2, rows),
    }
    if first_id is not None:
        tensors["sample_ids"] = np.arange(first_id, first_id + rows, dtype=np.uint64)
    return tensors


def log(run: conceptwatch.Run, *steps: int, split: str = "val", batches: int = 2) -> None:
    """Logs a pass at each of these steps, in batches of ten rows."""
    for step in steps:
        with run.evaluation(split, step=step) as p:
            for i in range(batches):
                p.log(**batch(10, first_id=10 * i, seed=step + i))


def sent(run: conceptwatch.Run, *steps: int) -> None:
    """Logs passes, and waits until the sidecar has them."""
    log(run, *steps)
    wait_for(lambda: acknowledged(run))


def evaluated(
    run: conceptwatch.Run, tensors: dict[str, Any], step: Any = 1, split: str = "val", epoch: Any = None
) -> conceptwatch.Pass:
    """Logs an evaluation of one batch, and returns it."""
    with run.evaluation(split, step=step, epoch=epoch) as p:
        p.log(**tensors)
    return p


def acknowledged(run: conceptwatch.Run) -> bool:
    return run._link.outstanding == 0


def wait_for(what: Callable[[], T], seconds: float = 60.0) -> T:
    """Asks again and again until the answer is true, and returns it; the bound is for what never comes."""
    deadline, pause = time.monotonic() + seconds, 0.005
    while not (found := what()):
        assert time.monotonic() < deadline, f"gave up waiting, the last answer was {found!r}"
        time.sleep(pause)
        pause = min(1.5 * pause, 0.1)
    return found


@pytest.fixture(autouse=True)
def no_senders_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process keeps its sender for an address, and a later test may be given the same port."""
    monkeypatch.setattr(_sender, "_senders", {})
    monkeypatch.setattr(_sidecar_lease, "_said", set())


@pytest.fixture(autouse=True)
def data_home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Curves of sidecars that a test starts are its own, and never in the user's home."""
    home = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    return home / "conceptwatch"


@pytest.fixture
def sidecar() -> Iterator[Sidecar]:
    server = Sidecar()
    yield server
    if server.hold is not None:
        server.hold.set()
    server.close()


@pytest.fixture
def settling(sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> Sidecar:
    """A sidecar that says which passes are settled, and samples 64 rows."""
    monkeypatch.setattr("conceptwatch._sender.LONGEST_WAIT", 0.02)
    sidecar.start.incarnation, sidecar.start.data_dir = "first", "/curves"
    sidecar.start.takes_joined_ends = True
    sidecar.start.sample_rows, sidecar.start.sample_seed = 64, 7
    return sidecar


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a real sidecar that the tests of a file share."""
    with importlib.import_module("real_sidecar").eager() as address:
        yield address


@pytest.fixture
def start(sidecar: Sidecar) -> Iterator[Start]:
    """Starts runs against the sidecar of the test; they are finished after it."""
    runs: list[conceptwatch.Run] = []

    def start(**arguments: Any) -> conceptwatch.Run:
        address = arguments.pop("address", None) or sidecar.serve()
        run = conceptwatch.init(
            arguments.pop("name", "run"),
            concepts=arguments.pop("concepts", K),
            address=address,
            spawn=False,
            **arguments,
        )
        runs.append(run)
        return run

    yield start
    for run in runs:
        run.finish(timeout=0.0)


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Warned:
    caplog.set_level(logging.WARNING, logger="conceptwatch")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "conceptwatch"]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Starts jobs that find each other, and nobody else's sidecar."""
    tools, program = importlib.import_module("jobs"), importlib.import_module("real_sidecar").binary()
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    jobs: list[Any] = []

    def job(name: str, **environment: str) -> Any:
        jobs.append(tools.Job(tmp_path / name, program, **{**tools.EAGER, **environment}))
        return jobs[-1]

    yield job
    for left in jobs:
        left.kill()


@pytest.fixture
def torch() -> Any:
    return package("torch")


@pytest.fixture(scope="module")
def keras() -> Any:
    """Keras with JAX, unless KERAS_BACKEND names another backend."""
    os.environ.setdefault("KERAS_BACKEND", "jax")
    return package("keras")


def python_environment(**more: str) -> dict[str, str]:
    """The environment of a Python process that has the client and the tests' own modules at hand."""
    here = Path(__file__).parent
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(here.parent), str(here), *sys.path]), **more}


def python(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs Python with these arguments until it ends."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, env=python_environment(**environment), capture_output=True, text=True, timeout=300, check=False
    )


def package(module: str, required: str | None = None) -> Any:
    """A module of an optional package, which `required` names where the module's name does not."""
    try:
        return importlib.import_module(module)
    except ImportError:
        not_tested(required or module.partition(".")[0])


def npm_packages(folder: Path) -> None:
    """Skips the test unless the npm packages of a folder are installed, as `make test` does before the first test."""
    if not (folder / "node_modules" / ".installed").is_file():
        not_tested("node", "lacks packages: run `sh tests/npm.sh`")


def node_and_browser(folder: Path) -> tuple[str, dict[str, str]]:
    """Node, and the environment in which the programs of a folder find Chromium."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = os.environ.get("CONCEPTWATCH_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        not_tested("chromium")
    npm_packages(folder)
    return shutil.which("node") or not_tested("node"), {**os.environ, "CONCEPTWATCH_CHROMIUM": browser}


def not_tested(name: str, why: str = "is not installed") -> NoReturn:
    """Skips a test loudly; where CONCEPTWATCH_REQUIRE lists this name, separated by commas, the test fails instead."""
    required = [one.strip() for one in os.environ.get("CONCEPTWATCH_REQUIRE", "").split(",")]
    (pytest.fail if name in required else pytest.skip)(f"NOT TESTED: {name} {why}")
