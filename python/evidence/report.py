"""Writes the report on the runs of `train.py`, judged by the alert engine.

python report.py target/release/examples/judge docs/evidence/runs.jsonl docs/evidence.md
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

import kinds_report
import numpy as np
from grid import APART_SEEDS, DATA, SEEDS, name
from verdicts import (
    DROPS,
    LEAKAGE,
    Run,
    beyond,
    drops,
    earliest,
    early_stopping,
    first,
    group,
    interval,
    last,
    leaks,
    outcomes,
)  # fmt: skip

RULES = Path(__file__).parent / "rules"
SHARE, FALSE = 0.95, 0.02
# The first evaluation from which on models are not expected to learn concepts quickly.
LEARNT = 5

Stops = Callable[[Run], "int | None"]


def judged(judge: str, runs: Path) -> dict[tuple[str, str, bool], tuple[int | None, str | None]]:
    """By run, set of rules and whether interventions are logged: the epoch of the advice, and the rule."""
    sets = [f"{file.stem}={file}" for file in sorted(RULES.glob("*.json"))]
    output = subprocess.run([judge, str(runs), *sets], check=True, capture_output=True, text=True).stdout
    found = {}
    for line in map(json.loads, output.splitlines()):
        epoch = None if line["epoch"] is None else int(line["epoch"])
        found[name(line), line["rules"], line["interventions"]] = (epoch, line["rule"])
    return found


def table(head: list[str], rows: Iterable[Iterable[Any]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


def share(found: int, of: int) -> str:
    if of == 0:
        return "none"
    low, high = interval(found, of)
    return f"{found}/{of} ({100 * low:.1f} to {100 * high:.1f} %)"


def epoch(epochs: list[int]) -> str:
    return f"{median(epochs):g}" if epochs else "none"


def without(leak: tuple[float, float, int]) -> Stops:
    """The rules that need no interventions, with these limits."""
    return lambda run: earliest([leaks(leak)(run), beyond(run)])


def duration(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def cost(runs: list[Run]) -> str:
    """The time of all runs. Runs that were trained side by side share the time that passed."""
    known = [run["cost"] for run in runs if "cost" in run]
    if not known:
        return "What the runs took was not noted."
    elapsed = sum(one["seconds"] / one["processes"] for one in known)
    processor = sum(one["cpu_seconds"] for one in known)
    of = "All" if len(known) == len(runs) else f"{len(known):,} of the"
    cores = " or ".join(str(count) for count in sorted({one["cores"] for one in known}))
    text = f"{of} {len(runs):,} runs took {duration(elapsed)} on {cores} cores, training and scoring together: "
    return f"{text}{duration(processor)} of CPU time."


class Report:
    def __init__(self, judge: str, path: Path) -> None:
        self.runs: list[Run] = [json.loads(line) for line in path.read_text().splitlines()]
        self.outcome = dict(zip(map(name, self.runs), outcomes(self.runs), strict=True))
        self.advice = judged(judge, path)
        self.main = [run for run in self.runs if run["data"] in DATA and run["training"] == "joint"]
        self.apart = [run for run in self.runs if run not in self.main]

    def having(self, runs: list[Run], outcome: str) -> list[Run]:
        return [run for run in runs if self.outcome[name(run)] == outcome]

    def by(self, rules: str, interventions: bool) -> Stops:
        return lambda run: self.advice[name(run), rules, interventions][0]

    def row(self, title: str, runs: list[Run], stops: Stops) -> list[str]:
        """Stopped among collapsing and among sound runs, and the median epoch among the former."""
        cells = [title]
        epochs = []
        for outcome in ("collapsing", "sound"):
            of = self.having(runs, outcome)
            stopped = [at for run in of if (at := stops(run)) is not None]
            cells.append(share(len(stopped), len(of)))
            epochs = epochs or stopped
        return [*cells, epoch(epochs)]

    def groups(self, runs: list[Run]) -> dict[str, list[Run]]:
        found: dict[str, list[Run]] = {}
        for run in runs:
            found.setdefault(group(run), []).append(run)
        return found

    def ends(self) -> str:
        """Quantiles of the scores after the last epoch."""
        scores = (
            "intervention_drop",
            "ctl_conditional",
            "concept_auc",
            "concept_accuracy",
            "ctl_excess",
            "icl_conditional",
            "task_excess",
        )
        rows = []
        for score in scores:
            cells = []
            for outcome in ("collapsing", "sound"):
                values = [last(run, score) for run in self.having(self.main, outcome)]
                cells.append(", ".join(f"{value:.2f}" for value in np.nanquantile(values, [0, 0.05, 0.5, 0.95, 1])))
            rows.append([f"`{score}`", *cells])
        return table(["after the last epoch: min, 5 %, median, 95 %, max", "collapsing", "sound"], rows)

    def stretches(self) -> str:
        """For how many evaluations in a row the conditions hold in sound and in collapsing runs."""
        rules = {
            "`intervention_drop` > 0.25": (lambda p: p["intervention_drop"] > 0.25, 4),
            "`ctl_conditional` > 0.12 and `concept_auc` < 0.85": (
                lambda p: p["ctl_conditional"] > 0.12 and p["concept_auc"] < 0.85, 4),
            "`task_excess` > 0.1": (lambda p: p["task_excess"] > 0.1, 3),
        }  # fmt: skip

        def longest(run: Run, holds: Callable[[dict[str, float]], bool]) -> int:
            return max((n for n in range(1, 30) if first(run, holds, n) is not None), default=0)

        rows = []
        for title, (holds, needed) in rules.items():
            cells = []
            for outcome in ("sound", "collapsing"):
                lengths = [longest(run, holds) for run in self.having(self.main, outcome)]
                cells.append(", ".join(f"{length:g}" for length in np.quantile(lengths, [0.05, 0.5, 0.95, 1])))
            rows.append([title, needed, *cells])
        return table(["condition", "evaluations needed", "sound: 5 %, median, 95 %, max", "collapsing"], rows)

    def diagnosis(self, reproduced: Path) -> str:
        """How many values are above the limits that only the diagnosis uses.

        reproduced: results of `make reproduce`, which has the one of these scores that takes too long for these runs.
        """

        def cells(score: str, limit: float, of: dict[str, list[float]], what: str) -> list[str]:
            shares = [
                f"{sum(value > limit for value in of[outcome])}/{len(of[outcome])}; "
                f"{min(of[outcome]):.2f} to {max(of[outcome]):.2f}"
                for outcome in outcomes_
            ]
            return [f"`{score}` > {limit:g}", what, *shares]

        outcomes_ = ("collapsing", "sound")
        late = {
            outcome: [
                drop
                for run in self.having(self.main, outcome)
                for drop in run["scores"]["intervention_drop"][LEARNT:]
                if drop is not None
            ]
            for outcome in outcomes_
        }
        ends = {
            outcome: [
                value
                for run in self.having(self.main, outcome)
                if not math.isnan(value := last(run, "icl_conditional"))
            ]
            for outcome in outcomes_
        }
        results = [json.loads(line) for line in reproduced.read_text().splitlines()]
        kinds = {"collapsing": lambda drop: drop > 0.3, "sound": lambda drop: drop < 0.02}
        joint = {
            outcome: [
                result["scores"]["joint_leakage"]
                for result in results
                if result["data"] == "digits-10-incomplete"
                and "joint_leakage" in result["scores"]
                and kinds[outcome](result["scores"].get("intervention_drop", math.nan))
            ]
            for outcome in outcomes_
        }
        rows = [
            cells("intervention_drop", 0.05, late, f"evaluations after epoch {LEARNT - 1}"),
            cells("icl_conditional", 0.16, ends, "runs, after the last epoch"),
            cells("joint_leakage", 0.13, joint, "models of [reproduce.md](reproduce.md), incomplete digits"),
        ]
        return table(["condition", "of", "collapsing; least to most", "sound; least to most"], rows)

    def results(self, runs: list[Run]) -> str:
        """Stopped runs of each data set, where interventions are logged and where they are not."""
        groups = [*self.groups(runs).items(), ("**all**", runs)]
        rows = []
        for title, of in groups:
            cells = [self.row(title, of, self.by("default", logged)) for logged in (True, False)]
            counts = [cell if title == "**all**" else cell.split(" (")[0] for cell in cells[0][1:3] + cells[1][1:3]]
            rows.append([title, *counts, f"{cells[0][3]}, {cells[1][3]}", len(self.having(of, "between"))])
        head = ["data", "logged: collapsing", "sound", "not logged: collapsing", "sound", "median epochs", "between"]
        return table(head, rows)

    def reasons(self) -> str:
        """The rules that first advise to stop, with interventions and without."""
        runs = self.having(self.main, "collapsing")
        logged, not_logged = (
            Counter(self.advice[name(run), "default", arm][1] for run in runs) for arm in (True, False)
        )
        rows = [[rule or "none: not stopped", logged[rule], not_logged[rule]] for rule in {**logged, **not_logged}]
        rows.sort(key=lambda row: -row[1])
        return table(["first advice to stop by", "logged", "not logged"], rows)

    def beside(self) -> str:
        """The default rules and others, on the runs that limits were chosen on and on those held out."""

        def low(score: str, limit: float) -> Stops:
            return lambda run: first(run, lambda p: p[score] < limit, 4)

        rules: dict[str, Stops] = {
            "default rules, interventions logged": self.by("default", True),
            "default rules, not logged": self.by("default", False),
            "`ctl_conditional` above 0.12 and `concept_auc` below 0.85 alone": leaks((0.12, 0.85, 4)),
            "CTL, ICL and rises of ICL alone": self.by("published", False),
            "`concept_auc` below 0.85, 4 evaluations": low("concept_auc", 0.85),
            "`concept_accuracy` below 0.9, 4 evaluations": self.by("accuracy", False),
            "`concept_accuracy` below 0.8, 4 evaluations": low("concept_accuracy", 0.8),
            "Lightning EarlyStopping on the validation loss, patience 3": early_stopping,
        }
        rows = []
        for title, stops in rules.items():
            cells = [cell for of in (self.main, self.apart) for cell in self.row(title, of, stops)[1:3]]
            rows.append([title, *(cell.split(" (")[0] for cell in cells)])
        return table(["stops by", "stopped of collapsing", "of sound", "held out: collapsing", "sound"], rows)

    def chosen(self, runs: list[Run], family: list[Any], rule: Callable[[Any], Stops]) -> Any:
        """Limits that stop most collapsing runs with at most 2 % of sound ones; of equals, those in the middle."""
        collapsing, sound = self.having(runs, "collapsing"), self.having(runs, "sound")

        def stopped(of: list[Run], stops: Stops) -> int:
            return sum(stops(run) is not None for run in of)

        counts = [(limits, stopped(collapsing, rule(limits)), stopped(sound, rule(limits))) for limits in family]
        allowed = [(limits, found) for limits, found, false in counts if false <= FALSE * len(sound)]
        most = max(found for _, found in allowed)
        near = [limits for limits, found in allowed if found >= most - 0.01 * len(collapsing)]
        middle = np.mean(near, axis=0)
        spread = np.ptp(np.array(family, dtype=float), axis=0)
        return min(near, key=lambda limits: float((((np.array(limits) - middle) / spread) ** 2).sum()))

    def left_out(self) -> str:
        """Each data set judged by limits that were chosen on the others."""
        found: dict[tuple[bool, str], list[bool]] = {}
        limits: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        for data, held in self.groups(self.main).items():
            others = [run for run in self.main if run["data"] != data]
            leak, drop = self.chosen(others, LEAKAGE, leaks), self.chosen(others, DROPS, drops)
            limits[False]["{:g}, {:g}, {}".format(*leak)] += 1
            limits[True]["{:g}, {}".format(*drop)] += 1
            for logged, stops in ((True, drops(drop)), (False, without(leak))):
                for outcome in ("collapsing", "sound"):
                    stopped = [stops(run) is not None for run in self.having(held, outcome)]
                    found.setdefault((logged, outcome), []).extend(stopped)
        rows = []
        for logged in (True, False):
            cells = [share(sum(of), len(of)) for of in (found[logged, "collapsing"], found[logged, "sound"])]
            chosen = "; ".join(f"{limit} ({count} times)" for limit, count in limits[logged].most_common())
            rows.append(["logged" if logged else "not logged", *cells, chosen])
        return table(["interventions", "stopped of collapsing", "stopped of sound", "limits"], rows)

    def failures(self) -> str:
        """How many runs of a setting are judged wrongly."""
        found: Counter[tuple[str, ...]] = Counter()
        for interventions in (True, False):
            for run in self.runs:
                outcome = self.outcome[name(run)]
                at, rule = self.advice[name(run), "default", interventions]
                logged = "logged" if interventions else "not logged"
                if outcome == "collapsing" and at is None:
                    what = "collapsing, not stopped"
                elif outcome == "sound" and at is not None:
                    what = f"sound, stopped: {rule}"
                else:
                    continue
                found[what, logged, group(run), run["encoding"], f"{run['weight']:g}"] += 1
        head = ["wrong", "interventions", "data", "encoding", "λ", "runs"]
        return table(head, [[*setting, count] for setting, count in found.items()]) if found else "None.\n"

    def harmless(self) -> str:
        """Runs that end with high conditional leakage and no drop."""
        held = [
            run for run in self.main if last(run, "ctl_conditional") > 0.16 and last(run, "intervention_drop") < 0.05
        ]
        counts = Counter(f"{group(run)} {run['encoding']}" for run in held)
        kinds = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
        advised = [sum(self.by("default", logged)(run) is not None for run in held) for logged in (True, False)]
        return (
            f"{len(held)} of the {len(self.main)} runs above:\n{kinds}.\n"
            f"The default rules advise to stop {advised[0]} of them with interventions logged and {advised[1]} without."
        )


def text(report: Report, reproduced: Path, kinds_file: Path) -> str:
    """The page: `page.md` with the tables."""
    kinds = kinds_report.Kinds(kinds_file)
    return (
        (Path(__file__).parent / "page.md")
        .read_text()
        .format(
            runs=len(report.runs),
            seeds=SEEDS,
            apart_seeds=APART_SEEDS,
            cost=cost(report.runs),
            ends=report.ends(),
            stretches=report.stretches(),
            diagnosis=report.diagnosis(reproduced),
            results=report.results(report.main),
            reasons=report.reasons(),
            beside=report.beside(),
            left_out=report.left_out(),
            apart_results=report.results(report.apart),
            harmless=report.harmless(),
            failures=report.failures(),
            seeds_of_kinds=kinds.seeds(),
            kinds=kinds_report.text(kinds),
        )
    )


if __name__ == "__main__":
    page = Path(sys.argv[3])
    recorded = Path(sys.argv[2])
    reproduced = page.parent / "reproduce" / "results.jsonl"
    page.write_text(text(Report(sys.argv[1], recorded), reproduced, recorded.with_name("kinds.jsonl")))
