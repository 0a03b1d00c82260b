"""Writes the tables and figures of the report on the results of `score.py`.

    python report.py results.jsonl FOLDER ../../docs/reproduce.md

FOLDER has the weights of `train.py`, for the figures that show what models put out. The report's words stay as they
are: only what stands between two marks is replaced.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import data
import figures
import introduced
import numpy as np
import tables
from plan import OTHERS, Settings, plan
from results import Floats, Model, of, read
from tables import LEAKAGE, OUTCOMES, name_of


def sections(models: list[Model]) -> dict[str, list[str]]:
    minutes = sum(model["seconds"] for model in models) / 60
    own = {
        "machine": [f"{len(models)} models, {minutes:.0f} minutes of CPU for their training."],
        "correlations": tables.correlations(models),
        "held": tables.held(models),
        "ranges": tables.ranges(models),
        "pair": tables.pairs(models),
        "supervision": tables.high(models),
        "incomplete": tables.table("soft, δ = 0.25", tables.incomplete(models), (*LEAKAGE, *OUTCOMES)),
        "misspecified": tables.table("soft, δ = 0.25", tables.misspecified(models), (*LEAKAGE, *OUTCOMES)),
        "findings": tables.findings(models),
        "references": tables.references(models),
        "hard": tables.table("hard", tables.hard(models), tables.HARD),
        "two concepts": tables.table("two concepts", two_concepts(models), (*LEAKAGE, *OUTCOMES)),
        "cem": tables.table("CEM, δ = 0.25", tables.cem(models), tables.CEM),
        "truth": truth(),
    }
    for name in OTHERS:
        if of(models, data=name):
            own[name] = tables.others(models, name)
    if of(models, experiment="introduced"):
        own["introduced"] = introduced.levels(models)
        own["introduced, separations"] = introduced.separations(models)
        own["introduced, groups"] = introduced.groups(models)
    return own


def two_concepts(models: list[Model]) -> tables.Rows:
    own = of(models, experiment="two concepts")
    keys = [("hard", 1.0), ("soft", 1.0), ("soft", 0.01)]
    return [(f"{kind}, λ = {w:g}" if kind == "soft" else kind, of(own, kind=kind, weight=w)) for kind, w in keys]


def truth() -> list[str]:
    """Figure 15: the labels' mutual information between concepts, normalised, in a training set."""
    lines = ["| training set | pairs | least | mean | greatest |", "|---|--:|--:|--:|--:|"]
    first = [next(of(plan(), experiment="grid", delta=delta).__iter__()) for delta in (0.25, 0.75)]
    chosen: list[tuple[str, Settings]] = [(f"TT({one['delta']:g})", one) for one in first]
    chosen += [(name_of(name), next(iter(of(plan(), data=name)))) for name in OTHERS]
    for name, settings in chosen:
        c = data.parts(settings).train.c.numpy().astype(int)
        found = [shared(c[:, i], c[:, j]) for i, j in itertools.combinations(range(c.shape[1]), 2)]
        lines.append(f"| {name} | {len(found)} | {min(found):.3f} | {np.mean(found):.3f} | {max(found):.3f} |")
    return lines


def shared(a: Floats, b: Floats) -> float:
    """I(a; b) / √(H(a) H(b)) of two columns of 0 and 1."""
    joint = np.histogram2d(a, b, bins=2)[0] / len(a)

    def entropy(p: Floats) -> float:
        return float(-(p[p > 0] * np.log(p[p > 0])).sum())

    of_a, of_b = entropy(joint.sum(1)), entropy(joint.sum(0))
    return (of_a + of_b - entropy(joint.ravel())) / float(np.sqrt(of_a * of_b))


def main() -> None:
    source, weights, target = (Path(argument) for argument in sys.argv[1:4])
    models = read(source)
    figures.draw(models, weights, target.with_suffix(""))
    text = target.read_text() if target.exists() else ""
    for name, lines in sections(models).items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        if begin not in text:
            text += f"{begin}{end}\n\n"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = before + begin + "\n".join(lines) + "\n" + end + after
    target.write_text(text)


if __name__ == "__main__":
    main()
