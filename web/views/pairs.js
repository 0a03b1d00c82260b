// The k × k heat map of a score between concepts, with a readout below.
import { answers } from "../data/answers.js";
import { orderOf } from "../data/order.js";
import { options } from "./overview.js";
import { pageColor } from "../palette.js";
import { saveCanvas, saveMenu } from "../saving.js";
import { change } from "../data/state.js";
import { limitOf } from "../data/store.js";
import { el, number, probability, shortened } from "../text.js";
import { nameOf, scoreOf, withNames } from "../labels.js";
import { Heat, enlarged } from "./heat.js";
import { watcher } from "../scheduler.js";

/**
 * @import { Matrix } from "../data/api.js"
 * @import { Shown } from "../data/shown.js"
 * @typedef {{matrix: Matrix, places: number[], id: string}} Drawn places: concepts in their order on the map
 * @typedef {[number, number]} Pair numbers of concepts
 */

const SCORES = ["icl_conditional", "icl", "icl_excess", "icl_label"];
const ORDERS = { value: "largest first", alike: "related together", given: "as declared", name: "name" };
/** Characters of a name beside the map. */
const NAME = 17;
/** Names beside the map of more concepts would cover each other. */
const MOST_NAMES = 34;
/** A pair with a larger q may be noise. */
const FALSE_SHARE = 0.05;
/** @type {Record<string, Pair>} */
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** @param {HTMLElement} host @param {() => void} again draws the page again */
export function pairsPanel(host, again) {
  const score = el("select", { "aria-label": "Score between concepts", onchange: () => change({ pairs: score.value }) });
  const order = el("select", { "aria-label": "Order of concepts", onchange: () => change({ order: order.value }) });
  const map = heatMap();
  const said = el("p", {});
  const fault = el("p", { class: "small dim" });
  const answer = answers("matrix", again);
  const isNew = watcher();
  const menu = saveMenu("the pairs", {
    csv: () => {
      const { drawn } = map;
      if (!drawn) return null;
      const { places, id, matrix: { concepts, matrix } } = drawn;
      return { name: `${id} pairs`, columns: ["from \\ to", ...places.map((i) => concepts[i] ?? "")],
        rows: places.map((i) => [concepts[i], ...places.map((j) => matrix[i][j])]) };
    },
    png: () => { if (map.drawn) saveCanvas(`${map.drawn.id} pairs`, enlarged(map.canvas), pageColor("--surface"), nameOf(map.drawn.id), pageColor("--ink")); },
  });
  host.append(el("header", {}, el("h2", {}, "Between which concepts"), el("div", { class: "end" }, score, order, menu), said),
    el("div", { class: "body" }, fault, ...map.parts));

  /** @param {Shown} shown */
  return function draw(shown) {
    const { run, split, pairs } = shown.view;
    const series = shown.lines[0]?.series;
    const having = SCORES.filter((id) => scoreOf(id)?.matrix);
    const id = scoreOf(pairs)?.matrix ? pairs : having[0];
    const concepts = shown.runs.find((one) => one.name === run)?.concepts.length ?? 0;
    host.hidden = !id || concepts < 2 || (shown.rows.get(run)?.evaluations ?? 0) === 0;
    if (host.hidden || !id) return;
    const { body, why } = answer({ run, split, score: id }, `${series?.version}/${series?.step.at(-1)}`);
    if (!isNew(run, id, why, body?.step, shown.view.order, shown.theme, shown.rows.get(run)?.time, body?.ages?.length ?? 0)) return;
    options(score, withNames(having), id);
    options(order, Object.entries(ORDERS), shown.view.order);
    fault.textContent = body ? "" : why ?? "…";
    map.show(body && { matrix: body, id, places: orderOf(body.concepts, shown.view.order, body.matrix) });
    if (!body) return;
    const oldest = Math.max(0, ...(body.ages ?? []).flat());
    const late = oldest > 0 ? ` The oldest pair was computed ${Math.round(oldest)} s before this evaluation, because CPU time was short.` : "";
    said.textContent = `Row: whose activation. Column: the concept that it carries information about, beyond its own.${late}`;
  };
}

/** The map, the cell that is read, and the legend. */
function heatMap() {
  const canvas = el("canvas", {});
  const at = el("i", { class: "at", hidden: true });
  const map = el("div", { class: "map", tabindex: "0", role: "img" }, canvas, at);
  const names = el("div", { class: "rows", "aria-hidden": "true" });
  const frame = el("div", { class: "heat" }, names, map);
  const read = el("div", { class: "read", role: "status" });
  const ramp = el("div", { class: "ramp" });
  const parts = [frame, read, ramp];
  /** @type {Pair|null} */
  let cell = null;
  const shown = {
    canvas, parts,
    /** @type {Drawn|null} */
    drawn: null,
    /** @param {Drawn|null} drawn */
    show(drawn) {
      shown.drawn = drawn;
      for (const part of parts) part.hidden = !drawn;
      if (!drawn) return;
      paint(drawn);
      tell(drawn, cell ?? largest(drawn));
      at.hidden = cell === null;
    },
  };

  /** @param {Drawn} drawn */
  function paint({ matrix: { matrix, concepts }, places, id }) {
    const k = places.length;
    const heat = new Heat(matrix, (limitOf(id) ?? limitOf("icl_conditional"))?.limit ?? 0.1);
    heat.paint(canvas, matrix, places);
    map.setAttribute("aria-label", `${nameOf(id)} between ${k} concepts, from ${number(heat.low, 0.1)} to ${number(heat.high, 0.1)}. Arrow keys read pairs.`);
    const name = (/** @type {number} */ i, /** @type {number} */ y) =>
      el("span", { style: `top: ${(100 * (y + 0.5)) / k}%`, title: concepts[i] }, shortened(concepts[i], NAME));
    names.replaceChildren(...(k > MOST_NAMES ? [] : places.map(name)));
    frame.classList.toggle("unnamed", k > MOST_NAMES);
    frame.style.maxWidth = `${Math.min(760, 110 + 64 * k)}px`;
    ramp.replaceChildren(...heat.legend(limitOf(id) ? ", the limit of the mean" : ""));
    ramp.dataset.top = String(heat.top);
  }

  /** @param {Drawn} drawn @param {Pair} pair */
  function tell({ matrix: { matrix, concepts, ages, matrix_q: q }, places }, [i, j]) {
    const [y, x, share] = [places.indexOf(i), places.indexOf(j), 100 / places.length];
    at.style.cssText = `left: ${share * x}%; top: ${share * y}%; width: ${share}%; height: ${share}%`;
    const part = (/** @type {(Node|string)[]} */ ...content) => el("span", {}, ...content);
    const strong = (/** @type {string} */ text) => el("b", {}, text);
    const value = (/** @type {number|null|undefined} */ of) => strong(of === null || of === undefined ? "undefined" : number(of, 0.02));
    const [age, chance] = [ages?.[i]?.[j] ?? 0, q?.[i]?.[j] ?? null];
    read.replaceChildren(...(i === j ? [part(strong(concepts[i] ?? "")), part("A concept is not compared with itself.")]
      : [part(...claim(strong(concepts[i] ?? ""), strong(concepts[j] ?? ""), chance)), part("leakage ", value(matrix[i]?.[j])),
        part("in the other direction ", value(matrix[j]?.[i])), ...(chance === null ? [] : [part(`q ${probability(chance)}`)]),
        ...(age > 0 ? [part(`computed ${Math.round(age)} s before this evaluation`)] : [])]));
  }

  /** @param {Drawn} drawn @param {number} y @param {number} x */
  function select(drawn, y, x) {
    const place = (/** @type {number} */ one) => drawn.places[Math.max(0, Math.min(drawn.places.length - 1, one))];
    cell = [place(y), place(x)];
    at.hidden = false;
    tell(drawn, cell);
  }

  map.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const { drawn } = shown;
    if (!drawn) return;
    const { left, top, width, height } = map.getBoundingClientRect();
    const k = drawn.places.length;
    select(drawn, Math.floor(((event.clientY - top) / height) * k), Math.floor(((event.clientX - left) / width) * k));
  });
  map.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const [by, { drawn }] = [STEPS[event.key], shown];
    if (!by || !drawn) return;
    event.preventDefault();
    const [i, j] = cell ?? largest(drawn);
    select(drawn, drawn.places.indexOf(i) + (cell ? by[0] : 0), drawn.places.indexOf(j) + (cell ? by[1] : 0));
  });
  return shown;
}

/**
 * The readout of a pair, which claims no more than its values show.
 * @param {Node} from @param {Node} to @param {number|null} q the expected share of false discoveries among pairs with this q or less
 */
function claim(from, to, q) {
  if (q === null) return [from, " about ", to];
  return q <= FALSE_SHARE ? [from, " carries information about ", to] : ["No information of ", from, " about ", to, " is shown"];
}

/** @param {Drawn} drawn @returns {Pair} */
function largest({ matrix: { matrix } }) {
  /** @type {Pair} */
  let best = [0, 1];
  let most = -Infinity;
  matrix.forEach((row, i) => row.forEach((value, j) => {
    if (i === j || value === null || value <= most) return;
    most = value;
    best = [i, j];
  }));
  return best;
}
