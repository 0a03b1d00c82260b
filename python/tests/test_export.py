"""Passes that follow each other faster than Prometheus scrapes: exported, they are all there to be queried."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conftest import batch, evaluated, not_tested, python, wait_for
from monitoring import Prometheus, program_path
from real_sidecar import EAGER_OPTIONS, RealSidecar, ask

EXPORT = Path(__file__).parents[2] / "deploy" / "prometheus" / "export.py"
RUN, PASSES = "fast: 0.1", 60
CONCEPTS = ["has_bill: all-purpose", "wing/2.0", "tail"]


@dataclass
class Exported:
    sidecar: RealSidecar
    live: Prometheus
    archive: Prometheus
    text: str


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    """A fast run, scraped while it went on, then exported to a Prometheus that scrapes nothing."""
    promtool = program_path("promtool")
    if promtool is None:
        not_tested("prometheus")
    folder = tmp_path_factory.mktemp("fast")
    sidecar = RealSidecar(*EAGER_OPTIONS, "--data-dir", str(folder / "curves"))
    try:
        with Prometheus(folder, scraped=sidecar.http) as live:
            wait_for(lambda: live.query("up == 1"))
            train(sidecar)
            # Scores that train networks join their point later.
            last = {"run": RUN, "split": "val", "step": str(10 * PASSES)}
            wait_for(lambda: "ois" in ask(sidecar.http, "/api/v1/point", **last)["scores"])
            text = run_export(f"http://{sidecar.http}", "--run", RUN)
            (folder / "curves.om").write_text(text)
            (folder / "archive").mkdir()
            blocks = folder / "archive" / "data"
            command = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(folder / "curves.om"), str(blocks)]
            made = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert made.returncode == 0, made.stdout + made.stderr
            with Prometheus(folder / "archive", data=blocks) as archive:
                yield Exported(sidecar, live, archive, text)
    finally:
        sidecar.stop()


def run_export(*arguments: str) -> str:
    ran = python(EXPORT, *arguments)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def train(sidecar: RealSidecar) -> None:
    with conceptwatch.init(RUN, concepts=CONCEPTS, address=sidecar.address, spawn=False, raise_errors=True) as run:
        for epoch in range(1, PASSES + 1):
            p = evaluated(run, batch(200, first_id=0, seed=epoch), step=10 * epoch, epoch=epoch)
            assert p.scores(timeout=60.0) is not None


def raw(prometheus: Prometheus, metric: str) -> list[tuple[float, float]]:
    """Every sample of a series, at its own time."""
    (series,) = prometheus.query(f'{metric}{{run="{RUN}"}}[1h]')
    return [(float(at), float(value)) for at, value in series["values"]]


@pytest.mark.parametrize("score", ["icl_excess", "ctl_excess", "concept_accuracy"])
def test_every_pass_is_exported_at_its_time(exported: Exported, score: str) -> None:
    points = ask(exported.sidecar.http, "/api/v1/series", run=RUN, split="val", score=score)["points"]
    assert [point["step"] for point in points] == [10 * epoch for epoch in range(1, PASSES + 1)]
    found = raw(exported.archive, f"conceptwatch_{score}")
    assert [value for _, value in found] == [point["value"] for point in points]
    assert [at for at, _ in found] == pytest.approx([point["time"] for point in points], abs=0.01)


def test_a_graph_of_them_has_every_pass(exported: Exported) -> None:
    """As Grafana asks, at steps of time."""
    times = [at for at, _ in raw(exported.archive, "conceptwatch_step")]
    steps: set[float] = set()
    # A millisecond is the finest step, and an answer has at most 11,000 of them.
    for start in np.arange(times[0], times[-1] + 0.001, 10.0):
        end = min(float(start) + 10.0, times[-1])
        for series in exported.archive.range("conceptwatch_step", float(start), end, step=0.001):
            steps |= {float(value) for _, value in series["values"]}
    assert steps == {10.0 * epoch for epoch in range(1, PASSES + 1)}


def newest(prometheus: Prometheus, at: float | None) -> dict[Any, str]:
    """The values of the run by family and labels, without those labels that Prometheus adds. at: their own time."""
    of_now = "conceptwatch_(alert_state|run_info|verdict.*)"  # no history has them
    # Without a range, Prometheus shows what a series had in an earlier pass, too, such as that a score was undefined.
    alone = "" if at is None else "[1ms]"
    found = prometheus.query(f'{{__name__!~"{of_now}", run="{RUN}"}}{alone}', at=at)
    own = {"job", "instance"}

    def value(one: dict[str, Any]) -> str:
        return str((one["value"] if at is None else one["values"][-1])[1])

    return {frozenset(item for item in one["metric"].items() if item[0] not in own): value(one) for one in found}


def test_the_last_pass_is_exported_as_it_is_scraped(exported: Exported) -> None:
    (end, _) = raw(exported.archive, "conceptwatch_step")[-1]
    written = newest(exported.archive, end)
    assert len(written) > 100
    wait_for(lambda: newest(exported.live, None).items() >= written.items())
    assert newest(exported.live, None) == written


def test_every_concept_is_exported(exported: Exported) -> None:
    found = exported.archive.label_values("concept", f'conceptwatch_per_concept_icl{{run="{RUN}"}}')
    assert sorted(found) == sorted(CONCEPTS)


def test_a_run_that_is_not_known_is_refused_by_name(exported: Exported) -> None:
    ran = python(EXPORT, f"http://{exported.sidecar.http}", "--run", "no such")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert re.fullmatch(r"export: run 'no such' is not known there\n", ran.stderr)
