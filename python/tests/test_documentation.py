"""The code blocks of README.md, docs/ and python/README.md, run as they stand except for names and addresses.

Those about frameworks are in `test_integration_docs.py`, the tutorial's in `test_tutorial.py`. Commands that another
place runs are listed with it: one that is neither listed nor run fails the test.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conftest import package, python_environment
from real_sidecar import EAGER_OPTIONS, RealSidecar, binary, printed

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "python/README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
# What starts so is run elsewhere; `make test` by its parts.
ELSEWHERE = {
    "make demo": ".ci/run",
    "make test": ".ci/run",
    "pip install -v ./python": ".ci/run",
    "pip install conceptwatch-*.whl": "python/wheels/check.sh",
    "python -m conceptwatch demo": ".ci/run",
    "conceptwatch watch": "tests/ports/alerting.rs, tests/ports/peers.rs",
    "conceptwatch rm": "tests/commands/curate.rs",
    "conceptwatch push": "tests/upstream/main.rs",
    "sh deploy/hub/": "python/tests/test_quick_start.py",
    "python deploy/hub/trainings.py": "python/tests/test_quick_start.py",
    "(umask 077": "python/tests/test_slurm.py",
    "export CONCEPTWATCH_ADDRESS": "python/tests/test_hosts.py",
    "torchrun --nnodes": "python/tests/test_hosts.py",
    "sbatch deploy/slurm/": "python/tests/test_slurm.py",
    # As the sidecars there are told.
    "export CONCEPTWATCH_UPSTREAM": "python/tests/test_quick_start.py",
}
# Commands that ask a sidecar.
ASKING = ("compare", "diagnose", "export", "ls", "note", "rename")
# Their Python is run by `test_integration_docs.py` and `test_tutorial.py`.
APART = {"docs/integrations.md", "docs/scale.md", "docs/tutorial.md"}


def blocks(page: str, language: str) -> list[str]:
    if language == "python" and page in APART:
        return []
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def rows(random: np.random.Generator, n: int = 300, k: int = 112) -> dict[str, Any]:
    return {
        "ids": np.arange(n),
        "x": random.random((n, k), np.float32),
        "c": random.integers(0, 2, (n, k)),
        "y": random.integers(0, 3, n),
    }


class Model:
    """Predicts noise."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random

    def __call__(self, x: Any) -> Any:
        return x, self.head(x)

    def head(self, concepts: Any) -> Any:
        return self.random.random((len(concepts), 3), np.float32)


def output_of(command: Sequence[str], folder: Path) -> str:
    environment = python_environment(CONCEPTWATCH_BINARY=binary())
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def _write_tables(folder: Path, found: dict[str, Any]) -> None:
    columns = {
        **{f"p_{at}": found["x"][:, at] for at in range(3)},
        **{f"has_{at}": found["c"][:, at] for at in range(3)},
        "species": found["y"],
    }
    table = np.column_stack(list(columns.values()))
    np.savetxt(folder / "table.csv", table, delimiter=",", header=",".join(columns), comments="")
    pyarrow, parquet = package("pyarrow"), package("pyarrow.parquet", "pyarrow")
    parquet.write_table(pyarrow.table(columns), folder / "table.parquet")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[RealSidecar]:
    """With two runs of three concepts, in a folder with the files that the commands name."""
    random = np.random.default_rng(0)
    served = RealSidecar(*EAGER_OPTIONS, "--data-dir", str(tmp_path / "curves"))
    for weight in ("0.01", "5"):
        labels = {"lambda": weight, "encoding": "soft"}
        address = served.address
        with conceptwatch.init(f"RUN {weight}", concepts=3, labels=labels, address=address, spawn=False) as run:
            for step in range(3):
                for split in ("val", "val_dropped", "test"):
                    found = rows(random, 600, 3)
                    with run.evaluation(split, step=step) as p:
                        p.log(concept_activations=found["x"], concept_labels=found["c"], task_labels=found["y"])
                    assert p.scores(timeout=60) is not None
    found = rows(random, 200, 3)
    np.savez(
        tmp_path / "outputs.npz", concept_activations=found["x"], concept_labels=found["c"], task_labels=found["y"]
    )
    _write_tables(tmp_path, found)
    (tmp_path / "scores.csv").write_text("concept_score,bleu\n0.1,0.3\n0.4,0.2\n0.7,0.9\n")
    (tmp_path / "ratings.csv").write_text("a,b\n1,2\n3,3\n5,4\n")
    yield served
    served.stop()


def commands() -> list[str]:
    lines = [line for page in PAGES for block in blocks(page, "sh") for line in block.splitlines()]
    return [line.partition(" #")[0].strip() for line in lines if line.strip()]


def test_every_command_runs(served: RealSidecar, tmp_path: Path) -> None:
    names = {"RUN_A": "RUN 0.01", "RUN_B": "RUN 5", "RUN": "RUN 5"}
    later = []
    for command in commands():
        if any(command.startswith(start) for start in ELSEWHERE):
            continue
        program, *arguments = [names.get(word, word) for word in shlex.split(command)]
        if [program, *arguments[:2]] == ["python", "-m", "conceptwatch"]:
            assert output_of([sys.executable, *arguments], tmp_path).strip(), command
            continue
        assert program == "conceptwatch", f"not run by any test: {command}"
        if arguments[0] == "serve":
            continue  # as the fixture does
        if "--data-dir" in arguments:
            later.append(arguments)
            continue
        where = ["--address", served.http] if arguments[0] in ASKING else []
        assert output_of([binary(), *arguments, *where], tmp_path).strip(), command
    assert later, "a comparison of curves on disk is documented"
    served.stop()
    for arguments in later:
        assert output_of([binary(), *arguments], tmp_path).strip()


@pytest.mark.parametrize("page", PAGES)
def test_every_configuration_is_taken(page: str, tmp_path: Path) -> None:
    for number, block in enumerate(blocks(page, "toml")):
        file = tmp_path / f"{number}.toml"
        file.write_text(block, encoding="utf-8")
        printed("rules", "--config", file)


@pytest.mark.parametrize("page", PAGES)
def test_every_python_block_runs(page: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCEPTWATCH_ADDRESS", address)
    random = np.random.default_rng(1)
    found = rows(random)
    for block in blocks(page, "python"):
        ids_first = "for ids, x, c, y" in block
        batch = [found[name] for name in (("ids", "x", "c", "y") if ids_first else ("x", "c", "y", "ids"))]
        names: dict[str, Any] = {
            "concept_names": [f"c{i}" for i in range(112)], "epochs": 1, "epoch": 1, "step": 7,
            "train": lambda model: None, "model": Model(random),
            "loader": [batch], "validation_loader": [batch],
        }  # fmt: skip
        exec(compile(block, page, "exec"), names)  # noqa: S102
        run = names["run"]
        assert run.stats.rows_acknowledged == len(found["y"]), run.stats
        assert (run.stats.passes_ended, run.stats.heads_failed) == (1, 0)


def test_no_block_is_in_a_language_that_is_not_run() -> None:
    for page in PAGES:
        languages = set(re.findall(r"```(\w+)\n", (ROOT / page).read_text(encoding="utf-8")))
        # Signatures and usage of the generated references are text.
        assert languages <= {"sh", "toml", "python", "text"}, f"{page}: {languages}"


def anchors(text: str) -> set[str]:
    """Of the headings, as GitHub and mdBook name them."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    named = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    return named | {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [*PAGES, "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "deploy/README.md"])
def test_every_link_leads_somewhere(page: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        file = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert file.exists(), f"{page}: {target}"
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), f"{page}: {target}"


def test_troubleshooting_quotes_what_is_printed() -> None:
    """The messages in the first column of its tables are in the sources, whose literals may be spread over lines."""
    folders = [
        (ROOT / "python/conceptwatch", "*.py"),
        (ROOT / "src", "*.rs"),
        (ROOT / "crates", "*.rs"),
        (ROOT / "web", "*.js"),
    ]
    sources = "\n".join(
        path.read_text(encoding="utf-8") for folder, kind in folders for path in sorted(folder.rglob(kind))
    )
    joined = re.sub(r'"\s*\n\s*f?"|\\\n\s*', "", sources)
    page = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| ")]
    quoted = [part.strip() for cell in cells for text in re.findall(r"`([^`]+)`", cell) for part in text.split("…")]
    assert len(quoted) > 20
    assert [part for part in quoted if part not in joined] == []


def test_every_page_is_in_the_book() -> None:
    contents = (ROOT / "docs/SUMMARY.md").read_text(encoding="utf-8")
    listed = re.findall(r"\]\(([^)]+\.md)\)", contents)
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name != "SUMMARY.md")
