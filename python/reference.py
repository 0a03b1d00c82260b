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
# The names of a training loop; the others follow in the order of the alphabet.
FIRST = ("init", "Run", "Pass", "Head", "score", "mutual_information", "runs")
# Classes that the package makes, whose constructors nobody calls.
RETURNED = ("Diagnosis", "Estimates", "Matrix", "Pass", "Run", "Runs", "Scores", "StoredRun")
# What the package itself calls of a public class.
INTERNAL = ("of", "is_linear", "is_measured", "between", "units", "units_set")
MODULES = ("lightning", "keras", "transformers", "optuna", "adapters")
# Classes that share methods with another one, which shows them.
SHOWN_BY = {"Run": "StoredRun"}
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
    """How it is called: without annotations, which the text explains, but for what comes back."""
    if isinstance(found, griffe.Attribute):
        return name + (f": {found.annotation}" if found.annotation else "")
    made = found.all_members.get("__init__") if isinstance(found, griffe.Class) else found
    if not isinstance(made, griffe.Function):
        return name
    arguments: list[str] = []
    for parameter in made.parameters:
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is griffe.ParameterKind.keyword_only and not any(one.startswith("*") for one in arguments):
            arguments.append("*")
        star = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(
            parameter.kind, ""
        )
        default = f"={parameter.default}" if parameter.default is not None and not star else ""
        arguments.append(f"{star}{parameter.name}{default}")
    tells = isinstance(found, griffe.Function) and str(found.returns) not in ("Any", "None")
    returned = f" -> {found.returns}" if tells else ""
    return f"{name}({', '.join(arguments)}){returned}"


def is_shown(found: griffe.Object) -> bool:
    return (
        not found.name.startswith("_")
        and found.name not in INTERNAL
        and not found.is_imported
        and found.docstring is not None
    )


def entry(found: griffe.Object, name: str, level: int) -> str:
    if isinstance(found, griffe.Attribute):
        return f"\n`{signature(found, name)}`: {text_of(found)}"
    text = f"\n{'#' * level} {name}\n\n"
    if name not in RETURNED:
        text += f"`{signature(found, name)}`\n\n"
    text += text_of(found)
    if isinstance(found, griffe.Class):
        members = [member for member in found.members.values() if not member.is_alias and is_shown(member)]
        inherited = [member for member in map(target, found.inherited_members.values()) if is_shown(member)]
        shows = SHOWN_BY.get(name)
        members += [] if shows else inherited
        # Attributes have no heading, so they come before the methods.
        members.sort(key=lambda member: not isinstance(member, griffe.Attribute))
        if shows:
            calls = ", ".join(f"`{member.name}`" for member in inherited)
            text += f"\nAs [`{shows}`](#{shows.lower()}) has them: {calls}.\n"
        text += "".join(entry(member, f"{name}.{member.name}", level + 1) for member in members)
    return text


def place(name: str) -> tuple[int, str]:
    return (FIRST.index(name) if name in FIRST else len(FIRST), name.lower())


def target(found: griffe.Object | griffe.Alias) -> griffe.Object:
    return found.final_target if isinstance(found, griffe.Alias) else found


def reference() -> str:
    package = griffe.load("conceptwatch", search_paths=[PACKAGE])
    text = HEAD + "\n## conceptwatch\n"
    for name in sorted(map(str, package.exports), key=place):
        found = target(package[name])
        if found.docstring is not None:
            text += entry(found, name, 3)
    for module in (package[name] for name in MODULES):
        about = text_of(module)
        # The examples of callbacks are those of docs/integrations.md.
        about = about if module.name == "adapters" else about.partition("\n\n")[0] + "\n"
        text += f"\n## conceptwatch.{module.name}\n\n{about}"
        shown = [member for member in module.members.values() if not member.is_alias and is_shown(member)]
        text += "".join(entry(member, member.name, 3) for member in shown)
    return text


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
