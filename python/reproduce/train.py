"""Trains the models of `plan.py` and keeps their weights, so that they can be scored again without training.

    python train.py FOLDER

Models already in the folder are not trained again.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import data
import torch
from networks import BottleneckModel, EmbeddingModel, encoder_for, hidden_layers, toy_encoder
from plan import Settings, name_of, plan, seed_of
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy


@dataclass(frozen=True)
class Recipe:
    epochs: int
    batch: int
    rate: float


# The paper's for TabularToy.
RECIPES = {
    "toy": Recipe(epochs=200, batch=512, rate=1e-3),
    "digits": Recipe(epochs=24, batch=32, rate=1e-3),
    "sprites": Recipe(epochs=15, batch=64, rate=1e-3),
}
HEAD_EPOCHS, HEAD_RATE, MOMENTUM = 20, 0.1, 0.9
# Of early stopping on the validation loss, in the released code.
PATIENCE = 15


def built(of: Settings, parts: data.Parts) -> Any:
    """An untrained model."""
    if of["kind"] == "cem":
        return EmbeddingModel(nn.Sequential(*hidden_layers()), 64, of["concepts"], parts.classes)
    if of["data"] == "toy":
        encoder = toy_encoder(of["concepts"], of["experiment"] == "released")
    else:
        encoder = encoder_for(tuple(parts.train.x.shape[1:]), of["concepts"])
    return BottleneckModel(of["kind"], encoder, nn.Linear(of["concepts"], parts.classes), of["concepts"])


def recipe_of(of: Settings) -> Recipe:
    return RECIPES[of["data"].split("-")[0]]


def loss_of(model: Any, of: Settings, rows: data.Rows, intervened: Tensor | None = None) -> Tensor:
    output = model(rows.x, rows.c, intervened)
    concept = binary_cross_entropy_with_logits(output.concept_logits, rows.c)
    # The head of a hard model is trained on the true concepts, after the encoder.
    return concept if of["kind"] == "hard" else cross_entropy(output.task_logits, rows.y) + of["weight"] * concept


def train_joint(model: Any, of: Settings, parts: data.Parts) -> int:
    """Returns the number of epochs."""
    released = of["experiment"] == "released"
    recipe = recipe_of(of)
    optimiser = torch.optim.Adam(model.parameters(), lr=recipe.rate, fused=True)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser) if released else None
    best, since = float("inf"), 0
    for epoch in range(1, recipe.epochs + 1):
        model.train()
        # The released code goes through the rows in one order.
        rows = parts.train if released else parts.train.part(torch.randperm(len(parts.train.y)))
        for start in range(0, len(rows.y), recipe.batch):
            batch = rows.part(slice(start, start + recipe.batch))
            intervened = None
            if of["intervention"]:
                # One mask for all rows of a batch, as in the released code.
                intervened = (torch.rand(1, of["concepts"]) < of["intervention"]).expand_as(batch.c)
            loss = loss_of(model, of, batch, intervened)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        if plateau is not None:
            plateau.step(loss.item())
            model.eval()
            with torch.no_grad():
                found = loss_of(model, of, parts.validation).item()
            best, since = (found, 0) if found < best else (best, since + 1)
            if since >= PATIENCE:
                return epoch
    return recipe.epochs


def train_head(model: BottleneckModel, rows: data.Rows, batch: int) -> None:
    """The head of a hard model, on the true concepts, by the optimiser of the released code."""
    optimiser = torch.optim.SGD(model.head.parameters(), lr=HEAD_RATE, momentum=MOMENTUM)
    for _ in range(HEAD_EPOCHS):
        for chosen in torch.randperm(len(rows.y)).split(batch):
            loss = cross_entropy(model.head(rows.c[chosen]), rows.y[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()


def train(of: Settings, folder: Path) -> None:
    torch.set_num_threads(1)
    parts = data.parts(of)
    torch.manual_seed(seed_of(of) + 1)
    start = time.process_time()
    model = built(of, parts)
    epochs = train_joint(model, of, parts)
    if of["kind"] == "hard":
        train_head(model, parts.train, recipe_of(of).batch)
    model.eval()
    model.note_training_logits(parts.train.x)
    kept = {"epochs": epochs, "seconds": time.process_time() - start, "state": model.state_dict()}
    unfinished = file_of(of, folder).with_suffix(".part")
    torch.save(kept, unfinished)
    # A file with the final name is whole.
    os.replace(unfinished, file_of(of, folder))


def file_of(of: Settings, folder: Path) -> Path:
    return folder / f"{name_of(of)}.pt"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--processes", type=int, default=2, help="models trained at once")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    wanted = plan()
    left = [of for of in wanted if not file_of(of, options.folder).exists()]
    start, known = time.monotonic(), len(wanted) - len(left)
    # A forked process would inherit the locks of PyTorch's threads.
    with ProcessPoolExecutor(options.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done, _ in enumerate(pool.map(partial(train, folder=options.folder), left), 1):
            took = time.monotonic() - start
            rest = took / done * (len(left) - done)
            state = f"\rtrained {known + done}/{len(wanted)} models, {took:.0f} s, {rest:.0f} s left "
            print(state, end="", flush=True)
    print()


if __name__ == "__main__":
    main()
