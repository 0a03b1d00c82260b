"""Names as researchers have them: every attribute of CUB-200-2011, phrases, and text that could break an output."""

from __future__ import annotations

import logging
import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest

import conceptwatch
from conceptwatch._names import checked
from conftest import wait_for
from monitoring import Prometheus
from real_sidecar import answer, eager

COLOURS = [
    "blue",
    "brown",
    "iridescent",
    "purple",
    "rufous",
    "grey",
    "yellow",
    "olive",
    "green",
    "pink",
    "orange",
    "black",
    "white",
    "red",
    "buff",
]
PATTERNS = ["solid", "spotted", "striped", "multi-colored"]
COLOURED = (
    "wing upperparts underparts back upper_tail breast throat forehead under_tail nape belly primary leg bill crown"
)
# Wah et al., The Caltech-UCSD Birds-200-2011 Dataset, CNS-TR-2011-001: attributes.txt, 28 groups.
CUB = {
    "has_bill_shape": "curved_(up_or_down) dagger hooked needle hooked_seabird spatulate all-purpose cone specialized",
    "has_tail_shape": "forked_tail rounded_tail notched_tail fan-shaped_tail pointed_tail squared_tail",
    "has_head_pattern": "spotted malar crested masked unique_pattern eyebrow eyering plain eyeline striped capped",
    "has_eye_color": " ".join(colour for colour in COLOURS if colour != "iridescent"),
    "has_bill_length": "about_the_same_as_head longer_than_head shorter_than_head",
    "has_wing_shape": "rounded-wings pointed-wings broad-wings tapered-wings long-wings",
    "has_size": "large_(16_-_32_in) small_(5_-_9_in) very_large_(32_-_72_in) medium_(9_-_16_in) very_small_(3_-_5_in)",
    "has_shape": "upright-perching_water-like chicken-like-marsh long-legged-like duck-like owl-like gull-like "
    "hummingbird-like pigeon-like tree-clinging-like hawk-like sandpiper-like upland-ground-like swallow-like "
    "perching-like",
    **{f"has_{part}_color": " ".join(COLOURS) for part in COLOURED.split()},
    **{f"has_{part}_pattern": " ".join(PATTERNS) for part in ["breast", "back", "tail", "belly", "wing"]},
}
ATTRIBUTES = [f"{group}::{value}" for group, values in CUB.items() for value in values.split()]
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


def test_every_attribute_of_cub_is_there() -> None:
    assert len(ATTRIBUTES) == len(set(ATTRIBUTES)) == 312


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
    concepts = [*ATTRIBUTES[:3], *PHRASES, *BREAKING]
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, (64, len(concepts)))
    rows = {
        "concept_activations": (0.2 + 0.6 * labels + 0.2 * random.random(labels.shape)).astype(np.float32),
        "concept_labels": labels,
        "task_labels": random.integers(0, 2, 64),
    }
    run_name, split = 'λ=0.1, "e\u0301"} <b>{{x}}', "val/é 'x'\\"
    composed = unicodedata.normalize("NFC", run_name)
    with eager("--data-dir", str(tmp_path / "curves")) as address, caplog.at_level(logging.WARNING, "conceptwatch"):
        host, _, port = address.rpartition(":")
        with conceptwatch.init(
            run_name, concepts=concepts, address=address, spawn=False, raise_errors=True, labels={'"λ"': "<0.1>"}
        ) as run:
            with run.evaluation(split, step=1) as p:
                p.log(**rows)
            scores = p.scores(timeout=60.0)
            assert scores is not None
            [stored] = answer(address, "/api/v1/runs")["runs"]
            assert stored["name"] == run.name == composed
            assert stored["concepts"] == concepts
            point = answer(address, "/api/v1/point", run=run.name, split=split)
            assert point["run"] == composed
            assert point["split"] == split
            folder = tmp_path / "prometheus"
            folder.mkdir()
            with Prometheus(folder, f"{host}:{int(port) + 1}") as prometheus:
                wait_for(lambda: prometheus.query("conceptwatch_per_concept_concept_accuracy"))
                found = prometheus.query("conceptwatch_per_concept_concept_accuracy")
                assert {series["metric"]["concept"] for series in found} == set(concepts)
                assert {series["metric"]["run"] for series in found} == {composed}
                assert {series["metric"]["split"] for series in found} == {split}
            assert prometheus.process.returncode == 0
    assert not caplog.messages


def test_all_of_cub_is_declared(tmp_path: Path) -> None:
    with eager("--data-dir", str(tmp_path)) as address:
        run = conceptwatch.init("birds", concepts=ATTRIBUTES, address=address, spawn=False, raise_errors=True)
        run.finish()
        [stored] = answer(address, "/api/v1/runs")["runs"]
        assert stored["concepts"] == ATTRIBUTES
