"""The ranks of a training on several hosts log a pass; a program of `test_slurm.py` for torchrun."""

from __future__ import annotations

import os

import conceptwatch
from conftest import batch

ROWS = 200


def main() -> None:
    rank = int(os.environ["RANK"])
    run = conceptwatch.init("over-hosts", concepts=3, spawn=False, raise_errors=True)
    with run.evaluation("val", step=1) as p:
        p.log(**batch(ROWS, first_id=ROWS * rank, seed=rank))
    scores = p.scores(timeout=60)
    assert scores is not None
    assert not scores.incomplete
    assert not run.should_stop(step=1)
    assert run.finish()


if __name__ == "__main__":
    main()
