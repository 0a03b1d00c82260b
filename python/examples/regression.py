"""Trains a concept bottleneck model that predicts a number and watches every validation pass; stops on advice.

    python regression.py --concept-weight 10
    python regression.py --concept-weight 0.01

The number is the energy that heats a house, the concepts are an assessor's findings. The houses are drawn here, as
readings of meters and thermal cameras.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

import conceptwatch

FINDINGS = ["walls insulated", "roof insulated", "double glazing", "heat pump", "detached", "large"]
READINGS = 40


@dataclass
class Rows:
    """Readings x [n, 40], findings c [n, 6] in {0, 1} and the heating energy y [n], standardised."""

    x: Tensor
    c: Tensor
    y: Tensor


def houses(rows: int, seed: int) -> Rows:
    """How well a house is insulated, and how large it is, matters beyond whether the assessor calls it so."""
    random = torch.Generator().manual_seed(seed)
    degree = torch.randn(rows, len(FINDINGS), generator=random)
    mixing = torch.randn(len(FINDINGS), READINGS, generator=torch.Generator().manual_seed(0))
    x = torch.tanh(degree @ mixing / 2) + 0.2 * torch.randn(rows, READINGS, generator=random)
    c = (degree > torch.tensor([0.2, -0.3, -0.2, 0.5, 0.4, 0.0])).float()
    found = c @ torch.tensor([-0.9, -0.6, -0.5, -1.0, 0.7, 1.2])
    beyond = degree @ torch.tensor([-0.12, -0.1, -0.05, 0.0, 0.0, 0.2])
    y = found + 1.1 + beyond + 0.15 * torch.randn(rows, generator=random)
    return Rows(x, c, y)


class Model(nn.Module):
    """Readings to the logits of findings, whose probabilities a linear head reads, to the energy."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(READINGS, 64), nn.ReLU(), nn.Linear(64, len(FINDINGS)))
        self.head = nn.Linear(len(FINDINGS), 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.encoder(x)
        return logits, self.head(logits.sigmoid()).squeeze(1)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concept-weight", type=float, default=10.0, help="weight of the concept loss (lambda)")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--address", help="address of the sidecar; by default one is started if needed")
    options = parser.parse_args(arguments)

    torch.manual_seed(options.seed)
    train, val = houses(5000, 2 * options.seed), houses(2000, 2 * options.seed + 1)
    model = Model()
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    run = conceptwatch.init(
        f"heating lambda {options.concept_weight:g}",
        concepts=FINDINGS,
        task_labels="continuous",
        head=model.head,
        labels={"lambda": options.concept_weight},
        address=options.address,
    )
    for epoch in range(1, options.epochs + 1):
        for rows in torch.randperm(len(train.x)).split(64):
            findings, energy = model(train.x[rows])
            concept_loss = binary_cross_entropy_with_logits(findings, train.c[rows])
            loss = mse_loss(energy, train.y[rows]) + options.concept_weight * concept_loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        with torch.no_grad(), run.evaluation("val", step=epoch, epoch=epoch) as p:
            findings, energy = model(val.x)
            p.log(
                concept_activations=findings.sigmoid(),
                concept_labels=val.c,
                task_labels=val.y,
                task_predictions=energy,
                sample_ids=torch.arange(len(val.x)),
            )
        if run.should_stop(step=epoch, timeout=30):
            print(f"stopped after epoch {epoch}: {run.stop_reason(step=epoch)}")
            break
    print(run.diagnosis(timeout=30))
    run.finish()


if __name__ == "__main__":
    main()
