"""Trials of Optuna that the sidecar's advice ends."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from conftest import Start, batch, evaluated, package
from sidecar import Sidecar


@pytest.mark.parametrize("objectives", [1, 2])
def test_a_trial_is_pruned_by_advice(objectives: int, sidecar: Sidecar, start: Start, capsys: Any) -> None:
    optuna = package("optuna")
    prune_on_advice = importlib.import_module("conceptwatch.optuna").prune_on_advice
    address = sidecar.serve()
    steps: list[tuple[int, int]] = []

    def objective(trial: Any) -> Any:
        leaks = trial.suggest_categorical("leaks", [False, True])
        with start(name=f"trial-{trial.number}", address=address) as run:
            for step in (1, 2, 3):
                evaluated(run, batch(), step=step)
                sidecar.stop = leaks and step == 2
                steps.append((trial.number, step))
                prune_on_advice(trial, run, step=step)
        return [0.5] * objectives

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        directions=["maximize"] * objectives, sampler=optuna.samplers.GridSampler({"leaks": [False, True]}, seed=0)
    )
    study.optimize(objective, n_trials=2)
    for trial in study.trials:
        pruned = trial.params["leaks"]
        assert trial.state.name == ("PRUNED" if pruned else "COMPLETE")
        assert trial.user_attrs.get("stop_reason") == ("a rule fires" if pruned else None)
        assert [step for number, step in steps if number == trial.number] == ([1, 2] if pruned else [1, 2, 3])
        (end,) = [one.outcome for one in sidecar.finish_requests if one.run == f"trial-{trial.number}"]
        assert end.WhichOneof("kind") == ("stopped_on_advice" if pruned else "finished")
