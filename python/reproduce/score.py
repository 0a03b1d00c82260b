"""Scores trained models through the sidecar, over gRPC, as JSON lines.

    python score.py FOLDER results.jsonl

A line is one model: its settings, task accuracies under intervention, scores on its test rows, and the findings of the
diagnosis. Lines whose scores this sidecar knows are kept; others, and models not yet listed, are scored.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import tempfile
import time
import urllib.request
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evaluate import KINDS, Evaluation, evaluate
from plan import Settings, name_of, plan
from train import file_of

import conceptwatch
from conceptwatch import _sidecar

WAIT = 600.0
# Scores that train networks arrive last.
AWAITED = ("ois", "nis", "reference_accuracy_mlp", "joint_leakage")
KEPT = ("ctl", "ctl_excess", "icl", "icl_excess", "icl_label", "ois", "nis_scaled")
KEPT += ("ctl_conditional", "icl_conditional", "concept_gap", "joint_leakage", "intervention_score")
KEPT += ("intervention_drop", "intervention_area", "wrong_intervention_drop")
KEPT += ("task_accuracy", "task_f1", "task_auc", "concept_accuracy", "concept_f1", "concept_auc")
KEPT += ("embedding_ct", "embedding_ic", "embedding_self", "alignment_leakage")
KEPT += ("embedding_ct_conditional", "embedding_ic_conditional")
KEPT += ("reference_accuracy_linear", "reference_accuracy_mlp")
# Scores whose values for each concept are kept (Appendix C).
BY_CONCEPT = ("ctl", "icl", "ctl_conditional", "icl_conditional")
# Scores that are correlated with others, and so need their standard errors.
WITH_ERRORS = ("ctl", "icl", "icl_label", "ois", "nis_scaled", "ctl_conditional", "icl_conditional", "joint_leakage")
WITH_ERRORS += ("concept_accuracy",)
# Significant digits, which keep the file small.
DIGITS = 4


def scored(of: Settings, found: Evaluation, address: str, catalogue: list[str]) -> dict[str, Any]:
    """Has the sidecar score a model."""
    run = conceptwatch.init(
        name_of(of).replace("=", ":"),
        concepts=of["concepts"],
        activation_kind=KINDS[of["kind"]],
        labels={key: value for key, value in of.items() if key != "seed"},
        reference_task_accuracy=found.reference,
        address=address,
        spawn=False,
    )
    with run.evaluation("test", step=found.epochs, epoch=found.epochs) as p:
        p.log(**found.tensors)
    end = time.monotonic() + WAIT
    while True:
        scores = run.scores("test", step=found.epochs, timeout=10.0)
        if scores is not None and all(name in scores for name in AWAITED if name in catalogue):
            break
        assert time.monotonic() < end, f"{run.name}: got no scores: {run.stats}"
        time.sleep(0.05)
    diagnosis = run.diagnosis("test", timeout=10.0)
    assert diagnosis is not None, f"{run.name}: got no diagnosis: {run.stats}"
    run.finish()
    known = [scores[name] for name in KEPT if name in scores]
    return {
        **of,
        "epochs": found.epochs,
        "seconds": rounded(found.seconds),
        "accuracies": [rounded(value) for value in found.accuracies],
        "catalogue": fingerprint(catalogue),
        "scores": {one.id: rounded(one.value) for one in known if one.value is not None},
        "errors": {
            one.id: rounded(one.standard_error)
            for one in known
            if one.id in WITH_ERRORS and one.standard_error is not None
        },
        "undefined": {one.id: one.undefined for one in known if one.value is None},
        "per_concept": {
            one.id: [None if math.isnan(value) else rounded(value) for value in one.per_concept]
            for one in known
            if one.id in BY_CONCEPT
        },
        "findings": [line.rule for line in diagnosis.found],
    }


def fingerprint(catalogue: list[str]) -> int:
    return zlib.crc32(" ".join(catalogue).encode())


def rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


@contextmanager
def sidecar(cores: int) -> Iterator[tuple[str, list[str]]]:
    """The address and score ids of a sidecar for the duration of the block, which scores at full speed."""
    with tempfile.TemporaryDirectory() as directory:
        ports = Path(directory, "ports")
        command = [_sidecar.find_binary() or "conceptwatch", "serve", "--port-file", str(ports), "--log", "warn"]
        command += ["--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0"]
        command += ["--cpu-share", str(cores), "--busy-cpu-share", str(cores), "--niceness", "0", "--linger", "1"]
        process = subprocess.Popen(command)
        try:
            while not ports.exists():
                assert process.poll() is None, "the sidecar ended at once"
                time.sleep(0.05)
            grpc, http = ports.read_text().split()[:2]
            with urllib.request.urlopen(f"http://{http}/api/v1/catalogue") as answer:
                catalogue = json.load(answer)["scores"]
            yield grpc, [score["id"] for score in catalogue]
        finally:
            process.terminate()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="that the sidecar may use")
    options = parser.parse_args()
    trained = [of for of in plan() if file_of(of, options.folder).exists()]
    with sidecar(options.cores) as (address, catalogue), ThreadPoolExecutor(2) as pool:
        known = {}
        if options.file.exists():
            # A line that was cut off is scored again.
            lines = [json.loads(line) for line in options.file.read_text().splitlines() if line.endswith("}")]
            known = {name_of({key: line[key] for key in trained[0]}): line for line in lines}
        done = {name: line for name, line in known.items() if line["catalogue"] == fingerprint(catalogue)}
        left = [of for of in trained if name_of(of) not in done]
        options.file.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in done.values()))
        start = time.monotonic()
        with options.file.open("a") as file:

            def one(of: Settings) -> dict[str, Any]:
                return scored(of, evaluate(of, options.folder), address, catalogue)

            for number, line in enumerate(pool.map(one, left), 1):
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
                file.flush()
                took = time.monotonic() - start
                rest = took / number * (len(left) - number)
                state = f"\rscored {len(done) + number}/{len(trained)} models, {took:.0f} s, {rest:.0f} s left "
                print(state, end="", flush=True)
    print()


if __name__ == "__main__":
    main()
