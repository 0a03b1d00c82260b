"""The end of a run: waits until everything is sent and settled, and says what is not.

The rank states it before its passes are settled: when all ranks have, the sidecar closes what is still open.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import grpc

from ._fork import usable
from ._protocol import messages
from ._recording import SCHEME
from ._run_channel import Link
from ._sender import Sender
from ._summary import counted

# Seconds that `finish` waits by default, and of these, without a sidecar.
TIMEOUT, ALONE = 30.0, 5.0
PAUSE = 0.1
DECLARATION_TIMEOUT = 2.0
# The sidecar's limit on its own wait, and what the call may take beyond it.
LONGEST_WAIT, GRACE = 3600.0, 0.5
# Evaluations that are named; the others are counted.
MOST_NAMED = 10

TRANSIENT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)

log = logging.getLogger("conceptwatch")


class Ending:
    """One call of `finish`."""

    def __init__(self, sender: Sender, link: Link, timeout: float | None, outcome: messages.RunOutcome) -> None:
        self._sender, self._link, self._outcome = sender, link, outcome
        self._deadline = time.monotonic() + (TIMEOUT if timeout is None else timeout)
        self._alone = ALONE if timeout is None else timeout
        self._start = time.monotonic()
        self.answer = messages.FinishRunResponse()  # to the newest call

    def finish(self, finish_run: Callable[..., Any] | None) -> bool:
        """Returns whether everything is sent and settled. finish_run: the call; None in a process that is no rank."""
        sender, link = self._sender, self._link
        if sender.down and self._has_work():
            wait, refusal = min(self._alone, self._left()), sender.refusal
            if refusal:
                what = f"the sidecar at {sender.address} does not take the run now ({refusal})"
            else:
                what = f"no sidecar answers at {sender.address}"
            log.warning("conceptwatch, run '%s': %s, waiting up to %.0f s", link.name, what, wait)
        self._sender.wait_declared(link, min(self._left(), DECLARATION_TIMEOUT))
        stated = 0  # the declaration after which it was stated: a restarted sidecar has to be told again
        while True:
            sent = sender.wait_until_sent(link, self._deadline, self._alone)
            rank = finish_run if link.declarations and not link.refused else None
            if sent and rank is not None and stated != link.declarations and sender.wait_declared(link, self._left()):
                declarations = link.declarations
                stated = declarations if self._state(rank) else 0
            told = rank is None or stated == link.declarations
            if sent and told:
                settled = sender.wait_until_sent(link, self._deadline, self._alone, settled=True)
                if settled and (rank is None or stated == link.declarations):
                    break
            if self._is_over():
                break
            time.sleep(PAUSE)
        return self._report(sent, told)

    def _has_work(self) -> bool:
        return bool(self._link.outstanding or self._sender.unsettled(self._link) or self._link.declarations)

    def _left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def _is_over(self) -> bool:
        sender = self._sender
        alone = sender.down and time.monotonic() >= max(self._start, sender.down_since) + self._alone
        return alone or self._left() <= 0.0

    def _state(self, finish_run: Callable[..., Any]) -> bool:
        """Makes the call. Whether it need not be repeated."""
        link, left = self._link, self._left()
        request = messages.FinishRunRequest(
            run=link.name,
            rank=link.rank,
            client=self._sender.client,
            timeout_seconds=min(left, LONGEST_WAIT),
            outcome=self._outcome,
        )
        try:
            self.answer = finish_run(request, timeout=left + GRACE)
        except grpc.RpcError as error:
            if error.code() in TRANSIENT:
                return False
            raise
        return True

    def _report(self, sent: bool, told: bool) -> bool:
        link = self._link
        at_sidecar = ((one.split, one.step) for one in self.answer.unsettled)
        left = list(dict.fromkeys([*self._sender.unsettled(link), *at_sidecar]))
        stats = self._sender.stats(link)
        dropped, forked = stats.ends_dropped, stats.batches_dropped["forked"]
        if left:
            named = ", ".join(f"{split} at step {step}" for split, step in left[:MOST_NAMED])
            more = f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else ""
            log.warning(
                "conceptwatch, run '%s': finished while %s not settled: %s%s. %s%s",
                link.name,
                _were(len(left), "evaluation"),
                named,
                more,
                self._fate(len(left)),
                f". The ends of {dropped:,} could not be sent: their points are incomplete at best" if dropped else "",
            )
        elif not sent or forked:
            unsent = _were(link.outstanding + forked, "message")
            log.warning("conceptwatch, run '%s': finished while %s not sent", link.name, unsent)
        elif not told:
            log.warning("conceptwatch, run '%s': the sidecar could not be told that it has finished", link.name)
        return sent and told and not left and not forked and not stats.batches_dropped["run_refused"]

    def _fate(self, unsettled: int) -> str:
        """What becomes of evaluations that are not settled."""
        sender, them = self._sender, "it" if unsettled == 1 else "them"
        if not usable():
            return f"Nothing of {them} was sent, because this process was forked from the connected one"
        if self._link.answered and self._link.ends_unused:
            if self._link.data_dir:
                return (
                    "The sidecar goes on after this job, for 15 minutes by default (--linger), and scores what it has "
                    "received; what it cannot score is recorded with the reason. Its page says if it cannot write"
                )
            return (
                f"{them.capitalize()} will be lost with the sidecar of this job, which keeps curves in memory. Use "
                "run.finish(timeout=300), or keep a sidecar running with `conceptwatch serve`"
            )
        if self._link.answered:
            if unsettled == 1:
                kept, lost = "If the sidecar has received it, it is kept", "otherwise it is lost"
            else:
                kept, lost = "Those that the sidecar has received are kept", "the others are lost"
            return f"{kept} unless that crashes or cannot write, which its page says; {lost}{self._link.awaited}"
        if sender.address.startswith(SCHEME):
            return f"Nothing of {them} could be written to {sender.address.removeprefix(SCHEME)}"
        if sender.refusal or self._link.refusal:
            return f"The sidecar at {sender.address} never took the run, so nothing of {them} is kept"
        return f"No sidecar ever answered at {sender.address}, so nothing of {them} is kept"


def _were(number: int, what: str) -> str:
    """As in "1 message was", "2 messages were"."""
    return f"{counted(number, what)} {'was' if number == 1 else 'were'}"
