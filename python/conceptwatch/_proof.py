"""Makes sure that what answers is the sidecar that this process started, and not whoever took its port.

The sidecar inherits a secret over a pipe, and answers a challenge by a keyed hash of it and its own address.
docs/operating.md has the protocol.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Callable
from typing import Any

import grpc

NONCE, PROOF = "conceptwatch-nonce", "conceptwatch-proof"
TIMEOUT = 10.0

# By the address that runs use: the sidecar's own word for it, and the secret.
_started: dict[str, tuple[str, bytes]] = {}


class Impostor(Exception):
    """What answers does not know the secret."""


def new_secret() -> tuple[bytes, int]:
    """A secret, and the reading end of a pipe that has it."""
    secret = secrets.token_bytes(32)
    reading, writing = os.pipe()
    os.write(writing, secret)
    os.close(writing)
    return secret, reading


def remember(address: str, stated: str, secret: bytes) -> None:
    """From here on, only the sidecar with this secret is sent anything at `address`, which it states as `stated`."""
    _started[address] = stated, secret


def forget(address: str) -> None:
    """What answers at `address` is from here on used as one that another process has started."""
    _started.pop(address, None)


def challenge(channel: grpc.Channel, address: str) -> None:
    """Raises `Impostor` where a sidecar that this process started should answer, and another program does.

    The call carries no token.
    """
    if address not in _started:
        return
    stated, secret = _started[address]
    nonce = secrets.token_hex(32)
    check: Callable[..., Any] = channel.unary_unary("/grpc.health.v1.Health/Check")
    try:
        _, call = check.with_call(b"", metadata=((NONCE, nonce),), timeout=TIMEOUT)  # type: ignore[attr-defined]
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.UNAVAILABLE:
            raise
        call = error
    metadata = [*(call.initial_metadata() or ()), *(call.trailing_metadata() or ())]
    proof = next((value for key, value in metadata if key == PROOF), "")
    expected = hmac.new(secret, f"{nonce}\n{stated}".encode(), "sha256").hexdigest()
    if not hmac.compare_digest(str(proof), expected):
        raise Impostor(
            f"another program answers at {stated}, not the sidecar that this process started, so it is sent nothing"
        )
