"""How runs end: what a job says of it, and the state that the sidecar gives a run."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

import conceptwatch
from conceptwatch import _outcome
from conftest import acknowledged, log, python, wait_for
from jobs import Jobs, begin
from real_sidecar import answer, eager, page

ADVISING = '[[alerts]]\nname = "few"\nfew_rows = 1000\nadvise_stop = true\n'

# Trains for an evaluation, unless `last` is another statement.
SCRIPT = """
import faulthandler, os, sys
faulthandler.dump_traceback_later(100, exit=True)  # where it hangs, if it does
import conceptwatch
from conftest import log

run = conceptwatch.init({name!r}, concepts=3, address={address!r})

def train():
    log(run, 1)
    {last}

{how}
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    rules = tmp_path_factory.mktemp("rules") / "rules.toml"
    rules.write_text(ADVISING)
    with eager("--config", str(rules)) as address:
        yield address


NAMES = (f"run-{number}" for number in itertools.count())


def ended(address: str, last: str, how: str = "train()") -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    """The run of a script, and the script, which has ended."""
    name = next(NAMES)
    script = SCRIPT.format(name=name, address=address, last=last, how=how)
    done = python("-c", script)
    return answer(address, "/api/v1/run", run=name), done


FAULT = ("raise ValueError('out of\\nmemory\\0')", "ValueError", "out of memory")


@pytest.mark.parametrize(
    ("how", "last", "error", "message"),
    [
        ("train()", *FAULT),
        ("with run: train()", *FAULT),
        ("try: train()\nfinally: run.finish()", *FAULT),
        ("train()", "raise KeyboardInterrupt", "KeyboardInterrupt", "interrupted"),
        ("with run: train()", "sys.exit(3)", "SystemExit", "3"),
    ],
)
def test_a_run_that_an_exception_ends_has_failed(address: str, how: str, last: str, error: str, message: str) -> None:
    run, done = ended(address, last, how)
    assert (run["finished"], run["state"], run["reason"]) == (True, "failed", f"{error}: {message}")
    assert run["outcome"] == {"kind": "failed", "rank": 0, "error": error, "message": message}
    assert done.returncode not in (0, 2), "the job ends as without us"
    assert done.stderr.count(f"was ended by an exception: {error}: {message}\n") == 1
    if error != "SystemExit":
        assert f"\n{error}" in done.stderr or f"| {error}" in done.stderr, "the user's traceback"


def test_a_hook_of_the_user_is_called_as_without_us(address: str) -> None:
    hook = "sys.excepthook = lambda kind, error, trace: print('hooked', kind.__name__)\ntrain()"
    run, done = ended(address, "raise ValueError('x')", hook)
    assert done.stdout == "hooked ValueError\n"
    assert run["reason"] == "ValueError: x"


@pytest.mark.parametrize(
    ("last", "how"),
    [
        ("pass", "train()"),
        ("pass", "train(); run.finish()"),
        ("sys.exit(0)", "with run: train()"),
        ("raise StopIteration", "try: train()\nexcept StopIteration: run.finish()"),
        ("raise ValueError('caught')", "try: train()\nexcept ValueError: pass\nrun.finish()"),
    ],
)
def test_a_run_that_ends_as_it_was_meant_to_has_finished(address: str, last: str, how: str) -> None:
    run, done = ended(address, last, how)
    assert done.returncode == 0, done.stderr
    assert (run["finished"], run["state"], run["outcome"], run["reason"]) == (
        True,
        "finished",
        {"kind": "finished"},
        None,
    )
    assert "has finished" in done.stderr
    assert run["updated"] >= run["started"]


def test_a_run_has_nothing_to_do_with_an_exception_that_was_handled_before_it(address: str) -> None:
    how = "def both():\n  global run\n  run = conceptwatch.init(run.name, concepts=3, address=run.address)\n  train()\n"
    how += "  run.finish()\ntry: {}[1]\nexcept KeyError: both()"
    assert ended(address, "pass", how)[0]["state"] == "finished"


def test_a_run_that_was_told_to_stop_has_stopped_on_advice(address: str) -> None:
    run, done = ended(address, "assert run.should_stop(step=1, timeout=60)")
    assert (run["state"], run["outcome"]) == ("stopped_on_advice", {"kind": "stopped_on_advice", "rank": 0})
    assert "has stopped on advice" in done.stderr
    assert ended(address, "assert run.should_stop(step=1, timeout=60); {}[1]")[0]["state"] == "failed"


def test_advice_that_is_not_read_or_not_followed_stops_no_run(address: str) -> None:
    assert ended(address, "assert run.scores(step=1, timeout=60)")[0]["state"] == "finished"
    goes_on = "[log(run, step) or run.should_stop(step=step, timeout=60) for step in (2, 3)]"
    run, done = ended(address, goes_on)
    assert run["state"] == "finished"
    assert "has finished" in done.stderr


def state_of(address: str, name: str) -> str:
    return str(answer(address, "/api/v1/run", run=name)["state"])


def test_a_run_that_is_silent_while_another_of_its_process_begins_is_not_lost(address: str) -> None:
    names = [next(NAMES), next(NAMES)]
    first = conceptwatch.init(names[0], concepts=3, address=address)
    log(first, 1)
    wait_for(lambda: acknowledged(first))
    second = conceptwatch.init(names[1], concepts=3, address=address)
    log(second, 1)
    wait_for(lambda: acknowledged(second))
    assert [state_of(address, name) for name in names] == ["training", "training"]
    first.finish()
    second.finish()


def test_a_killed_job_leaves_a_lost_run_until_another_resumes_it(address: str, job: Jobs) -> None:
    name = next(NAMES)
    killed = job("killed")
    begin(killed, name, address)
    killed.do("evaluate(run, 1)")
    killed.do("run.scores(step=1, timeout=60) is not None")
    assert state_of(address, name) == "training"
    killed.kill()
    wait_for(lambda: state_of(address, name) == "lost")
    run = answer(address, "/api/v1/run", run=name)
    assert (run["finished"], run["outcome"]) == (False, None)
    assert run["reason"] == "its job has disconnected without saying how it ended"
    assert ": 1 evaluation, lost, started " in repr(conceptwatch.runs(page(address))[name])
    resumed = job("resumed")
    begin(resumed, name, address, resume=True)
    wait_for(lambda: state_of(address, name) == "training")
    resumed.do("run.finish()")
    assert state_of(address, name) == "finished"


class BrokenError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError(), ("ValueError", "")),
        (ValueError("a\n\tb\x00\u202ec\ud800"), ("ValueError", "a b c")),
        (ValueError("é" * 600), ("ValueError", "é" * 500)),
        (ValueError("e\u0301"), ("ValueError", "é")),
        (BrokenError(), ("BrokenError", "")),
        (KeyboardInterrupt(), ("KeyboardInterrupt", "interrupted")),
        (type("n" * 300, (Exception,), {})("x"), ("n" * 200, "x")),
    ],
)
def test_what_is_told_of_an_exception_is_what_the_sidecar_takes(
    error: BaseException, expected: tuple[str, str]
) -> None:
    assert _outcome.told(error) == expected
