"""Records, through the sidecar, the validation curves for tests of the default alert rules, as one CSV file.

    python record_curves.py ../../crates/leakage/tests/alerts/curves.csv

CBMs on TabularToy, soft and logit, with weak to strong concept supervision. The first evaluation of every run, epoch 0,
is that of the untrained model. A line is an evaluation: for each score that is tested for trends its value, standard
error and the error of its change since the previous evaluation, then the published scores.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import conceptwatch
import train_cbm
from conceptwatch import _sidecar

DELTAS, KINDS, LAMBDAS = (0.25, 0.75), ("soft", "logit"), (0.01, 0.1, 1.0, 5.0)
TREND_SCORES = ("ctl_excess", "icl_excess", "icl_label_excess")
OTHER_SCORES = ("ctl", "icl", "icl_label", "task_accuracy", "concept_accuracy")
RUN_COLUMNS = ("delta", "bottleneck", "lambda", "seed", "epoch", "step", "rows", "tie_fraction")
WAIT = 120.0


def columns() -> list[str]:
    trends = [f"{score}{part}" for score in TREND_SCORES for part in ("", "_error", "_change_error")]
    return [*RUN_COLUMNS, *trends, *OTHER_SCORES]


def follow(page: str, points: queue.Queue[dict[str, Any]]) -> None:
    """Every curve point from the event stream, which alone has the errors of changes."""
    with urllib.request.urlopen(f"{page}api/v1/events") as stream:  # noqa: S310
        kind = ""
        for line in stream:
            field, _, value = line.decode().strip().partition(":")
            if field == "event":
                kind = value.strip()
            elif field == "data" and kind == "point":
                points.put(json.loads(value))


def shown(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def record(page_points: queue.Queue[dict[str, Any]], address: str, options: argparse.Namespace, **of: Any) -> list[Any]:
    """The lines of one run."""
    delta, kind, weight, seed = of["delta"], of["bottleneck"], of["lambda"], of["seed"]
    torch.manual_seed(seed)
    data = train_cbm.tabular_toy(9000, delta, torch.Generator().manual_seed(seed))
    train, val = data.part(slice(0, 7000)), data.part(slice(7000, 9000))
    model = train_cbm.BottleneckModel(soft=kind == "soft")
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    training = argparse.Namespace(model="cbm", concept_weight=weight, intervention_probability=0.0)
    run = conceptwatch.init(
        f"{kind} {delta:g} {weight:g} {seed}",
        concepts=["z1 positive", "z2 positive", "z3 positive"],
        activation_kind="logit" if kind == "logit" else "probability",
        address=address,
        data_dir=None,
    )
    lines, step = [], 0
    for epoch in range(options.epochs + 1):
        if epoch > 0:
            step += train_cbm.train_epoch(model, train, optimiser, training)
        model.note_training_logits(train.x)
        with run.evaluation("val", step=step, epoch=epoch) as p:
            train_cbm.evaluate(model, val, kind == "logit", p)
        point = page_points.get(timeout=WAIT)
        assert (point["run"], point["step"]) == (run.name, step), point
        line: list[Any] = [*of.values(), epoch, step, point["rows"], shown(point["tie_fraction"])]
        scores, changes = point["scores"], point.get("change_errors", {})
        for score in TREND_SCORES:
            found = scores[score]
            line += [shown(found.get("value")), shown(found.get("standard_error")), shown(changes.get(score))]
        lines.append(line + [shown(scores[score].get("value")) for score in OTHER_SCORES])
    run.finish()
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        ports = Path(directory, "ports")
        command = [_sidecar.find_binary() or "conceptwatch", "serve", "--grpc-address", "127.0.0.1:0"]
        command += ["--http-address", "127.0.0.1:0", "--cpu-share", "8", "--port-file", str(ports), "--log", "warn"]
        sidecar = subprocess.Popen(command)
        try:
            while not ports.exists():
                time.sleep(0.05)
            address, page = ports.read_text().split()
            points: queue.Queue[dict[str, Any]] = queue.Queue()
            threading.Thread(target=follow, args=(f"http://{page}/", points), daemon=True).start()
            with options.file.open("w", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(columns())
                for delta, kind, weight, seed in itertools.product(DELTAS, KINDS, LAMBDAS, range(options.seeds)):
                    of = {"delta": delta, "bottleneck": kind, "lambda": weight, "seed": seed}
                    writer.writerows(record(points, address, options, **of))
                    file.flush()
        finally:
            sidecar.terminate()
            sidecar.wait()


if __name__ == "__main__":
    main()
