"""Work that the garbage collector finds: runs that nobody has finished, and evaluations that nobody has ended.

A finalizer runs on any thread, wherever memory is allocated, also while this package holds its locks. It therefore only
hands the work over to a thread that waits for it.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from ._threads import started

# Its `put` may interrupt itself, as a finalizer can.
_work: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
_threads: list[threading.Thread] = []

log = logging.getLogger("conceptwatch")


def start() -> None:
    """Starts the thread where this process has none."""
    if not _is_running():
        thread = started(_run, "conceptwatch collected")
        _threads[:] = [] if thread is None else [thread]


def later(work: Callable[[], object]) -> None:
    """Hands work over. Called by finalizers."""
    _work.put(work)


def wait(timeout: float) -> None:
    """Waits until what was handed over is done."""
    if _is_running():
        done = threading.Event()
        _work.put(done.set)
        done.wait(timeout)


def _is_running() -> bool:
    """False in a child, too, where the parent's thread is not."""
    return any(thread.is_alive() for thread in _threads)


def _run() -> None:
    while True:
        work = _work.get()
        try:
            work()
        except Exception as error:  # monitoring must not end a training run
            log.warning("conceptwatch: %s: %s", type(error).__name__, error)
        del work  # it holds a run
