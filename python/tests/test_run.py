"""What a run states about itself, and what it reads back."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conceptwatch import Binary, Categorical, Continuous
from conceptwatch._declaration import concepts_of
from conceptwatch._protocol import messages
from conftest import Start, Warned, batch, evaluated, wait_for
from sidecar import Sidecar


def test_a_run_is_declared_with_all_it_states(sidecar: Sidecar, start: Start) -> None:
    run = start(
        name="cub/joint 1", concepts=["wing", ("colour", 4)], activation_kind="logit", task_labels="continuous",
        missing_concept_labels=True,
        labels={"lambda": 0.01, "seed": 3}, project="birds", reference_task_accuracy=0.9, concept_weights=[1, 2],
        head_weights=np.arange(6).reshape(3, 2), head_bias=[0.5, 1.5, 2.5], image_size=(299, 300), box_size=(90, 91),
        concept_parts=[[0, 1], []], concept_score_weight=2.5, activity_threshold=0.25, active_top_k=1,
        clarity_weights=[1, 2, 0], intervention_counts=[0, 2], rank=1, world_size=4,
    )  # fmt: skip
    wait_for(lambda: bool(sidecar.starts))
    declared, constants = sidecar.starts[0].run, sidecar.starts[0].run.constants
    assert (declared.name, declared.world_size, run._link.rank) == ("cub/joint 1", 4, 1)
    assert [(concept.name, concept.cardinality) for concept in declared.concepts] == [("wing", 0), ("colour", 4)]
    assert declared.activation_kind == messages.ACTIVATION_KIND_LOGIT
    assert declared.concept_label_kind == messages.LABEL_KIND_CLASS
    assert declared.task_label_kind == messages.LABEL_KIND_CONTINUOUS
    assert declared.missing_concept_labels
    assert dict(declared.labels) == {"lambda": "0.01", "project": "birds", "seed": "3"}
    assert constants.reference_task_accuracy == 0.9
    assert list(constants.concept_weights) == [1, 2]
    assert list(constants.head_weights) == [0, 1, 2, 3, 4, 5]
    assert list(constants.head_bias) == [0.5, 1.5, 2.5]
    assert (constants.image_height, constants.image_width) == (299, 300)
    assert (constants.box_height, constants.box_width) == (90, 91)
    assert [list(concept.parts) for concept in constants.concept_parts] == [[0, 1], []]
    assert constants.concept_score_weight == 2.5
    assert (constants.activity_threshold, constants.active_top_k) == (0.25, 1)
    assert list(constants.clarity_weights) == [1, 2, 0]
    assert list(constants.intervention_counts) == [0, 2]


def test_the_layout_of_activations_is_declared(sidecar: Sidecar, start: Start) -> None:
    for layout in ({}, {"activation_columns": "two_per_concept"}, {"latents": 7}):
        run = start(name=f"layout {layout.get('latents', layout.get('activation_columns', ''))}", concepts=3, **layout)
        columns = {"two_per_concept": 6, None: 7 if "latents" in layout else 3}[layout.get("activation_columns")]
        run.log(step=1, concept_activations=np.zeros((4, columns)))
        assert run.stats.batches_dropped == {}
    wait_for(lambda: len(sidecar.starts) == 3)
    declared = {(start.run.activation_columns, start.run.latents) for start in sidecar.starts}
    one, two = messages.ACTIVATION_COLUMNS_ONE_PER_CONCEPT, messages.ACTIVATION_COLUMNS_TWO_PER_CONCEPT
    assert declared == {(one, 0), (two, 0), (one, 7)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"activation_kind": "sigmoid"}, {"concept_labels": "int"}, {"concepts": []}, {"rank": 2, "world_size": 2},
        {"activation_columns": "both"}, {"latents": 2}, {"latents": 65_537},
        {"activation_columns": "two_per_concept", "latents": 6}, {"head_weights": np.zeros((3, 4))},
    ],
)  # fmt: skip
def test_an_argument_no_sidecar_would_take_is_an_error_at_once(wrong: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"concepts": 3, **wrong}
    with pytest.raises(ValueError, match=next(iter(wrong))):
        conceptwatch.init("run", spawn=False, **arguments)


@pytest.mark.parametrize(
    ("concepts", "says"),
    [
        ("abc", "concepts: got 'abc', expected a list of concepts, each a name"),
        (3.5, "concepts: got 3.5, expected a list"),
        (None, "concepts: got None, expected a list"),
        (True, "concepts: got True, expected a list"),
        ({"a": 3}, "concepts: got {'a': 3}, expected a list"),
        ({"a", }, "concepts: got {'a'}, expected a list"),
        (-1, "concepts: got -1, expected at least one"),
        (["a", 3], "concepts[1]: got 3, expected a name, (name, number of classes) pair, Binary, Categorical or Co"),
        ([("a", 3, 4)], "concepts[0]: got ('a', 3, 4), expected a name, (name"),
        ([("a", 2.5)], "concepts[0]: got ('a', 2.5), expected a name, (name"),
        ([(3, "a")], "concepts[0]: got (3, 'a'), expected a name, (name"),
        ([("a", -1)], "concepts[0]: got -1 classes, expected 0 to 65536"),
        ([Categorical("a", 1)], "concepts[0].classes: got 1, expected 2 to 65536"),
        ([Binary("a", "relu")], "concepts[0].activation_kind: got 'relu', expected one of hard, probability"),
        ([Continuous("a"), "a"], "concepts: two concepts are named 'a'"),
        ([Continuous(3)], "concepts[0]: got Continuous(name=3), expected a name"),
    ],
)  # fmt: skip
def test_what_is_no_list_of_concepts_is_named(concepts: Any, says: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(says)}"):
        conceptwatch.init("run", concepts=concepts, spawn=False)


def test_concepts_are_any_sequence_of_names_and_pairs() -> None:
    found = concepts_of(np.array(["a", "b"]))
    assert [one.name for one in found] == ["a", "b"]
    found = concepts_of([("a", np.int64(3)), ["b", 2], np.str_("c")])
    assert [(one.name, one.cardinality) for one in found] == [("a", 3), ("b", 2), ("c", 0)]
    assert [one.name for one in concepts_of(np.int64(2))] == ["c0", "c1"]


def test_concepts_of_several_kinds_are_declared() -> None:
    kinds = [Binary("a"), Binary("b", "hard"), Categorical("c", 3, "logit"), Continuous("d"), "e", ("f", 4)]
    found = concepts_of(kinds)
    of_class, number = messages.LABEL_KIND_CLASS, messages.LABEL_KIND_CONTINUOUS
    hard, logit = messages.ACTIVATION_KIND_HARD, messages.ACTIVATION_KIND_LOGIT
    continuous = messages.ACTIVATION_KIND_CONTINUOUS
    assert [(one.name, one.cardinality, one.activation_kind, one.label_kind) for one in found] == [
        ("a", 0, 0, of_class), ("b", 0, hard, of_class), ("c", 3, logit, of_class), ("d", 0, continuous, number),
        ("e", 0, 0, 0), ("f", 4, 0, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("epoch", [float("nan"), np.float32("inf"), -1.0, "two"])
def test_an_epoch_that_is_none_leaves_the_evaluation_as_it_is(
    epoch: Any, sidecar: Sidecar, start: Start, warned: Warned
) -> None:
    run = start()
    evaluated(run, batch(), epoch=epoch)
    run.log(step=2, epoch=epoch, **batch())
    assert run.finish()
    assert run.stats.batches_dropped == {}
    assert [end.HasField("epoch") for end in sidecar.ends] == [False]
    assert [received.head.HasField("epoch") for received in sidecar.received] == [False, False]
    assert [line.partition("run 'run': ")[2] for line in warned()] == [
        f"epoch: got {epoch!r}, expected a number of at least 0. The evaluation is kept, without an epoch"
    ]


@pytest.mark.parametrize("step", ["x", "3", None, -1, 1.5, np.float32(2.25), 1 << 64, float("nan")])
def test_a_step_that_is_none_does_not_raise_into_the_loop(
    step: Any, sidecar: Sidecar, start: Start, warned: Warned
) -> None:
    run = start()
    assert evaluated(run, batch(), step=step).scores() is None
    if step is not None:  # which stands for the newest
        assert run.scores(step=step) is None
        assert run.diagnosis(step=step) is None
    assert run.should_stop(step=step) is False
    assert warned() == [
        f"conceptwatch, run 'run': step: got {step!r}, expected a whole number of at least 0. The batch of 'val' was "
        "dropped; run.stats.batches_dropped counts such batches"
    ]
    assert run.stats.rows_dropped == {"invalid": 10}
    for valid in (np.int64(3), 4.0, np.float64(5)):
        evaluated(run, batch(), step=valid)
    assert run.finish()
    assert [end.step for end in sidecar.ends] == [3, 4, 5]
    strict = start(address=run.address, raise_errors=True)
    if step is not None:
        with pytest.raises(conceptwatch.ConceptwatchError, match=r"^step: got"):
            strict.scores(step=step)


def test_the_page_is_where_the_sidecar_says(sidecar: Sidecar, start: Start) -> None:
    sidecar.start.page_url = "http://127.0.0.1:4321/"
    assert start().page_url == "http://127.0.0.1:4321/"
    assert start(address="127.0.0.1:9", name="nothing listens").page_url == "http://127.0.0.1:10"


@pytest.mark.parametrize("content", [None, "", "short", "a token with spaces in it", "ümlaute-ümlaute-ümlaute"])
def test_a_token_file_without_a_token_is_an_error_at_once(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match="token_file: "):
        conceptwatch.init("run", concepts=3, spawn=False, token_file=path)


def test_scores_are_read_back(sidecar: Sidecar, start: Start) -> None:
    run = start()
    sidecar.point = messages.Point(
        run="run", split="val", step=5, epoch=1.5, rows=4096, rows_seen=5000, tie_fraction=0.25,
        scores=[
            messages.Score(id="ctl", value=0.0, standard_error=0.01, per_concept=[0.1, 0.2, 0.3]),
            messages.Score(
                id="icl", value=0.25, age=45.0, left_out=[1], left_out_why="one class", left_out_pairs=4, left_out_of=3,
                p_value=0.005, per_concept_q=[0.5, math.nan, 1.0],
                curve=[messages.CurvePoint(x=0.0, y=0.5), messages.CurvePoint(x=0.5)],
            ),
            messages.Score(id="ois", undefined="one class"),
        ],
        concept_rows=[4096, 50, 4000],
    )  # fmt: skip
    p = evaluated(run, batch(), step=5)
    scores = p.scores(timeout=60.0)
    assert (scores.step, scores.epoch, scores.rows, scores.tie_fraction) == (5, 1.5, 4096, 0.25)
    assert (scores["ctl"].value, scores["ctl"].standard_error) == (0.0, 0.01)
    assert scores["ctl"].per_concept == (0.1, 0.2, 0.3)
    assert (scores["ois"].value, scores["ois"].undefined) == (None, "one class")
    assert list(scores) == ["ctl", "icl", "ois"]
    assert (scores["ctl"].age, scores["icl"].age) == (None, 45.0)
    assert "rows=4096, ± 95 %: ctl=0.0000 ± 0.0196" in repr(scores)
    icl = scores["icl"]
    assert (icl.left_out, icl.left_out_why, icl.left_out_pairs, icl.left_out_of) == ((1,), "one class", 4, 3)
    assert (icl.p_value, icl.per_concept_q[0], icl.curve) == (0.005, 0.5, ((0.0, 0.5), (0.5, None)))
    assert str(icl) == "0.2500 (over 2 of 3 concepts)"
    assert (scores["ctl"].left_out, scores["ctl"].p_value, scores["ctl"].curve) == ((), None, ())
    assert scores.concept_rows == (4096, 50, 4000)
    sidecar.point = None
    assert p.scores(timeout=0.0) is None


def test_advice_for_a_step_does_not_change(sidecar: Sidecar, start: Start) -> None:
    run = start()
    assert run.should_stop(step=1) is False
    sidecar.stop = True
    assert run.should_stop(step=1) is False
    assert run.should_stop(step=2) is True
    assert [run.stop_reason(step=step) for step in (1, 2, 3)] == ["no rule fires", "a rule fires", ""]
    assert sidecar.advice_asked == 2
    # As long as a sidecar waits at most.
    assert run.should_stop(step=3, timeout=math.inf)
    sidecar.stopped = [-1]
    assert run.should_stop(step=4) is False
    assert run.stop_reason(step=4) == "the sidecar answered out_of_range: step: no"


def test_advice_is_asked_for_again_from_the_step_to_which_training_goes_back(sidecar: Sidecar, start: Start) -> None:
    run = start()
    for step in (1, 2, 3):
        evaluated(run, batch(), step=step)
        assert run.should_stop(step=step) is False
    sidecar.stop = True
    evaluated(run, batch(), step=2)
    assert [run.should_stop(step=step) for step in (1, 2, 3)] == [False, True, True]
    assert [request.attempt for request in sidecar.starts] == [0, 1]
    evaluated(run, batch(), step=2)  # once more at its step
    assert run.finish()
    assert len(sidecar.starts) == 2


def test_a_question_that_times_out_says_that_the_scores_are_late(
    sidecar: Sidecar, start: Start, warned: Warned
) -> None:
    run = start()
    p = evaluated(run, batch(), step=7)
    assert p.scores(timeout=30.0) is None
    assert run.should_stop(step=7, timeout=30.0) is False
    assert warned() == [], "answered in time"
    assert p.scores(timeout=1e-6) is None
    assert run.should_stop(step=8, timeout=1e-6) is False
    assert warned() == [
        "conceptwatch, run 'run': the scores of split 'val', step 7 are late: there are none after 1e-06 s",
        "conceptwatch, run 'run': whether to stop at step 8 was asked too early: no rule fires",
    ]


def test_late_scores_of_several_ranks_say_that_all_have_to_end_an_evaluation(
    sidecar: Sidecar, start: Start, warned: Warned
) -> None:
    run = start(world_size=3, rank=0)
    assert evaluated(run, batch()).scores(timeout=1e-6) is None
    assert run.should_stop(step=1, timeout=1e-6) is False
    (late, early) = warned()
    why = "Evaluations are scored once all 3 ranks have ended them; where one rank evaluates for all, pass world_size=1"
    assert f"there are none after 1e-06 s. {why}" in late
    assert f"no rule fires. {why}" in early


def test_a_step_evaluated_again_in_another_epoch_is_said_once(start: Start, warned: Warned) -> None:
    run = start()
    for epoch in (0.25, 0.75):  # gradients are accumulated in between
        evaluated(run, batch(), epoch=epoch)
    assert warned() == []
    for epoch in (1, 2):
        evaluated(run, batch(), epoch=epoch)
    (said,) = warned()
    assert "'val' is evaluated again at step 1, and the newest evaluation of a step takes the place of the one" in said


def test_advice_that_a_rank_has_missed_is_its_next_answer(sidecar: Sidecar, start: Start) -> None:
    address = sidecar.serve()
    run = start(address=address)
    assert run.should_stop(step=1) is False
    sidecar.close()
    assert run.should_stop(step=2, timeout=0.1) is False
    assert run.stop_reason(step=2) == "the sidecar did not answer"
    sidecar.restart(address, "another")
    evaluated(run, batch(), step=3)
    wait_for(lambda: len(sidecar.starts) == 2 and not run._sender.down)
    assert run.should_stop(step=3, timeout=30.0) is False
    sidecar.stopped = [1, 2]
    assert run.should_stop(step=4) is True
    assert run.stop_reason(step=4) == "missed at step 2: it fired"
    # Said once, and what was answered stays.
    assert [run.should_stop(step=step) for step in (2, 3, 5)] == [False] * 3
