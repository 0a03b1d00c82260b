"""Where the curves of sidecars lie that jobs have started: one directory for each, in the user's data directory.

The rule is the program's own, `src/history/sqlite/user_data_dir.rs`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HISTORY = "history.sqlite3"
ADDRESS = "address"


def user_home() -> Path | None:
    """`$XDG_DATA_HOME/conceptwatch`, or the system's place for a user's data; None without a home directory."""
    data = os.environ.get("XDG_DATA_HOME", "")
    if os.path.isabs(data):
        return Path(data) / "conceptwatch"
    home = os.environ.get("HOME", "")
    if not os.path.isabs(home):
        return None
    return Path(home) / ("Library/Application Support" if sys.platform == "darwin" else ".local/share") / "conceptwatch"


def may_keep() -> bool:
    """Whether curves can be kept below the user's data directory, as far as the system tells."""
    home = user_home()
    existing = None if home is None else next((path for path in (home, *home.parents) if path.exists()), None)
    return existing is not None and os.access(existing, os.W_OK | os.X_OK)


def same_directory(wanted: str | None, stated: str) -> bool:
    """Whether a sidecar keeps curves where a job wants them. None and an empty text mean in memory."""
    if wanted is None or not stated:
        return wanted is None and not stated
    return os.path.realpath(wanted) == os.path.realpath(stated)


def stated_page(directory: Path) -> str | None:
    """The HTTP address of the sidecar that uses a directory of curves, as it has stated it; it may be gone."""
    try:
        _, http = (directory / ADDRESS).read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return None
    return http


def curves_in(home: Path) -> list[Path]:
    """The directories of curves below `home`, the one written last first."""

    def written(directory: Path) -> float:
        times = [file.stat().st_mtime for end in ("", "-wal") if (file := directory / (HISTORY + end)).exists()]
        return max(times, default=0.0)

    try:
        found = [path for path in home.iterdir() if (path / HISTORY).is_file()]
        return sorted(found, key=lambda path: (-written(path), path))
    except OSError:
        return []
