"""Concept bottleneck models on scikit-learn's digits, whose concepts follow from the digit."""

from __future__ import annotations

import functools
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conftest import package
from real_sidecar import binary

# Seven that determine the digit: has a loop, even, at least 5, prime, divisible by 3, a power of 2, all straight.
CONCEPTS = np.array(
    [
        [digit in (0, 6, 8, 9), digit % 2 == 0, digit >= 5, digit in (2, 3, 5, 7), digit % 3 == 0,
         digit in (1, 2, 4, 8), digit in (1, 4, 7)]
        for digit in range(10)
    ],
    np.float32,
)  # fmt: skip
EPOCHS = 30


def data() -> tuple[Any, ...]:
    """1,000 rows to train on, 797 to evaluate."""
    digits = package("sklearn.datasets", "scikit-learn").load_digits()
    x, y = (digits.images.reshape(-1, 64) / 16).astype(np.float32), digits.target.astype(np.int64)
    order = np.random.default_rng(0).permutation(len(y))
    x, y = x[order], y[order]
    return x[:1000], y[:1000], x[1000:], y[1000:]


@functools.cache
def trained(torch: Any, concept_weight: float, logit: bool) -> tuple[Any, Any]:
    """Encoder and head of a bottleneck, trained jointly."""
    torch.manual_seed(0)
    x, y, _, _ = (torch.as_tensor(array) for array in data())
    c = torch.as_tensor(CONCEPTS)[y]
    encoder = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 7))
    head = torch.nn.Sequential(torch.nn.Linear(7, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimiser = torch.optim.Adam([*encoder.parameters(), *head.parameters()], 3e-3)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(y)).split(64):
            logits = encoder(x[rows])
            task = torch.nn.functional.cross_entropy(head(logits if logit else logits.sigmoid()), y[rows])
            concept = torch.nn.functional.binary_cross_entropy_with_logits(logits, c[rows])
            optimiser.zero_grad()
            (task + concept_weight * concept).backward()
            optimiser.step()
    return encoder, head


def accuracies(torch: Any, concept_weight: float, logit: bool) -> tuple[list[float], list[float]]:
    """Task accuracy by the number of true and of wrong concepts."""
    encoder, head = trained(torch, concept_weight, logit)
    x, _, x_val, y_val = data()
    with torch.no_grad():
        training, activations = encoder(torch.as_tensor(x)), encoder(torch.as_tensor(x_val))
    low, high = conceptwatch.percentiles(training) if logit else (None, None)
    c_hat, kind = (activations, "logit") if logit else (activations.sigmoid(), "probability")
    found = conceptwatch.interventions(head, c_hat, CONCEPTS[y_val], kind=kind, low=low, high=high)
    assert found.counts == tuple(range(8))
    by = [found["intervention_predictions"], found["wrong_intervention_predictions"]]
    right, wrong = ([float((column.numpy() == y_val).mean()) for column in part.T] for part in by)
    return right, wrong


@pytest.mark.parametrize("logit", [False, True])
def test_weak_supervision_collapses_under_intervention(torch: Any, logit: bool) -> None:
    right, wrong = accuracies(torch, 0.01, logit)
    assert right[0] > 0.9
    assert right[0] - right[-1] > 0.6, right
    assert right[0] - wrong[-1] > 0.6, wrong


@pytest.mark.parametrize("logit", [False, True])
def test_strong_supervision_gains_from_true_concepts(torch: Any, logit: bool) -> None:
    right, wrong = accuracies(torch, 5.0, logit)
    assert right[0] > 0.9
    assert right[0] - right[-1] < 0.02, right
    # Each concept set to its true value helps on average, each wrong one misleads.
    assert np.mean(right) > right[0]
    assert right[0] - wrong[-1] > 0.5, wrong
    assert wrong == pytest.approx(sorted(wrong, reverse=True), abs=0.05)


def leakage(torch: Any, folder: Path, concept_weight: float) -> dict[str, float]:
    """The leakage scores of a soft model, and p-values by the name of their score with `p_`."""
    encoder, _ = trained(torch, concept_weight, logit=False)
    _, _, x, y = data()
    with torch.no_grad():
        activations = encoder(torch.as_tensor(x)).sigmoid().numpy()
    labels = CONCEPTS[y].astype(np.int64)
    archive = folder / "digits.npz"
    np.savez(archive, concept_activations=activations, concept_labels=labels, task_labels=y)
    names = "ctl_conditional,icl_conditional,concept_gap,ctl_excess,icl_excess"
    command = [binary(), "score", str(archive), "--json", "--scores", names]
    scores = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=300).stdout)["scores"]
    found = {name: score["value"] for name, score in scores.items()}
    return found | {f"p_{name}": score["p_value"] for name, score in scores.items() if "p_value" in score}


def test_conditional_leakage_shows_what_ctl_subtracts(torch: Any, tmp_path: Path) -> None:
    weak, strong = (leakage(torch, tmp_path, weight) for weight in (0.01, 5.0))
    # Of the weakly supervised model an intervention takes nine tenths of the accuracy.
    assert weak["ctl_conditional"] > 0.2, weak
    assert weak["icl_conditional"] > 0.15, weak
    assert max(weak["p_ctl_conditional"], weak["p_icl_conditional"]) < 0.01, weak
    # It learnt no concept, so what is subtracted hides most of it, and all between concepts.
    assert weak["ctl_excess"] < 0.6 * weak["ctl_conditional"], weak
    assert weak["concept_gap"] == pytest.approx(weak["ctl_conditional"] - weak["ctl_excess"])
    assert weak["icl_excess"] < 0, weak
    assert strong["ctl_conditional"] < 0.13, strong
    assert strong["icl_conditional"] < 0.1, strong
