"""Abuse of HTTP/1 and HTTP/2 by peers without the token, with few open files allowed, beside a good client."""

from __future__ import annotations

import functools
import os
import time

from .attacks import ATTACKS, HOLDING
from .good import Good, quantile
from .job import PROCESSES
from .results import Figures, Outcome, Part, Row, Setting
from .sidecar import running

FILES = 256
CALL_P99, PROBE = 50.0, 100.0  # ms
# Processes of an attack that sends as much as it can. Those of `attacks.HOLDING` have as many sockets as they say.
ATTACKERS = 3


def _attack(kind: str, grpc: int, http: int, until: float, sent: list[int], at: int) -> None:
    os.nice(5)  # a neighbour takes the machine's time too; that is not what is measured
    sent[at] = ATTACKS[kind](grpc, http, until)


def attacked(setting: Setting, kind: str | None, seconds: float) -> Outcome:
    """kind: None is nobody."""
    folder = setting.folder / f"abuse-{time.time_ns()}"
    token = setting.folder / "token"
    token.touch(0o600)
    token.write_text("the-token-of-the-good-client\n", encoding="ascii")
    with running(setting.binary, folder, files=FILES, scoring=(), token_file=token) as sidecar:
        good = Good(sidecar.port, sidecar.port + 1, str(token))
        until = time.monotonic() + seconds
        sent = PROCESSES.RawArray("q", [0] * ATTACKERS)
        attackers = [
            PROCESSES.Process(target=_attack, args=(kind, sidecar.port, sidecar.port + 1, until, sent, at), daemon=True)
            for at in range(0 if kind is None else 1 if kind in HOLDING else ATTACKERS)
        ]
        for attacker in attackers:
            attacker.start()
        time.sleep(max(0.0, until - time.monotonic()))
        notice = good.end()
        for attacker in attackers:
            attacker.join(30.0)
            attacker.kill()
        if not sidecar.is_running:
            raise ChildProcessError(f"the sidecar ended, see {sidecar.log}")
        status = sidecar.status()
        faults, late = [], []
        figures: Figures = {
            "kind": kind or "nobody",
            "sent": sum(sent),
            "calls": len(notice.calls),
            "call p99": round(quantile(notice.calls, 0.99), 1),
            "failed calls": len(notice.failed_calls),
            "probes": len(notice.probes),
            "slowest probe": round(max(notice.probes), 1),
            "probe p99": round(quantile(notice.probes, 0.99), 1),
            "failed probes": len(notice.failed_probes),
            "peak": status["peak"],
            "files": status["files"],
            "load": os.getloadavg()[0],
        }
        if notice.failed_calls:
            faults.append(f"{kind}: {len(notice.failed_calls)} calls failed, such as {notice.failed_calls[0]}")
        if notice.failed_probes:
            faults.append(f"{kind}: {len(notice.failed_probes)} probes failed, such as {notice.failed_probes[0]}")
        if not notice.finished:
            faults.append(f"{kind}: finish() of the good client was false: {notice.stats}")
        if figures["call p99"] >= CALL_P99:
            late.append(f"{kind}: p99 of calls {figures['call p99']} ms")
        if figures["slowest probe"] >= PROBE:
            late.append(f"{kind}: slowest probe {figures['slowest probe']} ms")
        return Outcome(figures, faults, late)


def measured(figures: list[Figures]) -> str:
    attacks = [of for of in figures if of["kind"] != "nobody"]
    rest = [of for of in figures if of["kind"] == "nobody"]
    worst = max(attacks, key=lambda of: float(of["call p99"]), default=None)
    if worst is None:
        return ""
    slowest = max(attacks, key=lambda of: float(of["slowest probe"]))
    calls, probes = (sum(of[name] for of in attacks) for name in ("calls", "probes"))
    failed, unanswered = (sum(of[name] for of in attacks) for name in ("failed calls", "failed probes"))
    alone = f"; {rest[0]['call p99']} and {rest[0]['slowest probe']} ms without an attacker" if rest else ""
    return (
        f"{len(attacks)} kinds: {failed} of {calls:,} calls of a good client failed, worst p99 {worst['call p99']} ms "
        f"({worst['kind']}); {unanswered} of {probes:,} probes failed, slowest {slowest['slowest probe']} ms "
        f"({slowest['kind']}){alone}"
    )


def parts(setting: Setting) -> list[Part]:
    seconds = setting.size(60, 5)
    kinds = [None, *ATTACKS]
    return [
        Part(kind or "nobody", functools.partial(attacked, kind=kind, seconds=float(seconds))) for kind in kinds
    ]  # fmt: skip


ROW = Row(
    "abuse",
    "HTTP/2 and HTTP/1 abuse of ten kinds, 2,000 silent sockets, fd limit 256",
    parts,
    measured,
)
