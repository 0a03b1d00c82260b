"""Measures hubs and sidecars under load, against the goals of docs/scale.md.

usage: scale.py [--parts small,stream,...] [--again] [--outage-seconds 600] [--stream-seconds 300]

Starts PostgreSQL by deploy/hub/database.sh, and hubs and sidecars as programs of their own. What a part found
is kept in target/scale/results.json, so a bench that was stopped goes on where it was; a line that was not measured is
left out of the table. CONCEPTWATCH_BINARY is the program; SCALE_PROGRAM the one of benches/scale. `stream` and `page`
use the database that `small` has filled. Four minutes show that all of it runs:
`--again --runs 500 --streams 50 --stream-seconds 20 --outage-seconds 20`.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import http.client
import json
import os
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import conceptwatch

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "target" / "scale"
DATABASE = ROOT / "deploy" / "hub" / "database.sh"
BINARY = os.environ.get("CONCEPTWATCH_BINARY", str(ROOT / "target" / "release" / "conceptwatch"))

STREAMS, RATE, CONCEPTS = 1000, 33, 12
# Values per run.
SMALL, LARGE = 200, 1000
# Requests per kind.
ASKED = 200
COMPARED = 40

Part = Callable[[argparse.Namespace], dict[str, Any]]


def shell() -> str:
    return shutil.which("sh") or "/bin/sh"


def built() -> str:
    """The newest program that `cargo bench --bench scale --no-run` has built."""
    found = [path for path in (ROOT / "target" / "release" / "deps").glob("scale-*") if not path.suffix]
    return str(max(found, key=lambda path: path.stat().st_mtime))


def program(command: str, **options: object) -> Any:
    """The JSON that the program of benches/scale prints."""
    given = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    beside = os.environ.get("SCALE_PROGRAM") or built()
    said = subprocess.run([beside, command, *given], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(said)


def free_ports() -> int:
    """A free port whose successor is free, too."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            with contextlib.suppress(OSError):
                second.bind(("127.0.0.1", port + 1))
                return port


def wait_for(ready: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)


@contextlib.contextmanager
def database(name: str) -> Iterator[str]:
    """A PostgreSQL of its own, whose content stays for the following parts."""
    directory = Path(tempfile.gettempdir()) / f"conceptwatch-scale-{os.getuid()}" / name
    subprocess.run([shell(), DATABASE, directory], check=True, stdout=subprocess.DEVNULL)
    try:
        yield (directory / "url").read_text().strip()
    finally:
        subprocess.run([shell(), DATABASE, "--stop", directory], check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def serving(port: int, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs the program as a hub or sidecar, its page one port above, until the end of the block."""
    command = [BINARY, "serve", "--grpc-address", f"127.0.0.1:{port}", "--http-address", f"127.0.0.1:{port + 1}"]
    with subprocess.Popen([*command, "--log", "warn", *options, "--exit-with-stdin"], stdin=subprocess.PIPE) as process:
        try:
            wait_for(lambda: answers(port + 1) or process.poll() is not None)
            assert process.poll() is None, "it ended at once"
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()


def answers(port: int) -> bool:
    try:
        Page(port).get("/ready")
    except (OSError, AssertionError):
        return False
    return True


class Page:
    """A connection to a page's server."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def get(self, path: str, **query: object) -> bytes:
        self.connection.request("GET", f"{path}?{urllib.parse.urlencode(query)}" if query else path)
        answer = self.connection.getresponse()
        body = answer.read()
        assert answer.status == 200, f"{path}: {answer.status} {body[:200]!r}"
        return body

    def json(self, path: str, **query: object) -> Any:
        return json.loads(self.get(path, **query))

    def times(self, count: int, ask: Callable[[int], tuple[str, dict[str, object]]]) -> list[float]:
        """Sorted milliseconds of sequential requests; the first warms up and does not count."""
        found = []
        for number in range(count + 1):
            path, query = ask(number)
            begun = time.perf_counter()
            self.get(path, **query)
            found.append(1e3 * (time.perf_counter() - begun))
        return sorted(found[1:])


def quantile(ascending: list[float], share: float) -> float:
    return ascending[round((len(ascending) - 1) * share)]


def read(port: int, runs: int) -> dict[str, Any]:
    """How long lists, series and comparisons take."""
    page, chance = Page(port), random.Random(0)
    listing = page.json("/api/v1/runs", limit=50)
    total, middle = listing["total"], listing["next"]
    for _ in range(total // 400):
        middle = page.json("/api/v1/runs", limit=200, after=middle)["next"]

    def some_run() -> str:
        return f"run-{chance.randrange(runs)}"

    kinds: dict[str, tuple[int, Callable[[int], tuple[str, dict[str, object]]]]] = {
        "list": (ASKED, lambda n: ("/api/v1/runs", {"limit": 50, **({"after": middle} if n % 2 else {})})),
        "search": (ASKED, lambda n: ("/api/v1/runs", {"limit": 50, "search": f"lambda=0.1 run-{n}"})),
        "series": (ASKED, lambda _: ("/api/v1/series", {"run": some_run(), "split": "val", "score": "ctl"})),
        "diagnosis": (ASKED, lambda _: ("/api/v1/diagnosis", {"run": some_run(), "split": "val"})),
        "compare": (COMPARED, lambda _: ("/api/v1/compare", {"by": "lambda"})),
        "compare_all": (3, lambda _: ("/api/v1/compare", {"by": "lambda", "score": "ois,nis,ctl"})),
    }
    found: dict[str, Any] = {"total": total}
    for kind, (count, ask) in kinds.items():
        times = page.times(count, ask)
        found[kind] = {"p50": quantile(times, 0.5), "p95": quantile(times, 0.95)}
    compared = page.json("/api/v1/compare", by="lambda")
    found["compared_runs"] = sum(len(group["runs"]) for group in compared["groups"])
    return found


def filled(name: str, runs: int, values: int) -> dict[str, Any]:
    with database(name) as url:
        about = program("fill", store=url, runs=runs, values=runs * values, concepts=CONCEPTS)
        port = free_ports()
        with serving(port, "--store", url) as hub:
            wait_for(lambda: answers(port + 1))
            found = read(port + 1, runs)
            found["hub_mib"] = resident(hub.pid)
        return {**about, **found}


def small(given: argparse.Namespace) -> dict[str, Any]:
    return filled("small", given.runs, SMALL)


def large(given: argparse.Namespace) -> dict[str, Any]:
    return filled("large", given.runs, LARGE)


def stream(given: argparse.Namespace) -> dict[str, Any]:
    """Streams into two hubs over the database of `small`, while one of them is read."""
    with database("small") as url:
        ports = free_ports(), free_ports()
        with serving(ports[0], "--store", url), serving(ports[1], "--store", url):
            found: dict[str, Any] = {}
            hubs = ",".join(f"http://127.0.0.1:{port}" for port in ports)

            def pushed() -> None:
                found.update(
                    program(
                        "push",
                        store=url,
                        hubs=hubs,
                        streams=given.streams,
                        rate=RATE,
                        seconds=given.stream_seconds,
                        concepts=CONCEPTS,
                    )
                )

            pushing = threading.Thread(target=pushed)
            pushing.start()
            time.sleep(given.stream_seconds / 2)
            meanwhile = read(ports[0] + 1, given.runs)
            pushing.join()
            assert found, "the load program failed"
            return {**found, "meanwhile": meanwhile}


def page(_: argparse.Namespace) -> dict[str, Any]:
    """A browser that scrolls through all runs of `small`: when the hub has just started, and again."""

    def scrolled(port: int) -> dict[str, Any]:
        script = ROOT / "tests" / "page" / "scroll.mjs"
        command = ["timeout", "300", "node", script, f"http://127.0.0.1:{port}", "240"]
        found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        return found

    with database("small") as url:
        port = free_ports()
        with serving(port, "--store", url):
            started = scrolled(port + 1)
            return {**scrolled(port + 1), "started": started}


def size(_: argparse.Namespace) -> dict[str, Any]:
    with database("size") as url:
        found: dict[str, Any] = program("size", store=url, runs=20, points=50, concepts=112)
        return found


def resident(process: int, kind: str = "VmRSS") -> float:
    """Resident memory in MiB; `RssAnon` is that which no file on the disk holds."""
    status = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith(f"{kind}:")) / 1024


def memory(_: argparse.Namespace) -> dict[str, Any]:
    """Memory of an idle sidecar without flags."""
    found, private = [], []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as directory:
            port = free_ports()
            with serving(port, "--data-dir", directory) as process:
                time.sleep(2)
                found.append(resident(process.pid))
                private.append(resident(process.pid, "RssAnon"))
    return {"idle_mib": sorted(found)[2], "private_mib": sorted(private)[2]}


def outage(given: argparse.Namespace) -> dict[str, Any]:
    """A job with its sidecar while there is no hub, and how its points arrive afterwards."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, (512, 8))
    logs: list[float] = []
    with database("outage") as url, tempfile.TemporaryDirectory() as directory:
        hub, beside = free_ports(), free_ports()
        eager = "--niceness", "0", "--cpu-share", "1", "--busy-cpu-share", "1"
        upstream = "--upstream", f"http://127.0.0.1:{hub}", "--data-dir", directory
        with serving(hub, "--store", url):
            sidecar = contextlib.ExitStack()
            sidecar.enter_context(serving(beside, *upstream, *eager))
            run = conceptwatch.init("outage", concepts=8, address=f"127.0.0.1:{beside}", spawn=False)
            time.sleep(2)
        with sidecar:
            begun, step = time.monotonic(), 0
            while time.monotonic() < begun + given.outage_seconds:
                step += 1
                with run.evaluation("val", step=step) as p:
                    for rows in np.split(labels, 8):
                        activations = (rows * 0.6 + rng.uniform(0, 0.4, rows.shape)).astype(np.float32)
                        start = time.perf_counter()
                        p.log(concept_activations=activations, concept_labels=rows, task_labels=rows[:, 0])
                        logs.append(1e3 * (time.perf_counter() - start))
                time.sleep(max(0.0, begun + step - time.monotonic()))
            run.finish()
            told = Page(beside + 1)
            here = steps(told)
            waited = told.json("/api/v1/status")["upstream"]
            with serving(hub, "--store", url):
                back = time.monotonic()
                drained = lambda: told.json("/api/v1/status")["upstream"]["waiting"] == 0  # noqa: E731
                wait_for(drained, 600)
                seconds = time.monotonic() - back
                there = steps(Page(hub + 1))
                about = told.json("/api/v1/status")["upstream"]
    logs.sort()
    return {
        "seconds": given.outage_seconds,
        "passes": step,
        "log_p50_ms": quantile(logs, 0.5),
        "log_p99_ms": quantile(logs, 0.99),
        "waiting": waited["waiting"],
        "drained_seconds": seconds,
        "scored": len(here),
        "lost": len(set(here) - set(there)),
        "twice": len(there) - len(set(there)),
        "dropped": about["dropped"],
        "refused": about["refused"],
    }


def steps(page: Page) -> list[int]:
    points = page.json("/api/v1/series", run="outage", split="val", score="ctl")["points"]
    return [point["step"] for point in points]


PARTS: dict[str, Part] = {
    "memory": memory,
    "small": small,
    "stream": stream,
    "page": page,
    "large": large,
    "size": size,
    "outage": outage,
}


def table(found: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Rows of the table: what was measured, the goal, the value."""

    def reads(name: str, of: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
        yield f"{name}: list, p95", "< 100 ms", f"{of['list']['p95']:.0f} ms"
        yield f"{name}: series, p95", "< 20 ms", f"{of['series']['p95']:.1f} ms"
        yield f"{name}: comparison by label, p95", "< 200 ms", f"{of['compare']['p95']:.0f} ms"
        yield f"{name}: search, p95", "", f"{of['search']['p95']:.0f} ms"
        yield f"{name}: diagnosis, p95", "", f"{of['diagnosis']['p95']:.1f} ms"
        yield f"{name}: comparison of other scores, median", "", f"{of['compare_all']['p50']:.0f} ms"

    if one := found.get("stream"):
        yield f"{one['streams']} streams, {RATE} points a second: acknowledged, median", "", f"{one['p50_ms']:.0f} ms"
        yield "the same, p99", "< 1 s", f"{one['p99_ms']:.0f} ms"
        yield "connections of 2 hubs to the database", "<= 20", f"{one['connections']}"
        yield "points sent and stored", "equal", f"{one['sent']} and {one['stored']}"
        yield from reads("meanwhile", one["meanwhile"])
    for name in ["small", "large"]:
        if one := found.get(name):
            of = f"{one['runs']:,} runs, {one['values'] / 1e6:.1f} M values"
            yield from reads(of, one)
            yield f"{of}: database, hub", "", f"{one['bytes'] / 2**30:.2f} GiB, {one['hub_mib']:.0f} MiB"
    if one := found.get("page"):
        shown = f"{one['runs']:,} in {one['seconds']:.0f} s"
        first = f"{one['first_seconds']:.1f} and {one['listed_seconds']:.1f} s"
        yield f"the page lists {one['total']:,} runs: the first, all", "", first
        at_start = one["started"]
        first = f"{at_start['first_seconds']:.1f} and {at_start['listed_seconds']:.1f} s"
        yield "the same of a hub that has just started", "", first
        yield "the key End until the last run has its verdict", "", f"{one['end_seconds']:.1f} s"
        yield "a window at a time to the end", "all", shown
        frames = f"{one['frame_p99_ms']:.0f} and {one['longest_frame_ms']:.0f} ms"
        yield "the same: time between frames, p99 and longest", "", frames
    if one := found.get("outage"):
        yield f"{one['seconds']:.0f} s without a hub: p.log, p99", "< 1 ms", f"{one['log_p99_ms']:.2f} ms"
        yield "the outbox is drained within", "< 60 s", f"{one['drained_seconds']:.1f} s ({one['waiting']} changes)"
        yield "points lost, twice", "0, 0", f"{one['lost']}, {one['twice']} of {one['scored']}"
    if one := found.get("memory"):
        yield "a sidecar without flags, idle", "", f"{one['idle_mib']:.1f} MiB"
        yield "the same without pages of files", "", f"{one['private_mib']:.1f} MiB"
    if one := found.get("size"):
        yield "a run of 50 evaluations of 112 concepts", "", f"{one['bytes_per_run'] / 1e6:.2f} MB"
        yield "such evaluations stored by one writer", "", f"{one['points_per_second']:.0f} a second"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help="which, of " + ",".join(PARTS))
    parser.add_argument("--again", action="store_true", help="also those that were measured")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--outage-seconds", type=float, default=600)
    parser.add_argument("--stream-seconds", type=float, default=300)
    parser.add_argument("--results", type=Path, default=KEPT / "results.json")
    given = parser.parse_args()
    results = given.results
    results.parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = json.loads(results.read_text()) if results.exists() else {}
    for name in given.parts.split(","):
        if name in found and not given.again:
            continue
        if name in ("small", "large", "size", "outage"):
            stale = Path(tempfile.gettempdir()) / f"conceptwatch-scale-{os.getuid()}" / name
            shutil.rmtree(stale, ignore_errors=True)
        print(f"{name} …", flush=True)
        found[name] = {**PARTS[name](given), "at": datetime.datetime.now(datetime.timezone.utc).isoformat()}
        results.write_text(json.dumps(found, indent=1) + "\n")
    print(f"\n{os.cpu_count()} cores, of which {len(os.sched_getaffinity(0))} are used; {datetime.date.today()}\n")
    for what, goal, value in table(found):
        print(f"| {what} | {goal} | {value} |")


if __name__ == "__main__":
    main()
