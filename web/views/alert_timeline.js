// The times at which rules fired: a lane for each, and a list in words. Also evaluations without a value.
import { carried } from "../data/api.js";
import { isLeft } from "../data/series.js";
import { store } from "../data/store.js";
import { count, el } from "../text.js";
import { momentText, verdictOf } from "../labels.js";
import { watcher } from "../scheduler.js";

/**
 * @import { Alert, Unscored } from "../data/api.js"
 * @import { Shown } from "../data/shown.js"
 */

/** Entries of the list, the newest first. */
const LISTED = 7;
/** Per cent of a lane that are wide enough for a text. */
const LEGIBLE = 8;
/** Pixels of a lane that are seen, however short the time is. */
const SEEN = 12;

/** @param {HTMLElement} host */
export function lanesPanel(host) {
  const range = el("span", { class: "small dim" });
  const lanes = el("div", { class: "lanes" });
  const log = el("ul", { class: "log" });
  host.append(el("header", {}, el("h2", {}, "Alert history"), el("div", { class: "end" }, range)), el("div", { class: "body" }, lanes, log));
  const isNew = watcher();
  let whole = false;

  /** @param {Shown} shown @param {Unscored[]} unscored */
  return function draw(shown, unscored) {
    const { run, split } = shown.view;
    const series = shown.lines[0]?.series;
    const row = shown.rows.get(run);
    const steps = series?.step ?? [];
    // Of attempts that were left, the alerts ended where the run has gone on from.
    const end = (/** @type {Alert} */ { step, since }) =>
      steps.filter((one, at) => one <= step && (series?.time[at] ?? 0) <= since + 0.001).at(-1) ?? steps[0];
    const own = store.changes.filter((one) => one.run === run && one.split === split);
    const wentBack = own.some((one) => one.state === "firing" && isLeft(series, one));
    const changes = own.map((one) => (isLeft(series, one) ? /** @type {Alert} */ ({ ...one, state: "inactive", step: end(one) }) : one));
    if (!isNew(changes.length, store.standings.length, row?.verdict, row?.step, series?.step.length, series?.step.at(-1), series?.version, unscored.length,
      whole)) return;
    const [first, last] = [steps[0] ?? 0, steps.at(-1) ?? 1];
    const epochOf = (/** @type {number} */ step) => { const at = steps.indexOf(step); return at < 0 ? null : series?.epoch[at] ?? null; };
    const when = (/** @type {number} */ step) => momentText({ step, epoch: epochOf(step) });
    const place = (/** @type {number} */ step) => (last > first ? Math.max(0, Math.min(100, (100 * (step - first)) / (last - first))) : 0);
    const span = (/** @type {number} */ from, /** @type {number} */ to, /** @type {string} */ look, /** @type {string} */ text) => {
      const width = place(to) - place(from);
      const style = `left: min(${place(from)}%, 100% - ${SEEN}px); width: max(${width}%, ${SEEN}px)`;
      return el("span", { class: look, style, title: `${text}, ${when(from)} to ${when(to)}` },
        width < LEGIBLE ? "" : text);
    };
    range.textContent = steps.length ? `${split}, ${when(first)} to ${lastOf(when(last))}` : split;
    const told = verdictOf(row, split, shown.lines[0]?.run);
    // The newest verdict holds since a known evaluation only where it is one of leakage.
    const leaks = told.state === "leaking";
    const since = leaks ? row?.verdict?.since?.step ?? last : last;
    lanes.replaceChildren(el("span", {}, "Verdict"), el("div", { class: "lane" }, span(since, last, told.look, leaks ? "leaking" : told.text)));
    for (const rule of new Set(changes.map((one) => one.rule))) {
      const own = changes.filter((one) => one.rule === rule);
      if (own.every(({ state }) => state === "inactive")) continue;
      const lane = el("div", { class: "lane" });
      own.forEach((one, i) => {
        if (one.state === "inactive") return;
        const look = one.state === "pending" ? "warn" : one.severity === "info" ? "warn" : "leak";
        lane.append(span(one.step, own[i + 1]?.step ?? last, look, one.state === "pending" ? "" : "firing"));
      });
      lanes.append(el("span", {}, rule), lane);
    }
    if (unscored.length) {
      lanes.append(el("span", {}, "Without a value"), el("div", { class: "lane" }, ...unscored.map(({ step, reason }) => span(step, step, "gap", reason))));
    }
    if (steps.length > 1) {
      const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => steps[Math.round(share * (steps.length - 1))]);
      lanes.append(el("span", { class: "tick-space" }), el("div", { class: "ticks" },
        ...[...new Set(ticks)].map((step, i) => el("span", { style: `left: ${place(step)}%` }, i === 0 ? when(step) : lastOf(when(step))))));
    }
    // A rule that was only pending has nothing to end.
    const fired = changes.filter((one, i) => one.state === "firing"
      || (one.state === "inactive" && changes.slice(0, i).findLast(({ rule }) => rule === one.rule)?.state === "firing"));
    const entries = [
      ...fired.filter(({ state }) => state === "firing").map((one) => ({ step: one.step, look: one.severity !== "info",
        head: one.advises_stop ? "Stop advised. " : "", text: `${one.rule}: ${one.evidence}` })),
      ...ends(fired).map((own) => ({ step: own[0].step, look: false, head: "",
        text: `Ended: ${own.length === 1 ? `${own[0].rule}: ${own[0].evidence}` : own.map(({ rule }) => rule).join(", ")}` })),
      ...gathered(unscored).map(({ step, text }) => ({ step, look: false, head: "No evaluation. ", text })),
    ].sort((a, b) => b.step - a.step);
    const more = el("button", { class: "plain-btn", "aria-expanded": String(whole), onclick: () => {
      whole = !whole;
      draw(shown, unscored);
      /** @type {HTMLElement|null} */ (log.querySelector(".plain-btn"))?.focus();
    } }, whole ? `Show only the newest ${LISTED}` : `Show ${entries.length - LISTED} earlier`);
    log.replaceChildren(...entries.slice(0, whole ? entries.length : LISTED).map(({ step, look, head, text }) =>
      el("li", {}, el("span", {}, when(step)), el("span", {}, head && el("b", { class: look ? "leak" : "" }, head), text))),
    ...(entries.length > LISTED ? [el("li", {}, el("span", {}), el("span", {}, more))] : []),
    ...(entries.length ? [] : [el("li", {}, el("span", {}),
      el("span", { class: "dim" }, store.rules.some((rule) => rule.split === split)
      ? `No rule has fired since ${wentBack ? "the run went back to an earlier step" : "this sidecar started"}.`
      : carried && store.rules.length === 0 ? "The report has no alerts: a running sidecar judges rules." : `No rule judges ${split}.`))]));
  };
}

const lastOf = (/** @type {string} */ text) => text.replace(/^(epoch|step) /, "");

/** The alerts that ended, those of one step together: the end of a run ends all. @param {Alert[]} fired */
function ends(fired) {
  const ended = fired.filter(({ state }) => state === "inactive");
  return [...new Set(ended.map(({ step }) => step))].map((step) => ended.filter((one) => one.step === step));
}

/** Passes that have no point for the same reason, together. @param {Unscored[]} unscored */
function gathered(unscored) {
  /** @type {Map<string, number[]>} */
  const by = new Map();
  for (const { step, reason } of unscored) by.set(reason, [...(by.get(reason) ?? []), step]);
  return [...by].map(([reason, steps]) => ({ step: Math.max(...steps),
    text: steps.length === 1 ? `Step ${count(steps[0])}: ${reason}`
      : `${steps.length} passes, steps ${count(Math.min(...steps))} to ${count(Math.max(...steps))}: ${reason}` }));
}

