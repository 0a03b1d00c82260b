"""Ranks log a pass under torchrun. In the first start the last one dies inside the pass that the others have ended.

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

ROWS = 400


def main() -> None:
    address, name, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    rank, last = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]) - 1
    is_first = not (folder / "over").exists()
    run = conceptwatch.init(name, concepts=3, address=address, spawn=False, raise_errors=True)
    with run.evaluation("val", step=10) as p:
        p.log(**share(rank, is_first))
        if is_first and rank == last:
            assert run._sender.flush(run._link, 30.0)
            wait_for(lambda: len(list(folder.glob("ended-*"))) == last)
            (folder / "over").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    if is_first:
        assert run._sender.flush(run._link, 30.0)
        (folder / f"ended-{rank}").touch()
        time.sleep(60)  # until torchrun ends it with the other
        os._exit(1)
    assert run.finish()


def share(rank: int, is_first: bool) -> dict[str, object]:
    """A rank's rows as the model of this start sees them. The second has not all the rows that the first has."""
    return batch(ROWS, first_id=ROWS * rank + 10 * ROWS * (is_first and rank == 0), seed=10 * (not is_first) + rank)


if __name__ == "__main__":
    main()
