"""Chooses the sidecar of a job that states no address: a running one that suits the job, or one of its own.

What listens is asked what it is before anything is declared to it. It suits where it takes runs, is of this client's
release, and keeps curves where the job's `data_dir` says, or at all where the job leaves it to the default, unless the
user runs it. Where none suits, the job starts one at the user's socket; where another job's sidecar has that, at a
socket named after what the job wants, where its other ranks and further such jobs find it.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import pwd
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc

from . import _sidecar
from ._connection import Contact, channel_to, described
from ._home import may_keep, same_directory, user_home
from ._private import folder
from ._protocol import Calls, messages
from ._sidecar import SOCKET, UNIX, NotStarted, Wish
from ._summary import is_quiet
from ._version import __version__, same_release

# Seconds within which a sidecar states what it is. A slower one is used: other ranks may have its answer.
PATIENCE = 5.0
# How often a listener that does not answer as a sidecar is asked: it may be starting, or short of room for a moment.
TRIES, PAUSE = 3, 0.2
# How often the choice is repeated if another job starts a sidecar at the same place first.
CHOICES = 3

log = logging.getLogger("conceptwatch")

# Messages printed so far, so that a process that starts a hundred runs prints each once.
_said: set[str] = set()


@dataclass(frozen=True)
class Reached:
    """The sidecar that a job uses."""

    address: str
    # This process has started it.
    started: bool = False
    # Whether the user knows where its curves are, or that they are not kept.
    told: bool = False


@dataclass(frozen=True)
class _Found:
    """What listens at an address."""

    address: str
    # Its own statement; None: it has not answered in time.
    what: messages.GetSidecarResponse | None
    # Why this job does not use it; empty where it suits.
    hindrance: str = ""


def reach(stated: str | None, wish: Wish, token: str | None, *, spawn: bool, rank: int) -> Reached:
    """The sidecar at the stated address; without an address, one that suits, or a new one."""
    if stated is not None:
        return _reached(_sidecar.own_address(stated), wish, spawn=spawn) or Reached(stated)
    tries = itertools.count(1)
    while True:
        joined, passed_over, address = _choose(wish, token, spawn=spawn)
        reached = _reached(address, wish, spawn=spawn)
        if reached is None:
            return Reached(_choose(wish, token, spawn=False)[2])
        if reached.started or joined is not None or not spawn or next(tries) >= CHOICES:
            break
    if rank == 0 and reached.started:
        for found in passed_over:
            _say(f"the sidecar at {found.address} is not used: {found.hindrance}", is_warning=True)
    elif joined is None or joined.what is None or joined.hindrance:
        return reached  # the run says what it finds
    elif rank == 0:
        _tell_of_joined(joined.address, joined.what, wish)
    return Reached(reached.address, reached.started, told=True)


def _reached(address: str, wish: Wish, *, spawn: bool) -> Reached | None:
    """The listener at an address; if there is none, a new sidecar. None if that could not be started."""
    try:
        started = _sidecar.ensure(address, wish) if spawn else None
    except (NotStarted, OSError) as hindrance:
        log.warning("conceptwatch: no sidecar was started: %s", hindrance)
        return None
    return Reached(started or address, started is not None, told=started is not None)


def _choose(wish: Wish, token: str | None, *, spawn: bool) -> tuple[_Found | None, list[_Found], str]:
    """The sidecar to join, those that do not suit, and the address to use."""
    passed_over: list[_Found] = []
    for address in _listening(wish):
        found = _ask(address, wish, token)
        if not found.hindrance:
            return found, passed_over, address
        passed_over.append(found)
    sockets = _sockets(wish)
    if spawn:
        taken = [found.address for found in passed_over]
        return None, passed_over, next((address for address in sockets if address not in taken), _sidecar.DEFAULT)
    # A poor match is better than none, unless it is of another user.
    taking = next((found for found in passed_over if found.what is not None), None)
    if taking is not None:
        return taking, [], taking.address
    return None, [], sockets[0] if sockets and _sidecar.listens(_sidecar.DEFAULT) else _sidecar.DEFAULT


def _sockets(wish: Wish) -> list[str]:
    """Where sidecars of this user are started: the usual place if it is free, else the one for jobs like this."""
    try:
        within = folder()
    except OSError as fault:
        log.warning("conceptwatch: %s", fault)
        return []
    wanted = f"{__version__} {wish.directory!r}"
    name = hashlib.sha256(wanted.encode(errors="surrogateescape")).hexdigest()[:8]
    return [f"{UNIX}{within / SOCKET}", f"{UNIX}{within / f'{name}.sock'}"]


def _listening(wish: Wish) -> Iterator[str]:
    """Addresses at which a sidecar may listen, those first that suit more likely.

    Another user of the machine can listen on a port first, but not in this user's directory. What listens on the
    default port is therefore used only where it belongs to this user or root, as far as the system tells.
    """
    sockets = _sockets(wish)
    for address in reversed(sockets):
        if _sidecar.listens(address):
            yield address
    if not _sidecar.listens(_sidecar.DEFAULT):
        return
    owners = _sidecar.owners(_sidecar.PORT)
    if not sockets or not owners or owners & {0, os.getuid()}:
        yield _sidecar.DEFAULT
        return
    users = ", ".join(map(str, sorted(owners)))
    _say(
        f"another user ({users}) listens at {_sidecar.DEFAULT}, which is not used; "
        f"CONCEPTWATCH_ADDRESS={_sidecar.DEFAULT} uses it",
        is_warning=True,
    )


def _ask(address: str, wish: Wish, token: str | None) -> _Found:
    channel = channel_to(Contact(address, token), patience=2 * PATIENCE)
    try:
        calls = Calls(channel, token)
        tries = itertools.count(1)
        while True:
            try:
                what = calls.get_sidecar(messages.GetSidecarRequest(), timeout=PATIENCE)
                return _Found(address, what, _hindrance(address, what, wish))
            except grpc.RpcError as error:
                code = error.code()
                if code == grpc.StatusCode.DEADLINE_EXCEEDED:
                    return _Found(address, None)
                if code != grpc.StatusCode.UNAVAILABLE or next(tries) >= TRIES:
                    return _Found(address, None, _refusal(error, token))
                time.sleep(PAUSE)
    finally:
        channel.close()


def _refusal(error: grpc.RpcError, token: str | None) -> str:
    code = error.code()
    if code == grpc.StatusCode.UNAUTHENTICATED:
        return "it requires a token" if token is None else "it requires another token than that of token_file"
    if code == grpc.StatusCode.FAILED_PRECONDITION:
        return f"it takes no runs ({error.details()})"
    if code == grpc.StatusCode.UNIMPLEMENTED:
        return f"it is no sidecar, or older than this client ({__version__})"
    return f"it does not answer as a sidecar ({described(error)})"


def _hindrance(address: str, what: messages.GetSidecarResponse, wish: Wish) -> str:
    if not same_release(what.server_version, __version__):
        return f"it has version {what.server_version}, this client {__version__}"
    wanted = wish.directory
    if wanted is ...:
        # At its socket is what another job wanted. The user who runs one at the port may mean all jobs to use it.
        is_of_another = address == next(iter(_sockets(wish)), None) and not what.data_dir
        return "it keeps curves in memory" if is_of_another and may_keep() else ""
    if same_directory(wanted, what.data_dir):
        return ""
    place = f"in {what.data_dir}" if what.data_dir else "in memory"
    return f"it keeps curves {place}, and data_dir is {'None: in memory' if wanted is None else wanted}"


def _tell_of_joined(address: str, what: messages.GetSidecarResponse, wish: Wish) -> None:
    """Prints which sidecar is joined, where its curves are, and how to get another.

    Nothing of one that another job of this user has started and that keeps curves where this one would.
    """
    is_socket, home = address.startswith(UNIX), user_home()
    is_usual = home is not None and bool(what.data_dir) and Path(what.data_dir).parent == home
    if is_socket and (is_usual or wish.directory is not ...):
        return
    kept = f"keeps curves in {what.data_dir}" if what.data_dir else "keeps curves in memory: they are gone when it ends"
    sockets = _sockets(wish)
    own = f"CONCEPTWATCH_ADDRESS={sockets[0]}" if sockets and not is_socket else "data_dir=DIRECTORY"
    _say(
        f"joined the sidecar at {address} ({_whose(address)}page {what.page_url or 'none'}), which {kept}; "
        f"{own} starts one of your own",
        is_warning=not what.data_dir and wish.directory is not None,
    )


def _whose(address: str) -> str:
    """The user whose sidecar it is, where that is not this one."""
    if address.startswith(UNIX):
        return ""
    others = _sidecar.owners(_sidecar.PORT) - {os.getuid()}
    return f"of user {', '.join(map(_name_of, sorted(others)))}, " if others else ""


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _say(line: str, *, is_warning: bool) -> None:
    if line in _said:
        return
    _said.add(line)
    if is_warning:
        log.warning("conceptwatch: %s", line)
    elif not is_quiet():
        print(f"conceptwatch: {line}", file=sys.stderr)
