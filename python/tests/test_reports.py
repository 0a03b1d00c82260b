"""Reports of hostile names, in a real Chromium: no name becomes markup, and nothing reaches beyond a phone's window."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import conceptwatch
from conftest import evaluated, node_and_browser
from real_sidecar import eager, page, printed

# With a value for each concept and each pair, a curve, and one that is undefined.
SCORES = "ctl,icl,clarity,intervention_drop,concept_accuracy"
PAGE = Path(__file__).parents[2] / "tests" / "page"
HOSTILE = [
    "<script>alert(1)</script>",
    "</style><script>alert(2)</script>",
    '"onmouseover=alert(3) autofocus tabindex=1 x="',
    "'><img src=x onerror=alert(4)>",
    "</title><svg onload=alert(5)>",
    "&lt;b&gt; &#x3c;script&#x3e;",
    "javascript:alert(6)",
    "W" * 200,
    "概" * 200,
    "a b " * 49 + "end",
]
UNKNOWN = "</script><script>alert(7)</script>"
# A file may have it in its name; the names of runs and concepts may not.
OVERRIDE = "\u202egnp.exe"


def reported(*reports: Path) -> list[dict[str, Any]]:
    """What a browser finds in each."""
    node, environment = node_and_browser(PAGE)
    done = subprocess.run(
        [node, str(PAGE / "report.mjs"), *map(str, reports)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def outputs(rows: int = 200) -> dict[str, Any]:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, (rows, len(HOSTILE)))
    return {
        "concept_activations": (0.6 * labels + 0.4 * random.random(labels.shape)).astype(np.float32),
        "concept_labels": labels,
        "task_labels": labels[:, 0],
    }


def test_scores_of_files(tmp_path: Path) -> None:
    files = ["<script>alert(1)<", '"onmouseover=alert(1) x="', OVERRIDE, "W" * 250, "概" * 83]
    for file in files:
        archive, report = tmp_path / f"{file}.npz", tmp_path / f"{file}.html"
        np.savez(archive, concept_names=np.array(HOSTILE), **outputs(), **{UNKNOWN: np.zeros(2)})
        printed("score", str(archive), "--html", str(report), "--no-tests", "--scores", SCORES)
    for file, found in zip(files, reported(*(tmp_path / f"{file}.html" for file in files)), strict=True):
        assert found["faults"] == []
        shown = file.replace("\u202e", "\\u{202e}")
        assert found["title"] == f"Can\u2019t tell · {shown}.npz · conceptwatch"
        assert all(name.split("  ")[0] in found["text"] for name in HOSTILE)
        assert f"ignored, as no score knows the name: {UNKNOWN}" in found["text"]


def test_the_diagnosis_of_a_run(tmp_path: Path) -> None:
    labels = {HOSTILE[1]: HOSTILE[3], HOSTILE[2]: HOSTILE[7]}
    reports = []
    with eager() as address:
        http = page(address)
        for number, name in enumerate(HOSTILE):
            run = conceptwatch.init(name, concepts=HOSTILE, labels=labels, address=address, spawn=False)
            for step in (1, 2):
                evaluated(run, outputs(), split=name, step=step)
            assert run.finish()
            printed("rename", run.name, HOSTILE[number - 1], "--address", http)
            printed("note", run.name, f"{HOSTILE[0]}\n{HOSTILE[7]}", "--address", http)
            reports.append(tmp_path / f"{number}.html")
            printed("diagnose", run.name, "--split", name, "--address", http, "--html", str(reports[-1]))
    for number, found in enumerate(reported(*reports)):
        assert found["faults"] == []
        assert found["title"] == f"Nothing found · {HOSTILE[number - 1]} · conceptwatch"
        assert all(name in found["text"] for name in (*labels, *labels.values()))
