"""Runs without a sidecar: recorded to files and replayed by the real program, or disabled."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

import conceptwatch
from conftest import K, Start, Warned, acknowledged, batch, evaluated, python, wait_for
from real_sidecar import command, eager
from sidecar import Sidecar

JOB = textwrap.dedent("""
    import sys
    import numpy as np
    import conceptwatch

    rank, world_size, mode, where = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    random = np.random.default_rng(0)
    place = {"offline_dir": where} if mode == "offline" else {"address": where}
    run = conceptwatch.init("a run/1", concepts=3, rank=rank, world_size=world_size, mode=mode, spawn=False, **place)
    for step in range(3):
        rows = {
            "sample_ids": np.arange(600),
            "concept_activations": random.random((600, 3), np.float32),
            "concept_labels": random.integers(0, 2, (600, 3)),
            "task_labels": random.integers(0, 2, 600),
        }
        with run.evaluation("val", step=step, epoch=step) as p:
            for start in range(rank * 100, 600, world_size * 100):
                p.log(**{name: values[start : start + 100] for name, values in rows.items()})
        if mode == "online":
            assert run.scores("val", step=step, timeout=60) is not None
    assert run.finish(), run.stats
    assert run.stats.batches_acknowledged == 3 * 6 // world_size, run.stats
""")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[str]]:
    """The files of a run of one rank and of one of two, each of which is a process of its own."""
    found = {}
    for ranks in (1, 2):
        folder = tmp_path_factory.mktemp("recorded")
        for rank in range(ranks):
            done = python("-c", JOB, rank, ranks, "offline", folder)
            assert done.returncode == 0, done.stderr
        found[ranks] = sorted(str(path) for path in folder.iterdir())
    return found


def points(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_replay_gives_what_the_sidecar_would_have_given(recorded: dict[int, list[str]]) -> None:
    alone, both = recorded[1], recorded[2]
    assert (len(alone), len(both)) == (1, 2)
    assert Path(alone[0]).name.startswith("a_run_1-")
    found = [command("replay", "--json", *files) for files in (alone, both)]
    assert [(done.returncode, done.stderr) for done in found] == [
        (0, "run 'a run/1': 18 batches, 1800 rows, 3 passes\n")
    ] * 2
    of_one, of_two = (points(done.stdout) for done in found)
    assert [(point["step"], point["rows"], point["epoch"]) for point in of_one] == [
        (0, 600, 0),
        (1, 600, 1),
        (2, 600, 2),
    ]
    assert of_one == of_two
    assert of_one[0]["scores"]["ctl"]["value"] != of_one[1]["scores"]["ctl"]["value"]

    with eager() as address:
        assert python("-c", JOB, 0, 1, "online", address).returncode == 0
        run = conceptwatch.init("a run/1", concepts=3, address=address, spawn=False, resume=True)
        live = run.scores("val", step=2, timeout=60)
        run.finish()
        replayed = of_one[2]["scores"]
        for score in ("ctl", "icl", "task_accuracy"):
            assert score in live or score not in replayed
            if score in live:
                assert live[score].value == replayed[score]["value"]
        # The recording is of another job, so it is a run of its own; replayed again, it is that run.
        for _ in range(2):
            again = command("replay", "--address", address, *alone)
            assert (again.returncode, again.stdout) == (0, ""), again.stderr
            assert again.stderr.startswith("run 'a run/1-2': 18 batches, ")


def test_a_table_is_printed_and_curves_are_kept(recorded: dict[int, list[str]], tmp_path: Path) -> None:
    done = command("replay", "--scores", "ctl,icl", "--data-dir", str(tmp_path / "curves"), *recorded[1])
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["run", "split", "step", "rows", "ctl", "icl", "(±", "95", "%)"]
    assert len(lines) == 4
    assert "±" in lines[1]
    assert any((tmp_path / "curves").iterdir())


def test_a_killed_job_loses_what_it_had_not_written_whole(recorded: dict[int, list[str]], tmp_path: Path) -> None:
    whole = Path(recorded[1][0]).read_bytes()
    # Within the last message before the end of the run.
    (tmp_path / "cut.cwrec").write_bytes(whole[:-80])
    done = command("replay", "--json", tmp_path / "cut.cwrec")
    assert done.returncode == 0
    assert [point["step"] for point in points(done.stdout)] == [0, 1]
    assert "bytes: the message is incomplete" in done.stderr


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "No such file"),
        (b"", "nothing whole at byte 0"),
        (b"\xff" * 64, "no length of a message at byte 0"),
        (b"\x05hello", "no message"),
        (b"PK\x03\x04 is a zip file, which is no recording, and long enough to be read on", "at byte 0, expected"),
    ],
)
def test_what_is_no_recording_is_named(tmp_path: Path, content: bytes | None, expected: str) -> None:
    file = tmp_path / "other.cwrec"
    if content is not None:
        file.write_bytes(content)
    done = command("replay", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert str(file) in done.stderr
    assert expected in done.stderr


def test_a_missing_rank_is_named(recorded: dict[int, list[str]]) -> None:
    done = command("replay", recorded[2][0])
    assert done.returncode == 2
    assert "got the files of 1 ranks, expected all 2 of the run" in done.stderr


def test_a_full_disk_does_not_stop_the_job(tmp_path: Path) -> None:
    job = """
        import resource, sys, numpy as np, conceptwatch, logging
        logging.basicConfig(format="%(message)s")
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        run = conceptwatch.init("full", concepts=3, mode="offline", offline_dir=sys.argv[1], queue_bytes=300_000)
        for step in range(20):
            with run.evaluation("val", step=step) as p:
                p.log(concept_activations=np.random.default_rng(step).random((2000, 3), np.float32),
                      concept_labels=np.ones((2000, 3), np.uint8))
        assert not run.finish(timeout=1.0)
        assert sum(run.stats.batches_dropped.values()) > 0, run.stats
        print("trained on")
    """
    done = python("-c", textwrap.dedent(job), tmp_path)
    assert done.stdout == "trained on\n"
    assert done.stderr.count("recording to") == 2, done.stderr  # at the start, and once what went wrong
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size < 100_000
    kept = command("replay", "--json", "--scores", "ctl", str(file))
    assert (kept.returncode, len(points(kept.stdout))) == (0, 3), kept.stderr


def test_disabled_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCEPTWATCH_MODE", "disabled")
    monkeypatch.chdir(tmp_path)
    with conceptwatch.init("off", concepts=K) as run:
        p = evaluated(run, batch())
        run.log(step=1, nonsense=3)
        assert (p.scores(), run.scores(), run.should_stop(step=1), run.page_url) == (None, None, False, None)
        assert (run.diagnosis(), run.stop_reason(step=1)) == (None, "")
        assert run.stats.batches_queued == 0
    assert list(tmp_path.iterdir()) == []


def test_a_mode_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="mode: got 'off', expected one of online, offline, disabled"):
        conceptwatch.init("run", concepts=1, mode="off")


@pytest.mark.parametrize(("release", "times"), [("1.3.3", 1), ("1.2.9", 0)])
def test_a_sidecar_of_another_release_is_said_once(
    release: str, times: int, sidecar: Sidecar, start: Start, warned: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conceptwatch._sender.__version__", "1.2.3")
    sidecar.start.server_version = release
    address = sidecar.serve()
    run = start(address=address)
    run._sender.wait_declared(run._link, 10.0)
    sidecar.close()
    sidecar.serve(address)
    run.log(step=1, **batch())
    wait_for(lambda: acknowledged(run))
    assert sum(f"the sidecar {release}" in line for line in warned()) == times
