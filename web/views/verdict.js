// A run's verdict, its numbers and the advised actions. All conclusions are the sidecar's.
import { HALF } from "../charts/lines.js";
import { store } from "../data/store.js";
import { ago, count, el, icon, lower, shortened, signed, svg, upper } from "../text.js";
import { tipped } from "../tip.js";
import { halfText, momentText, nameOf, valueText, verdictOf, waitingOf } from "../labels.js";

/**
 * @import { Assessment, Evidence, Line, Point, Row } from "../data/api.js"
 * @import { Shown } from "../data/shown.js"
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
   * @param {Shown} shown @param {Row|undefined} row @param {Point|null} point @param {Assessment|null} found
   * @param {string|null} why there is no assessment
   */
  return function draw(shown, row, point, found, why) {
    const { split } = shown.view;
    const run = shown.lines[0]?.run;
    const told = verdictOf(row, split, run);
    const now = JSON.stringify([row, told, point?.step, point?.time, point?.seconds, run?.finished, found, why, shown.down, shown.theme]);
    age(row);
    if (now === before) return;
    before = now;
    host.className = `panel verdict is-${told.look}`;
    const asOf = shown.down && row?.step ? `As of ${momentText(row)}: ${lower(told.text)}` : told.text;
    const leaks = told.state === "leaking";
    const through = !told.rest || told.state === "too_early" ? "" : leaks ? `, through ${told.rest.replace("/", " of ")} concepts` : `: ${told.rest}`;
    title.replaceChildren(icon(told.look), el("span", {}, asOf + through));
    const ended = run?.finished === true && row?.evaluations === 0 && waitingOf(run, split) === 0;
    lead.replaceChildren(...sentence(row, point, ended));
    drawStrip(strip, point, row);
    todo.replaceChildren(...actions(row, found, why, split, ended));
    checked.replaceChildren(...checks(found));
  };

  /** @param {Row|undefined} row */
  function age(row) {
    if (!row?.time) {
      facts.replaceChildren();
      return;
    }
    const last = row.verdict?.last_sound;
    const seconds = Date.now() / 1000 - row.time;
    const at = row.step === null ? "" : `, ${momentText(row)}`;
    facts.replaceChildren(`± is a 95 % interval · ${store.rowsOf}${at}, ${count(row.rows)} rows${seconds > 0 ? `, ${ago(seconds)}` : ""}`,
      ...(last ? [" · last sound evaluation: ", el("b", {}, `${momentText(last)}${last.epoch === null ? "" : `, step ${count(last.step)}`}`)] : []));
  }
}

/**
 * Draws the value of each concept: a bar with its name for few, a row of bars for many.
 * @param {HTMLElement} strip @param {Point|null} point @param {Row|undefined} row
 */
function drawStrip(strip, point, row) {
  const { score = "ctl_conditional", limit = 0 } = row?.concepts ?? {};
  const names = store.runs?.find(({ name }) => name === row?.name)?.concepts ?? [];
  const all = (point?.scores[score]?.per_concept ?? []).flatMap((value, i) => (value === null ? [] : [{ value, name: names[i] ?? "" }]))
    .sort((a, b) => b.value - a.value);
  const few = all.length < FEW;
  strip.hidden = all.length < 2 || (few && all[0].value <= limit);
  strip.classList.toggle("of-few", few);
  if (strip.hidden) return;
  const top = Math.max(all[0].value, limit) * 1.05 || 1;
  const share = (/** @type {number} */ value) => (100 * Math.max(0, value)) / top;
  const caption = (/** @type {string} */ text) => el("figcaption", { class: "small dim" }, text);
  if (few) {
    const bars = all.flatMap(({ name, value }) => [el("span", { class: "name", title: name }, shortened(name, NAME)),
      el("span", { class: value > limit ? "hb" : "hb low", "--v": share(value).toFixed(1), "--lim": share(limit).toFixed(1) }, el("i", {})),
      el("span", { class: "n" }, valueText(score, value))]);
    strip.replaceChildren(caption(`${nameOf(score)} of each concept; the red line is ${limit}, the limit of their mean`),
      el("div", { class: "bars" }, ...bars));
    return;
  }
  const above = all.filter(({ value }) => value > limit).length;
  const label = `Leakage of ${all.length} concepts, from ${valueText(score, all[0].value)} to ${valueText(score, all[all.length - 1].value)}`;
  const bar = (/** @type {number} */ value, /** @type {number} */ i) =>
    svg("rect", { class: value > limit ? "hot" : "cool", x: i + 0.12, width: 0.76, y: 100 - share(value), height: share(value) });
  strip.replaceChildren(caption(`${all.length} concepts, most leakage first: ${above} above ${limit}, the limit of their mean`),
    svg("svg", { viewBox: `0 0 ${all.length} 100`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      ...all.map(({ value }, i) => bar(value, i)), svg("path", { class: "lim", d: `M0 ${100 - share(limit)}H${all.length}` })));
}

/** The checks that found nothing, and those that could not be made. @param {Assessment|null} found */
function checks(found) {
  const of = (/** @type {Line["state"]} */ state) => (found?.coverage ?? []).filter((line) => line.state === state);
  const [absent, unknown] = [of("absent"), of("unknown")];
  const subjects = (/** @type {Line[]} */ lines) => lines.map(({ subject }) => lower(subject)).join(", ");
  const list = (/** @type {string} */ text, /** @type {Line[]} */ lines) => tipped(el("button", { class: "tipped" }, text),
    () => lines.map((line) => el("p", {}, el("b", {}, line.subject), `: ${line.text}`)));
  return [...(absent.length ? [`Nothing found in: ${subjects(absent)}. `, list("Why", absent), " "] : []),
    ...(unknown.length ? [`${absent.length ? "Not" : "Nothing could be"} checked: ${subjects(unknown)}. `, list("What is missing", unknown)] : [])];
}

/**
 * The numbers in words, the one that decides first.
 * @param {Row|undefined} row @param {Point|null} point @param {boolean} ended whether the run has ended without an evaluation
 */
function sentence(row, point, ended) {
  if (ended) return ["The run has ended without one: there is nothing to judge."];
  if (!row?.verdict) return ["The page judges a run from its evaluations. The first appears here by itself."];
  /** @type {(Node|string)[]} */
  const said = [];
  const { deciding, concepts, state, task } = row.verdict;
  if (task) said.push(`Of the tasks, ${task} decides. `);
  if (deciding && deciding.score !== "intervention_drop") said.push(...decided(deciding));
  const drop = row.scores.intervention_drop;
  if (drop?.value !== undefined) {
    const half = drop.standard_error ? ` ± ${halfText("intervention_drop", drop.standard_error)}` : "";
    const by = `${valueText("intervention_drop", Math.abs(drop.value))}${half}`;
    const quality = typeof point?.scores.task_r2?.value === "number" ? "the R² of the task" : "balanced task accuracy";
    said.push(`With every concept set to its true value, ${quality} ${drop.value < 0 ? "rises" : "falls"} by `, el("b", {}, by), ". ");
  } else if (deciding) {
    const why = row.scores.intervention_drop?.undefined;
    said.push(`${why ? `The effect of interventions is unknown: ${why}` : "Interventions were not logged"}. `);
  }
  if (concepts.length) {
    said.push(state === "leaking" || state === "possibly_leaking" ? "Above the limit: " : "Hardly learnt: ",
      ...concepts.slice(0, NAMED).flatMap((name, i) => [i > 0 ? ", " : "", el("a", { href: "#concepts", title: name, onclick: jump }, shortened(name, NAME))]),
      concepts.length > NAMED ? ` and ${count(concepts.length - NAMED)} more.` : ".");
  }
  return said;
}

/** A number with its 95 % interval and its limit. @param {Evidence} one @returns {(Node|string)[]} */
function decided({ score, value, standard_error: error, limit }) {
  const half = error ? ` ± ${halfText(score, error)}` : "";
  const bound = limit === undefined ? "" : `; the limit is ${valueText(score, limit)}`;
  return [`${nameOf(score)} is `, el("b", {}, `${valueText(score, value)}${half}`), `${bound}. `];
}

/** The address keeps the view, so a link within the page moves without it. @param {Event} event */
function jump(event) {
  event.preventDefault();
  document.getElementById("concepts")?.scrollIntoView({ behavior: "smooth" });
}

/**
 * Returns the actions that the sidecar advises, the most urgent first.
 * @param {Row|undefined} row @param {Assessment|null} found @param {string|null} why @param {string} split
 * @param {boolean} ended whether the run has ended without an evaluation
 */
function actions(row, found, why, split, ended) {
  const entry = (/** @type {string} */ head, /** @type {string} */ text, /** @type {Evidence[]} */ numbers = []) =>
    el("li", {}, el("b", {}, head), el("p", {}, upper(text), `${text && !/[.!?]$/.test(text) ? "." : ""} `, numbers.length > 0 && evidence(numbers)));
  if (ended) return [entry("Log evaluations in the next run", `This run ended without a scored evaluation of ${split}`)];
  if (!row?.verdict) return [entry("Wait for an evaluation", `No evaluation of ${split} has been scored yet`)];
  if (found === null) return why === null ? [] : [entry("Look again later", why)];
  if (found.actions.length) return found.actions.map((one) => entry(one.text, one.why, one.evidence));
  const { state, reason } = row.verdict;
  if (state === "sound" || state === "nothing_found") return [entry("Nothing to do", "No check finds a fault")];
  return reason ? [entry("", reason)] : [];
}

/** Numbers, as a tip. @param {Evidence[]} numbers */
function evidence(numbers) {
  return tipped(el("button", { class: "tipped" }, "Numbers"),
    () => [el("table", {}, ...numbers.map(({ score, value, standard_error: error, limit }) => el("tr", {},
    el("td", {}, nameOf(score)), el("td", { class: "n" },
      `${score === "rows" ? value : signed(value.toFixed(3))}${error === undefined || error === null ? "" : ` ± ${(HALF * error).toFixed(3)}`}`),
      el("td", {}, limit === undefined ? "" : `limit ${limit}`))))]);
}
