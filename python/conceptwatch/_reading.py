"""Reading runs back: from the sidecars that run, and from the curves that others have left."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._home import curves_in, stated_page, user_home
from ._source import Api, Directory, ReadError, Source, Unknown, Unreachable, source_of
from ._summary import counted
from ._tables import framed, html_table

# The page of a sidecar at its usual port.
USUAL = "http://127.0.0.1:7801"
POINT = (
    "step", "epoch", "time", "value", "standard_error", "undefined", "rows", "provisional", "incomplete", "superseded",
)  # fmt: skip
ALERT = ("step", "since", "rule", "state", "severity", "split", "score", "value", "evidence", "advises_stop")
LEAKING = ("id", "local", "term", "task_label", "group")
SHARE = ("label", "rows", "share", "mean")
RUN = ("name", "title", "started", "finished", "splits", "points", "last_step", "labels", "source")
# Runs of one answer.
PAGE = 200


class Matrix:
    """A score of each pair of concepts: cell (i, j) is the value from concept i to concept j, NaN where it has none."""

    def __init__(self, score: str, answer: dict[str, Any]) -> None:
        self.score = score
        self.step: int = answer["step"]
        self.concepts: list[str] = answer["concepts"]
        self.values = _square(answer["matrix"])
        q = answer.get("matrix_q")
        self.q_values = None if q is None else _square(q)  # adjusted p-values, where the score is tested

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=True if copy is None else copy)

    def __repr__(self) -> str:
        return f"Matrix({self.score!r}, step={self.step}, {counted(len(self.concepts), 'concept')})"

    def pairs(self, frame: str | None = None) -> Any:
        """A row for each pair of concepts with a value, the highest first; see `StoredRun.series` for `frame`."""
        rows = [
            {"from": a, "to": b, "value": float(self.values[i, j])}
            for i, a in enumerate(self.concepts)
            for j, b in enumerate(self.concepts)
            if np.isfinite(self.values[i, j])
        ]
        return framed(sorted(rows, key=lambda row: -row["value"]), ("from", "to", "value"), frame)

    def _repr_html_(self) -> str:
        most = 40
        head = ["", *self.concepts[:most]]
        rows = [[name, *self.values[i, :most].tolist()] for i, name in enumerate(self.concepts[:most])]
        more = "" if len(self.concepts) <= most else f", the first {most} of {len(self.concepts)} concepts"
        return html_table(head, rows, f"{self.score}, step {self.step}{more}")


class Curves:
    """What is read of a run, by the sidecar that has it or from stored curves."""

    def _stored(self) -> StoredRun:
        raise NotImplementedError

    def _read(self, path: str, **query: Any) -> Any:
        stored = self._stored()
        return stored.source.ask(path, run=stored.name, **query)

    def series(self, score: str, split: str = "val", *, concept: str | None = None, frame: str | None = None) -> Any:
        """A curve: a row for each evaluation, with step, epoch, value, standard_error and more.

        Rows that the run left behind by returning to an earlier step, as from a checkpoint, are marked superseded.
        Times are UTC timestamps in frames, Unix seconds in records.

        concept: this concept's score instead of the mean.
        frame: "pandas", "polars" or "records", a list of dicts; by default the first of these that is installed.
        """
        points = self._read("/api/v1/series", split=split, score=score, concept=concept)["points"]
        return framed([{"superseded": False, **point} for point in points], POINT, frame)

    def matrix(self, score: str, split: str = "val", *, step: int | None = None) -> Matrix:
        """A score of each pair of concepts, of the newest evaluation that has it, or of a step."""
        return Matrix(score, self._read("/api/v1/matrix", split=split, score=score, step=step))

    def rows(
        self,
        score: str = "ctl_conditional",
        split: str = "val",
        *,
        task: str | None = None,
        concept: str | None = None,
        top: int = 50,
        frame: str | None = None,
    ) -> Any:
        """The rows of the newest evaluation that contribute most to a score, which the run's sidecar has in memory.

        Columns: id, the row's sample id, meaningless if none were logged; local, the mean of the terms of the rows
        around it, by which they are ordered; term, its own; task_label; group; and task, where tasks have names. For
        `frame` see `series`.

        score: "ctl_conditional".
        task: of several tasks by default the one with the highest score.
        concept: this concept's score instead of the mean.
        top: how many, at most 50.
        """
        asked = {"split": split, "score": score, "task": task, "concept": concept, "top": top}
        return _of_task(self._read("/api/v1/rows", **asked), "rows", LEAKING, frame)

    def shares(
        self,
        score: str = "ctl_conditional",
        split: str = "val",
        *,
        by: str = "class",
        task: str | None = None,
        concept: str | None = None,
        frame: str | None = None,
    ) -> Any:
        """How much each class of the task, or each of the `groups` of rows, contributes to a score, as a row for each.

        Columns: label, the number of the class or group; rows; share, which add up to the score; mean, that of the
        terms of these rows; and task, as of `rows`.

        by: "class" or "group".
        The other arguments are those of `rows`.
        """
        if by not in ("class", "group"):
            raise ValueError(f"by: got {by!r}, expected 'class' or 'group'")
        asked = {"split": split, "score": score, "task": task, "concept": concept, "top": 1}
        return _of_task(self._read("/api/v1/rows", **asked), f"by_{by}", SHARE, frame)

    def alerts(self, *, frame: str | None = None) -> Any:
        """When alerts began and ended, oldest first, with the reason; for `frame` see `series`.

        For a run that no sidecar has in memory, they follow the default rules, or those of CONCEPTWATCH_CONFIG.
        """
        stored = self._stored()
        changes = stored.source.ask("/api/v1/alerts")["changes"]
        return framed([change for change in changes if change["run"] == stored.name], ALERT, frame)

    def plot(self, *scores: str, split: str = "val", ax: Any = None) -> Any:
        """Draws curves with matplotlib, by default the main ones; returns the axes."""
        from ._plotting import of_run  # noqa: PLC0415 (matplotlib is optional)

        return of_run(self._stored(), scores, split, ax)


@dataclass(frozen=True, repr=False)
class StoredRun(Curves):
    """A run as it is stored, from `runs`: `conceptwatch.runs()["cub"].series("ctl_conditional")`."""

    name: str
    source: Source
    facts: dict[str, Any] = field(compare=False)

    @property
    def title(self) -> str:
        """The title set by `conceptwatch rename`, which the page and the commands show; the name if there is none."""
        return self.facts.get("title") or self.name

    @property
    def note(self) -> str:
        return self.facts.get("note") or ""

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.facts.get("labels", {}))

    @property
    def concepts(self) -> list[str]:
        return list(self.facts.get("concepts", ()))

    @property
    def splits(self) -> list[str]:
        return [split["split"] for split in self.facts.get("splits", ())]

    @property
    def started(self) -> datetime:
        return datetime.fromtimestamp(self.facts["started"], timezone.utc)

    @property
    def finished(self) -> bool:
        return bool(self.facts.get("finished"))

    def _stored(self) -> StoredRun:
        return self

    def scores(self, split: str = "val", *, step: int | None = None) -> dict[str, float]:
        """The values of the newest evaluation, or of a step, by score; without those that are undefined."""
        point = self._read("/api/v1/point", split=split, step=step)
        return {name: found["value"] for name, found in point["scores"].items() if found.get("value") is not None}

    def __repr__(self) -> str:
        points = sum(split["points"] for split in self.facts.get("splits", ()))
        state = self.facts["state"].replace("_", " ")
        labels = "".join(f", {key}={value}" for key, value in self.labels.items())
        title = f", {self.title!r}" if self.title != self.name else ""
        started = f"{self.started:%Y-%m-%d %H:%M} UTC"
        evaluations = counted(points, "evaluation")
        return f"<run {self.name!r}{title}: {evaluations}, {state}, started {started}{labels}>"

    def _row(self) -> dict[str, Any]:
        splits = self.facts.get("splits", ())
        return {
            "name": self.name,
            "title": self.facts.get("title") or "",
            "started": f"{self.started:%Y-%m-%d %H:%M}",
            "finished": self.finished,
            "splits": ", ".join(self.splits),
            "points": sum(split["points"] for split in splits),
            "last_step": max((split["last_step"] or 0 for split in splits), default=None),
            "labels": ", ".join(f"{key}={value}" for key, value in self.labels.items()),
            "source": str(self.source),
        }

    def _repr_html_(self) -> str:
        return html_table(RUN, [self._row().values()])


class Runs(Sequence[StoredRun]):
    """Runs, newest first, indexed by position or by name."""

    def __init__(self, found: Sequence[StoredRun], total: int | None = None) -> None:
        self._found = sorted(found, key=lambda run: -run.facts["started"])
        self.total = len(self._found) if total is None else total  # of all runs that were asked for, without `limit`

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return Runs(self._found[key])
        if isinstance(key, str):
            for run in self._found:
                if run.name == key:
                    return run
            like = difflib.get_close_matches(key, self.names, 3)
            raise KeyError(f"no run is named {key!r}" + (f"; did you mean {', '.join(like)}?" if like else ""))
        return self._found[key]

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, key: object) -> bool:
        return key in self.names if isinstance(key, str) else key in self._found

    @property
    def names(self) -> list[str]:
        return [run.name for run in self._found]

    @property
    def _count(self) -> str:
        of = f" of {self.total}" if self.total != len(self) else ""
        return f"{len(self)}{of} run" + "s" * (self.total != 1)

    def where(self, **labels: Any) -> Runs:
        """The runs with these labels: `runs().where(seed=3)`; names that Python reserves: `**{"lambda": 0.1}`."""
        wanted = {key: str(value) for key, value in labels.items()}
        return Runs([run for run in self if wanted.items() <= run.labels.items()])

    def frame(self, frame: str | None = None) -> Any:
        """A row for each run; for `frame` see `StoredRun.series`."""
        return framed([{**run._row(), "started": run.facts["started"]} for run in self], RUN, frame)

    def plot(self, score: str, *, split: str = "val", ax: Any = None) -> Any:
        """Draws a score of all runs; returns the axes."""
        from ._plotting import plot  # noqa: PLC0415 (matplotlib is optional)

        return plot(self, score, split=split, ax=ax)

    def __repr__(self) -> str:
        return "\n".join([self._count, *(f"  {run!r}" for run in self._found[:50])])

    def _repr_html_(self) -> str:
        return html_table(RUN, [run._row().values() for run in self._found[:200]], self._count)


def runs(
    source: str | os.PathLike[str] | None = None,
    *,
    search: str = "",
    limit: int | None = None,
    token_file: str | None = None,
) -> Runs:
    """The runs of a sidecar or a directory of curves, newest first; by default all that this user has.

        >>> import conceptwatch
        >>> found = conceptwatch.runs("curves")
        >>> found.names
        ['cub-2', 'cub']
        >>> [row["step"] for row in found["cub"].series("ctl_conditional", frame="records")]
        [100, 200, 300]

    source: a directory of curves, or the HTTP port of a sidecar as HOST:PORT. By default the sidecar at 127.0.0.1:7801
        and all curves below the user's data directory.
    search: words of names, titles and labels, and conditions on labels, such as "soft lambda<1"; all must match.
    limit: runs at most, the newest; `total` of the result counts the others, too.
    token_file: file with the token of the sidecar; by default CONCEPTWATCH_TOKEN_FILE.

    Raises ReadError where a source that is given cannot be read.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit: got {limit}, expected at least 1")
    if source is not None:
        return Runs(*_of(source_of(source, token_file), search, limit))
    home = user_home()
    places: list[Source] = [Api(USUAL, token_file)]
    directories = curves_in(home) if home is not None else []
    places += map(Directory, directories)
    if USUAL.removeprefix("http://") in map(stated_page, directories):
        del places[0]  # it keeps one of the directories
    found: list[StoredRun] = []
    total = 0
    failed: list[ReadError] = []
    for place in places:
        try:
            some, of = _of(place, search, limit)
            found += some
            total += of
        except Unreachable:
            continue
        except ReadError as error:
            failed.append(error)
    if not found and failed:
        raise failed[0]
    return Runs(Runs(found)[:limit], total)


def _of(source: Source, search: str, limit: int | None) -> tuple[list[StoredRun], int]:
    """Runs of a source, a page at a time, and how many there are without the limit."""
    found: list[StoredRun] = []
    after = None
    while True:
        wanted = PAGE if limit is None else min(PAGE, limit - len(found))
        page = source.ask("/api/v1/runs", search=search or None, limit=wanted, after=after)
        found += [StoredRun(facts["name"], source, facts) for facts in page["runs"]]
        after = page["next"]
        if after is None or len(found) == limit:
            return found, page["total"]


def stored(source: Source, name: str) -> StoredRun:
    """One run of a source."""
    try:
        return StoredRun(name, source, source.ask("/api/v1/run", run=name))
    except Unknown:
        raise Unknown(f"run: '{name}' is unknown to {source}") from None


def _of_task(answer: dict[str, Any], part: str, columns: tuple[str, ...], frame: str | None) -> Any:
    task = answer.get("task")  # an older sidecar has rows of a single task only
    if task is None:
        return framed(answer[part], columns, frame)
    return framed([{**row, "task": task} for row in answer[part]], (*columns, "task"), frame)


def _square(rows: Any) -> NDArray[np.float64]:
    return np.array([[np.nan if value is None else value for value in row] for row in rows], np.float64)
