"""Which sidecar a job uses that states no address, and that its user is told at the start where the curves are."""

from __future__ import annotations

import contextlib
import http.server
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgresql import database

from conftest import wait_for
from jobs import Job, Jobs, begin, settled, sidecars, use_port
from real_sidecar import answer, serving
from sidecar import Sidecar


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


@pytest.fixture
def at(job: Jobs) -> Jobs:
    """Starts jobs for which this is the default port."""

    def at(name: str, port: int, **environment: str) -> Job:
        started = job(name, **environment)
        use_port(started, port)
        return started

    return at


def own(tmp_path: Path) -> str:
    return f"unix://{tmp_path}/runtime/conceptwatch/grpc.sock"


def passes_over(job: Job, tmp_path: Path, address: str, why: str) -> None:
    """A job says why it does not use the sidecar at an address, and starts one of its own."""
    begin(job, "a")
    assert job.do("run.address") == own(tmp_path)
    assert f"the sidecar at {address} is not used: {why}" in job.said()


def test_a_sidecar_that_keeps_nothing_is_joined_with_a_word(at: Jobs, tmp_path: Path) -> None:
    with serving() as address:
        one = at("one", port_of(address))
        begin(one, "a")
        begin(one, "b")
        assert one.do("run.address") == address
        page = f"http://127.0.0.1:{port_of(address) + 1}/"
        said = one.said()
        assert said.count("joined the sidecar") == 1
        assert said.startswith(
            f"conceptwatch: joined the sidecar at {address} (page {page}), which keeps curves in memory: they are gone "
            f"when it ends; CONCEPTWATCH_ADDRESS={own(tmp_path)} starts one of your own\n"
        )
        # The word is right.
        other = at("other", port_of(address), CONCEPTWATCH_ADDRESS=own(tmp_path))
        begin(other, "a")
        assert "; curves are kept in " in other.said()
        # Who wants none kept is told where, as of any other.
        third = at("third", port_of(address))
        begin(third, "c", data_dir=None)
        assert third.do("run.address") == address


def test_a_sidecar_that_keeps_curves_says_where_to_jobs_in_other_directories(
    at: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with serving("--data-dir", "curves") as address:
        monkeypatch.chdir("/")
        one = at("one", port_of(address))
        begin(one, "a")
        assert one.said().count("\n") == 1
        assert f"joined the sidecar at {address} " in one.said()
        assert f"which keeps curves in {tmp_path}/curves; " in one.said()
        quiet = at("quiet", port_of(address), CONCEPTWATCH_QUIET="1")
        begin(quiet, "b")
        assert quiet.said() == ""
        # It is what this one wants.
        same = at("same", port_of(address))
        begin(same, "c", data_dir=f"{tmp_path}/curves/../curves")
        assert same.do("run.address") == address


def test_a_directory_that_the_sidecar_does_not_use_gets_one_of_its_own(at: Jobs, job: Jobs, tmp_path: Path) -> None:
    def start(name: str, port: int, wanted: Path, by_argument: bool = False) -> Job:
        started = at(name, port, **({} if by_argument else {"CONCEPTWATCH_DATA_DIR": str(wanted)}))
        begin(started, name, **({"data_dir": str(wanted)} if by_argument else {}))
        return started

    with serving() as address:
        one = start("one", port_of(address), tmp_path / "x")
        assert one.do("run.data_dir") == str(tmp_path / "x")
        said = one.said().splitlines()
        assert said[0] == (
            f"conceptwatch: the sidecar at {address} is not used: "
            f"it keeps curves in memory, and data_dir is {tmp_path}/x"
        )
        assert said[1].endswith(f"; curves are kept in {tmp_path}/x")
        # As of the first, so of the jobs' own.
        two = start("two", port_of(address), tmp_path / "y", by_argument=True)
        three = start("three", port_of(address), tmp_path / "y")
        assert two.do("run.data_dir") == three.do("run.data_dir") == str(tmp_path / "y")
        assert two.do("run.address") == three.do("run.address") != one.do("run.address")
        assert three.said() == ""
        assert len(sidecars(tmp_path)) == 2
        two.do("evaluate(run, 1)")
        assert settled(two, 1) == {"point": 1}
        # A job that wants nothing in particular joins, and is told that the place is not the usual one.
        four = at("four", port_of(address))
        begin(four, "four")
        assert f"which keeps curves in {tmp_path}/x; data_dir=DIRECTORY starts one of your own" in four.said()
        for each in (one, two, three, four):
            assert each.do("run.finish()") is True
            each.end()
    wait_for(lambda: not sidecars(tmp_path))


def test_a_job_that_wants_none_kept_does_not_join_one_that_keeps(job: Jobs, tmp_path: Path) -> None:
    one, two, three = job("one"), job("two"), job("three")
    begin(one, "a")
    begin(two, "b", data_dir=None)
    assert two.do("run.data_dir") is None
    assert two.do("run.address") != one.do("run.address")
    assert "it keeps curves in " in two.said()
    assert ", and data_dir is None: in memory\n" in two.said()
    begin(three, "c", data_dir=None)
    assert three.do("run.address") == two.do("run.address")
    assert three.said() == ""


def test_curves_of_a_job_without_a_wish_survive_beside_one_that_keeps_none(
    job: Jobs, tmp_path: Path, data_home: Path
) -> None:
    one, two, three, four = (job(name) for name in ("one", "two", "three", "four"))
    begin(one, "a", data_dir=None)
    assert one.do("run.address") == own(tmp_path)
    begin(two, "b")
    assert Path(two.do("run.data_dir")).parent == data_home
    assert two.said().splitlines()[0] == (
        f"conceptwatch: the sidecar at {own(tmp_path)} is not used: it keeps curves in memory"
    )
    # Others join it without a word, and those that want none kept the first.
    begin(three, "c")
    begin(four, "d", data_dir=None)
    assert (three.do("run.address"), three.said()) == (two.do("run.address"), "")
    assert four.do("run.address") == one.do("run.address")
    assert len(sidecars(tmp_path)) == 2
    # One that may start none has no choice.
    five = job("five")
    two.kill()
    three.kill()
    wait_for(lambda: len(sidecars(tmp_path)) == 1)
    begin(five, "e", spawn=False)
    assert five.do("run.address") == one.do("run.address")


def test_a_job_joins_one_that_keeps_none_where_none_could(job: Jobs, tmp_path: Path) -> None:
    (tmp_path / "no directory").write_text("")
    one, two = (job(name, XDG_DATA_HOME=str(tmp_path / "no directory")) for name in ("one", "two"))
    begin(one, "a")
    assert one.do("run.data_dir") is None
    assert f"; curves are in memory, because {tmp_path}/no directory/conceptwatch cannot be written\n" in one.said()
    begin(two, "b")
    assert two.do("run.address") == one.do("run.address")
    assert two.said().count("\n") == 1
    assert "which keeps curves in memory: they are gone when it ends; data_dir=DIRECTORY starts one" in two.said()
    one.do("evaluate(run, 1)")
    assert settled(one, 1) == {"point": 1}
    assert one.do("run.finish()") is True
    assert "  curves  in memory: they end with the last job" in one.said()


def test_a_sidecar_of_another_version_is_not_joined_by_itself(at: Jobs, job: Jobs, tmp_path: Path) -> None:
    with serving() as address:
        one = at("one", port_of(address))
        one.do("import conceptwatch._sidecar_lease as joining")
        one.do("setattr(joining, '__version__', '9.1.0')")
        passes_over(one, tmp_path, address, "it has version 0.")
        assert ", this client 9.1.0\n" in one.said()
        one.do("evaluate(run, 1)")
        assert settled(one, 1) == {"point": 1}


def test_a_sidecar_that_requires_a_token_is_not_joined_without(at: Jobs, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    token.chmod(0o600)
    with serving("--token-file", str(token)) as address:
        passes_over(at("one", port_of(address)), tmp_path, address, "it requires a token\n")
        two = at("two", port_of(address))
        begin(two, "b", token_file=str(token), data_dir=str(tmp_path / "x"))
        assert f"the sidecar at {address} is not used: it keeps curves in memory" in two.said()


@contextlib.contextmanager
def web_server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_another_program_at_the_port_is_not_joined(at: Jobs, tmp_path: Path) -> None:
    with web_server() as address:
        passes_over(at("one", port_of(address)), tmp_path, address, "it does not answer as a sidecar (")


def test_a_hub_is_not_joined(at: Jobs, tmp_path: Path) -> None:
    with database() as store, serving("--store", store, "--log", "warn") as address:
        one = at("one", port_of(address))
        passes_over(one, tmp_path, address, "it takes no runs (")
        assert "--upstream" in one.said()
        one.do("evaluate(run, 1)")
        assert settled(one, 1) == {"point": 1}
        # Nothing came to the hub.
        assert answer(address, "/api/v1/runs")["runs"] == []


def test_a_page_port_that_a_connection_has_is_not_taken(job: Jobs) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # without listening
        one = job("one")
        one.do("from conceptwatch import _sidecar")
        one.do(f"setattr(_sidecar, 'PORT', {taken.getsockname()[1] - 1})")
        begin(one, "a")
        assert "started a sidecar" in one.said()


def test_one_that_does_not_know_the_question_is_not_joined(at: Jobs, tmp_path: Path, sidecar: Sidecar) -> None:
    address = sidecar.serve()
    passes_over(at("one", port_of(address)), tmp_path, address, "it is no sidecar, or older than this client (")
    assert sidecar.starts == []


def test_a_stated_address_is_used_and_what_it_does_not_keep_is_said(job: Jobs, tmp_path: Path) -> None:
    with serving() as address:
        by_environment = {"CONCEPTWATCH_ADDRESS": address}
        one, two, three = job("one"), job("two", **by_environment), job("three", **by_environment)
        begin(one, "a", address)
        begin(one, "b", address)
        wait_for(one.said)
        assert "the sidecar at " + address + " keeps curves in memory: they are gone when it ends" in one.said()
        begin(two, "c", data_dir=str(tmp_path / "x"))
        wait_for(two.said)
        assert f"data_dir='{tmp_path}/x' is not used: the sidecar that already runs at {address}" in two.said()
        assert " keeps curves in memory; leave out address= and CONCEPTWATCH_ADDRESS to start a" in two.said()
        begin(three, "d", data_dir=None)
        three.do("evaluate(run, 1)")
        assert settled(three, 1) == {"point": 1}
        assert three.said() == ""
        assert {each.do("run.address") for each in (one, two, three)} == {address}
        assert three.do("run.finish()") is True
        assert "  curves  in memory: they end with the sidecar (conceptwatch serve --data-dir keeps" in three.said()


def test_a_place_that_changes_is_said(job: Jobs, tmp_path: Path) -> None:
    one, two = job("one"), job("two")
    begin(one, "a", data_dir=str(tmp_path / "x"))
    begin(two, "b")
    (process,) = sidecars(tmp_path)
    one.kill()
    os.kill(process, signal.SIGKILL)
    two.do("evaluate(run, 1)")
    assert settled(two, 1) == {"point": 1}
    wait_for(lambda: "from now on another sidecar keeps this run's curves, in " in two.said())
    assert Path(two.do("run.data_dir")).parent == Path(two.do("os.environ['XDG_DATA_HOME']")) / "conceptwatch"
