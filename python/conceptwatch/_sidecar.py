"""Starts a sidecar beside the job when none is listening, and another where it has gone.

A sidecar that is started here serves every job of the user, and ends once its starter has ended and no job has a run.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import EllipsisType
from typing import Any

from ._connection import host_and_port, is_local
from ._home import user_home
from ._private import NotPrivate, folder, new_log, opened

START_TIMEOUT = 10.0
HOST, PORT = "127.0.0.1", 7800
DEFAULT = f"{HOST}:{PORT}"
SOCKET = "grpc.sock"
UNIX = "unix://"
# A listening socket in /proc/net/tcp.
_LISTEN = "0A"

log = logging.getLogger("conceptwatch")

_OWN_GROUP: dict[str, Any] = {"process_group": 0} if sys.version_info >= (3, 11) else {"start_new_session": True}

_started: list[subprocess.Popen[bytes]] = []
# Addresses of the sidecars that this process started with port 0, by host.
_own: dict[str, str] = {}
# Pages of the sidecars that this process started at a socket, by its address.
_pages: dict[str, str] = {}


def page_url(address: str) -> str | None:
    """The page of a sidecar at this address: by convention one port above. None for a socket of another process."""
    parts = host_and_port(address.removeprefix("https://"))
    if parts is None:
        return _pages.get(address)
    host = f"[{parts[0]}]" if ":" in parts[0] else parts[0]
    return f"{'https' if address.startswith('https://') else 'http'}://{host}:{parts[1] + 1}"


class NotStarted(Exception):
    """A sidecar could not be started; the message says why."""


@dataclass(frozen=True)
class Wish:
    """How a sidecar is to be started."""

    token_file: str | os.PathLike[str] | None = None
    # The directory of its curves; None: in memory; ...: one below the user's data directory.
    data_dir: str | os.PathLike[str] | EllipsisType | None = ...

    def options(self) -> list[str]:
        found = [] if self.token_file is None else ["--token-file", os.fspath(self.token_file)]
        if self.data_dir is ...:
            home = user_home()
            return found if home is None else [*found, "--data-home", str(home)]
        return found if self.data_dir is None else [*found, "--data-dir", os.path.abspath(self.data_dir)]

    @property
    def directory(self) -> str | EllipsisType | None:
        """The directory from the argument or the environment; None: in memory; ...: not given."""
        given = (os.environ.get("CONCEPTWATCH_DATA_DIR") or ...) if self.data_dir is ... else self.data_dir
        return given if given is None or given is ... else os.path.abspath(given)

    def hindrance(self) -> str:
        """Why curves cannot be kept in the directory; empty where they can, or where none is stated.

        A file is created there, or in the nearest directory that exists: for root, permissions say nothing.
        """
        if not isinstance(self.directory, str):
            return ""
        directory = Path(os.path.realpath(self.directory))
        try:
            existing = next(path for path in (directory, *directory.parents) if path.exists())
            with tempfile.TemporaryFile(dir=existing):
                return ""
        except OSError as error:
            return error.strerror or str(error)

    def environment(self) -> dict[str, str]:
        """The job's environment, less what contradicts an argument of `init`."""
        names = () if self.data_dir is ... else ("CONCEPTWATCH_DATA_DIR", "CONCEPTWATCH_DATA_HOME")
        return {name: value for name, value in os.environ.items() if name not in names}


def ensure(address: str, wish: Wish) -> str | None:
    """Starts a sidecar if nothing listens at a local address. Returns its address if it was started, else None.

    Of several ranks that call this at once, one starts it and the others find it. Port 0 means any free port, for runs
    of this process alone.
    """
    parts, is_socket = host_and_port(address), address.startswith(UNIX)
    if not (is_socket or parts is not None) or not is_local(address):
        return None
    is_own = parts is not None and parts[1] == 0
    if not is_own and listens(address):
        return None
    binary = find_binary()
    if binary is None:
        raise NotStarted("its binary was not found; set CONCEPTWATCH_BINARY, or start `conceptwatch serve` yourself")
    with _one_at_a_time("socket" if parts is None else str(parts[1])):
        if not is_own and listens(address):
            return None
        if parts is None:
            page = f"{HOST}:{PORT + 1 if _is_free(HOST, PORT + 1) else 0}"
            return _start(binary, address, page, address, wish)
        host = f"[{parts[0]}]" if ":" in parts[0] else parts[0].replace("localhost", HOST)
        free = is_own or address in _own.values()
        page = f"{host}:{0 if free else parts[1] + 1}"
        found = _start(binary, f"{host}:{parts[1]}", page, None if is_own else address, wish)
        if is_own:
            _own[parts[0]] = found
        return found


def own_address(address: str) -> str:
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


def _start(binary: str, address: str, page: str, known_as: str | None, wish: Wish) -> str:
    """Starts it and returns the address at which it listens, or by which runs know it."""
    descriptor, log_file = new_log("sidecar")
    ports = log_file.with_suffix(".ports")
    descriptor = _above_standard(descriptor)
    command = [binary, "serve", "--grpc-address", address, "--http-address", page, "--port-file", str(ports)]
    command += [*wish.options(), "--exit-unused"]
    try:
        # A process group of its own: an interrupt at the terminal is for the job, which then still sends its queue. The
        # session stays the job's, because Linux may share the CPU between sessions and apply niceness only within one.
        process = subprocess.Popen(
            command, env=wish.environment(), stdin=subprocess.PIPE, stdout=descriptor, stderr=descriptor, **_OWN_GROUP
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
            with open(opened(ports, os.O_RDONLY), encoding="utf-8") as stated:
                found, http = stated.read().split()[:2]
            ports.unlink()
            if address.startswith(UNIX):
                _pages[address] = f"http://{http}/"
            return known_as or found
        if process.poll() is not None:
            raise NotStarted(f"{binary} ended with status {process.returncode}{_last_line(log_file)}, see {log_file}")
        time.sleep(0.02)
    raise NotStarted(f"{binary} is not listening after {START_TIMEOUT:.0f} s, see {log_file}")


def _above_standard(descriptor: int) -> int:
    """The same file under a number that no standard stream of the new process has: this one may have closed its own."""
    if descriptor > 2:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(descriptor)


def _last_line(log_file: Path) -> str:
    try:
        lines = log_file.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    return next((f" ({line.strip()[:300]})" for line in reversed(lines) if line.strip()), "")


def listens(address: str) -> bool:
    parts = host_and_port(address)
    try:
        if parts is not None:
            with socket.create_connection(parts, timeout=0.5):
                return True
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(0.5)
            probe.connect(address.removeprefix(UNIX))
            return True
    except OSError:
        return False


def _is_free(host: str, port: int) -> bool:
    """Whether a port can be listened on. An outgoing connection of any program can occupy it, too."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def owners(port: int) -> set[int]:
    """Users whose processes listen on a port of this machine; empty where the system does not tell."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(int(fields[7]))
    return found


@contextlib.contextmanager
def _one_at_a_time(name: str) -> Iterator[None]:
    """Holds this user's lock for a port. After a timeout proceeds without it: only one process can get the port."""
    try:
        descriptor = opened(folder() / f"{name}.lock", os.O_CREAT | os.O_RDWR)
    except NotPrivate:
        raise
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
    # The sidecar may end when the last copy of this pipe closes, and a worker must not keep it alive.
    for process in _started:
        if process.stdin is not None:
            process.stdin.close()
        process.returncode = 0  # only the parent can wait for it
    _started.clear()
    _own.clear()


os.register_at_fork(after_in_child=_after_fork)
