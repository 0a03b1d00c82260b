"""The Lightning callbacks in real trainings, with the real sidecar where its scores matter."""

from __future__ import annotations

import importlib
import json
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from conceptwatch._protocol import messages
from conceptwatch._training import Tap
from conftest import Warned, package, python_environment
from real_sidecar import answer, binary, curve, eager, free_ports
from sidecar import Sidecar

PACKAGES = ("lightning.pytorch", "pytorch_lightning")
EPOCH_STEPS = 16  # 4,000 rows in batches of 256


@pytest.fixture(params=PACKAGES)
def either(request: pytest.FixtureRequest) -> Any:
    """Each of the two packages."""
    return package(request.param, "lightning")


@pytest.fixture
def lightning() -> Any:
    return package(PACKAGES[0], "lightning")


def toy() -> Any:
    """Needs torch, so it is imported where torch is known to be there."""
    return importlib.import_module("toy")


def trainer(lightning: Any, *callbacks: Any, **options: Any) -> Any:
    return toy().trainer(lightning, *callbacks, **{"max_epochs": 8, **options})


def leakage_monitor(name: str, address: str, **options: Any) -> Any:
    return toy().monitor(name, address, **{"timeout": 120.0, "raise_errors": True, **options})


def early_stopping(*positional: Any, **options: Any) -> Any:
    callbacks = importlib.import_module("conceptwatch.lightning")
    return callbacks.LeakageEarlyStopping(*positional, **{"timeout": 120.0, **options})


def train(lightning: Any, trainer: Any, concept_weight: float = 0.01, **options: Any) -> Any:
    module = toy().module(lightning, concept_weight)
    trainer.fit(module, *toy().loaders(), **options)
    return module


def steps(address: str, run: str) -> list[int]:
    return [point["step"] for point in curve(address, run)]


def test_training_stops_at_the_epoch_in_which_the_alert_fires(either: Any, address: str) -> None:
    name = f"stopped {either.__name__}"
    monitor, stopping = leakage_monitor(name, address), early_stopping()
    done = trainer(either, stopping, monitor)
    train(either, done)

    changes = [change for change in answer(address, "/api/v1/alerts")["changes"] if change["run"] == name]
    fired = min(change["step"] for change in changes if change["state"] == "firing" and change["advises_stop"])
    assert (done.global_step, stopping.stopped_epoch) == (fired, fired // EPOCH_STEPS - 1)
    assert done.current_epoch < done.max_epochs
    assert "icl_excess" in stopping.stopping_reason_message
    # Once an epoch, and not during the sanity check.
    assert steps(address, name) == list(range(EPOCH_STEPS, fired + 1, EPOCH_STEPS))
    assert monitor.run.stats.rows_acknowledged == 1001 * done.current_epoch
    assert monitor.run.stats.batches_dropped == {}
    points = curve(address, name)
    assert [point["epoch"] for point in points] == [1.0 + epoch for epoch in range(done.current_epoch)]
    assert done.callback_metrics["leakage/icl"].item() == pytest.approx(points[-1]["value"], rel=1e-6)


def test_manual_optimisation_that_passes_lightnings_optimisers_by_counts_batches(
    lightning: Any, address: str, warned: Warned
) -> None:
    """Lightning#16143: `global_step` counts the steps of Lightning's own optimisers alone."""
    module = toy().module(lightning, 0.01)
    module.automatic_optimization = False
    loss_of = module.training_step

    def step(batch: Any, batch_idx: int) -> None:
        optimiser = module.optimizers(use_pl_optimizer=False)
        optimiser.zero_grad()
        module.manual_backward(loss_of(batch, batch_idx))
        optimiser.step()

    module.training_step = step
    monitor, stopping = leakage_monitor("manual", address), early_stopping("leakage/icl", patience=100, advice=False)
    done = trainer(lightning, monitor, stopping, max_epochs=3)
    done.fit(module, *toy().loaders())
    assert done.global_step == 0
    assert steps(address, "manual") == [EPOCH_STEPS, 2 * EPOCH_STEPS, 3 * EPOCH_STEPS]
    assert stopping.judged_step == 3 * EPOCH_STEPS
    assert [said for said in warned() if "global_step" in said] == [
        "conceptwatch, run 'manual': global_step stays 0, because the module's manual optimisation does not step "
        "Lightning's optimisers: batches are counted instead"
    ]


def test_each_validation_within_an_accumulation_is_a_point(lightning: Any, address: str) -> None:
    """Lightning#12205: several validations of the same weights, at the same step."""
    monitor = leakage_monitor("accumulated", address)
    options = {"accumulate_grad_batches": 8, "val_check_interval": 4, "max_epochs": 1, "num_sanity_val_steps": 0}
    train(lightning, trainer(lightning, monitor, **options))
    points = sorted(curve(address, "accumulated"), key=lambda point: point["epoch"])
    assert [(point["epoch"], point["step"]) for point in points] == [(0.25, 0), (0.5, 1), (0.75, 1), (1.0, 2)]
    assert points[1]["value"] == points[2]["value"]
    assert [point.get("superseded", False) for point in points] == [False, True, False, False]


def test_a_tap_keeps_the_first_call_and_leaves_the_method_as_it_was() -> None:
    class Model:
        def __init__(self) -> None:
            self.step = 10

        def forward(self, x: int, *, by: int = 0) -> int:
            return self.step * x + by

    model = Model()
    tap = Tap(model, "forward")
    assert [model.forward(1), model.forward(2, by=5)] == [10, 25]
    assert tap.take() == 10
    with pytest.raises(LookupError, match="did not call 'forward'"):
        tap.take()
    model.forward(3)
    tap.clear()
    assert model.forward(4) == tap.take() == 40
    tap.close()
    assert vars(model) == {"step": 10}
    with pytest.raises(AttributeError, match="got 'step'"):
        Tap(model, "step")


def test_stock_callbacks_monitor_leakage(either: Any, address: str, tmp_path: Path) -> None:
    stock = either.callbacks
    stopping = stock.EarlyStopping("leakage/icl", divergence_threshold=0.3, patience=100)
    best = stock.ModelCheckpoint(tmp_path, monitor="leakage/ctl", filename="best", save_top_k=1)
    name = f"stock {either.__name__}"
    done = trainer(either, stopping, best, leakage_monitor(name, address), enable_checkpointing=True)
    train(either, done)

    icl, ctl = ([point["value"] for point in curve(address, name, score)] for score in ("icl", "ctl"))
    assert len(icl) == done.current_epoch < done.max_epochs
    assert all(value <= 0.3 for value in icl[:-1])
    assert icl[-1] > 0.3
    assert best.best_model_score.item() == pytest.approx(min(ctl), rel=1e-6)


def test_a_trainer_that_takes_no_callbacks_asks_the_module(lightning: Any, address: str, tmp_path: Path) -> None:
    scores = ("ctl_conditional", "task_accuracy", "accuracy_less_leakage")
    monitor = leakage_monitor("asked", address, scores=scores)
    best = lightning.callbacks.ModelCheckpoint(tmp_path, monitor="leakage/accuracy_less_leakage", mode="max")
    module = toy().module(lightning, 5.0)
    module.configure_callbacks = lambda: [monitor, best]
    done = trainer(lightning, max_epochs=2, enable_checkpointing=True, num_sanity_val_steps=0)
    done.fit(module, *toy().loaders())
    assert steps(address, "asked") == [EPOCH_STEPS, 2 * EPOCH_STEPS]
    found = done.callback_metrics
    less = found["leakage/task_accuracy"] - max(0.0, found["leakage/ctl_conditional"])
    assert found["leakage/accuracy_less_leakage"].item() == pytest.approx(less.item(), abs=1e-6)
    assert best.best_model_score is not None


def test_training_resumes_from_a_checkpoint(lightning: Any, address: str, tmp_path: Path) -> None:
    def watching() -> tuple[Any, Any, Any]:
        # A threshold of improvement that nothing reaches, so that every evaluation but the first counts.
        stopping = early_stopping("leakage/ctl", min_delta=1.0, patience=4)
        last = lightning.callbacks.ModelCheckpoint(tmp_path, save_last=True)
        return leakage_monitor("resumed", address), stopping, last

    first = watching()
    train(lightning, trainer(lightning, *first, max_epochs=3, enable_checkpointing=True), 5.0)
    state = first[1].state_dict()
    assert (state["wait_count"], state["judged_step"]) == (2, 3 * EPOCH_STEPS)

    restored: list[Any] = []

    class Look(lightning.Callback):  # type: ignore[misc]
        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            restored.append(second[1].state_dict())

    second = watching()
    done = trainer(lightning, *second, Look(), max_epochs=9, enable_checkpointing=True)
    train(lightning, done, 5.0, ckpt_path=str(tmp_path / "last.ckpt"))
    assert restored == [state]
    # Two more evaluations without an improvement, and the curve continues in the same run.
    assert (done.global_step, second[1].wait_count) == (5 * EPOCH_STEPS, 4)
    assert "no better than" in second[1].stopping_reason_message
    assert steps(address, "resumed") == [EPOCH_STEPS * epoch for epoch in range(1, 6)]


def test_processes_stream_their_shares_and_stop_together(lightning: Any, torch: Any, tmp_path: Path) -> None:
    processes = 3
    program = [sys.executable, str(Path(__file__).with_name("ddp_training.py"))]
    # Fewer rows than there are, so that the sample is drawn from those of all ranks.
    with eager("--sample-rows", "600") as address:
        environment = python_environment(MASTER_PORT=str(free_ports()))
        for name in ("RANK", "WORLD_SIZE"):
            environment.pop(name, None)
        trained = subprocess.run(
            [*program, address, "shared", str(processes), str(tmp_path)],
            env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert trained.returncode == 0, trained.stderr[-4000:]
        ranks = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(processes)]
        assert [(found["rank"], found["world_size"]) for found in ranks] == [(r, processes) for r in range(processes)]
        # All stop at the same step, with the same scores.
        for name in ("step", "epoch", "stopped_epoch", "wait_count", "metrics"):
            assert len({json.dumps(found[name]) for found in ranks}) == 1, name
        assert ranks[0]["epoch"] < 12
        assert "interconcept leakage is high" in ranks[0]["reason"]
        assert [found["reason"] for found in ranks[1:]] == [ranks[0]["reason"], "another rank was advised to stop"]
        # Shares of equal size: the sampler repeats rows, and the sidecar counts them once.
        share = -(-toy().VAL_ROWS // processes)
        assert [found["rows"] for found in ranks] == [share * ranks[0]["epoch"]] * processes

        # Each point has its sample from the rows of all ranks.
        points = curve(address, "shared")
        assert [(point["rows"], point["incomplete"]) for point in points] == [(600, False)] * ranks[0]["epoch"]
        assert points[-1]["step"] == ranks[0]["step"]


# ---------------------------------------------------------------- scores that are missing, late, or as scripted


class Scripted(Sidecar):
    """Answers with the scores of a test, by step; `late` ones only to requests for the newest."""

    def __init__(self) -> None:
        super().__init__()
        self.icl: dict[int, float | None] = {}
        self.late: set[int] = set()
        self.asked: list[int] = []

    def _scores(self, request: Any, context: Any) -> Any:
        if request.HasField("step"):
            self.asked.append(request.step)
            step = request.step if request.step not in self.late else None
        else:
            before = [step for step in self.icl if step < max(self.asked)]
            step = max(before, default=None)
        if step is None or step not in self.icl:
            return messages.GetScoresResponse()
        score = messages.Score(id="icl", value=self.icl[step])
        return messages.GetScoresResponse(point=messages.Point(split="val", step=step, scores=[score]))


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    server = Scripted()
    yield server
    server.close()


def quick(lightning: Any, *callbacks: Any, **options: Any) -> Any:
    """A training of one step an epoch, done."""
    done = trainer(lightning, *callbacks, limit_train_batches=1, **options)
    train(lightning, done)
    return done


def epochs_until_stop(
    lightning: Any, server: Scripted, values: Sequence[float | None], *callbacks: Any, **options: Any
) -> tuple[int, Any]:
    """Epochs of a training whose evaluations have these scores."""
    server.icl = {epoch + 1: value for epoch, value in enumerate(values)}
    stopping = early_stopping("leakage/icl", **options)
    monitor = leakage_monitor("run", server.serve(), timeout=5.0)
    done = quick(lightning, stopping, monitor, *callbacks, max_epochs=len(values))
    return done.current_epoch, stopping


@pytest.mark.parametrize(
    ("options", "values", "epochs"),
    [
        ({"patience": 2}, [0.3, 0.2, 0.2, 0.25, 0.1], 4),
        ({"patience": 2}, [0.3, 0.2, 0.25, 0.1, 0.2], 5),
        ({"patience": 2, "min_delta": 0.05}, [0.3, 0.28, 0.26, 0.1], 3),
        ({"patience": 2, "mode": "max"}, [0.3, 0.2, 0.1, 0.4], 3),
        ({"stopping_threshold": 0.1}, [0.3, 0.2, 0.05, 0.01], 3),
        ({"divergence_threshold": 0.5}, [0.3, 0.6, 0.1], 2),
        # A score that is undefined, NaN or infinite is none.
        ({"patience": 2}, [0.3, None, None, float("nan"), float("inf"), 0.4, 0.4, 0.1], 7),
    ],
)  # fmt: skip
def test_training_stops_by_a_monitored_score(
    lightning: Any, scripted: Scripted, options: dict[str, Any], values: list[float | None], epochs: int
) -> None:
    assert epochs_until_stop(lightning, scripted, values, **options)[0] == epochs


def test_a_late_score_counts_once_and_later(lightning: Any, scripted: Scripted) -> None:
    logged: dict[int, bool] = {}

    class Look(lightning.Callback):  # type: ignore[misc]
        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            logged[trainer.global_step] = "leakage/icl" in trainer.callback_metrics

    scripted.late = {2, 3, 4, 5}
    values = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    trained, stopping = epochs_until_stop(lightning, scripted, values, Look(), patience=3)
    # Scores 2 to 4 are judged with evaluations 3 to 5.
    assert (trained, stopping.judged_step) == (5, 4)
    # What is logged for an evaluation is its own score or none; step 0 is the sanity check.
    assert logged == {0: False, 1: True, 2: False, 3: False, 4: False, 5: False}


@pytest.mark.parametrize("reachable", [True, False])
def test_without_scores_training_goes_on(
    lightning: Any, scripted: Scripted, reachable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conceptwatch.lightning.EXIT_TIMEOUT", 0.2)
    address = scripted.serve() if reachable else f"127.0.0.1:{free_ports()}"
    stock = lightning.callbacks
    watching = [
        early_stopping("leakage/icl", patience=1, timeout=1.0),
        stock.EarlyStopping("leakage/icl", patience=1),
        stock.ModelCheckpoint(tmp_path, monitor="leakage/ctl"),
        leakage_monitor("run", address, timeout=0.2, raise_errors=False),
    ]
    done = quick(lightning, *watching, max_epochs=3, enable_checkpointing=True)
    assert done.current_epoch == 3
    assert watching[0].wait_count == watching[1].wait_count == 0


def test_callbacks_serve_another_training(lightning: Any, scripted: Scripted) -> None:
    scripted.icl = dict.fromkeys(range(1, 9), 0.2)
    stopping = early_stopping("leakage/icl", patience=1)
    monitor = leakage_monitor("run", scripted.serve(), timeout=5.0)
    assert quick(lightning, stopping, monitor, max_epochs=4).current_epoch == 2
    # The best score stays, as with Lightning's own: the first evaluation of the next training is no better.
    assert quick(lightning, stopping, monitor, max_epochs=4).current_epoch == 1
    assert scripted.finished == ["run", "run"]


def test_a_monitor_travels_to_other_processes(lightning: Any) -> None:
    monitor = leakage_monitor("run", "127.0.0.1:1")
    assert pickle.loads(pickle.dumps(monitor)).splits == ("val",)  # noqa: S301


def test_a_failing_extract_is_said_and_counted(lightning: Any, scripted: Scripted, warned: Warned) -> None:
    def extract(batch: Any, outputs: Any) -> Any:
        return {"concept_labels": outputs["labels"]}

    monitor = leakage_monitor("run", scripted.serve(), extract=extract, train=True, timeout=0.0, raise_errors=False)
    done = quick(lightning, monitor, max_epochs=1)
    assert done.current_epoch == 1
    assert monitor.run.stats.batches_dropped == {"invalid": 5}
    assert warned() == [
        f"conceptwatch, run 'run': extract: KeyError: 'labels'. The batch of '{split}' was dropped; "
        "run.stats.batches_dropped counts such batches"
        for split in ("train", "val")
    ]
    # The sidecar is informed that rows are missing.
    assert [end.rows for end in scripted.ends] == [4]


def test_an_extract_of_none_leaves_the_batch_out(lightning: Any, scripted: Scripted) -> None:
    monitor = leakage_monitor("run", scripted.serve(), extract=lambda batch, outputs: None, timeout=0.0)
    quick(lightning, monitor, max_epochs=1)
    assert monitor.run.stats.batches_queued == 0
    assert len(scripted.ends) == 1


def test_an_interrupted_training_discards_its_pass(lightning: Any, scripted: Scripted) -> None:
    class Fails(lightning.Callback):  # type: ignore[misc]
        def on_validation_batch_end(self, trainer: Any, *arguments: Any) -> None:
            if not trainer.sanity_checking:
                raise RuntimeError("out of memory")

    monitor = leakage_monitor("run", scripted.serve(), method="_forward", extract=lambda batch, outputs: None)
    with pytest.raises(RuntimeError, match="out of memory"):
        quick(lightning, monitor, Fails(), max_epochs=1)
    assert [end.abandoned for end in scripted.ends] == ["RuntimeError"]
    assert scripted.finished == ["run"]


def test_what_cannot_work_is_an_error_before_training(
    lightning: Any, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONCEPTWATCH_BINARY", binary())
    address = scripted.serve()
    for wrong in (("zz",), ("icl", "ctl_excess", "zz")):
        with pytest.raises(ValueError, match=r"^scores: got 'zz', expected a score of docs/scores.md, such as "):
            leakage_monitor("run", address, scores=wrong)
    with pytest.raises(ValueError, match="mode"):
        early_stopping(mode="down")
    with pytest.raises(ValueError, match="monitor"):
        early_stopping(advice=False)
    with pytest.raises(TypeError, match="extract"):
        leakage_monitor("run", address, extract="probabilities")
    with pytest.raises(ValueError, match="needs a LeakageMonitor"):
        quick(lightning, early_stopping())
    with pytest.raises(ValueError, match="got 'val_loss', expected one of leakage/ctl_conditional, leakage/icl"):
        quick(lightning, early_stopping("val_loss"), leakage_monitor("run", address))
    with pytest.raises(ValueError, match=r"head: got 'model.haed', expected the name of a part of Toy"):
        quick(lightning, leakage_monitor("run", address, head="model.haed"))
    with pytest.raises(AttributeError, match="method"):
        quick(lightning, leakage_monitor("run", address, method="_run"))
    with pytest.raises(ValueError, match=r"monitor: got 'icl_condtional', expected .* such as icl_conditional"):
        quick(lightning, lightning.callbacks.EarlyStopping("leakage/icl_condtional"), leakage_monitor("run", address))
