"""The example's data set and bottleneck model as a Lightning module, for trainings in tests and in their processes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import torch
from torch.nn.functional import binary_cross_entropy, binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, TensorDataset

from train_cbm import BottleneckModel, Output, tabular_toy

TRAIN_ROWS, VAL_ROWS = 4000, 1001


def loaders(train_batch: int = 256, val_batch: int = 300) -> tuple[DataLoader[Any], DataLoader[Any]]:
    """Batches of x [n, 7], concepts [n, 3], task labels [n] and row numbers [n]."""
    rows = tabular_toy(TRAIN_ROWS + VAL_ROWS, 0.25, torch.Generator().manual_seed(0))
    train, val = rows.part(slice(TRAIN_ROWS)), rows.part(slice(TRAIN_ROWS, None))
    return (
        DataLoader(TensorDataset(train.x, train.c, train.y, train.ids), train_batch, shuffle=True),
        DataLoader(TensorDataset(val.x, val.c, val.y, val.ids), val_batch),
    )


def trainer(lightning: Any, *callbacks: Any, **options: Any) -> Any:
    """A trainer of this Lightning package that is quiet and, unless options say otherwise, keeps no checkpoints."""
    quiet = ("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing")
    return lightning.Trainer(accelerator="cpu", callbacks=list(callbacks), **{**dict.fromkeys(quiet, False), **options})


def monitor(name: str, address: str, **options: Any) -> Any:
    """A callback that streams the validations of such a module."""
    options = {"extract": extract_outputs, **options}
    callbacks = importlib.import_module("conceptwatch.lightning")
    return callbacks.LeakageMonitor(name, concepts=3, address=address, spawn=False, **options)


def extract(batch: Any, output: Output) -> dict[str, Any]:
    _, c, y, ids = batch
    return {
        "concept_activations": output.probabilities,
        "concept_labels": c,
        "task_labels": y,
        "task_predictions": output.task_logits > 0,
        "sample_ids": ids,
    }


def module(lightning: Any, concept_weight: float) -> Any:
    """A module of this Lightning package. Weak concept supervision leaks."""

    class Toy(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.model = BottleneckModel(soft=True)

        def _forward(self, x: torch.Tensor) -> Output:
            return self.model(x)

        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            x, c, y, _ = batch
            output = self._forward(x)
            concept_loss = binary_cross_entropy(output.probabilities, c)
            return binary_cross_entropy_with_logits(output.task_logits, y) + concept_weight * concept_loss

        def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> dict[str, Output]:
            return {"output": self._forward(batch[0])}

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    return Toy()


def extract_outputs(batch: Any, outputs: Any) -> dict[str, Any]:
    return extract(batch, outputs["output"])
