"""Several tasks, and task labels that are not all known: what is sent, bad inputs, the real scores and verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conceptwatch import Binary, Categorical, Continuous, ReadError, interventions
from conceptwatch._protocol import messages
from conftest import K, Start, batch, evaluated, wait_for
from real_sidecar import answer, metrics, page, table
from sidecar import Sidecar

N = 40
# Two evaluations are not judged, and a drop is to last for four.
STEPS = 8
TASKS = ["edema", ("grade", 3)]


def list_of_outputs(x: Any) -> list[Any]:
    return [x[:, 0] - 0.5, np.stack([x[:, 1], x[:, 2], 0 * x[:, 0]], 1)]


def side_by_side(x: Any) -> Any:
    first, second = list_of_outputs(x)
    return np.concatenate([first[:, None], second], 1)


def test_a_head_returns_a_list_or_the_columns_of_its_tasks_side_by_side() -> None:
    tensors = batch(N)
    c_hat, c = tensors["concept_activations"], tensors["concept_labels"]
    made = interventions(list_of_outputs, c_hat, c, tasks=TASKS)
    right = made["intervention_predictions"]
    assert right.shape == made["wrong_intervention_predictions"].shape == (N, K + 1, 2)
    assert (right == interventions(side_by_side, c_hat, c, tasks=TASKS)["intervention_predictions"]).all()
    for task, one in enumerate([lambda x: list_of_outputs(x)[0], lambda x: list_of_outputs(x)[1]]):
        assert (right[:, :, task] == interventions(one, c_hat, c)["intervention_predictions"]).all()


@pytest.mark.parametrize("library", [np, "torch"])
def test_a_head_of_a_class_and_a_number_returns_both(library: Any) -> None:
    xp = pytest.importorskip("torch") if library == "torch" else np
    tensors = batch(N)
    c_hat, c = (xp.asarray(tensors[name]) for name in ("concept_activations", "concept_labels"))
    tasks, number = ["edema", Continuous("age")], xp.asarray(np.array([1.0] + [np.nan] * (N - 1), np.float32))

    def outputs(x: Any) -> list[Any]:
        return [x[:, 0] - 0.5, x[:, 1] + number]

    made = interventions(outputs, c_hat, c, tasks=tasks)["intervention_predictions"]
    assert tuple(made.shape) == (N, K + 1, 2)
    of_class = interventions(lambda x: outputs(x)[0], c_hat, c)["intervention_predictions"]
    of_number = interventions(lambda x: outputs(x)[1], c_hat, c, task_labels="continuous")["intervention_predictions"]
    np.testing.assert_array_equal(np.stack([of_class, of_number], 2), made)
    side = interventions(lambda x: xp.stack(outputs(x), 1), c_hat, c, tasks=tasks)["intervention_predictions"]
    np.testing.assert_array_equal(side, made)
    alone = interventions(lambda x: outputs(x)[1], c_hat, c, tasks=tasks[1:])["intervention_predictions"]
    np.testing.assert_array_equal(alone, of_number)
    with pytest.raises(ValueError, match=r"head returned shape \[40, 2\] for the task 'age', expected \[40, 1\]"):
        interventions(lambda x: [x[:, 0], x[:, :2]], c_hat, c, tasks=tasks)


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (
            lambda x: [x[:, 0]],
            "head returned 1 output for 2 tasks; it must return a list of 2 outputs, or their columns",
        ),
        (lambda x: x[:, :2], f"head returned shape [{N}, 2] for 2 tasks; it must return a list of 2 outputs"),
        (lambda x: [x[:, 0], x[:, :2]], f"head returned shape [{N}, 2] for the task 'grade', expected [{N}, 3]"),
    ],
)
def test_a_head_without_an_output_for_each_task_is_named(
    head: Any, says: str, sidecar: Sidecar, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    tensors = {**batch(N), "task_labels": np.zeros((N, 2), int)}
    with pytest.raises(ValueError, match="head returned") as raised:
        interventions(head, tensors["concept_activations"], tensors["concept_labels"], tasks=TASKS)
    assert says in str(raised.value)
    run = start(head=head, tasks=TASKS)
    evaluated(run, tensors)
    wait_for(lambda: sidecar.received)
    sent = {tensor.name: list(tensor.shape) for tensor in sidecar.received[0].head.tensors}
    assert sent["task_labels"] == [N, 2]
    assert sent["intervention_predictions"] == [N, K + 1, 2]
    assert says in caplog.text


def test_tasks_are_declared_by_name_pair_kind_or_number(sidecar: Sidecar, start: Start) -> None:
    start(tasks=[*TASKS, Binary("effusion"), Categorical("view", 4), Continuous("age")], missing_task_labels=True)
    declared = wait_for(lambda: sidecar.starts)[0].run
    unstated, of_classes, of_numbers = 0, messages.LABEL_KIND_CLASS, messages.LABEL_KIND_CONTINUOUS
    assert [(task.name, task.cardinality, task.label_kind) for task in declared.tasks] == [
        ("edema", 0, unstated),
        ("grade", 3, unstated),
        ("effusion", 0, of_classes),
        ("view", 4, of_classes),
        ("age", 0, of_numbers),
    ]
    assert declared.missing_task_labels
    for tasks, says in [
        (["a", "a"], "tasks: two tasks are named 'a'"),
        (0, "tasks: got none, expected at least one"),
        (
            "edema",
            "tasks: got 'edema', expected a list of tasks, each a name, \\(name, number of classes\\) pair, Binary,",
        ),
        ([Binary("edema", "logit")], "tasks\\[0\\].activation_kind: leave it out, only concepts have activations"),
        ([("a", "b")], "tasks\\[0\\]: got \\('a', 'b'\\)"),
    ]:
        with pytest.raises(ValueError, match=says):
            conceptwatch.init("bad", concepts=3, tasks=tasks, mode="disabled")


@pytest.mark.parametrize(
    ("name", "shape", "says"),
    [
        ("task_labels", (N,), f"task_labels has shape [{N}] instead of [n, 2] for the 2 tasks of init"),
        ("task_labels", (N, 3), f"task_labels has shape [{N}, 3] instead of [n, 2]"),
        ("task_logits", (N, 2), f"task_logits has shape [{N}, 2] instead of [n, 4]"),
        ("intervention_predictions", (N, 4), "instead of [n, m, 2]"),
    ],
)
def test_tensors_of_another_number_of_tasks_are_named(
    name: str, shape: tuple[int, ...], says: str, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    run = start(tasks=TASKS)
    evaluated(run, {**batch(N), "task_labels": np.zeros((N, 2), int), name: np.zeros(shape, np.float32)})
    assert says in caplog.text


def test_masked_task_labels_are_unknown_where_that_is_declared(
    sidecar: Sidecar, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    labels = np.ma.masked_array(np.zeros(N, int), [True] + [False] * (N - 1))
    run = start(missing_task_labels=True)
    evaluated(run, {**batch(N), "task_labels": labels})
    wait_for(lambda: sidecar.received)
    sent = {tensor.name: tensor for tensor in sidecar.received[0].head.tensors}["task_labels"]
    assert np.frombuffer(sent.data, np.int64)[:2].tolist() == [-1, 0]
    # -1 would be a value of a number.
    mixed = start(name="mixed", tasks=["edema", Continuous("age")], missing_task_labels=True, address=run.address)
    evaluated(mixed, {**batch(N), "task_labels": np.ma.stack([labels, labels], 1)})
    wait_for(lambda: len(sidecar.received) > 1)
    sent = {tensor.name: tensor for tensor in sidecar.received[1].head.tensors}["task_labels"]
    np.testing.assert_array_equal(np.frombuffer(sent.data, np.float64)[:4], [np.nan, np.nan, 0, 0])
    other = start(name="other")
    evaluated(other, {**batch(N), "task_labels": labels})
    assert "for unknown labels declare missing_task_labels=True" in caplog.text


# ---------------------------------------------------------------- the real sidecar


def chest(rows: int = 1500, seed: int = 0) -> dict[str, Any]:
    """Eight well-learnt findings, and three tasks of them: two of two classes, and a number.

    The second leaks into all activations, and is lost once these are true. A third of the labels is unknown.
    """
    random = np.random.default_rng(seed)
    c = random.integers(0, 2, (rows, 8))
    votes = np.stack([c[:, 3 * task : 3 * task + 2].sum(1) for task in range(3)], 1)
    y = votes + random.normal(0, 0.7, votes.shape)
    y[:, :2] = y[:, :2] > 1
    logits = 5.0 * (2 * c - 1) + 2.5 * (2 * y[:, 1:2] - 1) + random.normal(0, 0.3, c.shape)
    right = np.stack([y, y], 1)
    right[:, 1, 1] = random.integers(0, 2, rows)
    return {
        "concept_activations": (1 / (1 + np.exp(-logits))).astype(np.float32),
        "concept_labels": c,
        "task_labels": np.where(random.random(y.shape) < 1 / 3, [-100, -1, np.nan], y),
        "task_predictions": y,
        "intervention_predictions": right,
        "wrong_intervention_predictions": 1 - right,
        "sample_ids": np.arange(rows),
    }


def test_one_leaking_task_of_three_is_named_by_every_surface(address: str, tmp_path: Path) -> None:
    run = conceptwatch.init(
        "chest",
        concepts=[f"finding {i}" for i in range(8)],
        tasks=["edema", "effusion", Continuous("severity")],
        missing_task_labels=True,
        intervention_counts=[0, 8],
        address=address,
        spawn=False,
    )
    for step in range(1, STEPS + 1):
        found = evaluated(run, chest(seed=step), step=step).scores(timeout=60)
    drop = found["intervention_drop"]
    assert [round(float(one), 1) for one in drop.per_task] == [0.0, 0.5, 0.0]
    assert drop == pytest.approx(np.mean(drop.per_task))
    leakage = found["ctl_conditional"].per_task
    assert leakage[1] > 0.3 > max(leakage[0], leakage[2])
    # A score of one kind is the mean over the tasks of that kind.
    assert [score.value for score in found["task_accuracy"].per_task] == [1.0, 1.0, None]
    assert found["task_accuracy"].per_task[2].undefined == "the task labels are not classes"
    assert [score.value is None for score in found["task_r2"].per_task] == [True, True, False]
    assert (found["task_accuracy"], found["task_r2"]) == (1.0, pytest.approx(1.0))
    diagnosis = run.diagnosis("val", timeout=60)
    assert (diagnosis.verdict.state, diagnosis.verdict.task) == ("leaking", "effusion")
    assert "task: effusion" in str(diagnosis.verdict)
    (row,) = answer(address, "/api/v1/overview", split="val")["runs"]
    # The score of all tasks; ctl_conditional_r2 is the number's alone.
    shown = [row["spark"]["score"], row["concepts"]["score"], *(of for of in row["scores"] if "ctl_conditional" in of)]
    # The verdict's numbers are those of the task that decides, and so are the row's.
    values = [row["scores"][score]["value"] for score in ("intervention_drop", "ctl_conditional")]
    assert (shown, values) == (3 * ["ctl_conditional"], [drop.per_task[1], leakage[1]])
    rows = run.rows(frame="records")
    assert ({row["task"] for row in rows}, len(rows)) == ({"effusion"}, 50)
    assert [row["local"] for row in rows] == sorted((row["local"] for row in rows), reverse=True)
    assert rows == run.rows(task="effusion", frame="records")
    of_edema = run.rows(task="edema", concept="finding 1", top=5, frame="records")
    assert [row["task"] for row in of_edema] == 5 * ["edema"]
    assert len({row["task_label"] for row in run.rows(task="severity", frame="records")}) == 50, "a number"
    for task, share in zip(["edema", "effusion"], leakage, strict=False):
        assert sum(row["share"] for row in run.shares(task=task, frame="records")) == pytest.approx(share)
    with pytest.raises(ReadError, match="task: got 'nobody', expected one of edema, effusion, severity"):
        run.rows(task="nobody")
    exported = table("rows", tmp_path / "tables", "chest", "--address", page(address))
    assert {row["task"] for row in exported} == {"edema", "effusion", "severity"}
    of_mean = [int(row["id"]) for row in exported if (row["task"], row["concept"]) == ("effusion", "")]
    assert of_mean == [row["id"] for row in rows]
    # Verdicts are judged beside the scrapes.
    verdict = 'conceptwatch_verdict{run="chest",split="val",task="effusion",verdict="leaking"} 1\n'
    shown = wait_for(lambda: next((found for found in [metrics(address)] if verdict in found), None))
    decides = 'conceptwatch_verdict_value{run="chest",score="intervention_drop",split="val",task="effusion"} '
    assert decides in shown
    assert 'conceptwatch_per_task_intervention_drop{run="chest",split="val",task="effusion"}' in shown
    assert 'conceptwatch_per_task_task_r2{run="chest",split="val",task="severity"}' in shown
    assert 'conceptwatch_per_task_task_r2{run="chest",split="val",task="edema"}' not in shown
    assert run.should_stop(step=STEPS, timeout=30)
    run.finish()
