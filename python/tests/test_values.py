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
from conftest import K, Start, Warned, batch, package, wait_for


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


@pytest.mark.parametrize("kind", ["logit", "continuous", "probability"])
def test_values_that_fit_their_kind_do_not_warn(kind: str, start: Start, warned: Warned) -> None:
    fitting = [0.0, 1.0, 1.0000001] if kind == "probability" else [-7.0] * K
    log(start(activation_kind=kind), concept_activations=np.array([fitting] * 10, np.float32))
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
