"""Two hosts with one sidecar, two hubs and a PostgreSQL, each of which can be killed alone.

Hubs and hosts are in a row of networks: hubs, the host of the sidecar, the other host. Pages are asked by Unix sockets,
which no network parts.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from .network import Network, address
from .results import Setting
from .sidecar import Sidecar, free_port, wait_for

DATABASE = Path(__file__).parents[2] / "deploy" / "hub" / "database.sh"
HOSTS = 2
LOOPBACK = "127.0.0.1"
# Less than the rows of a pass, so that ranks leave out rows.
SAMPLE = ("--sample-rows", "256")


class Victim(Protocol):
    """What can be killed, and started again."""

    name: str

    def kill(self) -> None: ...

    def start(self) -> None:
        """Starts it without waiting until it serves."""


class Database:
    name = "PostgreSQL"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script(str(folder))
        self.url = (folder / "url").read_text().strip()

    def script(self, *arguments: str) -> None:
        command = [shutil.which("sh") or "/bin/sh", str(DATABASE), *arguments]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        if done.returncode:
            raise OSError(done.stderr.decode(errors="replace"))

    def kill(self) -> None:
        """The postmaster; its other processes end when they notice."""
        process = int((self.folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        os.kill(process, signal.SIGKILL)

    def start(self) -> None:
        def started() -> bool:
            # Only once all processes of the previous one have ended.
            with contextlib.suppress(OSError):
                self.script(str(self.folder))
                return True
            return False

        wait_for(started, pause=0.1)

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self.script("--stop", str(self.folder))

    def ask(self, sql: str) -> list[list[str]]:
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/psql"))
        command = [str(programs[-1]) if programs else "psql", "--no-psqlrc", "-tA", "-F", "|", "-c", sql, self.url]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        return [line.split("|") for line in said.splitlines()]

    def points(self) -> tuple[Counter[int], int]:
        """Number of points of each step, and of points that are superseded."""
        rows = self.ask("SELECT step, superseded > 0 OR provisional FROM point")
        current = Counter(int(step) for step, is_past in rows if is_past == "f")
        return current, len(rows) - current.total()


class Program:
    """A sidecar or hub that can be restarted unchanged."""

    def __init__(self, name: str, sidecar: Sidecar) -> None:
        self.name, self.sidecar = name, sidecar

    def kill(self) -> None:
        self.sidecar.kill()

    def start(self) -> None:
        self.sidecar.start()


class Cluster:
    def __init__(self, setting: Setting, folder: Path, rules: str, sockets: Path, network: Network | None) -> None:
        """rules: of the alerts, as the configuration file has them."""
        folder.mkdir(parents=True)
        self.folder, self.network = folder, network
        self.database = Database(sockets / "database")
        (folder / "rules.toml").write_text(rules)
        self.token_file, page_token = folder / "token", folder / "page-token"
        for file in (self.token_file, page_token):
            file.write_text(f"the-{file.name}-of-nobody")
            file.chmod(0o600)
        (folder / "projects.toml").write_text('[projects]\ntraining = "token"\n')
        ports = [free_port() for _ in range(2)]
        self.hubs = [
            Sidecar(
                setting.binary, folder / f"hub-{number}",
                "--store", self.database.url, "--projects", str(folder / "projects.toml"),
                within=() if network is None else network.within(0),
                listen=f"{LOOPBACK if network is None else address(0)}:{port}",
                page=sockets / f"hub-{number}",
                token_file=page_token,
            )
            for number, port in enumerate(ports)
        ]  # fmt: skip
        upstream = ",".join(f"http://{hub.address}" for hub in self.hubs)
        self.sidecar = Sidecar(
            setting.binary, folder / "sidecar", *SAMPLE,
            "--config", str(folder / "rules.toml"),
            "--upstream", upstream, "--upstream-token-file", str(self.token_file),
            within=() if network is None else network.within(1),
            listen=f"{LOOPBACK if network is None else address(1)}:{free_port()}",
            page=sockets / "page",
            token_file=self.token_file,
        )  # fmt: skip
        self.served: list[Victim] = [
            *(Program(f"hub {number}", hub) for number, hub in enumerate(self.hubs)),
            self.database,
        ]

    def hosts(self, ranks: int) -> tuple[str, ...]:
        """The host of each rank: half of them beside the sidecar."""
        if self.network is None:
            return ()
        return tuple(self.network.hosts[1 + rank * HOSTS // ranks] for rank in range(ranks))

    def start(self) -> None:
        for one in (*self.hubs, self.sidecar):
            one.start()
        for one in (*self.hubs, self.sidecar):
            one.wait_ready()

    def stop(self) -> None:
        for one in (self.sidecar, *self.hubs):
            if one.is_running:
                one.kill()
        self.database.stop()


@contextlib.contextmanager
def cluster(setting: Setting, folder: Path, rules: str, *, parted: bool) -> Iterator[Cluster]:
    """parted: hubs and hosts get networks of their own."""
    network = Network(1 + HOSTS) if parted else None
    # Names of sockets are short.
    with tempfile.TemporaryDirectory(prefix="conceptwatch-") as sockets, contextlib.ExitStack() as after:
        if network is not None:
            after.callback(network.close)
            network.open()
        if os.geteuid() == 0:
            # PostgreSQL runs as another user.
            Path(sockets).chmod(0o711)
        made = Cluster(setting, folder, rules, Path(sockets), network)
        after.callback(made.stop)
        made.start()
        yield made
