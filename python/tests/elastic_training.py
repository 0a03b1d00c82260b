"""Ranks log a pass under torchrun. In the first attempt all but the last one end it, and then that is killed inside it.

    python -m torch.distributed.run --nproc-per-node 2 --max-restarts 1 elastic_training.py ADDRESS RUN FOLDER

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

ROWS = 600


def main() -> None:
    address, name, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    last = int(os.environ["WORLD_SIZE"]) - 1
    run = conceptwatch.init(name, concepts=3, address=address, spawn=False, raise_errors=True)
    with run.evaluation("val", step=10) as p:
        p.log(**share(rank, attempt))
        if attempt == 0 and rank == last:
            assert run._sender.flush(run._link, 30.0, while_down=True)
            wait_for(lambda: len(list(folder.glob("ended-*"))) == last, seconds=60.0)
            os.kill(os.getpid(), signal.SIGKILL)
    if attempt == 0:
        assert run._sender.flush(run._link, 30.0, while_down=True)
        (folder / f"ended-{rank}").touch()
        time.sleep(60)  # until torchrun ends it with the other
    assert run.finish()


def share(rank: int, attempt: int) -> dict[str, object]:
    """A rank's rows as the model of this attempt sees them. The first attempt has rows that the second has not."""
    return batch(ROWS, first_id=ROWS * rank + 10 * ROWS * (attempt == 0 and rank == 0), seed=10 * attempt + rank)


if __name__ == "__main__":
    main()
