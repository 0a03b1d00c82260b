"""Results of parts as JSON lines, and the table made of them."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Figures = dict[str, Any]
Line = dict[str, Any]


@dataclass
class Outcome:
    """What a part has shown."""

    figures: Figures
    # What is missing for the row to be reached, in words; nothing if it is.
    faults: list[str] = field(default_factory=list)
    # Times that were missed: they depend on the machine's load too, so they fail no slice.
    late: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Setting:
    """Under what the parts run."""

    binary: Path
    folder: Path  # of this torture, for data directories and logs
    seed: int
    is_slice: bool

    def seed_of(self, part: str) -> int:
        """A seed of the part's own, so that parts do not depend on each other."""
        return int.from_bytes(hashlib.sha256(f"{self.seed} {part}".encode()).digest()[:4], "little")

    def size(self, full: int, of_slice: int) -> int:
        return of_slice if self.is_slice else full


@dataclass(frozen=True)
class Part:
    name: str
    run: Callable[[Setting], Outcome]


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    name: str
    test: str  # what is done, in the table's words
    parts: Callable[[Setting], list[Part]]
    # The measured figures of all parts, in words.
    measured: Callable[[list[Figures]], str]


class Results:
    def __init__(self, file: Path, setting: Setting) -> None:
        self._file, self._setting = file, setting
        self._size = "slice" if setting.is_slice else "full"
        self._binary = hashlib.sha256(setting.binary.read_bytes()).hexdigest()
        file.parent.mkdir(parents=True, exist_ok=True)
        self.lines: list[Line] = read(file)

    def known(self, row: Row, part: Part) -> Line | None:
        """The result of the part with this binary, seed and size, if it was reached."""
        wanted = (row.name, part.name, self._size, self._setting.seed, self._binary)
        for line in reversed(self.lines):
            if (line["row"], line["part"], line["size"], line["seed"], line["binary"]) == wanted:
                return None if line["faults"] or line["late"] else line
        return None

    def add(self, row: Row, part: Part, outcome: Outcome, began: float, load: float) -> Line:
        """load: the machine's, before the part began."""
        line = {
            "row": row.name,
            "part": part.name,
            "size": self._size,
            "seed": self._setting.seed,
            "binary": self._binary,
            "figures": outcome.figures,
            "faults": outcome.faults,
            "late": outcome.late,
            "seconds": round(time.time() - began, 1),
            "began": round(began),
            "load": round(load, 1),
            "cores": os.cpu_count(),
            "machine": platform.machine(),
        }
        self.lines.append(line)
        with self._file.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return line


def read(file: Path) -> list[Line]:
    """A line that was cut off is left out."""
    if not file.exists():
        return []
    text = file.read_text()
    lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
    if len("".join(lines)) < len(text):
        file.write_text("".join(lines))
    return [json.loads(line) for line in lines]


def table(rows: list[tuple[Row, list[Line], int]]) -> str:
    """By row, the lines of its parts and how many parts it has. A row that does not hold says so before its figures."""
    lines = ["| what was done | measured |", "|---|---|"]
    for row, found, parts in rows:
        faults = [fault for line in found for fault in [*line["faults"], *line["late"]]]
        figures = [line["figures"] for line in found if line["figures"]]
        texts = []
        if faults:
            texts.append(f"**not reached**: {'; '.join(faults)}")
        if len(found) < parts:
            texts.append(f"{len(found)} of {parts} parts run" if found else "not run")
        if figures:
            texts.append(row.measured(figures))
        lines.append(f"| {row.test} | {'; '.join(texts)} |")
    return "\n".join(lines) + "\n"
