"""Names as researchers have them: attributes of CUB-200-2011, phrases, and text that could break an output."""

from __future__ import annotations

import logging
import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest

import conceptwatch
from conceptwatch._names import checked
from conftest import evaluated, wait_for
from monitoring import Prometheus
from real_sidecar import answer, eager, page

# Attributes of CUB-200-2011.
ATTRIBUTES = ["has_bill_shape::curved_(up_or_down)", "has_bill_shape::all-purpose", "has_size::large_(16_-_32_in)"]
PHRASES = [
    "a bird's beak",
    "the smell of coffee, roasted",
    "λ=0.1",
    "lr=1e-3,seed=2",
    "größer als 5 µm",
    "緑の翼",
    "ذيل طويل",
    "می\u200cخو",
    "\U0001f426\u200d\u2b1b",
]
# Each would end a string, a tag, a label, a cell or a template, if an output did not escape it.
BREAKING = [
    '"', "'", "\\", '\\"', 'a"} 1', "<script>alert(1)</script>", "&amp;", "{{.Labels.run}}", "$run", "${run:raw}",
    "=1+1", "-1", "@SUM(A1)", "a,b", "a;b", "#", "%2e%2e%2f", "../../etc/passwd", "C:\\x", "a|b", "`id`", "$(id)",
    "' OR 1=1 --", "null", "NaN", " padded ", "😀", "x" * 200,
]  # fmt: skip
REFUSED = {
    "": "got 0 characters",
    "x" * 201: "got 201 characters",
    "a\nb": "contains U.000A, a control character",
    "a\0b": "contains U.0000, a control character",
    "a\x1b[31mb": "contains U.001B, a control character",
    "a\u202eb": "contains U.202E, an invisible format character",
    "a\u200bb": "contains U.200B, an invisible format character",
    "a\u2028b": "contains U.2028, a line separator",
    "a\u2029b": "contains U.2029, a paragraph separator",
    "a\u3164": "contains U.3164, a filler; remove it",
    "a\u200d": "joins nothing",
    "a\u200d\u200db": "joins nothing",
    "\u2800\ufe0f": "is blank",
    " \u3000\t"[:2]: "is blank",
}


@pytest.mark.parametrize(("name", "says"), REFUSED.items(), ids=repr)
@pytest.mark.parametrize("field", ["name", "concepts[1]", "labels"])
def test_init_refuses_what_the_sidecar_would(field: str, name: str, says: str) -> None:
    arguments = {
        "name": {"name": name},
        "concepts[1]": {"name": "r", "concepts": ["a", name]},
        "labels": {"name": "r", "labels": {name: 1}},
    }[field]
    with pytest.raises(ValueError, match=f"{re.escape(field)}.*{says}"):
        conceptwatch.init(**{"concepts": 2, **arguments}, spawn=False)


def test_init_refuses_a_concept_named_twice() -> None:
    with pytest.raises(ValueError, match="two concepts are named 'é'"):
        conceptwatch.init("r", concepts=["é", "e\u0301"], spawn=False)


def test_names_are_composed() -> None:
    assert checked("name", unicodedata.normalize("NFD", "Größe é 緑")) == "Größe é 緑"


def test_they_come_out_as_they_went_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    concepts = [*ATTRIBUTES, *PHRASES, *BREAKING]
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, (64, len(concepts)))
    rows = {
        "concept_activations": (0.2 + 0.6 * labels + 0.2 * random.random(labels.shape)).astype(np.float32),
        "concept_labels": labels,
        "task_labels": random.integers(0, 2, 64),
    }
    run_name, split = 'λ=0.1, "e\u0301"} <b>{{x}}', "val/é 'x'\\"
    composed = unicodedata.normalize("NFC", run_name)
    with (
        eager("--data-dir", str(tmp_path / "curves")) as address,
        caplog.at_level(logging.WARNING, "conceptwatch"),
        conceptwatch.init(
            run_name, concepts=concepts, address=address, spawn=False, raise_errors=True, labels={'"λ"': "<0.1>"}
        ) as run,
    ):
        assert evaluated(run, rows, split=split).scores(timeout=60.0) is not None
        [stored] = answer(address, "/api/v1/runs")["runs"]
        assert stored["name"] == run.name == composed
        assert stored["concepts"] == concepts
        point = answer(address, "/api/v1/point", run=run.name, split=split)
        assert (point["run"], point["split"]) == (composed, split)
        folder = tmp_path / "prometheus"
        folder.mkdir()
        with Prometheus(folder, page(address)) as prometheus:
            found = wait_for(lambda: prometheus.query("conceptwatch_per_concept_concept_accuracy"))
            assert {series["metric"]["concept"] for series in found} == set(concepts)
            assert {series["metric"]["run"] for series in found} == {composed}
            assert {series["metric"]["split"] for series in found} == {split}
        assert prometheus.process.returncode == 0
    assert not caplog.messages
