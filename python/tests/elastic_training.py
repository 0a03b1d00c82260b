"""Ranks log a pass under torchrun. In all starts but the last one, some die inside the pass that others have ended.

    python -m torch.distributed.run --nproc-per-node 2 --max-restarts 1 elastic_training.py ADDRESS RUN FOLDER 1 workers

The last arguments are the number of restarts, and who dies:

    workers: the last rank, each time.
    hosts: first the agent of the last rank, whereupon rank 0 fails, too; then nobody, until torchrun starts more ranks.

The ranks do not connect to each other: a process group that is made again may meet the addresses of the dead one's.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import conceptwatch
from conftest import batch, wait_for

ROWS = 400


def main() -> None:
    address, name, folder, restarts, who = *sys.argv[1:3], Path(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    rank, last = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]) - 1
    start = len(list(folder.glob("over-*")))
    run = conceptwatch.init(name, concepts=3, address=address, spawn=False, raise_errors=True)
    with run.evaluation("val", step=10) as p:
        p.log(**share(rank, start, restarts))
        if start < restarts and rank == last:
            assert run._sender.flush(run._link, 30.0, while_down=True)
            wait_for(lambda: len(list(folder.glob(f"ended-{start}-*"))) == last, seconds=60.0)
            (folder / f"over-{start}").touch()
            if who == "workers" or start == 0:
                if who == "hosts":
                    os.kill(os.getppid(), signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
    if start < restarts:
        assert run._sender.flush(run._link, 30.0, while_down=True)
        (folder / f"ended-{start}-{rank}").touch()
        if who == "hosts" and start == 0 and rank == 0:
            wait_for((folder / "over-0").exists, seconds=60.0)
            os._exit(1)
        time.sleep(60)  # until torchrun ends it with the other
        os._exit(1)
    assert run.finish()


def share(rank: int, start: int, restarts: int) -> dict[str, object]:
    """A rank's rows as the model of this start sees them. The last start has not all the rows that the others have."""
    return batch(ROWS, first_id=ROWS * rank + 10 * ROWS * (start < restarts and rank == 0), seed=10 * start + rank)


if __name__ == "__main__":
    main()
