"""The three commands of deploy/README.md: a database, two hubs, two trainings; and a balancer before hubs.

What the pages of both hubs say is compared with what the trainings printed; one hub is killed while they run.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from postgresql import programs

from conftest import not_tested, wait_for
from monitoring import program_path
from real_sidecar import ask, binary, free_ports, listens

ROOT = Path(__file__).parents[2]
HUB = ROOT / "deploy" / "hub"
RUNS = {"lambda-1.0", "lambda-0.01"}


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[int, dict[str, str], subprocess.Popen[bytes]]]:
    """Two hubs: their first port, the environment of the commands, and the shell that waits for them."""
    programs()
    # The user of the database's package enters the directory.
    for directory in [tmp_path, *tmp_path.parents]:
        mode = directory.stat().st_mode
        if not mode & 0o001:
            directory.chmod(mode | 0o055)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "conceptwatch").symlink_to(binary())
    environment = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    database = tmp_path / "database"
    subprocess.run(["/bin/sh", HUB / "database.sh", database], check=True, timeout=60)
    port = free_ports()
    hubs = subprocess.Popen(["/bin/sh", HUB / "hubs.sh", database, str(port)], env=environment, start_new_session=True)
    try:
        wait_for(lambda: listens(port + 1) and listens(port + 11))
        yield port, environment, hubs
    finally:
        os.killpg(hubs.pid, signal.SIGTERM)
        hubs.wait(timeout=20)
        subprocess.run(["/bin/sh", HUB / "database.sh", "--stop", database], check=True, timeout=60)


def train(addresses: str, environment: dict[str, str], epochs: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, HUB / "trainings.py", "--hubs", addresses, "--epochs", str(epochs)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def runs(page: str) -> dict[str, Any]:
    return {run["name"]: run for run in ask(page, "/api/v1/runs")["runs"]}


def printed(text: str, score: str) -> set[str]:
    """The last values of a score in the summaries of the trainings, as printed."""
    return set(re.findall(rf"^ +{score} +(-?[0-9.]+)", text, flags=re.MULTILINE))


def newest(page: str, run: str, score: str) -> str:
    points = ask(page, "/api/v1/series", run=run, split="val", score=score)["points"]
    return f"{points[-1]['value']:.4f}"


def test_both_pages_show_both_trainings(started: tuple[int, dict[str, str], subprocess.Popen[bytes]]) -> None:
    port, environment, _ = started
    pages = [f"127.0.0.1:{port + 1}", f"127.0.0.1:{port + 11}"]
    training = train(f"127.0.0.1:{port},127.0.0.1:{port + 10}", environment, epochs=6)
    said, _ = training.communicate(timeout=240)
    assert training.returncode == 0, said
    for page in pages:
        wait_for(lambda page=page: {name for name, run in runs(page).items() if run["finished"]} == RUNS)
        for score in ("ctl_conditional", "concept_accuracy"):
            assert {newest(page, run, score) for run in RUNS} == printed(said, score), said


def test_sidecars_go_on_behind_a_balancer_that_loses_a_hub(
    started: tuple[int, dict[str, str], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    haproxy = program_path("haproxy", "/usr/sbin/haproxy") or not_tested("haproxy")
    port, environment, hubs = started
    front = free_ports()
    text = (ROOT / "deploy" / "compose" / "haproxy.cfg").read_text()
    replaced = {" hub-1:": " 127.0.0.1:", " hub-2:": " 127.0.0.1:", "bind :7800": f"bind 127.0.0.1:{front}"}
    replaced |= {"bind :7801": f"bind 127.0.0.1:{front + 1}"}
    for old, new in replaced.items():
        assert old in text, old
        text = text.replace(old, new)
    # The first hub's lines, then the second's.
    for name, first in (("hub-1", port), ("hub-2", port + 10)):
        text = re.sub(rf"(server {name} 127.0.0.1):7800 check port 7801", rf"\1:{first} check port {first + 1}", text)
        text = re.sub(rf"(server {name} 127.0.0.1):7801", rf"\1:{first + 1}", text)
    configuration = tmp_path / "haproxy.cfg"
    configuration.write_text(text)
    balancer = subprocess.Popen([haproxy, "-f", configuration])
    try:
        wait_for(lambda: listens(front + 1))
        page = f"127.0.0.1:{front + 1}"
        training = train(f"127.0.0.1:{front}", environment, epochs=12)
        wait_for(lambda: set(runs(page)) == RUNS and all(run["splits"] for run in runs(page).values()))
        first = Path(f"/proc/{hubs.pid}/task/{hubs.pid}/children").read_text().split()[0]
        os.kill(int(first), signal.SIGKILL)
        said, _ = training.communicate(timeout=240)
        assert training.returncode == 0, said
        other = f"127.0.0.1:{port + 11}"
        wait_for(lambda: {name for name, run in runs(other).items() if run["finished"]} == RUNS)
        assert {newest(other, run, "ctl_conditional") for run in RUNS} == printed(said, "ctl_conditional"), said
        wait_for(lambda: set(runs(page)) == RUNS)
    finally:
        balancer.terminate()
        balancer.wait(timeout=20)
