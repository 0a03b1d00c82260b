"""A model that mixes binary, categorical and continuous concepts, through the real program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import conceptwatch
from conceptwatch import Binary, Categorical, Continuous

N = 600
KINDS = [Binary("wing"), Binary("beak", "logit"), Categorical("colour", 3, "logit"), Continuous("size")]


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
