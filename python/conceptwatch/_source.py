"""Where curves are read from: a sidecar's API, or a directory of curves that no sidecar has open.

A history is read by the program itself, `conceptwatch read`, and not as SQLite: it checks each point's checksum, brings
older schemas up to date and judges alerts, and its answers are those of the API.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._declaration import token_of
from ._home import HISTORY, stated_page
from ._sidecar import find_binary

PATIENCE = 60.0


class ReadError(RuntimeError):
    """Curves cannot be read; the message says which and why."""


class Unreachable(ReadError):
    """Nothing answers at an address."""


class Unknown(ReadError, LookupError):
    """The run, split, score or step does not exist."""


@dataclass(frozen=True)
class Api:
    """The HTTP port of a sidecar, as http://HOST:PORT."""

    address: str
    token_file: str | None = None

    def __str__(self) -> str:
        return self.address

    def ask(self, path: str, **query: Any) -> Any:
        request = urllib.request.Request(f"{self.address}{_target(path, query)}")  # noqa: S310 (checked below)
        token_file = self.token_file or os.environ.get("CONCEPTWATCH_TOKEN_FILE")
        if token_file:
            request.add_header("Authorization", f"Bearer {token_of(token_file)}")
        context = None
        if self.address.startswith("https://"):
            context = ssl.create_default_context(cafile=os.environ.get("CONCEPTWATCH_CA_FILE") or None)
        # A cluster's proxy cannot reach this machine's loopback.
        handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)]
        try:
            with urllib.request.build_opener(*handlers).open(request, timeout=PATIENCE) as answer:
                return _object(answer.read(), self)
        except urllib.error.HTTPError as error:
            raise _refused(error.code, _body(error.read()), self) from None
        except (ConnectionResetError, http.client.HTTPException) as error:
            raise Unreachable(
                f"{self.address} broke off ({error}); is it the sidecar's HTTP port, by default 7801, not that of gRPC?"
            ) from None
        except (OSError, ValueError) as error:
            raise Unreachable(f"{self.address} cannot be reached: {error}") from None


@dataclass(frozen=True)
class Directory:
    """A directory of curves. Where a sidecar uses it, that answers."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def ask(self, path: str, **query: Any) -> Any:
        stated = stated_page(self.path)
        if stated is not None and not stated.startswith("unix:"):
            try:
                return Api(_with_scheme(stated)).ask(path, **query)
            except Unreachable:
                pass  # it was killed
        binary = find_binary()
        if binary is None:
            raise ReadError(f"{self.path} cannot be read: the program was not found; set CONCEPTWATCH_BINARY")
        command = [binary, "read", "--data-dir", str(self.path), _target(path, query)]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().removeprefix("conceptwatch read: ")
            raise ReadError(said or f"{binary} ended with status {done.returncode}")
        answer = _object(done.stdout, self)
        if answer["status"] != 200:
            raise _refused(answer["status"], answer["body"], self)
        return answer["body"]


Source = Api | Directory


def source_of(given: str | os.PathLike[str], token_file: str | None = None) -> Source:
    """The source that a directory or an address names. Raises ReadError for what is neither."""
    text = os.fspath(given)
    if os.path.isdir(text):
        if not os.path.isfile(os.path.join(text, HISTORY)):
            raise ReadError(f"{text} has no {HISTORY}")
        return Directory(Path(text))
    host, colon, port = text.removeprefix("https://").removeprefix("http://").rstrip("/").rpartition(":")
    if not (host and colon and port.isdigit()) or "/" in host:
        raise ReadError(f"got {text!r}, expected a directory of curves, or the HTTP port of a sidecar as HOST:PORT")
    return Api(_with_scheme(text.rstrip("/")), token_file)


def _with_scheme(address: str) -> str:
    return address if address.startswith(("http://", "https://")) else f"http://{address}"


def _target(path: str, query: dict[str, Any]) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urllib.parse.urlencode(given)}" if given else path


def _object(text: bytes, source: Source) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ReadError(f"the answer of {source} cannot be read") from None


def _body(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode(errors="replace")


def _refused(status: int, body: Any, source: Source) -> ReadError:
    error = body.get("error") if isinstance(body, dict) else None
    said = f"{error.get('field')}: {error.get('message')}" if isinstance(error, dict) else f"answered {status}"
    return Unknown(said) if status == 404 else ReadError(f"{source}: {said}")
