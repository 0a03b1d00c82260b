"""A job, its sidecar and a hub with its database: what the job's own sidecar shows stands on the hub's page as well."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from postgresql import database
from test_digits import CONCEPTS

import conceptwatch
from conftest import package, wait_for
from real_sidecar import answer, eager, serving


def test_a_hub_shows_what_the_sidecar_of_a_job_shows(tmp_path: Path) -> None:
    digits = package("sklearn.datasets", "scikit-learn").load_digits().target
    labels = CONCEPTS[digits]
    rng = np.random.default_rng(0)
    with (
        database() as store,
        serving("--store", store, "--log", "warn") as hub,
        eager("--upstream", hub, "--data-dir", str(tmp_path)) as sidecar,
    ):
        names = [f"concept {number}" for number in range(labels.shape[1])]
        run = conceptwatch.init("digits", address=sidecar, concepts=names, labels={"lambda": "0.1"})
        for step in range(1, 6):
            noise = rng.uniform(0, 0.5, labels.shape)
            activations = (labels * 0.5 + noise * (0.6 + 0.05 * step)).clip(0, 1).astype(np.float32)
            with run.evaluation("val", step=step) as p:
                p.log(concept_activations=activations, concept_labels=labels.astype(np.int64), task_labels=digits)
            assert p.scores(timeout=60) is not None
        run.finish()
        told = lambda: answer(sidecar, "/api/v1/status")["upstream"]  # noqa: E731
        wait_for(lambda: told()["reached"] and told()["waiting"] == 0)
        assert (told()["refused"], told()["dropped"]) == (0, 0)
        for score in ["ctl", "icl", "ctl_conditional", "concept_accuracy"]:
            here, there = (
                answer(address, "/api/v1/series", run="digits", split="val", score=score) for address in (sidecar, hub)
            )
            assert [point["step"] for point in here["points"]] == [1, 2, 3, 4, 5]
            assert here == there, score
