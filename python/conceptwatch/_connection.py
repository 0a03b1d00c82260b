"""How a sidecar is reached, and the waiting time in its refusals."""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

import grpc

from ._fork import note_connection
from ._protocol import status

_LARGEST_ANSWER = 256 << 20  # matrices of 4096 concepts


@dataclass(frozen=True)
class Contact:
    """An address, what is shown to the sidecar there, and whom it is trusted by.

    address: HOST:PORT, https://HOST:PORT, unix:///path, or another target of gRPC.
    """

    address: str
    token: str | None = None
    ca_file: str | None = None  # authorities of its certificate; None: those of gRPC
    cert_file: str | None = None  # a client certificate, and its key
    key_file: str | None = None

    @property
    def is_secure(self) -> bool:
        return self.address.startswith("https://")

    @property
    def target(self) -> str:
        """The address as gRPC takes it."""
        return self.address.removeprefix("https://").removesuffix("/") if self.is_secure else self.address


def contact_to(
    address: str,
    token: str | None,
    ca_file: str | os.PathLike[str] | None,
    cert_file: str | os.PathLike[str] | None,
    key_file: str | os.PathLike[str] | None,
) -> Contact:
    """Raises ValueError for what cannot be used. Files that are not given are taken from the environment."""
    address = address.removeprefix("http://")
    if address.startswith("https://") and host_and_port(address.removeprefix("https://").removesuffix("/")) is None:
        raise ValueError(f"address: got {address!r}, expected HOST:PORT, https://HOST:PORT or unix:///path")
    if address.startswith("unix://") and not address.startswith("unix:///"):
        raise ValueError(f"address: got {address!r}, expected an absolute path, as unix:///run/conceptwatch.sock")
    files: dict[str, str | None] = {}
    for name, given in (("ca_file", ca_file), ("cert_file", cert_file), ("key_file", key_file)):
        path = os.fspath(given) if given else os.environ.get(f"CONCEPTWATCH_{name.upper()}") or None
        if path is not None and address.startswith("https://"):
            _content(name, path)
        files[name] = path
    if (files["cert_file"] is None) != (files["key_file"] is None):
        missing = "key_file" if files["key_file"] is None else "cert_file"
        raise ValueError(f"{missing} is missing: a client certificate and its key go together")
    return Contact(address, token, **files)


def _content(name: str, path: str) -> bytes:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"{name}: {path} cannot be read: {error}") from error
    if b"-----BEGIN " not in content:
        raise ValueError(f"{name}: {path} is not a PEM file: it has no line that begins with -----BEGIN")
    return content


def _credentials(contact: Contact) -> grpc.ChannelCredentials:
    files = {"ca_file": contact.ca_file, "key_file": contact.key_file, "cert_file": contact.cert_file}
    found = (None if path is None else _content(name, path) for name, path in files.items())
    return grpc.ssl_channel_credentials(*found)


def channel_to(contact: Contact, patience: float = 2.0) -> grpc.Channel:
    """patience: seconds within which the listener has to begin HTTP/2."""
    options: list[tuple[str, int | str]] = [
        ("grpc.max_send_message_length", -1),  # messages are cut to the size the sidecar states
        ("grpc.max_receive_message_length", _LARGEST_ANSWER),
        ("grpc.enable_retries", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", int(1000 * patience)),
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.keepalive_time_ms", 60_000),
    ]
    if is_local(contact.target):
        options.append(("grpc.enable_http_proxy", 0))  # a cluster's proxy cannot reach this machine's loopback
    if contact.target.startswith("unix:"):
        # By default the socket's path, with characters that an authority cannot have.
        options.append(("grpc.default_authority", "localhost"))
    credentials = _credentials(contact) if contact.is_secure else None
    note_connection()
    if credentials is not None:
        return grpc.secure_channel(contact.target, credentials, options=options)
    return grpc.insecure_channel(contact.target, options=options)


def host_and_port(address: str) -> tuple[str, int] | None:
    """Host and port of a TCP address such as `127.0.0.1:7800`, `[::1]:7800` or `ipv6:[::1]:7800`; else None."""
    for prefix in ("dns:///", "dns:", "ipv4:", "ipv6:"):
        address = address.removeprefix(prefix)
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or "/" in address:
        return None
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_local(address: str) -> bool:
    """Whether an address is on this machine's loopback or a Unix socket."""
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    parts = host_and_port(address)
    if parts is None:
        return False
    try:
        return ipaddress.ip_address(parts[0]).is_loopback
    except ValueError:
        return parts[0] == "localhost"


def serves_http(address: str) -> bool:
    """Whether a program answers there in HTTP/1, as a sidecar's page does, but not its gRPC port."""
    parts = host_and_port(address)
    if parts is None:
        return False
    connection = http.client.HTTPConnection(*parts, timeout=1.0)
    try:
        connection.request("HEAD", "/api/v1/status")
        return connection.getresponse().status > 0
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def retry_delay(error: Exception) -> float | None:
    """Seconds the sidecar asks to wait before sending again (google.rpc.RetryInfo), if it does."""
    metadata = error.trailing_metadata() if isinstance(error, grpc.Call) else None
    details = dict(metadata or ()).get("grpc-status-details-bin")
    with contextlib.suppress(Exception):  # details that are not a Status say nothing about waiting
        for detail in status.Status.FromString(details if isinstance(details, bytes) else b"").details:
            if detail.type_url.endswith("/google.rpc.RetryInfo"):
                delay = status.RetryInfo.FromString(detail.value).retry_delay
                return min(max(0.0, float(delay.seconds + delay.nanos / 1e9)), 60.0)
    return None


def described(error: Exception) -> str:
    if isinstance(error, grpc.RpcError) and hasattr(error, "code"):
        return f"{error.code().name.lower()}: {error.details()}"
    return f"{type(error).__name__}: {error}"
