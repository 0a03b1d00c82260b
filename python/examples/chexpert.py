"""Trains a concept bottleneck model on a data set like CheXpert and watches every validation pass; stops on advice.

    python chexpert.py --concept-weight 10
    python chexpert.py --concept-weight 0.01

Signs on chest radiographs are the concepts and three diagnoses the tasks; a third of all labels is unknown. The
radiographs are drawn here, as the features that a pretrained backbone would give.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

import conceptwatch

SIGNS = ["opacity", "large heart", "blunted angle", "vessel redistribution", "air bronchogram", "tube", "rib gap"]
TASKS = ["edema", "effusion", "pneumonia"]
FEATURES = 96
UNKNOWN = 1 / 3


@dataclass
class Rows:
    """Features x [n, 96], signs c [n, 7] and diagnoses y [n, 3] in {0, 1}, with NaN where nobody has stated them."""

    x: Tensor
    c: Tensor
    y: Tensor


def radiographs(rows: int, seed: int) -> Rows:
    """A sign is more or less severe, and present above a threshold. Two diagnoses follow from signs.

    Pneumonia depends on how severe the opacity is, too, which no concept has.
    """
    random = torch.Generator().manual_seed(seed)
    common = torch.randn(rows, 1, generator=random)
    severity = 0.5 * common + torch.randn(rows, len(SIGNS), generator=random)
    mixing = torch.randn(len(SIGNS), FEATURES, generator=torch.Generator().manual_seed(0))
    x = torch.tanh(severity @ mixing / 2) + 0.3 * torch.randn(rows, FEATURES, generator=random)
    c = (severity > 0.3).float()
    risk = torch.stack([
        1.2 * c[:, 0] + 1.5 * c[:, 1] + 1.8 * c[:, 3] - 2.2,
        2.5 * c[:, 2] + 0.8 * c[:, 1] + 0.5 * c[:, 0] - 1.9,
        1.5 * c[:, 4] + 0.8 * c[:, 0] + 1.2 * severity[:, 0] - 1.7,
    ], dim=1)  # fmt: skip
    y = (risk + 0.3 * torch.randn(rows, len(TASKS), generator=random) > 0).float()

    def partly_known(labels: Tensor) -> Tensor:
        return labels.masked_fill(torch.rand(labels.shape, generator=random) < UNKNOWN, torch.nan)

    return Rows(x, partly_known(c), partly_known(y))


class Model(nn.Module):
    """Features to the logits of signs, whose probabilities a linear head reads, to the logits of diagnoses."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(FEATURES, 128), nn.ReLU(), nn.Linear(128, len(SIGNS)))
        self.head = nn.Linear(len(SIGNS), len(TASKS))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.encoder(x)
        return logits, self.head(logits.sigmoid())


def known_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean over the labels that are known."""
    known = ~labels.isnan()
    return binary_cross_entropy_with_logits(logits[known], labels[known])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concept-weight", type=float, default=10.0, help="weight of the concept loss (lambda)")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--address", help="address of the sidecar; by default one is started if needed")
    options = parser.parse_args(arguments)

    torch.manual_seed(options.seed)
    train, val = radiographs(6000, 2 * options.seed), radiographs(2000, 2 * options.seed + 1)
    model = Model()
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    run = conceptwatch.init(
        f"chexpert lambda {options.concept_weight:g}",
        concepts=SIGNS,
        tasks=TASKS,
        missing_concept_labels=True,
        missing_task_labels=True,
        head=model.head,
        labels={"lambda": options.concept_weight},
        address=options.address,
    )
    for epoch in range(1, options.epochs + 1):
        for rows in torch.randperm(len(train.x)).split(64):
            signs, diagnoses = model(train.x[rows])
            loss = known_loss(diagnoses, train.y[rows]) + options.concept_weight * known_loss(signs, train.c[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        with torch.no_grad(), run.evaluation("val", step=epoch, epoch=epoch) as p:
            signs, diagnoses = model(val.x)
            p.log(
                concept_activations=signs.sigmoid(),
                concept_labels=val.c,
                task_labels=val.y,
                task_logits=diagnoses,
                sample_ids=torch.arange(len(val.x)),
            )
        if run.should_stop(step=epoch, timeout=30):
            print(f"stopped after epoch {epoch}: {run.stop_reason(step=epoch)}")
            break
    print(run.diagnosis(timeout=30))
    run.finish()


if __name__ == "__main__":
    main()
