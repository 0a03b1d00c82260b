// The box beside the pointer: a value with everything needed to judge it.
import { BAND } from "./traces.js";
import { count, el, epochText, labelText, localTime, number, overText, percent, probability, withError } from "./text.js";

/**
 * @typedef {import("./api.js").CurvePoint} CurvePoint
 * @typedef {import("./api.js").Run} Run
 */

const box = /** @type {HTMLElement} */ (document.getElementById("tip"));

/** @param {{clientX: number, clientY: number}} at @param {...Node} content */
export function showTip(at, ...content) {
  box.replaceChildren(...content);
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  const left = at.clientX + 16 + width > innerWidth ? at.clientX - width - 16 : at.clientX + 16;
  const top = Math.min(Math.max(8, at.clientY - height / 2), innerHeight - height - 8);
  box.style.left = `${Math.max(8, left)}px`;
  box.style.top = `${top}px`;
}

export function hideTip() {
  box.hidden = true;
}

/**
 * @param {Run|undefined} run
 * @param {string} name
 * @param {string} color
 * @param {string} title of the score
 * @param {CurvePoint} point
 */
export function pointTip(run, name, color, title, point) {
  const { value, standard_error: error } = point;
  /** @type {Node[]} */
  const rows = [];
  const row = (/** @type {string} */ term, /** @type {string} */ text) => rows.push(el("dt", {}, term), el("dd", {}, text));
  if (value === null) row(title, `undefined: ${point.undefined ?? "no reason given"}`);
  else row(title, error === null ? number(value) : `${withError(value, error)} (1 SE)`);
  if (value !== null && error !== null) {
    row(`±${BAND} SE`, `${number(value - BAND * error, error)} … ${number(value + BAND * error, error)}`);
  }
  if (typeof point.p_value === "number") row("p", probability(point.p_value).replace("= ", ""));
  if (point.left_out) row("scored", `${overText(point.left_out)}: ${point.left_out.why}`);
  row("step", count(point.step));
  row("epoch", epochText(point.epoch));
  row("N", `${count(point.rows)} rows`);
  row("ties", percent(point.tie_fraction));
  row("time", localTime(point.time));
  if (point.provisional) row("provisional", "the sample is still filling");
  if (point.incomplete) row("incomplete", "the pass was closed by its deadline");
  const labels = run ? labelText(run.labels) : "";
  return [
    el("div", { class: "tip-head" }, el("span", { class: "swatch", color }), el("strong", {}, name)),
    labels ? el("div", { class: "dim" }, labels) : new Text(""),
    el("dl", {}, ...rows),
  ];
}
