// The k × k heat map of a score between concepts, with a readout below.
import { answers } from "../data/answers.js";
import { roundUp, orderOf } from "../data/order.js";
import { options } from "./overview.js";
import { channels, pageColor } from "../palette.js";
import { saveMenu, savePng } from "../saving.js";
import { change } from "../data/state.js";
import { limitOf } from "../data/store.js";
import { el, number, probability, shortened } from "../text.js";
import { nameOf, scoreOf } from "../labels.js";

/**
 * @typedef {import("../data/shown.js").Shown} Shown
 * @typedef {import("../data/api.js").Matrix} Matrix
 */

const ORDERS = { value: "largest first", alike: "related together", given: "as declared", name: "name" };
const STOPS = ["--h0", "--h1", "--h2", "--h3", "--h4", "--h5"];
/** Share of the colours, from the palest on, for values up to the limit. */
const PALE = 0.2;
/** Characters of a name beside the map. */
const NAME = 17;
/** Names beside the map of more concepts would cover each other. */
const MOST_NAMES = 34;

/** @param {HTMLElement} host @param {() => void} again draws the page again */
export function pairsPanel(host, again) {
  const score = el("select", { "aria-label": "Score between concepts", onchange: () => change({ pairs: score.value }) });
  const order = el("select", { "aria-label": "Order of concepts", onchange: () => change({ order: order.value }) });
  const canvas = el("canvas", {});
  const at = el("i", { class: "at", hidden: true });
  const map = el("div", { class: "map", tabindex: "0", role: "img" }, canvas, at);
  const names = el("div", { class: "rows", "aria-hidden": "true" });
  const read = el("div", { class: "read", role: "status" });
  const ramp = el("div", { class: "ramp" });
  const said = el("p", {});
  const fault = el("p", { class: "small dim" });
  const frame = el("div", { class: "heat" }, names, map);
  const answer = answers("matrix", again);
  /** @type {{matrix: Matrix, places: number[], id: string}|null} */
  let drawn = null;
  /** @type {[number, number]|null} */
  let cell = null;
  let before = "";
  const menu = saveMenu("the pairs", {
    csv: () => drawn && { name: `${drawn.id} pairs`, columns: ["from \\ to", ...drawn.places.map((i) => drawn?.matrix.concepts[i] ?? "")],
      rows: drawn.places.map((i) => [drawn?.matrix.concepts[i], ...(drawn?.places ?? []).map((j) => drawn?.matrix.matrix[i][j])]) },
    png: () => { if (drawn) savePng(`${drawn.id} pairs`, enlarged(canvas), pageColor("--surface"), nameOf(drawn.id), pageColor("--ink")); },
  });
  host.append(el("header", {}, el("h2", {}, "Between which concepts"), el("div", { class: "end" }, score, order, menu), said), el("div", { class: "body" }, fault, frame, read, ramp));

  /** @param {Shown} shown */
  function draw(shown) {
    const { run, split, pairs } = shown.view;
    const point = shown.lines[0];
    const having = [...new Set(["icl_conditional", "icl", "icl_excess", "icl_label"].filter((id) => scoreOf(id)?.matrix))];
    const id = scoreOf(pairs)?.matrix ? pairs : having[0];
    const concepts = shown.runs.find((one) => one.name === run)?.concepts.length ?? 0;
    host.hidden = !id || concepts < 2 || (shown.rows.get(run)?.evaluations ?? 0) === 0;
    if (host.hidden || !id) return;
    const { body, why } = answer({ run, split, score: id }, `${point?.series?.version}/${point?.series?.step.at(-1)}`);
    const now = JSON.stringify([run, id, why, body?.step, shown.view.order, shown.theme, shown.rows.get(run)?.time, body?.ages?.length ?? 0]);
    if (now === before) return;
    before = now;
    options(score, having.map((one) => [one, nameOf(one)]), id);
    options(order, Object.entries(ORDERS), shown.view.order);
    frame.hidden = !body;
    read.hidden = !body;
    ramp.hidden = !body;
    fault.textContent = body ? "" : why ?? "…";
    drawn = body && { matrix: body, id, places: orderOf(body.concepts, shown.view.order, body.matrix) };
    if (!drawn) return;
    paint();
    const oldest = Math.max(0, ...(body.ages ?? []).flat());
    said.textContent = `Row: whose activation. Column: the concept that it carries information about, beyond its own.${oldest > 0 ? ` The oldest pair was computed ${Math.round(oldest)} s before this evaluation, because CPU time was short.` : ""}`;
    tell(cell ?? largest());
    at.hidden = cell === null;
  }

  function largest() {
    let best = /** @type {[number, number]} */ ([0, 1]);
    let most = -Infinity;
    drawn?.matrix.matrix.forEach((row, i) => row.forEach((value, j) => { if (i !== j && value !== null && value > most) { most = value; best = [i, j]; } }));
    return best;
  }

  function paint() {
    if (!drawn) return;
    const { matrix: { matrix, concepts }, places, id } = drawn;
    const k = places.length;
    const values = matrix.flatMap((row, i) => row.filter((value, j) => value !== null && i !== j).map(Number)).sort((a, b) => a - b);
    const low = values[0] ?? 0;
    // One extreme pair must not hide all others, and noise is not to look like leakage: up to the limit cells stay pale.
    const limit = (limitOf(id) ?? limitOf("icl_conditional"))?.limit ?? 0.1;
    const top = roundUp(Math.max(values[Math.floor(0.98 * (values.length - 1))] ?? 0, 2 * limit, -low));
    const heat = (/** @type {number} */ value) => (value <= limit ? PALE * (value / limit) : PALE + (1 - PALE) * Math.min(1, (value - limit) / (top - limit)));
    canvas.width = k;
    canvas.height = k;
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const image = context.createImageData(k, k);
    const stops = STOPS.map((name) => channels(name === "--h0" ? "--raised" : name));
    const cold = channels("--s1");
    const ground = channels("--surface");
    places.forEach((i, y) => places.forEach((j, x) => {
      const value = i === j ? null : matrix[i][j];
      const color = value === null ? ground : value < 0 ? blend(stops[0], cold, Math.min(1, -value / top)) : ramped(stops, heat(value));
      image.data.set([...color, 255], 4 * (y * k + x));
    }));
    context.putImageData(image, 0, 0);
    map.setAttribute("aria-label", `${nameOf(id)} between ${k} concepts, from ${number(low, 0.1)} to ${number(values.at(-1) ?? 0, 0.1)}. Arrow keys read pairs.`);
    names.replaceChildren(...(k > MOST_NAMES ? [] : places.map((i, y) => el("span", { style: `top: ${(100 * (y + 0.5)) / k}%`, title: concepts[i] }, shortened(concepts[i], NAME)))));
    frame.classList.toggle("unnamed", k > MOST_NAMES);
    frame.style.maxWidth = `${Math.min(760, 110 + 64 * k)}px`;
    const step = (/** @type {number[]} */ color) => el("i", { style: `background: rgb(${color.map(Math.round).join(" ")})` });
    ramp.replaceChildren(...(low < 0 ? [number(low, 0.1), step(blend(stops[0], cold, Math.min(1, -low / top)))] : []), "0", ...[0, 0.5, 1].map((share) => step(ramped(stops, PALE * share))),
      `${number(limit, 0.1)}${limitOf(id) ? ", the limit of the mean" : ""}`, ...[0.25, 0.5, 0.75, 1].map((share) => step(ramped(stops, PALE + (1 - PALE) * share))), `${number(top, 0.1)}${(values.at(-1) ?? 0) > top ? " and more" : ""}`);
    ramp.dataset.top = String(top);
  }

  /** @param {[number, number]} pair numbers of concepts */
  function tell([i, j]) {
    if (!drawn) return;
    const { matrix: { matrix, concepts, ages, matrix_q: q }, places } = drawn;
    const value = matrix[i]?.[j];
    const [y, x] = [places.indexOf(i), places.indexOf(j)];
    const k = places.length;
    at.style.cssText = `left: ${(100 * x) / k}%; top: ${(100 * y) / k}%; width: ${100 / k}%; height: ${100 / k}%`;
    const age = ages?.[i]?.[j] ?? 0;
    read.replaceChildren(...(i === j ? [el("span", {}, el("b", {}, concepts[i] ?? "")), el("span", {}, "A concept is not compared with itself.")]
      : [el("span", {}, el("b", {}, concepts[i] ?? ""), " carries information about ", el("b", {}, concepts[j] ?? "")), el("span", {}, "leakage ", el("b", {}, value === null || value === undefined ? "undefined" : number(value, 0.02))),
        el("span", {}, "in the other direction ", el("b", {}, matrix[j]?.[i] === null || matrix[j]?.[i] === undefined ? "undefined" : number(matrix[j][i], 0.02))),
        q?.[i]?.[j] !== null && q?.[i]?.[j] !== undefined && el("span", {}, `q ${probability(q[i][j])}`), age > 0 && el("span", {}, `computed ${Math.round(age)} s before this evaluation`)].filter((one) => one !== false)));
  }

  /** @param {number} y @param {number} x */
  function select(y, x) {
    if (!drawn) return;
    const k = drawn.places.length;
    cell = [drawn.places[Math.max(0, Math.min(k - 1, y))], drawn.places[Math.max(0, Math.min(k - 1, x))]];
    at.hidden = false;
    tell(cell);
  }

  map.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    if (!drawn) return;
    const { left, top, width, height } = map.getBoundingClientRect();
    const k = drawn.places.length;
    select(Math.floor(((event.clientY - top) / height) * k), Math.floor(((event.clientX - left) / width) * k));
  });
  map.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const by = /** @type {Record<string, [number, number]>} */ ({ ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] })[event.key];
    if (!by || !drawn) return;
    event.preventDefault();
    const [i, j] = cell ?? largest();
    select(drawn.places.indexOf(i) + (cell ? by[0] : 0), drawn.places.indexOf(j) + (cell ? by[1] : 0));
  });

  return draw;
}

/** @param {[number, number, number]} from @param {[number, number, number]} to @param {number} share @returns {[number, number, number]} */
const blend = (from, to, share) => [from[0] + share * (to[0] - from[0]), from[1] + share * (to[1] - from[1]), from[2] + share * (to[2] - from[2])];

/** @param {[number, number, number][]} stops @param {number} share */
function ramped(stops, share) {
  const at = share * (stops.length - 1);
  const below = Math.min(stops.length - 2, Math.floor(at));
  return blend(stops[below], stops[below + 1], at - below);
}

/** Cells of at least eight pixels, for a file. @param {HTMLCanvasElement} small */
function enlarged(small) {
  const size = small.width * Math.max(8, Math.ceil(560 / small.width));
  const large = el("canvas", { width: size, height: size });
  const context = large.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, size, size);
  return large;
}

