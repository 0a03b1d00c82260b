"""Files of JSON lines that a program resumes after an interruption."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any


def known(file: Path) -> list[dict[str, Any]]:
    """The lines of a file, which it then has alone: one that was cut off is made again."""
    if not file.exists():
        return []
    lines = [json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return lines


def say_progress(done: int, of: int, began: float) -> None:
    """began: of the monotonic clock, when none was done."""
    took = time.monotonic() - began
    print(f"\r{done}/{of} models, {took:.0f} s, {took / done * (of - done):.0f} s to go ", end="", flush=True)
