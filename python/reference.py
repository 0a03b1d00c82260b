"""Writes docs/python.md from the signatures and docstrings of the package, without importing it.

python python/reference.py docs/python.md
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import griffe

PACKAGE = Path(__file__).parent
HEAD = """\
# Python package

What `import conceptwatch` has, then the callbacks and adapters. [Log a training](loop.md) and
[Use Lightning, Keras, Transformers and libraries](integrations.md) show them at work.
"""
MODULES = ("lightning", "keras", "transformers", "adapters")
ARGUMENT = re.compile(r"^([a-z_`]+(?:, [a-z_`]+)*(?:,? and `?[a-z_]+`?)*): ")


def text_of(found: griffe.Object) -> str:
    """A docstring whose descriptions of arguments are list items."""
    lines = found.docstring.value.splitlines() if found.docstring else []
    items = [ARGUMENT.sub(lambda match: f"- **{match[1].replace('`', '')}**: ", line) for line in lines]
    separated = []
    for line in items:
        if line.startswith("- **") and separated and separated[-1] and not separated[-1].startswith(("- **", "    ")):
            separated.append("")
        separated.append(line)
    return "\n".join(separated).strip() + "\n"


def signature(found: griffe.Object, name: str) -> str:
    if isinstance(found, griffe.Attribute):
        return name + (f": {found.annotation}" if found.annotation else "")
    if isinstance(found, griffe.Class):
        made = found.all_members.get("__init__")
        return str(made.signature(name=name)) if isinstance(made, griffe.Function) else name
    return str(found.signature(name=name))


def is_shown(found: griffe.Object) -> bool:
    return not found.name.startswith("_") and not found.is_imported and found.docstring is not None


def entry(found: griffe.Object, name: str, level: int) -> str:
    text = f"\n{'#' * level} {name}\n\n```text\n{signature(found, name)}\n```\n\n{text_of(found)}"
    if isinstance(found, griffe.Class):
        members = [member for member in found.members.values() if not member.is_alias and is_shown(member)]
        text += "".join(entry(member, f"{name}.{member.name}", level + 1) for member in members)
    return text


def target(found: griffe.Object | griffe.Alias) -> griffe.Object:
    return found.final_target if isinstance(found, griffe.Alias) else found


def reference() -> str:
    package = griffe.load("conceptwatch", search_paths=[PACKAGE])
    text = HEAD + "\n## conceptwatch\n"
    for name in sorted(map(str, package.exports), key=str.lower):
        found = target(package[name])
        if found.docstring is not None:
            text += entry(found, name, 3)
    for module in (package[name] for name in MODULES):
        text += f"\n## conceptwatch.{module.name}\n\n{text_of(module)}"
        shown = [member for member in module.members.values() if not member.is_alias and is_shown(member)]
        text += "".join(entry(member, member.name, 3) for member in shown)
    return text


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
