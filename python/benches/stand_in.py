"""A stand-in sidecar for measuring the client: that of the tests, in another process, discarding what it receives."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PROGRAM = """
import sys
from conceptwatch._protocol import messages
from sidecar import Sidecar

sidecar = Sidecar(keep=False)
sidecar.start.incarnation = "stand-in"
# Every pass is settled when it ends.
sidecar.settled = lambda end: messages.Settled(
    run=end.run, split=end.split, step=end.step, outcome=messages.Settled.OUTCOME_POINT
)
print(sidecar.serve(), flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def sidecar_at(address: str | None) -> Iterator[str]:
    """The address given, or that of a stand-in."""
    if address:
        yield address
        return
    here = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), str(here / "tests"), *sys.path])}
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()
