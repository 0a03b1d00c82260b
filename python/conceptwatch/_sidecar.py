"""Starts a sidecar beside the job when none is listening."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from ._connection import host_and_port, is_local

START_TIMEOUT = 10.0

_OWN_GROUP: dict[str, Any] = {"process_group": 0} if sys.version_info >= (3, 11) else {"start_new_session": True}

_started: list[subprocess.Popen[bytes]] = []
# Addresses of the sidecars that this process started with port 0, by host.
_own: dict[str, str] = {}


def page_url(address: str) -> str | None:
    """The page of a sidecar at this address: by convention one port above."""
    parts = host_and_port(address)
    if parts is None:
        return None
    host = f"[{parts[0]}]" if ":" in parts[0] else parts[0]
    return f"http://{host}:{parts[1] + 1}"


class NotStarted(Exception):
    """A sidecar could not be started; the message says why."""


def ensure(address: str, token_file: str | os.PathLike[str] | None = None) -> str | None:
    """Starts a sidecar if nothing listens at a local address. Returns its address if it was started, else None.

    It ends with this process. Of several ranks that call this at once, one starts it and the others find it. Port 0
    means any free port, for runs of this process alone.
    """
    parts = host_and_port(address)
    if parts is None or not is_local(address) or (parts[1] != 0 and _listens(*parts)):
        return None
    binary = find_binary()
    if binary is None:
        raise NotStarted("its binary was not found; set CONCEPTWATCH_BINARY, or start `conceptwatch serve` yourself")
    with _one_at_a_time(parts[1]):
        if parts[1] != 0 and _listens(*parts):
            return None
        where = _start(binary, *parts, token_file)
        return where if parts[1] == 0 else address


def own(address: str) -> str:
    """For an address with port 0, that of this process's own sidecar; any other address unchanged."""
    parts = host_and_port(address)
    return _own.get(parts[0], address) if parts is not None and parts[1] == 0 else address


def find_binary() -> str | None:
    """The program, from CONCEPTWATCH_BINARY; else among the scripts of this Python's packages; else on PATH."""
    stated = os.environ.get("CONCEPTWATCH_BINARY")
    if stated:
        return stated if os.access(stated, os.X_OK) else None
    folders = [sysconfig.get_path("scripts"), str(Path(sys.executable).parent)]
    with contextlib.suppress(KeyError):
        folders.append(sysconfig.get_path("scripts", f"{os.name}_user"))
    return shutil.which("conceptwatch", path=os.pathsep.join(folders)) or shutil.which("conceptwatch")


def _start(binary: str, host: str, port: int, token_file: str | os.PathLike[str] | None) -> str:
    """Starts it and returns the address at which it listens."""
    address = f"[{host}]" if ":" in host else host.replace("localhost", "127.0.0.1")
    descriptor, log = tempfile.mkstemp(prefix=f"conceptwatch-{port}-", suffix=".log")
    page = port + 1 if port else 0
    command = [binary, "serve", "--grpc-address", f"{address}:{port}", "--http-address", f"{address}:{page}"]
    ports = Path(log).with_suffix(".ports")
    command += ["--port-file", str(ports)]
    if token_file is not None:
        command += ["--token-file", os.fspath(token_file)]
    try:
        # A process group of its own: an interrupt at the terminal is for the job, which then still sends its queue. The
        # session stays the job's, because Linux may share the CPU between sessions and apply niceness only within one.
        process = subprocess.Popen(
            [*command, "--exit-with-stdin"],
            stdin=subprocess.PIPE,
            stdout=descriptor,
            stderr=descriptor,
            **_OWN_GROUP,
        )
    except OSError as error:
        raise NotStarted(f"{binary} cannot be started: {error}") from error
    finally:
        os.close(descriptor)
    _started.append(process)
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        # Written once both ports are open.
        if ports.exists():
            found = ports.read_text().split()[0]
            ports.unlink()
            if port == 0:
                _own[host] = found
            return found
        if process.poll() is not None:
            raise NotStarted(f"{binary} ended with status {process.returncode}, see {log}")
        time.sleep(0.02)
    raise NotStarted(f"{binary} is not listening after {START_TIMEOUT:.0f} s, see {log}")


def _listens(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=0.5):
            return True
    except OSError:
        return False


@contextlib.contextmanager
def _one_at_a_time(port: int) -> Iterator[None]:
    """Holds this user's lock for a port. After a timeout proceeds without it: only one process can get the port."""
    if fcntl is None:
        yield
        return
    path = Path(tempfile.gettempdir()) / f"conceptwatch-{os.getuid()}-{port}.lock"
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield
        return
    try:
        deadline = time.monotonic() + START_TIMEOUT + 2.0
        while time.monotonic() < deadline:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def _after_fork() -> None:
    # The sidecar ends when the last copy of this pipe closes, and a worker must not keep it alive.
    for process in _started:
        if process.stdin is not None:
            process.stdin.close()
        process.returncode = 0  # only the parent can wait for it
    _started.clear()
    _own.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
