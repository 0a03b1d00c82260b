"""What is done about processes that fork, such as for the workers of a DataLoader. Imported before gRPC is.

With its fork support on, gRPC stops and restarts its threads around every fork. With a stream open that fails: some
children crash (about 1 in 50 with grpcio 1.85), and forks print lines. With it off, a fork leaves gRPC alone: the
parent goes on as if nothing had happened, and in the child gRPC must not be used, which this package sees to.
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
