"""Two ranks log a pass under torchrun; in the first attempt rank 1 dies inside it, when rank 0 has ended it.

python -m torch.distributed.run --nproc-per-node 2 --max-restarts 1 elastic_training.py ADDRESS RUN
"""

from __future__ import annotations

import os
import sys
import time

import torch.distributed as dist

import conceptwatch
from conftest import batch

ROWS = 600


def main() -> None:
    address, name = sys.argv[1:]
    dist.init_process_group("gloo")
    rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    run = conceptwatch.init(name, concepts=3, address=address, spawn=False, raise_errors=True)
    with run.evaluation("val", step=10) as p:
        p.log(**share(rank, attempt))
        if attempt == 0 and rank == 1:
            assert run._sender.flush(run._link, 30.0, while_down=True)
            dist.barrier()
            os._exit(1)
    if attempt == 0:
        assert run._sender.flush(run._link, 30.0, while_down=True)
        dist.barrier()
        time.sleep(60)  # until it is ended with the others
    assert run.finish()


def share(rank: int, attempt: int) -> dict[str, object]:
    """A rank's rows as the model of this attempt sees them. The first attempt has rows that the second has not."""
    return batch(ROWS, first_id=ROWS * rank + 10 * ROWS * (attempt == 0 and rank == 0), seed=10 * attempt + rank)


if __name__ == "__main__":
    main()
