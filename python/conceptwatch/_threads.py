"""Threads of this package. The job goes on where the system, or an interpreter that ends, allows no further one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("conceptwatch")

_warned = threading.Event()


def started(target: Callable[[], None], name: str) -> threading.Thread | None:
    """A running daemon thread; None where none can be started. The caller tries again later."""
    thread = threading.Thread(target=target, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        if not _warned.is_set():
            _warned.set()
            log.warning(
                "conceptwatch: no thread could be started (%s; `ulimit -u` shows how many a user may have). Training "
                "continues, and the next batch tries again. This warning is not repeated.",
                error,
            )
        return None
    return thread
