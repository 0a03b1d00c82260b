"""The cost to training of streaming every validation pass, at 3 and at 112 concepts, beside the real sidecar.

Blocks of epochs without and with the monitor alternate in one process, on models in the same state, so that whatever
else slows the machine slows both blocks of a pair. The sidecar is started by `init`, on the same cores and with its
default share, and scores what it receives. While a block runs without the monitor the sidecar is stopped (SIGSTOP), so
that its work does not slow that block; blocks are longer than the time for which it saves up its share. The bench waits
for its first evaluation, which needs no share. An epoch is its training and its validation pass. k = 3 is the PyTorch
example, whose epochs are unusually short; k = 112 is an MLP with three hidden layers of 1024 units, 512 inputs and 200
classes, with as many steps in an epoch as make it last for 1 s and for 0.2 s.

A pass is scored if its point has the scores that most alerts rest on, such as ctl_conditional. Those over pairs of
concepts join the newest points.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Callable
from math import comb
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import conceptwatch
import train_cbm
from conceptwatch import _sidecar

TRAIN, VALIDATION, BATCH = 7000, 2000, 512
CONCEPTS, CLASSES, INPUTS, WIDTH = 112, 200, 512, 1024

# An epoch, given a pass to log to or None.
Epoch = Callable[[conceptwatch.Pass | None], None]


def example() -> Epoch:
    """The example at k = 3: TabularToy, a soft bottleneck."""
    torch.manual_seed(0)
    rows = train_cbm.tabular_toy(TRAIN + VALIDATION, 0.25, torch.Generator().manual_seed(0))
    train, val = rows.part(slice(0, TRAIN)), rows.part(slice(TRAIN, None))
    model = train_cbm.BottleneckModel(soft=True)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    options = argparse.Namespace(model="cbm", concept_weight=1.0, intervention_probability=0.0)

    def epoch(p: conceptwatch.Pass | None) -> None:
        train_cbm.train_epoch(model, train, optimiser, options)
        train_cbm.evaluate(model, val, False, p, curves=False)  # they are the job's own work

    return epoch


def wide(seconds: float) -> Epoch:
    """A joint concept bottleneck model at k = 112 with synthetic data, whose epochs last for about that long."""
    torch.manual_seed(0)
    x = torch.randn(TRAIN + VALIDATION, INPUTS)
    c = (x @ torch.randn(INPUTS, CONCEPTS) > 0).float()
    y = (c @ torch.randn(CONCEPTS, CLASSES)).argmax(1)
    ids = torch.arange(TRAIN + VALIDATION)
    layers: list[nn.Module] = []
    for inputs in (INPUTS, WIDTH, WIDTH):
        layers += [nn.Linear(inputs, WIDTH), nn.ReLU()]
    encoder = nn.Sequential(*layers, nn.Linear(WIDTH, CONCEPTS))
    head = nn.Linear(CONCEPTS, CLASSES)
    optimiser = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-3)

    def forward(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits = encoder(x)
        probabilities = torch.sigmoid(logits)
        return logits, probabilities, head(probabilities)

    def step(chosen: Tensor) -> None:
        logits, _, task = forward(x[chosen])
        loss = cross_entropy(task, y[chosen]) + binary_cross_entropy_with_logits(logits, c[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    def validate(p: conceptwatch.Pass | None) -> None:
        with torch.no_grad():
            for start in range(TRAIN, TRAIN + VALIDATION, BATCH):
                rows = slice(start, start + BATCH)
                logits, probabilities, task = forward(x[rows])
                predicted = task.argmax(1)
                if p is not None:
                    p.log(
                        sample_ids=ids[rows],
                        concept_activations=probabilities,
                        concept_labels=c[rows],
                        task_labels=y[rows],
                        task_predictions=predicted,
                    )
                ((logits > 0) == (c[rows] > 0.5)).float().mean().item()
                (predicted == y[rows]).float().mean().item()

    def steps(count: int) -> None:
        for chosen in torch.randint(TRAIN, (count, BATCH)):
            step(chosen)

    def timed(call: Callable[[], None]) -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    steps(5)  # warms up
    of_step = median(timed(lambda: steps(1)) for _ in range(20))
    count = max(1, round((seconds - median(timed(lambda: validate(None)) for _ in range(5))) / of_step))

    def epoch(p: conceptwatch.Pass | None) -> None:
        steps(count)
        validate(p)

    return epoch


# By name: the number of concepts, and what makes an epoch.
TRAININGS: dict[str, tuple[int, Callable[[], Epoch]]] = {
    "3": (3, example),
    "112, 1 s": (CONCEPTS, lambda: wide(1.0)),
    "112, 0.2 s": (CONCEPTS, lambda: wide(0.2)),
}


def block(epoch: Epoch, seconds: float, run: conceptwatch.Run | None, first_step: int) -> tuple[list[float], float]:
    """Runs epochs for that many seconds: the seconds of each, and this process's CPU seconds per epoch."""
    times: list[float] = []
    cpu = time.process_time()
    while sum(times) < seconds:
        start = time.perf_counter()
        step = first_step + len(times)
        with run.evaluation("val", step=step, epoch=step) if run is not None else contextlib.nullcontext() as p:
            epoch(p)
        times.append(time.perf_counter() - start)
    if run is not None:
        wait_until_sent(run)
    return times, (time.process_time() - cpu) / len(times)


def interval_of_median(values: list[float]) -> tuple[float, float]:
    """The 95 % interval of the median of these values, from the order statistics: no distribution is assumed.

    Of fewer than six values it is all of them.
    """
    ordered, n = sorted(values), len(values)
    below, rank = 0.0, 0
    # The largest rank with P(Binomial(n, 1/2) <= rank) of at most 2.5 %.
    while (below := below + comb(n, rank) / 2**n) <= 0.025:
        rank += 1
    return ordered[max(rank - 1, 0)], ordered[n - max(rank, 1)]


def wait_until_sent(run: conceptwatch.Run) -> None:
    while run.stats.queue_bytes:
        time.sleep(0.01)


def read(run: conceptwatch.Run, path: str) -> bytes:
    with urllib.request.urlopen(f"{str(run.page_url).rstrip('/')}/{path}", timeout=10) as answer:  # noqa: S310
        found: bytes = answer.read()
    return found


def status(run: conceptwatch.Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read(run, "api/v1/status"))
    return found


def scored(run: conceptwatch.Run, score: str) -> int:
    """The number of points that have a score."""
    found = json.loads(read(run, f"api/v1/series?run={quote(run.name)}&split=val&score={score}"))
    return len(found["points"])


def measure(name: str, make: Callable[[], Epoch], concepts: int, address: str, options: argparse.Namespace) -> None:
    run = conceptwatch.init(f"epoch cost {name}", concepts=concepts, address=address, data_dir=None)
    sidecar = _sidecar._started[0]
    block(make(), 2.0, run, 0)  # warms up
    while not scored(run, "ctl_conditional"):
        time.sleep(0.1)
    before, scored_before = status(run), scored(run, "ctl_conditional")
    alone: list[float] = []
    streamed: list[float] = []
    ratios, cpu_ratios = [], []
    for pair in range(options.pairs):
        found: dict[bool, tuple[list[float], float]] = {}
        for watched in (True, False) if pair % 2 else (False, True):
            sidecar.send_signal(signal.SIGCONT if watched else signal.SIGSTOP)
            found[watched] = block(make(), options.seconds, run if watched else None, 1000 + len(streamed))
        sidecar.send_signal(signal.SIGCONT)
        alone += found[False][0]
        streamed += found[True][0]
        ratios.append(median(found[True][0]) / median(found[False][0]))
        cpu_ratios.append(found[True][1] / found[False][1])
    after, points = status(run), scored(run, "ctl_conditional") - scored_before
    scoring = (after["cpu_seconds"] - before["cpu_seconds"]) / sum(streamed)
    stats = run.stats
    low, high = interval_of_median(ratios)
    paired = f"{median(ratios):.3f} ({low:.3f} to {high:.3f})"
    print(
        f"| {name} | {1e3 * median(alone):.2f} | {1e3 * median(streamed):.2f} "
        f"| {median(streamed) / median(alone):.3f} | {paired} | {median(cpu_ratios):.3f} "
        f"| {scoring:.3f} | {len(streamed)} | {points} | {scored(run, 'icl')} "
        f"| {sum(stats.batches_dropped.values())} |",
        flush=True,
    )
    run.finish()


def machine() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def free_address() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--training", choices=TRAININGS, help="run only this one")
    parser.add_argument("--pairs", type=int, default=20, help="number of pairs of blocks")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of a block")
    parser.add_argument("--threads", type=int, help="threads of PyTorch; by default its own choice")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    address = free_address()
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{machine()}, {os.cpu_count()} cores{load}; PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{options.pairs} pairs of blocks of at least {options.seconds:g} s\n")
    columns = "k|alone, ms|streamed, ms|ratio|paired (95 %)|job's CPU|scoring, cores|passes|scored|with pairs|dropped"
    print(f"| {' | '.join(columns.split('|'))} |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    for name, (concepts, make) in TRAININGS.items():
        if options.training in (None, name):
            measure(name, make, concepts, address, options)


if __name__ == "__main__":
    main()
