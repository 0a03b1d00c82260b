"""What a trained model shows on its test rows: the tensors that are logged, and its accuracies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import data
import torch
from plan import Settings, seed_of
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from train import built, file_of

import conceptwatch

# As `conceptwatch.init` has them.
KINDS = {"soft": "probability", "cem": "probability", "logit": "logit", "hard": "hard"}


@dataclass
class Evaluation:
    """Tensors by their names in `Pass.log`; concept probabilities; the task's accuracy after 0 to k interventions, and
    that of a linear head on the true concepts; epochs and seconds of the training."""

    tensors: dict[str, Tensor | None]
    probabilities: Tensor
    accuracies: list[float]
    reference: float
    epochs: int
    seconds: float


@torch.no_grad()
def evaluate(of: Settings, folder: Path) -> Evaluation:
    torch.set_num_threads(1)
    parts = data.parts(of)
    kept = torch.load(file_of(of, folder))
    model = built(of, parts)
    model.load_state_dict(kept["state"])
    model.eval()
    rows = parts.test
    output = model(rows.x)
    # As A.3: for each row the next concept is drawn from those that are left.
    made = conceptwatch.interventions(
        model.of_concepts(output),
        output.activations,
        rows.c,
        kind=KINDS[of["kind"]],
        low=model.absent,
        high=model.present,
        seed=seed_of(of),
        sample_ids=rows.ids,
    )
    after = made["intervention_predictions"]
    tensors = {
        "sample_ids": rows.ids,
        "concept_activations": output.activations,
        "concept_labels": rows.c,
        "task_labels": rows.y,
        "task_logits": output.task_logits,
        "intervened_task_predictions": after[:, -1],
        "concept_embeddings": output.mixed(),
        "positive_embeddings": output.positive,
        "negative_embeddings": output.negative,
        **made,
    }
    accuracies = (after == rows.y[:, None]).float().mean(0).tolist()
    probabilities = torch.sigmoid(output.concept_logits)
    return Evaluation(tensors, probabilities, accuracies, reference_accuracy(parts), kept["epochs"], kept["seconds"])


@torch.enable_grad()
def reference_accuracy(parts: data.Parts) -> float:
    """Test accuracy of a linear head that is trained on the true concepts: y_acc^(k) of eq. 5."""
    torch.manual_seed(0)
    head = nn.Linear(parts.train.c.shape[1], parts.classes)
    optimiser = torch.optim.LBFGS(head.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Any:
        optimiser.zero_grad()
        value = cross_entropy(head(parts.train.c), parts.train.y)
        value.backward()
        return value

    optimiser.step(loss)
    with torch.no_grad():
        return float((head(parts.test.c).argmax(1) == parts.test.y).float().mean())
