"""Scores archives of model outputs as tasks of a Ray cluster, and prints a table with a line for each file.

usage: python score_files.py [--scores ID,ID] [--threads N] FILE... > scores.csv

The archives (.npz) hold arrays and options that are named like the keywords of `conceptwatch.score`. Every node needs
conceptwatch, and the files at the same paths. Ray repeats the tasks of a node that is lost.
"""

from __future__ import annotations

import argparse
import csv
import sys

import numpy as np
import ray

import conceptwatch


@ray.remote(max_retries=3)
def score(file: str, scores: str, threads: int) -> dict[str, object]:
    """A line of the table: the values of the file's scores, or why there are none."""
    try:
        given = {name: array if array.ndim else array.item() for name, array in np.load(file).items()}
        found = conceptwatch.score(**given, scores=scores.split(",") if scores else None, threads=threads)
    except (OSError, ValueError, conceptwatch.ConceptwatchError) as error:
        return {"file": file, "error": str(error)}
    return {"file": file, "rows": found.rows, **found.defined}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--scores", default="", help="only these")
    parser.add_argument("--threads", type=int, default=1, help="of a task: the CPUs that Ray gives it")
    given = parser.parse_args()
    task = score.options(num_cpus=given.threads)
    lines = ray.get([task.remote(file, given.scores, given.threads) for file in given.files])
    names = sorted({name for line in lines for name in line} - {"file", "rows", "error"})
    table = csv.DictWriter(sys.stdout, ["file", "rows", *names, "error"], lineterminator="\n")
    table.writeheader()
    table.writerows(lines)
    sys.exit(any("error" in line for line in lines))


if __name__ == "__main__":
    main()
