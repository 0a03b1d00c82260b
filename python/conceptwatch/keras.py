"""A callback for Keras 3, on any backend, that evaluates a probe set at the end of every epoch.

For example:

    from conceptwatch.keras import LeakageMonitor

    monitor = LeakageMonitor(
        "cub-lambda-0.1", concepts=112, inputs=x_val, labels={"concept_labels": c_val, "task_labels": y_val},
        outputs={"concept_activations": "concepts", "task_logits": "task"},
    )
    stopping = keras.callbacks.EarlyStopping("leakage/icl", mode="min", patience=3)
    model.fit(x, [c, y], callbacks=[monitor, stopping])
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._head import Head
from ._launch import _digest
from ._run import EXIT_TIMEOUT, Run
from ._training import PREFIX, USUAL, Stream

try:
    _keras: Any = import_module("keras")
except ImportError as error:
    raise ImportError(f"conceptwatch.keras needs the package keras, which cannot be imported ({error})") from error

log = logging.getLogger("conceptwatch")

Outputs = Mapping[str, Any] | Callable[[Any], Mapping[str, Any]]


class LeakageMonitor(_keras.callbacks.Callback):
    """Runs a probe set through the model at the end of every epoch, and adds its leakage to `logs`.

    `leakage/ctl_conditional` and the other `scores` are in the history, and in `logs` for callbacks that follow this
    one in the list, such as Keras' EarlyStopping (with `mode="min"`). A late or undefined score is absent.

    name: of the run; concepts and `arguments`: as for `conceptwatch.init`.
    inputs: model inputs for the n rows of the probe set: an array, or a list or dict of arrays.
    labels: tensors of `Pass.log` by name for the same rows, such as concept_labels and task_labels.
    outputs: tensors of `Pass.log` by name, each as a layer's name or a symbolic tensor of a functional model; for other
        models a function from a batch of inputs to these tensors.
    head: the layer that predicts the task, by name or symbolic tensor; else as for `conceptwatch.init`.
    batch_size: rows per call of the model.
    scores: ids of the scores to add to `logs`.
    timeout: seconds that the end of an epoch waits for its scores. With 0 `logs` get no scores.
    advice: stop training when `Run.should_stop` advises it.
    backup_dir: the folder of a keras.callbacks.BackupAndRestore among the callbacks: a training that it restores
        continues its run.
    """

    def __init__(
        self,
        name: str,
        *,
        concepts: Any,
        inputs: Any,
        labels: Mapping[str, Any],
        outputs: Outputs,
        head: Any = None,
        split: str = "val",
        batch_size: int = 256,
        scores: Sequence[str] = USUAL,
        timeout: float = 30.0,
        advice: bool = False,
        backup_dir: str | os.PathLike[str] | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__()
        self._saved = None if backup_dir is None else Path(backup_dir) / f"conceptwatch-{_digest(name)[:16]}.json"
        rows = {len(array) for array in (*_keras.tree.flatten(inputs), *labels.values())}
        if len(rows) != 1:
            raise ValueError(f"labels: inputs and labels differ in their numbers of rows: {sorted(rows)}")
        self.split = split
        self.timeout = timeout
        self.advice = advice
        self.stop_reason: str | None = None
        self._inputs = inputs
        self._rows = rows.pop()
        self._labels = {"sample_ids": np.arange(self._rows), **labels}
        self._batch_size = batch_size
        self._outputs = outputs
        self._head = head
        self._probe: Callable[[Any], Mapping[str, Any]] | None = None
        self._sigmoid_task = False
        self._stream = Stream(name, self._extract, scores, {"concepts": concepts, **arguments})

    @property
    def run(self) -> Run | None:
        """The run, once `fit` has started."""
        return self._stream.run

    def on_train_begin(self, logs: Any = None) -> None:
        self.stop_reason = None
        self._probe = self._outputs if callable(self._outputs) else self._sub_model(self._outputs)
        self._restore()
        self._stream.start(self._stream.declaration(), head=self._found_head())

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        # A LossScaleOptimizer's own count may stand still: the optimiser inside counts (keras#20878).
        optimizer = getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)
        step = int(_keras.ops.convert_to_numpy(optimizer.iterations))
        self._stream.begin([self.split], step, epoch + 1)
        for start in range(0, self._rows, self._batch_size):
            part = slice(start, start + self._batch_size)
            self._stream.evaluated(self.split, part, lambda part=part: self._outputs_of(part))  # type: ignore[misc]
        self._stream.end()
        self._save()
        reading = self._stream.read(self.split, step, self.timeout) if self.timeout > 0 else None
        if logs is not None and reading is not None and reading.step == step:
            logs.update({PREFIX + score: value for score, value in reading.values.items()})
        reason = self._stream.advice(step, self.timeout) if self.advice else None
        if reason is not None:
            self.stop_reason, self.model.stop_training = reason, True

    def _restore(self) -> None:
        """Makes the run that is about to start that of the backup, if there is one."""
        if self._saved is not None and self._stream.run is None and self._saved.exists():
            try:
                self._stream.restore(json.loads(self._saved.read_text(encoding="utf-8")))
            except (OSError, ValueError, AttributeError) as error:
                log.warning("conceptwatch: %s cannot be read, so a new run begins: %s", self._saved, error)

    def _save(self) -> None:
        saved = self._stream.saved()
        if self._saved is None or not saved:
            return
        try:
            self._saved.parent.mkdir(parents=True, exist_ok=True)
            unfinished = self._saved.with_suffix(".tmp")
            unfinished.write_text(json.dumps(saved), encoding="utf-8")
            unfinished.replace(self._saved)
        except OSError as error:
            assert self._stream.run is not None
            self._stream.run._link.warn(f"backup_dir: {self._saved} cannot be written: {error}", is_fault=False)

    def on_train_end(self, logs: Any = None) -> None:
        self._stream.finish(max(self.timeout, EXIT_TIMEOUT))

    def _sub_model(self, outputs: Mapping[str, Any]) -> Callable[[Any], Mapping[str, Any]]:
        tensors = {
            name: self.model.get_layer(output).output if isinstance(output, str) else output
            for name, output in outputs.items()
        }
        task = outputs.get("task_logits")
        self._sigmoid_task = task is not None and _is_sigmoid(self._layer(task))
        # It shares the layers, and so the weights.
        model = _keras.Model(self.model.inputs, tensors)

        def probe(inputs: Any) -> Mapping[str, Any]:
            found: Mapping[str, Any] = model.predict_on_batch(inputs)
            return found

        return probe

    def _layer(self, output: Any) -> Any:
        """The layer of this name, or that makes this symbolic tensor."""
        return self.model.get_layer(output) if isinstance(output, str) else output._keras_history.operation

    def _found_head(self) -> Any:
        head = self._head
        symbolic = isinstance(head, _keras.KerasTensor)
        if not (isinstance(head, str) or symbolic):
            return head
        if callable(self._outputs) or "concept_activations" not in self._outputs:
            raise ValueError(
                f"head: got {head!r}, expected a function, because outputs name no layer for concept_activations"
            )
        concepts = self._outputs["concept_activations"]
        concepts = self.model.get_layer(concepts).output if isinstance(concepts, str) else concepts
        layer = self._layer(head)
        # It shares the layers, and so the weights.
        part = _keras.Model(concepts, head if symbolic else layer.output)
        threshold = 0.5 if _is_sigmoid(layer) else 0.0
        return Head(lambda values: _array(part(values, training=False)), threshold=threshold)

    def _outputs_of(self, part: slice) -> Mapping[str, Any]:
        assert self._probe is not None
        return self._probe(_keras.tree.map_structure(lambda array: array[part], self._inputs))

    def _extract(self, part: slice, outputs: Mapping[str, Any]) -> dict[str, Any]:
        tensors = {name: values[part] for name, values in self._labels.items()}
        found = {name: _array(output) for name, output in outputs.items()}
        if self._sigmoid_task:
            found["task_logits"] = _logits(found["task_logits"])
        return {**tensors, **found}


def _is_sigmoid(layer: Any) -> bool:
    return getattr(getattr(layer, "activation", None), "__name__", "") == "sigmoid"


def _logits(probabilities: NDArray[Any]) -> NDArray[Any]:
    """The logits of a sigmoid's outputs. Where it is saturated they are the most that its precision tells apart."""
    limits = np.finfo(probabilities.dtype)
    inside = np.clip(probabilities, limits.tiny, 1 - limits.epsneg)
    logits: NDArray[Any] = np.log(inside) - np.log1p(-inside)
    return logits


def _array(output: Any) -> NDArray[Any]:
    array: NDArray[Any] = np.asarray(_keras.ops.convert_to_numpy(output))
    # numpy itself has no bfloat16.
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array
