"""A job, its sidecar and a hub with its database: what the job's own sidecar shows stands on the hub's page as well."""

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

import numpy as np
from test_digits import CONCEPTS

import conceptwatch
from conftest import not_tested, package, wait_for
from real_sidecar import ask, eager, serving

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
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline().startswith("/"), "PostgreSQL has not started"
        yield f"postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable"
        server.stdin.close()


def page(address: str) -> str:
    """The address of the page beside a port."""
    host, port = address.rsplit(":", 1)
    return f"{host}:{int(port) + 1}"


def test_a_hub_shows_what_the_sidecar_of_a_job_shows(tmp_path: Path) -> None:
    digits = package("sklearn.datasets", "scikit-learn").load_digits().target
    labels = CONCEPTS[digits]
    rng = np.random.default_rng(0)
    with (
        database() as store,
        serving("--store", store, "--log", "warn") as hub,
        eager("--upstream", hub, "--data-dir", str(tmp_path)) as sidecar,
    ):
        names = [f"concept {number}" for number in range(labels.shape[1])]
        run = conceptwatch.init("digits", address=sidecar, concepts=names, labels={"lambda": "0.1"})
        for step in range(1, 6):
            noise = rng.uniform(0, 0.5, labels.shape)
            activations = (labels * 0.5 + noise * (0.6 + 0.05 * step)).clip(0, 1).astype(np.float32)
            with run.evaluation("val", step=step) as p:
                p.log(concept_activations=activations, concept_labels=labels.astype(np.int64), task_labels=digits)
            assert p.scores(timeout=60) is not None
        run.finish()
        told = lambda: ask(page(sidecar), "/api/v1/status")["upstream"]  # noqa: E731
        wait_for(lambda: told()["reached"] and told()["waiting"] == 0)
        assert (told()["refused"], told()["dropped"]) == (0, 0)
        for score in ["ctl", "icl", "ctl_conditional", "concept_accuracy"]:
            here, there = (
                ask(page(address), "/api/v1/series", run="digits", split="val", score=score)
                for address in (sidecar, hub)
            )
            assert [point["step"] for point in here["points"]] == [1, 2, 3, 4, 5]
            assert here == there, score
