"""Jobs that share a spawned sidecar: it outlives its starter, and one that has gone is replaced."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from conftest import wait_for
from jobs import Job, Jobs, begin, children, settled, sidecars
from real_sidecar import free_ports, listens


@pytest.mark.parametrize(("stated", "end"), [(False, "kill"), (True, "end")], ids=["socket", "port"])
def test_a_job_goes_on_when_the_one_that_started_the_sidecar_ends(
    job: Jobs, tmp_path: Path, stated: bool, end: str
) -> None:
    address = f"127.0.0.1:{free_ports()}" if stated else None
    first, second = job("first"), job("second")
    begin(first, "a", address)
    assert "started a sidecar" in first.said()
    begin(second, "b", address)
    assert second.said() == ""
    second.do("evaluate(run, 1)")
    first.do("evaluate(run, 1)")
    (process,) = sidecars(tmp_path)
    getattr(first, end)()
    second.do("evaluate(run, 2, 3)")
    assert second.do("run.scores(step=3, timeout=60) is not None")
    assert settled(second, 3) == {"point": 3}
    assert sidecars(tmp_path) == [process]
    assert second.do("[run.stats.passes_sent_again, run.stats.retries]") == [0, 0]
    # With the last run it ends.
    assert second.do("run.finish()") is True
    wait_for(lambda: not sidecars(tmp_path))
    second.end()


@pytest.mark.parametrize(("stated", "starter_lives"), [(False, True), (True, False)], ids=["socket", "port"])
def test_a_job_whose_sidecar_has_gone_starts_another_and_loses_nothing(
    job: Jobs, tmp_path: Path, data_home: Path, stated: bool, starter_lives: bool
) -> None:
    port = free_ports()
    address = f"127.0.0.1:{port}" if stated else None
    first, second = job("first"), job("second")
    begin(first, "a", address)
    begin(second, "b", address)
    for one in (first, second):
        one.do("evaluate(run, 1)")
        assert one.do("run.scores(step=1, timeout=60) is not None")
    if not starter_lives:
        first.end()
    (process,) = sidecars(tmp_path)
    os.kill(process, signal.SIGSTOP)
    second.do("evaluate(run, *range(2, 12))")
    os.kill(process, signal.SIGKILL)
    second.do("evaluate(run, *range(12, 22))")
    assert settled(second, 21) == {"point": 21}
    (other,) = wait_for(lambda: sidecars(tmp_path))
    assert other != process
    if stated:
        assert listens(port)
    if starter_lives:
        first.do("evaluate(run, 2, 3)")
        assert settled(first, 3) == {"point": 3}
        assert first.do("run.finish()") is True
        # One of the two has started it.
        assert (first.said() + second.said()).count("had gone, another one was started") == 1
    assert second.do("run.name") == "b"
    assert second.do("len([run.scores(step=step) for step in range(1, 22)])") == 21
    assert [folder.name[-2:] for folder in data_home.iterdir()] == ["-1"]
    assert second.do("run.finish()") is True
    second.end()
    if starter_lives:
        first.end()
    wait_for(lambda: not sidecars(tmp_path))


def kill_sidecar_of(job: Job) -> None:
    (process,) = children(job.process.pid)
    os.kill(process, signal.SIGKILL)


def test_a_job_of_its_own_sidecar_starts_another(job: Jobs, tmp_path: Path) -> None:
    own = job("own")
    begin(own, "a", "127.0.0.1:0", data_dir=None)
    own.do("evaluate(run, 1)")
    assert settled(own, 1) == {"point": 1}
    kill_sidecar_of(own)
    own.do("evaluate(run, 2, 3)")
    assert settled(own, 3) == {"point": 3}
    assert "started a sidecar, its page is" in own.said()
    assert own.do("run.finish()") is True


def test_a_sidecar_that_a_person_started_is_not_replaced(job: Jobs) -> None:
    own = job("own")
    begin(own, "a", f"127.0.0.1:{free_ports()}")
    # As one that does not say that it ends unused.
    own.do("setattr(run._link, 'ends_unused', False)")
    kill_sidecar_of(own)
    own.do("evaluate(run, 1)")
    wait_for(lambda: own.do("run._sender.down"))
    assert own.do("run.finish(timeout=1)") is False
    assert "another one was started" not in own.said()


def test_where_no_other_can_be_started_training_goes_on(job: Jobs, tmp_path: Path) -> None:
    own = job("own")
    begin(own, "a", f"127.0.0.1:{free_ports()}")
    own.do("os.environ.update(CONCEPTWATCH_BINARY='/nowhere')")
    kill_sidecar_of(own)
    own.do("evaluate(run, 1, 2)")
    wait_for(lambda: "no other could be started" in own.said())
    assert own.do("run.finish(timeout=1)") is False
    assert own.said().count("no other could be started") == 1
    own.end()
