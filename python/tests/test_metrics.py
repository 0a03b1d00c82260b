"""The metrics as scrapes read them: both formats by parsers of Prometheus' Python client, and joined by Prometheus."""

from __future__ import annotations

import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

import conceptwatch
from conftest import K, batch, evaluated, wait_for
from monitoring import Prometheus
from real_sidecar import eager
from real_sidecar import page as page_of

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
NAME = 'a "quoted" \\ run'


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    """The address of the page of a sidecar that has scored two splits of a run."""
    with eager() as address:
        labels = {"λ": "0.1", "seed no.": 7, "host": "taken"}
        run = conceptwatch.init(NAME, concepts=K, labels=labels, project="birds", address=address, spawn=False)
        for split in ("val", "test"):
            assert evaluated(run, batch(200), split=split, step=3, epoch=0.5).scores(timeout=60) is not None
        # They are judged beside the scrapes.
        wait_for(lambda: scrape(page_of(address))[1].count("\nconceptwatch_verdict{") == 2)
        yield page_of(address)
        run.finish()


def scrape(page: str, accept: str | None = None) -> tuple[Message, str]:
    request = urllib.request.Request(f"http://{page}/metrics", headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        return answer.headers, answer.read().decode()


# Samples that differ from one scrape to the next.
MOVES = (
    "cpu",
    "heap",
    "lag",
    "staleness",
    "spare",
    "http_requests",
    "connections",
    "unwritten",
    "budget",
    "used_bytes",
)


def samples(families: Any, name: Callable[[Any, Any], str]) -> dict[Any, float]:
    found = {}
    for family in families:
        for sample in family.samples:
            labels = {key: str(float(value)) if key == "le" else value for key, value in sample.labels.items()}
            if not any(moves in sample.name for moves in MOVES):
                found[name(family, sample), frozenset(labels.items())] = sample.value
    return found


def test_openmetrics_is_valid_and_has_the_samples_of_the_text_format(page: str) -> None:
    # Between two scrapes scores may join their points.
    for _ in range(600):
        headers, body = scrape(page, f"{OPENMETRICS},text/plain;version=0.0.4;q=0.5")
        # It raises where the text is not what the standard says.
        families = list(openmetrics.text_string_to_metric_families(body))
        found = samples(families, lambda _, sample: str(sample.name))
        headers_of_text, text = scrape(page)
        expected = samples(text_string_to_metric_families(text), lambda _, sample: str(sample.name))
        if found == expected:
            break
        time.sleep(0.1)
    assert found == expected
    assert len(found) > 200
    assert headers["Content-Type"] == f"{OPENMETRICS}; charset=utf-8"
    assert headers_of_text["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert body.endswith("\n# EOF\n")
    kinds = {family.name: (family.type, family.unit) for family in families}
    assert kinds["conceptwatch_rows_received"] == ("counter", "")
    assert kinds["conceptwatch_received_bytes"] == ("counter", "bytes")
    assert kinds["conceptwatch_score_duration_seconds"] == ("histogram", "seconds")
    assert kinds["conceptwatch_ctl"] == ("gauge", "")


def test_prometheus_joins_a_run_with_its_host_and_labels(page: str, tmp_path: Path) -> None:
    with Prometheus(tmp_path, scraped=page) as prometheus:
        join = "conceptwatch_ctl{split='val'} * on (run) group_left (host, _, seed_no_, project) conceptwatch_run_info"
        (joined,) = wait_for(lambda: prometheus.query(join))
        labels = joined["metric"]
        assert (labels["run"], labels["host"], labels["project"]) == (NAME, socket.gethostname(), "birds")
        assert (labels["_"], labels["seed_no_"]) == ("0.1", "7")
        (info,) = prometheus.query("conceptwatch_run_info")
        assert info["metric"]["label_host"] == "taken"
        assert info["metric"]["exported_job"]
