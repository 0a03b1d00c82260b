// The drawing of a chart of lines: axes, limits, lines and the values at their ends, on the canvas that it is given.
import { minuteText, tickTexts, ticks, timeTicks } from "./axes.js";
import { drawBand, drawLine, drawMark } from "./lineshapes.js";
import { drawLimitText } from "./limitlabel.js";
import { MOST_BANDS, axesOf, current, placeOn } from "./spec.js";
import { pageColor } from "../palette.js";
import { smooth } from "./thin.js";
import { count } from "../text.js";

/** @import { Spec } from "./spec.js" */

/** Labels at the ends of more lines than this would not find room. */
const MOST_ENDS = 10;
const FONT = "11px -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Helvetica, Arial, sans-serif";
const [LEFT, RIGHT, TOP, BOTTOM] = [36, 58, 8, 24];
/** From the plot to the values at the ends of lines. */
const END = 17;
/** Between the numbers of the vertical axis and the plot. */
const GAP = 6;

/** A chart in a room of a width and a height: its axes, and how it is painted. */
export class LinePlot {
  /** @param {Spec} spec @param {number} width @param {number} height @param {CanvasRenderingContext2D} context */
  constructor(spec, width, height, context) {
    this.context = context;
    this.spec = spec;
    this.width = width;
    this.height = height;
    const { across, down } = axesOf(spec);
    this.across = across;
    this.down = down;
    this.lines = current(spec).length;
    /** @type {{x: number, top: number, width: number, crossed: number}|null} where the limit is named, and how much meets it there */
    this.label = null;
    this.named = !spec.places && !spec.scatter && this.lines <= MOST_ENDS;
    context.font = `600 ${FONT}`;
    const ends = this.named ? current(spec).map(({ y }) => context.measureText(spec.text(y.findLast((value) => value !== null) ?? NaN)).width) : [];
    const right = this.named ? Math.max(RIGHT, Math.ceil(Math.max(0, ...ends)) + END + 2) : 12;
    const inside = height - TOP - BOTTOM;
    const marks = ticks(down, inside < 100 ? 3 : 5);
    const texts = tickTexts(marks, down.log);
    this.marks = marks.map((mark, i) => ({ mark, text: texts[i] }));
    context.font = FONT;
    const left = Math.max(LEFT, ...texts.map((text) => Math.ceil(context.measureText(text).width) + GAP + 2));
    this.box = { left, top: TOP, width: width - left - right, height: inside };
  }

  /** Paints all of it; it may be left after each line. */
  *paint() {
    const { context, spec, box } = this;
    context.clearRect(0, 0, this.width, this.height);
    if (box.width < 20) return;
    this.grid();
    this.bottom();
    context.save();
    context.beginPath();
    context.rect(box.left - 5, box.top - 6, box.width + 10, box.height + 8);
    context.clip();
    if (this.lines <= MOST_BANDS && !spec.whiskers) {
      for (const line of spec.lines) {
        drawBand(this, line);
        yield;
      }
    }
    for (const line of spec.lines) {
      drawLine(this, line);
      yield;
    }
    context.restore();
    this.label = drawLimitText(this);
    if (this.named) this.ends();
    this.empty();
  }

  /** @param {number} value */
  x(value) { return this.box.left + this.across.place(value) * this.box.width; }
  /** @param {number} value */
  y(value) { return this.box.top + (1 - placeOn(this.down, value)) * this.box.height; }

  /** The limit, where it has a place on the axis. */
  get limit() {
    const { limit } = this.spec;
    return limit && limit.value >= this.down.from && limit.value <= this.down.to ? limit : null;
  }

  grid() {
    const { context, box, limit, spec: { best = [] } } = this;
    context.globalAlpha = 0.13;
    context.fillStyle = pageColor("--ok");
    for (const ends of best) {
      const [from, to] = ends.map((end) => Math.max(box.left, Math.min(box.left + box.width, this.x(end))));
      context.fillRect(from, box.top, to - from, box.height);
    }
    context.globalAlpha = 1;
    context.lineWidth = 1;
    context.textBaseline = "middle";
    context.textAlign = "right";
    context.fillStyle = pageColor("--ink-3");
    this.marks.forEach(({ mark, text }, i) => {
      context.strokeStyle = pageColor(i === 0 && !this.down.log ? "--edge" : "--line");
      this.rule(mark);
      context.fillText(text, box.left - GAP, Math.round(this.y(mark)) + 0.5);
    });
    if (!limit) return;
    const y = this.y(limit.value);
    const [top, height] = limit.bad === "above" ? [box.top, y - box.top] : [y, box.top + box.height - y];
    context.globalAlpha = 0.07;
    context.fillStyle = pageColor("--leak");
    context.fillRect(box.left, top, box.width, height);
    context.globalAlpha = 1;
    context.strokeStyle = pageColor("--leak");
    context.setLineDash([5, 3]);
    this.rule(limit.value);
    context.setLineDash([]);
  }

  /** Draws a horizontal line at a value. @param {number} value */
  rule(value) {
    const { context } = this;
    const y = Math.round(this.y(value)) + 0.5;
    context.beginPath();
    context.moveTo(this.box.left, y);
    context.lineTo(this.box.left + this.box.width, y);
    context.stroke();
  }

  /** The ticks below the chart and their texts. @returns {{at: number, text: string}[]} */
  ticksBelow() {
    const { spec: { places, along }, across, box } = this;
    if (places) return places;
    const room = Math.max(2, Math.floor(box.width / 56));
    if (along === "time") return timeTicks(across, room).map((at) => ({ at, text: minuteText(at) }));
    const whole = along === "epoch" || along === "step";
    const marks = ticks(across, room, whole);
    if (whole && !across.log && Number.isInteger(across.from) && marks[0] > across.from) marks.unshift(across.from);
    const texts = whole && marks.every(Number.isInteger) ? marks.map((one) => (one >= 1e4 ? count(one) : String(one))) : tickTexts(marks, across.log);
    return marks.map((at, i) => ({ at, text: i === 0 && whole ? `${along} ${texts[i]}` : texts[i] }));
  }

  bottom() {
    const { context, box } = this;
    context.fillStyle = pageColor("--ink-3");
    context.textBaseline = "top";
    context.textAlign = "center";
    let until = -Infinity;
    for (const { at, text } of this.ticksBelow()) {
      const half = context.measureText(text).width / 2;
      const x = Math.max(box.left - 30 + half, Math.min(box.left + box.width + 8 - half, this.x(at)));
      if (x - half < until + 6) continue;
      context.fillText(text, x, box.top + box.height + 7);
      until = x + half;
    }
  }

  /** Marks and values at the ends of lines, moved apart. */
  ends() {
    const { context, spec, box, across } = this;
    const found = current(spec).flatMap((line) => {
      const y = spec.smooth > 0 ? smooth(line.y, spec.smooth) : line.y;
      const at = y.findLastIndex((value, i) => value !== null && line.x[i] <= across.to && line.x[i] >= across.from);
      return at < 0 ? [] : [{ line, text: spec.text(Number(y[at])), place: this.y(Number(y[at])) }];
    }).sort((a, b) => a.place - b.place);
    for (let i = 1; i < found.length; i += 1) found[i].place = Math.max(found[i].place, found[i - 1].place + 13);
    let floor = box.top + box.height + 2;
    for (const one of found.toReversed()) {
      one.place = Math.min(one.place, floor);
      floor = one.place - 13;
    }
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.font = `600 ${FONT}`;
    for (const { line, text, place } of found) {
      context.fillStyle = pageColor(line.color);
      drawMark(context, line.look, box.left + box.width + 10, place);
      context.fillText(text, box.left + box.width + END, place + 0.5);
    }
    context.font = FONT;
  }

  empty() {
    const { context, spec: { lines }, box } = this;
    if (lines.some(({ y }) => y.some((value) => value !== null))) return;
    context.fillStyle = pageColor("--ink-3");
    context.textAlign = "center";
    context.textBaseline = "middle";
    const text = lines.some(({ gaps }) => gaps?.length) ? "no value: see the marks" : "no value yet";
    context.fillText(text, box.left + box.width / 2, box.top + box.height / 2);
  }
}
