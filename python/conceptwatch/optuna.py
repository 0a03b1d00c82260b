"""Ends trials of Optuna by the sidecar's advice.

    from conceptwatch.optuna import prune_on_advice

    def objective(trial):
        with conceptwatch.init(f"cub-{trial.number}", concepts=112, labels=trial.params) as run:
            for epoch in range(30):
                ...  # train, and log an evaluation at this step
                prune_on_advice(trial, run, step=step)
        return accuracy

It works in studies of several objectives too, such as accuracy and leakage, where Optuna's own pruners do not.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ._run import Run

try:
    _optuna: Any = import_module("optuna")
except ImportError as error:
    raise ImportError(f"conceptwatch.optuna needs the package optuna, which cannot be imported ({error})") from error


def prune_on_advice(trial: Any, run: Run, *, step: int, timeout: float = 5.0) -> None:
    """Ends a trial whose training should stop, by `run.should_stop`: raises optuna.TrialPruned with the reason.

    The reason is also in the trial's user attributes, as `stop_reason`.

    step: of the evaluation that was logged last. timeout: seconds to wait for its scores.
    """
    if run.should_stop(step=step, timeout=timeout):
        reason = run.stop_reason(step=step) or "the sidecar advises it"
        trial.set_user_attr("stop_reason", reason)
        raise _optuna.TrialPruned(reason)
