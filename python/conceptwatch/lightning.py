"""Callbacks for Lightning that stream validation passes, log their leakage and stop training.

    from conceptwatch.lightning import LeakageEarlyStopping, LeakageMonitor

    def extract(batch, outputs):
        x, y, c, ids = batch
        return {"concept_activations": outputs["c"], "concept_labels": c, "task_labels": y, "sample_ids": ids}

    monitor = LeakageMonitor("cub-lambda-0.1", concepts=112, extract=extract)
    Trainer(callbacks=[monitor, LeakageEarlyStopping()]).fit(module)

Both packages, `lightning` and `pytorch_lightning`, are supported, also side by side.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ._run import EXIT_TIMEOUT
from ._summary import counted
from ._training import PREFIX, USUAL, Extract, Monitor, Reading, Stream, Tap, check_scores, splits_of

log = logging.getLogger("conceptwatch")


def _packages() -> list[Any]:
    found = []
    for name in ("lightning.pytorch", "pytorch_lightning"):
        try:
            found.append(import_module(name))
        except ImportError:
            continue
    if not found:
        raise ImportError("conceptwatch.lightning needs the package lightning or pytorch-lightning")
    return found


_PACKAGES = _packages()
# A trainer accepts only callbacks of its own package, so these derive from that of each installed one.
_Callback: Any = type("_Callback", tuple(package.Callback for package in _PACKAGES), {})
_EARLY_STOPPING = tuple(package.callbacks.EarlyStopping for package in _PACKAGES)
_CHECKPOINT = tuple(package.callbacks.ModelCheckpoint for package in _PACKAGES)


class LeakageMonitor(Monitor, _Callback):
    """Streams the batches of every validation during `fit`, and logs their leakage.

    `leakage/ctl_conditional` and the other `scores` are in `callback_metrics` before `on_validation_end`. A late or
    undefined score is absent, or NaN where a ModelCheckpoint monitors it.

    name: of the run; concepts and `arguments`: as for `conceptwatch.init`. `head` may also be the name of a part of the
        module, such as "model.head"; the head of one batch is the entry "head" of what `extract` returns.
    extract: from a batch and what `validation_step` returned, the tensors of `Pass.log` by name; None leaves the batch
        out.
    method: of the module, such as "_forward": `extract` gets what its first call in the batch returned, for modules
        whose steps return only losses.
    splits: names for the validation loaders, in order; loaders beyond them are not streamed. Scores of the first are
        logged as `leakage/<id>`, of others as `leakage/<id>/<split>`.
    train: also stream training batches, as the split "train".
    scores: ids of the scores to log, besides those that a stock EarlyStopping or ModelCheckpoint monitors; or
        "accuracy_less_leakage".
    timeout: seconds that the end of a validation waits for its scores. With 0 no scores are logged.
    """

    def __init__(
        self,
        name: str,
        *,
        concepts: Any,
        extract: Extract,
        method: str | None = None,
        splits: str | Sequence[str] = "val",
        train: bool = False,
        scores: Sequence[str] = USUAL,
        timeout: float = 30.0,
        **arguments: Any,
    ) -> None:
        super().__init__()
        self.splits = splits_of(splits)
        self.method = method
        self.train = train
        self.timeout = timeout
        self.reading: Reading | None = None  # the newest of the first split, the same on every rank
        self._stream = Stream(name, extract, scores, {"concepts": concepts, **arguments})
        self._tap: Tap | None = None

    def key(self, score: str, split: str | None = None) -> str:
        """The name under which a score is logged."""
        return f"{PREFIX}{score}" if split in (None, self.splits[0]) else f"{PREFIX}{score}/{split}"

    @property
    def state_key(self) -> str:
        return f"{type(self).__qualname__}{{'name': {self._stream.name!r}}}"

    def state_dict(self) -> dict[str, Any]:
        return self._stream.saved()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._stream.restore(state_dict)

    def step(self, trainer: Any) -> int:
        """The optimiser's steps so far, or batches where the module steps optimisers that Lightning does not count."""
        if trainer.global_step or trainer.lightning_module.automatic_optimization:
            return int(trainer.global_step)
        batches = int(trainer.fit_loop.epoch_loop.total_batch_idx) + 1
        if batches and self._stream.run is not None:
            self._stream.run._link.warn(
                "global_step stays 0, because the module's manual optimisation does not step Lightning's optimisers: "
                "batches are counted instead",
                is_fault=False,
            )
        return batches

    # ------------------------------------------------------------ hooks, in the order they are called

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage != "fit":
            return
        self.reading = None
        self._stream.restore({})  # if this `fit` starts from a checkpoint, it is loaded after this
        if self.method is not None:
            self._tap = Tap(pl_module, self.method)
        self._ease(trainer)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        # Not earlier: some strategies load the checkpoint, which may name the run, after `on_fit_start`.
        self._start(pl_module, trainer.global_rank, trainer.world_size, trainer.strategy.broadcast)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self.train:
            self._stream.trained("train", batch, self._outputs(outputs), self.step(trainer), _epoch(trainer))

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self._clear_tap()

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if _fitting(trainer):
            self._stream.begin(self.splits, self.step(trainer), _epoch(trainer))

    def on_validation_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        self._clear_tap()

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if _fitting(trainer) and dataloader_idx < len(self.splits):
            self._stream.evaluated(self.splits[dataloader_idx], batch, self._outputs(outputs))

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if not _fitting(trainer):
            return
        self._stream.end()
        step = self.step(trainer)
        for split in self.splits:
            reading = self._read(split, step, trainer.global_rank, trainer.strategy.broadcast)
            if split == self.splits[0]:
                self.reading = reading
            fresh = reading.values if reading is not None and reading.step == step else {}
            for score in self._stream.scores:
                self._log(trainer, pl_module, self.key(score, split), fresh.get(score))

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._close_tap()
        self._stream.finish(max(self.timeout, EXIT_TIMEOUT))
        trainer.strategy.barrier("conceptwatch finished")

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._close_tap()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._close_tap()
        self._stream.end(exception)
        if self._stream.run is not None:
            self._stream.run._error = exception  # for what is printed at its end
        self._stream.finish(EXIT_TIMEOUT)

    # ------------------------------------------------------------

    def _log(self, trainer: Any, pl_module: Any, key: str, value: float | None) -> None:
        if value is None and self._checkpointed(trainer, key):
            value = math.nan
        if value is None:
            trainer.callback_metrics.pop(key, None)
        else:
            # All ranks have the same value. Their maximum is exact; their mean might be rounded.
            pl_module.log(key, value, on_step=False, on_epoch=True, sync_dist=trainer.world_size > 1, reduce_fx="max")

    def _ease(self, trainer: Any) -> None:
        """Reports what stock callbacks monitor, and keeps them from ending training when a score is missing."""
        stock: Any = (*_EARLY_STOPPING, *_CHECKPOINT)
        watched = [callback.monitor for callback in trainer.callbacks if isinstance(callback, stock)]
        scores = [str(key).removeprefix(PREFIX).split("/")[0] for key in watched if str(key).startswith(PREFIX)]
        check_scores("monitor", scores)
        self._stream.scores = tuple(dict.fromkeys((*self._stream.scores, *scores)))
        keys = {self.key(score, split) for score in self._stream.scores for split in self.splits}
        for callback in trainer.callbacks:
            if isinstance(callback, _EARLY_STOPPING) and callback.monitor in keys:
                callback.strict = False
                if self._checkpointed(trainer, callback.monitor):
                    callback.check_finite = False

    @staticmethod
    def _checkpointed(trainer: Any, key: str) -> bool:
        return any(isinstance(callback, _CHECKPOINT) and callback.monitor == key for callback in trainer.callbacks)

    def _outputs(self, outputs: Any) -> Any:
        return (lambda: outputs) if self._tap is None else self._tap.take

    def _clear_tap(self) -> None:
        if self._tap is not None:
            self._tap.clear()

    def _close_tap(self) -> None:
        if self._tap is not None:
            self._tap.close()
            self._tap = None


class LeakageEarlyStopping(_Callback):
    """Stops training when the sidecar advises it, or when a leakage score does not improve or is too high.

    Needs a `LeakageMonitor` among the trainer's callbacks. A missing or undefined score neither stops training nor uses
    up patience; a late one counts at the next evaluation. Advice to one rank stops all. Its counters are in the
    checkpoint.

    monitor: a score that the LeakageMonitor logs, such as "leakage/icl"; None for advice alone.
    advice: stop when `Run.should_stop` advises it.
    timeout: seconds to wait for the advice.

    The others are those of Lightning's EarlyStopping; `strict`, `check_finite` and `check_on_train_epoch_end` have no
    counterpart.
    """

    def __init__(
        self,
        monitor: str | None = None,
        min_delta: float = 0.0,
        patience: int = 3,
        verbose: bool = False,
        mode: str = "min",
        stopping_threshold: float | None = None,
        divergence_threshold: float | None = None,
        *,
        advice: bool = True,
        timeout: float = 10.0,
    ) -> None:
        super().__init__()
        if mode not in ("min", "max"):
            raise ValueError(f"mode: got {mode!r}, expected 'min' or 'max'")
        if monitor is None and not advice:
            raise ValueError("monitor: there is nothing to stop on; pass a score as monitor, advice=True, or both")
        self.monitor = monitor
        self.min_delta = abs(min_delta)
        self.patience = patience
        self.verbose = verbose
        self.mode = mode
        self.stopping_threshold = stopping_threshold
        self.divergence_threshold = divergence_threshold
        self.advice = advice
        self.timeout = timeout
        self.wait_count = 0
        self.best_score: float | None = None
        self.judged_step = -1  # of the newest evaluation whose score was counted
        self.stopped_epoch = 0
        self.stopping_reason_message: str | None = None
        self._leakage: LeakageMonitor | None = None

    @property
    def state_key(self) -> str:
        return f"{type(self).__qualname__}{{'monitor': {self.monitor!r}, 'mode': {self.mode!r}}}"

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._STATE}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for name in self._STATE:
            setattr(self, name, state_dict[name])

    _STATE = ("wait_count", "best_score", "judged_step", "patience", "stopped_epoch", "stopping_reason_message")

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage != "fit":
            return
        self.judged_step = -1  # steps may start again; a checkpoint is loaded after this
        monitors = [callback for callback in trainer.callbacks if isinstance(callback, LeakageMonitor)]
        if not monitors:
            raise ValueError("callbacks: LeakageEarlyStopping needs a LeakageMonitor among them")
        self._leakage = monitors[0]
        logged = [self._leakage.key(score) for score in self._leakage._stream.scores]
        if self.monitor is not None and self.monitor not in logged:
            raise ValueError(f"monitor: got {self.monitor!r}, expected one of {', '.join(logged)}")

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if not _fitting(trainer) or trainer.fast_dev_run:
            return
        reason = self._judged()
        step = self._leakage.step(trainer) if self._leakage is not None else trainer.global_step
        if self.advice and self._leakage is not None:
            reason = self._leakage._stream.advice(step, self.timeout) or reason
        # Every rank asks and takes part in the reduction, so that all ranks stop or none does.
        if trainer.strategy.reduce_boolean_decision(reason is not None, all=False):
            trainer.should_stop = True
            self.stopped_epoch = trainer.current_epoch
            self.stopping_reason_message = reason or "another rank was advised to stop"
            self._say(trainer, f"training stops after step {step}: {self.stopping_reason_message}")

    def _judged(self) -> str | None:
        """The reason to stop by the monitored score, if any. Each evaluation counts once."""
        reading = self._leakage.reading if self._leakage is not None else None
        if self.monitor is None or reading is None or reading.step <= self.judged_step:
            return None
        current = reading.values.get(self.monitor.removeprefix(PREFIX))
        if current is None:
            return None
        self.judged_step = reading.step
        shown = f"{self.monitor} is {current:.4f} at step {reading.step}"
        if self.stopping_threshold is not None and self._better(current, self.stopping_threshold):
            return f"{shown}, better than the stopping threshold of {self.stopping_threshold:g}"
        if self.divergence_threshold is not None and self._better(self.divergence_threshold, current):
            return f"{shown}, worse than the divergence threshold of {self.divergence_threshold:g}"
        if self.best_score is None or self._better(current, self.best_score, self.min_delta):
            self.best_score, self.wait_count = current, 0
            return None
        self.wait_count += 1
        if self.wait_count < self.patience:
            return None
        return f"{shown}, no better than {self.best_score:.4f} for {counted(self.wait_count, 'evaluation')}"

    def _better(self, score: float, than: float, by: float = 0.0) -> bool:
        return score < than - by if self.mode == "min" else score > than + by

    def _say(self, trainer: Any, message: str) -> None:
        if self.verbose and trainer.is_global_zero:
            log.warning("conceptwatch: %s", message)


def _fitting(trainer: Any) -> bool:
    return trainer.state.fn == "fit" and not trainer.sanity_checking


def _epoch(trainer: Any) -> float:
    """Epochs so far, including the completed part of the current one."""
    batches = trainer.num_training_batches
    done = trainer.fit_loop.batch_idx + 1
    return float(trainer.current_epoch) + (min(1.0, done / batches) if math.isfinite(batches) and batches else 0.0)
