// A run's verdict: what it is, the numbers it rests on, and what to do. All conclusions are the sidecar's.
import { HALF } from "./lines.js";
import { alertParts, upper } from "./sentences.js";
import { store } from "./store.js";
import { ago, count, el, icon, shortened, signed, svg } from "./text.js";
import { tipped } from "./tip.js";
import { halfText, kindOf, momentText, named, nameOf, valueText, verdictOf } from "./words.js";

/**
 * @typedef {import("./api.js").Point} Point
 * @typedef {import("./api.js").Row} Row
 * @typedef {import("./api.js").Line} Line
 * @typedef {{lines: Line[]}} Diagnosis
 */

/** Fewer concepts have a bar with their name each, where one of them is above the limit. */
const FEW = 9;
/** Characters of a name beside its bar. */
const NAME = 26;
/** Concepts that a sentence names. */
const NAMED = 3;

/** @param {HTMLElement} host */
export function verdictPanel(host) {
  const title = el("h1", {});
  const lead = el("p", { class: "lead" });
  const strip = el("figure", { class: "strip", hidden: true });
  const facts = el("p", { class: "small dim facts-line" });
  const todo = el("ol", { class: "todo" });
  const checked = el("p", { class: "small dim checked" });
  host.append(el("div", {}, title, lead, strip, facts), el("div", {}, el("h2", {}, "What to do"), todo, checked));
  let before = "";

  /**
   * @param {import("./shown.js").Shown} shown @param {Row|undefined} row @param {Point|null} point @param {Diagnosis|null} diagnosis
   * @param {string|null} why there is no diagnosis
   */
  return function draw(shown, row, point, diagnosis, why) {
    const { split, run } = shown.view;
    const standings = store.standings.filter((one) => one.run === run && one.split === split && one.state === "firing");
    const now = JSON.stringify([row, point?.step, point?.time, point?.seconds, diagnosis, why, standings, shown.down, shown.theme]);
    age(row);
    if (now === before) return;
    before = now;
    const told = verdictOf(row, split);
    host.className = `panel verdict is-${told.look}`;
    const asOf = shown.down && row?.step ? `As of ${momentText({ step: row.step, epoch: row.epoch })}: ${lower(told.text)}` : told.text;
    const through = told.kind === "leaking" && row?.concepts && row.concepts.above > 0 ? `, through ${row.concepts.above} of ${row.concepts.of} concepts` : told.kind === "unlearnt" ? `, ${told.rest}` : told.kind === "possibly_leaking" || told.kind === "sound" ? (told.rest ? `: ${told.rest}` : "") : "";
    title.replaceChildren(icon(told.look), el("span", {}, asOf + through));
    lead.replaceChildren(...sentence(row, point));
    drawStrip(point, row);
    todo.replaceChildren(...actions(told.kind, standings, diagnosis, why, row, split));
    drawChecked(diagnosis);
  };

  /** @param {Row|undefined} row */
  function age(row) {
    if (!row?.time || row.step === null) {
      facts.replaceChildren();
      return;
    }
    const last = row.verdict?.last_sound;
    const seconds = Date.now() / 1000 - row.time;
    facts.replaceChildren(`± is a 95 % interval · ${store.rowsOf}, ${momentText({ step: row.step, epoch: row.epoch })}, ${count(row.rows)} rows${seconds > 0 ? `, ${ago(seconds)}` : ""}`,
      ...(last ? [" · last sound evaluation: ", el("b", {}, `${momentText(last)}${last.epoch === null ? "" : `, step ${count(last.step)}`}`)] : []));
  }

  /** @param {Point|null} point @param {Row|undefined} row */
  function drawStrip(point, row) {
    const score = row?.concepts?.score ?? "ctl_conditional";
    const names = store.runs?.find(({ name }) => name === row?.name)?.concepts ?? [];
    const all = (point?.scores[score]?.per_concept ?? []).flatMap((value, i) => (value === null ? [] : [{ value, name: names[i] ?? "" }])).sort((a, b) => b.value - a.value);
    const values = all.map(({ value }) => value);
    const limit = row?.concepts?.limit ?? 0;
    strip.hidden = values.length < 2 || (values.length < FEW && values[0] <= limit);
    strip.classList.toggle("of-few", values.length < FEW);
    if (strip.hidden) return;
    const top = Math.max(values[0], limit) * 1.05 || 1;
    if (values.length < FEW) {
      const share = (/** @type {number} */ value) => ((100 * Math.max(0, value)) / top).toFixed(1);
      strip.replaceChildren(el("figcaption", { class: "small dim" }, `${nameOf(score)} of each concept; the red line is ${limit}, the limit of their mean`),
        el("div", { class: "bars" }, ...all.flatMap(({ name, value }) => [el("span", { class: "name", title: name }, shortened(name, NAME)),
          el("span", { class: value > limit ? "hb" : "hb low", "--v": share(value), "--lim": share(limit) }, el("i", {})), el("span", { class: "n" }, valueText(score, value))])));
      return;
    }
    const bars = values.map((value, i) => svg("rect", { class: value > limit ? "hot" : "cool", x: i + 0.12, width: 0.76, y: 70 - (70 * Math.max(0, value)) / top, height: (70 * Math.max(0, value)) / top }));
    const above = values.filter((value) => value > limit).length;
    const line = 70 - (70 * limit) / top;
    strip.replaceChildren(el("figcaption", { class: "small dim" }, `${values.length} concepts, most leakage first: ${above} above ${limit}, the limit of their mean`),
      svg("svg", { viewBox: `0 0 ${values.length} 70`, preserveAspectRatio: "none", role: "img", "aria-label": `Leakage of ${values.length} concepts, from ${valueText(score, values[0])} to ${valueText(score, values.at(-1))}` },
        ...bars, svg("path", { class: "lim", d: `M0 ${line}H${values.length}` })));
  }

  /** @param {Diagnosis|null} diagnosis */
  function drawChecked(diagnosis) {
    const absent = (diagnosis?.lines ?? []).filter(({ state }) => state === "absent");
    const unknown = (diagnosis?.lines ?? []).filter(({ state }) => state === "unknown");
    const list = (/** @type {string} */ text, /** @type {Line[]} */ lines) => tipped(el("button", { type: "button", class: "tipped" }, text),
      () => lines.map((line) => el("p", {}, el("b", {}, line.subject), `: ${named(line.text)}`)));
    checked.replaceChildren(...(absent.length ? [`Nothing found in: ${absent.map(({ subject }) => lower(subject)).join(", ")}. `, list("Why", absent), " "] : []),
      ...(unknown.length ? [`${absent.length ? "Not" : "Nothing could be"} checked: ${unknown.map(({ subject }) => lower(subject)).join(", ")}. `, list("What is missing", unknown)] : []));
  }
}

const lower = (/** @type {string} */ text) => text.replace(/^[A-Z](?![A-Z])/, (first) => first.toLowerCase());

/** The numbers in words. @param {Row|undefined} row @param {Point|null} point */
function sentence(row, point) {
  if (!row?.verdict) return ["The page judges a run from its evaluations. The first appears here by itself."];
  /** @type {(Node|string)[]} */
  const said = [];
  const leak = row.scores.ctl_conditional;
  const limit = store.limits.find(({ score }) => score === "ctl_conditional")?.limit;
  const percent = (/** @type {number} */ share) => `${signed((100 * share).toFixed(0))} %`;
  if (leak?.value !== undefined) {
    const half = leak.standard_error === undefined ? "" : ` (±${Math.max(1, Math.round(100 * HALF * leak.standard_error))})`;
    said.push("Beyond its concept, an activation reveals ", el("b", {}, percent(leak.value) + half), " of the task", limit === undefined ? ". " : "; ", ...(limit === undefined ? [] : [el("b", {}, percent(limit)), " is the limit. "]));
  } else if (leak?.undefined) {
    said.push(`Leakage to the task is undefined: ${named(leak.undefined)}. `);
  }
  const learnt = row.scores.concept_accuracy?.value;
  if (kindOf(row) === "unlearnt" && learnt !== undefined) said.push("Only ", el("b", {}, `${valueText("concept_accuracy", learnt)} %`), " of concept predictions are right: a model that has not learnt its concepts cannot be called sound. ");
  const [drop, task] = [row.scores.intervention_drop, row.scores.task_accuracy];
  if (drop?.value !== undefined && task?.value !== undefined) {
    const then = task.value - drop.value;
    const harm = store.limits.find(({ score }) => score === "intervention_drop")?.limit ?? 0.05;
    said.push("With every concept set to its true value, task accuracy ", drop.value > harm ? "falls from " : drop.value < 0 ? "rises from " : "goes from ",
      el("b", {}, `${valueText("task_accuracy", task.value)} %`), " to ", el("b", {}, `${valueText("task_accuracy", then)} %${drop.standard_error ? ` ± ${halfText("intervention_drop", drop.standard_error)}` : ""}`), ". ");
  } else if (row.scores.ctl_conditional) {
    said.push("Interventions were not logged, so nothing shows what the head does with true concepts. ");
  }
  const values = point?.scores.ctl_conditional?.per_concept;
  const names = store.runs?.find(({ name }) => name === row.name)?.concepts ?? [];
  if (values && row.verdict.kind === "leaking") {
    const order = values.map((value, i) => ({ value: Math.max(0, value ?? 0), name: names[i] ?? "" })).sort((a, b) => b.value - a.value);
    const all = order.reduce((sum, { value }) => sum + value, 0);
    let [sum, half] = [0, 0];
    while (sum < all / 2 && half < order.length) sum += order[half++].value;
    if (half > 0 && order.length > 2) {
      said.push("Half of it comes from ", el("a", { href: "#concepts", onclick: jump }, half === 1 ? "one concept" : `${half} concepts`),
        `: ${order.slice(0, Math.min(half, NAMED)).map(({ name }) => name).join(", ")}${half > NAMED ? " …" : ""}.`);
    }
  }
  return said;
}

/** The address keeps the view, so a link within the page moves without it. @param {Event} event */
function jump(event) {
  event.preventDefault();
  document.getElementById("concepts")?.scrollIntoView({ behavior: "smooth" });
}

/**
 * What to do, the most urgent first.
 * @param {string} kind @param {import("./api.js").Alert[]} standings @param {Diagnosis|null} diagnosis @param {string|null} why @param {Row|undefined} row @param {string} split
 */
function actions(kind, standings, diagnosis, why, row, split) {
  const entry = (/** @type {string} */ head, /** @type {string} */ text, /** @type {Line} */ line = /** @type {any} */ (null)) => el("li", {}, el("b", {}, head), el("p", {}, ...alertParts(text, true), `${text && !/[.!?]$/.test(text) ? "." : ""} `, line && evidence(line)));
  const stops = standings.filter((one) => one.advises_stop);
  const found = (diagnosis?.lines ?? []).filter(({ state }) => state === "found");
  const list = [
    ...stops.slice(0, 1).map((one) => entry("Stop this run", `${upper(one.rule)}: ${one.evidence}${stops.length > 1 ? `; ${stops.length - 1} more ${stops.length === 2 ? "rule advises" : "rules advise"} it` : ""}`)),
    ...found.map((line) => entry(line.action || line.title, line.text, line)),
  ];
  if (list.length) return list;
  if (!row?.verdict) return [entry("Wait for an evaluation", `No evaluation of ${split} has been scored yet`)];
  if (kind === "too_early") return [entry("Wait", "Models cross every limit while they learn their concepts, so the first two evaluations are not judged")];
  if (kind === "possibly_leaking") return [entry("Watch the next evaluations", "A second evaluation beyond the limit makes the verdict Leaking; more rows narrow the interval")];
  if (kind === "unlearnt") return [entry("Train longer, or raise the weight of the concept loss", "Concepts are poorly learnt")];
  if (why !== null) return [entry("Look again later", why)];
  return [entry(kind === "sound" ? "Nothing to do" : "Log what is missing", kind === "sound" ? "No rule of the diagnosis finds a fault" : row.verdict.reason)];
}

/** The numbers of a line, as a tip. @param {Line} line */
function evidence(line) {
  if (!line.evidence.length) return false;
  return tipped(el("button", { type: "button", class: "tipped" }, "Numbers"), () => [el("b", {}, line.title), el("table", {}, ...line.evidence.map(({ score, value, standard_error: error, limit }) => el("tr", {},
    el("td", {}, score), el("td", { class: "n" }, `${score === "rows" ? value : signed(value.toFixed(3))}${error === undefined || error === null ? "" : ` ± ${(HALF * error).toFixed(3)}`}`), el("td", {}, limit === undefined ? "" : `limit ${limit}`)))), el("p", {}, line.source)]);
}
