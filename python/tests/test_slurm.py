"""`deploy/slurm`: what Slurm starts on each node, here on two nodes that are processes of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import conceptwatch
from conceptwatch._source import Api, Directory
from conftest import Warned, batch, package, python_environment, wait_for
from jobs import EAGER, sidecars
from real_sidecar import binary, free_ports, listens, own_name

SLURM = Path(__file__).parents[2] / "deploy" / "slurm"


def test_the_job_starts_the_script_of_a_node_once_on_each() -> None:
    subprocess.run(["/bin/bash", "-n", SLURM / "train.sbatch"], check=True, timeout=60)
    text = (SLURM / "train.sbatch").read_text()
    assert "#SBATCH --ntasks-per-node=1" in text
    assert "deploy/slurm/host.sh" in text


def test_ranks_on_two_nodes_share_the_sidecar_of_the_first(
    tmp_path: Path, warned: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    package("torch")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "conceptwatch").symlink_to(binary())
    program, goes_on = Path(__file__).with_name("slurm_training.py"), tmp_path / "goes on"
    environment = python_environment(
        PATH=f"{tmp_path}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}",
        SLURM_JOB_ID="4711",
        SLURM_NNODES="2",
        SLURM_SUBMIT_DIR=str(tmp_path),
        RENDEZVOUS=f"{own_name()}:{free_ports()}",
        RANKS_PER_HOST="2",
        **EAGER,
    )
    said, nodes = tmp_path / "said", []

    def start(**more: str) -> None:
        nodes[:] = [
            subprocess.Popen(
                ["/bin/bash", SLURM / "host.sh", program, goes_on],
                env={**environment, **more, "SLURM_NODEID": str(node)},
                stdout=said.open("a"), stderr=subprocess.STDOUT, start_new_session=True,
            )
            for node in range(2)
        ]  # fmt: skip

    def ended() -> None:
        assert [node.wait(timeout=240) for node in nodes] == [0, 0], said.read_text()

    start()
    folder = tmp_path / "conceptwatch" / "4711"
    token = folder / "token"
    try:
        ports = folder / "ports-0-0"
        wait_for(lambda: ports.exists() or any(node.poll() is not None for node in nodes))
        grpc, page = ports.read_text().split()
        port = int(grpc.rpartition(":")[2])
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        sidecar = Api(f"http://{page}", str(token))

        wait_for(lambda: any(run["splits"] for run in sidecar.ask("/api/v1/runs")["runs"]), seconds=120)
        # A program of another user of the node.
        monkeypatch.delenv("CONCEPTWATCH_TOKEN_FILE", raising=False)
        stranger = conceptwatch.init("stranger", concepts=3, address=f"127.0.0.1:{port}", spawn=False)
        stranger.log(step=1, **batch())
        wait_for(lambda: "it requires a token" in str(warned()))
        stranger.finish()
        assert stranger.stats.batches_dropped == {"run_refused": 1}
        # The sidecar comes back at its port, and the ranks go on there.
        (killed,) = sidecars(folder / "curves")
        os.kill(killed, signal.SIGKILL)
        wait_for(lambda: listens(port) and sidecars(folder / "curves") not in ([], [killed]))
        goes_on.touch()
        ended()
        assert "was ended by an exception" not in said.read_text()
        # It has ended with the first node, after all scores were stored, those that train networks too.
        assert not listens(port)
        point = Directory(folder / "curves").ask("/api/v1/point", run="over-hosts", split="val", step=2)
        assert "value" in point["scores"]["ois"]
        start(SLURM_RESTART_COUNT="1")
        ended()
    finally:
        for node in nodes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(node.pid, signal.SIGKILL)
    # A requeued job continues its run.
    (over,) = Directory(folder / "curves").ask("/api/v1/runs")["runs"]
    assert (over["name"], over["finished"], over["world_size"]) == ("over-hosts", True, 4)
    for step in (1, 2):
        point = Directory(folder / "curves").ask("/api/v1/point", run="over-hosts", split="val", step=step)
        assert (point["rows"], point["incomplete"]) == (800, False)
