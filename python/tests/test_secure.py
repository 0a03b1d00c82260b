"""Whom a job sends to: TLS, Unix sockets, and the sidecar that it started itself."""

from __future__ import annotations

import logging
import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

import conceptwatch
from conceptwatch import _private, _sidecar, _sidecar_lease
from conftest import Start, Warned, batch, evaluated, not_tested, wait_for
from real_sidecar import binary, free_ports
from sidecar import Sidecar


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime directory of the test's own."""
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.delenv("CONCEPTWATCH_ADDRESS", raising=False)
    return folder


@pytest.fixture
def real(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The program, for `init` to start."""
    monkeypatch.setenv("CONCEPTWATCH_BINARY", binary())
    # A port of the page that no other sidecar of this machine has.
    monkeypatch.setattr(_sidecar, "PORT", free_ports())
    monkeypatch.setattr(_sidecar, "DEFAULT", f"127.0.0.1:{_sidecar.PORT}")
    yield binary()
    for process in _sidecar._started:
        process.stdin.close()
        process.wait(30)
    _sidecar._started.clear()
    _sidecar._own.clear()


def certificates(folder: Path, served: str = "DNS:localhost,IP:127.0.0.1") -> dict[str, Path]:
    """An authority, and a server and a client that it signed, as files. served: names of the server."""
    names = {"ca": "authority", "server": "localhost", "client": "a job"}
    try:
        for name, subject in names.items():
            key, request, done = folder / f"{name}.key", folder / f"{name}.csr", folder / f"{name}.pem"
            new = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-subj", f"/CN={subject}"]
            if name == "ca":
                subprocess.run([*new, "-x509", "-days", "2", "-out", str(done)], check=True, capture_output=True)
                continue
            subprocess.run([*new, "-out", str(request)], check=True, capture_output=True)
            (folder / "names").write_text(f"subjectAltName={served}\n")
            sign = ["openssl", "x509", "-req", "-in", str(request), "-CA", str(folder / "ca.pem"), "-days", "2"]
            sign += ["-CAkey", str(folder / "ca.key"), "-CAcreateserial", "-extfile", str(folder / "names")]
            subprocess.run([*sign, "-out", str(done)], check=True, capture_output=True)
    except FileNotFoundError:
        not_tested("openssl")
    return {file.name: file for file in folder.iterdir()}


def test_a_job_speaks_tls_with_a_client_certificate(
    sidecar: Sidecar, start: Start, tmp_path: Path, warned: Warned
) -> None:
    files = certificates(tmp_path)
    pair = (files["server.key"].read_bytes(), files["server.pem"].read_bytes())
    sidecar.credentials = grpc.ssl_server_credentials([pair], files["ca.pem"].read_bytes(), require_client_auth=True)
    address = "https://" + sidecar.serve("localhost:0")
    identity = {"cert_file": files["client.pem"], "key_file": files["client.key"]}
    run = start(address=address, ca_file=files["ca.pem"], **identity)
    run.log(step=1, **batch())
    assert run.finish()
    assert len(sidecar.received) == 1
    assert run.page_url == f"{address.rpartition(':')[0]}:{int(address.rpartition(':')[2]) + 1}"
    # Without them neither side trusts the other.
    for arguments in ({"ca_file": files["ca.pem"]}, identity):
        stranger = start(address=address, **arguments)
        stranger.log(step=1, **batch())
        wait_for(lambda stranger=stranger: stranger.stats.retries)
        assert not stranger.finish(timeout=0.0)
    assert len(sidecar.received) == 1
    assert any("the connection to the sidecar" in line for line in warned())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"address": "https://box"}, "address: got 'https://box', expected HOST:PORT"),
        ({"address": "unix://run/x.sock"}, "expected an absolute path"),
        ({"address": "https://box:1", "ca_file": "/nowhere.pem"}, "ca_file: /nowhere.pem cannot be read"),
        ({"address": "https://box:1", "ca_file": __file__}, "is not a PEM file"),
        ({"address": "box:1", "cert_file": "me.pem"}, "key_file is missing"),
        ({"address": "box:1", "key_file": "me.key"}, "cert_file is missing"),
    ],
)
def test_what_cannot_secure_a_connection_is_an_error_at_once(arguments: dict[str, str], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        conceptwatch.init("run", concepts=3, spawn=False, **arguments)  # type: ignore[arg-type]


def test_a_sidecar_that_init_starts_has_a_socket_in_a_directory_of_the_user(
    real: str, runtime: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with conceptwatch.init("run", concepts=3, raise_errors=True) as run:
        assert evaluated(run, batch(200)).scores(timeout=60.0) is not None
        assert run.address == f"unix://{runtime}/conceptwatch/grpc.sock"
        assert run.page_url == f"http://127.0.0.1:{_sidecar.PORT + 1}/"
        other = conceptwatch.init("other", concepts=3, raise_errors=True)
        assert other.address == run.address
        assert other.finish()
        # A command finds it without being told.
        command = [real, "watch", "run"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
            assert "run" in watching.stdout.readline()
            watching.terminate()
    assert capfd.readouterr().err.count("started a sidecar") == 1
    folder = runtime / "conceptwatch"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for file in folder.iterdir():
        assert stat.S_IMODE(file.lstat().st_mode) & 0o077 == 0, file


def chosen(*, spawn: bool) -> str:
    return _sidecar_lease._choose(_sidecar.Wish(), None, spawn=spawn)[2]


def test_who_listens_at_the_default_port_must_be_this_user_or_root(
    runtime: Path, monkeypatch: pytest.MonkeyPatch, warned: Warned
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        monkeypatch.setattr(_sidecar, "PORT", port)
        monkeypatch.setattr(_sidecar, "DEFAULT", f"127.0.0.1:{port}")
        if os.path.exists("/proc/net/tcp"):
            assert _sidecar.owners(port) == {os.getuid()}
        # It may be a sidecar that takes its time.
        monkeypatch.setattr(_sidecar_lease, "PATIENCE", 0.1)
        assert chosen(spawn=True) == f"127.0.0.1:{port}"
        monkeypatch.setattr(_sidecar, "owners", lambda port: {os.getuid() + 4321})
        for spawn in (True, False):
            assert chosen(spawn=spawn) == f"unix://{runtime}/conceptwatch/grpc.sock"
        assert f"another user ({os.getuid() + 4321}) listens at 127.0.0.1:{port}" in warned()[0]
    assert chosen(spawn=False) == f"127.0.0.1:{port}"


def test_what_others_could_have_planted_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Others can enter this one, so the directory is made among the temporary files.
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(open_to_all))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = _private.folder()
    assert found == tmp_path / f"conceptwatch-{os.getuid()}"
    # A lock that is a link is not followed.
    target = tmp_path / "target"
    (found / "7800.lock").symlink_to(target)
    with pytest.raises(OSError, match=r"7800\.lock"):
        _private.opened(found / "7800.lock", os.O_CREAT | os.O_RDWR)
    assert not target.exists()
    found.chmod(0o755)
    with pytest.raises(_private.NotPrivate, match="expected a directory that only this user can enter"):
        _private.folder()
    caplog.set_level(logging.WARNING, logger="conceptwatch")
    monkeypatch.setenv("CONCEPTWATCH_BINARY", "/bin/true")
    run = conceptwatch.init("run", concepts=3, address="127.0.0.1:1")
    assert "no sidecar was started: " in caplog.text
    run.finish(timeout=0.0)
    found.chmod(0o700)
    for number in range(30):
        os.close(_private.new_log(f"sidecar-{number}")[0])
    assert len(list(found.glob("*.log"))) == _private.MOST_LOGS
