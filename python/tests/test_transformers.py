"""The callback for the Trainer of Transformers, with a tiny model made here and the real sidecar."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from conftest import package, python
from real_sidecar import curve
from sidecar import Sidecar

EPOCH_STEPS = 16  # 4,000 rows in batches of 256


@pytest.fixture(scope="module")
def toy() -> Any:
    for module in ("torch", "transformers", "accelerate"):
        package(module, "transformers")
    return importlib.import_module("toy_transformers")


def leakage_monitor(toy: Any, name: str, address: str, **options: Any) -> Any:
    options = {"extract": toy.extract, "timeout": 120.0, "raise_errors": True, **options}
    return toy.LeakageMonitor(name, concepts=3, address=address, spawn=False, **options)


def test_the_trainer_stops_by_advice(toy: Any, address: str, tmp_path: Path) -> None:
    monitor = leakage_monitor(toy, "advised", address)
    done = toy.trainer(tmp_path, monitor)
    done.train()
    points = curve(address, "advised")
    assert "interconcept leakage is high" in monitor.stop_reason
    assert done.state.epoch == len(points) < 8
    steps = [EPOCH_STEPS * epoch for epoch in range(1, len(points) + 1)]
    assert [(point["step"], point["epoch"], point["rows"]) for point in points] == [
        (step, step / EPOCH_STEPS, 1001) for step in steps
    ]
    found = [entry["eval_leakage/icl"] for entry in done.state.log_history if "eval_leakage/icl" in entry]
    assert found == [point["value"] for point in points]
    assert monitor.run.stats.rows_acknowledged == 1001 * len(points)
    assert monitor.run.stats.batches_dropped == {}
    # What comes after training is not streamed.
    assert "eval_leakage/icl" not in done.evaluate()
    assert len(curve(address, "advised")) == len(points)


def test_the_head_is_a_part_of_the_model(toy: Any, address: str, tmp_path: Path) -> None:
    monitor = leakage_monitor(toy, "head", address, head="head", scores=("intervention_drop",), advice=False)
    done = toy.trainer(tmp_path, monitor, concept_weight=5.0, num_train_epochs=2)
    done.train()
    found = [entry["eval_leakage/intervention_drop"] for entry in done.state.log_history if "eval_loss" in entry]
    assert found == [point["value"] for point in curve(address, "head", "intervention_drop")]
    assert len(found) == 2
    assert monitor.run.stats.heads_failed == 0


def test_a_part_of_the_model_is_hooked_and_training_batches_stream_too(toy: Any, address: str, tmp_path: Path) -> None:
    monitor = leakage_monitor(
        toy, "hooked", address, extract=toy.extract_concepts, module="concepts", train=True, splits=["val", "again"]
    )
    val = toy.trainer(tmp_path).eval_dataset
    done = toy.trainer(
        tmp_path, monitor, concept_weight=5.0, num_train_epochs=2, eval_dataset={"one": val, "two": val, "three": val}
    )
    done.train()
    assert done.state.epoch == 2
    values = [[point["value"] for point in curve(address, "hooked", split=split)] for split in ("val", "again")]
    assert len(values[0]) == 2
    assert values[0] == values[1]
    assert monitor.run.stats.rows_acknowledged == 2 * (4000 + 2 * 1001)
    found = [entry["eval_leakage/icl/again"] for entry in done.state.log_history if "eval_leakage/icl/again" in entry]
    assert found == values[0]
    assert done.model.concepts._forward_hooks == {}


def test_the_stock_callback_stops_by_a_score(toy: Any, address: str, tmp_path: Path) -> None:
    stopping = toy.transformers.EarlyStoppingCallback(early_stopping_patience=2)
    monitor = leakage_monitor(toy, "stock", address, advice=False)
    done = toy.trainer(
        tmp_path, monitor, stopping, num_train_epochs=12, save_strategy="epoch", load_best_model_at_end=True,
        metric_for_best_model="leakage/icl", greater_is_better=False,
    )  # fmt: skip
    done.train()
    values = [point["value"] for point in curve(address, "stock")]
    assert done.state.best_metric == min(values)
    assert len(values) < 12
    assert values.index(min(values)) == len(values) - 3


def test_without_scores_the_trainer_goes_on(toy: Any, sidecar: Sidecar, tmp_path: Path) -> None:
    monitor = leakage_monitor(toy, "run", sidecar.serve(), timeout=0.2)
    done = toy.trainer(
        tmp_path, monitor, num_train_epochs=2, save_strategy="epoch", metric_for_best_model="leakage/icl",
        greater_is_better=False,
    )  # fmt: skip
    done.train()
    assert done.state.epoch == 2
    assert (monitor.stop_reason, sidecar.finished) == (None, ["run"])


def test_what_the_model_does_outside_evaluations_is_not_streamed(toy: Any, sidecar: Sidecar, tmp_path: Path) -> None:
    class Looks(toy.transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
            model.eval()
            model(**{name: values[:5] for name, values in rows.items()})
            model.train()

    monitor = leakage_monitor(toy, "run", sidecar.serve(), timeout=0.0)
    done = toy.trainer(tmp_path, monitor, Looks(), max_steps=3, eval_steps=3)
    rows = dict(zip(("x", "concept_labels", "labels", "sample_ids"), done.train_dataset.tensors, strict=True))
    done.args.eval_strategy = "steps"
    done.train()
    assert monitor.run.stats.rows_queued == 1001
    assert [(end.step, end.rows) for end in sidecar.ends] == [(3, 1001)]


def test_two_processes_stream_their_shares_and_stop_together(toy: Any, address: str, tmp_path: Path) -> None:
    program = str(Path(__file__).with_name("toy_transformers.py"))
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", program]
    trained = python(*launch, address, "shared", tmp_path)
    assert trained.returncode == 0, trained.stderr[-4000:]
    ranks = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in (0, 1)]
    for name in ("step", "epoch", "reason", "icl"):
        assert ranks[0][name] == ranks[1][name], name
    points = curve(address, "shared")
    assert ranks[0]["icl"] == [point["value"] for point in points]
    assert ranks[0]["epoch"] == len(points) < 8
    assert "interconcept leakage is high" in ranks[0]["reason"]
    # Together they logged rows twice, to fill the last batches, and these count once.
    assert ranks[0]["rows"] + ranks[1]["rows"] > 1001 * len(points)
    assert all(point["rows"] == 1001 and not point["incomplete"] for point in points)
