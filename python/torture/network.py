"""Hosts that are network namespaces of this machine, so that the network between them can be cut."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import shutil
import subprocess
from pathlib import Path

_CLONE_NEWNET = 0x4000_0000


def _ip(*arguments: str) -> None:
    subprocess.run(
        [shutil.which("ip") or "ip", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


class Link:
    """The network between two neighbours; killing it cuts the connection."""

    def __init__(self, number: int, namespace: str) -> None:
        self.name, self._namespace, self._device = f"network {number}", namespace, f"right{number}"

    def kill(self) -> None:
        _ip("-n", self._namespace, "link", "set", self._device, "down")

    def start(self) -> None:
        _ip("-n", self._namespace, "link", "set", self._device, "up")


class Network:
    """Hosts in a row, each joined with the next. Needs root and iproute2."""

    def __init__(self, hosts: int) -> None:
        self.hosts = [f"cw{os.getpid()}-{host}" for host in range(hosts)]
        self.links = [Link(number, name) for number, name in enumerate(self.hosts[:-1])]

    def open(self) -> None:
        """Errors where it is not allowed."""
        for name in self.hosts:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        for link, (left, right) in enumerate(itertools.pairwise(self.hosts)):
            devices = f"right{link}", f"left{link}"
            _ip("-n", left, "link", "add", devices[0], "type", "veth", "peer", "name", devices[1], "netns", right)
            for end, namespace in enumerate((left, right)):
                _ip("-n", namespace, "address", "add", f"10.77.{link}.{end + 1}/24", "dev", devices[end])
                _ip("-n", namespace, "link", "set", devices[end], "up")

    def close(self) -> None:
        for name in self.hosts:
            with contextlib.suppress(OSError, subprocess.CalledProcessError):
                _ip("netns", "delete", name)

    def within(self, host: int) -> tuple[str, ...]:
        """What starts a command on a host."""
        return ("ip", "netns", "exec", self.hosts[host])


def address(link: int, *, right: bool = False) -> str:
    """Of the host at an end of a link."""
    return f"10.77.{link}.{2 if right else 1}"


def enter(namespace: str) -> None:
    """Moves this thread, and those that it starts, to a host."""
    with Path(f"/run/netns/{namespace}").open() as of:
        if ctypes.CDLL(None, use_errno=True).setns(of.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")


def may_part() -> bool:
    """Whether this user may make networks."""
    network = Network(2)
    try:
        network.open()
    except (OSError, subprocess.CalledProcessError):
        return False
    finally:
        network.close()
    return True
