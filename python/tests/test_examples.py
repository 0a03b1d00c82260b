"""The examples, run as they stand: a model that leaks is stopped early, one that learns its concepts is not."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from conftest import package
from real_sidecar import answer, curve

EXAMPLES = Path(__file__).parents[1] / "examples"
EPOCHS = 8
# The name of each example's runs, its worst task, and a score that its kind of model has.
OF = {
    "pyc_mixed": ("birds", "migrates", "concept_r2"),
    "chexpert": ("chexpert", "edema", "concept_auc"),
    "regression": ("heating", None, "task_r2"),
}


@pytest.fixture(params=OF)
def example(torch: Any, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "pyc_mixed":
        package("torch_concepts")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("CONCEPTWATCH_QUIET", "1")
    return str(request.param)


def train(example: str, weight: str, address: str) -> tuple[str, dict[str, Any]]:
    """Runs the example's program; the name of its run, and the verdict at its end."""
    module = importlib.import_module(example)
    module.main(["--concept-weight", weight, "--epochs", str(EPOCHS), "--address", address])
    run = f"{OF[example][0]} lambda {weight}"
    return run, answer(address, "/api/v1/verdict", run=run, split="val")


def test_a_model_that_leaks_is_stopped(example: str, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    run, verdict = train(example, "0.01", address)
    said = capsys.readouterr().out
    assert said.startswith("stopped after epoch ")
    assert "interventions break the task" in said
    _, task, _ = OF[example]
    assert (verdict["state"], verdict.get("task")) == ("leaking", task)
    assert verdict["concepts"]
    drops = [point["value"] for point in curve(address, run, "intervention_drop")]
    assert len(drops) < EPOCHS
    assert drops[-1] > 0.2


def test_a_model_that_learns_its_concepts_is_not(
    example: str, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run, verdict = train(example, "10", address)
    assert "stopped" not in capsys.readouterr().out
    assert verdict["state"] in ("sound", "nothing_found")
    for score in ("ctl_conditional", "intervention_drop", OF[example][2]):
        assert [point["epoch"] for point in curve(address, run, score)] == list(range(1, EPOCHS + 1)), score
    assert curve(address, run, "intervention_drop")[-1]["value"] < 0.02
