"""Names of runs, splits, concepts and labels, as the sidecar takes them."""

from __future__ import annotations

import re
import unicodedata

MAX_NAME = 200
# What a name must not have, by Unicode category.
_HIDDEN = {
    "Cc": "a control character",
    "Cf": "an invisible format character",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
}
# Letters and marks without a form of their own.
_FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
# Zero width non-joiner and joiner, which Persian, Sinhala and emoji need between two characters.
_JOINERS = "\u200c\u200d"
_JOINS_NOTHING = re.compile(rf"(?:^|\s|[{_JOINERS}])[{_JOINERS}]|[{_JOINERS}](?:\s|$)")
_BLANK = re.compile(rf"[\s{_JOINERS}\u180b-\u180f\u2800\ufe00-\ufe0f\U000e0100-\U000e01ef]*")


def _what_is_hidden(character: str) -> str | None:
    if character in _JOINERS:
        return None
    if character in _FILLERS:
        return "a filler"
    return _HIDDEN.get(unicodedata.category(character))


def composed(name: str) -> str:
    """A name in normalisation form C: one spelling for what looks the same."""
    return unicodedata.normalize("NFC", str(name))


def on_one_line(text: str, most: int) -> str:
    """A text of at most this many characters, without hidden ones. Those and line breaks become spaces."""
    hides = "".join(
        " " if _what_is_hidden(one) or unicodedata.category(one) == "Cs" else one for one in composed(text[: 2 * most])
    )
    return composed(" ".join(hides.split())[:most].rstrip())


def checked(field: str, name: str) -> str:
    """A composed name of 1 to 200 characters, not blank and none of them hidden. Raises ValueError for others."""
    name = composed(name)
    if not 1 <= len(name) <= MAX_NAME:
        raise ValueError(f"{field}: got {len(name)} characters, expected 1 to {MAX_NAME}")
    for character in name:
        what = _what_is_hidden(character)
        if what is not None:
            raise ValueError(f"{field}: {name!r} contains U+{ord(character):04X}, {what}; remove it")
    if _BLANK.fullmatch(name):
        raise ValueError(f"{field}: {name!r} is blank; give it a name")
    if _JOINS_NOTHING.search(name):
        raise ValueError(f"{field}: {name!r} has a joiner, U+200C or U+200D, that joins nothing; remove it")
    return name
