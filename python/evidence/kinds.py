"""How the product judges runs on kinds of data and training that no limit was chosen on, as JSON lines.

    PYTHONPATH=python OMP_NUM_THREADS=1 CONCEPTWATCH_BINARY=target/release/conceptwatch \\
        python python/evidence/kinds.py docs/evidence/kinds.jsonl

The client logs each epoch of each model to two runs of a sidecar, with interventions and without, and asks whether to
stop. Training goes on to its end. A line is one run: the first advice, the verdict, and what became of the model by
numbers of this program's own. Models that are already in the file are not trained again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from kinds_data import Data
from kinds_models import BEFORE, Found, trained
from lines import known, say_progress

import conceptwatch
from conceptwatch import Continuous

WEIGHTS = (0.01, 0.1, 1.0, 10.0)
SEEDS = 4
LATE_SEEDS, COMPLETE_SEEDS, FLAT_SEEDS = 4, 1, 2
EPOCHS, LONG = 20, 60
# The 2,450 pairs of its concepts take longer than all else.
MANY = {"epochs": 12}
MANY_SEEDS = 2
# Concepts and the head of each kind of data; the embedding models and the wrong labels share one.
ENCODINGS = {"series": "logit", "quantities": "quantity"}
MLP = ("series", "quantities")
PLAIN = ("survey", "documents", "medical", "series", "regression", "quantities", "categories")
# Kinds of concepts, and tasks with a third of all labels unknown.
OF_SEVERAL = ("mixed kinds", "several tasks")
# Late leaks, and how many concepts are left out of the set: a complete one leaves hardly anything to leak.
CHANGING = {"series": 2, "regression": 2, "quantities": 2, "categories": 3, "mixed": 2}
COMPLETE = ("survey", "documents", "series", "quantities", "categories")
FLAT = ("survey", "series", "categories")
TIMEOUT = 120.0
# For the scores that train networks, at the end of a run. Its epochs are too short for those of each evaluation: the
# verdict takes those of an earlier one.
LAST_TIMEOUT = 2.0
KEPT = (
    "intervention_drop", "intervention_score", "ctl_conditional", "ctl_conditional_r2", "ctl_excess", "icl_conditional",
    "icl_excess", "joint_leakage", "task_excess", "embedding_ct_conditional", "concept_auc", "concept_accuracy",
    "concept_r2", "task_balanced_accuracy", "task_r2", "reference_accuracy_linear", "reference_accuracy_mlp",
)  # fmt: skip


def _of(kind: str, data: str, seed: int, **changes: Any) -> dict[str, Any]:
    of = {
        "kind": kind, "data": data, "encoding": ENCODINGS.get(data, "soft"), "linear": data not in MLP,
        "training": "joint", "weight": 1.0, "schedule": "constant", "epochs": EPOCHS, "intervened": 0.0,
        "hidden": 0, "reference": False, "seed": seed,
    }  # fmt: skip
    return {**of, **changes}


def models() -> list[dict[str, Any]]:
    """A seed of every setting before the next seed; that of many concepts last."""
    found = []
    for seed in range(SEEDS):
        for weight in WEIGHTS:
            found += [_of(data, data, seed, weight=weight) for data in (*PLAIN, "noisy")]
            found.append(_of("noisy, reference", "noisy", seed, weight=weight, reference=True))
            # Every other seed has concepts set to their true values while it is trained.
            of = {"encoding": "embedding", "intervened": 0.25 * (seed % 2), "weight": weight}
            found.append(_of("embeddings", "mixed", seed, **of))
            found += [_of(kind, kind, seed, weight=weight) for kind in OF_SEVERAL]
        for training in ("sequential", "independent"):
            # The values that a logit is set to are not known before it is trained.
            of = {"training": training, "encoding": "soft"} if training == "independent" else {"training": training}
            found.append(_of(f"noisy, {training}", "noisy", seed, **of))
            for data in PLAIN if seed < SEEDS // 2 else ():
                own = of if data != "quantities" else {**of, "encoding": "quantity"}
                found.append(_of(training, data, seed, **own))
            found += [_of(f"{kind}, {training}", kind, seed, **of) for kind in OF_SEVERAL]
        long = {"epochs": LONG, "weight": BEFORE}
        late = {**long, "schedule": "late"}
        if seed < LATE_SEEDS:
            found += [_of("late", data, seed, hidden=hidden, **late) for data, hidden in CHANGING.items()]
        if seed < COMPLETE_SEEDS:
            found += [_of("late, complete", data, seed, **late) for data in COMPLETE]
        found += [_of("flat", data, seed, schedule="flat", **long) for data in FLAT if seed < FLAT_SEEDS]
    for seed in range(MANY_SEEDS):
        found += [_of("sparse", "sparse", seed, weight=weight, **MANY) for weight in WEIGHTS]
        found += [
            _of(training, "sparse", seed, training=training, **MANY) for training in ("sequential", "independent")
        ]
    return found


def name(of: dict[str, Any]) -> str:
    return f"{of['kind']} {of['data']} {of['weight']:g} {of['seed']}"


@contextlib.contextmanager
def sidecar(binary: str) -> Iterator[str]:
    """A sidecar on free ports; its address. Every evaluation is waited for, so it need not step back."""
    with tempfile.TemporaryDirectory() as folder:
        ports = Path(folder) / "ports"
        command = [binary, "serve", "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0", "--log", "warn"]
        command += ["--niceness", "0", "--cpu-share", "1", "--busy-cpu-share", "1", "--port-file", str(ports)]
        with subprocess.Popen([*command, "--exit-with-stdin"], stdin=subprocess.PIPE) as process:
            while not ports.exists() or not ports.read_text().strip():
                if process.poll() is not None:
                    raise RuntimeError("the sidecar ended at once")
                time.sleep(0.02)
            yield ports.read_text().split()[0]
            # A clean stop scores what waits.
            process.kill()


class Watched:
    """A run of the product: what it advised and concluded."""

    def __init__(
        self, of: dict[str, Any], data: Data, interventions: bool, address: str, reference: str | None
    ) -> None:
        self.interventions = interventions
        self.is_number = data.classes == (1,)
        quantities = of["encoding"] == "quantity"
        concepts: list[Any] = [
            (f"concept {place}", m) if m > 2 else f"concept {place}" for place, m in enumerate(data.values)
        ]
        if not quantities:
            concepts = [Continuous(one) if m == 1 else one for one, m in zip(concepts, data.values, strict=True)]
        is_partial = bool(np.isnan(data.val.c).any())
        self.has_floats = 1 in data.values or is_partial
        kinds = {"quantity": "continuous", "logit": "logit"}
        self.run = conceptwatch.init(
            f"{name(of)} {'with' if interventions else 'without'} interventions",
            concepts=concepts,
            activation_kind=kinds.get(of["encoding"], "probability"),
            concept_labels="continuous" if quantities else "class",
            task_labels="continuous" if self.is_number else "class",
            missing_concept_labels=is_partial,
            tasks=None if len(data.classes) == 1 else len(data.classes),
            missing_task_labels=is_partial,
            training=of["training"],
            reference=reference,
            address=address,
            spawn=False,
            data_dir=None,
        )
        self.advised: int | None = None
        self.reason = ""
        self.late = 0
        self.states: list[str] = []

    def log(self, epoch: int, found: Found, data: Data) -> None:
        model, held = found.model, data.val
        head: Any = None
        if self.interventions and found.positive is not None:
            head = conceptwatch.embedding_head(model.head, found.positive, found.negative)
        elif self.interventions and model.encoding == "logit":
            head = conceptwatch.Head(model.head, low=model.low, high=model.high)
        elif self.interventions:
            head = model.head
        mixed = None
        if found.positive is not None and found.negative is not None:
            share = found.activations.unsqueeze(2)
            mixed = share * found.positive + (1 - share) * found.negative
        with self.run.evaluation("val", step=epoch, epoch=epoch) as p:
            p.log(
                sample_ids=np.arange(len(held.y)),
                concept_activations=found.activations,
                concept_labels=held.c if self.has_floats else held.c.astype(int),
                task_labels=held.y,
                task_predictions=found.outputs[:, 0] if self.is_number else None,
                task_logits=None if self.is_number else found.outputs,
                concept_embeddings=mixed,
                positive_embeddings=found.positive,
                negative_embeddings=found.negative,
                head=head,
            )

    def ask(self, epoch: int, verdict: bool) -> None:
        """Waits for the scores of the epoch and notes the advice, and the state of the verdict."""
        stop = self.run.should_stop(step=epoch, timeout=TIMEOUT)
        reason = self.run.stop_reason(step=epoch)
        self.late += "are late" in reason
        if stop and self.advised is None:
            self.advised, self.reason = epoch, reason
        if verdict:
            # The scores that train networks come later.
            diagnosis = self.run.diagnosis(step=epoch)
            self.states.append("none" if diagnosis is None else diagnosis.verdict.state)

    def line(self, epoch: int) -> dict[str, Any]:
        diagnosis = self.run.diagnosis(step=epoch, timeout=LAST_TIMEOUT)
        scores = self.run.scores(step=epoch, timeout=TIMEOUT)
        assert diagnosis is not None
        assert scores is not None
        verdict = diagnosis.verdict
        found = {
            "interventions": self.interventions,
            "rows": diagnosis.rows,
            "advised": self.advised,
            "rule": self.reason.partition(":")[0] or None,
            "advice": self.reason,
            "late_scores": self.late,
            "verdict": verdict.state,
            "verdict_text": str(verdict),
            "since_epoch": verdict.since_epoch,
            "found": [finding.rule for finding in diagnosis.found],
            "scores": {key: round(value, 4) for key, value in scores.defined.items() if key in KEPT},
            "notes": list(scores.warnings),
            "states": self.states,
        }
        self.run.finish()
        return found


def _referred(of: dict[str, Any], address: str) -> str:
    """Trains the sequential run that a joint one refers to; its name."""
    changed = {**of, "kind": f"{of['kind']} itself", "training": "sequential", "weight": 1.0}
    data, epochs = trained(changed)
    watched = Watched(changed, data, True, address, None)
    for epoch, found in enumerate(epochs, 1):
        watched.log(epoch, found, data)
        watched.ask(epoch, verdict=False)
    watched.line(of["epochs"])
    return watched.run.name


def lines_of(of: dict[str, Any], address: str) -> list[dict[str, Any]]:
    """Trains a model that both runs watch."""
    began = time.monotonic()
    reference = _referred(of, address) if of["reference"] else None
    data, epochs = trained(of)
    watched = [Watched(of, data, interventions, address, reference) for interventions in (True, False)]
    drops, found = [], None
    for epoch, found in enumerate(epochs, 1):
        for one in watched:
            one.log(epoch, found, data)
        for one in watched:
            one.ask(epoch, verdict=of["epochs"] == LONG)
        drops.append(round(found.drop, 4))
    assert found is not None
    numbers = {
        "drop": drops[-1], "clean_drop": found.clean_drop, "task": found.task, "concepts": found.concepts,
        "auc": None if math.isnan(found.auc) else found.auc,
    }  # fmt: skip
    numbers = {key: None if value is None else round(value, 4) for key, value in numbers.items()}
    lines = [{**of, **numbers, **one.line(of["epochs"]), "drops": drops} for one in watched]
    return [{**line, "seconds": round((time.monotonic() - began) / len(lines), 2)} for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--kinds", action="append", help="only these kinds")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="only the first seeds")
    options = parser.parse_args()
    os.environ["CONCEPTWATCH_QUIET"] = "1"
    done = {name(line) for line in known(options.file)}
    chosen = [of for of in models() if of["seed"] < options.seeds]
    left = [of for of in chosen if name(of) not in done and (not options.kinds or of["kind"] in options.kinds)]
    began = time.monotonic()
    with options.file.open("a") as file:
        for place, of in enumerate(left, 1):
            # Evaluations of a model that still wait would hold up the next one's in a shared sidecar.
            with sidecar(os.environ["CONCEPTWATCH_BINARY"]) as address:
                file.write("".join(json.dumps(line) + "\n" for line in lines_of(of, address)))
            file.flush()
            say_progress(place, len(left), began)
    print()


if __name__ == "__main__":
    main()
