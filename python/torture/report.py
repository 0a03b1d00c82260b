"""Writes the newest result of each part into the table of docs/reliability.md.

    python -m torture.report target/torture docs/reliability.md

Parts of the full torture come before those of a slice, and newer ones before older ones, whatever binary they ran with.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from .results import Line, Setting, read, table
from .table import APART, ROWS

# A load average above this, before a part began, is the work of others.
IDLE = 1.0
BEGIN, END = "<!-- torture: begin -->\n", "<!-- torture: end -->\n"


def newest(lines: list[Line]) -> dict[tuple[str, str, str], Line]:
    return {(line["row"], line["size"], line["part"]): line for line in lines}


def written(lines: list[Line]) -> str:
    shown, used, slices = [], [], []
    by_part = newest(lines)
    for row in ROWS:
        found: list[Line] = []
        parts = 0
        for size in ("full", "slice"):
            names = [part.name for part in row.parts(Setting(Path(), Path(), 0, size == "slice"))]
            if row.name in APART:  # of any length
                names = [part for name, its_size, part in by_part if (name, its_size) == (row.name, size)][-1:]
            if size == "full":
                parts = len(names)
            found = [by_part[row.name, size, name] for name in names if (row.name, size, name) in by_part]
            if found and size == "slice":
                slices.append(row.test)
                parts = len(names)
            if found:
                break
        used += found
        shown.append((row, found, parts))
    if not used:
        return "No results yet.\n"
    days = sorted({time.strftime("%Y-%m-%d", time.gmtime(line["began"])) for line in used})
    shared = ", shared machine" if max(line["load"] for line in used) > IDLE else ""
    text = table(shown)
    text += f"\n{' and '.join(days)}, {used[0]['cores']} cores, {used[0]['machine']}{shared}.\n"
    if slices:
        text += "\nOnly the slice of CI so far: " + "; ".join(slices) + ".\n"
    return text


def main() -> None:
    folder, page = Path(sys.argv[1]), Path(sys.argv[2])
    text = page.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    page.write_text(before + BEGIN + "\n" + written(read(folder / "results.jsonl")) + "\n" + END + after)


if __name__ == "__main__":
    main()
