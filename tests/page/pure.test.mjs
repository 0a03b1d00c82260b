// The page's modules that draw nothing: in Node, and in a browser only where they read the address or measure texts.
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { test } from "node:test";
import { minuteText, rounded, scale, tickTexts, ticks, timeTicks } from "../../web/charts/axes.js";
import { meanOf } from "../../web/charts/means.js";
import { axesOf, placeOn } from "../../web/charts/spec.js";
import { smooth, thin } from "../../web/charts/thin.js";
import { Silence, ahead } from "../../web/data/marks.js";
import { isLeft, seriesOf, take } from "../../web/data/series.js";
import { differenceText, suited, withNames } from "../../web/labels.js";
import { csv } from "../../web/saving.js";
import { overText, signed } from "../../web/text.js";
import { scene, withBrowser } from "./scene.mjs";

withBrowser();

/** Numbers in [0, 1) that are the same every time. */
function randoms(seed) {
  return () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
}

/** A chart as any run may ask for it: values over many decades, some 0, negative or missing, with intervals and a limit. */
function randomSpec(random) {
  const size = 10 ** (-6 + 8 * random());
  const number = () => (random() < 0.1 ? 0 : random() < 0.1 ? -size * random() : size * 10 ** (-3 * random()));
  const line = () => {
    const x = Array.from({ length: Math.floor(random() * 12) }, (_, i) => i * (1 + Math.floor(random() * 3)) + Math.floor(random() * 3)).sort((a, b) => a - b);
    return { x, y: x.map(() => (random() < 0.1 ? null : number())), half: x.map(() => (random() < 0.2 ? null : Math.abs(number()))) };
  };
  const pick = (share, value) => (random() < share ? value : undefined);
  return { lines: Array.from({ length: Math.floor(random() * 12) }, line), logx: random() < 0.3, logy: random() < 0.5, zoom: pick(0.3, [2, 9]) ?? null,
    least: pick(0.4, [0, size * random()]), range: pick(0.4, [0, size]), limit: pick(0.6, { value: size * random() }) };
}

test("scores of one name are told apart by their units where both can be chosen", () => {
  assert.deepEqual(withNames(["ctl_conditional", "ctl"]), [["ctl_conditional", "Leakage to the task"], ["ctl", "CTL, published"]]);
  assert.deepEqual(withNames(["ctl_conditional", "ctl_conditional_r2"]),
    [["ctl_conditional", "Leakage to the task, share, 0 to 1"], ["ctl_conditional_r2", "Leakage to the task, share of R²"]]);
});

test("a mean of curves is over those that reach a place, and its interval that of a small sample", () => {
  const { x, y, half, counts } = meanOf([{ x: [0, 1, 2], y: [1, 2, 3] }, { x: [0, 2, NaN], y: [3, 5, 7] }, { x: [1], y: [null] }]);
  assert.deepEqual([x, y, counts], [[0, 1, 2], [2, 3, 4], [2, 2, 2]]);
  // Two values that differ by 2: a standard deviation of √2, over √2, times 12.71.
  half.forEach((one) => assert.ok(Math.abs(one - 12.71) < 1e-9, one));
  const one = meanOf([{ x: [0, 4], y: [1, 2] }, { x: [2], y: [5] }]);
  assert.deepEqual([one.x, one.y, one.half.map((value) => value === null)], [[0, 2, 4], [1, 3.25, 2], [true, false, true]]);
});

test("every value in sight, its band and the limit have a place on the axes, whose ticks rise", () => {
  const random = randoms(7);
  for (let round = 0; round < 3000; round += 1) {
    const spec = randomSpec(random);
    const { across, down } = axesOf(spec);
    const said = JSON.stringify({ spec, across, down });
    const inside = (place) => assert.ok(place >= -1e-9 && place <= 1 + 1e-9, `${place} ${said}`);
    assert.ok(across.to > across.from && down.to > down.from, said);
    for (const axis of [across, down]) {
      const marks = ticks(axis, 5);
      marks.forEach((mark, i) => { inside(axis.place(mark)); assert.ok(i === 0 || mark > marks[i - 1], `${marks} ${said}`); });
    }
    if (spec.limit && !(down.log && spec.limit.value <= 0)) inside(down.place(spec.limit.value));
    for (const { x, y, half } of spec.lines) {
      x.forEach((at, i) => {
        const hidden = y[i] === null || (spec.zoom && (at < spec.zoom[0] || at > spec.zoom[1])) || (spec.logx && at <= 0) || (spec.logy && y[i] <= 0);
        if (hidden) return;
        inside(across.place(at));
        inside(down.place(y[i]));
        const [low, middle, high] = [y[i] - (half[i] ?? 0), y[i], y[i] + (half[i] ?? 0)].map((value) => placeOn(down, value));
        assert.ok(low <= middle && middle <= high, said);
      });
    }
  }
});

test("equal places on the axis of a score have a small span around them, within the possible ones", () => {
  const of = (x) => { const { across } = axesOf({ lines: [{ x: [x], y: [0.1] }, { x: [x], y: [0.2] }], within: [0, 1] }); return [across.from, across.to]; };
  assert.deepEqual([of(1), of(0.5)], [[0.95, 1], [0.45, 0.55]]);
});

test("a wide interval does not raise a logarithmic axis above a lower value or the limit", () => {
  const { down } = axesOf({ lines: [{ x: [1, 2], y: [0.12, 0.2], half: [0, 0.15] }], logy: true, limit: { value: 0.1 } });
  assert.deepEqual([down.log, down.from, down.to], [true, 0.1, 0.35]);
});

test("a long curve is thinned to two points a pixel without losing its extremes", () => {
  const y = Array.from({ length: 50_000 }, (_, i) => Math.sin(i / 900));
  const x = y.map((_, i) => i * 400 / 50_000);
  [y[20_001], y[31_000], y[40_000]] = [7, -7, null];
  const kept = thin(x, y);
  const values = kept.map((i) => y[i]).filter((value) => value !== null);
  assert.ok(kept.length <= 810, `${kept.length} points`);
  assert.deepEqual([Math.max(...values), Math.min(...values), kept.length - values.length], [7, -7, 1]);
});

test("smoothing starts anew after a gap and never leaves the values", () => {
  assert.deepEqual(smooth([1, 1, 3, null, 5, 7], 0.5).map((value) => value && Math.round(value * 100) / 100), [1, 1, 2.14, null, 5, 6.33]);
});

test("ticks are round, few, and in logarithms powers", () => {
  assert.deepEqual(ticks(scale(0, 0.2), 5), [0, 0.05, 0.1, 0.15, 0.2]);
  assert.deepEqual(tickTexts([0, 0.05, 0.1], false), ["0.00", "0.05", "0.10"]);
  assert.deepEqual(tickTexts([-0.1, 0], false), ["−0.1", "0.0"]);
  assert.deepEqual(ticks(scale(0.001, 10, true), 5), [0.001, 0.01, 0.1, 1, 10]);
  assert.deepEqual(ticks(scale(0, 3), 8, true), [0, 1, 2, 3]);
  assert.deepEqual(ticks(scale(2, 2), 5), [2]);
  assert.deepEqual(rounded(-0.03, 0.21, 6), [-0.05, 0.25]);
  assert.deepEqual(timeTicks(scale(0, 95), 5).map(minuteText), ["0 min", "30 min", "1 h", "90 min"]);
});

test("a provisional value is replaced by the final one of its step, never the other way round", () => {
  const series = seriesOf({ step: [10], epoch: [1], time: [0], rows: [9], tie_fraction: [0], provisional: [], incomplete: [], superseded: [],
    scores: { ctl: { value: [1], standard_error: [null], undefined: {}, left_out: [], p_value: null } } });
  const point = (step, value, provisional) => take(series, { step, provisional, incomplete: false, epoch: null, time: 0, rows: 9, tie_fraction: 0,
    scores: { ctl: value === null ? { undefined: "why" } : { value } } });
  point(30, 3, true); point(30, 4, false); point(30, 5, true); point(20, 2, false); point(25, 6, true); point(40, 7, true); point(50, null, false);
  const { value, why } = series.scores.get("ctl");
  assert.deepEqual([series.step, value, [...why], [...series.provisional]], [[10, 20, 30, 50], [1, 2, 4, null], [[50, "why"]], []]);
});

test("an alert is of an attempt that was left where its step, or an earlier one, has a newer evaluation", () => {
  const columns = { step: [10, 20, 20, 30], epoch: [], time: [1, 5, 2, 3], rows: [], tie_fraction: [], provisional: [], incomplete: [], scores: {} };
  const left = (superseded, step, since) => isLeft(seriesOf({ ...columns, superseded }), { step, since });
  assert.deepEqual(
    [left([[2, 3]], 10, 1), left([[2, 3]], 20, 2), left([[2, 3]], 30, 3), left([[2, 3]], 20, 5), left([], 30, 3)], [false, true, true, false, false]);
});

test("files are quoted, and nothing in them is a formula", () => {
  assert.equal(csv(["run", "value"], [['a,"b"\n', 1], ["=cmd()", -0.5], ["-x", null]]), 'run,value\n"a,""b""\n",1\n\'=cmd(),-0.5\n\'-x,\n');
});

test("the text of a mean counts the concepts or pairs that it is over", () => {
  const without = (concepts, pairs) => ({ concepts, pairs, of: 112, why: "labels: one class" });
  assert.deepEqual([without([3]), without([3, 4], 442), without([], 5)].map(overText),
    ["over 111 of 112 concepts", "over 110 of 112 concepts", "over 12427 of 12432 pairs"]);
});

test("numbers have a true minus and no negative zero, and as many digits as their interval", () => {
  assert.deepEqual([signed("-0.0"), signed("-1.50")], ["0.0", "−1.50"]);
  assert.equal(differenceText({ mean: 0.01828, low: 0.00208, high: 0.03447 }), "0.018 (0.002 to 0.034)");
  assert.equal(differenceText({ mean: 0.2843, low: 0.2019, high: 0.3668 }), "0.28 (0.20 to 0.37)");
  assert.equal(differenceText({ mean: -0.001, low: -0.03, high: 0.03 }), "0.00 (−0.03 to 0.03)");
  assert.equal(differenceText({ mean: 1e-9, low: -1e-8, high: 3e-8 }), "0.0000 (0.0000 to 0.0000)");
});

test("an address says everything and survives hostile names", async (t) => {
  const { page } = await scene(t);
  const found = await page.evaluate(async () => {
    const { format, parse } = await import("/assets/data/state.js");
    const names = ["λ=0.1", "a/b?c#d&e", "has_bill_shape::curved_(up_or_down)", "<img src=x onerror=alert(1)>", "100 % real", "..", "%zz"];
    const same = names.every((run) => parse(format({ ...parse(""), page: "run", run })).run === run);
    const view = parse(format({ ...parse(""), q: "lambda<1 seed=0", show: names, zoom: [1.5, 20], logy: true, smooth: 0.5, group: "note & more" }));
    return { same, view: [view.q, view.show.join("|"), view.zoom, view.logy, view.smooth, view.group], none: parse("#/?show=").show,
      odd: [parse("#/x?zoom=b_a&smooth=9&along=up").smooth, parse("#/run/%zz").run] };
  });
  assert.deepEqual(found, { same: true, view: ["lambda<1 seed=0",
    "λ=0.1|a/b?c#d&e|has_bill_shape::curved_(up_or_down)|<img src=x onerror=alert(1)>|100 % real|..|%zz", [1.5, 20], true, 0.5, "note & more"],
    none: [], odd: [0.95, "%zz"] });
});

test("a limit is named where no curve crosses it, however wide its text is", async (t) => {
  const { page } = await scene(t);
  const placed = (character) => page.evaluate(async (character) => {
    const { LinePlot } = await import("/assets/charts/lineplot.js");
    const x = Array.from({ length: 21 }, (_, i) => i);
    const named = (y, bad = "above") => {
      const spec = { lines: [{ name: "a", color: "--s1", look: 0, x, y, half: y.map(() => 0.005) }], along: "epoch", zoom: null, logx: false, logy: false,
        smooth: 0, least: [0, 0.2], text: String,
        limit: { value: 0.16, text: "above the limit, 0.16", bad } };
      const context = document.createElement("canvas").getContext("2d");
      const plot = new LinePlot(spec, 400, 180, context);
      // The machine's fonts have no part in it.
      context.measureText = (text) => ({ width: character * text.length });
      for (const _ of plot.paint());
      const { x: at, width, top, crossed } = plot.label;
      const center = (at + width / 2 - plot.box.left) / plot.box.width;
      return [center < 0.45 ? "left" : center > 0.55 ? "right" : "middle", top < plot.y(0.16) ? "above" : "below", crossed];
    };
    return [named(x.map(() => 0.05)), named(x.map((i) => Math.min(0.17, i * 0.02))), named(x.map((i) => Math.max(0.17 - i * 0.03, 0))),
      named(x.map(() => 0.3), "below")];
  }, character);
  // A narrow text is above the start of the curve that rises to the limit; a wide one is below its end.
  for (const [character, rising] of [[5, ["left", "above", 0]], [7, ["right", "below", 0]]]) {
    assert.deepEqual(await placed(character), [["right", "above", 0], rising, ["right", "above", 0], ["right", "below", 0]], `${character} pixels a character`);
  }
});

test("the numbers of an axis fit beside the plot, however many digits they need", async (t) => {
  const { page } = await scene(t);
  const rooms = (y) => page.evaluate(async (y) => {
    const { LinePlot } = await import("/assets/charts/lineplot.js");
    const context = document.createElement("canvas").getContext("2d");
    const lines = [{ name: "a", color: "--s1", look: 0, x: y.map((_, i) => i), y }];
    const plot = new LinePlot({ lines, along: "β", zoom: null, logx: false, logy: false, smooth: 0, text: String }, 400, 180, context);
    context.font = `600 ${context.font}`;
    const end = 400 - plot.box.left - plot.box.width - 17 - context.measureText(String(y.at(-1))).width;
    context.font = context.font.replace("600 ", "");
    return [...plot.marks.map(({ text }) => plot.box.left - context.measureText(text).width), end + 6];
  }, y);
  for (const y of [[0.4997, 0.5018], [-1e-5, 2e-5], [0, -4884.398], [0, 1], [123456, 123789]]) {
    assert.ok((await rooms(y)).every((room) => room >= 6), `${y}: ${await rooms(y)}`);
  }
});

test("every module is asked for at once, not one after the other", async (t) => {
  const { page } = await scene(t);
  const web = new URL("../../web/", import.meta.url);
  const modules = (await readdir(web, { recursive: true })).filter((name) => name.endsWith(".js") && name !== "main.js").sort();
  const asked = await page.locator("link[rel=modulepreload]").evaluateAll((all) => all.map((one) => one.getAttribute("href").replace("assets/", "")));
  assert.deepEqual(asked, modules);
});

test("marks of one process compare, and a stream that stands still behind them is opened again", () => {
  assert.deepEqual([ahead("a-12", "a-9"), ahead("a-9", "a-9"), ahead("a-9", "a-12")], [3, 0, -3]);
  assert.ok([ahead("a-9", "b-2"), ahead("", "b-2"), ahead("a-9", "")].every(Number.isNaN));
  const silence = new Silence(2);
  const taken = (...pairs) => pairs.map(([answer, stream]) => silence.take(`a-${answer}`, `a-${stream}`));
  // Late for a moment, and late while it moves on.
  assert.deepEqual(taken([1, 0], [1, 1], [5, 2], [6, 3], [7, 4], [8, 5]), Array(6).fill(false));
  assert.deepEqual(taken([9, 5], [9, 5], [9, 5], [9, 5]), [false, true, false, false]);
  assert.equal(silence.take("b-20", "a-5"), false);
});

test("a score of numbers stands for that of classes only where every task is a number", () => {
  const [value, no] = [{ value: 0.1 }, { undefined: "the task labels are not classes" }];
  const of = (...perTask) => ({ scores: { ctl_conditional: value, task_accuracy: no, ctl_conditional_r2: { ...value, per_task: perTask }, task_r2: { ...value, per_task: perTask } } });
  const ids = ["ctl_conditional", "task_accuracy"];
  assert.deepEqual(suited(ids, of(value, value)), ["ctl_conditional_r2", "task_r2"]);
  assert.deepEqual(suited(ids, of(no, value)), ids);
});
