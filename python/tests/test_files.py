"""`python -m conceptwatch score` with Parquet and PyTorch files: the scores of the same arrays, and one line for files
that are damaged, hostile or need a package. Progress on a terminal."""

from __future__ import annotations

import json
import os
import pickle
import pty
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conceptwatch._files import CONSTANTS, wanted
from conftest import package, python
from real_sidecar import binary

pyarrow = package("pyarrow")
parquet = package("pyarrow.parquet", "pyarrow")
torch = package("torch")

ROOT = Path(__file__).parents[2]


def score(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "conceptwatch", "score", *arguments, CONCEPTWATCH_BINARY=binary(), **environment)


def scores(*arguments: str | Path) -> dict[str, Any]:
    done = score(*arguments, "--json", "--no-tests", "--scores", "ctl,icl,ctl_conditional")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray[Any, Any]]:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, (300, 3))
    activations = np.float32(0.6 * labels + 0.4 * random.random((300, 3)))
    return {"concept_activations": activations, "concept_labels": labels, "task_labels": labels.sum(1)}


@pytest.fixture
def expected(tmp_path: Path, arrays: dict[str, Any]) -> Any:
    np.savez(tmp_path / "plain.npz", **arrays)
    return scores(tmp_path / "plain.npz")["scores"]


def test_a_table_of_parquet_gives_the_scores_of_its_arrays(
    tmp_path: Path, arrays: dict[str, Any], expected: Any
) -> None:
    labels = {f"has_{name}": arrays["concept_labels"][:, at] for at, name in enumerate(["wing", "beak", "tail"])}
    columns = {"p": arrays["concept_activations"].tolist(), **labels, "y": arrays["task_labels"], "place": ["x"] * 300}
    table = pyarrow.table({**columns, "p": pyarrow.array(columns["p"], pyarrow.list_(pyarrow.float32()))})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=70)
    maps = ["--map", "concept_activations=p", "--map=concept_labels=has_*", "--map", "task_labels=y"]
    found = scores(tmp_path / "t.parquet", *maps)
    assert found["scores"] == expected
    assert found["passed_over"] == ["place"]


def test_tensors_of_pytorch_give_the_scores_of_their_arrays(
    tmp_path: Path, arrays: dict[str, Any], expected: Any
) -> None:
    tensors = {name: torch.tensor(array) for name, array in arrays.items()}
    torch.save({"outputs": tensors, "epoch": 3, "net": {"w": torch.zeros(9)}}, tmp_path / "o.pt")
    maps = [f"--map={name}=outputs.{name}" for name in arrays]
    found = scores(*maps, tmp_path / "o.pt")
    assert found["scores"] == expected
    assert found["passed_over"] == ["net.w"]
    for name, tensor in tensors.items():
        torch.save(tensor, tmp_path / f"{name}.pt")
    assert scores(*(tmp_path / f"{name}.pt" for name in tensors))["scores"] == expected


def test_names_of_classes_give_the_scores_of_their_numbers(tmp_path: Path, arrays: dict[str, Any]) -> None:
    labels = arrays["task_labels"].astype(np.int64)
    unknown = np.arange(len(labels)) < 9
    np.savez(tmp_path / "numbers.npz", **{**arrays, "task_labels": np.where(unknown, -1, labels)})
    expected = scores(tmp_path / "numbers.npz", "--missing-labels")["scores"]
    names = [None if missing else f"class {number}" for missing, number in zip(unknown, labels, strict=True)]
    texts = ["" if name is None else name for name in names]
    np.savez(tmp_path / "names.npz", **{**arrays, "task_labels": np.array(texts)})
    others = {name: arrays[name] for name in arrays if name != "task_labels"}
    torch.save(
        {"task_labels": texts, **{name: torch.tensor(array) for name, array in others.items()}}, tmp_path / "n.pt"
    )
    table = pyarrow.table({"task_labels": names, **{name: array.tolist() for name, array in others.items()}})
    parquet.write_table(table, tmp_path / "n.parquet", row_group_size=70)
    for file in ("names.npz", "n.pt", "n.parquet"):
        assert scores(tmp_path / file, "--missing-labels")["scores"] == expected, file


def test_numbers_lists_and_texts_of_pytorch_are_arrays(tmp_path: Path, arrays: dict[str, Any]) -> None:
    given = {"reference_task_accuracy": 0.9, "activation_kind": "logit", "image_size": torch.Size([8, 9])}
    np.savez(tmp_path / "plain.npz", **arrays, **given)
    expected = scores(tmp_path / "plain.npz")
    held = {name: array.tolist() for name, array in arrays.items()}
    torch.save({**held, **given, "task_logits": None, "epoch": 3, "rates": [0.1, 0.2]}, tmp_path / "o.pt")
    found = scores(tmp_path / "o.pt")
    assert found["scores"] == expected["scores"]
    assert (found["activation_kind"], found["passed_over"]) == ("logit", ["rates"])


class Code:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, ("ran",)


def _hostile(folder: Path) -> list[tuple[str, Path, str]]:
    def made(name: str, content: bytes | Callable[[Path], Any]) -> Path:
        path = folder / name
        if callable(content):
            content(path)
        else:
            path.write_bytes(content)
        return path

    def bomb(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("o/data.pkl", pickle.dumps({}))
            archive.writestr("o/data/0", bytes(1 << 28))

    whole = made("whole.pt", lambda path: torch.save({"concept_labels": torch.zeros(99, 2)}, path)).read_bytes()
    ones = pyarrow.table({"concept_labels": np.zeros(1 << 24, np.int8)})
    table = made("rows.parquet", lambda path: parquet.write_table(ones, path))
    ragged = pyarrow.table({"concept_labels": [[1, 2], [3]]})
    nested = pyarrow.table({"task_labels": [{"a": 1}]})
    huge = torch.zeros(1).expand(1 << 20, 1 << 20)
    return [
        ("no such file", folder / "none.pt", "cannot be opened: no such file"),
        ("no such table", folder / "none.parquet", "cannot be opened: no such file"),
        ("a file cut off", made("cut.pt", whole[: len(whole) // 2]), "is not a file that torch.save"),
        ("an older format", made("old.pt", pickle.dumps({"a": 1})), "is not a file that torch.save"),
        ("code", made("code.pt", lambda path: torch.save({"concept_labels": Code()}, path)), "which is not read"),
        ("a bomb", made("bomb.pt", bomb), "needs 257 MiB, expected at most 64: see --memory-mib"),
        ("any shape of one number", made("h.pt", lambda p: torch.save({"task_logits": huge}, p)), "see --memory-mib"),
        ("no tensor", made("n.pt", lambda path: torch.save({"epoch": 3}, path)), "holds dict without a tensor"),
        ("numbers alone", made("n2.pt", lambda path: torch.save([1, 2], path)), "holds no known array, got n2"),
        ("batches", made("b.pt", lambda p: torch.save({"task_labels": [torch.ones(2)] * 2}, p)), "is a list, expected"),
        ("a ragged list", made("r.pt", lambda p: torch.save({"task_labels": [[1], [2, 3]]}, p)), "cannot be read"),
        ("a large number", made("l.pt", lambda p: torch.save({"task_labels": [1 << 70]}, p)), "is a list, expected"),
        ("a sparse tensor", made("s.pt", lambda p: torch.save({"task_labels": torch.eye(2).to_sparse()}, p)), "layout"),
        ("a table cut off", made("cut.parquet", table.read_bytes()[:-9]), "cannot be read"),
        ("an empty table", made("empty.parquet", b""), "cannot be read"),
        ("rows of few bytes", table, "needs 128 MiB, expected at most 64: see --memory-mib"),
        ("lists of two lengths", made("r.parquet", lambda p: parquet.write_table(ragged, p)), "several lengths"),
        ("a table in a table", made("d.parquet", lambda p: parquet.write_table(nested, p)), "expected numbers"),
        ("a length for a table", made("l.parquet", b"PAR1" + struct.pack("<I", 1 << 31) + b"PAR1"), "cannot be read"),
    ]


# One process for all files, as PyTorch takes seconds to import.
SCORE_EACH = """
import sys
from conceptwatch.__main__ import main
for path in sys.argv[1:]:
    sys.argv[1:] = ["score", path, "--memory-mib", "64"]
    print(main(), flush=True)
    print("next file", file=sys.stderr, flush=True)
"""


def test_a_hostile_file_gets_one_line_and_status_2(tmp_path: Path) -> None:
    hostile = _hostile(tmp_path)
    done = python("-c", SCORE_EACH, *(path for _, path, _ in hostile), CONCEPTWATCH_BINARY=binary())
    assert done.stdout == "2\n" * len(hostile), done.stderr
    faults = []
    for (name, _, says), said in zip(hostile, done.stderr.split("next file\n"), strict=False):
        if said.count("\n") != 1 or says not in said:
            faults.append(f"{name}: {said!r}")
    assert not faults, "\n".join(faults)
    assert not Path("ran").exists()


@pytest.mark.parametrize(("package", "file"), [("pyarrow", "t.parquet"), ("torch", "t.pt")])
def test_a_package_that_is_missing_is_named(tmp_path: Path, package: str, file: str) -> None:
    (tmp_path / f"{package}.py").write_text("raise ImportError('not here')\n")
    (tmp_path / file).write_bytes(b"")
    done = score(tmp_path / file, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT / 'python'}")
    assert done.returncode == 2
    assert f"pip install {package}" in done.stderr


def test_names_that_the_program_knows_are_converted() -> None:
    source = (ROOT / "src/cli/outputs/names.rs").read_text(encoding="utf-8")
    listed = source.partition("CONSTANTS: [")[2].partition("];")[0]
    assert set(listed.split('"')[1::2]) == CONSTANTS
    assert wanted("concept_labels", [])
    assert wanted("concept_labels.wing", [])
    assert wanted("task_logits[3]", [])
    assert not wanted("net.w", [])
    assert not wanted("c2", ["c"])
    assert wanted("c2", ["c*"])
    assert wanted("c.x", ["c"])
    assert wanted("c", ["c"])


def test_a_terminal_shows_what_is_read_after_a_while(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    os.mkfifo(table)
    ours, theirs = pty.openpty()
    with subprocess.Popen([binary(), "score", table], stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        with open(table, "w", encoding="utf-8") as writing:
            writing.write("concept_labels.a,task_labels\n" + "1,0\n0,1\n" * 40_000)
            writing.flush()
            shown = b""
            while b"reading row" not in shown:
                shown += os.read(ours, 4096)
        assert process.wait(60) == 0
    os.close(ours)
