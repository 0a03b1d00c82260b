"""Two ranks log a pass under torchrun. In the first attempt rank 0 ends it, and then rank 1 dies inside it.

    python -m torch.distributed.run --nproc-per-node 2 --max-restarts 1 elastic_training.py ADDRESS RUN FOLDER

The ranks do not connect to each other: a process group that is made again may meet the addresses of the dead one's.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import conceptwatch
from conftest import batch, wait_for

ROWS = 600


def main() -> None:
    address, name, ended = sys.argv[1], sys.argv[2], Path(sys.argv[3]) / "ended"
    rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    run = conceptwatch.init(name, concepts=3, address=address, spawn=False, raise_errors=True)
    with run.evaluation("val", step=10) as p:
        p.log(**share(rank, attempt))
        if attempt == 0 and rank == 1:
            assert run._sender.flush(run._link, 30.0, while_down=True)
            wait_for(ended.exists, seconds=30.0)
            os._exit(1)
    if attempt == 0:
        assert run._sender.flush(run._link, 30.0, while_down=True)
        ended.touch()
        time.sleep(60)  # until torchrun ends it with the other
    assert run.finish()


def share(rank: int, attempt: int) -> dict[str, object]:
    """A rank's rows as the model of this attempt sees them. The first attempt has rows that the second has not."""
    return batch(ROWS, first_id=ROWS * rank + 10 * ROWS * (attempt == 0 and rank == 0), seed=10 * attempt + rank)


if __name__ == "__main__":
    main()
