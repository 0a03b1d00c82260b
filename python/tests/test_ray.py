"""`deploy/ray`: archives that tasks of Ray score have the scores of one process."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from conftest import batch, package, python_environment
from real_sidecar import binary, printed

PROGRAM = Path(__file__).parents[2] / "deploy" / "ray" / "score_files.py"
FILES, WORKERS = 32, 2


def test_tasks_of_ray_score_files(tmp_path: Path) -> None:
    package("ray")
    files = [str(tmp_path / f"{number}.npz") for number in range(FILES)]
    for number, file in enumerate(files):
        np.savez(file, **batch(200, seed=number), activation_kind="probability")
    missing = str(tmp_path / "missing.npz")
    environment = python_environment(CONCEPTWATCH_BINARY=binary(), HOME=str(tmp_path))
    environment.pop("RAY_ADDRESS", None)
    environment["RAY_OVERRIDE_RESOURCES"] = json.dumps({"CPU": WORKERS})
    # A cluster of this machine alone, and no word about it to others. Names of its sockets are short.
    with tempfile.TemporaryDirectory(prefix="ray-") as own:
        environment |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": own}
        ran = subprocess.run(
            [sys.executable, PROGRAM, "--scores", "ctl,ois", *files, missing],
            env=environment, stdout=subprocess.PIPE, text=True, timeout=240, check=False,
        )  # fmt: skip
    assert ran.returncode == 1
    *lines, last = csv.DictReader(ran.stdout.splitlines())
    assert (last["file"], last["ctl"]) == (missing, "")
    assert "No such file" in last["error"]
    assert [(line["file"], line["rows"], line["error"]) for line in lines] == [(file, "200", "") for file in files]
    for file, line in list(zip(files, lines, strict=True))[:: FILES // 2]:
        scores = json.loads(printed("score", file, "--json", "--scores", "ctl,ois"))["scores"]
        assert [float(line[score]) for score in ("ctl", "ois")] == [scores[score]["value"] for score in ("ctl", "ois")]
