"""`deploy/slurm`: what Slurm starts on each node, here on two that are processes of this machine, with a hub."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from postgresql import database
from test_upstream import page

from conftest import package, wait_for
from real_sidecar import ask, binary, free_ports, serving

SLURM = Path(__file__).parents[2] / "deploy" / "slurm"


def test_the_script_for_sbatch_is_one_and_starts_the_other_on_each_node() -> None:
    script = SLURM / "train.sbatch"
    subprocess.run(["/bin/bash", "-n", script], check=True, timeout=60)
    text = script.read_text()
    assert "#SBATCH --ntasks-per-node=1" in text
    assert "deploy/slurm/host.sh" in text


def test_ranks_on_two_nodes_share_a_run_at_the_hub(tmp_path: Path) -> None:
    package("torch")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "conceptwatch").symlink_to(binary())
    here = Path(__file__).parent
    with (
        database() as store,
        serving("--store", store, "--workers", "1", "--log", "warn") as hub,
    ):
        environment = {
            **os.environ,
            "PATH": f"{tmp_path}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{here.parent}:{here}",
            "CONCEPTWATCH_UPSTREAM": hub,
            "SLURM_JOB_ID": "4711",
            "SLURM_NNODES": "2",
            "SLURM_SUBMIT_DIR": str(tmp_path),
            "RENDEZVOUS": f"127.0.0.1:{free_ports()}",
            "RANKS_PER_HOST": "2",
            "OMP_NUM_THREADS": "1",
        }
        nodes = [
            subprocess.Popen(
                ["/bin/sh", SLURM / "host.sh", here / "slurm_training.py"],
                env={**environment, "SLURM_NODEID": str(node)},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
            for node in range(2)
        ]  # fmt: skip
        said = [node.communicate(timeout=240)[0] for node in nodes]
        assert [node.returncode for node in nodes] == [0, 0], "\n".join(said)
        wait_for(lambda: all(run["finished"] for run in ask(page(hub), "/api/v1/runs")["runs"]))
        (run,) = ask(page(hub), "/api/v1/runs")["runs"]
        assert (run["name"], run["world_size"]) == ("over-hosts", 4)
        assert [split["points"] for split in run["splits"]] == [1]
