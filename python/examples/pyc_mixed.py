"""Trains a concept bottleneck model of PyTorch Concepts (PyC) and watches every validation pass; stops on advice.

    pip install pytorch-concepts==1.0.0a7
    python pyc_mixed.py --concept-weight 10
    python pyc_mixed.py --concept-weight 0.01

It has binary, categorical and continuous concepts, and two tasks. The birds are drawn here, as the features that a
pretrained backbone would give.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch_concepts import Annotations
from torch_concepts.nn import ConceptBottleneckModel, WeightedConceptLoss
from torch_concepts.tensor import AnnotatedTensor

import conceptwatch
from conceptwatch import adapters

BIRDS = Annotations(
    labels=["crest", "webbed feet", "colour", "wingspan", "migrates", "habitat"],
    cardinalities=[1, 1, 4, 1, 1, 3],
    types=["binary", "binary", "categorical", "continuous", "binary", "categorical"],
)
TASKS = ["migrates", "habitat"]
WIDTHS = {"crest": 1, "webbed feet": 1, "colour": 4, "wingspan": 1}
FEATURES = 64


def birds(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Features [n, 64], and class numbers and the wingspan in the order of the annotations, [n, 6].

    Whether a bird migrates depends on what it eats, too, which no concept has.
    """
    random = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, 7, generator=random)
    mixing = torch.randn(7, FEATURES, generator=torch.Generator().manual_seed(0))
    x = torch.tanh(hidden @ mixing / 2) + 0.2 * torch.randn(rows, FEATURES, generator=random)
    crest, webbed, wingspan, food = hidden[:, 0] > 0.2, hidden[:, 1] > 0.4, hidden[:, 2], hidden[:, 3]
    colour = torch.cat([hidden[:, 4:7], -hidden[:, 4:7].sum(1, keepdim=True)], 1).argmax(1)
    noise = 0.3 * torch.randn(rows, 4, generator=random)
    migrates = wingspan + 1.2 * crest - 0.8 * (colour == 2) + 0.7 * food + noise[:, 0] > 0.4
    habitat = torch.stack([2.0 * webbed, 1.4 * (colour < 2) - 0.5 * wingspan, 1.2 * crest + 0.3], 1) + noise[:, 1:]
    return x, torch.stack([crest, webbed, colour, wingspan, migrates, habitat.argmax(1)], 1)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concept-weight", type=float, default=10.0, help="weight of the concept loss (lambda)")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--address", help="address of the sidecar; by default one is started if needed")
    options = parser.parse_args(arguments)

    torch.manual_seed(options.seed)
    (x, c), (x_val, c_val) = birds(5000, 2 * options.seed), birds(2000, 2 * options.seed + 1)
    backbone = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU())
    # plate=False: a variable for each concept, so that each can be set by its name.
    model = ConceptBottleneckModel(FEATURES, BIRDS, TASKS, backbone=backbone, latent_size=64, plate=False)
    losses = {"binary": nn.BCEWithLogitsLoss(), "categorical": nn.CrossEntropyLoss(), "continuous": nn.MSELoss()}
    loss_of = WeightedConceptLoss(options.concept_weight, 1.0, TASKS, **losses)
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)

    def head(columns: Tensor) -> list[Tensor]:
        """The tasks' logits from the concepts' logits, of which PyC's predictors read the probabilities."""
        concepts = dict(zip(WIDTHS, columns.split(list(WIDTHS.values()), 1), strict=True))
        concepts["colour"] = concepts["colour"].softmax(1)
        concepts |= {name: concepts[name].sigmoid() for name in ("crest", "webbed feet")}
        logits = model(query=TASKS, evidence=concepts).logits
        return [logits[task].tensor for task in TASKS]

    run = conceptwatch.init(
        f"birds lambda {options.concept_weight:g}",
        concepts=adapters.pytorch_concepts_of(BIRDS, TASKS),
        activation_kind="logit",
        tasks=["migrates", ("habitat", 3)],
        labels={"lambda": options.concept_weight},
        address=options.address,
    )
    for epoch in range(1, options.epochs + 1):
        model.train()
        for rows in torch.randperm(len(x)).split(64):
            outputs = model(query=BIRDS.labels, input=x[rows])
            loss = loss_of(outputs, AnnotatedTensor(c[rows], BIRDS.to_concept_space()))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        model.eval()
        with torch.no_grad(), run.evaluation("val", step=epoch, epoch=epoch) as p:
            outputs = model(query=BIRDS.labels, input=x_val)
            batch = {"concepts": {"c": c_val}, "sample_ids": torch.arange(len(x_val))}
            p.log(**adapters.pytorch_concepts(batch, outputs, annotations=BIRDS, task=TASKS, head=head))
        if run.should_stop(step=epoch, timeout=30):
            print(f"stopped after epoch {epoch}: {run.stop_reason(step=epoch)}")
            break
    print(run.diagnosis(timeout=30))
    run.finish()


if __name__ == "__main__":
    main()
