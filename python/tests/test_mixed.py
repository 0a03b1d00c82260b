"""A model that mixes binary, categorical and continuous concepts, through the real program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import conceptwatch
from conceptwatch import Binary, Categorical, Continuous
from conftest import evaluated

N = 600
KINDS = [Binary("wing"), Binary("beak", "logit"), Categorical("colour", 3, "logit"), Continuous("size")]
COLUMNS = {"wing": slice(0, 1), "beak": slice(1, 2), "colour": slice(2, 5), "size": slice(5, 6)}


@pytest.fixture(scope="module")
def rows() -> dict[str, Any]:
    """Activations of every kind, and a task that a leak brings into the number and the probability."""
    random = np.random.default_rng(0)
    wing, beak = random.integers(0, 2, (2, N))
    colour, size = random.integers(0, 3, N), random.normal(50, 20, N)
    task = (wing + (colour == 1) + (size > 50)) % 2
    noise = random.normal(size=(N, 6))
    probability = 1 / (1 + np.exp(2 - 4 * wing + noise[:, 0] - 1.5 * (2 * task - 1)))
    classes = 2.5 * (colour[:, None] == np.arange(3)) + noise[:, 2:5]
    activations = [probability, 4 * beak - 2 + noise[:, 1], *classes.T, size + 5 * noise[:, 5] + 10 * task]
    return {
        "concept_activations": np.stack(activations, 1).astype(np.float32),
        "concept_labels": np.stack([wing, beak, colour, size], 1).astype(np.float32),
        "task_labels": task,
    }


def alone(rows: dict[str, Any], name: str) -> dict[str, Any]:
    """The columns of one concept."""
    place = [kind.name for kind in KINDS].index(name)
    labels = rows["concept_labels"][:, place : place + 1]
    activations = rows["concept_activations"][:, COLUMNS[name]]
    return {**rows, "concept_activations": activations, "concept_labels": labels}


def test_each_concept_has_the_scores_of_a_run_of_its_kind(address: str, rows: dict[str, Any]) -> None:
    def head(concepts: Any) -> Any:
        return concepts[:, 0] + (concepts[:, 5] > 50) - 0.9

    with conceptwatch.init("mixed", concepts=KINDS, address=address, spawn=False, raise_errors=True, head=head) as run:
        evaluated(run, rows)
        scores = run.scores(step=1, timeout=120.0)
        assert run.stats.heads_failed == 0
    accuracy, r2, auc = scores["concept_accuracy"], scores["concept_r2"], scores["concept_auc"]
    assert np.isnan([accuracy.per_concept[3], *r2.per_concept[:3]]).all()
    assert accuracy.value == pytest.approx(np.mean(accuracy.per_concept[:3]))
    assert r2.value == pytest.approx(r2.per_concept[3])
    assert all(value > 0.8 for value in auc.per_concept)
    assert np.isfinite(scores["ctl_conditional"].per_concept).all()
    assert scores["intervention_drop"].value is not None
    kinds: dict[str, dict[str, Any]] = {
        "wing": {"concepts": ["wing"]},
        "beak": {"concepts": ["beak"], "activation_kind": "logit"},
        "colour": {"concepts": [("colour", 3)], "activation_kind": "logit"},
        "size": {"concepts": ["size"], "activation_kind": "continuous", "concept_kind": "continuous"},
    }
    for place, (name, options) in enumerate(kinds.items()):
        ids = ["ctl", "ctl_conditional", "concept_auc", "concept_r2" if name == "size" else "concept_accuracy"]
        own = conceptwatch.score(**alone(rows, name), **options, scores=ids)
        for score in ids:
            # A sum over rows in another order.
            expected = pytest.approx(own[score].value, rel=1e-12)
            assert scores[score].per_concept[place] == expected, f"{score} of {name}"


def test_one_call_scores_what_a_run_scores(rows: dict[str, Any]) -> None:
    found = conceptwatch.score(**rows, concepts=KINDS, scores=["ctl", "concept_accuracy", "concept_r2"])
    assert np.isnan(found["concept_r2"].per_concept[:3]).all()
    assert found.verdict is not None
    fractional = rows["concept_labels"].copy()
    fractional[7, 0] = 0.5
    with pytest.raises(ValueError, match=r"row 7 has 0.5 for concept 'wing', expected class numbers"):
        conceptwatch.score(**{**rows, "concept_labels": fractional}, concepts=KINDS)
    soft = conceptwatch.score(
        **{**rows, "concept_labels": fractional}, concepts=KINDS, soft_labels="threshold", scores="ctl"
    )
    assert soft.concept_rows == (N - 1, N, N, N)
    fractional[9, 3] = np.inf
    with pytest.raises(ValueError, match="row 9 has an infinity"):
        conceptwatch.score(**{**rows, "concept_labels": fractional}, concepts=KINDS, soft_labels="threshold")


def test_a_concept_that_is_declared_a_probability_and_is_none_is_a_warning(rows: dict[str, Any]) -> None:
    swapped = [Binary("wing"), Binary("beak"), *KINDS[2:]]
    with pytest.warns(UserWarning, match="which is not a probability"):
        conceptwatch.score(**rows, concepts=swapped, scores="ctl")
