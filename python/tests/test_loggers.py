"""Scores in the logger that a job has, with the packages themselves, offline, and their files read back."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import conceptwatch
from conceptwatch import Run
from conceptwatch._loggers import _for_mlflow
from conceptwatch._protocol import messages
from conftest import K, Start, Warned, batch, evaluated, package, wait_for
from offline_wandb import of_wandb
from sidecar import Sidecar, at_once

STEPS = (100, 200, 300)
TAG = "conceptwatch/val/concept_accuracy"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What loggers write is below the test's own folder."""
    monkeypatch.chdir(tmp_path)
    for name, value in {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def evaluate(run: Run, *steps: int, then: Callable[[int], None] = lambda step: None) -> dict[int, float]:
    """The accuracy of each evaluation, as the sidecar has it."""
    found = {}
    for step in steps:
        scores = evaluated(run, batch(300, first_id=0, seed=step), step=step).scores(timeout=60)
        found[step] = float(scores["concept_accuracy"])
        then(step)
    return found


def begin(name: str, address: str, log_to: Any) -> Run:
    return conceptwatch.init(name, concepts=K, address=address, spawn=False, log_to=log_to, raise_errors=True)


# ---------------------------------------------------------------- what the packages have written


def of_tensorboard(folder: Path) -> dict[str, list[tuple[int, float]]]:
    accumulator = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder), size_guidance={accumulator.SCALARS: 0})
    events.Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


# ---------------------------------------------------------------- plain loops


def test_tensorboard_gets_scores_at_the_jobs_step(address: str, folder: Path) -> None:
    package("tensorboard")
    run = begin("λ=0.1, seed/2", address, "tensorboard")
    expected = evaluate(run, *STEPS)
    assert run.diagnosis(timeout=60) is not None  # which waits for slow scores
    assert run.finish()
    found = of_tensorboard(folder / "runs" / "λ=0.1_ seed_2")
    assert found[TAG] == [(step, pytest.approx(value)) for step, value in expected.items()]
    assert "conceptwatch/val/ctl_conditional" in found
    # Those that train networks join their evaluation later.
    assert 300 in [step for step, _ in found["conceptwatch/val/ois"]]


def test_a_writer_of_torch_and_a_folder(address: str, folder: Path, torch: Any) -> None:
    package("tensorboard")
    writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter(str(folder / "own"))
    run = begin("writer", address, [writer, f"tensorboard:{folder / 'other'}"])
    expected = evaluate(run, *STEPS)
    assert run.finish()
    writer.close()
    for place in ("own", "other"):
        assert of_tensorboard(folder / place)[TAG] == [(step, pytest.approx(value)) for step, value in expected.items()]


@pytest.mark.parametrize(("given", "steps_of_its_own"), [("name", True), ("run", False)])
def test_wandb_gets_scores_over_the_jobs_step_and_keeps_the_jobs_rows(
    given: str, steps_of_its_own: bool, address: str, folder: Path
) -> None:
    wandb = package("wandb")
    own = wandb.init(project="leakage", dir=str(folder))
    run = begin(f"wandb {given} {steps_of_its_own}", address, "wandb" if given == "name" else own)
    expected = evaluate(
        run, *STEPS, then=lambda step: own.log({"loss": step}, step=step // 100 if steps_of_its_own else None)
    )
    assert run.diagnosis(timeout=60) is not None
    assert run.finish()
    own.finish()
    rows, metrics = of_wandb(folder)
    assert [row["loss"] for row in rows if "loss" in row] == [100, 200, 300]
    if steps_of_its_own:
        assert [row["_step"] for row in rows if "loss" in row] == [1, 2, 3]
    assert {row["conceptwatch/step"]: row[TAG] for row in rows if TAG in row} == pytest.approx(expected)
    assert 300 in [row["conceptwatch/step"] for row in rows if "conceptwatch/val/ois" in row]
    axes = {metric.step_metric for metric in metrics if metric.glob_name == "conceptwatch/*"}
    assert axes == {"conceptwatch/step"}


def test_wandb_gets_all_scores_of_a_job_that_logs_nothing_itself(address: str, folder: Path) -> None:
    own = package("wandb").init(project="leakage", dir=str(folder))
    run = begin("wandb alone", address, "wandb")
    expected = evaluate(run, *STEPS)
    assert run.finish()
    own.finish()
    rows, _ = of_wandb(folder)
    assert {row["conceptwatch/step"]: row[TAG] for row in rows if TAG in row} == pytest.approx(expected)


def test_mlflow_gets_scores_at_the_jobs_step(address: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = package("mlflow")
    package("sqlalchemy", "mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.set_experiment("leakage")
    with mlflow.start_run() as active:
        run = begin("mlflow", address, "mlflow")
        expected = evaluate(run, *STEPS)
        assert run.finish()
    history = mlflow.MlflowClient().get_metric_history(active.info.run_id, TAG)
    assert {metric.step: metric.value for metric in history} == pytest.approx(expected)


def test_names_that_mlflow_refuses_are_mapped_and_none_is_another() -> None:
    refuses = package("mlflow.utils.validation", "mlflow")._validate_metric_name
    splits = ["val", "λ", "µ", ".", "..", "a//b", "a/./b", "a/", "/a", "a\u200db", "x" * 200, "x" * 199 + "y"]
    names = [_for_mlflow(f"conceptwatch/{split}/intervention_drop_of_{'y' * 30}") for split in splits]
    assert names[0] == f"conceptwatch/val/intervention_drop_of_{'y' * 30}"
    assert len(set(names)) == len(names)
    for name in names:
        refuses(name)
        assert len(name) <= 250


@pytest.mark.parametrize("given", ["name", "run"])
def test_trackio_gets_scores_at_the_jobs_step(
    given: str, address: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trackio = package("trackio")
    for module in list(sys.modules.values()):
        if module.__name__.startswith("trackio") and hasattr(module, "TRACKIO_DIR"):
            monkeypatch.setattr(module, "TRACKIO_DIR", folder / "trackio")
    own = trackio.init(project="leakage", name=given)
    run = begin(f"trackio {given}", address, "trackio" if given == "name" else own)
    expected = evaluate(run, *STEPS)
    assert run.finish()
    trackio.finish()
    rows = trackio.SQLiteStorage.get_logs("leakage", given)
    assert {row["step"]: row[TAG] for row in rows if TAG in row} == pytest.approx(expected)


@pytest.mark.parametrize("given", ["name", "run"])
def test_aim_gets_scores_at_the_jobs_step(given: str, address: str, folder: Path) -> None:
    aim = package("aim")
    own = aim.Run(repo=str(folder), system_tracking_interval=None) if given == "run" else None
    run = begin(f"aim {given}", address, own or "aim")
    expected = evaluate(run, *STEPS)
    assert run.finish()
    repo = aim.Repo(str(folder))
    (hash_,) = repo.list_all_runs()
    # A run of the job stays open, and is named by the job.
    found = own or aim.Run(hash_, repo=repo, system_tracking_interval=None)
    assert (found.name == "aim name") == (own is None)
    (metric,) = (metric for metric in found.metrics() if metric.name == TAG)
    steps, (values, *_) = metric.data.numpy()
    assert dict(zip(steps.tolist(), values.tolist(), strict=True)) == pytest.approx(expected)
    found.close()


def test_a_function_gets_values_and_step(address: str) -> None:
    found: list[tuple[dict[str, float], int]] = []
    run = begin("function", address, lambda values, step: found.append((values, step)))
    expected = evaluate(run, *STEPS)
    assert run.finish()
    assert {step: values[TAG] for values, step in found if TAG in values} == pytest.approx(expected)
    assert all(type(value) is float for values, _ in found for value in values.values())


# ---------------------------------------------------------------- what may be wrong


@pytest.mark.parametrize("wrong", [3, "tensorbord", "tensorboard:", object(), [None], int, "mlflow:x"])
def test_what_is_no_logger_is_an_error_at_once(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"log_to: got .*, expected 'wandb', 'tensorboard'"):
        conceptwatch.init("run", concepts=K, address="127.0.0.1:1", spawn=False, log_to=wrong)


@pytest.mark.parametrize("missing", ["wandb", "tensorboard", "mlflow", "trackio", "aim"])
def test_a_package_that_is_missing_is_one_line(
    missing: str, monkeypatch: pytest.MonkeyPatch, warned: Warned, start: Start
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    found: list[int] = []
    run = start(log_to=[missing, lambda values, step: found.append(step)])
    assert run.finish()
    (said,) = warned()
    assert said.startswith(f"conceptwatch: log_to: {missing} is not installed, so nothing is logged to it")


def test_a_logger_that_fails_is_said_once_and_the_others_go_on(
    settling: Sidecar, start: Start, warned: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    settling.settled = at_once

    def scores(request: Any, context: Any) -> Any:
        point = messages.Point(run="run", split="val", step=request.step)
        point.scores.add(id="ctl", value=request.step / 10)
        point.scores.add(id="ois", undefined="one class")
        return messages.GetScoresResponse(point=point)

    monkeypatch.setattr(settling, "_scores", scores)
    found: list[tuple[dict[str, float], int]] = []

    def full(values: dict[str, float], step: int) -> None:
        raise OSError("the disk is full")

    run = start(log_to=[full, lambda values, step: found.append((values, step))])
    for step in (1, 2, 3):
        evaluated(run, batch(), step=step)
        wait_for(lambda step=step: len(found) == step)  # type: ignore[misc]
    assert run.finish()
    assert found == [({"conceptwatch/val/ctl": step / 10}, step) for step in (1, 2, 3)]
    assert warned() == ["conceptwatch, run 'run': log_to: a logger fails: OSError: the disk is full"]


@pytest.mark.parametrize("name", ["wandb", "mlflow", "trackio"])
def test_a_run_that_is_not_active_is_one_line(
    name: str, settling: Sidecar, start: Start, warned: Warned, folder: Path
) -> None:
    module = package(name)
    if name == "mlflow":
        module.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    settling.settled = at_once
    settling.point = messages.Point(run="run", split="val", step=1)
    settling.point.scores.add(id="ctl", value=0.5)
    run = start(log_to=name)
    evaluated(run, batch())
    assert run.finish()
    (said,) = warned()
    assert f"no run of {name} is active: call {name}." in said


def test_only_the_first_rank_logs(start: Start, sidecar: Sidecar) -> None:
    assert start(rank=1, world_size=2, job="a", log_to=lambda values, step: None)._forward is None
    assert start(rank=0, world_size=2, job="a", log_to=lambda values, step: None)._forward is not None


def test_offline_and_disabled_runs_log_nothing(folder: Path, warned: Warned) -> None:
    for mode in ("offline", "disabled"):
        run = conceptwatch.init("run", concepts=K, mode=mode, offline_dir=folder, log_to=lambda values, step: None)
        evaluated(run, batch())
        assert run.finish()
    assert warned() == ["conceptwatch, run 'run': log_to: offline there are no scores, so nothing is logged"]
