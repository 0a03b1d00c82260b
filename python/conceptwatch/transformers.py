"""A callback for the Trainer of Transformers that streams evaluations and stops training.

For example:

    from conceptwatch.transformers import LeakageMonitor

    def extract(batch, outputs):
        return {
            "concept_activations": outputs.concepts, "concept_labels": batch["concept_labels"],
            "task_labels": batch["labels"], "sample_ids": batch["sample_ids"],
        }

    monitor = LeakageMonitor("cebab-lambda-0.1", concepts=4, extract=extract)
    Trainer(model=model, args=args, callbacks=[monitor], ...).train()
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from ._run import EXIT_TIMEOUT
from ._training import PREFIX, USUAL, Extract, Monitor, Stream, splits_of

try:
    _transformers: Any = import_module("transformers")
    _distributed: Any = import_module("torch.distributed")
except ImportError as error:
    raise ImportError(
        f"conceptwatch.transformers needs the packages transformers and torch, which cannot be imported ({error})"
    ) from error


# The key of the runs in the checkpoint's TrainerState. Not an `ExportableState`: to restore that, the Trainer
# constructs the callback from JSON, which cannot hold `extract`.
_SAVED = "conceptwatch"


class LeakageMonitor(Monitor, _transformers.TrainerCallback):
    """Streams the model's batches and outputs in every evaluation during training, and stops training by advice.

    The scores join the evaluation's metrics as `eval_leakage/ctl_conditional` and so on, for the callbacks after this
    one in the list and for `metric_for_best_model="leakage/icl"`. A late or undefined score is left out; for
    `metric_for_best_model` it is NaN.

    name: of the run; concepts, `arguments`, train, scores and timeout: as for the callback for Lightning.
    extract: from the keyword arguments of the model's forward and what it returned, the tensors of `Pass.log` by name;
        None leaves the batch out.
    module: name of a part of the model, such as "concepts": `extract` gets what its first call in the batch returned.
    splits: names for the evaluations of a step, in order, where `eval_dataset` has several. Scores of the first are
        `eval_leakage/<id>`, those of others `eval_leakage/<id>/<split>`.
    advice: stop training, on every process, when `Run.should_stop` advises it.
    """

    def __init__(
        self,
        name: str,
        *,
        concepts: Any,
        extract: Extract,
        module: str | None = None,
        splits: str | Sequence[str] = "val",
        train: bool = False,
        scores: Sequence[str] = USUAL,
        timeout: float = 30.0,
        advice: bool = True,
        **arguments: Any,
    ) -> None:
        super().__init__()
        self.splits = splits_of(splits)
        self.module = module
        self.train = train
        self.timeout = timeout
        self.advice = advice
        self.stop_reason: str | None = None
        self._stream = Stream(name, extract, scores, {"concepts": concepts, **arguments})
        self._hooks: list[Any] = []
        self._part: tuple[Any] | None = None  # what the first call of the module returned
        # The newest batch outside training, and the model's outputs for it.
        self._last: tuple[Any, Callable[[], Any]] | None = None
        self._state: Any = None
        self._open: str | None = None
        self._evaluated: tuple[int, int] = (-1, 0)  # a step, and its evaluations so far

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
        self._state, self.stop_reason = state, None
        self._stream.restore(state.stateful_callbacks.get(_SAVED, {}).get(self._stream.name, {}))
        self._start(model, args.process_index, args.world_size, self._agreed)
        self._hooks = [
            model.register_forward_pre_hook(self._before),
            model.register_forward_hook(self._after, with_kwargs=True),
        ]
        if self.module is not None:
            self._hooks.append(model.get_submodule(self.module).register_forward_hook(self._within))

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        # Here, because `on_save` is called after the state was written.
        state.stateful_callbacks.setdefault(_SAVED, {})[self._stream.name] = self._stream.saved()

    def on_prediction_step(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        last, self._last = self._last, None
        split = self._split() if last is not None else None
        if last is not None and split is not None:
            if self._open is None:
                self._begin(split)
            self._stream.evaluated(split, *last)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **others: Any) -> None:
        if not self._hooks:
            return
        step, split = state.global_step, self._split()
        self._evaluated = (step, self._evaluated[1] + 1)
        if split is None:
            return
        if self._open is None:  # there was no batch
            self._begin(split)
        self._stream.end()
        self._open = None
        reading = self._read(split, step, args.process_index, self._agreed)
        fresh = reading.values if reading is not None and reading.step == step else {}
        self._report(args, state, metrics, split, fresh)
        if self.advice and split == self.splits[0]:
            self._heed(args, step, control)

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._stream.finish(max(self.timeout, EXIT_TIMEOUT))
        self._agreed(None)

    # ------------------------------------------------------------ hooks of the model

    def _before(self, model: Any, positional: Any) -> None:
        self._part = None

    def _within(self, module: Any, positional: Any, output: Any) -> None:
        if self._part is None:
            self._part = (output,)

    def _after(self, model: Any, positional: Any, batch: dict[str, Any], output: Any) -> None:
        outputs = (lambda: output) if self.module is None else partial(self._taken, self._part)
        if not model.training:
            # The model may also be called outside evaluations: it counts once the Trainer reports a prediction step.
            self._last = (batch, outputs)
        elif self.train:
            self._stream.trained("train", batch, outputs, self._state.global_step, self._state.epoch)

    def _taken(self, part: tuple[Any] | None) -> Any:
        if part is None:
            raise LookupError(f"module: the model did not call {self.module!r} for a batch")
        return part[0]

    # ------------------------------------------------------------

    def _split(self) -> str | None:
        """The split of the current evaluation."""
        step, before = self._evaluated
        if step != self._state.global_step:
            before = 0
            self._evaluated = (self._state.global_step, 0)
        return self.splits[before] if before < len(self.splits) else None

    def _begin(self, split: str) -> None:
        self._open = split
        self._stream.begin([split], self._state.global_step, self._state.epoch)

    def _report(self, args: Any, state: Any, metrics: Any, split: str, fresh: Any) -> None:
        best = str(args.metric_for_best_model or "").removeprefix("eval_")
        found = {}
        for score in self._stream.scores:
            name = f"{PREFIX}{score}" if split == self.splits[0] else f"{PREFIX}{score}/{split}"
            value = fresh.get(score, math.nan if name == best else None)
            if value is not None:
                found[f"eval_{name}"] = value
        if metrics is not None:
            metrics.update(found)
        if state.log_history and state.log_history[-1].get("step") == state.global_step:
            state.log_history[-1].update(found)

    def _heed(self, args: Any, step: int, control: Any) -> None:
        reason = self._agreed(self._stream.advice(step, self.timeout) if args.process_index == 0 else None)
        if reason is not None:
            self.stop_reason = reason
            control.should_training_stop = True

    @staticmethod
    def _agreed(value: Any) -> Any:
        """The first process's value, on every process."""
        if not (_distributed.is_available() and _distributed.is_initialized()):
            return value
        values = [value]
        _distributed.broadcast_object_list(values, src=0)
        return values[0]
