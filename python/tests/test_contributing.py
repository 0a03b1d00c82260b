"""The commands of CONTRIBUTING.md, in order.

What is quick once the tree is built runs as it stands. What is not runs in a dry form here (`make --dry-run`, a build
without the run, a listing), and in full in CI; benchmarks alone run in full nowhere but by hand.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from conftest import not_tested
from monitoring import program_path
from real_sidecar import binary

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    lines = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]
    return [line.partition(" #")[0].strip() for line in lines if line.strip()]


def dry(command: str) -> str:
    """A quick form of a command, or the command itself where it is quick."""
    if command.startswith("make "):
        return f"{command} --dry-run"
    if command.startswith("cargo bench"):
        # Parses arguments and manifest, and finds the target, without the build.
        bench = command.rpartition("--bench ")[2]
        return f"cargo metadata --no-deps --format-version 1 # {bench}"
    if command.startswith("cargo run --locked -p information --example "):
        # `make nightly` runs it.
        return f"cargo metadata --no-deps --format-version 1 > {command.rpartition('> ')[2]}"
    if command.startswith("cargo run --locked -- "):
        # Without the test dependencies cargo would build the crate and most of its dependencies once more.
        return f"{shlex.quote(binary())} {command.removeprefix('cargo run --locked -- ')}"
    if command == "cargo package --locked --workspace":
        return f"{command} --list --allow-dirty"
    if command.startswith("sh "):
        return f"sh -n {command.removeprefix('sh ')}"
    if "-m pytest" in command:
        return command.replace(".venv/bin/python", sys.executable) + " --collect-only --quiet"
    return command


def test_every_command_runs(tmp_path: Path) -> None:
    if program_path("cargo") is None:
        not_tested("cargo")
    found = commands()
    assert len(found) > 10
    for command in found:
        # Files that commands write and compare stand in the test's folder.
        line = re.sub(r"\b(before|after)\.txt", lambda m: shlex.quote(str(tmp_path / m[0])), dry(command))
        done = subprocess.run(["sh", "-c", line], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        if command.startswith("cargo bench"):
            assert f'"name":"{command.rpartition("--bench ")[2]}","src_path"' in done.stdout, command


def test_ci_runs_all_that_make_test_does() -> None:
    steps = re.search(r"^STEPS := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for step in steps[1].split():
        assert f"make test-{step}" in run, step


def test_it_is_short() -> None:
    assert len(TEXT.split()) <= 800
