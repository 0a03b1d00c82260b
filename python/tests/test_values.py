"""Scores as numbers, and what a job logs by mistake."""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conceptwatch import Run, Score, Scores
from conceptwatch._diagnosis import Evidence
from conceptwatch._protocol import messages
from conceptwatch._tensors import SHAPES, Tensors
from conceptwatch._training import Stream
from conftest import K, Start, Warned, batch, package, wait_for
from real_sidecar import eager
from sidecar import Sidecar


@pytest.fixture
def scores() -> Scores:
    point = messages.Point(run="run", split="val", step=5, rows=100)
    point.scores.add(id="ctl", value=0.1875, standard_error=0.01)
    point.scores.add(id="ois", undefined="one class")
    return Scores(point)


def test_a_score_is_a_number(scores: Scores) -> None:
    ctl = scores["ctl"]
    assert float(ctl) == ctl.value == 0.1875
    assert (f"{ctl:.3f}", f"{ctl:8.2%}", f"{ctl}") == ("0.188", "  18.75%", "0.1875 ± 0.0196")
    assert np.asarray(ctl) == 0.1875
    assert np.asarray([scores["ctl"], scores["ois"]]).dtype == np.float64
    assert (ctl > 0.1, ctl < 0.1, max(ctl, 0.5), ctl + 1, ctl == 0.1875) == (True, False, 0.5, 1.1875, True)
    assert repr(ctl) == "Score(ctl=0.1875 ± 0.0196)"


def test_people_read_the_95_percent_interval_and_data_has_the_standard_error(scores: Scores) -> None:
    assert repr(scores) == (
        "Scores(split='val', step=5, rows=100, ± 95 %: ctl=0.1875 ± 0.0196, ois=undefined (one class))"
    )
    table = scores._repr_html_()
    assert "<th>± 95 %</th>" in table
    assert "<td>0.1875</td><td>0.0196</td>" in table
    assert scores["ctl"].standard_error == 0.01
    evidence = Evidence("ctl", 0.1875, 0.01, 0.15, 5)
    assert str(evidence) == "ctl 0.1875 ± 0.0196, limit 0.15"


def test_a_score_without_a_value_is_no_number(scores: Scores) -> None:
    ois = scores["ois"]
    assert (ois.value, ois.undefined, str(ois)) == (None, "one class", "undefined (one class)")
    assert math.isnan(ois)
    assert not ois > 0
    assert not ois <= 0
    assert f"{ois:.3f}" == "nan"


def test_scores_are_json(scores: Scores) -> None:
    assert json.loads(json.dumps(scores)) == {"ctl": 0.1875, "ois": pytest.approx(math.nan, nan_ok=True)}
    assert json.dumps(scores.defined, allow_nan=False) == '{"ctl": 0.1875}'
    assert type(scores.defined["ctl"]) is float


def test_scores_travel_between_processes(scores: Scores) -> None:
    found = pickle.loads(pickle.dumps(scores["ctl"]))  # noqa: S301 (of this test)
    assert isinstance(found, Score)
    assert (found, found.id, found.standard_error) == (0.1875, "ctl", 0.01)


# ---------------------------------------------------------------- mistakes


def log(run: Run, step: int = 1, **tensors: Any) -> None:
    with run.evaluation("val", step=step) as p:
        p.log(**{**batch(), **tensors})  # type: ignore[arg-type]
    wait_for(lambda: run._link.outstanding == 0)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_logits_declared_as_probabilities_warn_once(dtype: str, start: Start, warned: Warned) -> None:
    torch: Any = package("torch") if dtype == "bfloat16" else None
    logits: Any = np.linspace(-4, 2, 10 * K).reshape(10, K)
    logits = torch.from_numpy(logits).to(torch.bfloat16) if torch else logits.astype(dtype)
    run = start()
    for step in (1, 2):
        log(run, step, concept_activations=logits)
    assert warned() == [
        "conceptwatch, run 'run': concept_activations contains -4, which is not a probability. It is scored with the "
        "threshold 0.5. For logits pass activation_kind='logit' to init, for other quantities 'continuous'"
    ]
    assert run.stats.batches_dropped == {}


@pytest.mark.parametrize("kind", ["logit", "continuous"])
def test_other_kinds_take_any_value(kind: str, start: Start, warned: Warned) -> None:
    run = start(activation_kind=kind)
    log(run, concept_activations=np.full((10, K), -7.0))
    assert warned() == []


def test_probabilities_do_not_warn(start: Start, warned: Warned) -> None:
    run = start()
    log(run, concept_activations=np.array([[0.0, 1.0, 1.0000001]] * 10, np.float32))
    assert warned() == []


def test_a_misspelt_tensor_is_an_error_of_the_type_checker(tmp_path: Path) -> None:
    package("mypy")
    program = tmp_path / "job.py"
    program.write_text(
        "import conceptwatch\n"
        "run = conceptwatch.init('a', concepts=3)\n"
        "run.log(step=1, concept_labels=1)\n"
        "run.log(step=1, concept_label=1)\n"
        "with run.evaluation('val', step=1) as p:\n"
        "    p.log(concept_activations=1, task_labels=[1])\n"
        "    p.log(concept_activation=1)\n"
    )
    mypy = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--cache-dir", str(tmp_path)]
    checked = subprocess.run(
        [*mypy, str(program)],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    errors = [line.partition("job.py:")[2] for line in checked.stdout.splitlines() if "job.py:" in line]
    assert [line.partition(":")[0] for line in errors if "error" in line] == ["4", "7"], checked.stdout


def test_the_keywords_are_the_tensors() -> None:
    assert Tensors.__annotations__.keys() == SHAPES.keys()


def test_a_type_that_changes_between_evaluations_is_taken(tmp_path: Path) -> None:
    import conceptwatch  # noqa: PLC0415

    found = []
    with eager() as address:
        for types in (["float32"] * 4, ["float32", "float16", "float64", "float32"]):
            run = conceptwatch.init("run", concepts=K, address=address, spawn=False, raise_errors=True)
            for step, dtype in enumerate(types):
                with run.evaluation("val", step=step) as p:
                    for part in range(2):
                        tensors = batch(300, first_id=300 * part, seed=part)
                        # Values that every type has.
                        tensors["concept_activations"] = np.round(tensors["concept_activations"] * 64) / 64
                        of = dtype if part == 0 else "float32"
                        p.log(**{**tensors, "concept_activations": tensors["concept_activations"].astype(of)})
            scores = run.scores("val", step=3, timeout=60)
            assert (scores.rows, scores.incomplete) == (600, False)
            found.append([run.scores("val", step=step)["ctl"] for step in range(4)])  # type: ignore[index]
            assert run.stats.batches_dropped == {}
            assert run.finish()
    assert found[0] == pytest.approx(found[1])


# ---------------------------------------------------------------- the best checkpoint


def test_accuracy_less_leakage_prefers_a_trained_sound_model(sidecar: Sidecar, start: Start) -> None:
    stream = Stream("run", lambda batch, outputs: None, ("ctl_conditional", "accuracy_less_leakage"), {})
    stream.run = start()
    found = {}
    for name, accuracy, leakage in (("untrained", 0.5, 0.0), ("sound", 0.95, 0.02), ("leaking", 0.97, 0.4)):
        point = messages.Point(run="run", split="val", step=1)
        point.scores.add(id="task_accuracy", value=accuracy)
        point.scores.add(id="ctl_conditional", value=leakage)
        sidecar.point = point
        reading = stream.read("val", 1, 5.0)
        found[name] = reading.values
    assert min(found, key=lambda name: found[name]["ctl_conditional"]) == "untrained"
    assert max(found, key=lambda name: found[name]["accuracy_less_leakage"]) == "sound"
    point = messages.Point(run="run", split="val", step=1)
    point.scores.add(id="task_accuracy", undefined="no predictions")
    point.scores.add(id="ctl_conditional", value=0.1)
    sidecar.point = point
    reading = stream.read("val", 1, 5.0)
    assert reading.values == {"ctl_conditional": pytest.approx(0.1)}
