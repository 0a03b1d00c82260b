"""The ranks of a training on several nodes log evaluations; a program of `test_slurm.py` for torchrun.

After the first one they wait for a file that the test makes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import conceptwatch
from conftest import batch, wait_for

ROWS = 200


def main() -> None:
    rank = int(os.environ["RANK"])
    run = conceptwatch.init("over-hosts", concepts=3)
    for step in (1, 2):
        with run.evaluation("val", step=step) as p:
            p.log(**batch(ROWS, first_id=ROWS * rank, seed=rank))
        if step == 1:
            wait_for(Path(sys.argv[1]).exists, seconds=120)
    # None at once while the sidecar is away.
    scores = wait_for(lambda: p.scores(timeout=60))
    assert (scores.rows, scores.incomplete) == (4 * ROWS, False)
    assert not run.should_stop(step=2)
    assert run.finish()


if __name__ == "__main__":
    main()
