"""Trains the toy module on several processes; each writes its result to a file.

    python ddp_training.py ADDRESS RUN DEVICES FOLDER

Lightning starts the other processes by running this file again.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import lightning.pytorch as pl
from lightning.pytorch.strategies import DDPStrategy

import toy
from conceptwatch.lightning import LeakageEarlyStopping, LeakageMonitor


def main() -> None:
    address, run, devices, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    monitor = LeakageMonitor(run, concepts=3, extract=toy.extract_outputs, address=address, spawn=False, timeout=120.0)
    # The third rank does not ask for advice: it stops because the others do.
    advice = os.environ.get("LOCAL_RANK", "0") != "2"
    stopping = LeakageEarlyStopping("leakage/icl", patience=8, advice=advice, timeout=120.0)
    strategy = DDPStrategy(process_group_backend="gloo")
    trainer = toy.trainer(pl, stopping, monitor, max_epochs=12, devices=devices, strategy=strategy)
    # Each rank takes its share of the rows, so that its epochs have fewer batches.
    trainer.fit(toy.module(pl, 0.01), *toy.loaders(train_batch=256 // devices))
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
