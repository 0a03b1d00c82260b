"""Callbacks for Lightning that stream validation passes, log leakage and stop training by it.

    from conceptwatch.lightning import LeakageEarlyStopping, LeakageMonitor

    def extract(batch, outputs):
        x, y, c, ids = batch
        return {"concept_activations": outputs["c"], "concept_labels": c, "task_labels": y, "sample_ids": ids}

    monitor = LeakageMonitor("cub-lambda-0.1", concepts=112, extract=extract)
    Trainer(callbacks=[monitor, LeakageEarlyStopping()]).fit(module)

The packages `lightning` and `pytorch_lightning` are both served, also where both are installed.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ._run import EXIT_TIMEOUT, Run
from ._training import PREFIX, Declaration, Extract, Reading, Stream, Tap

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
# A trainer asks whether a callback is one of its own package, so these are callbacks of each that is installed.
_Callback: Any = type("_Callback", tuple(package.Callback for package in _PACKAGES), {})
_EARLY_STOPPING = tuple(package.callbacks.EarlyStopping for package in _PACKAGES)
_CHECKPOINT = tuple(package.callbacks.ModelCheckpoint for package in _PACKAGES)


class LeakageMonitor(_Callback):
    """Streams the batches of every validation during `fit`, and logs what they leak.

    `leakage/icl` and `leakage/ctl`, as far as they are defined, are in `callback_metrics` before `on_validation_end`,
    so the stock EarlyStopping and ModelCheckpoint can monitor them. They hold for this evaluation or they are absent:
    one that is late, missing or undefined is taken out, and NaN where a ModelCheckpoint monitors it, which would raise
    for an absent one. A stock EarlyStopping that monitors one is set to `strict=False`.

    name: of the run; concepts and `arguments`: as for `conceptwatch.init`, which `fit` calls with each rank's number.
    extract: from a batch and what `validation_step` returned, the tensors of `Pass.log` by name; None leaves the batch
        out. With `sample_ids` the rows that a distributed sampler repeats count once.
    method: of the module, such as "_forward": `extract` gets what its first call in the batch returned, in place of the
        step's outputs. For modules whose steps return only losses.
    splits: of the validation loaders, in their order; loaders beyond them are not streamed. Scores of the first are
        logged as `leakage/<id>`, those of others as `leakage/<id>/<split>`.
    train: stream training batches too, as the split "train".
    scores: ids of the scores to log.
    timeout: seconds that the end of a validation waits for its scores, and the end of training for what is still to be
        sent (that at least 5). 0 waits for no scores, and logs none.
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
        scores: Sequence[str] = ("icl", "ctl"),
        timeout: float = 30.0,
        **arguments: Any,
    ) -> None:
        super().__init__()
        self.splits = (splits,) if isinstance(splits, str) else tuple(splits)
        if not self.splits:
            raise ValueError("splits: none came, expected at least one name")
        self.method = method
        self.train = train
        self.timeout = timeout
        self.reading: Reading | None = None  # the newest of the first split, the same on every rank
        self._stream = Stream(name, extract, scores, {"concepts": concepts, **arguments})
        self._tap: Tap | None = None

    @property
    def run(self) -> Run | None:
        """The run, from `on_train_start` on."""
        return self._stream.run

    @property
    def state_key(self) -> str:
        return f"{type(self).__qualname__}{{'name': {self._stream.name!r}}}"

    def state_dict(self) -> dict[str, Any]:
        return self._stream.saved()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._stream.restore(state_dict)

    def key(self, score: str, split: str | None = None) -> str:
        """The name under which a score is logged."""
        return f"{PREFIX}{score}" if split in (None, self.splits[0]) else f"{PREFIX}{score}/{split}"

    # ------------------------------------------------------------ hooks, in the order of their calls

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage != "fit":
            return
        self.reading = None
        self._stream.restore({})  # a checkpoint that this `fit` continues from is loaded after this
        if self.method is not None:
            self._tap = Tap(pl_module, self.method)
        self._ease(trainer)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        # Not before: some strategies load the checkpoint, which may name the run, after `on_fit_start`.
        ranks = {"rank": trainer.global_rank, "world_size": trainer.world_size}
        declaration: Declaration | None = None
        # A sidecar that has to be started belongs to the first rank: its process ends last.
        if trainer.is_global_zero:
            declaration = self._stream.declaration(trainer.world_size)
            self._stream.start(declaration, **ranks)
        self._stream.start(trainer.strategy.broadcast(declaration), **ranks)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self.train:
            self._stream.trained("train", batch, self._outputs(outputs), trainer.global_step, _epoch(trainer))

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self._clear_tap()

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if _fitting(trainer):
            self._stream.begin(self.splits, trainer.global_step, _epoch(trainer))

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
        step = trainer.global_step
        for split in self.splits:
            reading = self._read(trainer, split, step)
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
        self._stream.finish(EXIT_TIMEOUT)

    # ------------------------------------------------------------

    def _read(self, trainer: Any, split: str, step: int) -> Reading | None:
        """As the first rank reads it, so that no rank has another score or one more."""
        reading = None
        if trainer.is_global_zero and self.timeout > 0:
            reading = self._stream.read(split, step, self.timeout)
        broadcast: Reading | None = trainer.strategy.broadcast(reading)
        return broadcast

    def _log(self, trainer: Any, pl_module: Any, key: str, value: float | None) -> None:
        if value is None and self._checkpointed(trainer, key):
            value = math.nan
        if value is None:
            trainer.callback_metrics.pop(key, None)
        else:
            # The ranks have the same value; the largest of equal ones is exact, their mean would not be.
            pl_module.log(key, value, on_step=False, on_epoch=True, sync_dist=trainer.world_size > 1, reduce_fx="max")

    def _ease(self, trainer: Any) -> None:
        """Sees to it that stock callbacks that monitor leakage do not end training when a score is missing."""
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

    It needs a `LeakageMonitor` among the trainer's callbacks. A score that is missing or undefined is no reason to stop
    and uses up no patience; one that comes late counts at the next evaluation, unless that has its own by then. Ranks
    stop together: one that is advised to stop stops all. Nothing is asked during the sanity check, nor with
    `fast_dev_run`. What was counted is in the checkpoint.

    The parameters are those of Lightning's EarlyStopping, as far as they apply:

    monitor: a score that the LeakageMonitor logs, such as "leakage/icl"; None judges by advice alone.
    min_delta: a change by less is no improvement. patience: evaluations in a row without one, after which to stop.
    verbose: log why training stops. mode: "min" or "max".
    stopping_threshold: stop once the score is better. divergence_threshold: stop once it is worse.
    advice: stop when `Run.should_stop` says so, by the sidecar's rules.
    timeout: seconds to wait for the advice.

    `strict`, `check_finite` and `check_on_train_epoch_end` have no counterpart: a score that is absent or not finite
    never stops training, and scores are those of validations.
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
            raise ValueError(f"mode: {mode!r} came, expected 'min' or 'max'")
        if monitor is None and not advice:
            raise ValueError("monitor: None came with advice=False, expected one of the two to stop by")
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
        self.judged_step = -1  # of the newest evaluation whose score has counted
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
        self.judged_step = -1  # another run, unless a checkpoint is loaded next
        monitors = [callback for callback in trainer.callbacks if isinstance(callback, LeakageMonitor)]
        if not monitors:
            raise ValueError("callbacks: no LeakageMonitor came, LeakageEarlyStopping expected one among them")
        self._leakage = monitors[0]
        logged = [self._leakage.key(score) for score in self._leakage._stream.scores]
        if self.monitor is not None and self.monitor not in logged:
            raise ValueError(f"monitor: {self.monitor!r} came, expected one of {', '.join(logged)}")

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if not _fitting(trainer) or trainer.fast_dev_run:
            return
        judged = self._judged()
        reason = self._advised(trainer.global_step) or judged
        # Every rank asks and every rank takes part: whatever one has heard, all stop or none.
        if trainer.strategy.reduce_boolean_decision(reason is not None, all=False):
            trainer.should_stop = True
            self.stopped_epoch = trainer.current_epoch
            self.stopping_reason_message = reason or "another rank was advised to stop"
            self._say(trainer, f"training stops after step {trainer.global_step}: {self.stopping_reason_message}")

    def _advised(self, step: int) -> str | None:
        run = self._leakage.run if self._leakage is not None else None
        if not self.advice or run is None or not run.should_stop(step=step, timeout=self.timeout):
            return None
        return run.stop_reason(step=step) or "the sidecar advises it"

    def _judged(self) -> str | None:
        """Why the monitored score is a reason to stop, if it is one. An evaluation counts once."""
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
        return f"{shown}, no better than {self.best_score:.4f} in {self.wait_count} evaluations"

    def _better(self, score: float, than: float, by: float = 0.0) -> bool:
        return score < than - by if self.mode == "min" else score > than + by

    def _say(self, trainer: Any, message: str) -> None:
        if self.verbose and trainer.is_global_zero:
            log.warning("conceptwatch: %s", message)


def _fitting(trainer: Any) -> bool:
    return trainer.state.fn == "fit" and not trainer.sanity_checking


def _epoch(trainer: Any) -> float:
    """Epochs so far, with the part of the present one that is done."""
    batches = trainer.num_training_batches
    done = trainer.fit_loop.batch_idx + 1
    return float(trainer.current_epoch) + (min(1.0, done / batches) if math.isfinite(batches) and batches else 0.0)
