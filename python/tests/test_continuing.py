"""The run that the callbacks stream to: one for all ranks, continued where its training continues."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import test_keras
from test_launch import Naming

import conceptwatch
from conftest import package, wait_for


@pytest.fixture
def taken() -> Iterator[Naming]:
    """A sidecar that already has a run of the callbacks' name."""
    server = Naming()
    server.address = server.serve()
    assert conceptwatch.init("run", concepts=3, address=server.address, spawn=False).finish()
    server.starts.clear()
    server.finished.clear()
    yield server
    server.close()


def declared(sidecar: Naming) -> list[tuple[str, bool]]:
    return [(request.run.name, request.resume) for request in sidecar.starts]


def jobs(sidecar: Naming) -> int:
    return len({request.job for request in sidecar.starts})


def named(monitor: Any) -> None:
    """Waits until the sidecar has named the run: a checkpoint from before that names none."""
    wait_for(lambda: monitor.run is not None and monitor.run._link.answered)


# ---------------------------------------------------------------- Lightning


def lightning_monitor(sidecar: Naming, name: str = "run", **options: Any) -> Any:
    package("lightning")
    return importlib.import_module("toy").monitor(name, sidecar.address, timeout=0.0, **options)


def fit(monitor: Any, folder: Path, *callbacks: Any, **options: Any) -> None:
    pl, toy = package("lightning.pytorch"), importlib.import_module("toy")
    trainer = toy.trainer(
        pl, monitor, *callbacks, pl.callbacks.ModelCheckpoint(folder, save_last=True),
        max_epochs=options.pop("epochs", 1), limit_train_batches=1, limit_val_batches=1, enable_checkpointing=True,
    )  # fmt: skip
    trainer.fit(toy.module(pl, 1.0), *toy.loaders(), **options)


def test_another_fit_of_lightning_continues_the_run(taken: Naming, tmp_path: Path) -> None:
    monitor = lightning_monitor(taken)
    fit(monitor, tmp_path)
    fit(monitor, tmp_path)
    assert declared(taken) == [("run", False), ("run-2", True)]
    assert jobs(taken) == 1
    assert [start.attempt for start in taken.starts] == [0, 1], "its model's steps begin again"
    assert taken.finished == ["run-2", "run-2"]
    # Another callback is another training.
    fit(lightning_monitor(taken), tmp_path)
    assert declared(taken)[2:] == [("run", False)]
    assert taken.finished[2:] == ["run-3"]


def test_lightning_continues_the_run_of_a_checkpoint(taken: Naming, tmp_path: Path) -> None:
    pl = package("lightning.pytorch")
    first = lightning_monitor(taken)
    fit(first, tmp_path, pl.callbacks.LambdaCallback(on_train_start=lambda *_: named(first)))
    restored = lightning_monitor(taken)
    fit(restored, tmp_path, epochs=2, ckpt_path=str(tmp_path / "last.ckpt"))
    assert declared(taken) == [("run", False), ("run-2", True)]
    assert jobs(taken) == 2
    assert restored.run.name == "run-2"
    # A callback of another name is no part of that training.
    fit(lightning_monitor(taken, "other"), tmp_path, epochs=3, ckpt_path=str(tmp_path / "last.ckpt"))
    assert declared(taken)[2:] == [("other", False)]


def test_a_run_that_no_sidecar_has_named_is_continued_by_its_job_alone(
    taken: Naming, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = lightning_monitor(taken)
    address, monitor._stream._arguments["address"] = taken.address, "127.0.0.1:1"
    assert monitor.state_dict() == {}
    with monkeypatch.context() as impatient:
        impatient.setattr("conceptwatch.lightning.EXIT_TIMEOUT", 0.2)
        fit(monitor, tmp_path)
    assert monitor.state_dict() == {}, "a checkpoint names it by nothing"
    job = monitor.run.job
    monitor._stream._arguments["address"] = address
    fit(monitor, tmp_path)
    # Resuming by name would continue the run of another job.
    assert declared(taken) == [("run", False)]
    assert taken.starts[0].job == job
    assert monitor.run.name == "run-2"


def test_a_disabled_callback_trains(tmp_path: Path) -> None:
    nowhere = Naming()
    monitor = lightning_monitor(nowhere, mode="disabled", train=True)
    for extract in (lambda batch, outputs: {}, lambda batch, outputs: batch["no such key"]):
        monitor._stream._extract = extract
        fit(monitor, tmp_path)
    assert monitor.state_dict() == {}


@pytest.mark.parametrize("launcher", [None, "3d1f"])
def test_lightning_ranks_agree_on_the_job_of_the_first(
    taken: Naming, monkeypatch: pytest.MonkeyPatch, launcher: str | None
) -> None:
    if launcher is not None:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", launcher)
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    sent: list[Any] = []

    def broadcast(value: Any) -> Any:
        sent.append(value)
        return sent[0]

    for rank in (0, 1):
        trainer = SimpleNamespace(
            global_rank=rank, world_size=2, is_global_zero=rank == 0, strategy=SimpleNamespace(broadcast=broadcast)
        )
        monitor = lightning_monitor(taken)
        monitor.on_train_start(trainer, None)
        monitor.run.finish()
    assert [(request.rank, request.attempt) for request in taken.starts] == [
        (0, 2 * (launcher is not None)),
        (1, 2 * (launcher is not None)),
    ]
    assert jobs(taken) == 1
    assert taken.starts[0].job.startswith(launcher or "")
    assert taken.finished == ["run-2", "run-2"]


# ---------------------------------------------------------------- Transformers


def train(sidecar: Naming, folder: Path, name: str = "run", checkpoint: str | None = None, **options: Any) -> Any:
    transformers = package("transformers")
    package("accelerate")
    toy = importlib.import_module("toy_transformers")
    monitor = toy.LeakageMonitor(
        name, concepts=3, extract=toy.extract, timeout=0.0, address=sidecar.address, spawn=False, advice=False
    )

    class Named(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, *positional: Any, **keywords: Any) -> None:
            named(monitor)

    trainer = toy.trainer(folder, monitor, Named(), save_strategy="steps", save_steps=1, **options)
    trainer.train(resume_from_checkpoint=checkpoint)
    return monitor


@pytest.mark.parametrize("restoring", [False, True])
def test_the_trainer_continues_the_run_of_a_checkpoint(taken: Naming, tmp_path: Path, restoring: bool) -> None:
    train(taken, tmp_path, max_steps=2)
    checkpoint = str(tmp_path / "checkpoint-2")
    options = {"max_steps": 3, "restore_callback_states_from_checkpoint": restoring}
    restored = train(taken, tmp_path, checkpoint=checkpoint, **options)
    assert declared(taken) == [("run", False), ("run-2", True)]
    assert (restored.run.name, jobs(taken)) == ("run-2", 2)
    train(taken, tmp_path, "other", checkpoint=checkpoint, **options)
    assert declared(taken)[2:] == [("other", False)]


# ---------------------------------------------------------------- Keras


def test_keras_continues_its_run_in_another_fit_and_on_request(keras: Any, taken: Naming) -> None:
    model = test_keras.bottleneck(keras, 1.0)
    monitor = test_keras.leakage_monitor("run", taken.address, timeout=0.0)
    for _ in range(2):
        test_keras.fit(model, monitor, epochs=1)
        assert monitor.stop_reason is None
        monitor.stop_reason = "of this training"
    assert declared(taken) == [("run", False), ("run-2", True)]
    assert jobs(taken) == 1
    assert [start.attempt for start in taken.starts] == [0, 1]
    test_keras.fit(model, test_keras.leakage_monitor("run-2", taken.address, timeout=0.0, resume=True), epochs=1)
    assert declared(taken)[2:] == [("run-2", True)]
    assert taken.finished == ["run-2"] * 3


class Interrupted(Exception):
    """Ends a training."""


def test_a_training_that_keras_restores_continues_its_run(keras: Any, taken: Naming, tmp_path: Path) -> None:
    backup = tmp_path / "backup"

    class Interrupt(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 2:
                raise Interrupted

    class Named(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self, monitor: Any) -> None:
            super().__init__()
            self._monitor = monitor

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            named(self._monitor)

    def fit(*callbacks: Any, epochs: int = 3) -> Any:
        monitor = test_keras.leakage_monitor("run", taken.address, timeout=0.0, backup_dir=backup)
        restoring = keras.callbacks.BackupAndRestore(backup)
        model = test_keras.bottleneck(keras, 1.0)
        data = test_keras.Rows(256, 0)
        everything = [restoring, monitor, Named(monitor), *callbacks]
        model.fit(data.x, [data.c, data.y], epochs=epochs, verbose=0, callbacks=everything)
        return monitor

    with pytest.raises(Interrupted):
        fit(Interrupt())
    assert declared(taken) == [("run", False)]
    again = fit()
    assert declared(taken)[1:] == [("run-2", True)]
    assert again.run.name == "run-2"
    # It has ended, so another one begins.
    assert not backup.exists()
    fit(epochs=1)
    assert declared(taken)[2:] == [("run", False)]


def test_a_backup_that_cannot_be_read_is_a_new_run(keras: Any, taken: Naming, tmp_path: Path) -> None:
    model = test_keras.bottleneck(keras, 1.0)
    for number, wrong in enumerate(("no JSON", "[1]", "{}"), 1):
        monitor = test_keras.leakage_monitor("run", taken.address, timeout=0.0, backup_dir=tmp_path)
        monitor._saved.write_text(wrong)
        test_keras.fit(model, monitor, epochs=1)
        assert declared(taken) == [("run", False)] * number, wrong
    # A folder that cannot be written to.
    (tmp_path / "file").write_text("")
    monitor = test_keras.leakage_monitor("run", taken.address, timeout=0.0, backup_dir=tmp_path / "file")
    test_keras.fit(model, monitor, epochs=1)
    assert len(declared(taken)) == 4
