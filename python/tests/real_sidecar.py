"""The sidecar's own program, on free ports of this machine, and what its page's server answers."""

from __future__ import annotations

import contextlib
import csv
import functools
import json
import os
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conftest import not_tested, wait_for


@functools.cache
def binary() -> str:
    """CONCEPTWATCH_BINARY, or else what cargo built in this tree, a release first."""
    target = Path(__file__).parents[2] / "target"
    built = [str(target / profile / "conceptwatch") for profile in ("release", "debug")]
    for candidate in [os.environ.get("CONCEPTWATCH_BINARY", ""), *built]:
        if candidate and os.access(candidate, os.X_OK):
            # A binary without the server has no such help.
            asked = subprocess.run([candidate, "serve", "--help"], capture_output=True, timeout=60, check=False)
            if asked.returncode == 0 and b"--grpc-address" in asked.stdout:
                return candidate
    return not_tested("conceptwatch", "is not built: run `cargo build`")


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a command of the program."""
    return subprocess.run([binary(), *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)


def printed(*arguments: object) -> str:
    """What a command prints that succeeds."""
    done = command(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def table(kind: str, to: Path, *options: object) -> list[dict[str, str]]:
    """The rows of a table that `export` writes to a new directory."""
    printed("export", "--to", to, *options)
    with (to / f"{kind}.csv").open(newline="", encoding="utf-8") as rows:
        return list(csv.DictReader(rows))


def free_ports() -> int:
    """A port that is free together with the one above it."""
    for _ in range(100):
        with socket.socket() as first, socket.socket() as second:
            # Ports of connections that ended a moment ago are free for a server.
            second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
    raise AssertionError("no two ports in a row are free")


def own_name() -> str:
    """This machine as other nodes call it: the client refuses loopback addresses in a launch over several nodes."""
    try:
        socket.gethostbyname(socket.gethostname())
    except OSError:
        not_tested("the host's name", "has no address")
    return socket.gethostname()


def listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


# Tests wait for the scores, so the sidecar need not step back behind a training.
EAGER_OPTIONS = ("--niceness", "0", "--cpu-share", "16", "--busy-cpu-share", "16", "--log", "warn")


class RealSidecar:
    """The program on ports that stay its own, so that it can be killed and started again."""

    def __init__(self, *options: str) -> None:
        self.port = free_ports()
        self.address, self.http = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.port + 1}"
        addresses = ["--grpc-address", self.address, "--http-address", self.http]
        self._command = [binary(), "serve", *addresses, *options, "--exit-with-stdin"]
        self.start()

    def start(self) -> None:
        process = self.process = subprocess.Popen(self._command, stdin=subprocess.PIPE)
        wait_for(lambda: (listens(self.port) and listens(self.port + 1)) or process.poll() is not None)
        assert process.poll() is None, "the sidecar ended at once"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(timeout=10) == 0


@contextlib.contextmanager
def serving(*options: str) -> Iterator[str]:
    """A real sidecar with these options; its address."""
    sidecar = RealSidecar(*options)
    try:
        yield sidecar.address
    finally:
        sidecar.stop()


def eager(*options: str) -> contextlib.AbstractContextManager[str]:
    """The same, which scores at once."""
    return serving(*EAGER_OPTIONS, *options)


def ask(address: str, path: str, **query: str) -> Any:
    with urllib.request.urlopen(f"http://{address}{path}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
        return json.load(answer)


def page(address: str) -> str:
    """The HTTP port beside a gRPC port."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + 1}"


def answer(address: str, path: str, **query: str) -> Any:
    """What the page's server says."""
    return ask(page(address), path, **query)


def metrics(address: str) -> str:
    with urllib.request.urlopen(f"http://{page(address)}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def curve(address: str, run: str, score: str = "icl", split: str = "val") -> list[Any]:
    points: list[Any] = answer(address, "/api/v1/series", run=run, split=split, score=score)["points"]
    return points
