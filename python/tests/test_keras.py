"""The Keras callback in real trainings; the backend is JAX unless KERAS_BACKEND says otherwise."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conftest import Warned
from real_sidecar import curve
from sidecar import Sidecar

TRAIN_ROWS, PROBE_ROWS, BATCH = 4000, 1000, 250
EPOCH_STEPS = TRAIN_ROWS // BATCH


class Rows:
    """Three hidden Gaussians; a concept is the sign of one, the task that most are positive."""

    def __init__(self, rows: int, seed: int) -> None:
        z = np.random.default_rng(seed).multivariate_normal(np.zeros(3), np.full((3, 3), 0.25) + 0.75 * np.eye(3), rows)
        waves = np.stack([np.sin(z) + z, np.cos(z) + z], axis=2).reshape(rows, 6)
        self.x = np.concatenate([waves, (z**2).sum(1, keepdims=True)], axis=1).astype(np.float32)
        self.c = (z > 0).astype(np.float32)
        self.y = (self.c.sum(1) >= 2).astype(np.float32)


PROBE = Rows(PROBE_ROWS, 1)


def bottleneck(keras: Any, concept_weight: float) -> Any:
    keras.utils.set_random_seed(0)
    x = keras.Input([7])
    hidden = keras.layers.Dense(64, "relu")(keras.layers.Dense(64, "relu")(x))
    concepts = keras.layers.Dense(3, "sigmoid", name="concepts")(hidden)
    model = keras.Model(x, [concepts, keras.layers.Dense(1, "sigmoid", name="task")(concepts)])
    model.compile(keras.optimizers.Adam(3e-3), ["binary_crossentropy"] * 2, loss_weights=[concept_weight, 1.0])
    return model


def leakage_monitor(name: str, address: str, **options: Any) -> Any:
    options = {
        "inputs": PROBE.x,
        "labels": {"concept_labels": PROBE.c, "task_labels": PROBE.y},
        "outputs": {"concept_activations": "concepts"},
        "batch_size": 300,
        "timeout": 120.0,
        "raise_errors": True,
        **options,
    }
    monitor = importlib.import_module("conceptwatch.keras").LeakageMonitor
    return monitor(name, concepts=3, address=address, spawn=False, **options)


def fit(model: Any, *callbacks: Any, epochs: int = 8) -> dict[str, list[float]]:
    rows = Rows(TRAIN_ROWS, 0)
    done = model.fit(rows.x, [rows.c, rows.y], batch_size=BATCH, epochs=epochs, callbacks=list(callbacks), verbose=0)
    history: dict[str, list[float]] = done.history
    return history


def test_keras_stops_by_a_score_in_the_logs(keras: Any, address: str) -> None:
    stopping = keras.callbacks.EarlyStopping("leakage/icl", mode="min", patience=2)
    monitor = leakage_monitor("early stopping", address)
    history = fit(bottleneck(keras, 0.01), monitor, stopping, epochs=12)

    icl, ctl = curve(address, "early stopping"), curve(address, "early stopping", "ctl")
    assert history["leakage/icl"] == [point["value"] for point in icl]
    assert history["leakage/ctl"] == [point["value"] for point in ctl]
    epochs = len(icl)
    assert [(point["step"], point["epoch"]) for point in icl] == [(EPOCH_STEPS * n, n) for n in range(1, epochs + 1)]
    assert all(point["rows"] == PROBE_ROWS and not point["incomplete"] for point in icl)
    # It stopped after the second epoch in a row without a new minimum, and not before.
    values = history["leakage/icl"]
    assert epochs < 12
    assert int(np.argmin(values)) == epochs - 3
    assert monitor.run.stats.batches_dropped == {}


def test_steps_are_those_of_the_optimiser_that_scales_losses(
    keras: Any, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """keras#20878: until Keras 3.9 the count of a LossScaleOptimizer stood still."""
    scaling = keras.optimizers.LossScaleOptimizer
    monkeypatch.setattr(scaling, "iterations", property(lambda self: np.zeros(()), lambda self, value: None))
    model = bottleneck(keras, 5.0)
    model.compile(scaling(keras.optimizers.Adam(3e-3), initial_scale=1.0), ["binary_crossentropy"] * 2)
    monitor = leakage_monitor("scaled", address)
    fit(model, monitor, epochs=2)
    assert [point["step"] for point in curve(address, "scaled")] == [EPOCH_STEPS, 2 * EPOCH_STEPS]


def test_keras_stops_by_advice(keras: Any, address: str) -> None:
    monitor = leakage_monitor("advised", address, advice=True)
    history = fit(bottleneck(keras, 0.01), monitor)
    assert "interconcept leakage is high" in monitor.stop_reason
    assert len(history["loss"]) == len(curve(address, "advised")) < 8
    assert max(history["leakage/icl"]) > 0.25


def test_the_head_is_the_part_between_two_layers(keras: Any, address: str) -> None:
    model = bottleneck(keras, 5.0)
    task = model.get_layer("task")
    task.set_weights([np.full((3, 1), 4.0), np.array([-6.0])])  # the most of three concepts
    heads = {"layer": "task", "tensor": model.outputs[1], "function": conceptwatch.Head(task, threshold=0.5)}
    monitors = {name: leakage_monitor(f"head {name}", address, head=head) for name, head in heads.items()}
    fit(model, *monitors.values(), epochs=2)
    truth = task(PROBE.c)
    for name, monitor in monitors.items():
        assert monitor.run.stats.heads_failed == 0, name
        accuracy, drop, misled = (
            curve(address, f"head {name}", score)[-1]["value"]
            for score in ("intervened_task_accuracy", "intervention_drop", "wrong_intervention_drop")
        )
        assert accuracy == pytest.approx(np.mean((np.asarray(truth)[:, 0] > 0.5) == PROBE.y)), name
        assert accuracy == 1.0, name
        assert drop <= 0.0, name
        assert misled > 0.5, name


def test_a_sigmoid_given_as_task_logits_is_compared_with_one_half(keras: Any, address: str) -> None:
    model = bottleneck(keras, 5.0)
    names = ("concept_activations", "task_logits")
    outputs: dict[str, Any] = {
        "layer": {"concept_activations": "concepts", "task_logits": "task"},
        "tensor": {"concept_activations": "concepts", "task_logits": model.outputs[1]},
        "function": lambda x: dict(zip(names, model(x, training=False), strict=True)),
    }
    fit(model, *(leakage_monitor(f"sigmoid {given}", address, outputs=outputs[given]) for given in outputs), epochs=4)
    right = (np.asarray(model.predict(PROBE.x, verbose=0)[1])[:, 0] > 0.5) == PROBE.y
    for given in outputs:
        assert curve(address, f"sigmoid {given}", "task_accuracy")[-1]["value"] == pytest.approx(np.mean(right)), given
    assert np.mean(right) != pytest.approx(np.mean(PROBE.y)), "not all are predicted present"


def test_a_head_without_its_concepts_layer_is_an_error(keras: Any, address: str) -> None:
    monitor = leakage_monitor("no layer", address, outputs=lambda x: {"concept_activations": x[:, :3]}, head="task")
    with pytest.raises(ValueError, match="head: got 'task', expected a function"):
        fit(bottleneck(keras, 5.0), monitor, epochs=1)


def test_without_scores_keras_goes_on(keras: Any, sidecar: Sidecar) -> None:
    stopping = keras.callbacks.EarlyStopping("leakage/icl", mode="min", patience=0)
    monitor = leakage_monitor("run", sidecar.serve(), timeout=0.2)
    with pytest.warns(UserWarning, match="leakage/icl"):
        history = fit(bottleneck(keras, 1.0), monitor, stopping, epochs=3)
    assert len(history["loss"]) == 3
    assert "leakage/icl" not in history
    assert sidecar.finished == ["run"]


def test_a_failing_probe_is_said_and_counted(keras: Any, sidecar: Sidecar, warned: Warned) -> None:
    def outputs(x: Any) -> dict[str, Any]:
        raise RuntimeError("no such layer")

    monitor = leakage_monitor("run", sidecar.serve(), outputs=outputs, timeout=0.0, raise_errors=False)
    fit(bottleneck(keras, 1.0), monitor, epochs=1)
    assert monitor.run.stats.batches_dropped == {"invalid": 4}
    assert warned() == [
        "conceptwatch, run 'run': extract: RuntimeError: no such layer. The batch of 'val' was dropped; "
        "run.stats.batches_dropped counts such batches"
    ]


def test_a_probe_set_of_unequal_rows_is_an_error(keras: Any) -> None:
    with pytest.raises(ValueError, match="labels"):
        leakage_monitor("run", "127.0.0.1:1", labels={"concept_labels": PROBE.c[:-1]})
