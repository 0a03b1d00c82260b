"""Trains a concept bottleneck model on TabularToy and streams every validation pass to conceptwatch.

    python train_cbm.py --concept-weight 0.01
    python train_cbm.py --concept-weight 5 --bottleneck logit
    python train_cbm.py --model cem

Weak concept supervision (a small weight) causes leakage: the concepts carry more information about the task than their
labels do, and the head learns to use it. The data set and the models are those of "Leakage and Interpretability in
Concept-Based Models", A.1 and A.2.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy, binary_cross_entropy_with_logits, leaky_relu

import conceptwatch

K = 3
BATCH = 512
EVALUATION_BATCH = 2000
EMBEDDING = 16


@dataclass
class Rows:
    """Inputs x [n, 7], concepts c [n, 3] in {0, 1}, task labels y [n] in {0, 1}, and row numbers in the data set."""

    x: Tensor
    c: Tensor
    y: Tensor
    ids: Tensor

    def part(self, rows: Tensor | slice) -> Rows:
        return Rows(self.x[rows], self.c[rows], self.y[rows], self.ids[rows])


def tabular_toy(rows: int, delta: float, random: torch.Generator) -> Rows:
    """Three hidden Gaussians of unit variance and correlation delta; a concept is the sign of one."""
    covariance = torch.full((3, 3), delta).fill_diagonal_(1.0)
    z = torch.randn(rows, 3, generator=random) @ torch.linalg.cholesky(covariance).T
    waves = torch.stack([torch.sin(z) + z, torch.cos(z) + z], dim=2).flatten(1)
    x = torch.cat([waves, z.square().sum(1, keepdim=True)], dim=1)
    c = (z > 0).float()
    return Rows(x, c, (c.sum(1) >= 2).float(), torch.arange(rows))


@dataclass
class Output:
    """Concept probabilities [n, 3], concept and task logits, the input of the head, and a CEM's embeddings."""

    probabilities: Tensor
    concept_logits: Tensor
    task_logits: Tensor
    positive: Tensor | None = None
    negative: Tensor | None = None

    def mixed(self) -> Tensor | None:
        return None if self.positive is None else mix(self.probabilities, self.positive, self.negative)


def mix(p: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    return p.unsqueeze(2) * positive + (1 - p).unsqueeze(2) * negative


def hidden_layers() -> list[nn.Module]:
    return [nn.Linear(7, 64), nn.LeakyReLU(), nn.Linear(64, 64), nn.LeakyReLU()]


class BottleneckModel(nn.Module):
    """x to concept logits to a linear head, which sees probabilities (soft) or the logits themselves (logit)."""

    def __init__(self, soft: bool) -> None:
        super().__init__()
        self.soft = soft
        self.encoder = nn.Sequential(*hidden_layers(), nn.Linear(64, K))
        self.head = nn.Linear(K, 1)
        # The head's inputs for an absent and a present concept when an expert sets it.
        self.register_buffer("absent", torch.zeros(K))
        self.register_buffer("present", torch.ones(K))

    def forward(self, x: Tensor, c: Tensor | None = None, intervened: Tensor | None = None) -> Output:
        logits = self.encoder(x)
        probabilities = torch.sigmoid(logits)
        return Output(probabilities, logits, self.head(probabilities if self.soft else logits).squeeze(1))

    def with_true_concepts(self, output: Output, c: Tensor) -> Tensor:
        return self.head(torch.where(c > 0.5, self.present, self.absent)).squeeze(1)

    def head_of(self, output: Output) -> conceptwatch.Head:
        return conceptwatch.Head(self.head, low=self.absent, high=self.present)

    @torch.no_grad()
    def note_training_logits(self, x: Tensor) -> None:
        if not self.soft:
            self.absent, self.present = torch.quantile(self.encoder(x), torch.tensor([0.05, 0.95]), dim=0)


class EmbeddingModel(nn.Module):
    """A concept embedding model: each concept has two vectors, and the head sees them mixed by its probability."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(*hidden_layers())
        self.vectors = nn.Linear(64, K * 2 * EMBEDDING)
        self.scoring = nn.Linear(2 * EMBEDDING, 1)
        self.head = nn.Linear(K * EMBEDDING, 1)

    def forward(self, x: Tensor, c: Tensor | None = None, intervened: Tensor | None = None) -> Output:
        vectors = leaky_relu(self.vectors(self.encoder(x))).unflatten(1, (K, 2 * EMBEDDING))
        logits = self.scoring(vectors).squeeze(2)
        probabilities = torch.sigmoid(logits)
        positive, negative = vectors[:, :, :EMBEDDING], vectors[:, :, EMBEDDING:]
        used = probabilities if intervened is None or c is None else torch.where(intervened, c, probabilities)
        task = self.head(mix(used, positive, negative).flatten(1)).squeeze(1)
        return Output(probabilities, logits, task, positive, negative)

    def with_true_concepts(self, output: Output, c: Tensor) -> Tensor:
        return self.head(mix(c, output.positive, output.negative).flatten(1)).squeeze(1)

    def head_of(self, output: Output) -> conceptwatch.Head:
        return conceptwatch.Head(conceptwatch.embedding_head(self.head, output.positive, output.negative))

    def note_training_logits(self, x: Tensor) -> None:
        pass


def accuracy(logits: Tensor, truth: Tensor) -> float:
    return ((logits > 0) == (truth > 0.5)).float().mean().item()


def reference_accuracy(train: Rows, val: Rows) -> float:
    """Task accuracy of a linear head on the true concepts: what no leakage can be better than by right."""
    head = nn.Linear(K, 1)
    optimiser = torch.optim.LBFGS(head.parameters(), max_iter=100)

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = binary_cross_entropy_with_logits(head(train.c).squeeze(1), train.y)
        value.backward()
        return value

    optimiser.step(loss)
    with torch.no_grad():
        return accuracy(head(val.c).squeeze(1), val.y)


def train_epoch(model: nn.Module, rows: Rows, optimiser: torch.optim.Optimizer, options: argparse.Namespace) -> int:
    """One pass over the training rows. Returns the number of optimiser steps."""
    steps = 0
    for chosen in torch.randperm(len(rows.y)).split(BATCH):
        batch = rows.part(chosen)
        intervened = torch.rand_like(batch.c) < options.intervention_probability if options.model == "cem" else None
        output = model(batch.x, batch.c, intervened)
        concept_loss = binary_cross_entropy(output.probabilities, batch.c)
        loss = binary_cross_entropy_with_logits(output.task_logits, batch.y) + options.concept_weight * concept_loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        steps += 1
    return steps


@torch.no_grad()
def evaluate(
    model: nn.Module, rows: Rows, logit: bool, p: conceptwatch.Pass | None, curves: bool = True
) -> tuple[float, float, float]:
    """Concept accuracy, task accuracy, and task accuracy with true concepts; streams the pass if `p` is given.

    curves: intervene on the head too.
    """
    sums = torch.zeros(3)
    for start in range(0, len(rows.y), EVALUATION_BATCH):
        batch = rows.part(slice(start, start + EVALUATION_BATCH))
        output = model(batch.x)
        intervened = model.with_true_concepts(output, batch.c)
        if p is not None:
            p.log(
                sample_ids=batch.ids,
                concept_activations=output.concept_logits if logit else output.probabilities,
                concept_labels=batch.c,
                task_labels=batch.y,
                task_predictions=output.task_logits > 0,
                concept_embeddings=output.mixed(),
                positive_embeddings=output.positive,
                negative_embeddings=output.negative,
                head=model.head_of(output) if curves else None,
            )
        found = [
            accuracy(output.concept_logits, batch.c),
            accuracy(output.task_logits, batch.y),
            accuracy(intervened, batch.y),
        ]
        sums += torch.tensor(found) * len(batch.y)
    concepts, task, with_truth = (sums / len(rows.y)).tolist()
    return concepts, task, with_truth


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concept-weight", type=float, default=1.0, help="weight of the concept loss (lambda)")
    parser.add_argument("--bottleneck", choices=["soft", "logit"], default="soft")
    parser.add_argument("--model", choices=["cbm", "cem"], default="cbm")
    parser.add_argument("--intervention-probability", type=float, default=0.25, help="per concept, in CEM training")
    parser.add_argument("--delta", type=float, default=0.25, help="correlation of the hidden variables, in [0, 1)")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", help="name of the run; by default made from the options")
    parser.add_argument("--address", help="address of the sidecar; by default one is started if needed")
    parser.add_argument("--no-monitor", action="store_true", help="train without conceptwatch")
    return parser.parse_args()


def start_run(options: argparse.Namespace, reference: float) -> conceptwatch.Run:
    logit = options.model == "cbm" and options.bottleneck == "logit"
    kind = "cem" if options.model == "cem" else options.bottleneck
    run = conceptwatch.init(
        options.name or f"tabulartoy {kind} lambda {options.concept_weight:g} seed {options.seed}",
        concepts=["z1 positive", "z2 positive", "z3 positive"],
        activation_kind="logit" if logit else "probability",
        labels={"lambda": f"{options.concept_weight:g}", "bottleneck": kind, "seed": options.seed},
        reference_task_accuracy=reference,
        address=options.address,
    )
    print(f"run '{run.name}', live at {run.page_url}")
    return run


def leakage(run: conceptwatch.Run, step: int | None = None, timeout: float = 0.0) -> str:
    """The newest scores, or those of a step. Epochs shorter than an evaluation are skipped."""
    scores = run.scores("val", step=step, timeout=timeout)
    if scores is None:
        return ""
    names = ("intervention_drop", "ctl", "icl", "icl_label", "embedding_ct")
    shown = [f"{name} {scores[name]}" for name in names if name in scores]
    return f"  [step {scores.step}] {', '.join(shown)}"


def main() -> None:
    options = arguments()
    torch.manual_seed(options.seed)
    data = tabular_toy(10_000, options.delta, torch.Generator().manual_seed(options.seed))
    train, val, test = (data.part(slice(*ends)) for ends in ((0, 7000), (7000, 9000), (9000, 10_000)))
    model = EmbeddingModel() if options.model == "cem" else BottleneckModel(options.bottleneck == "soft")
    logit = options.model == "cbm" and options.bottleneck == "logit"
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    reference = reference_accuracy(train, val)
    run = None if options.no_monitor else start_run(options, reference)

    step, times = 0, []
    for epoch in range(1, options.epochs + 1):
        start = time.perf_counter()
        step += train_epoch(model, train, optimiser, options)
        model.note_training_logits(train.x)
        with run.evaluation("val", step=step, epoch=epoch) if run is not None else contextlib.nullcontext() as p:
            concepts, task, with_truth = evaluate(model, val, logit, p)
        times.append(time.perf_counter() - start)
        found = leakage(run) if run is not None else ""  # for the line below only
        print(
            f"epoch {epoch:3d}  {times[-1] * 1e3:5.1f} ms  accuracy: concepts {concepts:.3f}, task {task:.3f}, "
            f"task with true concepts {with_truth:.3f}{found}"
        )
    concepts, task, with_truth = evaluate(model, test, logit, None)
    print(f"test accuracy: concepts {concepts:.3f}, task {task:.3f}, task with true concepts {with_truth:.3f}")
    print(f"a linear head on true concepts: task {reference:.3f}; median epoch {1e3 * median(times):.1f} ms")
    if run is not None:
        print(f"leakage at the end:{leakage(run, step, timeout=60.0) or '  no scores'}")
        run.finish()


if __name__ == "__main__":
    main()
