"""The program as a child that reads from one pipe and answers on another: no file, no port, and a failure of it is an
exception here."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from ._encode import parts
from ._protocol import messages
from ._run import ConceptwatchError
from ._sidecar import find_binary
from ._summary import is_quiet
from ._tensors import Copy

# Seconds of work that nobody wonders about, and between two looks at how far it is.
QUIET, PAUSE = 2.0, 0.25
BAR = 20
_OPTION = re.compile(r"--(\w[\w-]*)")
# Declarations that the program advises, as arguments of `score`.
_ARGUMENTS = {
    "declare the run's label kind continuous": "pass task_kind='continuous'",
    "declare its label kind continuous": "declare it Continuous, or pass concept_kind='continuous' for all; for"
    " certainties soft_labels",
}
# A line that the program writes as it begins a part of its work.
_BEGUN = re.compile(r"(\d+)/(\d+) (.*)")


def answer_of(command: str, arguments: list[str], requests: Iterable[list[Any]]) -> bytes:
    """The answer of a command of the program to what is written to it."""
    binary = find_binary()
    if binary is None:
        raise ConceptwatchError("the program was not found; install the package with pip, or set CONCEPTWATCH_BINARY")
    pipe, environment = subprocess.PIPE, {**os.environ, "RUST_BACKTRACE": "0"}
    began, shown = time.monotonic(), ""
    # Unbuffered: nothing is left to write when it has ended.
    with subprocess.Popen(
        [binary, command, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, env=environment
    ) as child:
        try:
            _write(child.stdin, requests)
            while True:
                try:
                    answer, said = child.communicate(timeout=PAUSE)
                    break
                except subprocess.TimeoutExpired as waiting:
                    shown = _progress(waiting.stderr, time.monotonic() - began, shown)
        finally:
            child.kill()  # without effect on a child that has ended
            child.wait()  # after Ctrl-C `Popen` does not wait
            if shown:
                print("\r" + " " * len(shown), end="\r", file=sys.stderr, flush=True)
    if child.returncode != 0:
        raise _failure(command, child.returncode, said.decode(errors="replace"))
    return answer


def number(name: str, value: Any, least: int, most: int) -> str:
    """A whole number as an argument of the program."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        raise ValueError(f"{name}: got {value!r}, expected a whole number from {least} to {most}")
    return str(int(value))


def batch_of(copies: list[Copy]) -> list[Any]:
    """A request with these tensors."""
    return parts(messages.BatchChunk(), copies, 0, copies[0].shape[0])


def _write(stdin: Any, requests: Iterable[list[Any]]) -> None:
    try:
        for request in requests:
            views = [memoryview(part).cast("B") for part in request]
            for view in (memoryview(sum(map(len, views)).to_bytes(8, "little")), *views):
                left = view
                while left:
                    left = left[stdin.write(left) or 0 :]
    except BrokenPipeError:
        pass  # it has ended, and said why


def _progress(said: bytes | None, seconds: float, shown: str) -> str:
    """Shows how far the program is, and returns what is shown."""
    lines = (said or b"").decode(errors="replace").splitlines()
    begun = next(filter(None, map(_BEGUN.fullmatch, reversed(lines))), None)
    watched = sys.stderr.isatty() or "ipykernel" in sys.modules
    if begun is None or seconds < QUIET or not watched or is_quiet():
        return shown
    at = BAR * (int(begun[1]) - 1) // int(begun[2])
    line = f"[{'#' * at}{'-' * (BAR - at)}] {begun[1]}/{begun[2]} {begun[3]}, {seconds:.0f} s"
    print("\r" + line.ljust(len(shown)), end="", file=sys.stderr, flush=True)
    return line.ljust(len(shown))


def _failure(command: str, status: int, said: str) -> Exception:
    """Why the program has failed, by its exit status and what it said."""
    lines = [line for line in said.splitlines() if line and not (_BEGUN.fullmatch(line) or line.startswith("note: "))]
    reason = " ".join(lines).removeprefix(f"conceptwatch {command}: ")
    if status == 2 and not reason.startswith("error: "):  # bad input, but no option that it does not know
        for prefix in ("tensors.", "run.constants.", "run."):
            reason = reason.removeprefix(prefix)
        for declared, argument in _ARGUMENTS.items():
            reason = reason.replace(declared, argument)
        return ValueError(_OPTION.sub(lambda option: option[1].replace("-", "_"), reason))
    if status < 0:
        # SIGKILL comes from a system without memory left; the program itself aborts.
        reason = f"ended by {signal.Signals(-status).name}, as for lack of memory. {reason}".rstrip()
    return ConceptwatchError(f"the program failed: {reason or f'exit status {status}'}")
