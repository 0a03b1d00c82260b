"""The released program as a process of its own: started, asked, watched, stopped and killed."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

# Scoring at once, so that parts wait for the disk and for peers and not for the sidecar's politeness.
EAGER = ("--niceness", "0", "--cpu-share", "1", "--busy-cpu-share", "1")
# Below the ports that the system gives to outgoing connections: one of these could take the port of a killed sidecar.
PORTS = range(20_000, 32_000, 2)
PATIENCE = 120.0
MOST_LOGGED = 64 << 20


def wait_for(what: Callable[[], T], seconds: float = PATIENCE, pause: float = 0.01) -> T:
    deadline = time.monotonic() + seconds
    while not (found := what()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"gave up waiting after {seconds:.0f} s, the last answer was {found!r}")
        time.sleep(pause)
    return found


def free_port() -> int:
    """A port that is free together with the one above it."""
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as first, socket.socket() as second, contextlib.suppress(OSError):
            first.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", port + 1))
            return port
    raise OSError("no two ports in a row are free")


class _Local(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Sidecar:
    """A sidecar, or a hub by its options, that keeps its ports and directory over restarts."""

    def __init__(
        self,
        binary: Path,
        folder: Path,
        *options: str,
        files: int | None = None,
        scoring: Sequence[str] = EAGER,
        within: Sequence[str] = (),
        listen: str | None = None,
        page: Path | None = None,
        token_file: Path | None = None,
    ) -> None:
        """files: the limit on open files, which it cannot raise.

        within: a command that starts it.
        listen: the address of its gRPC port.
        page: the Unix socket of its page.
        token_file: of the token that both ports require.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.binary, self.folder, self.data = binary, folder, folder / "data"
        self.port = free_port()
        self.address, self.page = listen or f"127.0.0.1:{self.port}", page
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.log = folder / "log"
        limit = ["sh", "-c", f'ulimit -n {files} && exec "$0" "$@"'] if files is not None else []
        at = f"127.0.0.1:{self.port + 1}" if page is None else f"unix://{page}"
        kept = [] if "--store" in options else ["--data-dir", str(self.data)]
        self._command = [*within, *limit, str(binary), "serve", "--grpc-address", self.address]
        self._command += ["--http-address", at, *kept]
        self._command += [*scoring, "--log", "info", *options]
        self._headers = {}
        if token_file is not None:
            self._command += ["--token-file", str(token_file)]
            self._headers["Authorization"] = f"Bearer {token_file.read_text().strip()}"

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Returns at once; see `wait_ready`."""
        if self.log.exists() and self.log.stat().st_size > MOST_LOGGED:
            self.log.rename(self.log.with_suffix(".old"))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(environment or {})},
            )
        self.starts += 1

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def wait_ready(self) -> None:
        """Until both ports answer."""
        wait_for(lambda: self._answers() or not self.is_running)
        if not self.is_running:
            raise ChildProcessError(f"the sidecar ended at its start, see {self.log}")

    def _answers(self) -> bool:
        try:
            if self.page is not None:
                return self.get("/live")[0] == 200
            with socket.create_connection(("127.0.0.1", self.port), timeout=5):
                return self.get("/live")[0] == 200
        except OSError:
            return False

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> tuple[int, float]:
        """SIGTERM: the exit status and the seconds until it has ended."""
        assert self.process is not None
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=PATIENCE)
        return status, time.monotonic() - began

    # ------------------------------------------------------------ what its page's server says

    def get(self, path: str, **query: object) -> tuple[int, bytes]:
        port = self.port + 1
        connection = (
            http.client.HTTPConnection("127.0.0.1", port, timeout=60) if self.page is None else _Local(self.page, 60)
        )
        try:
            target = f"{path}?{urllib.parse.urlencode(query)}" if query else path
            connection.request("GET", target, headers=self._headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except http.client.HTTPException as error:
            raise OSError(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()

    def ask(self, path: str, **query: object) -> Any:
        status, body = self.get(path, **query)
        if status != 200:
            raise LookupError(f"{path} {query}: {status} {body.decode(errors='replace')}")
        return json.loads(body)

    def steps(self, run: str, split: str) -> Counter[int]:
        """How often each step has a point."""
        try:
            points = self.ask("/api/v1/series", run=run, split=split, score="concept_accuracy")["points"]
        except LookupError:
            return Counter()
        return Counter(point["step"] for point in points)

    def unscored(self, run: str, split: str) -> dict[int, tuple[str, str]]:
        """Outcome and reason of the passes without a complete point, by step."""
        try:
            passes = self.ask("/api/v1/unscored", run=run, split=split)["passes"]
        except LookupError:
            return {}
        return {one["step"]: (one["outcome"], one["reason"]) for one in passes}

    def metrics(self) -> dict[str, float]:
        """By name, the sum over its series."""
        found: dict[str, float] = {}
        for line in self.get("/metrics")[1].decode().splitlines():
            if line and not line.startswith("#"):
                name, value = re.split(r"[ {]", line, maxsplit=1)[0], line.rpartition(" ")[2]
                found[name] = found.get(name, 0.0) + float(value)
        return found

    # ------------------------------------------------------------ what the system says

    def status(self, pid: int | None = None) -> dict[str, int]:
        """resident and peak in bytes, threads, and open files of the process."""
        text = Path(f"/proc/{pid or self.pid}/status").read_text()
        numbers = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+)", text, re.MULTILINE)}
        return {
            "resident": numbers["VmRSS"] << 10,
            "peak": numbers["VmHWM"] << 10,
            "threads": numbers["Threads"],
            "files": len(os.listdir(f"/proc/{pid or self.pid}/fd")),
        }


@contextlib.contextmanager
def running(
    binary: Path,
    folder: Path,
    *options: str,
    files: int | None = None,
    scoring: Sequence[str] = EAGER,
    token_file: Path | None = None,
) -> Iterator[Sidecar]:
    sidecar = Sidecar(binary, folder, *options, files=files, scoring=scoring, token_file=token_file)
    sidecar.start()
    try:
        sidecar.wait_ready()
        yield sidecar
    finally:
        if sidecar.is_running:
            sidecar.kill()
