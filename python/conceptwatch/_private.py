"""The directory in which a user's processes find the sidecar that one of them started. Nobody else can write there."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

# Logs of sidecars that are kept.
MOST_LOGS = 20


class NotPrivate(OSError):
    """The directory belongs to someone else, or others can enter it; the message says what it is."""


def folder() -> Path:
    """`$XDG_RUNTIME_DIR/conceptwatch`, or `conceptwatch-UID` among the temporary files, created where it is missing."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    own = Path(runtime) if os.path.isabs(runtime) else None
    if own is None or not _is_private(own):
        found = Path(tempfile.gettempdir()) / f"conceptwatch-{os.getuid()}"
    else:
        found = own / "conceptwatch"
    with contextlib.suppress(FileExistsError):
        os.mkdir(found, 0o700)
    if not _is_private(found):
        raise NotPrivate(f"{found}: expected a directory that only this user can enter (mode 0700)")
    return found


def opened(path: Path, flags: int) -> int:
    """A descriptor of a file of this user, which is no link."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.fstat(descriptor).st_uid != os.getuid():
        os.close(descriptor)
        raise NotPrivate(f"{path}: expected a file of this user")
    return descriptor


def new_log(prefix: str) -> tuple[int, Path]:
    """A descriptor of a new log file, and its path. The oldest files make way."""
    within = folder()
    logs = sorted(within.glob("*.log"), key=lambda path: path.lstat().st_mtime)
    for path in logs[: max(0, len(logs) + 1 - MOST_LOGS)]:
        with contextlib.suppress(OSError):
            path.unlink()
    descriptor, found = tempfile.mkstemp(prefix=f"{prefix}-", suffix=".log", dir=within)
    return descriptor, Path(found)


def _is_private(path: Path) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and found.st_mode & 0o077 == 0
