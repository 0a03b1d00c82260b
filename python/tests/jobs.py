"""Jobs in processes of their own, which do what a test tells them, a line at a time."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import python_environment, wait_for

EAGER = {"CONCEPTWATCH_NICENESS": "0", "CONCEPTWATCH_CPU_SHARE": "16", "CONCEPTWATCH_BUSY_CPU_SHARE": "16"}

# What every job has at hand: `run`, and `evaluate`, which logs a whole evaluation.
BEGIN = """
import json, os, sys
import numpy as np
import conceptwatch

def batch(rows=200, seed=0):
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, (rows, 3))
    return dict(
        concept_activations=np.clip(labels * 0.8 + random.random((rows, 3)) * 0.2, 0, 1).astype(np.float32),
        concept_labels=labels, task_labels=labels.sum(1) % 2, sample_ids=np.arange(rows),
    )

def evaluate(run, *steps):
    for step in steps:
        with run.evaluation("val", step=step) as p:
            p.log(**batch())

for line in sys.stdin:
    try:
        # A statement answers with None.
        try:
            answer = eval(line)
        except SyntaxError:
            answer = exec(line)
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    print(json.dumps(answer, default=str), flush=True)
"""


class Job:
    """A Python process with the client."""

    def __init__(self, folder: Path, binary: str, **environment: str) -> None:
        self.errors = folder / "stderr"
        folder.mkdir(exist_ok=True)
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(BEGIN)],
                env=python_environment(CONCEPTWATCH_BINARY=binary, **environment),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip

    def do(self, line: str) -> Any:
        """The answer to a line of Python."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the job ended: {self.said()}"
        return json.loads(answer)

    def end(self) -> None:
        """Ends it as at the end of a program."""
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0, self.said()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def said(self) -> str:
        """What it has written to standard error."""
        return self.errors.read_text()


# The type that the fixture `job` returns.
Jobs = Callable[..., Job]


def sidecars(folder: Path) -> list[int]:
    """Process numbers of the sidecars whose files are below a folder."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                command = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"serve" in command and str(folder).encode() in b" ".join(command):
                found.append(int(process.name))
    return found


def begin(job: Job, name: str, address: str | None = None, /, **arguments: Any) -> None:
    given = {"concepts": 3, **({} if address is None else {"address": address}), **arguments}
    assert job.do(f"run = conceptwatch.init({name!r}, **{given!r})") is None, job.said()
    assert job.do("run._sender.wait_declared(run._link, 60)"), job.said()


def use_port(job: Job, port: int) -> None:
    """Makes this the job's usual port, at which it looks for a sidecar."""
    job.do("from conceptwatch import _sidecar")
    job.do(f"setattr(_sidecar, 'PORT', {port}), setattr(_sidecar, 'DEFAULT', '127.0.0.1:{port}')")


def settled(job: Job, count: int) -> dict[str, int]:
    """How that many passes have ended, waited for."""
    stats = wait_for(
        lambda: (
            (found := job.do("[run.stats.passes_unsettled, run.stats.passes_settled]"))[0] == 0
            and sum(found[1].values()) == count
            and found[1]
        )
    )
    return dict(stats)


def children(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
