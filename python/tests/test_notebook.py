"""`conceptwatch.score` and `conceptwatch.mutual_information`: the numbers of the command and of closed forms, and an
exception for whatever goes wrong."""

from __future__ import annotations

import json
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conceptwatch import _child, mutual_information
from conftest import batch, package, python_environment
from real_sidecar import binary, printed

torch = package("torch")


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCEPTWATCH_BINARY", binary())


@pytest.fixture
def tensors() -> dict[str, Any]:
    """Three concepts, of which activations carry more about the task than the labels do."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, (400, 3))
    task = np.int64(labels.sum(1) > 1)
    activations = np.float32(0.5 * labels + 0.2 * task[:, None] + 0.3 * random.random((400, 3)))
    return {"concept_activations": activations, "concept_labels": labels, "task_labels": task}


@pytest.mark.parametrize("estimator", ["tie_aware", "published"])
def test_the_scores_are_those_of_the_command(tmp_path: Path, tensors: dict[str, Any], estimator: str) -> None:
    np.savez(tmp_path / "outputs.npz", **tensors)
    ids = ["ctl", "icl", "ctl_conditional"]
    options = ["--json", "--seed", "3", "--scores", ",".join(ids), "--estimator", estimator, "--neighbours", "4"]
    options += ["--repeats", "2"]
    command = ["score", tmp_path / "outputs.npz", "--activation-kind", "probability", *options]
    expected = json.loads(printed(*command))
    found = conceptwatch.score(**tensors, scores=ids, estimator=estimator, neighbors=4, repeats=2, seed=3, threads=1)
    assert sorted(found) == sorted(ids)
    for name, score in found.items():
        one = expected["scores"][name]
        assert score == one["value"]
        assert score.standard_error == one.get("standard_error")
        assert score.p_value == one.get("p_value")
        assert list(score.per_concept) == one.get("per_concept", [])
    flat = [math.nan if value is None else value for row in expected["scores"]["icl"]["matrix"] for value in row]
    np.testing.assert_array_equal(found["icl"].matrix, flat)
    assert (found.rows, found.estimator, found.tie_fraction) == (400, estimator, expected["tie_fraction"])
    assert found.verdict.state == expected["verdict"]["state"]


def test_verdict_diagnosis_table_and_frame_belong_to_the_scores(tensors: dict[str, Any]) -> None:
    found = conceptwatch.score(**tensors)
    assert found.verdict.state == "possibly_leaking"
    diagnosis = found.diagnosis()
    assert diagnosis.verdict == found.verdict
    assert str(diagnosis).startswith("400 rows, ± 95 %\npossibly leaking")
    assert "400 rows: possibly leaking" in found._repr_html_()
    assert repr(found).startswith("Scores(rows=400, ")
    rows = found.to_frame("records")
    assert [row["score"] for row in rows] == list(found)
    assert next(row for row in rows if row["score"] == "ctl")["standard_error"] == found["ctl"].standard_error
    assert pickle.loads(pickle.dumps(found)).defined == found.defined  # noqa: S301 (made here)


def test_torch_tensors_count_as_arrays(tensors: dict[str, Any]) -> None:
    expected = conceptwatch.score(**tensors, scores=["ctl", "task_auc"])
    of_torch = {
        name: torch.from_numpy(values).requires_grad_(name == "concept_activations") for name, values in tensors.items()
    }
    assert conceptwatch.score(**of_torch, scores=["ctl", "task_auc"]).defined == expected.defined


def test_lists_and_data_frames_count_as_arrays(tensors: dict[str, Any]) -> None:
    pandas = package("pandas")
    expected = conceptwatch.score(**tensors, scores="ctl")
    assert conceptwatch.score(**{name: values.tolist() for name, values in tensors.items()}, scores="ctl") == expected
    frames = {
        name: (pandas.DataFrame if values.ndim > 1 else pandas.Series)(values) for name, values in tensors.items()
    }
    assert conceptwatch.score(**frames, scores="ctl") == expected


def test_tasks_of_two_kinds(tensors: dict[str, Any]) -> None:
    number = tensors["concept_labels"].sum(1) + np.linspace(0, 0.9, len(tensors["task_labels"]))
    both = {**tensors, "task_labels": np.stack([tensors["task_labels"], number], 1)}
    both = {
        name: array for name, array in both.items() if name in ("concept_activations", "concept_labels", "task_labels")
    }
    found = conceptwatch.score(**both, tasks=["vote", conceptwatch.Continuous("size")], scores=["ctl"])["ctl"]
    of_class = conceptwatch.score(**{**both, "task_labels": tensors["task_labels"]}, scores=["ctl"])["ctl"]
    of_number = conceptwatch.score(**{**both, "task_labels": number}, task_kind="continuous", scores=["ctl"])["ctl"]
    assert found.per_task == (of_class, of_number)
    with pytest.raises(
        ValueError, match="for task 'size', expected class numbers; for measured quantities declare the"
    ):
        conceptwatch.score(**both, tasks=["vote", "size"])


def test_no_file_is_made(tmp_path: Path, tensors: dict[str, Any]) -> None:
    np.savez(tmp_path / "tensors.npz", **tensors)
    folder = tmp_path / "folder"
    folder.mkdir()
    script = (
        "import sys, numpy, conceptwatch; conceptwatch.score(**numpy.load(sys.argv[1]), scores='ctl');"
        "conceptwatch.mutual_information([0.0, 1.0, 2.0, 4.0] * 9, [0, 1, 1, 0] * 9)"
    )
    homes = dict.fromkeys(("HOME", "TMPDIR", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"), str(folder))
    changed = folder.stat().st_mtime_ns
    subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "tensors.npz")],
        cwd=folder, env=python_environment(**homes), check=True, timeout=120,
    )  # fmt: skip
    # Nor one that has gone again.
    assert folder.stat().st_mtime_ns == changed


def test_a_head_gives_interventions(tensors: dict[str, Any]) -> None:
    task = tensors["concept_labels"][:, 0]
    found = conceptwatch.score(**{**tensors, "task_labels": task}, head=lambda concepts: 2 * concepts[:, :1] - 1)
    assert found["intervention_drop"].value == pytest.approx(0.0, abs=0.2)
    assert "ctl" in found


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_labels_name_the_concepts(tensors: dict[str, Any], library: str) -> None:
    def first(columns: list[Any]) -> str | None:
        labels = package(library).DataFrame(dict(zip(columns, tensors["concept_labels"][:2].T, strict=True)))
        few = {**{name: values[:2] for name, values in tensors.items()}, "concept_labels": labels}
        return conceptwatch.score(**few, scores="icl")["icl"].undefined

    assert (first(["wing", "beak", "tail"]) or "").startswith("activations of concept 'wing': 2 rows are too few")
    if library == "pandas":
        assert (first([0, 1, 2]) or "").startswith("activations of concept 'c0': ")


def test_options_are_those_of_init(tensors: dict[str, Any]) -> None:
    logits = {**tensors, "concept_activations": 8 * tensors["concept_activations"] - 4}
    found = conceptwatch.score(
        **logits,
        activation_kind="logit",
        concepts=["wing", "beak", "tail"],
        concept_weights=[0, 0, 1],
        training="independent",
        scores=["ctl", "concept_accuracy"],
    )
    assert found["ctl"] == pytest.approx(found["ctl"].per_concept[2])
    signed = {**tensors, "concept_labels": 2 * tensors["concept_labels"] - 1}
    assert conceptwatch.score(**signed, signed_labels=True, scores="ctl") == conceptwatch.score(**tensors, scores="ctl")
    named = {**tensors, "task_labels": np.array(["no", "yes"])[tensors["task_labels"]]}
    found = conceptwatch.score(**named, task_classes=["no", "yes"], scores="ctl")
    assert found == conceptwatch.score(**tensors, scores="ctl")
    unknown = np.where(np.arange(400)[:, None] % 4, tensors["concept_labels"], -1)
    some = conceptwatch.score(**{**tensors, "concept_labels": unknown}, missing_concept_labels=True, scores="ctl")
    assert some.concept_rows == (300, 300, 300)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"concept_labels": np.zeros((400, 2), int)},
            "concept_activations has 3 columns, but score got 2 concepts; pass latents=3 if",
        ),
        ({"task_labels": np.zeros(399, int)}, "task_labels has 399 rows, but concept_activations has 400"),
        ({"concept_activation": np.zeros((400, 3))}, "did you mean concept_activations"),
        ({"task_labels": np.array(["a"] * 400)}, "task_labels are strings; pass their names as task_classes, or send"),
        ({"concept_activations": np.full((400, 3), np.nan)}, "^concept_activations: "),
        ({"concept_labels": np.full((400, 3), -1)}, "^concept_labels: "),
        ({"concept_labels": np.full((400, 3), 2.5)}, "concept_kind='continuous' for all; for certainties soft_labels$"),
        ({"task_labels": np.linspace(0, 1, 400)}, "for measured quantities pass task_kind='continuous'$"),
        ({"scores": ["ctl_conditonal"]}, "^scores: got 'ctl_conditonal', expected .* such as ctl_conditional, "),
        ({"estimator": "best"}, "estimator: got 'best', expected one of tie_aware, published"),
        ({"seed": -1}, "seed: got -1, expected a whole number from 0"),
        ({"threads": 0}, "threads: got 0, expected a whole number from 1 to 1024"),
        ({"neighbors": 0}, "neighbors: got 0, expected a whole number from 1 to 1000"),
        ({"repeats": 2.5}, "repeats: got 2.5, expected a whole number from 1 to 1000"),
        ({"memory_mib": 7}, "memory_mib: got 7, expected a whole number from 8 to 16777216"),
        (
            {"memory_mib": 8, "image_embeddings": np.zeros((400, 8192), np.float32)},
            "^tensors: need 13 MiB, expected at most 8: see memory_mib$",
        ),
        ({"task_kind": "number"}, "task_kind: got 'number', expected one of class, continuous"),
        ({"head": "model"}, "head: got 'model', expected a module or function"),
        ({"concept_weights": [1.0]}, "^concept_weights: "),
    ],
)
def test_bad_input_is_named(tensors: dict[str, Any], change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        conceptwatch.score(**{**tensors, **change})


def test_logits_that_are_declared_probabilities_are_a_warning(tensors: dict[str, Any]) -> None:
    tensors["concept_activations"] *= 4
    with pytest.warns(UserWarning, match="which is not a probability.* For logits pass activation_kind='logit', for"):
        conceptwatch.score(**tensors, scores=["ctl"])


def test_tensors_that_no_score_takes_are_named() -> None:
    with pytest.raises(ValueError, match="no score can be computed from these tensors"):
        conceptwatch.score(task_labels=batch(100)["task_labels"])


def stands_in(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """A shell script in place of the program."""
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    monkeypatch.setenv("CONCEPTWATCH_BINARY", str(path))


def test_a_panic_is_an_exception_with_its_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tensors: dict[str, Any]
) -> None:
    said = "thread main panicked at src/x.rs:1:2:\\nno rows\\nnote: run with RUST_BACKTRACE=1\\n"
    stands_in(monkeypatch, tmp_path, f"printf '3/46 ctl\\n{said}' >&2; exit 101")
    with pytest.raises(conceptwatch.ConceptwatchError, match=r"failed: thread main panicked at src/x.rs:1:2: no rows$"):
        conceptwatch.score(**tensors)


def test_too_little_memory_is_an_exception(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # 400 MB of address space, of which the arrays take 160 several times.
    stands_in(monkeypatch, tmp_path, f'ulimit -v 400000; exec "{binary()}" "$@"')
    with pytest.raises(conceptwatch.ConceptwatchError, match="memory"):
        mutual_information(np.random.default_rng(0).random((200_000, 100)), np.arange(200_000) % 2)


def test_a_program_that_is_killed_or_missing_is_an_exception(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tensors: dict[str, Any]
) -> None:
    stands_in(monkeypatch, tmp_path, "kill -9 $$")
    with pytest.raises(conceptwatch.ConceptwatchError, match="ended by SIGKILL, as for lack of memory"):
        conceptwatch.score(**tensors)
    monkeypatch.setenv("CONCEPTWATCH_BINARY", str(tmp_path / "none"))
    with pytest.raises(conceptwatch.ConceptwatchError, match="the program was not found"):
        conceptwatch.score(**tensors)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Background jobs of a shell ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# While it is written to, as more is sent than a pipe holds; or while it works.
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("width", [1000, 1])
def test_an_interrupt_ends_the_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tensors: dict[str, Any], width: int
) -> None:
    pid_file = tmp_path / "pid"
    stands_in(monkeypatch, tmp_path, f"echo $$ > {pid_file}; exec sleep 60")

    def interrupt() -> None:
        while not pid_file.exists() or not pid_file.read_text().strip():
            time.sleep(0.01)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        conceptwatch.score(**tensors, image_embeddings=np.zeros((400, width), np.float32))
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_long_work_shows_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tensors: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    stands_in(monkeypatch, tmp_path, "echo 46/46 test of ctl >&2; sleep 1; exit 1")
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    monkeypatch.delenv("CONCEPTWATCH_QUIET", raising=False)
    with pytest.raises(conceptwatch.ConceptwatchError, match="exit status 1"):
        conceptwatch.score(**tensors)
    assert not capsys.readouterr().err
    monkeypatch.setattr(_child, "QUIET", 0.0)
    with pytest.raises(conceptwatch.ConceptwatchError, match="exit status 1"):
        conceptwatch.score(**tensors)
    shown = capsys.readouterr().err
    # The last part has begun, and is not done.
    assert "\r[###################-] 46/46 test of ctl, 0 s" in shown
    assert shown.endswith(" \r")


def test_classes_are_counted() -> None:
    x, y = np.array([0, 0, 1, 1] * 25), np.array(["a", "a", "b", "a"] * 25)
    expected = 0.5 * math.log(0.5 / (0.5 * 0.75)) + 0.25 * math.log(2) + 0.25 * math.log(0.25 / (0.5 * 0.75))
    assert mutual_information(x, y) == pytest.approx(expected)
    assert mutual_information(x.astype(bool), y.astype(object)) == pytest.approx(expected)
    # Class numbers that 32 bits do not hold.
    assert mutual_information(x.astype(np.int64) << 40, y) == pytest.approx(expected)
    # A vector of classes is one class: here as many as there are pairs.
    assert mutual_information(y, np.stack([x, np.tile([0, 1, 2, 3], 25)], 1)) == pytest.approx(
        0.25 * math.log(4) + 0.75 * math.log(4 / 3)
    )


def test_numbers_and_classes() -> None:
    random = np.random.default_rng(0)
    classes = random.integers(0, 2, 3000)
    far = 100.0 * classes + random.random(3000)
    found = mutual_information(np.stack([far, random.random(3000)], 1), classes)
    assert [round(value, 1) for value in found] == [round(math.log(2), 1), 0.0]
    assert mutual_information(torch.from_numpy(far), torch.from_numpy(classes)) == found[0]


def test_each_column_is_estimated_as_alone() -> None:
    random = np.random.default_rng(0)
    x, y = random.random((500, 7)), random.random(500)
    found = mutual_information(x, y)
    assert found == [mutual_information(x[:, i], y) for i in range(7)]
    assert isinstance(found, conceptwatch.Estimates)
    np.testing.assert_array_equal(found.value, list(found))
    np.testing.assert_array_equal(found.standard_error, [one.standard_error for one in found])
    vectors = mutual_information(random.random((500, 2, 3)), y)
    assert len(vectors) == 2
    assert (vectors.standard_error > 0).all()


def test_columns_of_a_data_frame_keep_their_types() -> None:
    pandas, polars = package("pandas"), package("polars")
    random = np.random.default_rng(0)
    columns = {"size": random.random(500), "colour": random.choice(["red", "blue"], 500), "count": np.arange(500) % 3}
    y = columns["size"] + (columns["colour"] == "red")
    expected = [mutual_information(column, y) for column in columns.values()]
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns)):
        assert mutual_information(frame, y) == expected
        with pytest.raises(ValueError, match="y has columns of classes and of numbers, expected one kind; discrete_y"):
            mutual_information(y, frame)
        pairs = [f"{colour} {count}" for colour, count in zip(columns["colour"], columns["count"], strict=True)]
        assert mutual_information(y, frame[["colour", "count"]]) == mutual_information(y, pairs)
    missing = pandas.DataFrame({"colour": ["red", None, "blue"]})
    with pytest.raises(ValueError, match="colour: got missing values"):
        mutual_information(missing, np.zeros(3))


def test_tables_with_rows_in_different_orders_are_refused() -> None:
    pandas = package("pandas")
    x = pandas.DataFrame({"size": np.random.default_rng(0).random(500)})
    y = x["size"].sample(frac=1, random_state=0)
    for arguments in ((x, y), (x["size"], y), (np.arange(500.0), y, x["size"])):
        with pytest.raises(ValueError, match=r"has the rows of . in another order, by their index; put them in one"):
            mutual_information(*arguments)
    assert mutual_information(x, y.sort_index())[0] > 3
    assert mutual_information(x["size"], y.reset_index(drop=True).set_axis(range(1, 501))) < 1


def test_classes_can_be_stated() -> None:
    random = np.random.default_rng(0)
    classes, number = random.integers(0, 4, 1000), random.random(1000)
    of_classes = mutual_information(classes, number > 0.5)
    assert mutual_information(classes.astype(np.float32), number > 0.5, discrete_x=True) == of_classes
    assert mutual_information(number > 0.5, classes / 2, discrete_y=True) == mutual_information(number > 0.5, classes)
    of_numbers = mutual_information(classes.astype(float), number)
    assert mutual_information(classes, number, discrete_x=False) == of_numbers
    both = mutual_information(np.stack([classes, number], 1), number > 0.5, discrete_x=[True, False])
    assert both == [of_classes, mutual_information(number, number > 0.5)]
    assert mutual_information(number, number**2, classes / 2, discrete_given=True) == mutual_information(
        number, number**2, classes
    )


@pytest.mark.parametrize("classes", [False, True])
def test_what_a_third_variable_explains_is_taken_out(classes: bool) -> None:
    random = np.random.default_rng(0)
    given = random.integers(0, 3, 2000) if classes else random.normal(size=2000)
    x, y = (given + 0.3 * random.normal(size=2000) for _ in range(2))
    assert mutual_information(x, y) > 0.3
    assert abs(mutual_information(x, y, given)) < 0.1


def test_a_constant_column_is_undefined() -> None:
    x = np.stack([np.ones(100), np.arange(100.0)], 1)
    constant, other = mutual_information(x, np.arange(100.0) ** 2)
    assert (constant.value, constant.undefined) == (None, "a continuous variable is constant")
    assert other.value is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (np.zeros((2, 2, 2, 2)), np.zeros(2)),
            r"x has shape \[2, 2, 2, 2\] instead of \[n\] or \[n, m\] or \[n, m, d\]",
        ),
        ((np.zeros(3), np.zeros(2)), "y has 2 rows, but x has 3"),
        ((np.zeros(0), np.zeros(0)), r"x has shape \[0\]"),
        ((np.array([0.0, np.nan]), np.zeros(2)), "x has NaN or an infinity in row 1"),
        ((np.ma.masked_equal([0, 1], 1), np.zeros(2)), "x: got masked or missing values in row 1"),
        ((np.array(["a", None], object), np.zeros(2)), "x"),
        ((np.zeros(2, complex), np.zeros(2)), "x are of type complex128"),
        ((np.zeros(2), np.zeros(2), np.zeros((2, 2))), "given has 2 columns of numbers"),
        ((np.zeros((2, 2)), np.zeros((2, 2, 2))), r"y has shape \[2, 2, 2\] instead of \[n\] or \[n, d\]"),
        ((np.array([[0.0, 0.0], [0.0, np.inf]]), np.zeros(2)), r"x\[:, 1\] has NaN or an infinity in row 1"),
        ((np.zeros(2), np.zeros(2), None, 0), "neighbors: got 0, expected a whole number from 1 to 1000"),
    ],
)
def test_bad_arrays_are_named(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mutual_information(*arguments)


def test_stated_kinds_that_do_not_fit_are_named() -> None:
    x = np.zeros((3, 2))
    with pytest.raises(ValueError, match="discrete_x: got 3 values, expected 2, one for each column of x"):
        mutual_information(x, x[:, 0], discrete_x=[True] * 3)
    with pytest.raises(ValueError, match="y are strings, expected numbers"):
        mutual_information(x, ["a", "b", "a"], discrete_y=False)
