"""Curves that outlive a spawned sidecar: where they are, what says so, and the commands that find them."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import conceptwatch
from conceptwatch._home import curves_in, stated_page, user_home
from conceptwatch._protocol import messages
from conceptwatch._sidecar import Wish
from conceptwatch._stats import Stats
from conceptwatch._summary import dropped_rows, evaluations
from conftest import Start, batch, evaluated, python, wait_for
from jobs import Job, Jobs, begin, settled, sidecars, use_port
from real_sidecar import binary, free_ports, printed
from sidecar import Sidecar


def test_curves_are_kept_by_default_and_found_without_a_flag(job: Jobs, tmp_path: Path, data_home: Path) -> None:
    address = f"127.0.0.1:{free_ports()}"
    one = job("one")
    begin(one, "digits", address)
    directory = one.do("run.data_dir")
    assert Path(directory).parent == data_home
    assert f"; curves are kept in {directory}\n" in one.said()
    one.do("evaluate(run, 1, 2)")
    assert settled(one, 2) == {"point": 2}
    # Of the running one, which is at no default port.
    assert json.loads(printed("diagnose", "digits", "--json"))["step"] == 2
    assert stated_page(Path(directory)) == f"127.0.0.1:{int(address.rpartition(':')[2]) + 1}"
    assert one.do("run.finish()") is True
    one.end()
    wait_for(lambda: not sidecars(tmp_path))
    # And of one that is gone.
    assert stated_page(Path(directory)) is None
    assert json.loads(printed("diagnose", "digits", "--json"))["step"] == 2
    shown = printed("watch", "--scores", "ctl,concept_accuracy")
    assert "\ndigits  finished  " in shown
    assert "\n  ctl " in shown
    assert "\n  concept_accuracy " in shown
    two = job("two")
    begin(two, "digits", address)
    assert two.do("run.name") == "digits-2"
    assert two.do("run.data_dir") == directory
    two.do("evaluate(run, 1)")
    assert two.do("run.finish()") is True
    two.end()
    wait_for(lambda: not sidecars(tmp_path))
    assert json.loads(printed("compare", "digits", "digits-2", "--json"))["a"]["run"] == "digits"


def test_none_can_be_chosen_whatever_the_environment_says(job: Jobs, tmp_path: Path, data_home: Path) -> None:
    one = job("one", CONCEPTWATCH_DATA_DIR=str(tmp_path / "own"))
    begin(one, "a", f"127.0.0.1:{free_ports()}", data_dir=None)
    assert one.do("run.data_dir") is None
    assert one.said().endswith("/\n")
    assert not (tmp_path / "own").exists()
    assert not data_home.exists()


def test_a_link_that_leads_nowhere_leads_to_a_new_directory(job: Jobs, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("absent/curves")
    one = job("one")
    begin(one, "a", f"127.0.0.1:{free_ports()}", data_dir=str(tmp_path / "link"))
    assert one.do("run.data_dir") == str(tmp_path / "link")
    assert (tmp_path / "absent/curves/history.sqlite3").exists()


def test_a_job_without_standard_streams_has_a_sidecar(tmp_path: Path) -> None:
    address, found, curves = f"127.0.0.1:{free_ports()}", tmp_path / "found", tmp_path / "curves"
    job = f"""
import os, sys
for descriptor in range(3):
    os.close(descriptor)
sys.stdin = sys.stdout = sys.stderr = None
import conceptwatch
run = conceptwatch.init("a", concepts=3, address={address!r}, data_dir={str(curves)!r})
with open({str(found)!r}, "w") as file:
    file.write(f"{{run.finish()}} {{run.data_dir}}")
"""
    done = python("-c", job, CONCEPTWATCH_BINARY=binary())
    assert (done.returncode, found.read_text()) == (0, f"True {curves}")


def without_usual_port(job: Job) -> Job:
    """Keeps it from whatever else listens at the usual port of this machine."""
    use_port(job, free_ports())
    return job


@pytest.mark.parametrize(
    ("by", "place", "why"),
    [
        ("argument", "file", "Not a directory"),
        ("environment", "file/curves", "Not a directory"),
        ("argument", "/proc/nope", "No such file"),
    ],
)
def test_a_stated_directory_that_cannot_be_used_is_said_and_curves_are_in_memory(
    by: str, place: str, why: str, job: Jobs, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    directory = str(tmp_path / place)
    given = {"data_dir": directory} if by == "argument" else {}
    one = without_usual_port(job("one", **({"CONCEPTWATCH_DATA_DIR": directory} if by == "environment" else {})))
    one.do(f"run = conceptwatch.init('a', concepts=3, **{given!r})")
    assert one.do("run.data_dir") is None
    one.do("evaluate(run, 1)")
    assert one.do("run.finish()") is True
    warnings = [line for line in one.said().splitlines() if line.startswith("conceptwatch, run 'a': ")]
    assert len(warnings) == 1, warnings
    assert warnings[0].startswith(f"conceptwatch, run 'a': data_dir: {directory} cannot be written ({why}")
    assert warnings[0].endswith("): the curves are in memory instead, and end with the sidecar")
    # Further ranks and jobs that state the same directory find the sidecar.
    two = without_usual_port(job("two", **({"CONCEPTWATCH_DATA_DIR": directory} if by == "environment" else {})))
    two.do(f"run = conceptwatch.init('b', concepts=3, **{given!r})")
    two.do("evaluate(run, 1)")
    assert two.do("run.finish()") is True
    assert len(sidecars(tmp_path)) == 1


def test_a_stated_directory_is_not_created_by_the_client(tmp_path: Path) -> None:
    assert Wish(data_dir=tmp_path / "a/b").hindrance() == ""
    assert Wish(data_dir=None).hindrance() == Wish().hindrance() == ""
    assert list(tmp_path.iterdir()) == []


def test_a_sidecar_that_keeps_curves_where_the_job_cannot_write_is_joined(job: Jobs, tmp_path: Path) -> None:
    one = without_usual_port(job("one"))
    directory = str(tmp_path / "kept")
    one.do(f"run = conceptwatch.init('a', concepts=3, data_dir={directory!r})")
    assert one.do("run.data_dir") == directory
    two = without_usual_port(job("two"))
    two.do("from conceptwatch import _sidecar; _sidecar.Wish.hindrance = lambda wish: 'Permission denied'")
    two.do(f"run = conceptwatch.init('b', concepts=3, data_dir={directory!r})")
    assert two.do("run.data_dir") == directory
    assert "cannot be written" not in two.said()


@pytest.mark.parametrize(
    ("settled", "counts", "says"),
    [
        ({}, {}, "0 evaluations scored"),
        ({"point": 1}, {}, "1 evaluation scored"),
        ({"point": 3, "incomplete": 1}, {"passes_unsettled": 2},
         "4 evaluations scored, 1 of them incomplete, 2 not settled"),
        ({}, {"passes_abandoned": 1}, "0 of 1 evaluation scored: 1 left by an exception"),
        (
            {"point": 5, "skipped": 3},
            {"passes_left_out": 4},
            "5 of 12 evaluations scored: 3 skipped, 4 left out (the sidecar scores slower than evaluations arrive)",
        ),
        ({"point": 1, "discarded": 1}, {"passes_refused": 1, "passes_unsettled": 1},
         "1 of 3 evaluations scored: 1 discarded (a newer attempt of the run began, or another rank left it), "
         "1 refused by the sidecar, 1 not settled"),
    ],
)  # fmt: skip
def test_evaluations_are_counted_by_what_became_of_them(
    settled: dict[str, int], counts: dict[str, int], says: str
) -> None:
    assert evaluations(Stats(passes_settled=Counter(settled), **counts)) == says


def test_dropped_rows_are_counted_by_reason() -> None:
    stats = Stats()
    assert dropped_rows(stats) == ""
    stats.drop("invalid", 2, 0)
    assert dropped_rows(stats) == "2 batches dropped (see the log)"
    stats.drop("invalid", 1, 1)
    assert dropped_rows(stats) == "1 row dropped (wrong name, shape or type)"
    stats.drop("queue_full", 2, 1200)
    assert dropped_rows(stats) == ("1,201 rows dropped (1 wrong name, shape or type; 1,200 no room in queue_bytes)")


def test_the_end_of_a_resumed_run_names_no_alert_of_evaluations_that_it_has_left(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for rows, step, says in (
        (200, 5, "  alert at step 5, warning: few rows: "),
        (600, 6, "  alert at step 5, warning: few rows: "),
        (600, 3, "  no alert has fired\n"),
    ):
        run = conceptwatch.init("again", concepts=3, address=address, spawn=False, resume=step != 5)
        assert evaluated(run, batch(rows), step=step).scores(timeout=60) is not None
        assert run.finish()
        assert says in capsys.readouterr().err


@pytest.mark.parametrize("data_dir", ["", "/curves"])
def test_the_rank_that_finishes_the_run_sums_it_up_on_one_screen(
    data_dir: str, sidecar: Sidecar, start: Start, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = messages.FinishRunResponse(finished=True)
    alert = messages.AlertChange(rule="leaking", run="run", split="val", step=7, severity="critical", evidence="high")
    answer.fired.extend([alert] * 8)
    finish = sidecar._finish
    monkeypatch.setattr(sidecar, "_finish", lambda request, context: [finish(request, context), answer][1])
    sidecar.start.data_dir, sidecar.start.page_url = data_dir, "http://127.0.0.1:7801/"
    point = messages.Point(run="run", split="val", step=7, rows=20, epoch=2, incomplete=True, warnings=["some ids"])
    point.scores.add(id="ctl_conditional", value=0.1234, standard_error=0.01)
    point.scores.add(id="task_r2", value=0.5)
    point.scores.add(id="task_accuracy", undefined="no predictions")
    sidecar.point = point
    run = start(name="my run")
    evaluated(run, batch(), step=7)
    run.log(step=8, concept_activations=np.ones((1100, 9), np.float32))
    assert run.finish()
    lost = "1,100 rows dropped (wrong name, shape or type)"
    assert f"0 evaluations scored, {lost}, finished" in repr(run)
    curves = [
        "  curves  /curves",
        "  open    conceptwatch diagnose 'my run'",
        "          conceptwatch serve --data-dir /curves",
        "          in Python: conceptwatch.runs()['my run']",
    ]
    in_memory = ["  curves  in memory: they end with the sidecar (conceptwatch serve --data-dir keeps them)"]
    assert capsys.readouterr().err.splitlines() == [
        "conceptwatch: run 'my run' has finished",
        "  val, step 7, epoch 2, 20 rows, ± 95 %, incomplete: ranks or rows were missing",
        "    ctl_conditional      0.1234 ± 0.0196",
        "    task_r2              0.5000",
        "    note: some ids",
        f"  {lost}",
        *["  alert at step 7, critical: leaking: high"] * 6,
        "  and 2 more alerts",
        "  page    http://127.0.0.1:7801/",
        *(curves if data_dir else in_memory),
    ]
    answer = messages.FinishRunResponse(finished=True, other_splits=["test", "val"])
    assert start(name="other", address=run.address).finish()
    unjudged = "  no alert rule judged the run: the rules look at 'test' and 'val', of which it has none"
    assert capsys.readouterr().err.splitlines()[1] == unjudged
    monkeypatch.setenv("CONCEPTWATCH_QUIET", "1")
    assert start(name="quiet", address=run.address).finish()
    assert capsys.readouterr().err == ""


def test_homes_are_those_of_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setattr("sys.platform", "linux")
    assert user_home() == Path("/home/ada/.local/share/conceptwatch")
    monkeypatch.setattr("sys.platform", "darwin")
    assert user_home() == Path("/home/ada/Library/Application Support/conceptwatch")
    monkeypatch.setenv("HOME", "")
    assert user_home() is None
    assert curves_in(tmp_path / "nowhere") == []


def test_directories_are_listed_with_the_newest_first(tmp_path: Path) -> None:
    for place, name in enumerate(("a", "b", "c")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "history.sqlite3").write_bytes(b"")
        os.utime(tmp_path / name / "history.sqlite3", (place, place))
    (tmp_path / "none").mkdir()
    assert [directory.name for directory in curves_in(tmp_path)] == ["c", "b", "a"]
    assert stated_page(tmp_path / "a") is None
    (tmp_path / "a" / "address").write_text("unix:///a 127.0.0.1:1\n")
    assert stated_page(tmp_path / "a") == "127.0.0.1:1"
