"""Work that the garbage collector finds: runs that nobody has finished, and evaluations that nobody has ended.

A finalizer runs on any thread, wherever memory is allocated, also while this package holds its locks. It therefore only
hands the work over to a thread that waits for it.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

# Its `put` may interrupt itself, as a finalizer can.
_work: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
_thread: threading.Thread | None = None

log = logging.getLogger("conceptwatch")


def start() -> None:
    """Starts the thread where this process has none."""
    global _thread
    if _thread is None or not _thread.is_alive():
        _thread = threading.Thread(target=_run, name="conceptwatch collected", daemon=True)
        _thread.start()


def later(work: Callable[[], object]) -> None:
    """Hands work over. Called by finalizers."""
    _work.put(work)


def wait(timeout: float) -> None:
    """Waits until what was handed over is done."""
    if _thread is not None and _thread.is_alive() and _thread is not threading.current_thread():
        done = threading.Event()
        _work.put(done.set)
        done.wait(timeout)


def _run() -> None:
    while True:
        work = _work.get()
        try:
            work()
        except Exception as error:  # monitoring must not end a training run
            log.warning("conceptwatch: %s: %s", type(error).__name__, error)
        del work  # it holds a run
