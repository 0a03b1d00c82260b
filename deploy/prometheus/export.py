"""Writes the curves of a sidecar as OpenMetrics, every evaluation at its own time.

python deploy/prometheus/export.py http://127.0.0.1:7801 --run NAME > curves.om
promtool tsdb create-blocks-from openmetrics curves.om FOLDER

A scrape sees the newest evaluation alone: those between two scrapes are not in Prometheus. What is written here has the
names and labels of /metrics, without `job` and `instance`, so that the same dashboard shows it. Of rules and of the
sidecar itself nothing is written: they are no part of the curves. Needs Python 3.10 or newer and nothing else.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

PREFIX = "conceptwatch_"
# Families of each curve, and the point's field that is their value.
OF_CURVE = {
    "step": "step",
    "epoch": "epoch",
    "sample_rows": "rows",
    "repeated_rows": "repeated_rows",
    "tie_fraction": "tie_fraction",
    "evaluation_timestamp_seconds": "time",
}
# Family, labels, milliseconds since 1970-01-01 UTC, value.
Sample = tuple[str, dict[str, str], int, float]


class Api:
    """A sidecar's JSON API at `url`, such as http://127.0.0.1:7801."""

    def __init__(self, url: str, token: str | None) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"got '{url}', expected http://HOST:PORT")
        self.url = url.rstrip("/")
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ask(self, path: str, **query: object) -> Any:
        address = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(address, headers=self.headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return json.load(answer)

    def points(self, run: str, split: str) -> Iterator[dict[str, Any]]:
        """The points of a curve with all their scores, by time."""
        scores = [score["id"] for score in self.ask("catalogue")["scores"]]
        # No score is in every point.
        times: dict[int, float] = {}
        for score in scores:
            series = self.ask("series", run=run, split=split, score=score)["points"]
            times.update((point["step"], point["time"]) for point in series)
        for step in sorted(times, key=lambda step: (times[step], step)):
            yield self.ask("point", run=run, split=split, step=step)


def samples(point: dict[str, Any], concepts: list[str], at: int) -> Iterator[Sample]:
    """Those that /metrics has while this point is the newest."""
    curve = {"run": point["run"], "split": point["split"]}
    yield "provisional", curve, at, 0.0
    for family, field in OF_CURVE.items():
        if point[field] is not None:
            yield family, curve, at, point[field]
    for score, outcome in point["scores"].items():
        # Of a rolling window whose pairs are all new, /metrics has a 0 here; that of a pass has nothing.
        if outcome.get("age") is not None:
            yield "pair_age_seconds", {**curve, "score": score}, at, outcome["age"]
        if left_out := outcome.get("left_out"):
            yield "score_concepts_left_out", {**curve, "score": score}, at, len(left_out["concepts"])
            if left_out.get("pairs"):
                yield "score_pairs_left_out", {**curve, "score": score}, at, left_out["pairs"]
        if "value" not in outcome:
            yield "score_undefined", {**curve, "score": score}, at, 1.0
            continue
        yield score, curve, at, outcome["value"]
        if outcome.get("standard_error") is not None:
            yield "standard_error", {**curve, "score": score}, at, outcome["standard_error"]
        for concept, value in zip(concepts, outcome.get("per_concept") or [], strict=False):
            if value is not None:
                yield f"per_concept_{score}", {**curve, "concept": concept}, at, value


def write(found: Iterator[Sample], to: TextIO) -> None:
    """As OpenMetrics wants it: family by family, the samples of a series one after the other and by time."""
    families: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for family, labels, at, value in found:
        if math.isfinite(value):
            # The sidecar takes no names with a quote, a backslash or a line's end.
            shown = ",".join(f'{name}="{text}"' for name, text in labels.items())
            families[family][shown].append(f"{PREFIX}{family}{{{shown}}} {value!r} {at // 1000}.{at % 1000:03d}\n")
    for family, series in sorted(families.items()):
        to.write(f"# TYPE {PREFIX}{family} gauge\n")
        for lines in series.values():
            to.writelines(lines)
    to.write("# EOF\n")


def everything(api: Api, wanted: list[str]) -> Iterator[Sample]:
    runs = {run["name"]: run for run in api.ask("runs")["runs"]}
    for name in wanted or runs:
        if name not in runs:
            raise ValueError(f"run '{name}' is not known there")
        for split in (one["split"] for one in runs[name]["splits"]):
            before = 0
            for point in api.points(name, split):
                # A window that was still filling is no part of the curve.
                if not point["provisional"]:
                    # One sample of a series has a millisecond for itself.
                    before = max(before + 1, round(1000 * point["time"]))
                    yield from samples(point, runs[name]["concepts"], before)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="of the sidecar's page, such as http://127.0.0.1:7801")
    parser.add_argument("--run", action="append", default=[], help="name of a run; may be given again; default: all")
    parser.add_argument("--token-file", type=Path, help="file with the sidecar's token, where it asks for one")
    told = parser.parse_args()
    try:
        api = Api(told.url, told.token_file.read_text().strip() if told.token_file else None)
        write(everything(api, told.run), sys.stdout)
    except urllib.error.HTTPError as error:
        return complain(f"{error.url} answered {error.code}: {error.read().decode(errors='replace')}")
    except (OSError, ValueError) as error:
        return complain(str(error))
    return 0


def complain(message: str) -> int:
    print(f"export: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
