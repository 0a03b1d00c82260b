"""The data sets, split: TabularToy as in A.1 of the paper, with the tasks of its experiments, and data sets of ten and
twelve classes."""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

sys.path += [str(Path(__file__).parents[1] / programs) for programs in ("examples", "evidence")]

import tasks
from plan import FACTORS, Settings, seed_of

from train_cbm import Rows, tabular_toy

TRAINING_ROWS, VALIDATION_ROWS, TEST_ROWS = 7000, 2000, 1000


@dataclass
class Parts:
    """Rows to train on, to stop early on and to test on, and the number of classes."""

    train: Rows
    validation: Rows
    test: Rows
    classes: int


def parts(of: Settings) -> Parts:
    return toy(of) if of["data"] == "toy" else other(of)


def toy(of: Settings) -> Parts:
    """A data set of the model's own, so that the test rows of two models are independent too."""
    random = torch.Generator().manual_seed(seed_of(of))
    rows = tabular_toy(TRAINING_ROWS + VALIDATION_ROWS + TEST_ROWS, of["delta"], random)
    if of["experiment"] == "two concepts":
        rows.y = (rows.c[:, :2].sum(1) >= 1).float()
    elif factor := FACTORS.get(of["experiment"]):
        rows.y = (rows.c.sum(1) - factor * rows.c[:, 0] * rows.c[:, 1] >= 2).float()
    rows.y = rows.y.long()
    rows.c = rows.c[:, : of["concepts"]].contiguous()
    ends = (0, TRAINING_ROWS, TRAINING_ROWS + VALIDATION_ROWS, len(rows.y))
    train, validation, test = (rows.part(slice(*pair)) for pair in itertools.pairwise(ends))
    return Parts(train, validation, test, 2)


def other(of: Settings) -> Parts:
    """Digits in an order of the model's own, and images drawn for it. No row is held out to stop early."""
    drawn = tasks.DRAW[of["data"]](np.random.default_rng(seed_of(of)))

    def rows(found: tasks.Rows) -> Rows:
        x, c, y = (torch.from_numpy(array) for array in (found.x, found.c, found.y))
        return Rows(x, c, y, torch.arange(len(y)))

    return Parts(rows(drawn.train), rows(drawn.val), rows(drawn.val), drawn.classes)
