"""The loggers that a job has already: Weights & Biases, TensorBoard, MLflow, Trackio, Aim, or an object of another one.

Each is imported on first use. An error that one raises is reported once, and the others go on.
"""

from __future__ import annotations

import logging
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from ._encode import PassKey
from ._launch import _digest
from ._scores import Scores
from ._threads import started

log = logging.getLogger("conceptwatch")

PREFIX = "conceptwatch"
# The folder in which TensorBoard's users expect event files.
EVENTS = "runs"
# Characters that MLflow does not accept in names of metrics, which are also paths without empty or dotted parts.
_OTHER = re.compile(r"[^A-Za-z0-9_\-./ :]|(?<![^/])(?:\.\.?)?(?=/|$)")
MLFLOW_LENGTH = 250

Values = Mapping[str, float]
# The scores of an evaluation; None where there is no answer.
Read = Callable[[PassKey], Scores | None]

# Evaluations of a split that are read again for scores that join later, such as those that train networks.
AGAIN = 3


class Logger:
    """Where scores go. What it does on the job's own thread takes no time to speak of."""

    def notice(self) -> None:
        """The job logs an evaluation. Called on its own thread."""

    def write(self, values: Values, step: int) -> None:
        """Takes the values of an evaluation at this step of the job. Called on another thread."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing more is written. Called on the thread that finishes the run."""


class _Wandb(Logger):
    """The active run, or one that is given.

    It has steps of its own, which only ascend, and drops what a job logs at a step that has passed. Scores arrive after
    their evaluation, so they have an axis of their own, `conceptwatch/step`, and are put into the row that the job
    writes next: its steps do not move. Rows hold one evaluation each; what is left gets rows at the end of the run.
    All is written on the job's thread: of two threads that write at once, one loses its row.
    """

    def __init__(self, run: Any = None) -> None:
        self._package = import_module("wandb") if run is None else None
        self._given = run
        self._known: Any = None  # the run whose axis is defined
        self._waiting: dict[int, dict[str, float]] = {}  # by the job's step
        self._lock = threading.Lock()
        self._row = -1  # the run's step whose row has values already

    def _run(self) -> Any:
        run = self._given if self._package is None else self._package.run
        if run is None:
            raise LookupError("no run of wandb is active: call wandb.init() first")
        if self._known is not run:
            axis = f"{PREFIX}/step"
            run.define_metric(axis, hidden=True)
            run.define_metric(f"{PREFIX}/*", step_metric=axis)
            self._known, self._row = run, -1
        return run

    def notice(self) -> None:
        if self._waiting:
            self._put(self._run())

    def write(self, values: Values, step: int) -> None:
        with self._lock:
            self._waiting.setdefault(step, {}).update(values)
        self._run()  # which is said now where there is none

    def close(self) -> None:
        while self._waiting:
            run = self._run()
            if self._row == run.step:
                run.log({}, commit=True)
            self._put(run)

    def _put(self, run: Any) -> None:
        if self._row != run.step:
            with self._lock:
                step = next(iter(self._waiting))
                values = self._waiting.pop(step)
            run.log({**values, f"{PREFIX}/step": step}, commit=False)
            self._row = run.step


class _TensorBoard(Logger):
    """An event file in a folder of its own, `runs/NAME`, or in one that is given."""

    def __init__(self, folder: str | None, name: Callable[[], str]) -> None:
        self._files = import_module("tensorboard.summary.writer.event_file_writer")
        self._events = import_module("tensorboard.compat.proto.event_pb2")
        self._summaries = import_module("tensorboard.compat.proto.summary_pb2")
        self._folder, self._name = folder, name
        self._file: Any = None

    def write(self, values: Values, step: int) -> None:
        if self._file is None:
            folder = self._folder or os.path.join(EVENTS, _as_file(self._name()))
            self._file = self._files.EventFileWriter(folder, filename_suffix=f".{PREFIX}")
        summary = self._summaries.Summary()
        for name, value in values.items():
            summary.value.add(tag=name, simple_value=value)
        self._file.add_event(self._events.Event(wall_time=time.time(), step=step, summary=summary))
        self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class _Mlflow(Logger):
    """The run that is active on the job's thread. It is written through a client, because runs belong to threads."""

    def __init__(self) -> None:
        self._package = import_module("mlflow")
        self._entities = import_module("mlflow.entities")
        self._client: Any = None
        self._run: str | None = None
        self.notice()

    def notice(self) -> None:
        active = self._package.active_run()
        if active is not None:
            self._run = active.info.run_id

    def write(self, values: Values, step: int) -> None:
        if self._run is None:
            raise LookupError("no run of mlflow is active: call mlflow.start_run() first")
        self._client = self._client or self._package.MlflowClient()
        now = int(1000 * time.time())
        metrics = [self._entities.Metric(_for_mlflow(name), value, now, step) for name, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)


class _Trackio(Logger):
    """The run that is current on the job's thread, or one that is given."""

    def __init__(self, run: Any = None) -> None:
        self._contexts = import_module("trackio.context_vars") if run is None else None
        self._run = run
        self.notice()

    def notice(self) -> None:
        if self._contexts is not None:
            self._run = self._contexts.current_run.get() or self._run

    def write(self, values: Values, step: int) -> None:
        if self._run is None:
            raise LookupError("no run of trackio is active: call trackio.init() first")
        self._run.log(dict(values), step=step)


class _Aim(Logger):
    """A run that is given, or one of its own: Aim knows no active run."""

    def __init__(self, name: Callable[[], str], run: Any = None) -> None:
        self._package = import_module("aim") if run is None else None
        self._name, self._run = name, run

    def write(self, values: Values, step: int) -> None:
        if self._run is None and self._package is not None:
            self._run = self._package.Run(experiment=PREFIX, system_tracking_interval=None, capture_terminal_logs=False)
            self._run.name = self._name()
        for name, value in values.items():
            self._run.track(value, name=name, step=step)

    def close(self) -> None:
        if self._run is not None and self._package is not None:
            self._run.close()
            self._run = None


class _Call(Logger):
    """A function of the values and the step."""

    def __init__(self, write: Callable[[dict[str, float], int], Any]) -> None:
        self._write = write

    def write(self, values: Values, step: int) -> None:
        self._write(dict(values), step)


def _of_object(found: Any, name: Callable[[], str]) -> Logger | None:
    """A logger of one that a job has made, by its methods."""
    if callable(getattr(found, "track", None)) and hasattr(found, "hash"):
        return _Aim(name, found)
    if type(found).__module__.partition(".")[0] == "trackio" and callable(getattr(found, "log", None)):
        return _Trackio(found)
    if callable(getattr(found, "define_metric", None)) and callable(getattr(found, "log", None)):
        return _Wandb(found)
    if callable(getattr(found, "add_scalar", None)):  # SummaryWriter of PyTorch or tensorboardX

        def scalars(values: dict[str, float], step: int) -> None:
            for tag, value in values.items():
                found.add_scalar(tag, value, global_step=step)

        return _Call(scalars)
    if callable(getattr(found, "log_metrics", None)):  # loggers of Lightning
        return _Call(lambda values, step: found.log_metrics(values, step=step))
    if callable(found) and not isinstance(found, type):
        return _Call(found)
    return None


def loggers_of(log_to: Any, name: Callable[[], str]) -> list[Logger]:
    """The loggers that `log_to` of `init` names. name: of the run, as it is in use.

    Raises ValueError for what is no logger. A package that is not installed is said, and training goes on without it.
    """
    if log_to is None:
        return []
    several = isinstance(log_to, (list, tuple, set))
    found: list[Logger] = []
    for one in log_to if several else [log_to]:
        try:
            found.append(_logger_of(one, name))
        except ImportError as error:
            log.warning("conceptwatch: log_to: %s is not installed, so nothing is logged to it (%s)", one, error)
    return found


def _logger_of(one: Any, name: Callable[[], str]) -> Logger:
    if isinstance(one, str):
        kind, colon, folder = one.partition(":")
        if kind == "tensorboard" and (folder or not colon):
            return _TensorBoard(folder or None, name)
        named: dict[str, Callable[[], Logger]] = {
            "wandb": _Wandb, "mlflow": _Mlflow, "trackio": _Trackio, "aim": lambda: _Aim(name),
        }  # fmt: skip
        if one in named:
            return named[one]()
    else:
        made = _of_object(one, name)
        if made is not None:
            return made
    raise ValueError(
        f"log_to: got {one!r}, expected 'wandb', 'tensorboard', 'tensorboard:FOLDER', 'mlflow', 'trackio', 'aim', a "
        "run or writer of these, or a function of values and step"
    )


class Forward:
    """Hands the scores of a run's settled evaluations to the job's loggers, from a thread.

    `settled` is called with the sender's lock held, so it only notes what is to be read.
    """

    def __init__(self, loggers: Sequence[Logger], warn: Callable[[str], None], read: Read) -> None:
        self._loggers, self._warn, self._read = loggers, warn, read
        self._settled: queue.SimpleQueue[PassKey | None] = queue.SimpleQueue()
        self._written: dict[PassKey, set[str]] = {}
        self._thread: threading.Thread | None = None

    def settled(self, key: PassKey) -> None:
        self._settled.put(key)

    def notice(self) -> None:
        """The job logs an evaluation, on its own thread."""
        self._each(lambda logger: logger.notice())
        if self._thread is None:
            self._thread = started(self._work, "conceptwatch loggers")

    def finish(self, timeout: float) -> None:
        """Writes what is settled. Called once nothing more will be."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._settled.put(None)
        thread.join(timeout)
        self._each(lambda logger: logger.close())

    def _work(self) -> None:
        while (key := self._settled.get()) is not None:
            for known in self._again(key.split):
                self._forward(known)
            self._forward(key)
        for known in list(self._written):
            self._forward(known)

    def _again(self, split: str) -> list[PassKey]:
        of_split = [known for known in self._written if known.split == split]
        for old in of_split[:-AGAIN]:
            del self._written[old]
        return of_split[-AGAIN:]

    def _forward(self, key: PassKey) -> None:
        split, step, _ = key
        scores = self._read(key)
        if scores is None or scores.step != step:
            return
        written = self._written.setdefault(key, set())
        values = {name: value for name, value in scores.defined.items() if name not in written}
        written.update(values)
        named = {f"{PREFIX}/{split}/{name}": value for name, value in values.items()}
        if named:
            self._each(lambda logger: logger.write(named, step))

    def _each(self, act: Callable[[Logger], None]) -> None:
        for logger in self._loggers:
            try:
                act(logger)
            except Exception as error:  # a logger must not end a training run
                kind = type(logger).__name__.strip("_").lower()
                self._warn(f"log_to: {'a logger' if kind == 'call' else kind} fails: {type(error).__name__}: {error}")


def _as_file(name: str) -> str:
    """A run's name as that of a folder."""
    return re.sub(r"[^\w\-. =]", "_", name).strip(". ") or "run"


def _for_mlflow(name: str) -> str:
    """A metric's name as MLflow accepts it. A name that changes gets a hash of its own, so that no two become one."""
    found = _OTHER.sub("_", name)
    if found == name and len(name) <= MLFLOW_LENGTH:
        return name
    return f"{found[: MLFLOW_LENGTH - 9]}-{_digest(name)[:8]}"
