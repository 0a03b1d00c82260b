"""Measures of the reproduced papers: closed forms, and numbers that the papers print."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "reproduce"))

from measures import (
    bins_of_equal_count,
    bins_of_equal_width,
    cohens_d,
    explicitness,
    greedy,
    implied_cosine,
    informations,
    inside,
    modularity,
    one_vs_all_auc,
    power_mean,
    shapley,
)
from sklearn.metrics import roc_auc_score


def test_modularity_is_1_for_one_to_one_and_0_for_uniform_information() -> None:
    assert modularity(np.diag([0.2, 0.5, 0.7])) == 1
    assert modularity(np.full((4, 3), 0.3)) == pytest.approx(0)
    # A second concept at half of the best information, of two others: 1 - (1/4) / 2.
    assert modularity(np.array([[0.6, 0.3, 0.0]])) == pytest.approx(1 - 1 / 8)


def test_a_column_that_is_its_concept_has_its_entropy_as_information() -> None:
    concepts = np.stack([np.tile([0, 1], 200), np.repeat([0, 1], 200)], 1)
    for bins in (bins_of_equal_width, bins_of_equal_count):
        np.testing.assert_allclose(informations(bins(concepts * 1.0), concepts), np.log(2) * np.eye(2), atol=1e-9)


def test_concepts_that_a_linear_classifier_decodes_are_explicit_and_noise_is_not() -> None:
    random = np.random.default_rng(0)
    concepts = random.integers(0, 2, (2000, 2))
    mixed = concepts @ np.array([[1.0, 0.5], [-0.5, 1.0]])
    assert explicitness(mixed, concepts) == 1
    assert abs(explicitness(random.standard_normal((2000, 2)), concepts)) < 0.1


@pytest.mark.parametrize("rows", [(400, 400, 400), (800, 300, 100)])
def test_one_against_all_is_the_mean_over_pairs_of_classes_weighted_by_the_others_rows(rows: tuple[int, ...]) -> None:
    classes = np.repeat([0, 1, 2], rows)
    scores = -np.abs(np.random.default_rng(1).standard_normal(len(classes))[:, None] + classes[:, None] - np.arange(3))

    def pair(a: int, b: int) -> float:
        both = np.isin(classes, [a, b])
        return float(roc_auc_score(classes[both] == a, scores[both, a]))

    others = [[b for b in range(3) if b != a] for a in range(3)]
    pairs = [[pair(a, b) for b in others[a]] for a in range(3)]
    weighted = [np.average(pairs[a], weights=[rows[b] for b in others[a]]) for a in range(3)]
    assert one_vs_all_auc(scores, classes) == pytest.approx(np.mean(weighted))
    # The sidecar's mean over pairs is the same where classes are equally frequent.
    equal = one_vs_all_auc(scores, classes) == pytest.approx(np.mean(pairs))
    assert bool(equal) is (len(set(rows)) == 1)


def test_means_of_the_printed_parts_are_the_printed_clarity() -> None:
    # The Clarity paper, Table 6 without sparsity, and Table 2, CUB, ViT-L/14, predictor, Bernoulli.
    assert power_mean(np.array([0.6169, 0.6531]), -1) == pytest.approx(0.6345, abs=5e-5)
    parts = np.array([0.966, 0.538, 0.775])
    assert power_mean(parts, -1) == pytest.approx(0.72, abs=5e-3)
    assert power_mean(parts, -1) < power_mean(parts, 0) < power_mean(parts, 1)
    assert power_mean(parts, 0) == pytest.approx(parts.prod() ** (1 / 3))
    # A part without weight has no influence.
    assert power_mean(parts, -1, [0, 1, 1]) == pytest.approx(power_mean(parts[1:], -1))


def test_cohens_d_of_trust_is_the_published_one() -> None:
    # Table 5.
    assert cohens_d((0.789, -0.033), (1.193, 1.378)) == pytest.approx(0.64, abs=5e-3)
    random = np.random.default_rng(3)
    a, b = random.normal(2, 1, 50_000), random.normal(1.5, 1, 50_000)
    assert cohens_d((a.mean(), b.mean()), (a.std(), b.std())) == pytest.approx(0.5, abs=0.02)


def test_a_box_at_a_random_place_holds_a_region_by_the_products_of_its_margins() -> None:
    # A region of 4 by 6 is inside a box of side 10 for centres within 6 by 4, a corner for those within 10 by 10, any
    # corner for those within 14 by 16.
    random = np.random.default_rng(4)
    peaks = random.uniform(0, 40, (40_000, 1, 2))
    corners = np.array([[18.0, 17.0], [18.0, 23.0], [22.0, 17.0], [22.0, 23.0]])
    found = inside(peaks, np.broadcast_to(corners, (40_000, 4, 2)), 10)
    assert found.all(2).mean() == pytest.approx(6 * 4 / 1600, abs=2e-3)
    assert found[:, :, 0].mean() == pytest.approx(10 * 10 / 1600, abs=4e-3)
    assert found.any(2).mean() == pytest.approx(14 * 16 / 1600, abs=5e-3)


def test_the_harmonic_mean_of_figure_2_leaves_one_cosine_of_texts() -> None:
    assert implied_cosine(0.5625, 2 * 0.5625 * 0.9 / (0.5625 + 0.9)) == pytest.approx(0.9)
    published = [(0.5625, 0.6958), (0.3811, 0.5297), (0.5136, 0.6513)]
    np.testing.assert_allclose([implied_cosine(*pair) for pair in published], [0.912, 0.868, 0.890], atol=1e-3)


def test_shares_of_an_additive_value_are_its_terms_and_duplicates_share_equally() -> None:
    terms = {"a": 0.5, "b": -0.2, "c": 0.1}
    shares = shapley(lambda names: sum(terms[name] for name in names), list(terms))
    assert shares == pytest.approx(terms)
    either = shapley(lambda names: float(bool({"a", "b"} & set(names))), ["a", "b", "c"])
    assert either == pytest.approx({"a": 0.5, "b": 0.5, "c": 0.0})
    assert greedy(lambda names: sum(terms[name] for name in names), list(terms)) == ["a", "c"]
