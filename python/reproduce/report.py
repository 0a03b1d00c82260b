"""Writes the tables and figures of the report on the results of `score.py` and `papers.py`.

    python report.py results.jsonl papers.json FOLDER ../../docs/reproduce.md

FOLDER has the weights of `train.py`, for the figures that show what models put out. The report's words stay as they
are: only what stands between two marks is replaced.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import figures
import paper_tables
import tables
from results import Model, read


def sections(models: list[Model]) -> dict[str, list[str]]:
    minutes = sum(model["seconds"] for model in models) / 60
    return {
        "machine": [f"{len(models)} models, {minutes:.0f} minutes of CPU for their training."],
        "correlations": tables.correlations(models),
        "held": tables.held(models),
        "findings": tables.findings(models),
        "references": tables.references(models),
        "cem": tables.table("CEM, δ = 0.25", tables.cem(models), tables.CEM),
    }


def main() -> None:
    source, papers, weights, target = (Path(argument) for argument in sys.argv[1:5])
    models = read(source)
    measured = paper_tables.sections(json.loads(papers.read_text()))
    figures.draw(models, weights, target.with_suffix(""))
    text = target.read_text() if target.exists() else ""
    for name, lines in (sections(models) | measured).items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        if begin not in text:
            text += f"{begin}{end}\n\n"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = before + begin + "\n".join(lines) + "\n" + end + after
    target.write_text(text)


if __name__ == "__main__":
    main()
