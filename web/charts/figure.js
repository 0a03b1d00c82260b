// A chart with its caption: name with a tip, unit, and a menu that saves it or lists its numbers.
import { LineChart } from "./linechart.js";
import { savePng, saveSvg } from "./picture.js";
import { saveMenu } from "../saving.js";
import { el, headRow, scroller } from "../text.js";
import { term } from "../tip.js";

/**
 * @import { Table } from "../saving.js"
 * @import { Spec } from "./spec.js"
 */

/** Rows that a list of numbers shows; files have all. */
const LISTED = 400;

/**
 * @param {object} of
 * @param {string} of.id
 * @param {string} of.name
 * @param {string} of.unit
 * @param {string[]} of.tip
 * @param {string} of.group of charts that share a cross hair
 * @param {(zoom: [number, number]|null) => void} [of.onZoom]
 * @param {() => Promise<Table|null>|Table|null} [of.csv]
 */
export function figure({ id, name, unit, tip, group, onZoom, csv }) {
  const chart = new LineChart({ label: name, group, onZoom });
  const note = el("p", { class: "small dim note-line", hidden: true });
  const twin = scroller(`${name}, numbers`, "twin");
  twin.hidden = true;
  let listed = false;
  const menu = saveMenu(name, {
    table: () => { listed = !listed; list(); },
    full: document.fullscreenEnabled ? () => root.requestFullscreen() : undefined,
    csv,
    png: () => { if (chart.spec) savePng(id, chart.spec, name, unit); },
    svg: () => { if (chart.spec) saveSvg(id, chart.spec, name, unit); },
  });
  const root = el("figure", { class: "chart", "data-score": id },
    el("figcaption", {}, el("span", { class: "what" }, term(name, tip)), el("span", { class: "unit" }, unit), menu), chart.root, note, twin);

  function list() {
    twin.hidden = !listed;
    const spec = chart.spec;
    if (!listed || !spec) return;
    const rows = spec.lines.flatMap((line) => line.x.map((x, i) => ({ line, x, i }))).filter(({ line, x, i }) => !Number.isNaN(x) && line.y[i] !== null);
    twin.replaceChildren(el("table", { class: "plain" },
      headRow(["Run"], [spec.along, "n"], [name, "n"], ["±, 95 %", "n"]),
      el("tbody", {}, ...rows.slice(-LISTED).map(({ line, x, i }) =>
        el("tr", {}, el("th", { scope: "row" }, line.name), el("td", { class: "n" }, String(Number(x.toPrecision(6)))),
        el("td", { class: "n" }, spec.text(Number(line.y[i]))), el("td", { class: "n" }, line.half?.[i] ? spec.text(Number(line.half[i])) : "–"))))));
  }

  return {
    root, chart,
    /** @param {Spec} spec @param {string} signature @param {string} [said] below the chart */
    show(spec, signature, said = "") {
      const before = chart.signature;
      root.curves = spec.lines;
      chart.show(spec, signature);
      note.hidden = !said;
      if (note.textContent !== said) note.textContent = said;
      if (listed && before !== signature) list();
    },
    remove() {
      chart.remove();
      root.remove();
    },
  };
}
