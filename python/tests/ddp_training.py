"""Trains the toy module on several processes; each writes its result to a file.

    python ddp_training.py ADDRESS RUN DEVICES FOLDER

Lightning starts the other processes by running this file again.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.strategies import DDPStrategy

import toy
from conceptwatch.lightning import LeakageEarlyStopping, LeakageMonitor


class KeepWeights(pl.Callback):
    """The weights of every validation, as they were during it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if trainer.is_global_zero and not trainer.sanity_checking:
            torch.save(pl_module.state_dict(), self.folder / f"{trainer.global_step}.pt")


def main() -> None:
    address, run, devices, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    monitor = LeakageMonitor(run, concepts=3, extract=toy.extract_outputs, address=address, spawn=False, timeout=120.0)
    # The third rank does not ask for advice: it stops because the others do.
    advice = os.environ.get("LOCAL_RANK", "0") != "2"
    stopping = LeakageEarlyStopping("leakage/icl", patience=8, advice=advice, timeout=120.0)
    strategy = DDPStrategy(process_group_backend="gloo")
    callbacks = [KeepWeights(folder), stopping, monitor]
    trainer = toy.trainer(pl, *callbacks, max_epochs=12, devices=devices, strategy=strategy)
    # Each rank takes its share of the rows, so that its epochs have fewer batches.
    trainer.fit(toy.module(pl, 0.01, row_by_row=True), *toy.loaders(train_batch=256 // devices))
    found = {
        "rank": trainer.global_rank,
        "world_size": trainer.world_size,
        "step": trainer.global_step,
        "epoch": trainer.current_epoch,
        "stopped_epoch": stopping.stopped_epoch,
        "wait_count": stopping.wait_count,
        "reason": stopping.stopping_reason_message,
        "metrics": {name: value.item() for name, value in trainer.callback_metrics.items()},
        "rows": monitor.run.stats.rows_queued,
    }
    (folder / f"rank{trainer.global_rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
