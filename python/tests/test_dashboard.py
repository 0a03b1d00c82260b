"""The Grafana dashboard: built by its program, sound in itself, and every query of it answered.

Grafana itself is in no registry these tests can install from: how the panels are drawn is not tested. What Grafana does
before it asks, filling in variables, is repeated here; who answers is a real Prometheus and a real sidecar.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conceptwatch
from conftest import evaluated, package, wait_for
from monitoring import Prometheus
from real_sidecar import EAGER_OPTIONS, RealSidecar, ask

GRAFANA = Path(__file__).parents[2] / "deploy" / "grafana"
# Scores whose panels draw the limit of a default rule; those of the others are the diagnosis'.
EXCESSES = ("icl_excess", "ctl_excess")
DECIDING = ("ctl_conditional", "ctl_conditional_r2", "icl_conditional", "intervention_drop", "concept_accuracy")
DASHBOARD = json.loads((GRAFANA / "dashboards" / "conceptwatch.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
API = "yesoreyeram-infinity-datasource"
# Names as users give them: a dot means something in a regular expression.
LEAKING, CLEAN, NUMBER = "cem lambda 0.1: seed/1", "cbm lambda 5", "heating"
CONCEPTS = ["wing", "beak", "tail"]
EVALUATIONS = 4


def test_the_program_builds_what_is_committed(tmp_path: Path) -> None:
    package("grafana_foundation_sdk", "deploy")
    program = tmp_path / "dashboard.py"
    (tmp_path / "dashboards").mkdir()
    for file in ("dashboard.py", "infinity.py"):
        (tmp_path / file).write_text((GRAFANA / file).read_text())
    subprocess.run([sys.executable, str(program)], check=True, timeout=60)
    built, committed = tmp_path / "dashboards" / "conceptwatch.json", GRAFANA / "dashboards" / "conceptwatch.json"
    assert built.read_text() == committed.read_text(), (
        "run python deploy/grafana/dashboard.py and commit what it writes"
    )


def test_it_can_be_imported_and_found_again() -> None:
    assert DASHBOARD["id"] is None
    assert DASHBOARD["uid"] == "conceptwatch"
    # Of Grafana 11.
    assert 39 <= DASHBOARD["schemaVersion"] <= 41


def test_every_panel_has_its_own_id_and_place() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    for place in places:
        assert place["w"] > 0
        assert place["h"] > 0
        assert 0 <= place["x"] <= 24 - place["w"]
    for one, other in itertools.combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)


def test_every_panel_says_what_it_shows_in_which_unit() -> None:
    assert len(PANELS) >= 20
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        refs = [target["refId"] for target in panel["targets"]]
        assert refs, panel["title"]
        assert len(set(refs)) == len(refs), panel["title"]


def test_data_sources_are_variables() -> None:
    known = {(variable["query"], f"${{{variable['name']}}}") for variable in variables("datasource")}
    assert known == {("prometheus", "${metrics}"), (API, "${api}")}
    sources = [panel["datasource"] for panel in PANELS]
    sources += [target["datasource"] for panel in PANELS for target in panel["targets"]]
    sources += [variable["datasource"] for variable in variables("query")]
    sources += [annotation["datasource"] for annotation in DASHBOARD["annotations"]["list"]]
    assert {(source["type"], source["uid"]) for source in sources} == known


def test_bands_are_filled_between_fields_that_exist() -> None:
    banded = 0
    for panel in PANELS:
        names = {target.get("legendFormat") for target in panel["targets"]}
        names |= {column["text"] for target in panel["targets"] for column in target.get("columns", [])}
        for override in panel["fieldConfig"]["overrides"]:
            below = [one["value"] for one in override["properties"] if one["id"] == "custom.fillBelowTo"]
            assert {override["matcher"]["options"], *below} <= names or panel["type"] == "table"
            banded += len(below)
    assert banded == 7


def variables(kind: str) -> list[dict[str, Any]]:
    return [variable for variable in DASHBOARD["templating"]["list"] if variable["type"] == kind]


@dataclass
class Filled:
    """Variables as Grafana knows them once they are filled in, and the times on its time picker."""

    start: float
    end: float
    values: dict[str, list[str] | str]

    def promql(self, expression: str) -> str:
        """As Grafana's Prometheus data source fills in variables: several values as patterns, of All its own value."""
        for name, value in self.values.items():
            text = value if isinstance(value, str) else f"({'|'.join(map(pattern, value))})"
            expression = re.sub(rf"\${name}\b", lambda _, text=text: text, expression)  # type: ignore[misc]
        built_in = {"$__rate_interval": "2s", "$__range": f"{round(self.end - self.start)}s"}
        for name, text in built_in.items():
            expression = expression.replace(name, text)
        assert "$" not in expression, expression
        return expression


def pattern(value: str) -> str:
    """prometheusSpecialRegexEscape of Grafana: within a PromQL string a backslash is two."""
    return re.sub(r"[$^*{}\[\]'+?.()|]", r"\\\\\g<0>", value.replace("\\", "\\\\\\\\"))


def evaluation(leak: float, embeddings: bool) -> dict[str, np.ndarray]:
    """A pass of 600 rows; `leak` of the task gets into activations and, in a CEM, into embeddings."""
    random = np.random.default_rng(1)
    z = random.standard_normal((600, 3))
    c, y = z > 0, z.sum(1) > 0
    logits = 2.0 * (2 * c - 1) + random.standard_normal(z.shape) + leak * (2 * y[:, None] - 1) * np.array([3, 2, 1])
    p = 1 / (1 + np.exp(-logits))
    found = {
        "concept_activations": p,
        "task_predictions": y,
        "intervened_task_predictions": y ^ (random.random(600) < leak / 9),
    }
    if embeddings:
        noise = random.standard_normal((2, 600, 3, 4))
        positive, negative = noise + np.array([1 + leak * y[:, None, None], np.full((600, 1, 1), -1.0)])
        found |= {"concept_embeddings": p[..., None] * positive + (1 - p[..., None]) * negative}
        found |= {"positive_embeddings": positive, "negative_embeddings": negative}
    found = {name: array.astype(np.float32) if array.dtype == np.float64 else array for name, array in found.items()}
    return {**found, "sample_ids": np.arange(600), "concept_labels": c, "task_labels": y.astype(np.int64)}


@dataclass
class Watched:
    sidecar: RealSidecar
    prometheus: Prometheus
    filled: Filled


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A sidecar with two runs, scraped by Prometheus; one leaks, and its alerts reach nobody."""
    folder = tmp_path_factory.mktemp("dashboard")
    nobody = ["--alertmanager", "http://127.0.0.1:1", "--alertmanager-resend", "1", "--interval", "1"]
    sidecar = RealSidecar(*EAGER_OPTIONS, "--data-dir", str(folder / "curves"), *nobody)
    begin = time.time()
    try:
        with Prometheus(folder, scraped=sidecar.http) as prometheus:
            # So that it sees curves, not their ends only.
            wait_for(lambda: prometheus.query("up == 1"))
            runs = [train(sidecar.address, LEAKING, 2.0, True), train(sidecar.address, CLEAN, 0.0, False)]
            runs.append(train(sidecar.address, NUMBER, 0.0, False, task_labels="continuous"))
            refused = evaluation(0.0, False)
            refused["concept_activations"][5, 1] = np.nan
            runs[1].log(split="probe", step=1, **refused)
            # Only rolling windows have pairs of an age, once they are full.
            rows = evaluation(0.0, False)
            for batch in range(10):
                runs[1].log(split="train", step=1, **{**rows, "sample_ids": 600 * batch + rows["sample_ids"]})
            counted = f"sum(conceptwatch_step{{split='val'}}) == {30 * EVALUATIONS}"
            counted += " and sum(conceptwatch_batches_refused_total) > 0"
            wait_for(lambda: prometheus.query(counted))
            wait_for(lambda: prometheus.query("sum(conceptwatch_notifications_failed_total) > 0"))
            wait_for(lambda: prometheus.query("conceptwatch_pair_age_seconds"))
            # A rate needs two scrapes with the counter.
            time.sleep(1)
            yield Watched(sidecar, prometheus, fill(prometheus, Filled(begin, time.time(), {})))
            for run in runs:
                run.finish()
    finally:
        sidecar.stop()


def train(address: str, name: str, leak: float, embeddings: bool, **declared: Any) -> conceptwatch.Run:
    run = conceptwatch.init(name, concepts=CONCEPTS, address=address, spawn=False, **declared)
    for epoch in range(1, EVALUATIONS + 1):
        logged = evaluation(leak * epoch / EVALUATIONS, embeddings)
        if declared:
            number = logged["concept_labels"].sum(1) + np.random.default_rng(2).standard_normal(600)
            logged |= {"task_labels": number.astype(np.float32), "task_predictions": number.astype(np.float32)}
            logged |= {"intervened_task_predictions": logged["concept_labels"].sum(1).astype(np.float32)}
        p = evaluated(run, logged, step=10 * epoch, epoch=epoch)
        assert p.scores(timeout=60.0) is not None, run.stats
    return run


def fill(prometheus: Prometheus, filled: Filled) -> Filled:
    """Fills in the variables in their order, each with what those before it leave to choose from."""
    for variable in variables("query"):
        asked = re.fullmatch(r"label_values\((.+),\s*(\w+)\)", variable["query"]["query"])
        assert asked, variable
        found = prometheus.label_values(asked[2], filled.promql(asked[1]))
        if variable.get("regex"):
            matches = [re.search(variable["regex"].strip("/"), one) for one in found]
            found = [match[1] for match in matches if match]
        assert found, variable["name"]
        current = variable.get("current", {"value": found[0]})["value"]
        assert current == ["$__all"] or current in found, (current, found)
        filled.values[variable["name"]] = variable["allValue"] if current == ["$__all"] else current
    return filled


def test_the_variables_offer_splits_scores_and_a_run(watched: Watched) -> None:
    values = watched.filled.values
    assert (values["run"], values["instance"]) == (".*", ".*")
    assert (values["split"], values["score"]) == ("val", "ctl_conditional")
    assert values["detail"] == min(LEAKING, CLEAN)


def test_no_row_is_repeated() -> None:
    """A row for each of 84 runs was 840 panels."""
    assert [panel["title"] for panel in DASHBOARD["panels"] if panel.get("repeat")] == []


def test_every_query_is_limited_to_the_chosen_sidecars() -> None:
    asked = [target["expr"] for panel in PANELS for target in panel["targets"] if "expr" in target]
    asked += [one["query"]["query"] for one in variables("query") if one["name"] != "instance"]
    asked += [one["expr"] for one in DASHBOARD["annotations"]["list"]]
    for expression in asked:
        selectors = re.findall(r"{[^}]*}", expression)
        assert selectors, expression
        assert all('instance=~"$instance"' in one for one in selectors), expression


def test_runs_lead_to_their_page() -> None:
    (page,) = variables("textbox")
    assert page["query"] == "http://127.0.0.1:7801"
    compared = [panel for panel in PANELS if any('run=~"$run"' in one.get("expr", "") for one in panel["targets"])]
    compared = [panel for panel in compared if "pair_age" not in panel["targets"][0]["expr"]]
    assert len(compared) == 10
    for panel in compared:
        config = panel["fieldConfig"]
        of_names = [one["value"] for each in config["overrides"] for one in each["properties"] if one["id"] == "links"]
        (link,) = config["defaults"].get("links") or of_names[0]
        assert re.fullmatch(r"\${page}/#/run/\${__(field\.labels|data\.fields)\.run:percentencode}", link["url"])


def asked_of_prometheus() -> list[Any]:
    """Every query, with the name of its panel and whether it is about the run in detail."""
    targets = [(panel["title"], target) for panel in PANELS for target in panel["targets"] if "expr" in target]
    targets += [("annotation " + one["name"], one) for one in DASHBOARD["annotations"]["list"]]
    return [pytest.param(one, "$detail" in one["expr"], id=f"{title} {one.get('refId', '')}") for title, one in targets]


@pytest.mark.parametrize(("target", "detailed"), asked_of_prometheus())
def test_prometheus_answers(watched: Watched, target: dict[str, Any], detailed: bool) -> None:
    run = about(target)
    filled = of_run(watched, run)
    expression = filled.promql(target["expr"])
    if target.get("instant"):
        series = watched.prometheus.query(expression, at=filled.end)
    else:
        series = watched.prometheus.range(expression, filled.start, filled.end, step=0.5)
    values = [float(value) for one in series for _, value in one.get("values") or [one["value"]]]
    assert any(np.isfinite(values)), expression
    if detailed:
        assert {one["metric"].get("run", run) for one in series} == {run}
    # What legends and titles take from the labels is there.
    texts = [target.get(text, "") for text in ("legendFormat", "titleFormat", "textFormat")]
    for label in re.findall(r"{{(\w+)}}", " ".join(texts)):
        assert any(label in one["metric"] for one in series), (label, expression)


def about(target: dict[str, Any]) -> str:
    """A run that has the target's scores."""
    return NUMBER if "_r2" in target["expr"] else LEAKING


def of_run(watched: Watched, run: str) -> Filled:
    """The variables with this run in detail."""
    return replace(watched.filled, values={**watched.filled.values, "detail": run})


def test_bands_lie_around_their_curves(watched: Watched) -> None:
    for panel in (panel for panel in PANELS if "± 95 %" in panel["title"] and panel["type"] == "timeseries"):
        run = about(panel["targets"][0])
        filled = of_run(watched, run)
        value, upper, lower = (
            watched.prometheus.query(filled.promql(target["expr"]), at=filled.end) for target in panel["targets"]
        )
        found = [float(one[0]["value"][1]) for one in (lower, value, upper)]
        assert found[0] < found[1] < found[2]
        score = panel["targets"][0]["legendFormat"]
        error = ask(watched.sidecar.http, "/api/v1/series", run=run, split="val", score=score)["points"][-1]
        assert found[2] - found[0] == pytest.approx(2 * 1.96 * error["standard_error"])


def test_the_limits_are_those_of_the_sidecar(watched: Watched) -> None:
    rules = ask(watched.sidecar.http, "/api/v1/alerts")["rules"]
    alone = [rule["all"][0] for rule in rules if len(rule.get("all", [])) == 1]
    limits = {one["score"]: one["above"] for one in alone if one["score"] in EXCESSES}
    shown = {one["score"]: one["limit"] for one in ask(watched.sidecar.http, "/api/v1/catalogue")["limits"]}
    limits |= {score: shown[score] for score in DECIDING}
    drawn: dict[str, set[float]] = {}
    for panel in PANELS:
        steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", [])
        for score in limits:
            if panel["type"] == "timeseries" and f"conceptwatch_{score}{{" in panel["targets"][0]["expr"]:
                drawn.setdefault(score, set()).add(steps[-1]["value"])
    assert drawn == {score: {limit} for score, limit in limits.items()}


def test_alerts_are_marked_where_they_fired(watched: Watched) -> None:
    filled = watched.filled
    (annotation,) = DASHBOARD["annotations"]["list"]
    fired = watched.prometheus.range(filled.promql(annotation["expr"]), filled.start, filled.end, step=0.25)
    told = ask(watched.sidecar.http, "/api/v1/alerts")["changes"]
    assert {(one["metric"]["run"], one["metric"]["rule"]) for one in fired} == {
        (change["run"], change["rule"]) for change in told if change["state"] == "firing"
    }


def api_panels() -> list[Any]:
    panels = [panel for panel in PANELS if panel["datasource"]["type"] == API]
    return [pytest.param(panel["targets"][0], id=panel["title"]) for panel in panels]


def rows_of(watched: Watched, target: dict[str, Any], run: str) -> list[dict[str, Any]]:
    """As the Infinity data source gets them: asks the sidecar, then applies the jq program."""
    known = of_run(watched, run).values
    params = {
        one["key"]: re.sub(r"\${(\w+)}", lambda m: str(known[m[1]]), one["value"])
        for one in target["url_options"]["params"]
    }
    found = ask(watched.sidecar.http, target["url"], **params)
    rows: list[dict[str, Any]] = package("jq", "deploy").compile(target["root_selector"]).input_value(found).first()
    return rows


@pytest.mark.parametrize("run", [LEAKING, CLEAN])
@pytest.mark.parametrize("target", api_panels())
def test_the_sidecars_api_answers(watched: Watched, target: dict[str, Any], run: str) -> None:
    rows = rows_of(watched, target, run)
    assert rows
    for row in rows:
        for column in target["columns"]:
            kind = {"number": (int, float), "string": str}[column["type"]]
            assert isinstance(row[column["selector"]], kind), row


def test_grafana_leaves_the_names_in_programs_alone() -> None:
    """It fills in its variables there too, by the same sign."""
    own = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    for target in (param.values[0] for param in api_panels()):
        assert not own & set(re.findall(r"\$(\w+)", target["root_selector"]))


def test_pairs_come_in_the_order_of_their_leakage(watched: Watched) -> None:
    (target,) = (param.values[0] for param in api_panels() if param.id == "Most leaking pairs")
    matrix = np.array(
        ask(watched.sidecar.http, "/api/v1/matrix", run=LEAKING, split="val", score="icl_excess")["matrix"]
    )
    expected = sorted(
        ((matrix[i, j], CONCEPTS[i], CONCEPTS[j]) for i, j in itertools.combinations(range(3), 2)), reverse=True
    )
    assert [(row["ICL"], row["concept"], row["and"]) for row in rows_of(watched, target, LEAKING)] == expected


def test_every_evaluation_is_on_the_curve_by_step(watched: Watched) -> None:
    (target,) = (param.values[0] for param in api_panels() if "by step" in str(param.id))
    rows = rows_of(watched, target, LEAKING)
    assert [row["step"] for row in rows] == [10 * epoch for epoch in range(1, EVALUATIONS + 1)]
    assert all(row["lower"] < row["value"] < row["upper"] for row in rows)
