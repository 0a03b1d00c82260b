// The colours of a k × k heat map, on a canvas of one pixel a cell.
import { roundUp } from "../data/order.js";
import { channels } from "../palette.js";
import { el, number } from "../text.js";

/** @typedef {[number, number, number]} Color */

const STOPS = ["--h0", "--h1", "--h2", "--h3", "--h4", "--h5"];
/** Share of the colours, from the palest on, for values up to the limit. */
const PALE = 0.2;

/** The colours of values between a least and a most, pale up to the limit. */
export class Heat {
  /** @param {(number|null)[][]} matrix @param {number} limit */
  constructor(matrix, limit) {
    const values = matrix.flatMap((row, i) => row.filter((value, j) => value !== null && i !== j).map(Number)).sort((a, b) => a - b);
    this.low = values[0] ?? 0;
    this.high = values.at(-1) ?? 0;
    this.limit = limit;
    // One extreme pair must not hide all others, and noise is not to look like leakage: up to the limit cells stay pale.
    this.top = roundUp(Math.max(values[Math.floor(0.98 * (values.length - 1))] ?? 0, 2 * limit, -this.low));
    this.stops = STOPS.map((name) => channels(name === "--h0" ? "--raised" : name));
    this.cold = channels("--s1");
    this.ground = channels("--surface");
  }

  /** @param {number|null} value @returns {Color} */
  color(value) {
    const { limit, top, stops } = this;
    if (value === null) return this.ground;
    if (value < 0) return blend(stops[0], this.cold, Math.min(1, -value / top));
    return this.ramped(value <= limit ? PALE * (value / limit) : PALE + (1 - PALE) * Math.min(1, (value - limit) / (top - limit)));
  }

  /** @param {number} share of the colours */
  ramped(share) {
    const at = share * (this.stops.length - 1);
    const below = Math.min(this.stops.length - 2, Math.floor(at));
    return blend(this.stops[below], this.stops[below + 1], at - below);
  }

  /** Paints a matrix in the order of its concepts. @param {HTMLCanvasElement} canvas @param {(number|null)[][]} matrix @param {number[]} places */
  paint(canvas, matrix, places) {
    const k = places.length;
    Object.assign(canvas, { width: k, height: k });
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const image = context.createImageData(k, k);
    places.forEach((i, y) => places.forEach((j, x) => {
      image.data.set([...this.color(i === j ? null : matrix[i][j]), 255], 4 * (y * k + x));
    }));
    context.putImageData(image, 0, 0);
  }

  /** The legend: colours from the least value to the most. @param {string} ofLimit text after the limit */
  legend(ofLimit) {
    const { low, high, top, limit } = this;
    const step = (/** @type {Color} */ color) => el("i", { style: `background: rgb(${color.map(Math.round).join(" ")})` });
    return [...(low < 0 ? [number(low, 0.1), step(this.color(low))] : []), "0", ...[0, 0.5, 1].map((share) => step(this.ramped(PALE * share))),
      `${number(limit, 0.1)}${ofLimit}`, ...[0.25, 0.5, 0.75, 1].map((share) => step(this.ramped(PALE + (1 - PALE) * share))),
      `${number(top, 0.1)}${high > top ? " and more" : ""}`];
  }
}

/** @param {Color} from @param {Color} to @param {number} share @returns {Color} */
const blend = (from, to, share) => [from[0] + share * (to[0] - from[0]), from[1] + share * (to[1] - from[1]), from[2] + share * (to[2] - from[2])];

/** Cells of at least eight pixels, for a file. @param {HTMLCanvasElement} small */
export function enlarged(small) {
  const size = small.width * Math.max(8, Math.ceil(560 / small.width));
  const large = el("canvas", { width: size, height: size });
  const context = large.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, size, size);
  return large;
}
