"""What streaming every validation pass costs an epoch of the PyTorch example, at 3 and at 112 concepts.

Epochs with and without the monitor alternate in one process, each pair on two models in the same state; the cost is
the median of the paired ratios. Without --address the sidecar is a stand-in written in Python, which computes no
scores.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from pathlib import Path
from statistics import median, quantiles

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import conceptwatch
import stand_in
import train_cbm


def data(concepts: int) -> train_cbm.Rows:
    random = torch.Generator().manual_seed(0)
    if concepts == 3:
        return train_cbm.tabular_toy(9000, 0.25, random)
    x = torch.randn(9000, 7, generator=random)
    c = (x @ torch.randn(7, concepts, generator=random) > 0).float()
    return train_cbm.Rows(x, c, (c.mean(1) > 0.5).float(), torch.arange(9000))


def epoch_seconds(
    model: train_cbm.BottleneckModel,
    optimiser: torch.optim.Optimizer,
    rows: train_cbm.Rows,
    options: argparse.Namespace,
    epoch: int,
    run: conceptwatch.Run | None,
) -> float:
    torch.manual_seed(epoch)
    start = time.perf_counter()
    train_cbm.train_epoch(model, rows.part(slice(0, 7000)), optimiser, options)
    with run.evaluation("val", step=epoch, epoch=epoch) if run is not None else contextlib.nullcontext() as p:
        train_cbm.evaluate(model, rows.part(slice(7000, 9000)), False, p)
    return time.perf_counter() - start


def measure(concepts: int, epochs: int, address: str) -> None:
    train_cbm.K = concepts
    rows = data(concepts)
    options = argparse.Namespace(model="cbm", concept_weight=1.0, intervention_probability=0.0)
    run = conceptwatch.init(f"epoch-cost-{concepts}", concepts=concepts, address=address, spawn=False)
    torch.manual_seed(0)
    models = [train_cbm.BottleneckModel(soft=True) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimisers = [torch.optim.Adam(model.parameters(), lr=1e-3) for model in models]
    pairs = []
    for epoch in range(1, epochs + 6):
        watched, alone = epoch % 2, 1 - epoch % 2  # which goes first alternates
        seconds = [0.0, 0.0]
        for i in (0, 1) if epoch % 4 < 2 else (1, 0):
            seconds[i] = epoch_seconds(models[i], optimisers[i], rows, options, epoch, run if i == watched else None)
        if epoch > 5:  # the first ones warm up
            pairs.append((seconds[watched], seconds[alone]))
    run.finish()
    ratios = [watched / alone for watched, alone in pairs]
    low, _, high = quantiles(ratios, n=4)
    print(
        f"{concepts} concepts: epoch {1e3 * median(alone for _, alone in pairs):.1f} ms alone, "
        f"{1e3 * median(watched for watched, _ in pairs):.1f} ms streamed; paired ratio {median(ratios):.3f} "
        f"(quartiles {low:.3f} to {high:.3f}, {len(pairs)} pairs)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", help="of a sidecar")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for concepts in (3, 112):
        with stand_in.sidecar_at(arguments.address) as address:
            measure(concepts, arguments.epochs, address)


if __name__ == "__main__":
    main()
