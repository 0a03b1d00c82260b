// The drawing of a chart of lines: bands, limits, marks and gaps, on the canvas that it is given.
import { minuteText, rounded, scale, tickTexts, ticks, timeTicks } from "./axes.js";
import { DASHES, pageColor } from "./palette.js";
import { smooth, thin } from "./thin.js";

/**
 * @typedef {object} Line
 * @property {string} name
 * @property {string} color a custom property
 * @property {number} look of its dashes and marks
 * @property {number[]} x ascending; NaN: no place on the axis
 * @property {(number|null)[]} y
 * @property {(number|null)[]} [half] half of the interval
 * @property {boolean[]} [open] provisional or cut short: hollow, and dotted towards it
 * @property {boolean[]} [broken] no line leads here from the value before
 * @property {{x: number, text: string}[]} [gaps] where there is no value, and why
 * @property {{x: number, y: number, text: string}[]} [alerts]
 * @property {boolean} [superseded] left by its run, which has returned to an earlier step: faint and dashed
 * @property {[number, number]} [from] where the run left it
 * @property {(at: number) => string[]} [notes] what stands below a value in the tip
 * @typedef {object} Spec
 * @property {Line[]} lines
 * @property {"epoch"|"step"|"time"|string} along
 * @property {[number, number]|null} zoom
 * @property {boolean} logx
 * @property {boolean} logy
 * @property {number} smooth
 * @property {[number, number]} [least] range that the vertical axis has at least
 * @property {[number, number]} [range] possible values
 * @property {{value: number, text: string, bad: "above"|"below"}|null} [limit]
 * @property {[number, number]|null} [best] stretch to shade
 * @property {(value: number) => string} text
 * @property {{at: number, text: string}[]} [places] ticks, where the axis has no scale
 * @property {boolean} [points] marks at all values
 * @property {boolean} [whiskers] intervals as bars instead of bands
 */

/** Bands of more lines than this would cover each other. */
const MOST_BANDS = 8;
/** Labels at the ends of more lines than this would not find room. */
const MOST_ENDS = 10;
/** Dashes of what a run has left. */
const SUPERSEDED = [4, 4];
const FONT = "11px -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Helvetica, Arial, sans-serif";
const [LEFT, RIGHT, TOP, BOTTOM] = [36, 58, 8, 24];

/** The lines that runs go on with. @param {Spec} spec */
export const current = (spec) => spec.lines.filter(({ superseded }) => !superseded);

/** What is drawn in a room of a width and a height: its axes, and how it is painted. */
export class LinePlot {
  /** @param {Spec} spec @param {number} width @param {number} height */
  constructor(spec, width, height) {
    this.spec = spec;
    this.width = width;
    this.height = height;
    this.across = scale(0, 1);
    this.down = scale(0, 1);
    this.lines = current(spec).length;
    /** @type {{x: number, top: number, width: number, crossed: number}|null} where the limit is named, and how much meets it there */
    this.label = null;
    this.fit(spec);
    const right = spec.places || this.lines > MOST_ENDS ? 12 : RIGHT;
    this.box = { left: LEFT, top: TOP, width: width - LEFT - right, height: height - TOP - BOTTOM };
  }

  /** Paints all of it; it may be left after each line. @param {CanvasRenderingContext2D} context */
  *paint(context) {
    const { spec, box } = this;
    context.clearRect(0, 0, this.width, this.height);
    context.font = FONT;
    if (box.width < 20) return;
    this.grid(context, spec, box);
    context.save();
    context.beginPath();
    context.rect(box.left - 5, box.top - 6, box.width + 10, box.height + 8);
    context.clip();
    const many = this.lines > MOST_BANDS;
    if (!many && !spec.whiskers) {
      for (const line of spec.lines) {
        this.band(context, line, box);
        yield;
      }
    }
    for (const line of spec.lines) {
      this.line(context, line, spec, box, many);
      yield;
    }
    context.restore();
    this.limitText(context, spec, box);
    if (!spec.places && this.lines <= MOST_ENDS) this.ends(context, spec, box);
    this.empty(context, spec, box);
  }

  /** The range of both axes. @param {Spec} spec */
  fit(spec) {
    let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
    const positive = spec.logy;
    const few = this.lines <= MOST_BANDS;
    for (const { x, y, half } of spec.lines) {
      for (let i = 0; i < x.length; i += 1) {
        const at = x[i];
        if (Number.isNaN(at) || (spec.zoom && (at < spec.zoom[0] || at > spec.zoom[1])) || (spec.logx && at <= 0)) continue;
        if (at < left) left = at;
        if (at > right) right = at;
        const value = y[i];
        if (value === null || (positive && value <= 0)) continue;
        const error = few ? (half?.[i] ?? 0) : 0;
        if (value - error < low) low = positive ? value : value - error;
        if (value + error > high) high = value + error;
      }
    }
    if (spec.zoom) [left, right] = spec.zoom;
    if (spec.places) [left, right] = [Math.min(left, ...spec.places.map(({ at }) => at)), Math.max(right, ...spec.places.map(({ at }) => at))];
    if (!(right >= left)) [left, right] = [0, 1];
    if (right === left) right = left + (spec.logx ? left : 1);
    if (spec.places) {
      const room = (right - left) * 0.06;
      [left, right] = [left - room, right + room];
    }
    if (!(high >= low)) [low, high] = spec.least ?? [0, 1];
    if (!positive && spec.least) [low, high] = [Math.min(low, spec.least[0]), Math.max(high, spec.least[1])];
    if (positive) [low, high] = [Math.max(low, high * 1e-6), high === low ? low * 10 : high];
    else [low, high] = rounded(low, high, 6);
    if (!positive && spec.range) [low, high] = [Math.max(low, spec.range[0]), Math.min(high, spec.range[1])];
    this.across = scale(left, right, spec.logx && left > 0);
    this.down = scale(low, high, positive && low > 0);
  }

  /** @param {number} value @param {{left: number, width: number}} box */
  x(value, box) { return box.left + this.across.place(value) * box.width; }
  /** @param {number} value @param {{top: number, height: number}} box */
  y(value, box) { return box.top + (1 - this.down.place(this.down.log ? Math.max(value, this.down.from) : value)) * box.height; }

  /** @param {CanvasRenderingContext2D} context @param {Spec} spec @param {any} box */
  grid(context, spec, box) {
    const { limit, best } = spec;
    if (best) {
      context.globalAlpha = 0.13;
      context.fillStyle = pageColor("--ok");
      context.fillRect(this.x(best[0], box), box.top, this.x(best[1], box) - this.x(best[0], box), box.height);
      context.globalAlpha = 1;
    }
    const marks = ticks(this.down, box.height < 100 ? 3 : 5);
    const texts = tickTexts(marks, this.down.log);
    context.lineWidth = 1;
    context.textBaseline = "middle";
    context.textAlign = "right";
    marks.forEach((mark, i) => {
      const y = Math.round(this.y(mark, box)) + 0.5;
      context.strokeStyle = pageColor(i === 0 && !this.down.log ? "--edge" : "--line");
      context.beginPath();
      context.moveTo(box.left, y);
      context.lineTo(box.left + box.width, y);
      context.stroke();
      context.fillStyle = pageColor("--ink-3");
      context.fillText(texts[i], box.left - 6, y);
    });
    if (limit && limit.value >= this.down.from && limit.value <= this.down.to) {
      const y = this.y(limit.value, box);
      const beyond = limit.bad === "above" ? [box.top, y - box.top] : [y, box.top + box.height - y];
      context.globalAlpha = 0.07;
      context.fillStyle = pageColor("--leak");
      context.fillRect(box.left, beyond[0], box.width, beyond[1]);
      context.globalAlpha = 1;
      context.strokeStyle = pageColor("--leak");
      context.setLineDash([5, 3]);
      context.beginPath();
      context.moveTo(box.left, Math.round(y) + 0.5);
      context.lineTo(box.left + box.width, Math.round(y) + 0.5);
      context.stroke();
      context.setLineDash([]);
    }
    this.bottom(context, spec, box);
  }

  /** What a limit is, where the fewest lines cross it, over those that do. @param {CanvasRenderingContext2D} context @param {Spec} spec @param {any} box */
  limitText(context, spec, box) {
    const { limit } = spec;
    if (!limit || limit.value < this.down.from || limit.value > this.down.to) return;
    const y = this.y(limit.value, box);
    const width = context.measureText(limit.text).width;
    const [left, right] = [box.left + 3, box.left + box.width - 3 - width];
    const middle = (left + right) / 2;
    const places = (limit.bad === "above" ? [-1, 1] : [1, -1]).flatMap((side) => [right, left, middle].map((x) => ({ x, top: side < 0 ? y - 15 : y + 2, side })))
      .filter(({ top }) => top >= box.top - 2 && top + 13 <= box.top + box.height);
    const crossed = (/** @type {{x: number, top: number}} */ place) => (this.lines > MOST_BANDS ? 0 : spec.lines.reduce((sum, line) => sum + this.crossings(line, box, [place.x - 2, place.top - 2, place.x + width + 2, place.top + 15]), 0));
    const best = places.map((place) => ({ ...place, crossed: crossed(place) })).reduce((one, other) => (other.crossed < one.crossed ? other : one), { x: right, top: y - 15, side: -1, crossed: Infinity });
    this.label = { ...best, width };
    context.textAlign = "left";
    context.textBaseline = "top";
    context.lineJoin = "round";
    context.lineWidth = 4;
    context.strokeStyle = pageColor("--surface");
    context.strokeText(limit.text, best.x, best.top + 1);
    context.fillStyle = pageColor("--leak");
    context.fillText(limit.text, best.x, best.top + 1);
  }

  /** How many parts of a line and its band meet a rectangle. @param {Line} line @param {any} box @param {number[]} rectangle left, top, right, bottom */
  crossings({ x, y, half }, box, [left, top, right, bottom]) {
    let count = 0;
    for (let i = 0; i < x.length; i += 1) {
      const value = y[i];
      if (value === null || Number.isNaN(x[i])) continue;
      const before = i > 0 && y[i - 1] !== null && !Number.isNaN(x[i - 1]) ? i - 1 : i;
      const [from, to] = [this.x(x[before], box), this.x(x[i], box)];
      if (to < left || from > right) continue;
      const [a, b] = [this.y(Number(y[before]), box), this.y(value, box)];
      const at = (/** @type {number} */ place) => (to > from ? a + ((b - a) * (Math.min(to, Math.max(from, place)) - from)) / (to - from) : b);
      const wide = half?.[i] ? Math.abs(this.y(value + Number(half[i]), box) - b) : 0;
      const [high, low] = [Math.min(at(left), at(right)), Math.max(at(left), at(right))];
      if (low >= top && high <= bottom) count += 10;
      else if (low + wide >= top && high - wide <= bottom) count += 1;
    }
    return count;
  }

  /** @param {CanvasRenderingContext2D} context @param {Spec} spec @param {any} box */
  bottom(context, spec, box) {
    const room = Math.max(2, Math.floor(box.width / 56));
    const given = spec.places;
    const marks = given ? given.map(({ at }) => at) : spec.along === "time" ? timeTicks(this.across, room) : ticks(this.across, room, spec.along === "epoch" || spec.along === "step");
    if (!given && ["epoch", "step"].includes(spec.along) && !this.across.log && Number.isInteger(this.across.from) && marks[0] > this.across.from) marks.unshift(this.across.from);
    const texts = given ? given.map(({ text }) => text) : spec.along === "time" ? marks.map(minuteText) : ["epoch", "step"].includes(spec.along) && marks.every(Number.isInteger) ? marks.map((one) => (one >= 1e4 ? one.toLocaleString("en").replaceAll(",", "\u202f") : String(one))) : tickTexts(marks, this.across.log);
    context.fillStyle = pageColor("--ink-3");
    context.textBaseline = "top";
    let until = -Infinity;
    marks.forEach((mark, i) => {
      const text = i === 0 && ["epoch", "step"].includes(spec.along) ? `${spec.along} ${texts[i]}` : texts[i];
      const half = context.measureText(text).width / 2;
      const x = Math.max(box.left - 30 + half, Math.min(box.left + box.width + 8 - half, this.x(mark, box)));
      if (x - half < until + 6) return;
      context.textAlign = "center";
      context.fillText(text, x, box.top + box.height + 7);
      until = x + half;
    });
  }

  /** @param {CanvasRenderingContext2D} context @param {Line} line @param {any} box */
  band(context, { x, y, half, color, broken }, box) {
    if (!half) return;
    context.fillStyle = pageColor(color);
    context.globalAlpha = 0.15;
    const px = x.map((at) => this.x(at, box));
    /** @type {number[]} */
    let stretch = [];
    const close = () => {
      if (stretch.length > 1) {
        context.beginPath();
        for (const i of stretch) context.lineTo(px[i], this.y(Number(y[i]) + Number(half[i]), box));
        for (const i of stretch.toReversed()) context.lineTo(px[i], this.y(Number(y[i]) - Number(half[i]), box));
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

  /** @param {CanvasRenderingContext2D} context @param {Line} line @param {Spec} spec @param {any} box @param {boolean} many */
  line(context, line, spec, box, many) {
    const color = pageColor(line.color);
    const px = line.x.map((at) => (this.across.log && at <= 0 ? NaN : this.x(at, box)));
    const hidden = (/** @type {number|null} */ value) => (value === null || (this.down.log && value <= 0) ? null : value);
    const raw = line.y.map(hidden);
    const drawn = spec.smooth > 0 ? smooth(raw, spec.smooth) : raw;
    context.lineJoin = "round";
    context.strokeStyle = color;
    const dashes = line.superseded ? SUPERSEDED : many ? [] : DASHES[line.look % DASHES.length];
    if (spec.smooth > 0 && !line.superseded) {
      context.globalAlpha = many ? 0.12 : 0.3;
      context.lineWidth = 1;
      this.trace(context, line, px, raw, box, []);
    }
    const faint = line.superseded ? 0.55 : 1;
    context.globalAlpha = (many ? 0.75 : 1) * faint;
    // A line of one pixel is painted ten times as fast as a wider one.
    context.lineWidth = many ? 1 : line.superseded ? 1.2 : spec.places ? 1.3 : 1.8;
    this.trace(context, line, px, drawn, box, dashes);
    context.globalAlpha = faint;
    context.setLineDash([]);
    if (spec.whiskers) this.whiskers(context, line, px, box);
    this.marks(context, line, px, drawn, box, spec.points === true);
    context.globalAlpha = 1;
  }

  /** @param {CanvasRenderingContext2D} context @param {Line} line @param {number[]} px @param {(number|null)[]} y @param {any} box @param {number[]} dashes */
  trace(context, line, px, y, box, dashes) {
    let before = -1;
    let dotted = false;
    let arriving = line.from !== undefined;
    context.setLineDash(dashes);
    context.beginPath();
    if (line.from) context.moveTo(this.x(line.from[0], box), this.y(line.from[1], box));
    for (const i of thin(px, y)) {
      if (y[i] === null || Number.isNaN(px[i])) {
        before = -1;
        continue;
      }
      const at = this.y(Number(y[i]), box);
      const open = line.open?.[i] ?? false;
      if (before < 0 && arriving) context.lineTo(px[i], at);
      else if (before < 0 || line.broken?.[i]) context.moveTo(px[i], at);
      else {
        const dot = open || (line.open?.[before] ?? false);
        if (dot !== dotted) {
          context.stroke();
          context.setLineDash(dot ? [2, 3] : dashes);
          context.beginPath();
          context.moveTo(px[before], this.y(Number(y[before]), box));
          dotted = dot;
        }
        context.lineTo(px[i], at);
      }
      before = i;
      arriving = false;
    }
    context.stroke();
  }

  /** @param {CanvasRenderingContext2D} context @param {Line} line @param {number[]} px @param {any} box */
  whiskers(context, { y, half }, px, box) {
    context.lineWidth = 3;
    px.forEach((x, i) => {
      if (y[i] === null || half?.[i] === null || half?.[i] === undefined) return;
      context.beginPath();
      context.moveTo(x, this.y(Number(y[i]) - Number(half[i]), box));
      context.lineTo(x, this.y(Number(y[i]) + Number(half[i]), box));
      context.stroke();
    });
  }

  /** Values without neighbours, hollow ones, gaps and alerts. @param {CanvasRenderingContext2D} context @param {Line} line @param {number[]} px @param {(number|null)[]} y @param {any} box @param {boolean} all */
  marks(context, line, px, y, box, all) {
    const color = pageColor(line.color);
    context.lineWidth = 1.6;
    for (let i = 0; i < px.length; i += 1) {
      if (y[i] === null || Number.isNaN(px[i])) continue;
      const next = y[i + 1] === null || y[i + 1] === undefined || (line.broken?.[i + 1] ?? false);
      const alone = (i === 0 || y[i - 1] === null || (line.broken?.[i] ?? false)) && next;
      const open = line.open?.[i] ?? false;
      if (!alone && !open && !all) continue;
      context.beginPath();
      context.arc(px[i], this.y(Number(y[i]), box), open ? 4 : 3.2, 0, 7);
      context.fillStyle = open ? pageColor("--surface") : color;
      context.fill();
      if (open) context.stroke();
    }
    context.strokeStyle = pageColor("--ink-3");
    context.lineWidth = 1.2;
    for (const { x } of line.gaps ?? []) {
      const at = this.x(x, box);
      const bottom = box.top + box.height - 1;
      context.beginPath();
      context.moveTo(at - 3, bottom - 6);
      context.lineTo(at + 3, bottom);
      context.moveTo(at + 3, bottom - 6);
      context.lineTo(at - 3, bottom);
      context.stroke();
    }
    for (const { x, y: value } of line.alerts ?? []) {
      const [a, b] = [this.x(x, box), this.y(value, box) - 6];
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

  /** Marks and values at the ends of lines, moved apart. @param {CanvasRenderingContext2D} context @param {Spec} spec @param {any} box */
  ends(context, spec, box) {
    const found = current(spec).flatMap((line) => {
      const y = spec.smooth > 0 ? smooth(line.y, spec.smooth) : line.y;
      const at = y.findLastIndex((value, i) => value !== null && !Number.isNaN(line.x[i]) && line.x[i] <= this.across.to && line.x[i] >= this.across.from);
      return at < 0 ? [] : [{ line, text: spec.text(Number(y[at])), place: this.y(Number(y[at]), box) }];
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
      mark(context, line.look, box.left + box.width + 10, place);
      context.fillText(text, box.left + box.width + 17, place + 0.5);
    }
    context.font = FONT;
  }

  /** @param {CanvasRenderingContext2D} context @param {Spec} spec @param {any} box */
  empty(context, spec, box) {
    if (spec.lines.some(({ y }) => y.some((value) => value !== null))) return;
    context.fillStyle = pageColor("--ink-3");
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(spec.lines.some(({ gaps }) => gaps?.length) ? "no value: see the marks" : "no value yet", box.left + box.width / 2, box.top + box.height / 2);
  }
}

/** A mark of five shapes. @param {CanvasRenderingContext2D} context @param {number} look @param {number} x @param {number} y */
function mark(context, look, x, y) {
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
