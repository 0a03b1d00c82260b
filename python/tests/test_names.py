"""Names as researchers have them are taken, and those that hide something are refused."""

from __future__ import annotations

import re
import unicodedata

import pytest

import conceptwatch
from conceptwatch._names import checked

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


@pytest.mark.parametrize(
    "name",
    ["has_bill_shape::curved_(up_or_down)", "Größe é 緑", "می\u200cخو", "\U0001f426\u200d\u2b1b", '"', "x" * 200],
)
def test_names_are_composed(name: str) -> None:
    assert checked("name", unicodedata.normalize("NFD", name)) == name
