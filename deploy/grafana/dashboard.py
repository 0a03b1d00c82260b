"""Builds the Grafana dashboard; typed by the SDK for Grafana 11.

python deploy/grafana/dashboard.py      # writes deploy/grafana/dashboards/conceptwatch.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).parent))

from grafana_foundation_sdk.builders import bargauge, common, prometheus, stat, statetimeline, table, timeseries, trend
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as choice
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from infinity import TYPE, Dataquery, Query

OUTPUT = Path(__file__).parent / "dashboards" / "conceptwatch.json"
UID = "conceptwatch"
# Variables of the dashboard, by which its queries find their data source.
METRICS = model.DataSourceRef(type_val="prometheus", uid="${metrics}")
API = model.DataSourceRef(type_val=TYPE, uid="${api}")

# Limits of the diagnosis; of the excesses, those of the default alert rules. A test compares them with a sidecar's.
LIMITS = {
    "ctl_conditional": 0.16,
    "ctl_conditional_r2": 0.12,
    "icl_conditional": 0.16,
    "intervention_drop": 0.05,
    "concept_accuracy": 0.9,
    "ctl_excess": 0.45,
    "icl_excess": 0.25,
}
# Scores whose low values are the bad ones.
LOW_IS_BAD = ("concept_accuracy",)
TITLES = {
    "ctl_conditional": "Conditional concepts-task leakage",
    "ctl_conditional_r2": "Conditional leakage to a task that is a number",
    "icl_conditional": "Conditional interconcept leakage",
    "intervention_drop": "Accuracy lost under intervention",
    "concept_accuracy": "Concept accuracy",
    "ctl_excess": "Concepts-task leakage (CTL, unclipped)",
    "icl_excess": "Interconcept leakage (ICL, unclipped)",
}
# Standard errors on each side of a curve: 95 % where the error is normal.
BAND = 1.96

# Variables of more than one value are filled in as regular expressions.
SIDECAR = 'instance=~"$instance"'
CURVE = f'run=~"$run", split="$split", {SIDECAR}'
# The run whose concepts, pairs and errors are shown. A row for each of all runs would be hundreds of panels.
DETAIL = f'run="$detail", split="$split", {SIDECAR}'
# Finer than a scrape: exported curves have a sample for every evaluation.
FINEST = "100ms"

Banded = TypeVar("Banded", timeseries.Panel, trend.Panel)

BAND_COLOUR, CURVE_COLOUR, LIMIT_COLOUR = "rgba(51, 162, 229, 0.25)", "#33a2e5", "red"


def query(expression: str, name: str = "", ref: str = "A", instant: bool = False) -> prometheus.Dataquery:
    asked = prometheus.Dataquery().datasource(METRICS).expr(expression).legend_format(name).ref_id(ref)
    return asked.instant() if instant else asked.range().interval(FINEST)


def run_page(name: str) -> build.DashboardLink:
    """A link to a run's page of the sidecar, by the text that holds the run's name."""
    link = build.DashboardLink("Open the run's page").type(model.DashboardLinkType.LINK).target_blank(True)
    return link.url(f"${{page}}/#/run/${{{name}:percentencode}}")


def limit_line(panel: timeseries.Panel, score: str) -> timeseries.Panel:
    """Draws a score's limit; above it, where high values are the bad ones, the area is shaded."""
    steps = [model.Threshold(color="transparent"), model.Threshold(value=LIMITS[score], color=LIMIT_COLOUR)]
    modes = choice.GraphThresholdsStyleMode
    style = common.GraphThresholdsStyleConfig().mode(modes.DASHED if score in LOW_IS_BAD else modes.LINE_AND_AREA)
    thresholds = build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(steps)
    return panel.thresholds(thresholds).thresholds_style(style)


def curves(title: str, about: str, unit: str, *queries: prometheus.Dataquery) -> timeseries.Panel:
    panel = timeseries.Panel().title(title).description(about).datasource(METRICS).unit(unit).height(8).span(12)
    panel = panel.line_width(2).fill_opacity(0).show_points(choice.VisibilityMode.AUTO)
    panel = panel.tooltip(common.VizTooltipOptions().mode(choice.TooltipDisplayMode.MULTI))
    panel = panel.legend(common.VizLegendOptions().display_mode(choice.LegendDisplayMode.LIST).show_legend(True))
    for ref, one in zip("ABCDEFGHIJ", queries, strict=False):
        panel = panel.with_target(one.ref_id(ref))
    return panel


def band_override(panel: Banded) -> Banded:
    """Fills between the fields "lower" and "upper", whose lines are not drawn."""
    plain = [
        model.DynamicConfigValue("custom.lineWidth", 0),
        model.DynamicConfigValue("custom.showPoints", "never"),
        model.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": BAND_COLOUR}),
        model.DynamicConfigValue("custom.hideFrom", {"legend": True, "tooltip": False, "viz": False}),
    ]
    below = [
        model.DynamicConfigValue("custom.fillBelowTo", "lower"),
        model.DynamicConfigValue("custom.fillOpacity", 25),
    ]
    return panel.override_by_name("lower", plain).override_by_name("upper", plain + below)


def with_band(score: str) -> timeseries.Panel:
    value = f"conceptwatch_{score}{{{DETAIL}}}"
    error = f'ignoring (score) {BAND} * conceptwatch_standard_error{{{DETAIL}, score="{score}"}}'
    panel = curves(
        f"{TITLES[score]} ± 95 %",
        f"{score} at the newest evaluation of each scrape. The line is its limit.",
        units.NoUnit,
        query(value, score),
        query(f"{value} + {error}", "upper"),
        query(f"{value} - {error}", "lower"),
    )
    colour = [model.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": CURVE_COLOUR})]
    return limit_line(band_override(panel.decimals(3)).override_by_name(score, colour), score)


def compared(score: str) -> timeseries.Panel:
    panel = curves(
        TITLES[score],
        f"{score} of every chosen run. The line is its limit.",
        units.NoUnit,
        query(f"conceptwatch_{score}{{{CURVE}}}", "{{run}}"),
    )
    return limit_line(panel.decimals(3).data_links([run_page("__field.labels.run")]), score)


# The name and the colour of each number in a state timeline.
States = dict[str, tuple[str, str]]

ALERTS: States = {"0": ("inactive", "green"), "1": ("pending", "yellow"), "2": ("firing", "red")}
VERDICTS: States = {
    "0": ("not known", "#8e8e8e"),
    "1": ("sound", "green"),
    "2": ("possibly leaking", "yellow"),
    "3": ("leaking", "red"),
}


def timeline(title: str, about: str, states: States, shown: prometheus.Dataquery) -> statetimeline.Panel:
    named = {
        value: model.ValueMappingResult(text=text, color=colour, index=int(value))
        for value, (text, colour) in states.items()
    }
    panel = statetimeline.Panel().title(title).description(about).datasource(METRICS).unit(units.NoUnit).height(8)
    steps = build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps([model.Threshold(color="green")])
    panel = panel.mappings([model.ValueMap(named)]).thresholds(steps).merge_values(True).row_height(0.8)
    return panel.span(12).data_links([run_page("__field.labels.run")]).with_target(shown)


def verdicts() -> statetimeline.Panel:
    def of(state: str) -> str:
        return f"max by (run) (conceptwatch_verdict{{{CURVE}, verdict{state}}})"

    unknown = of('=~"nothing_found|cannot_tell|too_early"')
    leaking, possibly, sound = (of(f'="{state}"') for state in ("leaking", "possibly_leaking", "sound"))
    shown = f"3 * {leaking} or 2 * {possibly} or {sound} or 0 * {unknown}"
    about = "Whether each chosen run leaks. Grey: nothing found, too early, or it cannot be told; the page says why."
    return timeline("Verdict", about, VERDICTS, query(shown, "{{run}}"))


def alert_states() -> statetimeline.Panel:
    about = "Where the sidecar's rules stand. Rules that were never more than inactive are left out."
    states = f"max by (run, rule) (conceptwatch_alert_state{{{CURVE}}})"
    past = f"max by (run, rule) (max_over_time(conceptwatch_alert_state{{{CURVE}}}[$__range] @ end())) > 0"
    return timeline("Alert rules", about, ALERTS, query(f"{states} and {past}", "{{run}}: {{rule}}"))


NEWEST = {
    "conceptwatch_epoch": ("epoch", units.NoUnit),
    "conceptwatch_step": ("step", units.NoUnit),
    "conceptwatch_sample_rows": ("rows", units.NoUnit),
    "conceptwatch_ctl_conditional": ("conditional CTL", units.NoUnit),
    "conceptwatch_ctl_conditional_r2": ("conditional CTL, number", units.NoUnit),
    "conceptwatch_icl_conditional": ("conditional ICL", units.NoUnit),
    "conceptwatch_intervention_drop": ("intervention drop", units.NoUnit),
    "conceptwatch_concept_accuracy": ("concept accuracy", units.PercentUnit),
    "conceptwatch_task_accuracy": ("task accuracy", units.PercentUnit),
    "conceptwatch_task_r2": ("R² of the task", units.NoUnit),
    "conceptwatch_ctl_excess": ("CTL", units.NoUnit),
    "conceptwatch_icl_excess": ("ICL", units.NoUnit),
}
COUNTS = ("epoch", "step", "rows")


def newest_values() -> table.Panel:
    panel = table.Panel().title("Newest evaluation").datasource(METRICS).unit(units.NoUnit).height(8).span(12)
    panel = panel.description("Of each chosen run, as of the last scrape.")
    for ref, metric in zip("ABCDEFGHIJKL", NEWEST, strict=True):
        asked = query(f"max by (run) ({metric}{{{CURVE}}})", ref=ref, instant=True)
        panel = panel.with_target(asked.format(PromQueryFormat.TABLE))
    names = {f"Value #{ref}": name for ref, (name, _) in zip("ABCDEFGHIJKL", NEWEST.values(), strict=True)}
    organise = {"excludeByName": {"Time": True}, "renameByName": names, "indexByName": {}}
    panel = panel.with_transformation(model.DataTransformerConfig("merge", options={}))
    panel = panel.with_transformation(model.DataTransformerConfig("organize", options=organise))
    for name, unit in NEWEST.values():
        decimals = 0 if name in COUNTS else 1 if unit == units.PercentUnit else 3
        shown = [model.DynamicConfigValue("unit", unit), model.DynamicConfigValue("decimals", decimals)]
        panel = panel.override_by_name(name, shown)
    return panel.override_by_name("run", [model.DynamicConfigValue("links", [run_page("__data.fields.run").build()])])


def per_concept() -> bargauge.Panel:
    panel = bargauge.Panel().title("$score of each concept").datasource(METRICS).unit(units.NoUnit).decimals(3)
    panel = panel.description("The 25 highest at the newest evaluation.").height(9).span(8)
    panel = panel.orientation(choice.VizOrientation.HORIZONTAL).display_mode(choice.BarGaugeDisplayMode.BASIC)
    colour = build.FieldColor().mode(model.FieldColorModeId.FIXED).fixed_color(CURVE_COLOUR)
    reduce = common.ReduceDataOptions().calcs(["lastNotNull"]).values(False)
    values = f'sort_desc(topk(25, {{__name__="conceptwatch_per_concept_$score", {DETAIL}}}))'
    return panel.color_scheme(colour).reduce_options(reduce).with_target(query(values, "{{concept}}", instant=True))


# Of the upper triangle of the matrix: the pair's two values are the same.
PAIRS = """[
  .concepts as $names
  | .matrix | to_entries[] | .key as $i
  | .value | to_entries[] | select(.key > $i and .value != null)
  | {"concept": $names[$i], "and": $names[.key], "ICL": .value}
] | sort_by(-.ICL) | .[:15]"""


def leaking_pairs() -> table.Panel:
    params = {"run": "${detail}", "split": "${split}", "score": "icl_excess"}
    columns = {"concept": "string", "and": "string", "ICL": "number"}
    panel = table.Panel().title("Most leaking pairs").datasource(API).unit(units.NoUnit).decimals(3).height(9).span(8)
    panel = panel.description("The 15 pairs of highest unclipped ICL at the newest evaluation, from the sidecar's API.")
    return panel.with_target(Query(Dataquery(API, "/api/v1/matrix", params, PAIRS, columns)))


EVALUATIONS = f"""[
  .points[] | select(.value != null) | ({BAND} * (.standard_error // 0)) as $half
  | {{"step": .step, "value": .value, "upper": (.value + $half), "lower": (.value - $half)}}
]"""


def by_step() -> trend.Panel:
    params = {"run": "${detail}", "split": "${split}", "score": "${score}"}
    columns = {"step": "number", "value": "number", "upper": "number", "lower": "number"}
    panel = trend.Panel().title("$score by step, every evaluation").datasource(API).unit(units.NoUnit).decimals(3)
    panel = panel.description(
        "From the sidecar's API, ± 95 %, over optimiser steps: needs no scrape to see an evaluation."
    )
    panel = band_override(panel.x_field("step").line_width(2).height(9).span(8))
    return panel.with_target(Query(Dataquery(API, "/api/v1/series", params, EVALUATIONS, columns)))


EMBEDDINGS = {
    "embedding_ct": "about the task",
    "embedding_ct_positive": "positive, about the task",
    "embedding_ct_negative": "negative, about the task",
    "embedding_ic": "about other concepts",
    "embedding_self": "about the own concept",
    "alignment_leakage": "alignment leakage",
}


def embeddings() -> timeseries.Panel:
    return curves(
        "CEM embeddings",
        "What concept embeddings tell: shares of the entropy of the task, of other concepts and of their own concept.",
        units.NoUnit,
        *(query(f"conceptwatch_{score}{{{DETAIL}}}", name) for score, name in EMBEDDINGS.items()),
    ).decimals(3)


def accuracies() -> timeseries.Panel:
    scores = ["task_accuracy", "concept_accuracy", "intervened_task_accuracy", "task_r2"]
    return curves(
        "Accuracy",
        "What is usually looked at instead, R² of a number. It does not show leakage; a fall after intervention does.",
        units.PercentUnit,
        *(query(f"conceptwatch_{score}{{{DETAIL}}}", score.replace("_", " ")) for score in scores),
    )


def rate(counter: str, by: str = "") -> str:
    """Per second and sidecar; 0 from a sidecar that has not counted yet, nothing without one."""
    labels = f"instance, {by}" if by else "instance"
    summed = f"sum by ({labels}) (rate({counter}{{{SIDECAR}}}[$__rate_interval]))"
    return f"{summed} or on (instance) 0 * max by (instance) (conceptwatch_build_info{{{SIDECAR}}})"


def gauge(name: str) -> str:
    return f"{name}{{{SIDECAR}}}"


def number(title: str, about: str, unit: str, shown: prometheus.Dataquery) -> stat.Panel:
    panel = stat.Panel().title(title).description(about).datasource(METRICS).unit(unit).height(4).span(4)
    panel = panel.graph_mode(choice.BigValueGraphMode.NONE).decimals(1 if unit == units.NoUnit else 0)
    return panel.with_target(shown)


def health() -> list[Any]:
    built = query(gauge("conceptwatch_build_info"), "{{version}}, catalogue {{catalogue_version}}", instant=True)
    version = number("Version", "Of the sidecar and of its catalogue of scores.", units.NoUnit, built)
    lag, stale = gauge("conceptwatch_lag_seconds"), gauge("conceptwatch_staleness_seconds")
    spare = gauge("conceptwatch_spare_cores")
    lost = f"sum by (instance) (increase(conceptwatch_rows_dropped_total{{{SIDECAR}}}[$__range]))"
    skipped = f"increase(conceptwatch_points_skipped_total{{{SIDECAR}}}[$__range])"
    duration = f"sum by (le) (rate(conceptwatch_score_duration_seconds_bucket{{{SIDECAR}}}[10m]))"
    used = "conceptwatch_ingest_budget_used_bytes"
    return [
        version.text_mode(choice.BigValueTextMode.NAME),
        number("Scoring delay", "Of the oldest waiting evaluation.", units.Seconds, query(lag, instant=True)),
        number("Last evaluation", "Its age, of the run that waits longest.", units.Seconds, query(stale, instant=True)),
        number("Spare cores", "Idle, less half a core of gaps.", units.NoUnit, query(spare, instant=True)),
        number("Rows dropped", "In the time range.", units.Short, query(lost, instant=True)),
        number("Passes skipped", "In the time range, for newer ones.", units.Short, query(skipped, instant=True)),
        curves(
            "Rows", "Received, duplicate, and dropped.", units.RowsPerSecond,
            query(rate("conceptwatch_rows_received_total"), "{{instance}}: received"),
            query(rate("conceptwatch_rows_duplicate_total"), "{{instance}}: duplicate"),
            query(rate("conceptwatch_rows_dropped_total", "reason"), "{{instance}}: dropped {{reason}}"),
        ),
        curves(
            "Passes", "Closed, closed by their deadline, scored, and skipped.", units.OpsPerSecond,
            query(rate("conceptwatch_passes_closed_total"), "{{instance}}: closed"),
            query(rate("conceptwatch_passes_incomplete_total"), "{{instance}}: closed by their deadline"),
            query(rate("conceptwatch_points_recorded_total"), "{{instance}}: scored"),
            query(rate("conceptwatch_points_skipped_total"), "{{instance}}: skipped"),
        ),
        curves(
            "Failures", "All should be 0.", units.OpsPerSecond,
            query(rate("conceptwatch_batches_refused_total", "code"), "{{instance}}: batches refused {{code}}"),
            query(rate("conceptwatch_score_failures_total"), "{{instance}}: scoring failed"),
            query(rate("conceptwatch_history_errors_total"), "{{instance}}: points not stored"),
            query(rate("conceptwatch_history_dropped_total", "kind"), "{{instance}}: history over its limit {{kind}}"),
            query(rate("conceptwatch_notifications_failed_total", "receiver"), "{{instance}}: not sent {{receiver}}"),
            query(rate("conceptwatch_notifications_dropped_total"), "{{instance}}: alerts dropped"),
            query(rate("conceptwatch_watch_events_lost_total"), "{{instance}}: events lost to slow watchers"),
        ),
        curves(
            "Time to score a sample", "All scores of one sample, over the last ten minutes.", units.Seconds,
            query(f"histogram_quantile(0.5, {duration})", "median"),
            query(f"histogram_quantile(0.95, {duration})", "95 %"),
        ),
        curves(
            "Memory", "Against the limits of the options --ingest-mib, --sample-mib and --history-mib.", units.BytesIEC,
            query(gauge("conceptwatch_sample_memory_bytes"), "{{instance}}: samples"),
            query(gauge(used), "{{instance}}: batches in flight"),
            query(gauge("conceptwatch_kept_memory_bytes"), "{{instance}}: kept between ticks"),
            query(gauge("conceptwatch_history_used_bytes"), "{{instance}}: history"),
            query(gauge("conceptwatch_history_limit_bytes"), "{{instance}}: history, at most"),
        ),
        curves(
            "Age of the oldest pair",
            "Of rolling windows; above 0 where the CPU share is too small to compute all pairs.", units.Seconds,
            query(f'conceptwatch_pair_age_seconds{{run=~"$run", {SIDECAR}}}', "{{run}} {{split}}: {{score}}"),
        ),
        curves(
            "CPU time of scoring", "Cores that scoring uses, and idle ones.", units.NoUnit,
            query(rate("conceptwatch_worker_cpu_seconds_total"), "{{instance}}: scoring"),
            query(spare, "{{instance}}: spare"),
        ).decimals(2),
    ]  # fmt: skip


def labels(name: str, label: str, metric: str) -> build.QueryVariable:
    asked = {"qryType": 1, "query": f"label_values({metric},{label})", "refId": f"variable-{name}"}
    return (
        build.QueryVariable(name).datasource(METRICS).query(asked).refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
    )


def one_of(variable: build.QueryVariable, value: str) -> build.QueryVariable:
    return variable.current(model.VariableOption(selected=True, text=value, value=value))


def all_of(variable: build.QueryVariable) -> build.QueryVariable:
    # All is no list of values: a query of hundreds of names would be refused for its length.
    chosen = model.VariableOption(selected=True, text=["All"], value=["$__all"])
    return variable.multi(True).include_all(True).all_value(".*").current(chosen)


def variables() -> list[Any]:
    run = f'conceptwatch_provisional{{run=~"$run", {SIDECAR}}}'
    scored = f'{{__name__=~"conceptwatch_per_concept_.+", {DETAIL}}}'
    return [
        build.DatasourceVariable("metrics").label("Prometheus").type("prometheus"),
        build.DatasourceVariable("api").label("Sidecar's API").type(TYPE),
        build.TextBoxVariable("page").label("Page").default_value("http://127.0.0.1:7801"),
        all_of(labels("instance", "instance", "conceptwatch_build_info").label("Sidecar")),
        all_of(labels("run", "run", f"conceptwatch_provisional{{{SIDECAR}}}").label("Runs")),
        one_of(labels("split", "split", run).label("Split"), "val"),
        labels("detail", "run", run).label("Run in detail"),
        one_of(
            labels("score", "__name__", scored).regex("/conceptwatch_per_concept_(.+)/").label("Score"),
            "ctl_conditional",
        ),
    ]


class AlertAnnotation(model.AnnotationQuery):
    """Marks the times at which an alert fired. The texts are options of the Prometheus data source."""

    def to_json(self) -> dict[str, object]:
        texts = {"titleFormat": "{{rule}}", "textFormat": "{{run}}, {{split}} {{score}}", "tagKeys": "severity,run"}
        return {**super().to_json(), **texts, "useValueForTime": False, "step": "5s"}


class Annotation(build.AnnotationQuery):
    def build(self) -> model.AnnotationQuery:
        expression = f"conceptwatch_alert_state{{{CURVE}}} == 2"
        return AlertAnnotation("Alerts", METRICS, True, False, LIMIT_COLOUR, expr=expression)


def contents() -> build.Dashboard:
    board = (
        build.Dashboard("conceptwatch").uid(UID).tags(["conceptwatch", "machine-learning"]).editable().refresh("10s")
    )
    board = board.description(
        "Leakage of concept bottleneck models while they train, and the sidecar that measures it."
    )
    board = board.time("now-1h", "now").tooltip(model.DashboardCursorSync.CROSSHAIR).annotation(Annotation())
    board = board.timezone("browser")
    for variable in variables():
        board = board.with_variable(variable)
    rows: list[tuple[build.Row, list[Any]]] = [
        (
            build.Row("Leakage"),
            [
                *(verdicts(), newest_values()),
                *(compared("ctl_conditional"), compared("ctl_conditional_r2")),
                *(compared("icl_conditional"), compared("intervention_drop")),
                *(compared("concept_accuracy"), compared("ctl_excess")),
                *(compared("icl_excess"), alert_states()),
            ],
        ),
        (
            build.Row("Run $detail"),
            [
                *(with_band("ctl_conditional"), with_band("ctl_conditional_r2")),
                *(with_band("icl_conditional"), with_band("intervention_drop")),
                *(accuracies(), with_band("ctl_excess")),
                *(with_band("icl_excess"), embeddings()),
                *(per_concept(), leaking_pairs(), by_step()),
            ],
        ),
        (build.Row("Sidecars"), health()),
    ]
    number_of = 0
    for row, panels in rows:
        board = board.with_row(row.id(number_of := number_of + 1))
        for panel in panels:
            board = board.with_panel(panel.id(number_of := number_of + 1))
    return board


def render() -> str:
    # Read as plain JSON once: an id of null is that of a dashboard not imported yet.
    plain = json.loads(json.dumps(contents().build(), cls=JSONEncoder))
    return json.dumps({**plain, "id": None}, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    OUTPUT.write_text(render(), encoding="utf-8")
