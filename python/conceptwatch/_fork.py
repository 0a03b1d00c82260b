"""Fork safety, for processes that fork such as a DataLoader with workers. Must be imported before gRPC.

With its fork support on, gRPC stops and restarts its threads around every fork. While a stream is open that fails:
some children crash (about 1 in 50 with grpcio 1.85), and each fork prints lines. With it off, a fork does not touch
gRPC: the parent continues undisturbed, and the child must not use gRPC, which this package ensures.
"""

from __future__ import annotations

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

_connected: list[int] = []


def note_connection() -> None:
    """Called before this process makes its first channel."""
    if not _connected:
        _connected.append(os.getpid())


def usable() -> bool:
    """Whether gRPC works here: not in a child forked from a process that has used it."""
    return not _connected or _connected[0] == os.getpid()
