"""docs/python.md is what the package's signatures and docstrings say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_reference_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "python" / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    assert written == module.reference(), "docs/python.md is out of date: run make reference"
    # Every public name has its entry.
    conceptwatch = importlib.import_module("conceptwatch")
    for name in conceptwatch.__all__:
        assert name == "__version__" or f"\n### {name}\n" in written, f"{name} is not in docs/python.md"
