"""Starts workers on a Ray cluster, which compute the evaluations of a hub's store until none has come for a while.

    python ray_workers.py postgres://conceptwatch@db.example.org/conceptwatch --workers 8 --threads 4

Every node needs conceptwatch, and the password in the file that PGPASSFILE names. A worker whose node dies is started
again on another; its job goes to whoever asks when its lease ends.
"""

from __future__ import annotations

import argparse
import subprocess

import ray


@ray.remote(max_retries=-1)
def work(store: str, threads: int, idle: float) -> None:
    options = ["--store", store, "--threads", str(threads), "--idle-exit", str(idle)]
    subprocess.run(["conceptwatch", "work", *options], check=True)  # noqa: S607, where each node has it


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", help="postgres://USER@HOST:PORT/DATABASE, without the password")
    parser.add_argument("--workers", type=int, default=4, help="workers in the cluster")
    parser.add_argument("--threads", type=int, default=1, help="threads of a worker: the CPUs that Ray gives it")
    parser.add_argument("--idle", type=float, default=600, help="seconds without a job after which a worker ends")
    given = parser.parse_args()
    started = work.options(num_cpus=given.threads)
    ray.get([started.remote(given.store, given.threads, given.idle) for _ in range(given.workers)])
