"""The channel to a sidecar, and the waiting time in its refusals."""

from __future__ import annotations

import ipaddress

import grpc

from ._fork import note_connection
from ._protocol import status

_LARGEST_ANSWER = 256 << 20  # matrices of 4096 concepts


def channel_to(address: str) -> grpc.Channel:
    options: list[tuple[str, int]] = [
        ("grpc.max_send_message_length", -1),  # messages are cut to the size the sidecar states
        ("grpc.max_receive_message_length", _LARGEST_ANSWER),
        ("grpc.enable_retries", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 2000),
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.keepalive_time_ms", 60_000),
    ]
    if is_local(address):
        options.append(("grpc.enable_http_proxy", 0))  # a cluster's proxy cannot reach this machine's loopback
    note_connection()
    return grpc.insecure_channel(address, options=options)


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


def retry_delay(error: Exception) -> float | None:
    """Seconds the sidecar asks to wait before sending again (google.rpc.RetryInfo), if it does."""
    metadata = error.trailing_metadata() if isinstance(error, grpc.Call) else None
    for key, value in metadata or ():
        if key != "grpc-status-details-bin" or not isinstance(value, bytes):
            continue
        try:
            details = status.Status.FromString(value).details
            for detail in details:
                if detail.type_url.endswith("/google.rpc.RetryInfo"):
                    delay = status.RetryInfo.FromString(detail.value).retry_delay
                    return min(max(0.0, float(delay.seconds + delay.nanos / 1e9)), 60.0)
        except Exception:  # details that are not a Status say nothing about waiting
            return None
    return None


def described(error: Exception) -> str:
    if isinstance(error, grpc.RpcError) and hasattr(error, "code"):
        return f"{error.code().name.lower()}: {error.details()}"
    return f"{type(error).__name__}: {error}"
