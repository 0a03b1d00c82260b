"""Reading runs back: from a running sidecar, from its directory, and from the one that it has left."""

from __future__ import annotations

import builtins
import csv
import doctest
import importlib
import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_integration_docs import blocks

import conceptwatch
from conceptwatch import ReadError, _parquet, _plotting, _reading, _scores, _source, _tables
from conftest import K, Start, batch, evaluated, package, python, wait_for
from real_sidecar import binary, eager, page, printed, table

ROOT = Path(__file__).parents[2]
STEPS = [100, 200, 300]
# A spreadsheet would compute what begins as some of these names do.
CONCEPTS = ["wing", "=beak", "@a<b>"]
OTHER = "+other"


def train(address: str) -> None:
    for name, seed in (("cub", 1), ("cub", 2), (OTHER, 3)):
        labels = {"project": "birds", "seed": seed}
        with conceptwatch.init(name, concepts=CONCEPTS, address=address, spawn=False, labels=labels) as run:
            for step in STEPS:
                p = evaluated(run, batch(300, first_id=0, seed=seed), step=step, epoch=step / 100)
                assert p.scores(timeout=300) is not None
            # Scores that train networks join their point later.
            assert run.diagnosis(timeout=300) is not None


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a sidecar that has gone."""
    directory = tmp_path_factory.mktemp("home") / "conceptwatch" / "host-1"
    with eager("--data-dir", str(directory)) as address:
        train(address)
    return directory


@pytest.fixture(scope="module")
def sidecar_address(curves: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a sidecar with the same runs."""
    with eager("--data-dir", str(tmp_path_factory.mktemp("live") / "curves")) as address:
        train(address)
        yield address


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCEPTWATCH_BINARY", binary())


@pytest.fixture(params=["directory", "sidecar"])
def source(request: pytest.FixtureRequest, curves: Path) -> str:
    return str(curves) if request.param == "directory" else page(request.getfixturevalue("sidecar_address"))


def test_runs_are_found_by_name_number_and_label(source: str) -> None:
    found = conceptwatch.runs(source)
    assert (len(found), found.names) == (3, [OTHER, "cub-2", "cub"])
    assert found[0] is found[OTHER]
    assert "cub" in found
    assert found.where(seed=2).names == ["cub-2"]
    assert found[:2].names == [OTHER, "cub-2"]
    run = found["cub"]
    assert (run.labels, run.concepts, run.splits, run.finished) == (
        {"project": "birds", "seed": "1"},
        CONCEPTS,
        ["val"],
        True,
    )
    assert repr(run).startswith("<run 'cub': 3 evaluations, finished, started 20")
    with pytest.raises(KeyError, match="no run is named 'cob'; did you mean cub"):
        found["cob"]


def test_runs_are_searched_and_counted(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_reading, "PAGE", 2)
    assert conceptwatch.runs(source).names == [OTHER, "cub-2", "cub"]
    newest = conceptwatch.runs(source, limit=1)
    assert (newest.names, newest.total) == ([OTHER], 3)
    assert repr(newest).startswith("1 of 3 runs\n")
    found = conceptwatch.runs(source, search="CUB seed<2")
    assert (found.names, found.total) == (["cub"], 1)
    assert (found["cub"].title, found["cub"].note) == ("cub", "")
    with pytest.raises(ValueError, match="limit: got 0, expected at least 1"):
        conceptwatch.runs(source, limit=0)


def test_a_curve_is_read_in_the_form_that_is_asked_for(source: str) -> None:
    package("pandas")
    package("polars")
    run = conceptwatch.runs(source)["cub"]
    records = run.series("ctl_conditional", frame="records")
    assert [row["step"] for row in records] == STEPS
    assert [row["epoch"] for row in records] == [1, 2, 3]
    frame = run.series("ctl_conditional", frame="pandas")
    assert list(frame["step"]) == STEPS
    assert list(frame["value"]) == [row["value"] for row in records]
    polars = run.series("ctl_conditional", frame="polars")
    assert polars["value"].to_list() == [row["value"] for row in records]
    assert type(run.series("ctl_conditional")) is type(frame)
    wing = run.series("ctl_conditional", concept="wing", frame="records")
    assert [row["value"] for row in wing] != [row["value"] for row in records]
    with pytest.raises(ValueError, match="frame: got 'excel', expected one of pandas, polars, records"):
        run.series("ctl_conditional", frame="excel")


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_times_are_timestamps_in_frames_and_seconds_in_records(kind: str, source: str) -> None:
    package(kind)
    found = conceptwatch.runs(source)
    started, since = found.frame(kind)["started"], found["cub"].alerts(frame=kind)["since"]
    assert {str(one.dtype) for one in (started, since)} <= {
        "datetime64[ns, UTC]", "Datetime(time_unit='us', time_zone='UTC')",
    }  # fmt: skip
    expected = [row["since"] for row in found["cub"].alerts(frame="records")]
    assert [one.timestamp() for one in since] == pytest.approx(expected, abs=1e-6)
    assert [one.timestamp() for one in started] == pytest.approx([run.facts["started"] for run in found], abs=1e-6)
    for rows, missing in (([], []), ([{"time": None}, {"time": 0.5}], [True, False])):
        times = _tables.framed(rows, ("time",), kind)["time"]
        assert [str(one) in ("NaT", "None") for one in times] == missing
        assert str(times.dtype).endswith(("[ns, UTC]", "time_zone='UTC')"))


def test_a_matrix_has_names_and_pairs(source: str) -> None:
    matrix = conceptwatch.runs(source)["cub"].matrix("icl_conditional")
    values = np.asarray(matrix)
    assert (values.shape, matrix.step, matrix.concepts) == ((K, K), 300, CONCEPTS)
    assert np.isfinite(values).sum() >= K * (K - 1)
    pairs = matrix.pairs(frame="records")
    assert pairs[0]["value"] == np.nanmax(values)
    assert {"from", "to", "value"} == pairs[0].keys()
    assert repr(matrix) == "Matrix('icl_conditional', step=300, 3 concepts)"


def test_tables_of_a_notebook_escape_names(source: str) -> None:
    found = conceptwatch.runs(source)
    texts = [found._repr_html_(), found["cub"]._repr_html_(), found["cub"].matrix("icl_conditional")._repr_html_()]
    assert all(text.startswith("<table>") for text in texts)
    assert "a&lt;b&gt;" in texts[2]
    assert "<b>" not in texts[2]
    assert found.frame("records")[2]["name"] == "cub"
    assert "3 runs" in repr(found)


def test_curves_are_plotted(source: str) -> None:
    package("matplotlib").use("agg")
    found = conceptwatch.runs(source)
    axes = found["cub"].plot("ctl_conditional", "concept_accuracy")
    assert [line.get_label() for line in axes.get_lines()] == ["ctl_conditional", "concept_accuracy"]
    assert list(axes.get_lines()[0].get_xdata()) == [1, 2, 3]
    assert axes.get_xlabel() == "epoch"
    assert [text.get_text() for text in axes.texts] == [
        "above the limit of ctl_conditional, 0.16", "below the limit of concept_accuracy, 0.9",
    ]  # fmt: skip
    axes = conceptwatch.plot(found, "ctl_conditional")
    assert len(axes.get_lines()) == 3
    assert [text.get_text() for text in axes.texts] == ["above the limit, 0.16"]
    axes.figure.canvas.draw()
    assert axes.get_legend().get_window_extent().x0 >= axes.get_window_extent().x1
    assert len(found.plot("ctl").texts) == 0, "a score without a limit"
    with pytest.raises(ReadError, match="nonsense"):
        found.plot("nonsense")
    assert len(found["cub"].plot().get_lines()) >= 2
    same = found.plot("ctl", ax=axes)
    assert same is axes
    importlib.import_module("matplotlib.pyplot").close("all")


def test_plots_look_as_the_page_does() -> None:
    style = (ROOT / "web/style.css").read_text(encoding="utf-8")
    for place, colour in enumerate(_plotting.COLOURS, 1):
        assert f"--s{place}: light-dark({colour}, " in style
    assert f"--leak: light-dark({_plotting.LIMIT}, " in style
    looks = [_plotting._look(place) for place in range(36)]
    assert len({str(look) for look in looks}) == 36
    # A print in grey has no colours.
    assert len({str(look["linestyle"]) for look in looks[:6]}) == len({look["marker"] for look in looks[:6]}) == 6


def test_curves_are_along_steps_where_an_epoch_is_missing(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = package("matplotlib").use("agg") or importlib.import_module("matplotlib.pyplot")
    run = conceptwatch.runs(source)["cub"]
    series = _reading.StoredRun.series
    _, axes = pyplot.subplots()

    def without_first(run: Any, *asked: Any, **named: Any) -> Any:
        first, *others = series(run, *asked, **named)
        return [{**first, "epoch": None}, *others]

    with monkeypatch.context() as patch:
        patch.setattr(_reading.StoredRun, "series", without_first)
        assert run.plot("ctl", ax=axes) is axes
    # What is added later is drawn along the same axis.
    run.plot("icl", ax=axes)
    assert axes.get_xlabel() == "step"
    assert [list(line.get_xdata()) for line in axes.get_lines()] == [STEPS, STEPS]
    pyplot.close("all")


def test_runs_of_this_user_are_found_by_themselves(curves: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(curves.parents[1]))
    # Whatever else listens at the usual port of this machine.
    monkeypatch.setattr(_reading, "USUAL", "http://127.0.0.1:1")
    assert conceptwatch.runs().names == [OTHER, "cub-2", "cub"]
    monkeypatch.setenv("XDG_DATA_HOME", str(curves.parents[1] / "nothing"))
    assert conceptwatch.runs().names == []


def test_a_directory_in_use_is_read_through_its_sidecar(tmp_path: Path) -> None:
    with eager("--data-dir", str(tmp_path / "curves")) as address:
        run = conceptwatch.init("live", concepts=K, address=address, spawn=False)
        with run:
            with run.evaluation("val", step=1) as p:
                p.log(**batch(300, first_id=0), groups=np.arange(300) % 3)
            assert p.scores(timeout=300) is not None
            found = conceptwatch.runs(tmp_path / "curves")
            assert found.names == ["live"]
            assert not found[0].finished
            # The run in training reads the same.
            assert run.series("ctl", frame="records") == found[0].series("ctl", frame="records")
            assert np.asarray(run.matrix("icl")).shape == (K, K)
            # Rules are judged when the point has been stored.
            wait_for(lambda: {row["rule"] for row in run.alerts(frame="records")} == {"few rows"})
            rows = run.rows(top=5, frame="records")
            assert [row["local"] for row in rows] == sorted((row["local"] for row in rows), reverse=True)
            assert len(rows) == 5
            assert all(0 <= row["id"] < 300 and row["group"] == row["id"] % 3 for row in rows)
            exported = table("rows", tmp_path / "tables", "--data-dir", tmp_path / "curves")
            of_mean = [(int(row["id"]), float(row["local"])) for row in exported if not row["concept"]]
            assert of_mean == [(row["id"], row["local"]) for row in run.rows(frame="records")]
            assert {row["concept"] for row in exported} == {"", *found[0].concepts}
            assert rows != run.rows(concept=found[0].concepts[1], top=5, frame="records")
            for by in ("class", "group"):
                shares = run.shares(by=by, frame="records")
                assert sum(row["rows"] for row in shares) == 300
                assert sum(row["share"] for row in shares) == pytest.approx(found[0].scores()["ctl_conditional"])
            assert [row["label"] for row in shares] == [0, 1, 2]
            with pytest.raises(ReadError, match="top: got 51, expected 1 to 50"):
                run.rows(top=51)
            with pytest.raises(ReadError, match="score: got 'icl', expected ctl_conditional"):
                run.rows("icl")
            assert f"page http://{page(address)}/, curves in {tmp_path}/curves>" in repr(run)
            assert run._repr_html_().startswith("<table>")
            scores = p.scores()
            assert "ctl_conditional" in scores._repr_html_()
    stored = conceptwatch.runs(tmp_path / "curves")["live"]
    assert stored.finished
    with pytest.raises(ReadError, match="its sidecar keeps those of the newest evaluation"):
        stored.rows()


def test_what_lies_beyond_the_checkpoint_of_a_resumed_run_is_superseded(tmp_path: Path) -> None:
    with eager("--data-dir", str(tmp_path / "curves")) as address:
        for steps, resume in (([10, 20, 30, 40], False), ([25, 30], True)):
            run = conceptwatch.init("a", concepts=K, address=address, spawn=False, resume=resume)
            for step in steps:
                assert evaluated(run, batch(300), step=step).scores(timeout=300) is not None
            assert (run.finish(), run.name) == (True, "a")
        found = conceptwatch.runs(tmp_path / "curves")["a"]
        curve = found.series("ctl", frame="records")
        assert [(row["step"], row["superseded"]) for row in curve] == [
            (10, False), (20, False), (25, False), (30, False), (30, True), (40, True),
        ]  # fmt: skip
        package("matplotlib").use("agg")
        assert [list(line.get_xdata()) for line in found.plot("ctl").get_lines()] == [[30, 40], [10, 20, 25, 30]]
        importlib.import_module("matplotlib.pyplot").close("all")


# ---------------------------------------------------------------- what may be wrong


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("nowhere", "expected a directory of curves, or the HTTP port of a sidecar as HOST:PORT"),
        ("127.0.0.1:1", "http://127.0.0.1:1 cannot be reached"),
        ("http://127.0.0.1:1/", "http://127.0.0.1:1 cannot be reached"),
        (".", "has no history.sqlite3"),
    ],
)
def test_a_source_that_is_none_is_one_line(wrong: str, why: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ReadError, match=why) as found:
        conceptwatch.runs(wrong)
    assert "\n" not in str(found.value)


def test_a_damaged_history_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "history.sqlite3").write_bytes(b"no history at all" * 1000)
    with pytest.raises(ReadError, match=r"history .*: not a history file") as found:
        conceptwatch.runs(tmp_path)
    assert "\n" not in str(found.value)


def test_what_a_run_does_not_have_is_one_line(source: str) -> None:
    run = conceptwatch.runs(source)["cub"]
    for ask in (
        lambda: run.series("nonsense"),
        lambda: run.series("ctl", "nowhere"),
        lambda: run.series("ctl", concept="nobody"),
        lambda: run.matrix("ctl"),
        lambda: run.scores("val", step=5),
    ):
        with pytest.raises(ReadError) as found:
            ask()
        assert "\n" not in str(found.value)


def test_without_packages_there_are_records_and_no_plots(curves: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = conceptwatch.runs(curves)["cub"]
    monkeypatch.setattr(_tables, "find_spec", lambda name: None)
    assert isinstance(run.series("ctl"), list)
    importing = builtins.__import__

    def missing(name: str, *others: Any, **named: Any) -> Any:
        if name.partition(".")[0] in ("matplotlib", "pandas"):
            raise ImportError(f"No module named {name!r}")
        return importing(name, *others, **named)

    for name in [name for name in sys.modules if name.partition(".")[0] in ("matplotlib", "pandas")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(_plotting, "import_module", missing)
    monkeypatch.setattr(_tables, "import_module", missing)
    with pytest.raises(ReadError, match="plots need matplotlib, which is not installed"):
        run.plot("ctl")
    with pytest.raises(ReadError, match="frame: pandas is not installed"):
        run.series("ctl", frame="pandas")


def test_without_the_program_a_directory_cannot_be_read(curves: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCEPTWATCH_BINARY", "/nowhere")
    with pytest.raises(ReadError, match="the program was not found; set CONCEPTWATCH_BINARY"):
        conceptwatch.runs(curves)


def test_a_run_without_a_sidecar_has_a_name_and_a_state(start: Start) -> None:
    run = start(address="127.0.0.1:1")
    run.log(step=1, concept_labels=np.ones((2, 9)))
    assert repr(run) == (
        "<conceptwatch.Run 'run' at 127.0.0.1:1: 0 evaluations scored, 2 rows dropped (wrong name, shape or type), "
        "no answer yet>"
    )
    with pytest.raises(ReadError, match="cannot be reached"):
        run.series("ctl")
    assert "<table>" in run._repr_html_()
    disabled = conceptwatch.init("a", concepts=3, mode="disabled")
    assert repr(disabled) == "<conceptwatch.Run 'a', disabled>"
    with pytest.raises(ReadError, match="is disabled"):
        disabled.plot()


# ---------------------------------------------------------------- the documentation


def test_the_blocks_about_loggers_and_frames(
    curves: Path, sidecar_address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package("matplotlib").use("agg")
    monkeypatch.chdir(tmp_path)
    for name, value in {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    (logger,) = blocks("docs/integrations.md", "## Log to your experiment tracker")
    (reading,) = blocks("docs/integrations.md", "## Data frames and plots")
    package("wandb")
    names: dict[str, Any] = {"concept_names": CONCEPTS}
    monkeypatch.setenv("CONCEPTWATCH_ADDRESS", sidecar_address)
    exec(compile(logger, "docs/integrations.md", "exec"), names)  # noqa: S102
    assert names["run"].finish()
    names["wandb"].finish()
    monkeypatch.setenv("XDG_DATA_HOME", str(curves.parents[1]))
    monkeypatch.setattr(_reading, "USUAL", "http://127.0.0.1:1")
    exec(compile(reading, "docs/integrations.md", "exec"), names)  # noqa: S102
    assert names["newest"]["concept_accuracy"] > 0
    assert len(names["curve"]) == len(STEPS)
    importlib.import_module("matplotlib.pyplot").close("all")


def test_the_examples_of_docstrings_hold(curves: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (curves.parent / "curves").symlink_to(curves)
    monkeypatch.chdir(curves.parent)
    runs = conceptwatch.runs
    monkeypatch.setattr(conceptwatch, "runs", lambda source: runs(source)[1:])
    for module in (_scores, _reading, _source):
        found = doctest.testmod(module)
        assert found.failed == 0, module
    assert doctest.testmod(_scores).attempted + doctest.testmod(_reading).attempted >= 5


# ---------------------------------------------------------------- python -m conceptwatch


def as_module(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "conceptwatch", *arguments, **environment)


def test_the_module_is_the_program(curves: Path) -> None:
    assert as_module("--version").stdout.startswith("conceptwatch 0.")
    assert as_module("diagnose", "cub", "--data-dir", str(curves)).returncode == 0
    assert as_module("nonsense").returncode == 2
    missing = as_module("--version", CONCEPTWATCH_BINARY="/nowhere")
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)
    assert "the program was not found" in missing.stderr


def test_titles_and_notes_are_read_back(tmp_path: Path) -> None:
    home = tmp_path / "conceptwatch" / "host-1"
    with eager("--data-dir", str(home)) as address:
        conceptwatch.init("a", concepts=3, address=address, spawn=False).finish()
        for change in (("rename", "a", "A <title>"), ("note", "a", "two\nlines")):
            assert as_module(*change, XDG_DATA_HOME=str(tmp_path)).returncode == 0
        run = conceptwatch.runs(page(address))[0]
    assert (run.name, run.title, run.note) == ("a", "A <title>", "two\nlines")
    assert conceptwatch.runs(home, search="<title>")["a"].note == run.note
    assert "A &lt;title&gt;" in run._repr_html_()
    assert repr(run).startswith("<run 'a', 'A <title>': 0 evaluations, finished")


def test_a_spreadsheet_computes_nothing_of_what_is_exported(curves: Path, tmp_path: Path) -> None:
    def exported(*options: str) -> list[Path]:
        to = tmp_path / "".join(options)
        printed("export", "--to", to, "--data-dir", curves, *options)
        return [next(to.glob(f"{kind}.*")) for kind in ("concepts", "scores")]

    def column(path: Path, name: str) -> set[str]:
        with path.open(encoding="utf-8", newline="") as rows:
            return {row[name] for row in csv.DictReader(rows)}

    concepts, scores = exported("--format=csv")
    assert column(concepts, "concept") == {"wing", "'=beak", "'@a<b>"}
    assert column(scores, "run") == {f"'{OTHER}", "cub", "cub-2"}
    assert all(float(value) < 2 for value in column(scores, "value") if value), "numbers stay numbers"
    # Programs read names as they are.
    concepts, _ = exported("--as-is")
    assert column(concepts, "concept") == set(CONCEPTS)
    lines, _ = exported("--format=jsonl")
    assert {json.loads(line)["concept"] for line in lines.read_text(encoding="utf-8").splitlines()} == set(CONCEPTS)


@pytest.mark.parametrize("with_package", ["pyarrow", "polars"])
def test_parquet_has_what_the_tables_have(
    with_package: str, curves: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    polars = package("polars")
    package("pyarrow")
    monkeypatch.setattr(_parquet, "PACKAGES", (with_package,))
    asked = [
        "export",
        "--data-dir",
        str(curves),
        "--to",
        str(tmp_path / "out"),
        "--format=parquet",
        "--without",
        "pairs",
    ]
    assert _parquet.wants_parquet(asked)
    assert _parquet.export(binary(), asked) == 0
    assert f"rows in {tmp_path}/out\n" in capfd.readouterr().out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "concepts.parquet", "points.parquet", "rows.parquet", "runs.parquet", "scores.parquet", "unscored.parquet",
    ]  # fmt: skip
    scores = polars.read_parquet(tmp_path / "out/scores.parquet").filter(polars.col("run") == "cub")
    run = conceptwatch.runs(curves)["cub"]
    for score in ("ctl_conditional", "icl", "concept_accuracy"):
        found = scores.filter(polars.col("score") == score).sort("step")
        expected = run.series(score, frame="records")
        assert found["value"].to_list() == [row["value"] for row in expected]
        assert found["standard_error"].to_list() == [row["standard_error"] for row in expected]
    points = polars.read_parquet(tmp_path / "out/points.parquet")
    assert (points["step"].dtype, points["superseded"].dtype) == (polars.UInt64, polars.Boolean)
    times = points.filter(polars.col("run") == "cub").sort("step")["time"]
    assert times.dtype == polars.Datetime("us", "UTC")
    expected = [row["time"] for row in run.series("icl", frame="records")]
    assert [one.timestamp() for one in times] == pytest.approx(expected, abs=1e-6)
    assert [points[name].dtype for name in ("step", "ordinal")] == [polars.UInt64, polars.UInt32]
    assert polars.read_parquet(tmp_path / "out/runs.parquet")["started"].dtype == polars.Datetime("us", "UTC")
    assert polars.read_parquet(tmp_path / "out/unscored.parquet")["time"].dtype == polars.Datetime("us", "UTC")
    assert polars.read_parquet(tmp_path / "out/unscored.parquet").height == 0
    assert set(polars.read_parquet(tmp_path / "out/concepts.parquet")["concept"]) == set(CONCEPTS)
    assert _parquet.export(binary(), asked) == 2
    assert "runs.parquet exists already; choose another directory" in capfd.readouterr().err


def test_parquet_without_a_package_or_with_wrong_arguments_is_one_line(
    curves: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = ["export", "nobody", "--data-dir", str(curves), "--format", "parquet", "--to", str(tmp_path / "out")]
    package("polars")
    assert _parquet.export(binary(), asked) == 2
    assert capfd.readouterr().err == "conceptwatch export: run: 'nobody' is unknown\n"
    assert list((tmp_path / "out").iterdir()) == []
    assert _parquet.export(binary(), asked[:-2]) == 2
    assert "--to" in capfd.readouterr().err
    monkeypatch.setattr(_parquet, "find_spec", lambda name: None)
    assert _parquet.export(binary(), asked) == 2
    said = "format: parquet needs pyarrow or polars; install one of them, or export csv"
    assert capfd.readouterr().err == f"conceptwatch export: {said}\n"
    assert not _parquet.wants_parquet(["export", "--format", "csv"])
    assert not _parquet.wants_parquet(["watch", "--format", "parquet"])


def test_the_module_adds_what_python_uses_to_a_check_of_the_machine(tmp_path: Path) -> None:
    done = as_module("doctor", XDG_DATA_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    first, second, *_ = done.stdout.splitlines()
    assert first.startswith(f"python: {platform.python_version()}, {sys.executable}; conceptwatch ")
    assert f"numpy {np.__version__}" in first
    assert second.startswith("program: conceptwatch ")
