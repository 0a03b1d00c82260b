"""The code of docs/tutorial.md, run as it stands: what the page says of both models holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from conftest import package
from real_sidecar import binary, eager

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"


def test_the_tutorial_ends_as_it_says(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    package("sklearn.datasets", "scikit-learn")
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    said: list[str] = []
    names: dict[str, Any] = {"print": lambda *what: said.append(" ".join(map(str, what)))}
    with eager() as address:
        monkeypatch.setenv("CONCEPTWATCH_ADDRESS", address)
        monkeypatch.setenv("CONCEPTWATCH_BINARY", binary())
        for block in code[:5]:
            exec(compile(block, "tutorial", "exec"), names)  # noqa: S102
        verdict, information, reason, diagnosis = said
        assert verdict.startswith("possibly leaking")
        assert "ctl_conditional" in verdict
        assert information.count("Score(conditional_mutual_information=0.") == 3
        assert names["leaking"] < 10
        assert "interventions break the task" in reason
        assert "activations predict the task" in reason
        assert "Interventions fail" in diagnosis
        assert "Insufficient concept supervision" in diagnosis
        said.clear()
        exec(compile(code[5], "tutorial", "exec"), names)  # noqa: S102
        (diagnosis,) = said
        assert names["sound"] == 20
        assert "Interventions fail" not in diagnosis
        assert "Insufficient" not in diagnosis
