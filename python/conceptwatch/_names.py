"""Names of runs, splits, concepts and labels, as the sidecar takes them."""

from __future__ import annotations

import unicodedata

MAX_NAME = 200
# What a name must not have, by Unicode category.
_HIDDEN = {
    "Cc": "a control character",
    "Cf": "an invisible format character",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
}


def composed(name: str) -> str:
    """A name in normalisation form C: one spelling for what looks the same."""
    return unicodedata.normalize("NFC", str(name))


def checked(field: str, name: str) -> str:
    """A composed name of 1 to 200 characters, not blank and none of them hidden. Raises ValueError for others."""
    name = composed(name)
    if not 1 <= len(name) <= MAX_NAME:
        raise ValueError(f"{field}: got {len(name)} characters, expected 1 to {MAX_NAME}")
    hidden = next((character for character in name if unicodedata.category(character) in _HIDDEN), None)
    if hidden is not None:
        what = _HIDDEN[unicodedata.category(hidden)]
        raise ValueError(f"{field}: {name!r} contains U+{ord(hidden):04X}, {what}; remove it")
    if name.isspace():
        raise ValueError(f"{field}: {name!r} is blank; give it a name")
    return name
