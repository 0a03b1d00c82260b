"""A run over two hosts and the one sidecar of both, whatever happens to it and to the network.

As root and with iproute2 the hosts are network namespaces, otherwise processes of this machine. Each point is compared
with that of one process that logs the same rows, to the bit.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts_training import PAUSED, STEPS, K, batches, share
from test_secure import certificates

import conceptwatch
from conftest import not_tested, package, python_environment, wait_for
from real_sidecar import binary, own_name
from torture.network import Network, address, may_part
from torture.points import difference, point
from torture.sidecar import Sidecar, free_port

HERE = Path(__file__).parent
RUN, SPLIT = "over-hosts", "val"
# Seconds for which the network is cut.
CUT = 5.0
# Seconds that the processes of a host may take.
PATIENCE = 120.0


@pytest.fixture(scope="module")
def network() -> Iterator[Network | None]:
    """Two hosts with a network between them; None where this user may make none."""
    if not may_part():
        yield None
        return
    with contextlib.closing(Network(2)) as network:
        network.open()
        yield network


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The points of one process, each with all its scores."""
    sidecar = Sidecar(Path(binary()), tmp_path_factory.mktemp("alone"))
    sidecar.start()
    try:
        sidecar.wait_ready()
        with conceptwatch.init(RUN, concepts=K, address=sidecar.address, spawn=False) as run:
            for step in range(STEPS):
                with run.evaluation(SPLIT, step=step, epoch=step) as p:
                    for one in batches(step, share(0, 1)):
                        p.log(**one)
                assert run.diagnosis(timeout=60.0) is not None
        return [point(sidecar, RUN, step) for step in range(STEPS)]
    finally:
        sidecar.kill()


class Hosts:
    """Two hosts, of which the first has the sidecar."""

    def __init__(self, folder: Path, sockets: Path, network: Network | None, *options: str, scheme: str = "") -> None:
        self.folder, self.network = folder, network
        self.name = own_name() if network is None else address(0)
        self.token = folder / "token"
        self.token.write_text("token-of-these-hosts\n")
        self.token.chmod(0o600)
        port = free_port()
        self.sidecar = Sidecar(
            Path(binary()),
            folder / "sidecar",
            *options,
            within=self.within(0),
            listen=f"{'0.0.0.0' if network is None else self.name}:{port}",  # noqa: S104 - with a token
            page=sockets / "page",
            token_file=self.token,
        )
        self.environment = python_environment(
            CONCEPTWATCH_ADDRESS=f"{scheme}{self.name}:{port}", CONCEPTWATCH_TOKEN_FILE=str(self.token)
        )
        self.started: list[subprocess.Popen[bytes]] = []

    def within(self, host: int) -> tuple[str, ...]:
        return () if self.network is None else self.network.within(host)

    def _start(self, host: int, *command: str, **environment: str) -> None:
        with (self.folder / f"said-{len(self.started)}").open("w") as said:
            self.started.append(
                subprocess.Popen(
                    [*self.within(host), sys.executable, *command],
                    env={**self.environment, **environment}, stdout=said, stderr=said,
                )
            )  # fmt: skip

    def train(self, ranks: int, how: str = "plain") -> None:
        """Starts a rank or two on each host, with the environment that torchrun gives them."""
        here = ranks // 2
        for rank in range(ranks):
            environment = {
                "TORCHELASTIC_RUN_ID": str(self.folder), "TORCHELASTIC_RESTART_COUNT": "0", "GROUP_WORLD_SIZE": "2",
                "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(here),
            }  # fmt: skip
            self._start(rank // here, *self._program(how), **environment)

    def torchrun(self, ranks: int, how: str) -> None:
        """Starts torchrun on both hosts."""
        port = free_port()
        for host in range(2):
            at = self.name if self.network is None else address(0, right=host == 1)
            self._start(
                host, "-m", "torch.distributed.run", "--nnodes=2", f"--nproc-per-node={ranks // 2}",
                "--max-restarts=1", "--monitor-interval=0.1", "--rdzv-backend=c10d", f"--rdzv-id={self.folder}",
                f"--rdzv-endpoint={self.name}:{port}", f"--rdzv-conf=is_host={host == 0}", f"--local-addr={at}",
                *self._program(how),
            )  # fmt: skip

    def _program(self, how: str) -> tuple[str, ...]:
        return (str(HERE / "hosts_training.py"), RUN, str(self.folder), how)

    def reached(self, step: int, ranks: int) -> None:
        """Waits until all ranks have ended the evaluation of a step."""
        of = f"*-{step}-*"
        wait_for(lambda: len(list(self.folder.glob(of))) == ranks or self._failed(), PATIENCE)
        assert not self._failed(), self.said()

    def _failed(self) -> bool:
        return any(process.poll() for process in self.started)

    def said(self) -> str:
        return "\n".join(file.read_text() for file in sorted(self.folder.glob("said-*")))

    def go_on(self) -> None:
        (self.folder / "go").touch()

    def ended(self, ranks: int) -> list[dict[str, Any]]:
        """What the ranks report at their end."""
        wait_for(lambda: all(process.poll() == 0 for process in self.started) or self._failed(), PATIENCE)
        assert not self._failed(), self.said()
        return [json.loads((self.folder / f"rank{rank}.json").read_text()) for rank in range(ranks)]

    def stop(self) -> None:
        for process in (*self.started, self.sidecar.process):
            if process is not None:
                process.kill()
                process.wait()


@contextlib.contextmanager
def hosts(folder: Path, network: Network | None, *options: str, scheme: str = "") -> Iterator[Hosts]:
    # Names of sockets are short.
    with tempfile.TemporaryDirectory(prefix="conceptwatch-") as sockets:
        made = Hosts(folder, Path(sockets), network, *options, scheme=scheme)
        try:
            yield made
        finally:
            made.stop()


def check(made: Hosts, reports: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Every point is there, is complete and has the values of one process."""
    for report in reports:
        assert report["finished"], report
        assert report["stats"]["batches_dropped"] == {}
        assert report["stats"]["passes_unprotected"] == 0
    sidecar = made.sidecar
    (run,) = sidecar.ask("/api/v1/runs")["runs"]
    assert (run["name"], run["world_size"], run["finished"]) == (RUN, len(reports), True)
    assert sidecar.unscored(RUN, SPLIT) == {}
    assert sidecar.steps(RUN, SPLIT) == dict.fromkeys(range(STEPS), 1)
    # The newest has all scores; those that train networks are left out where a newer evaluation comes first.
    wait_for(lambda: difference(point(sidecar, RUN, STEPS - 1), expected[-1])[1] == 0)
    compared = 0
    for step, alone in enumerate(expected):
        got = point(sidecar, RUN, step)
        assert difference(got, alone)[0] == "", step
        assert not got["incomplete"]
        compared += sum("value" in score for score in got["scores"].values())
    print(f"{compared} values equal")
    assert compared > 30 * STEPS


def test_four_ranks_go_on_at_a_sidecar_that_was_killed(
    tmp_path: Path, network: Network | None, expected: list[dict[str, Any]]
) -> None:
    with hosts(tmp_path, network) as made:
        made.sidecar.start()
        made.sidecar.wait_ready()
        made.train(4)
        made.reached(PAUSED, 4)
        made.sidecar.kill()
        made.go_on()
        made.reached(STEPS - 1, 4)
        made.sidecar.start()
        reports = made.ended(4)
        assert len({tuple(report["answers"][str(STEPS - 1)]) for report in reports}) == 1
        check(made, reports, expected)


def test_two_ranks_are_restarted_by_torchrun_and_speak_tls(
    tmp_path: Path, network: Network | None, expected: list[dict[str, Any]]
) -> None:
    package("torch")
    (tmp_path / "tls").mkdir()
    named = f"IP:{address(0)}" if network is not None else f"DNS:{own_name()}"
    files = certificates(tmp_path / "tls", named)
    tls = ("--tls-cert", str(files["server.pem"]), "--tls-key", str(files["server.key"]))
    with hosts(tmp_path, network, *tls, scheme="https://") as made:
        made.environment["CONCEPTWATCH_CA_FILE"] = str(files["ca.pem"])
        made.sidecar.start()
        made.sidecar.wait_ready()
        made.go_on()
        made.torchrun(2, "restarted")
        reports = made.ended(2)
        assert [report["attempt"] for report in reports] == [1, 1]
        check(made, reports, expected)


def test_training_goes_on_while_the_network_is_cut(
    tmp_path: Path, network: Network | None, expected: list[dict[str, Any]]
) -> None:
    if network is None:
        not_tested("namespaces", "are not allowed: they need root and iproute2")
    rules = tmp_path / "rules.toml"
    rules.write_text('[[alerts]]\nname = "few"\nfew_rows = 1000\nadvise_stop = true\n')
    with hosts(tmp_path, network, "--config", str(rules)) as made:
        made.sidecar.start()
        made.sidecar.wait_ready()
        made.train(4, "asking")
        made.reached(PAUSED, 4)
        (link,) = network.links
        link.kill()
        try:
            began = time.monotonic()
            made.go_on()
            made.reached(STEPS - 1, 4)
            time.sleep(max(0.0, began + CUT - time.monotonic()))
        finally:
            link.start()
        reports = made.ended(4)
        check(made, reports, expected)
    for rank, report in enumerate(reports):
        answers = [report["answers"][str(step)] for step in range(PAUSED + 1, STEPS)]
        if rank < 2:
            assert all(stop for stop, _ in answers)
            continue
        # Cut off from the advice that the others had, and told later.
        assert answers[0] == [False, "the sidecar did not answer"]
        assert answers[-1][0]


def test_ranks_that_start_before_the_sidecar_lose_nothing(
    tmp_path: Path, network: Network | None, expected: list[dict[str, Any]]
) -> None:
    with hosts(tmp_path, network) as made:
        made.train(2)
        made.reached(PAUSED, 2)
        made.sidecar.start()
        made.go_on()
        check(made, made.ended(2), expected)


def test_with_a_wrong_token_training_goes_on_and_is_told_so(tmp_path: Path, network: Network | None) -> None:
    with hosts(tmp_path, network) as made:
        made.sidecar.start()
        made.sidecar.wait_ready()
        wrong = tmp_path / "wrong"
        wrong.write_text("token-of-other-hosts\n")
        made.environment["CONCEPTWATCH_TOKEN_FILE"] = str(wrong)
        made.go_on()
        made.train(2)
        for report in made.ended(2):
            assert report["answers"][str(STEPS - 1)][0] is False
            assert set(report["stats"]["batches_dropped"]) == {"run_refused"}
        assert made.said().count("the token is not the one that it requires; pass token_file to init") == 2
        assert made.sidecar.ask("/api/v1/runs")["runs"] == []
