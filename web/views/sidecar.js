// The page of the sidecar's own facts, counts and rules, for the people who run it.
import { isLive } from "../data/shown.js";
import { store } from "../data/store.js";
import { ago, clock, count, duration, el, headRow, memory, number, scroller } from "../text.js";
import { term } from "../tip.js";
import { watcher } from "../scheduler.js";

/** @import { Status } from "../data/api.js" */

export function sidecarView() {
  const title = el("h1", {});
  const lead = el("p", {});
  const facts = el("dl", { class: "facts" });
  const counts = scroller("Rows by run", "");
  const rules = scroller("Alert rules", "");
  const root = el("div", { class: "sidecar" }, el("div", { class: "head" }, el("div", {}, title, lead)),
    el("div", { class: "grid" }, el("section", { class: "panel w12", "aria-label": "Facts" }, el("header", {}, el("h2", {}, "Now")),
      el("div", { class: "body" }, facts)),
      el("section", { class: "panel w12", "aria-label": "Rows" }, el("header", {}, el("h2", {}, "Rows since it started")),
        el("div", { class: "table-body" }, counts)),
      el("section", { class: "panel w12", "aria-label": "Rules" }, el("header", {}, el("h2", {}, "Alert rules")), el("div", { class: "table-body" }, rules))));
  const isNew = watcher();

  function draw() {
    const { status, connection, runs, standings, rows } = store;
    const live = (runs ?? []).filter(isLive);
    if (!isNew(status, connection, live.length, (runs ?? []).map(({ splits }) => splits), store.rowsAt, standings.map(({ state }) => state))) return;
    title.textContent = connection.state === "down" ? "The sidecar does not answer" : "The sidecar";
    lead.textContent = connection.state === "down" ? `Since ${clock(connection.since)}. Training goes on; jobs keep what is not stored.`
      : `${live.length} of ${count((runs ?? []).length)} runs in training.`;
    if (!status) return;
    const newest = Math.max(...[...rows.values()].map(({ time }) => time ?? -Infinity));
    const age = live.some(({ splits }) => splits.some(({ points }) => points > 0)) ? status.staleness_seconds ?? 0 : Date.now() / 1000 - newest;
    const cores = number((status.cpu_seconds ?? 0) / Math.max(1, status.uptime_seconds), 0.01);
    facts.replaceChildren(...(status.unwritable ? fact("Nothing is stored", status.unwritable.why,
      "What arrives is not kept until it can write.") : []), ...fact("Newest evaluation", Number.isFinite(age) ? ago(Math.max(0, age)) : "none yet",
      "Time since the last evaluation, for the split of a run in training that has waited longest."),
      ...fact("Scoring delay", `${duration(Number(status.lag_seconds.toFixed(1)))}`, "How long the oldest waiting evaluation has been due."),
      ...fact("Rows not accepted", count(status.rows_dropped), "Rows that clients sent and the sidecar refused."),
      ...fact("Evaluations skipped", count(status.points_skipped),
        "Evaluations that a newer one replaced before they were scored. They are marked in the charts."),
      ...fact("Sample memory", `${memory(status.memory_bytes)}${status.memory_limit_bytes ? ` of ${memory(status.memory_limit_bytes)}` : ""}`,
        "Rows that are held for scoring."),
      ...fact("CPU", `${cores} cores on average${status.cpu_share ? `, cpu_share ${status.cpu_share}` : ""}`,
        "Cores that scoring has used since the start. cpu_share is the most that it may use, as far as the machine has them."),
      ...hubFacts(status.upstream),
      ...fact("Running for", duration(status.uptime_seconds), ""), ...fact("Estimator", status.estimator, "How information is estimated: see docs/scores.md."),
        ...fact("Version", `${status.version}, catalogue ${status.catalogue_version}`, ""));
    counts.replaceChildren(el("table", { class: "plain" },
      head(["Run", "Data", "Window", "Received", "Duplicate", "Not accepted", "Not settled", "Evaluations"]),
      el("tbody", {}, ...(runs ?? []).flatMap((run) => run.splits.map((split) =>
        el("tr", {}, el("th", { scope: "row" }, run.name), el("td", {}, split.split), el("td", {}, split.window ?? "–"),
        ...[split.rows_received, split.rows_duplicate, split.rows_dropped, split.passes_unsettled, split.points].map((n) =>
          el("td", { class: "n" }, count(n)))))))));
    rules.replaceChildren(el("table", { class: "plain" }, head(["Rule", "Data", "Severity", "Advises to stop", "Firing for"], 4),
      el("tbody", {}, ...store.rules.map((rule) => el("tr", {}, el("th", { scope: "row" }, term(rule.name, rule.action ? [rule.action] : [])),
        el("td", {}, rule.split), el("td", {}, rule.severity ?? "warning"), el("td", {}, rule.advise_stop ? "yes" : "no"),
        el("td", { class: "n" }, count(standings.filter((one) => one.rule === rule.name && one.state === "firing").length)))))));
  }

  return { root, draw };
}

/** @param {Status["upstream"]} upstream */
function hubFacts(upstream) {
  if (!upstream) return [];
  const { hub, reached, why, waiting, sent, refused, dropped } = upstream;
  const lost = [refused ? `${count(refused)} refused` : "", dropped ? `${count(dropped)} lost` : ""].filter(Boolean).join(", ");
  return [...fact("Hub", reached ? `${hub} answers` : `${hub} does not answer: ${why}`,
    "Where this sidecar sends its runs. Training and scoring go on without it."),
    ...fact("Waiting for the hub", `${count(waiting)} changes${lost ? `; ${lost}` : ""}`,
      `Runs and evaluations that the hub does not have yet. It has ${count(sent)} since the sidecar started.`)];
}

/** @param {string} name @param {string} value @param {string} tip */
const fact = (name, value, tip) => [el("dt", {}, tip ? term(name, [tip]) : name), el("dd", {}, value)];
/** @param {string[]} names @param {number} [texts] columns of texts, which come first */
const head = (names, texts = 3) => headRow(...names.map((name, i) => /** @type {[string, string]} */ ([name, i < texts ? "" : "n"])));
