"""A good client in a process of its own, and probes: what they notice of their neighbours."""

from __future__ import annotations

import http.client
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from typing import Any

import numpy as np

from conceptwatch._protocol import messages

from .job import PROCESSES, SPLIT, Plan, Shape, joined, log_pass

PAUSE, PROBE_PAUSE, PASS_PAUSE = 0.02, 0.1, 0.5
# Of a call and of a probe; a client that waits longer has given up.
PATIENCE = 5.0


@dataclass
class Notice:
    """Latencies in ms, in the order of the calls; and failures in words."""

    calls: list[float] = field(default_factory=list)
    probes: list[float] = field(default_factory=list)
    failed_calls: list[str] = field(default_factory=list)
    failed_probes: list[str] = field(default_factory=list)
    finished: bool = True
    stats: str = ""


def quantile(values: list[float], share: float) -> float:
    return float(np.quantile(values, share, method="higher")) if values else float("nan")


def _probe(port: int, stop: Event, notice: Notice) -> None:
    paths = ("/live", "/ready")
    while not stop.is_set():
        path = paths[len(notice.probes) % 2]
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                notice.failed_probes.append(f"{path}: {answer.status}")
        except (OSError, http.client.HTTPException) as error:
            notice.failed_probes.append(f"{path}: {type(error).__name__} {error}")
        finally:
            connection.close()
        notice.probes.append(1000.0 * (time.perf_counter() - began))
        stop.wait(PROBE_PAUSE)


def _passes(run: Any, shape: Shape, stop: Event) -> None:
    step = 1
    while not stop.wait(PASS_PAUSE):
        log_pass(run, shape, step)
        step += 1


def _work(grpc: int, http_: int, token_file: str, ready: Event, stop: Event, notices: Queue[Notice]) -> None:
    shape = Shape(rows=60)
    run = joined(Plan(f"127.0.0.1:{grpc}", "good", 1, shape, 0, token_file=token_file), 0)
    log_pass(run, shape, 0)
    run.scores(SPLIT, step=0, timeout=60.0)
    notice = Notice()
    others = [
        threading.Thread(target=_probe, args=(http_, stop, notice)),
        threading.Thread(target=_passes, args=(run, shape, stop)),
    ]
    for thread in others:
        thread.start()
    ready.set()
    get_scores = run._sender.calls().get_scores
    request = messages.GetScoresRequest(run=run.name, split=SPLIT)
    while not stop.is_set():
        began = time.perf_counter()
        try:
            get_scores(request, timeout=PATIENCE)
        except Exception as error:
            notice.failed_calls.append(f"{type(error).__name__}: {error}"[:300])
        notice.calls.append(1000.0 * (time.perf_counter() - began))
        stop.wait(PAUSE)
    for thread in others:
        thread.join()
    notice.finished = run.finish(timeout=60.0)
    stats = run.stats
    notice.stats = f"{stats.passes_settled} {stats.batches_dropped}"
    notice.finished &= not stats.batches_dropped and not stats.passes_refused
    notices.put(notice)


class Good:
    def __init__(self, grpc: int, http_: int, token_file: str) -> None:
        self._stop, ready = PROCESSES.Event(), PROCESSES.Event()
        self._notices: Queue[Notice] = PROCESSES.Queue()
        arguments = (grpc, http_, token_file, ready, self._stop, self._notices)
        self._process = PROCESSES.Process(target=_work, args=arguments, daemon=True)
        self._process.start()
        if not ready.wait(60.0):
            raise TimeoutError("the good client did not begin")

    def end(self) -> Notice:
        self._stop.set()
        notice = self._notices.get(timeout=120.0)
        self._process.join()
        return notice
