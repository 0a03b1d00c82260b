// The curve behind a score's newest value, such as Clarity over its threshold: the shown runs laid over each other.
import { get } from "./api.js";
import { about } from "./charts.js";
import { choice } from "./controls.js";
import { latestPoint } from "./curves.js";
import { pageColor, runColor, runSymbol } from "./palette.js";
import { saveButtons } from "./saving.js";
import { change } from "./state.js";
import { hideTip, showTip } from "./tip.js";
import { count, el, number, plotText } from "./text.js";

/**
 * @typedef {import("./api.js").Score} Score
 * @typedef {import("./api.js").Run} Run
 * @typedef {import("./api.js").Point} Point
 * @typedef {import("./state.js").View} View
 * @typedef {[number, number|null][]} Curve
 * @typedef {{step: number, curve: Curve, beside: Curve, best: number|null}} Held of an evaluation: `best` is the x that
 *   is the best by its scores, `beside` the curve to compare with, often empty
 */

/** Steps of x that span more than this factor are drawn by their order of magnitude. */
const DECADES = 1000;
/** Lines of text below the picture. */
const MOST_NOTES = 6;

/** @param {HTMLElement} host @param {() => void} changed called when a curve has come */
export function sweep(host, changed) {
  const score = choice("curve of", (value) => change({ sweep: value }));
  const title = el("h2", { id: "title-sweep" });
  const when = el("span", { class: "dim" });
  const help = el("span");
  const plot = el("div", { class: "plot", role: "img", "aria-labelledby": "title-sweep", "aria-describedby": "note-sweep" });
  const note = el("p", { class: "note", id: "note-sweep" });
  host.replaceChildren(el("div", { class: "panel-head" }, title, when, el("div", { class: "tools" }, saveButtons(() => table, () => plot), help)),
    el("div", { class: "controls inner" }, score.root), plot, note);
  new ResizeObserver(() => { if (plot.data) globalThis.Plotly.Plots.resize(plot); }).observe(plot);
  /** @type {Map<string, Held>} */
  const held = new Map();
  /** @type {Set<string>} */
  const fetching = new Set();
  /** @type {any} */
  let table = null;
  let drawn = "";

  /** @param {string} key @param {Point|null} point @param {Score} of */
  function keep(key, point, of) {
    const outcome = point?.scores[of.id];
    if (!point || !outcome?.curve) return;
    const other = (/** @type {string|undefined} */ id) => point.scores[id ?? ""];
    held.set(key, {
      step: point.step, curve: outcome.curve, beside: other(of.curve?.beside)?.curve ?? [], best: other(of.curve?.best)?.value ?? null,
    });
  }

  /**
   * The curve of the newest evaluation that has one. Slow scores join their evaluation late: that one may not be the
   * newest, and is then asked for.
   * @param {Run} run @param {string} split @param {Score} of @param {number} step of the newest value
   */
  function newest(run, split, of, step) {
    const key = JSON.stringify([run.name, split, of.id]);
    const latest = latestPoint(run.name, split);
    keep(key, latest, of);
    const asked = JSON.stringify([key, step]);
    // Other parts of the page already fetch the whole latest evaluation.
    if (latest && latest.step !== step && held.get(key)?.step !== step && !fetching.has(asked)) {
      fetching.add(asked);
      get("point", { run: run.name, split, step }).then((point) => {
        // There may be a newer one by now.
        if ((held.get(key)?.step ?? -1) < step) keep(key, point, of);
        changed();
      }, () => fetching.delete(asked));
    }
    return held.get(key) ?? null;
  }

  /**
   * @param {View} view
   * @param {Score[]} swept those with a curve
   * @param {Run[]} shown
   * @param {string} split
   * @param {(run: string, score: string) => number[]} stepsOf rising steps at which a score has a value
   */
  return function draw(view, swept, shown, split, stepsOf) {
    const scores = swept.filter(({ id }) => shown.some((run) => stepsOf(run.name, id).length > 0));
    const chosen = scores.find((one) => one.id === view.sweep) ?? scores.find((one) => view.scores.includes(one.id)) ?? scores[0];
    const found = !chosen ? [] : shown.flatMap((run) => {
      const step = stepsOf(run.name, chosen.id).at(-1);
      const behind = step === undefined ? null : newest(run, split, chosen, step);
      return behind ? [{ run: run.name, color: runColor(run.name), symbol: runSymbol(run.name), ...behind }] : [];
    });
    host.hidden = found.length === 0;
    if (!chosen?.curve || !found.length) return;
    score.set(scores.map((one) => [one.id, one.title]), chosen.id);
    const now = JSON.stringify([chosen.id, split, found, pageColor("--panel")]);
    if (now === drawn) return;
    drawn = now;
    const { x, y, best } = chosen.curve;
    const dashed = found.some((one) => one.beside.length) ? swept.find(({ id }) => id === chosen.curve?.beside) : undefined;
    title.textContent = `${y} over the ${x}`;
    when.textContent = `${split}, newest evaluation`;
    help.replaceChildren(about(chosen));
    note.replaceChildren(...found.slice(0, MOST_NOTES).map((one) => el("span", {}, el("i", { class: "swatch", color: one.color }), ` ${told(one)}`)),
      ...(dashed ? [el("span", {}, `dashed: ${dashed.curve?.x}`)] : []),
      ...(found.length > MOST_NOTES ? [el("span", {}, `and ${found.length - MOST_NOTES} more`)] : []));
    const compared = dashed ? [`${y}: ${dashed.curve?.x}`] : [];
    table = {
      name: `${chosen.id} curve ${split}`, columns: ["run", "step", x, y, ...compared, ...(best ? ["best"] : [])],
      rows: found.flatMap((one) => one.curve.map(([at, value]) => [one.run, one.step, at, value,
        ...compared.map(() => one.beside.find(([other]) => other === at)?.[1] ?? null), ...(best ? [at === one.best] : [])])),
    };
    const first = !plot.data;
    globalThis.Plotly.react(plot, found.flatMap(traces), layout(x, y, found), { displaylogo: false, displayModeBar: false, showTips: false });
    if (first) {
      plot.on("plotly_hover", (/** @type {any} */ event) => plot.tell(event));
      plot.on("plotly_unhover", hideTip);
    }
    plot.tell = (/** @type {any} */ event) => {
      const [hit] = event.points;
      const one = found.find(({ run }) => run === hit.data.name);
      if (!one) return;
      showTip(event.event, el("div", { class: "tip-head" }, el("span", { class: "swatch", color: one.color }), el("strong", {}, one.run)),
        el("dl", {}, ...[[x, String(hit.x)], [y, number(hit.y)], ["step", count(one.step)]].flatMap(([term, text]) => [el("dt", {}, term), el("dd", {}, text)])));
    };
  };
}

/** @param {{run: string} & Held} one */
function told({ run, step, curve, best }) {
  const at = best === null ? undefined : curve.find(([x]) => x === best);
  const without = curve.filter(([, value]) => value === null).length;
  return `${run}, step ${count(step)}${at ? `: best at ${at[0]}, ${number(at[1])}` : ""}${without ? `; undefined at ${without} of ${curve.length}` : ""}`;
}

/** @param {{run: string, color: string, symbol: string} & Held} one */
function traces({ run, color, symbol, curve, beside, best }) {
  const trace = { type: "scatter", name: run, hoverinfo: "none", connectgaps: false, cliponaxis: false };
  const at = curve.filter(([x, value]) => x === best && value !== null);
  return [
    { ...trace, mode: "lines+markers", meta: "curve", x: curve.map(([x]) => x), y: curve.map(([, value]) => value),
      line: { color, width: 1.7 }, marker: { color, symbol, size: 5 } },
    { ...trace, mode: "lines", meta: "beside", x: beside.map(([x]) => x), y: beside.map(([, value]) => value), line: { color, width: 1.4, dash: "dash" } },
    { ...trace, mode: "markers", meta: "best", x: at.map(([x]) => x), y: at.map(([, value]) => value),
      marker: { symbol: "star", size: 14, color, line: { color: pageColor("--panel"), width: 1.5 } } },
  ].filter((one) => one.x.length > 0);
}

/** @param {string} x @param {string} y @param {Held[]} found */
function layout(x, y, found) {
  const [ink, dim, grid, panel] = ["--ink", "--dim", "--grid", "--panel"].map(pageColor);
  const places = found.flatMap(({ curve }) => curve.map(([at]) => at));
  const [low, high] = places.reduce(([low, high], at) => [Math.min(low, at), Math.max(high, at)], [Infinity, -Infinity]);
  const axis = { exponentformat: "none", gridcolor: grid, linecolor: grid, zeroline: false, tickfont: { color: dim }, tickcolor: grid, ticks: "outside", ticklen: 3 };
  const named = (/** @type {string} */ text) => ({ text: plotText(text), standoff: 6, font: { color: dim, size: 11.5 } });
  return {
    margin: { l: 58, r: 14, t: 8, b: 42 }, paper_bgcolor: panel, plot_bgcolor: panel, showlegend: false, hovermode: "closest", hoverdistance: 24,
    font: { family: "system-ui, sans-serif", size: 11.5, color: ink },
    xaxis: { ...axis, type: low > 0 && high / low >= DECADES ? "log" : "linear", title: named(x), dtick: low > 0 && high / low >= DECADES ? 1 : undefined },
    yaxis: { ...axis, title: named(y), nticks: 7 },
  };
}
