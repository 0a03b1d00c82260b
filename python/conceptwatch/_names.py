"""Names of runs, splits, concepts and labels, as the sidecar takes them."""

from __future__ import annotations

import unicodedata

MAX_NAME = 200
# Control and formatting characters, and separators of lines and paragraphs.
_HIDDEN = frozenset({"Cc", "Cf", "Zl", "Zp"})


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
        raise ValueError(f"{field}: {name!r} has the character {hidden!r}, expected text without control characters")
    if name.isspace():
        raise ValueError(f"{field}: {name!r} is blank, expected text")
    return name
