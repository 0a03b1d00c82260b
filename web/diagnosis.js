// What is wrong with a run, by its scores: the findings with their numbers, and what could not be judged.
import { answers } from "./answers.js";
import { choice } from "./controls.js";
import { latestPoint } from "./curves.js";
import { change } from "./state.js";
import { count, el, withError } from "./text.js";

/**
 * @typedef {import("./api.js").Run} Run
 * @typedef {import("./api.js").Line} Line
 */

/** @param {HTMLElement} host @param {() => void} changed */
export function diagnosis(host, changed) {
  const run = choice("run", (value) => change({ focus: value }));
  const title = el("h2", {}, "Diagnosis");
  const when = el("span", { class: "dim" });
  const lines = el("div", { class: "findings", role: "list" });
  const rest = el("details", { class: "checked" });
  host.replaceChildren(el("div", { class: "panel-head" }, title, when), el("div", { class: "controls inner" }, run.root), lines, rest);
  const answer = answers("diagnosis", changed);
  let drawn = "";

  /** @param {import("./state.js").View} view @param {Run[]} shown those with points in the split @param {string} split */
  return function draw(view, shown, split) {
    const focus = shown.find((one) => one.name === view.focus) ?? shown[0];
    host.hidden = !focus;
    if (!focus) return;
    run.set(shown.map(({ name }) => [name, name]), focus.name);
    const step = focus.splits.find((one) => one.split === split)?.last_step;
    // Slow scores join their point later.
    const known = Object.keys(latestPoint(focus.name, split)?.scores ?? {}).length;
    const { body, why } = answer({ run: focus.name, split }, `${step} ${known}`);
    const now = JSON.stringify([body, why]);
    if (now === drawn) return;
    drawn = now;
    when.textContent = body ? `${split}, step ${count(body.step)}, ${count(body.rows)} rows` : why ?? "";
    const of = (/** @type {string} */ state) => (body?.lines ?? []).filter((/** @type {Line} */ line) => line.state === state);
    const found = of("found");
    lines.replaceChildren(...(body && found.length === 0 ? [el("p", { class: "dim" }, "No finding. What was checked, and how large an effect would have been seen:")] : found.map(finding)));
    const checked = [...of("absent").map((/** @type {Line} */ { subject, text }) => `${subject}: ${text}`),
      ...of("unknown").map((/** @type {Line} */ { subject, text }) => `${subject}: unknown: ${text}`)];
    rest.open = found.length === 0;
    rest.replaceChildren(el("summary", {}, `${of("absent").length} checked without a finding, ${of("unknown").length} unknown`),
      ...checked.map((text) => el("p", { class: "note" }, text)));
    rest.hidden = checked.length === 0;
  };
}

/** @param {Line} line */
function finding({ title, source, text, evidence }) {
  return el("div", { class: "finding", role: "listitem" },
    el("p", {}, el("strong", {}, title), " ", el("span", { class: "dim" }, source)),
    el("p", {}, text),
    el("ul", {}, ...evidence.map(({ score, value, standard_error, limit }) => el("li", {},
      el("span", { class: "dim" }, score), ` ${score === "rows" ? count(value) : withError(value, standard_error)}`,
      limit === undefined ? "" : el("span", { class: "dim" }, ` limit ${limit}`)))));
}
