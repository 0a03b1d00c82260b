"""An empty PostgreSQL database for one test, from the programs of this system."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conftest import not_tested

# Ends with its standard input, and the server with it.
POSTGRESQL = """
directory=$(mktemp -d)
trap 'pg_ctl -s -D "$directory/data" -m immediate stop; rm -rf "$directory"' EXIT
initdb --no-sync --auth=trust --username=postgres -D "$directory/data" >/dev/null
pg_ctl -s -w -D "$directory/data" -l "$directory/log" \\
    -o "-k $directory -p $PORT -c listen_addresses=127.0.0.1" start >/dev/null
echo "$directory"
cat >/dev/null
"""


def programs() -> str:
    """Where PostgreSQL's programs are: in Debian's package, or where programs are looked for."""
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    searched = [Path(place) for place in os.environ.get("PATH", "").split(":")]
    found = [place for place in [*packaged, *searched] if (place / "initdb").is_file() and (place / "pg_ctl").is_file()]
    return str(found[0]) if found else not_tested("postgresql")


@contextlib.contextmanager
def database() -> Iterator[str]:
    """The address of an empty database."""
    path = f"{programs()}:{os.environ['PATH']}"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["sh", "-eu", "-c", POSTGRESQL]
    if os.geteuid() == 0:
        # PostgreSQL does not run as root.
        user = pwd.getpwnam("postgres")
        drop = [
            shutil.which("setpriv") or "setpriv",
            f"--reuid={user.pw_uid}",
            f"--regid={user.pw_gid}",
            "--clear-groups",
        ]
        command = [*drop, *command]
    environment = {"PATH": path, "PORT": str(port)}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": "/"}
    with subprocess.Popen(command, env=environment, **pipes) as server:
        assert server.stdout.readline().startswith("/"), "PostgreSQL has not started"
        yield f"postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable"
        server.stdin.close()
