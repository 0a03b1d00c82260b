"""Two hosts with a sidecar each, two hubs, two workers and a PostgreSQL, each of which can be killed alone.

Ranks and questions reach sidecars and pages by Unix sockets, so the network between hosts and hubs can be parted.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from .results import Setting
from .sidecar import Sidecar, free_port, wait_for

DATABASE = Path(__file__).parents[2] / "deploy" / "hub" / "database.sh"
HOSTS = 2
EVERYWHERE = "0.0.0.0"  # noqa: S104 - in a network of its own
# Less than the rows of a pass, so that parts are cut.
SAMPLE = ("--sample-rows", "256")
LEASE = "5"
TOKEN = "of-the-project-that-trains"  # noqa: S105 - of nobody


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

    def waiting(self) -> int:
        """Number of unfinished jobs."""
        return int(self.ask("SELECT count(*) FROM job WHERE NOT done")[0][0])


class Program:
    """A sidecar or hub that can be restarted unchanged."""

    def __init__(self, name: str, sidecar: Sidecar) -> None:
        self.name, self.sidecar = name, sidecar

    def kill(self) -> None:
        self.sidecar.kill()

    def start(self) -> None:
        self.sidecar.start()


class Worker:
    def __init__(self, name: str, binary: Path, folder: Path, url: str) -> None:
        self.name, self._log = name, folder / f"{name.replace(' ', '-')}.log"
        self._command = [str(binary), "work", "--store", url, "--threads", "1", "--lease", LEASE]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _ip(*arguments: str) -> None:
    subprocess.run(
        [shutil.which("ip") or "ip", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


class Link:
    """The network between a host and the hubs; killing it cuts the connection."""

    def __init__(self, host: int, namespace: str) -> None:
        self.name, self._namespace = f"network of host {host}", namespace

    def kill(self) -> None:
        _ip("-n", self._namespace, "link", "set", "eth0", "down")

    def start(self) -> None:
        _ip("-n", self._namespace, "link", "set", "eth0", "up")


class Network:
    """A namespace for the hubs and one for each host, with a link between each host and the hubs."""

    def __init__(self) -> None:
        self.hubs = f"cw{os.getpid()}-hubs"
        self.hosts = [f"cw{os.getpid()}-{host}" for host in range(HOSTS)]
        self.links = [Link(host, name) for host, name in enumerate(self.hosts)]

    def open(self) -> None:
        """Errors where it is not allowed."""
        for name in (self.hubs, *self.hosts):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        for host, name in enumerate(self.hosts):
            _ip("-n", self.hubs, "link", "add", f"host{host}", "type", "veth", "peer", "name", "eth0", "netns", name)
            for namespace, device, last in ((self.hubs, f"host{host}", 1), (name, "eth0", 2)):
                _ip("-n", namespace, "address", "add", f"10.77.{host}.{last}/24", "dev", device)
                _ip("-n", namespace, "link", "set", device, "up")

    def close(self) -> None:
        for name in (self.hubs, *self.hosts):
            with contextlib.suppress(OSError, subprocess.CalledProcessError):
                _ip("netns", "delete", name)


def may_part() -> bool:
    """Whether this user may make networks."""
    network = Network()
    try:
        network.open()
    except (OSError, subprocess.CalledProcessError):
        return False
    finally:
        network.close()
    return True


def _within(namespace: str) -> Sequence[str]:
    return ("ip", "netns", "exec", namespace)


class Cluster:
    def __init__(self, setting: Setting, folder: Path, rules: str, sockets: Path, network: Network | None) -> None:
        """rules: of the alerts, as the configuration file has them."""
        folder.mkdir(parents=True)
        self.folder, self.network = folder, network
        self.database = Database(sockets / "database")
        (folder / "rules.toml").write_text(rules)
        (folder / "token").write_text(TOKEN)
        (folder / "token").chmod(0o600)
        (folder / "projects.toml").write_text('[projects]\ntraining = "token"\n')
        ports = [free_port() for _ in range(2)]
        self.hubs = [
            Sidecar(
                setting.binary, folder / f"hub-{number}",
                "--store", self.database.url, "--projects", str(folder / "projects.toml"), "--config",
                str(folder / "rules.toml"),
                within=() if network is None else _within(network.hubs),
                listen=f"{EVERYWHERE if network else '127.0.0.1'}:{port}",
                page=sockets / f"hub-{number}",
            )
            for number, port in enumerate(ports)
        ]  # fmt: skip
        self.sidecars = [
            Sidecar(
                setting.binary, folder / f"host-{host}", *SAMPLE,
                "--upstream",
                ",".join(f"http://{f'10.77.{host}.1' if network else '127.0.0.1'}:{port}" for port in ports),
                "--upstream-token-file", str(folder / "token"),
                within=() if network is None else _within(network.hosts[host]),
                listen=f"unix://{sockets}/host-{host}",
                page=sockets / f"page-{host}",
            )
            for host in range(HOSTS)
        ]  # fmt: skip
        self.workers = [Worker(f"worker {number}", setting.binary, folder, self.database.url) for number in range(2)]
        self.served: list[Victim] = [
            *(Program(f"hub {number}", hub) for number, hub in enumerate(self.hubs)),
            *self.workers,
            self.database,
        ]
        self.beside: list[Victim] = [Program(f"sidecar {host}", one) for host, one in enumerate(self.sidecars)]

    def start(self) -> None:
        for one in (*self.hubs, *self.sidecars):
            one.start()
        for worker in self.workers:
            worker.start()
        for one in (*self.hubs, *self.sidecars):
            one.wait_ready()

    def stop(self) -> None:
        for one in (*self.sidecars, *self.hubs):
            if one.is_running:
                one.kill()
        for worker in self.workers:
            worker.kill()
        self.database.stop()


@contextlib.contextmanager
def cluster(setting: Setting, folder: Path, rules: str, *, parted: bool) -> Iterator[Cluster]:
    """parted: hosts and hubs get networks of their own."""
    network = Network() if parted else None
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
