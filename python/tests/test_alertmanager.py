"""A leaking run fires in a real Alertmanager until it ends, by Prometheus' rules and by the sidecar's own option."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_end_to_end import log_pass

import conceptwatch
from conftest import wait_for
from monitoring import Alertmanager, Prometheus
from real_sidecar import EAGER_OPTIONS, RealSidecar

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "conceptwatch.rules.yml"
RULE = "concepts-task leakage is high"
# So much information about the task is in the concepts that CTL is near 0.6; the limit is 0.45.
LEAK = 2.0


def watch_a_leaking_run(sidecar: RealSidecar, alertmanager: Alertmanager) -> dict[str, Any]:
    """The alert that a leaking run makes; it is over when the run has finished. A clean run makes none."""
    clean = conceptwatch.init("clean", concepts=3, address=sidecar.address, spawn=False, raise_errors=True)
    leaking = conceptwatch.init("leaking", concepts=3, address=sidecar.address, spawn=False, raise_errors=True)
    with clean:
        with leaking:
            # The first two are not judged.
            for epoch in (1, 2, 3, 4):
                assert log_pass(clean, 10 * epoch, epoch, leak=0.0) is not None
                scores = log_pass(leaking, 10 * epoch, epoch, leak=LEAK)
                assert (scores["ctl_excess"].value or 0.0) > 0.45
            alert: dict[str, Any] = wait_for(lambda: told_of(alertmanager, "leaking", RULE))[0]
            assert leaking.should_stop(step=40)
        wait_for(lambda: not told_of(alertmanager, "leaking", RULE))
        assert told_of(alertmanager, "clean", RULE) == []
    return alert


def told_of(alertmanager: Alertmanager, run: str, rule: str) -> list[dict[str, Any]]:
    labels = {"run": run, "alertname": rule}
    return [alert for alert in alertmanager.alerts() if labels.items() <= alert["labels"].items()]


@pytest.fixture
def alertmanager(tmp_path: Path) -> Any:
    folder = tmp_path / "alertmanager"
    folder.mkdir()
    with Alertmanager(folder) as alertmanager:
        yield alertmanager


def test_by_prometheus_rules(alertmanager: Alertmanager, tmp_path: Path) -> None:
    sidecar = RealSidecar(*EAGER_OPTIONS, "--data-dir", str(tmp_path / "curves"))
    try:
        with Prometheus(tmp_path, scraped=sidecar.http, rules=RULES, alertmanager=alertmanager.address):
            alert = watch_a_leaking_run(sidecar, alertmanager)
    finally:
        sidecar.stop()
    assert alert["labels"]["severity"] == "critical"
    assert (alert["labels"]["split"], alert["labels"]["score"]) == ("val", "ctl_excess")
    assert alert["annotations"]["summary"] == f"leaking: {RULE}"


def test_by_the_sidecar_itself(alertmanager: Alertmanager, tmp_path: Path) -> None:
    # Notifications are so rare that the end of the run, not silence, resolves the alert.
    options = ["--alertmanager", f"http://{alertmanager.address}", "--alertmanager-resend", "600"]
    sidecar = RealSidecar(*EAGER_OPTIONS, "--data-dir", str(tmp_path / "curves"), *options)
    try:
        alert = watch_a_leaking_run(sidecar, alertmanager)
    finally:
        sidecar.stop()
    assert alert["labels"]["severity"] == "critical"
    assert "above 0.45" in alert["annotations"]["description"]
    assert alert["generatorURL"].startswith(f"http://{sidecar.http}")
