"""Labels as data sets code them arrive as class numbers; what is missing is unknown, or refused by its row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conceptwatch._labels import Labels
from conceptwatch._tensors import Fault
from conftest import K, Start, Warned, batch, package, wait_for
from sidecar import Sidecar


def declared(*cardinalities: int, **options: Any) -> Labels:
    """Labels of concepts c0, c1, ... with these numbers of classes."""
    names = tuple(f"c{i}" for i in range(len(cardinalities)))
    return Labels(names, tuple(cardinality <= 2 for cardinality in cardinalities), **options)


BINARY = declared(0, 2)


def unknown_or_refused(labels: Any) -> np.ndarray[Any, Any]:
    """The labels with missing ones declared; without, they are refused by the rows."""
    with pytest.raises(
        Fault, match=r"^concept_labels: got masked or missing values in row 1, 3, .*missing_concept_labels"
    ):
        BINARY.plain({"concept_labels": labels})
    plain = declared(0, 2, missing=True).plain({"concept_labels": labels})["concept_labels"]
    assert type(plain) is np.ndarray
    assert plain.dtype.kind in "if"
    return plain


def test_masked_labels_are_unknown(torch: Any) -> None:
    values = np.array([[0, 1], [1, 7], [1, 1], [9, 0]])
    mask = values > 1
    for dtype in ("int64", "uint8", "float32"):
        plain = unknown_or_refused(np.ma.array(values.astype(dtype), mask=mask))
        unknown = np.isnan(plain) if plain.dtype.kind == "f" else plain == -1
        assert np.array_equal(unknown, mask)
        assert np.array_equal(plain[~mask], values[~mask])
    masked = torch.masked.masked_tensor(torch.tensor(values), torch.tensor(~mask))
    assert unknown_or_refused(masked).tolist() == [[0, 1], [1, -1], [1, 1], [-1, 0]]
    rows = list(np.ma.array(values, mask=mask))
    assert unknown_or_refused(rows).tolist() == [[0, 1], [1, -1], [1, 1], [-1, 0]]
    whole = np.ma.array([[0, 1], [1, 0]])
    assert BINARY.plain({"concept_labels": whole})["concept_labels"].tolist() == [[0, 1], [1, 0]]


def test_missing_values_of_tables_are_unknown_labels() -> None:
    pandas = package("pandas")
    columns = {"wing": [0, 1, 1, pandas.NA], "beak": [1, None, 0, 1]}
    for dtype in ("Int64", "boolean", "Float32"):
        table = pandas.DataFrame(columns).astype(dtype)
        plain = unknown_or_refused(table)
        assert [row for row in range(4) if not (plain[row] >= 0).all()] == [1, 3]
        assert plain[[0, 2]].tolist() == [[0, 1], [1, 0]]
    known = pandas.DataFrame({"wing": [0, 1], "beak": [1, 1]}).astype("Int64")
    plain = BINARY.plain({"concept_labels": known, "task_labels": known["wing"]})
    assert np.asarray(plain["concept_labels"]).tolist() == [[0, 1], [1, 1]]


@pytest.mark.parametrize("name", ["concept_activations", "task_labels", "sample_ids"])
def test_other_tensors_have_no_missing_values(name: str) -> None:
    pandas = package("pandas")
    for value in (np.ma.array([1, 2, 3], mask=[0, 0, 1]), pandas.Series([1, 2, pandas.NA], dtype="Int64")):
        with pytest.raises(Fault, match=f"^{name}: got masked or missing values in row 2, expected a value in each"):
            declared(0, missing=True).plain({name: value})


def test_signed_labels_are_absent_and_present(torch: Any) -> None:
    signed = declared(0, 2, 5, signed=True)
    labels = np.array([[-1, 1, 4], [1, -1, 0]])
    for kind in ("int8", "int64", "float16", "float32"):
        plain = signed.plain({"concept_labels": labels.astype(kind)})["concept_labels"]
        assert (plain.dtype, plain.tolist()) == (np.dtype(kind), [[0, 1, 4], [1, 0, 0]])
        tensor = torch.as_tensor(labels).to(getattr(torch, kind))
        plain = signed.plain({"concept_labels": tensor})["concept_labels"]
        assert (plain.dtype, plain.tolist()) == (tensor.dtype, [[0, 1, 4], [1, 0, 0]])
    flags = np.array([[False, True, True]])
    assert signed.plain({"concept_labels": flags})["concept_labels"] is flags


def test_a_signed_label_of_0_is_unknown_or_refused(torch: Any) -> None:
    labels = np.array([[-1, 1], [1, 0]])
    with pytest.raises(Fault, match=r"^concept_labels: row 1 has 0 in column 1, expected -1 or 1, as signed_labels"):
        declared(0, 0, signed=True).plain({"concept_labels": labels})
    missing = declared(0, 0, missing=True, signed=True)
    assert missing.plain({"concept_labels": labels})["concept_labels"].tolist() == [[0, 1], [1, -1]]
    # On a device it is not looked at, so a class follows that the sidecar refuses.
    plain = declared(0, 0, signed=True).plain({"concept_labels": torch.as_tensor(labels)})
    assert plain["concept_labels"].tolist() == [[0, 1], [1, 2]]


def test_certainties_are_present_absent_or_unknown(torch: Any) -> None:
    labels = np.array([[0.0, 0.5, 3.0, 0.25], [1.0, 0.51, 0.0, 0.75], [0.4, 0.6, 2.0, 7.5]])
    for low, high, expected in (
        (0.5, 0.5, [[0, -1, 3, 0.25], [1, 1, 0, 0.75], [0, 1, 2, 7.5]]),
        (0.4, 0.6, [[0, -1, 3, 0.25], [1, -1, 0, 0.75], [-1, -1, 2, 7.5]]),
    ):
        # The third has classes, and the fourth is a number.
        soft = Labels(("a", "b", "c", "d"), (True, True, False, False), soft=(low, high))
        for kind in ("float32", "float64"):
            for array in (labels.astype(kind), torch.as_tensor(labels.astype(kind))):
                plain = soft.plain({"concept_labels": array})
                assert str(plain["concept_labels"].dtype) == str(array.dtype)
                assert plain["concept_labels"].tolist() == expected
                assert soft.unknown(plain) == str(expected).count("-1")
    certain = np.array([[0, 1, 3, 1]])
    assert soft.plain({"concept_labels": certain})["concept_labels"] is certain


@pytest.mark.parametrize(("value", "says"), [(1.25, "1.25"), (-0.5, "-0.5"), (math.nan, "nan"), (-1.0, "-1")])
def test_what_is_no_certainty_is_named(torch: Any, value: float, says: str) -> None:
    labels = np.array([[0.0, 1.0], [1.0, value]], np.float32)
    message = f"^concept_labels: row 1 has {says} for concept 'c1', expected 0 to 1, as soft_labels is declared"
    for array in (labels, torch.as_tensor(labels)):
        with pytest.raises(Fault, match=message):
            declared(0, 0, soft=(0.5, 0.5)).plain({"concept_labels": array})
        if says in ("nan", "-1"):
            plain = declared(0, 0, soft=(0.5, 0.5), missing=True).plain({"concept_labels": array})
            assert plain["concept_labels"].tolist() == [[0, 1], [1, -1]]


def test_a_run_counts_the_labels_that_are_too_uncertain(sidecar: Sidecar, start: Start) -> None:
    run = start(soft_labels=(0.4, 0.6))
    labels = np.array([[0.0, 0.5, 1.0], [0.6, 0.9, 0.39]], np.float32)
    with run.evaluation(step=1) as p:
        p.log(concept_activations=np.full((2, 3), 0.25), concept_labels=labels)
    assert run.finish()
    arrived = np.frombuffer(sidecar.received[0].data("concept_labels"), np.float32)
    assert arrived.tolist() == [0, -1, 1, -1, 1, 0]
    assert sidecar.starts[0].run.missing_concept_labels
    assert run.stats.labels_unknown == 2
    with pytest.raises(ValueError, match=r'soft_labels: got .*, expected "threshold", or two bounds'):
        start(soft_labels=(0.6, 0.4))
    with pytest.raises(ValueError, match="soft_labels: leave it out with signed_labels"):
        start(soft_labels="threshold", signed_labels=True)


def test_a_run_sends_signed_labels_as_0_and_1(sidecar: Sidecar, start: Start) -> None:
    labels = np.array([[-1, 1, 1], [1, -1, -1]])
    seen: list[Any] = []

    def head(concepts: Any) -> Any:
        seen.append(np.asarray(concepts))
        return np.zeros((len(concepts), 2))

    run = start(signed_labels=True, head=head)
    with run.evaluation(step=1) as p:
        p.log(concept_activations=np.full((2, 3), 0.25), concept_labels=labels, task_labels=np.zeros(2, int))
    wait_for(lambda: bool(sidecar.received))
    arrived = np.frombuffer(sidecar.received[0].data("concept_labels"), np.int64)
    assert arrived.tolist() == [0, 1, 1, 1, 0, 0]
    assert any(np.array_equal(values, [[0, 1, 1], [1, 0, 0]]) for values in seen), "the head is given true values"


def test_a_batch_of_masked_activations_is_dropped_and_named(sidecar: Sidecar, start: Start, warned: Warned) -> None:
    run = start()
    with run.evaluation(step=1) as p:
        p.log(concept_activations=np.ma.array(np.zeros((2, 3)), mask=[[0, 0, 0], [1, 0, 0]]))
        p.log(concept_activations=np.zeros((4, 3)))
    assert run.finish()
    assert run.stats.rows_dropped == {"invalid": 2}
    assert "concept_activations: got masked or missing values in row 1" in warned()[0]
    assert sidecar.ends[0].rows == 6, "the rows are missing"


def test_names_of_classes_are_their_numbers() -> None:
    pandas = package("pandas")
    names = ["wren", "auk", "wren", "owl"]
    forms = [names, tuple(names), np.array(names), np.array(names, object)]
    of_hdf5 = np.array(names, "S")
    forms += [of_hdf5, of_hdf5.astype(object)]
    forms += [pandas.Series(names), pandas.Series(names, dtype="string"), pandas.Categorical(names)]
    named = declared(0, 2, task_classes=["auk", "wren", "owl"])
    for form in (*forms, np.array([1, 0, 1, 2]), [1, 0, 1, 2]):
        plain = named.plain({"task_labels": form, "task_predictions": form})
        assert [np.asarray(plain[name]).tolist() for name in plain] == [[1, 0, 1, 2]] * 2
    assert named.plain({"task_labels": np.array([["auk"], ["owl"]])})["task_labels"].tolist() == [[0], [2]]
    for wrong in (["auk", "emu"], np.array(["auk", "emu"]), pandas.Series(["auk", "emu"])):
        with pytest.raises(
            Fault, match="task_labels: got 'emu' in row 1, expected one of task_classes: 'auk', 'wren',"
        ):
            named.plain({"task_labels": wrong})
    masked = np.ma.array(names, mask=[0, 1, 0, 0])
    absent: list[Any] = [["wren", None, "wren", "owl"], pandas.Series(names).mask([False, True, False, False]), masked]
    some = declared(0, 2, task_classes=["auk", "wren", "owl"], missing_tasks=True)
    for form in absent:
        assert some.plain({"task_labels": form})["task_labels"].tolist() == [1, -1, 1, 2]
        with pytest.raises(Fault, match="task_labels: got masked or missing values in row 1"):
            named.plain({"task_labels": form})
        with pytest.raises(Fault, match="task_predictions: got masked or missing values in row 1, expected"):
            some.plain({"task_predictions": form})


def test_a_run_takes_names_of_classes_or_says_how(sidecar: Sidecar, start: Start, warned: Warned) -> None:
    pandas = package("pandas")
    names = ["wren", "auk", "wren", "auk"]
    tensors = {**batch(4), "task_labels": names}
    named = start(name="named", task_classes=["auk", "wren"])
    named.log(step=1, **tensors)
    assert named.finish()
    assert (named.stats.rows_acknowledged, warned()) == (4, [])
    forms = {
        "strings": np.array(names),
        "objects": np.array(names, object),
        "missing": np.array([*names[:3], None], object),
        **{kind: pandas.Series(names, dtype=kind) for kind in ("object", "string", "category")},
    }
    for kind, form in forms.items():
        without = start(name=f"without {kind}", address=named.address)
        without.log(step=1, **{**tensors, "task_labels": form})
        said = "task_labels are strings; pass their names to init as task_classes, or send class numbers"
        assert said in warned()[-1], kind
        assert len(warned()) == list(forms).index(kind) + 1


@pytest.mark.parametrize(
    ("classes", "says"),
    [
        ("auk", "got 'auk', expected a list"),
        (["a", 1], "got 1, expected a list"),
        (["a", "a"], "two classes are named"),
    ],
)
def test_names_of_classes_that_are_none(classes: Any, says: str) -> None:
    with pytest.raises(ValueError, match=f"task_classes: {says}"):
        conceptwatch.init("run", concepts=K, task_classes=classes, mode="disabled")


def test_tables_in_different_orders_are_refused() -> None:
    pandas = package("pandas")
    table = pandas.DataFrame({"c0": [0.1, 0.9, 0.8], "c1": [0.2, 0.7, 0.4]})
    labels = (table > 0.5).astype(int)
    assert set(BINARY.plain({"concept_activations": table, "concept_labels": labels})) == {
        "concept_activations",
        "concept_labels",
    }
    with pytest.raises(
        Fault, match=r"^task_labels: has the rows of concept_labels in another order, by their index; put"
    ):
        BINARY.plain({"concept_labels": labels, "task_labels": pandas.Series([0, 1, 1], index=[2, 0, 1])})
    with pytest.raises(Fault, match=r"^concept_labels: has the columns \['c1', 'c0'\], expected \['c0', 'c1'\]; put"):
        BINARY.plain({"concept_labels": labels[["c1", "c0"]]})
    names = {"c0": "wing", "c1": "beak"}
    with pytest.raises(Fault, match="concept_labels: has the columns"):  # names that only the tables have
        BINARY.plain(
            {
                "concept_activations": table.rename(columns=names),
                "concept_labels": labels[["c1", "c0"]].rename(columns=names),
            }
        )
    polars = package("polars")
    with pytest.raises(Fault, match=r"^concept_labels: has the columns \['c1', 'c0'\], expected \['c0', 'c1'\]; put"):
        BINARY.plain({"concept_activations": polars.DataFrame(table.to_dict("list")),
                      "concept_labels": polars.DataFrame(labels[["c1", "c0"]].to_dict("list"))})  # fmt: skip
    # Tables of other rows are taken as they stand: predictions often lack the index of the labels.
    BINARY.plain({"concept_activations": table, "concept_labels": labels.set_index(pandas.Index([7, 8, 9]))})
