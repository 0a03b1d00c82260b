"""Runs the rows, those that have a result with this binary excepted, and prints the table."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from pathlib import Path

from .results import Results, Setting, table
from .table import APART, ROWS


def main() -> int:
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("folder", type=Path, help="for results.jsonl, data directories and logs")
    parser.add_argument("--slice", action="store_true", help="a small part of each row, some minutes in all")
    parser.add_argument("--rows", default="", help=f"only these, by comma: {', '.join(row.name for row in ROWS)}")
    parser.add_argument("--parts", default="", help="only parts of these names, by comma")
    parser.add_argument("--again", action="store_true", help="also parts that have a result")
    options = parser.parse_args()
    binary = Path(os.environ.get("CONCEPTWATCH_BINARY", "target/release/conceptwatch")).resolve()
    seed = int(os.environ.get("TORTURE_SEED", "0"))
    setting = Setting(binary, options.folder.resolve(), seed, options.slice)
    named = set(filter(None, options.rows.split(",")))
    wanted = [row for row in ROWS if row.name in named or (not named and row.name not in APART)]
    unknown = named - {row.name for row in ROWS}
    if unknown:
        parser.error(f"--rows: got {', '.join(sorted(unknown))}, expected some of {', '.join(r.name for r in ROWS)}")
    results = Results(options.folder / "results.jsonl", setting)
    shown = []
    for row in wanted:
        found, parts = [], row.parts(setting)
        if not parts:
            continue
        for part in parts:
            if options.parts and part.name not in options.parts.split(","):
                continue
            line = None if options.again else results.known(row, part)
            if line is None:
                print(f"{row.name}, {part.name} ...", file=sys.stderr, end=" ", flush=True)
                began, load = time.time(), os.getloadavg()[0]
                try:
                    outcome = part.run(setting)
                except Exception as error:  # the other rows go on
                    traceback.print_exc()
                    outcome = None
                    failure = f"{part.name}: {type(error).__name__}: {error}"
                if outcome is None:
                    line = {"figures": {}, "faults": [failure], "late": []}
                else:
                    line = results.add(row, part, outcome, began, load)
                missed = [*line["faults"], *line["late"]]
                verdict = "NOT REACHED: " + "; ".join(missed) if missed else "reached"
                print(f"{verdict} ({time.time() - began:.0f} s)", file=sys.stderr, flush=True)
            found.append(line)
        shown.append((row, found, len(parts)))
    print(table(shown), end="")
    lines = [line for _, found, _ in shown for line in found]
    return int(any(line["faults"] or (line["late"] and not setting.is_slice) for line in lines))


if __name__ == "__main__":
    sys.exit(main())
