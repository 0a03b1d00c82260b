// A chart as a file of its own: its name and unit above the plot, and the key of its lines below.
import { LinePlot } from "./lineplot.js";
import { drawMark } from "./lineshapes.js";
import { MOST_BANDS, current } from "./spec.js";
import { SvgContext } from "./svgcontext.js";
import { pageColor } from "../palette.js";
import { saveAs } from "../saving.js";
import { el, shortened } from "../text.js";

/**
 * @import { Line, Spec } from "./spec.js"
 * @typedef {{line: Line, text: string, x: number, y: number}} Entry of the key, at its place
 */

/** Pixels of the picture, of which a PNG has two in each direction. */
const [WIDTH, PLOT, HEAD, ROW, EDGE] = [720, 320, 34, 20, 12];
const SHARPNESS = 2;
/** Lines that the key names, and characters of a name. */
const [KEYED, NAME] = [24, 70];
const FONT = "system-ui, sans-serif";

/** Puts the names of the lines into rows. @param {Spec} spec @param {CanvasRenderingContext2D} context @returns {{entries: Entry[], height: number}} */
function keyOf(spec, context) {
  context.font = `12px ${FONT}`;
  let [x, y] = [EDGE, HEAD + PLOT + ROW];
  const entries = (spec.scatter ? [] : current(spec).slice(0, KEYED)).map((line) => {
    const text = shortened(line.name, NAME);
    const width = context.measureText(text).width + 34;
    if (x > EDGE && x + width > WIDTH) [x, y] = [EDGE, y + ROW];
    x += width;
    return { line, text, x: x - width, y };
  });
  return { entries, height: y + ROW };
}

/** @param {any} context of a canvas, or one that writes SVG @param {Spec} spec @param {string} name @param {string} unit @param {Entry[]} entries */
function paint(context, spec, name, unit, entries) {
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillStyle = pageColor("--ink");
  context.font = `600 14px ${FONT}`;
  context.fillText(name, EDGE, HEAD / 2);
  const banded = entries.length <= MOST_BANDS && spec.lines.some(({ half }) => half?.some(Boolean));
  const more = spec.scatter ? 0 : current(spec).length - entries.length;
  const said = [unit, banded ? "with 95 % intervals" : "", more > 0 ? `the key leaves out ${more} lines` : ""].filter(Boolean).join(", ");
  const after = EDGE + context.measureText(name).width + 10;
  context.font = `12px ${FONT}`;
  context.fillStyle = pageColor("--ink-2");
  context.fillText(said, after, HEAD / 2);
  context.save();
  context.translate(0, HEAD);
  for (const _ of new LinePlot(spec, WIDTH, PLOT, context).paint());
  context.restore();
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.font = `12px ${FONT}`;
  for (const { line, text, x, y } of entries) {
    context.fillStyle = pageColor(line.color);
    drawMark(context, line.look, x + 6, y);
    context.fillStyle = pageColor("--ink");
    context.fillText(text, x + 16, y);
  }
}

/** @param {string} file @param {Spec} spec @param {string} name @param {string} unit */
export async function savePng(file, spec, name, unit) {
  const canvas = el("canvas", {});
  const context = canvas.getContext("2d");
  const { entries, height } = keyOf(spec, context);
  Object.assign(canvas, { width: SHARPNESS * WIDTH, height: SHARPNESS * height });
  context.setTransform(SHARPNESS, 0, 0, SHARPNESS, 0, 0);
  paint(context, spec, name, unit, entries);
  // The plot clears its place before it is painted.
  context.globalCompositeOperation = "destination-over";
  context.fillStyle = pageColor("--surface");
  context.fillRect(0, 0, WIDTH, height);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  if (blob) saveAs(file, "png", blob);
}

/** @param {string} file @param {Spec} spec @param {string} name @param {string} unit */
export function saveSvg(file, spec, name, unit) {
  const context = new SvgContext();
  const { entries, height } = keyOf(spec, context.measure);
  context.fillStyle = pageColor("--surface");
  context.fillRect(0, 0, WIDTH, height);
  paint(context, spec, name, unit, entries);
  saveAs(file, "svg", new Blob([context.text(WIDTH, height)], { type: "image/svg+xml" }));
}
