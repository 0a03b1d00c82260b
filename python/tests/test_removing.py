"""`conceptwatch rm` on a terminal: what it asks, and what each answer does. The terminal is a pseudo-terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import conceptwatch
from conftest import batch, evaluated
from real_sidecar import binary, command, eager, printed

CTRL_C, CTRL_D = "\x03", "\x04"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the finished runs a, b and c."""
    directory = tmp_path_factory.mktemp("made")
    with eager("--data-dir", str(directory)) as address:
        for name in "abc":
            run = conceptwatch.init(name, concepts=3, address=address, spawn=False)
            evaluated(run, batch(200))
            assert run.finish()
    return directory


@pytest.fixture
def curves(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "curves"))


class Terminal:
    """A command whose terminal is this one."""

    def __init__(self, *arguments: str) -> None:
        self.process, self.descriptor = pty.fork()
        if self.process == 0:
            # The runner of the tests may ignore interrupts, and so would a command. A terminal that closes ends none
            # that nohup has started.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            os.execv(binary(), [binary(), *arguments])  # noqa: S606
        self.shown = ""

    def until(self, text: str) -> None:
        """Waits until this is shown, after what was waited for before."""
        deadline = time.monotonic() + 60.0
        while text not in self.shown:
            ready, _, _ = select.select([self.descriptor], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"waited for {text!r}, got {self.shown!r}"
            found = os.read(self.descriptor, 4096).decode(errors="replace")
            assert found, f"waited for {text!r}, got {self.shown!r}"
            self.shown += found
        self.shown = self.shown.partition(text)[2]

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode(errors="surrogateescape"))

    def end(self) -> tuple[int, str]:
        """The exit status, as a shell has it, and what was shown last."""
        # At its end the terminal of a pseudo-terminal has an error on Linux.
        with contextlib.suppress(OSError):
            while found := os.read(self.descriptor, 4096).decode(errors="replace"):
                self.shown += found
        _, status = os.waitpid(self.process, 0)
        os.close(self.descriptor)
        code = os.waitstatus_to_exitcode(status)
        return (128 - code if code < 0 else code), self.shown.replace("\r\n", "\n")


def left(curves: Path) -> str:
    return "".join(sorted(line.split()[0] for line in printed("ls", "--data-dir", curves).splitlines()[1:]))


def removal(curves: Path, *runs: str) -> Terminal:
    return Terminal("rm", *runs, "--data-dir", str(curves))


# The last two are no text.
@pytest.mark.parametrize("answer", ["y", "yes", " YES ", "n", "no", "", "yess", "b", "\xff", "y\udcff"])
def test_yes_removes_and_anything_else_leaves_it(curves: Path, answer: str) -> None:
    terminal = removal(curves, "b")
    terminal.until(f"remove run 'b' with 1 evaluation from {curves}? [y/N] ")
    terminal.type(f"{answer}\n")
    terminal.until("\n")
    removes = answer.strip().lower() in ("y", "yes")
    assert terminal.end() == ((0, "removed b\n") if removes else (1, "kept b\n"))
    assert left(curves) == ("ac" if removes else "abc")


def test_each_run_is_asked_about(curves: Path) -> None:
    terminal = removal(curves, "a", "b", "c")
    for run, answer in (("a", "y"), ("b", "n"), ("c", "y")):
        terminal.until(f"remove run '{run}' ")
        terminal.until("[y/N] ")
        terminal.type(f"{answer}\n")
    terminal.until("\n")
    assert terminal.end() == (1, "removed c\n")
    assert left(curves) == "b"


def test_the_end_of_input_leaves_all(curves: Path) -> None:
    terminal = removal(curves, "a", "b")
    terminal.until("[y/N] ")
    terminal.type(CTRL_D)
    # On a line of its own, and without asking about the others.
    assert terminal.end() == (1, "\nkept a\nkept b\n")
    assert left(curves) == "abc"


@pytest.mark.parametrize("typed", ["", "y"])
def test_an_interrupt_leaves_all(curves: Path, typed: str) -> None:
    terminal = removal(curves, "a", "b")
    terminal.until("[y/N] ")
    terminal.type(typed + CTRL_C)
    status, shown = terminal.end()
    assert status == 128 + signal.SIGINT
    assert "removed" not in shown
    assert left(curves) == "abc"


def test_a_terminal_that_is_closed_leaves_all(curves: Path) -> None:
    terminal = removal(curves, "a")
    terminal.until("[y/N] ")
    os.close(terminal.descriptor)
    assert os.waitstatus_to_exitcode(os.waitpid(terminal.process, 0)[1]) == 1
    assert left(curves) == "abc"


def test_a_name_that_is_wrong_removes_nothing(curves: Path) -> None:
    # It is reported before any question.
    terminal = removal(curves, "a", "nobody")
    status, shown = terminal.end()
    assert (status, shown.count("\n")) == (2, 1)
    assert "run: 'nobody' is unknown" in shown
    done = command("rm", "--yes", "a", "nobody", "--data-dir", curves)
    assert (done.returncode, done.stdout) == (2, "")
    assert left(curves) == "abc"


def test_a_question_is_shown_where_output_goes_to_a_file(curves: Path, tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    with (tmp_path / "out").open("w") as out:
        asking = [binary(), "rm", "a", "--data-dir", str(curves)]
        process = subprocess.Popen(asking, stdin=follower, stdout=out, stderr=follower)
    os.close(follower)
    os.write(leader, b"y\n")
    assert process.wait(60) == 0
    with contextlib.suppress(OSError):
        assert b"[y/N] " in os.read(leader, 4096)
    os.close(leader)
    assert (tmp_path / "out").read_text() == "removed a\n"
