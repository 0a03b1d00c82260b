"""A user's own script with real digits: eleven added lines give curves that are there the next day, in the logger, in a
data frame and in a report."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import conceptwatch
from conftest import package, python_environment, wait_for
from jobs import sidecars
from offline_wandb import of_wandb
from real_sidecar import binary, printed

# What the user adds is marked by the bar.
SCRIPT = """\
 import numpy as np
 import torch
 import wandb
 from sklearn.datasets import load_digits
|import conceptwatch

 torch.manual_seed(0)
 torch.set_num_threads(1)
 wandb.init(project="digits")
 digits = load_digits()
 x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
 concepts = {"loop": {0, 6, 8, 9}, "even": {0, 2, 4, 6, 8}, "high": {5, 6, 7, 8, 9}, "prime": {2, 3, 5, 7}}
 c = torch.tensor([[digit in has for has in concepts.values()] for digit in digits.target], dtype=torch.float32)
 encoder = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4), torch.nn.Sigmoid())
 head = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
 optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.005)
|run = conceptwatch.init("digits", concepts=list(concepts), labels={"lambda": 0.01}, head=head, log_to="wandb")
 for epoch in range(8):
     for batch in torch.randperm(1000).split(32):
         predicted = encoder(x[batch])
         loss = torch.nn.functional.cross_entropy(head(predicted), y[batch])
         loss = loss + 0.01 * torch.nn.functional.binary_cross_entropy(predicted, c[batch])
         optimizer.zero_grad()
         loss.backward()
         optimizer.step()
     with torch.no_grad():
         predicted = encoder(x[1000:])
         logits = head(predicted)
         wandb.log({"accuracy": (logits.argmax(1) == y[1000:]).float().mean()}, step=epoch)
|    with run.evaluation("val", step=epoch, epoch=epoch) as p:
|        p.log(
|            concept_activations=predicted, concept_labels=c[1000:], task_labels=y[1000:], task_logits=logits,
|            sample_ids=torch.arange(1000, len(x)),
|        )
|print(run.diagnosis(timeout=60))
|run.finish()
 wandb.finish()
"""
MOST_ADDED = 11


def test_a_users_script_has_its_curves_tomorrow_and_where_they_look(tmp_path: Path, data_home: Path) -> None:
    for name in ("torch", "wandb", "pandas"):
        package(name)
    package("sklearn.datasets", "scikit-learn")
    lines = SCRIPT.splitlines()
    assert sum(line.startswith("|") for line in lines) <= MOST_ADDED
    script = tmp_path / "train.py"
    script.write_text("\n".join(line[1:] for line in lines), encoding="utf-8")
    # The script has waited for its scores; networks may be trained for a while on a busy machine.
    environment = python_environment(CONCEPTWATCH_BINARY=binary(), WANDB_MODE="offline", CONCEPTWATCH_LINGER="5")
    began = time.monotonic()
    trained = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert trained.returncode == 0, trained.stderr
    assert "Interventions fail" in trained.stdout
    # The job's sidecar has ended with it: what follows reads what is kept.
    wait_for(lambda: not sidecars(data_home))
    print(f"{time.monotonic() - began:.0f} s from the script's start to the end of its sidecar")

    (curves,) = data_home.iterdir()
    frame = conceptwatch.runs(curves)["digits"].series("intervention_drop", "val", frame="pandas")
    # Passes that a newer one outran are not scored.
    assert frame["step"].iloc[-1] == 7
    assert len(frame) > 1
    assert frame["value"].iloc[-1] > 0.3
    rows, _ = of_wandb(tmp_path)
    assert "conceptwatch/val/ctl_conditional" in {name for row in rows for name in row}
    report = tmp_path / "report.html"
    printed("diagnose", "digits", "--html", report)
    page = report.read_text(encoding="utf-8")
    assert "Interventions fail" in page
    answers = json.loads(page.split('id="answers">')[1].split("</script>")[0])
    assert answers["curves"]["step"][-1] == 7
    assert {"ctl_conditional", "intervention_drop"} <= answers["curves"]["scores"].keys()
