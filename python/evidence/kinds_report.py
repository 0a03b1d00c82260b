"""A table of the judgements on the runs of `kinds.py`, in Markdown, and a list of those that are wrong.

python python/evidence/kinds_report.py docs/evidence/kinds.jsonl
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from verdicts import BEHIND, COLLAPSED, HARMLESS

Line = dict[str, Any]

HONEST = ("sequential", "independent")
# The first epoch of a late leak, and the drop before which it should be found.
LATE, SOON = 31, 0.2


def outcomes(lines: list[Line]) -> list[str]:
    """`honest`, `collapsing`, `sound` or `between`, as in verdicts.py.

    Drops are those of right labels. Concepts are compared with the best of the same data, by their accuracy or R².
    """
    best: dict[tuple[str, int], float] = {}
    for line in lines:
        best[_set(line)] = max(best.get(_set(line), 0.0), line["concepts"])

    def outcome(line: Line) -> str:
        if line["training"] in HONEST:
            return "honest"
        if line["clean_drop"] > COLLAPSED:
            return "collapsing"
        learnt = line["concepts"] >= best[_set(line)] - BEHIND
        return "sound" if line["clean_drop"] < HARMLESS and learnt else "between"

    return [outcome(line) for line in lines]


def _set(line: Line) -> tuple[str, int]:
    return line["data"], line["hidden"]


def reached(line: Line) -> int | None:
    """The first epoch from the change of a late leak on with a drop of at least `SOON`."""
    return next((epoch for epoch, drop in enumerate(line["drops"], 1) if epoch >= LATE and drop >= SOON), None)


def is_early(line: Line) -> bool:
    """Whether advice came before the leak."""
    return line["advised"] is not None and line["advised"] < LATE


def is_in_time(line: Line) -> bool:
    """Whether a late leak was found before the drop reaches `SOON`, or at all where it never does."""
    at, advised = reached(line), line["advised"]
    return advised is not None and advised >= LATE and (at is None or advised < at)


def _count(lines: Iterable[Line], holds: Callable[[Line], bool]) -> str:
    found = [holds(line) for line in lines]
    return f"{sum(found)}/{len(found)}" if found else "none"


class Kinds:
    def __init__(self, path: Path) -> None:
        self.lines: list[Line] = [json.loads(text) for text in path.read_text().splitlines()]
        self.outcome = dict(zip(map(id, self.lines), outcomes(self.lines), strict=True))

    def having(self, lines: list[Line], *outcomes: str) -> list[Line]:
        return [line for line in lines if self.outcome[id(line)] in outcomes]

    def seeds(self) -> str:
        """How many seeds there are of the settings: what most kinds have, and those that have others."""
        seeds: dict[str, set[int]] = {}
        for line in self.lines:
            seeds.setdefault(line["kind"].split(",")[0], set()).add(line["seed"])
        counts = {kind: len(found) for kind, found in seeds.items()}
        usual, *others = [count for count, _ in Counter(counts.values()).most_common()]
        named = [f"{count} of {', '.join(f'*{kind}*' for kind, n in counts.items() if n == count)}" for count in others]
        return textwrap.fill("; ".join([f"Seeds of each setting: {usual}", *named]) + ".", 130)

    def table(self) -> str:
        lines = [line for line in self.lines if line["schedule"] != "late"]
        collapsing, harmless = self.having(lines, "collapsing"), self.having(lines, "sound", "honest")
        rows = []
        for interventions in (True, False):
            ill, well = ([one for one in of if one["interventions"] == interventions] for of in (collapsing, harmless))
            rows.append([
                "logged" if interventions else "not logged",
                _count(ill, lambda line: line["advised"] is not None),
                _count(ill, lambda line: line["verdict"] == "sound"),
                _count(well, lambda line: line["advised"] is not None),
                _count(well, lambda line: line["verdict"] == "leaking"),
                _count(self.having(well, "sound"), lambda line: line["verdict"] == "sound"),
            ])  # fmt: skip
        head = ["interventions", "collapsing: advised to stop", "called sound", "sound or honest: advised to stop",
                "called leaking", "sound: called sound"]  # fmt: skip
        return _table(head, rows)

    def not_called_sound(self) -> str:
        """The sound runs with interventions that do not read `sound`, by kind."""
        lines = [
            line for line in self.having(self.lines, "sound") if line["interventions"] and line["schedule"] != "late"
        ]
        others = Counter(
            (line["kind"], line["verdict"].replace("_", " ")) for line in lines if line["verdict"] != "sound"
        )
        named = [f"{count} *{kind}* ({verdict})" for (kind, verdict), count in others.items()]
        return textwrap.fill(f"Not called sound with interventions: {'; '.join(named) or 'none'}.", 130) + "\n"

    def by_kind(self) -> str:
        """Each kind of runs without late leaks; runs with interventions and without are counted together."""
        rows = []
        lines = [line for line in self.lines if line["schedule"] != "late"]
        for kind in dict.fromkeys(line["kind"] for line in lines):
            of = [line for line in lines if line["kind"] == kind]
            ill, well = self.having(of, "collapsing"), self.having(of, "sound", "honest")
            rows.append([
                kind, str(len(of)),
                _count(ill, lambda line: line["advised"] is not None),
                _count(ill, lambda line: line["verdict"] == "leaking"),
                _count(well, lambda line: line["advised"] is not None),
                _count(well, lambda line: line["verdict"] == "leaking"),
            ])  # fmt: skip
        head = ["kind", "runs", "collapsing: advised to stop", "called leaking", "sound or honest: advised to stop",
                "called leaking"]  # fmt: skip
        return _table(head, rows)

    def late(self) -> str:
        rows = []
        late = [line for line in self.lines if line["schedule"] == "late"]
        for hidden in sorted({line["hidden"] > 0 for line in late}, reverse=True):
            for interventions in (True, False):
                of = [one for one in late if (one["hidden"] > 0, one["interventions"]) == (hidden, interventions)]
                reaching = [line for line in of if reached(line) is not None]
                rows.append([
                    "incomplete" if hidden else "complete", "logged" if interventions else "not logged",
                    str(len(of)), str(len(reaching)),
                    _count(reaching, is_in_time),
                    _count(reaching, lambda line: line["advised"] is not None and not is_early(line)),
                    _count(of, is_early),
                ])  # fmt: skip
        head = [
            "late leak, concept set", "interventions", "runs", f"reach a drop of {SOON:g}", "advised before",
            "advised", f"advised before epoch {LATE}",
        ]  # fmt: skip
        return _table(head, rows) if rows else ""

    def wrong(self) -> list[tuple[str, Line]]:
        """Each wrong judgement, with its run."""
        found = []
        for line in self.lines:
            outcome, advised = self.outcome[id(line)], line["advised"] is not None
            if line["schedule"] == "late":
                if is_early(line):
                    found.append(("advised before the leak", line))
                elif reached(line) is not None and not is_in_time(line):
                    found.append(("late leak found late" if advised else "late leak missed", line))
            elif outcome == "collapsing" and not advised:
                found.append(("collapsing, not advised to stop", line))
            if outcome == "collapsing" and line["verdict"] == "sound":
                found.append(("collapsing, called sound", line))
            if outcome in ("sound", "honest"):
                if advised and line["schedule"] != "late":
                    found.append((f"{outcome}, advised to stop", line))
                if line["verdict"] == "leaking":
                    found.append((f"{outcome}, called leaking", line))
        return found


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in [head, *rows]]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]]) + "\n"


def text(kinds: Kinds) -> str:
    rows = []
    for what, line in kinds.wrong():
        arm = "logged" if line["interventions"] else "not logged"
        of = f"{line['kind']}, {line['data']}" if line["kind"] != line["data"] else line["kind"]
        advice = f"epoch {line['advised']}: {line['rule']}" if line["advised"] else "none"
        verdict = line["verdict_text"].split("\n")[0].split(": ")[0]
        of += f", λ = {line['weight']:g}, seed {line['seed']}"
        rows.append([what, of, arm, f"{line['clean_drop']:.2f}", advice, verdict])
    head = ["wrong", "run", "interventions", "drop", "advice", "verdict at the end"]
    wrong = _table(head, rows) if rows else "None.\n"
    return f"{kinds.table()}\n{kinds.not_called_sound()}\n{kinds.by_kind()}\n{kinds.late()}\n{wrong}"


if __name__ == "__main__":
    print(text(Kinds(Path(sys.argv[1]))), end="")
