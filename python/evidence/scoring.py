"""The scores of a run's evaluations, by the program itself."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from models import Evaluation, counts
from tasks import Rows

# What rules judge, and what they are compared with.
SCORES = ("ctl_conditional", "icl_conditional", "ctl_excess", "icl_excess", "concept_accuracy", "concept_auc")
SCORES += ("task_accuracy", "intervention_drop", "wrong_intervention_drop")
# Over pairs of concepts.
PAIRS = ("icl_conditional", "icl_excess")
WITH_ERRORS = ("ctl_conditional", "icl_conditional", "ctl_excess", "icl_excess")
REFERENCES = ("reference_accuracy_linear", "reference_accuracy_mlp")


def scored(binary: str, file: Path, scores: tuple[str, ...]) -> dict[str, Any]:
    command = [binary, "score", str(file), "--json", "--no-tests", "--threads", "1", "--scores", ",".join(scores)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(output)["scores"])


def save(file: Path, rows: Rows, encoding: str, evaluation: Evaluation) -> None:
    """The archive that `conceptwatch score` reads."""
    k = rows.c.shape[1]
    np.savez(
        file,
        concept_activations=evaluation.activations,
        concept_labels=rows.c.astype(np.uint8),
        task_labels=rows.y.astype(np.int32),
        task_predictions=evaluation.predictions,
        intervention_predictions=evaluation.intervened,
        wrong_intervention_predictions=evaluation.wrong,
        intervention_counts=counts(k),
        activation_kind=np.array("probability" if encoding == "soft" else "logit"),
    )


def curves(binary: str, rows: Rows, encoding: str, evaluations: list[Evaluation], pairs: bool = True) -> dict[str, Any]:
    """Curves of the scores and their errors, and the accuracy of heads on the true concepts."""
    ids = tuple(score for score in SCORES if pairs or score not in PAIRS)
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "evaluation.npz"
        for evaluation in evaluations:
            save(file, rows, encoding, evaluation)
            found.append(scored(binary, file, ids))
        references = scored(binary, file, REFERENCES)
    reference = max(references[score]["value"] for score in REFERENCES)

    def curve(score: str, key: str) -> list[float | None]:
        values = [one[score].get(key) for one in found]
        return [None if value is None else round(value, 4) for value in values]

    scores = {score: curve(score, "value") for score in ids}
    accuracy = scores["task_accuracy"]
    scores["task_excess"] = [None if value is None else round(value - reference, 4) for value in accuracy]
    errors = {score: curve(score, "standard_error") for score in WITH_ERRORS if score in ids}
    return {"reference": round(reference, 4), "scores": scores, "errors": errors}
