// The shapes of a line on a canvas: its band, its trace with gaps, and its marks.
import { DASHES, pageColor } from "../palette.js";
import { MOST_BANDS } from "./spec.js";
import { smooth, thin } from "./thin.js";

/**
 * @import { LinePlot } from "./lineplot.js"
 * @import { Line } from "./spec.js"
 * @typedef {(number|null)[]} Values
 */

/** Dashes of an attempt that a run has left. */
const SUPERSEDED = [4, 4];

/** @param {LinePlot} plot @param {Line} line */
export function drawBand(plot, { x, y, half, color, broken }) {
  const { context } = plot;
  if (!half) return;
  context.fillStyle = pageColor(color);
  context.globalAlpha = 0.15;
  const px = x.map((at) => plot.x(at));
  /** @type {number[]} */
  let stretch = [];
  const close = () => {
    if (stretch.length > 1) {
      context.beginPath();
      for (const i of stretch) context.lineTo(px[i], plot.y(Number(y[i]) + Number(half[i])));
      for (const i of stretch.toReversed()) context.lineTo(px[i], plot.y(Number(y[i]) - Number(half[i])));
      context.fill();
    }
    stretch = [];
  };
  for (const i of thin(px, y)) {
    if (broken?.[i]) close();
    if (y[i] === null || half[i] === null || half[i] === undefined || Number.isNaN(px[i])) close();
    else stretch.push(i);
  }
  close();
  context.globalAlpha = 1;
}

/** @param {LinePlot} plot @param {Line} line */
export function drawLine(plot, line) {
  const { context, spec, across, down } = plot;
  const many = plot.lines > MOST_BANDS;
  const px = line.x.map((at) => (across.log && at <= 0 ? NaN : plot.x(at)));
  const raw = line.y.map((value) => (value !== null && down.log && value <= 0 ? null : value));
  const drawn = spec.smooth > 0 ? smooth(raw, spec.smooth) : raw;
  context.lineJoin = "round";
  context.strokeStyle = pageColor(line.color);
  const dashes = line.superseded ? SUPERSEDED : many ? [] : DASHES[line.look % DASHES.length];
  if (spec.smooth > 0 && !line.superseded) {
    context.globalAlpha = many ? 0.12 : 0.3;
    context.lineWidth = 1;
    trace(plot, line, px, raw, []);
  }
  const faint = line.superseded ? 0.55 : 1;
  context.globalAlpha = (many ? 0.75 : 1) * faint;
  // A line of one pixel is painted ten times as fast as a wider one.
  context.lineWidth = many ? 1 : line.superseded ? 1.2 : spec.places ? 1.3 : 1.8;
  trace(plot, line, px, drawn, dashes);
  context.globalAlpha = faint;
  context.setLineDash([]);
  if (spec.whiskers) whiskers(plot, line, px);
  values(plot, line, px, drawn);
  gaps(plot, line);
  alerts(plot, line);
  context.globalAlpha = 1;
}

/** @param {LinePlot} plot @param {Line} line @param {number[]} px @param {Values} y @param {number[]} dashes */
function trace(plot, line, px, y, dashes) {
  const { context } = plot;
  let before = -1;
  let dotted = false;
  let arriving = line.from !== undefined;
  context.setLineDash(dashes);
  context.beginPath();
  if (line.from) context.moveTo(plot.x(line.from[0]), plot.y(line.from[1]));
  for (const i of thin(px, y)) {
    if (y[i] === null || Number.isNaN(px[i])) {
      before = -1;
      continue;
    }
    const at = plot.y(Number(y[i]));
    if (before < 0 && arriving) context.lineTo(px[i], at);
    else if (before < 0 || line.broken?.[i]) context.moveTo(px[i], at);
    else {
      const dot = (line.open?.[i] ?? false) || (line.open?.[before] ?? false);
      if (dot !== dotted) {
        context.stroke();
        context.setLineDash(dot ? [2, 3] : dashes);
        context.beginPath();
        context.moveTo(px[before], plot.y(Number(y[before])));
        dotted = dot;
      }
      context.lineTo(px[i], at);
    }
    before = i;
    arriving = false;
  }
  context.stroke();
}

/** @param {LinePlot} plot @param {Line} line @param {number[]} px */
function whiskers(plot, { y, half }, px) {
  const { context } = plot;
  context.lineWidth = 3;
  px.forEach((x, i) => {
    if (y[i] === null || half?.[i] === null || half?.[i] === undefined) return;
    context.beginPath();
    context.moveTo(x, plot.y(Number(y[i]) - Number(half[i])));
    context.lineTo(x, plot.y(Number(y[i]) + Number(half[i])));
    context.stroke();
  });
}

/**
 * Draws values without neighbours and hollow ones.
 * @param {LinePlot} plot @param {Line} line @param {number[]} px @param {Values} y
 */
function values(plot, line, px, y) {
  const { context } = plot;
  context.lineWidth = 1.6;
  const ends = (/** @type {number} */ i) => y[i] === null || y[i] === undefined;
  for (let i = 0; i < px.length; i += 1) {
    if (y[i] === null || Number.isNaN(px[i])) continue;
    const alone = (ends(i - 1) || line.broken?.[i]) && (ends(i + 1) || line.broken?.[i + 1]);
    const open = line.open?.[i] ?? false;
    if (!alone && !open && !plot.spec.points) continue;
    if (plot.spec.scatter) {
      context.fillStyle = pageColor(line.color);
      drawMark(context, line.look, px[i], plot.y(Number(y[i])));
      continue;
    }
    context.beginPath();
    context.arc(px[i], plot.y(Number(y[i])), open ? 4 : 3.2, 0, 7);
    context.fillStyle = pageColor(open ? "--surface" : line.color);
    context.fill();
    if (open) context.stroke();
  }
}

/** Crosses where there is no value. @param {LinePlot} plot @param {Line} line */
function gaps(plot, line) {
  const { context } = plot;
  context.strokeStyle = pageColor("--ink-3");
  context.lineWidth = 1.2;
  const bottom = plot.box.top + plot.box.height - 1;
  for (const { x } of line.gaps ?? []) {
    const at = plot.x(x);
    context.beginPath();
    context.moveTo(at - 3, bottom - 6);
    context.lineTo(at + 3, bottom);
    context.moveTo(at + 3, bottom - 6);
    context.lineTo(at - 3, bottom);
    context.stroke();
  }
}

/** @param {LinePlot} plot @param {Line} line */
function alerts(plot, line) {
  const { context } = plot;
  for (const { x, y: value } of line.alerts ?? []) {
    const [a, b] = [plot.x(x), plot.y(value) - 6];
    context.beginPath();
    context.moveTo(a, b);
    context.lineTo(a - 5, b - 9);
    context.lineTo(a + 5, b - 9);
    context.closePath();
    context.fillStyle = pageColor("--leak");
    context.strokeStyle = pageColor("--surface");
    context.fill();
    context.stroke();
  }
}

/** Draws a mark of five shapes. @param {CanvasRenderingContext2D} context @param {number} look @param {number} x @param {number} y */
export function drawMark(context, look, x, y) {
  const r = 3.6;
  context.beginPath();
  switch (look % 5) {
    case 0: context.arc(x, y, r, 0, 7); break;
    case 1: context.moveTo(x, y - r - 0.6); context.lineTo(x + r + 0.4, y + r - 0.4); context.lineTo(x - r - 0.4, y + r - 0.4); break;
    case 2: context.moveTo(x, y - r - 1); context.lineTo(x + r + 1, y); context.lineTo(x, y + r + 1); context.lineTo(x - r - 1, y); break;
    case 3: context.rect(x - 1.4, y - 4.2, 2.8, 8.4); context.rect(x - 4.2, y - 1.4, 8.4, 2.8); break;
    default: context.rect(x - 3.3, y - 3.3, 6.6, 6.6);
  }
  context.fill();
}
