"""The report of reproduced experiments: its correlations, and scores that models lack."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "reproduce"))
sys.path.append(str(Path(__file__).parents[1] / "evidence"))

from plan import OTHERS, name_of, plan, seed_of
from pooling import as_published, pooled, separation
from results import has, shown, values
from tasks import DRAW


def model(**scores: float) -> dict[str, Any]:
    return {"scores": scores, "accuracies": [0.9, 0.8, 0.6]}


def test_a_missing_score_is_never_zero() -> None:
    models = [model(ctl=0.2), model(ctl=0.4), model(), model()]
    np.testing.assert_array_equal(values(models, "ctl"), [0.2, 0.4, np.nan, np.nan])
    assert shown(values(models, "ctl")).startswith("0.300±")
    assert shown(values(models, "ctl")).endswith("(2 of 4)")
    assert shown(values(models, "icl")) == "-"
    assert not has(models, "icl")


def test_the_drop_is_what_all_interventions_cost() -> None:
    np.testing.assert_allclose(values([model()], "drop"), [0.3])


def test_without_errors_both_poolings_are_pearson_of_the_values() -> None:
    x, y = np.array([0.1, 0.2, 0.4, 0.3, 0.8]), np.array([0.0, 0.3, 0.2, 0.4, 0.7])
    none = np.full(5, 1e-9)
    expected = np.corrcoef(x, y)[0, 1]
    assert pooled(x, none, y) == pytest.approx(expected, abs=1e-6)
    assert as_published(x, none, y, none).r == pytest.approx(expected, abs=1e-6)


def test_the_published_pooling_clips_at_0_and_draws_both_variables() -> None:
    x, y = np.array([-0.9, 0.2, 0.4, 0.3, 0.8]), np.array([0.0, 0.3, 0.2, 0.4, 0.7])
    none, some = np.full(5, 1e-9), np.full(5, 0.2)
    clipped = np.corrcoef(np.maximum(x, 0), y)[0, 1]
    assert as_published(x, none, y, none).r == pytest.approx(clipped, abs=1e-6)
    # Errors of either variable weaken the correlation.
    assert as_published(x, some, y, none).r < clipped - 0.02
    assert as_published(x, none, y, some).r < clipped - 0.02


def test_a_score_that_separates_has_an_area_of_one() -> None:
    score, leaks = np.array([0.1, 0.2, 0.3, 0.7]), np.array([False, False, True, True])
    assert separation(score, leaks) == 1.0
    assert separation(score, np.zeros(4, bool)) is None


def test_no_two_models_share_a_seed_or_a_name() -> None:
    models = plan()
    assert len({seed_of(of) for of in models}) == len(models)
    assert len({name_of(of) for of in models}) == len(models)


@pytest.mark.parametrize(("data", "determined"), [("digits-10-complete", True), ("digits-10-incomplete", False)])
def test_seven_concepts_determine_a_digit_and_four_do_not(data: str, determined: bool) -> None:
    rows = DRAW[data](np.random.default_rng(0)).train
    pairs = np.unique(np.column_stack([rows.c, rows.y]), axis=0)
    assert rows.c.shape[1] == OTHERS[data]
    assert (len(np.unique(pairs[:, :-1], axis=0)) == len(pairs)) is determined


def test_the_concepts_of_a_drawn_shape_determine_its_class() -> None:
    rows = DRAW["sprites"](np.random.default_rng(0)).train
    pairs = np.unique(np.column_stack([rows.c, rows.y]), axis=0)
    assert rows.x.shape[1:] == (1, 32, 32)
    assert len(np.unique(pairs[:, :-1], axis=0)) == len(pairs) == 24
