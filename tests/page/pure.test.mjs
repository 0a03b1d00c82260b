// The page's modules that draw nothing.
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { test } from "node:test";
import { scene, withBrowser } from "./scene.mjs";

withBrowser();

test("a long curve is thinned to two points a pixel without losing its extremes", async (t) => {
  const { page } = await scene(t);
  const { count, top, low, holes } = await page.evaluate(async () => {
    const { thin } = await import("/assets/thin.js");
    const y = Array.from({ length: 50_000 }, (_, i) => Math.sin(i / 900));
    const x = y.map((_, i) => i * 400 / 50_000);
    y[20_001] = 7;
    y[31_000] = -7;
    y[40_000] = null;
    const kept = thin(x, y);
    const values = kept.map((i) => y[i]).filter((value) => value !== null);
    return { count: kept.length, top: Math.max(...values), low: Math.min(...values), holes: kept.filter((i) => y[i] === null).length };
  });
  assert.ok(count <= 810, `${count} points`);
  assert.deepEqual([top, low, holes], [7, -7, 1]);
});

test("smoothing starts anew after a gap and never leaves the values", async (t) => {
  const { page } = await scene(t);
  const smooth = await page.evaluate(async () => (await import("/assets/thin.js")).smooth([1, 1, 3, null, 5, 7], 0.5));
  assert.deepEqual(smooth.map((value) => value && Math.round(value * 100) / 100), [1, 1, 2.14, null, 5, 6.33]);
});

test("ticks are round, few, and in logarithms powers", async (t) => {
  const { page } = await scene(t);
  const found = await page.evaluate(async () => {
    const { minuteText, rounded, scale, tickTexts, ticks, timeTicks } = await import("/assets/axes.js");
    return { share: ticks(scale(0, 0.2), 5), texts: tickTexts([0, 0.05, 0.1], false), log: ticks(scale(0.001, 10, true), 5), whole: ticks(scale(0, 3), 8, true), rounded: rounded(-0.03, 0.21, 6),
      time: timeTicks(scale(0, 95), 5).map(minuteText), one: ticks(scale(2, 2), 5), negative: tickTexts([-0.1, 0], false) };
  });
  assert.deepEqual(found, { share: [0, 0.05, 0.1, 0.15, 0.2], texts: ["0.00", "0.05", "0.10"], log: [0.001, 0.01, 0.1, 1, 10], whole: [0, 1, 2, 3], rounded: [-0.05, 0.25],
    time: ["0 min", "30 min", "1 h", "90 min"], one: [2], negative: ["−0.1", "0.0"] });
});

test("a provisional value is replaced by the final one of its step, never the other way round", async (t) => {
  const { page } = await scene(t);
  const kept = await page.evaluate(async () => {
    const { seriesOf, take } = await import("/assets/series.js");
    const series = seriesOf({ step: [10], epoch: [1], time: [0], rows: [9], tie_fraction: [0], provisional: [], incomplete: [], superseded: [],
      scores: { ctl: { value: [1], standard_error: [null], undefined: {}, left_out: [], p_value: null } } });
    const point = (step, value, provisional) => take(series, { step, provisional, incomplete: false, epoch: null, time: 0, rows: 9, tie_fraction: 0, scores: { ctl: value === null ? { undefined: "why" } : { value } } });
    point(30, 3, true); point(30, 4, false); point(30, 5, true); point(20, 2, false); point(25, 6, true); point(40, 7, true); point(50, null, false);
    return [series.step, series.scores.get("ctl").value, [...series.scores.get("ctl").why], [...series.provisional]];
  });
  assert.deepEqual(kept, [[10, 20, 30, 50], [1, 2, 4, null], [[50, "why"]], []]);
});

test("an address says everything and survives hostile names", async (t) => {
  const { page } = await scene(t);
  const found = await page.evaluate(async () => {
    const { format, parse } = await import("/assets/state.js");
    const names = ["λ=0.1", "a/b?c#d&e", "has_bill_shape::curved_(up_or_down)", "<img src=x onerror=alert(1)>", "100 % real", "..", "%zz"];
    const same = names.every((run) => parse(format({ ...parse(""), page: "run", run })).run === run);
    const view = parse(format({ ...parse(""), q: "lambda<1 seed=0", show: names, zoom: [1.5, 20], logy: true, smooth: 0.5, group: "note & more" }));
    return { same, view: [view.q, view.show.join("|"), view.zoom, view.logy, view.smooth, view.group], none: parse("#/?show=").show, odd: [parse("#/x?zoom=b_a&smooth=9&along=up").smooth, parse("#/run/%zz").run] };
  });
  assert.deepEqual(found, { same: true, view: ["lambda<1 seed=0", "λ=0.1|a/b?c#d&e|has_bill_shape::curved_(up_or_down)|<img src=x onerror=alert(1)>|100 % real|..|%zz", [1.5, 20], true, 0.5, "note & more"],
    none: [], odd: [0.95, "%zz"] });
});

test("files are quoted, and nothing in them is a formula", async (t) => {
  const { page } = await scene(t);
  const text = await page.evaluate(async () => (await import("/assets/saving.js")).csv(["run", "value"], [['a,"b"\n', 1], ["=cmd()", -0.5], ["-x", null]]));
  assert.equal(text, 'run,value\n"a,""b""\n",1\n\'=cmd(),-0.5\n\'-x,\n');
});

test("what a score is over is told in concepts or in pairs", async (t) => {
  const { page } = await scene(t);
  const texts = await page.evaluate(async () => {
    const { overText } = await import("/assets/text.js");
    const without = (concepts, pairs) => ({ concepts, pairs, of: 112, why: "labels: one class" });
    return [without([3]), without([3, 4], 442), without([], 5)].map(overText);
  });
  assert.deepEqual(texts, ["over 111 of 112 concepts", "over 110 of 112 concepts", "over 12427 of 12432 pairs"]);
});

test("a limit is named where no curve crosses it, however wide its text is", async (t) => {
  const { page } = await scene(t);
  const placed = (character) => page.evaluate(async (character) => {
    const { LinePlot } = await import("/assets/lineplot.js");
    const x = Array.from({ length: 21 }, (_, i) => i);
    const named = (y, bad = "above") => {
      const spec = { lines: [{ name: "a", color: "--s1", look: 0, x, y, half: y.map(() => 0.005) }], along: "epoch", zoom: null, logx: false, logy: false, smooth: 0, least: [0, 0.2], text: String,
        limit: { value: 0.16, text: "above the limit, 0.16", bad } };
      const plot = new LinePlot(spec, 400, 180);
      const context = document.createElement("canvas").getContext("2d");
      // The machine's fonts have no part in it.
      context.measureText = (text) => ({ width: character * text.length });
      for (const _ of plot.paint(context));
      const { x: at, width, top, crossed } = plot.label;
      const center = (at + width / 2 - plot.box.left) / plot.box.width;
      return [center < 0.45 ? "left" : center > 0.55 ? "right" : "middle", top < plot.y(0.16, plot.box) ? "above" : "below", crossed];
    };
    return [named(x.map(() => 0.05)), named(x.map((i) => Math.min(0.17, i * 0.02))), named(x.map((i) => Math.max(0.17 - i * 0.03, 0))), named(x.map(() => 0.3), "below")];
  }, character);
  // A narrow text is above the start of the curve that rises to the limit; a wide one is below its end.
  for (const [character, rising] of [[5, ["left", "above", 0]], [7, ["right", "below", 0]]]) {
    assert.deepEqual(await placed(character), [["right", "above", 0], rising, ["right", "above", 0], ["right", "below", 0]], `${character} pixels a character`);
  }
});

test("numbers have a true minus and no negative zero, and as many digits as their interval", async (t) => {
  const { page } = await scene(t);
  const found = await page.evaluate(async () => {
    const { percent, signed } = await import("/assets/text.js");
    const { alertText, comparedText, differenceText } = await import("/assets/sentences.js");
    const { nameScores } = await import("/assets/labels.js");
    const by = { label: "lambda", values: ["0.01", "0.5", "5"] };
    return [percent(-0.004), percent(-0.02), signed("-0.0"), signed("-1.50"), differenceText("icl_label", { mean: 0.01828, low: 0.00208, high: 0.03447 }),
      differenceText("intervention_drop", { mean: 0.2843, low: 0.2019, high: 0.3668 }), differenceText("ctl", { mean: -0.001, low: -0.03, high: 0.03 }),
      comparedText("0.5: intervention_drop is higher in 0.5 by 0.2900 (0.2019 to 0.3668)", by), comparedText("5: 3 of 4 runs reach a task accuracy of 0.787", by),
      comparedText("concepts of 0.01 are learnt less well (concept_accuracy 0.63 against 1.00)", by), comparedText("ctl shows no difference (0.0687, -0.1579 to 0.2953)"),
      (nameScores([{ id: "concept_auc", title: "Concept AUC" }]), alertText("concept_auc is 0.7000, below 0.85; intervention_drop is 0.2504, above 0.25, for 4 evaluations"))];
  });
  assert.deepEqual(found, ["0 %", "−2 %", "0.0", "−1.50", "0.018 (0.002 to 0.034)", "28 points (20 to 37)", "0.00 (−0.03 to 0.03)",
    "λ = 0.5: intervention drop is higher by 29 points (20 to 37)", "λ = 5: 3 of 4 runs reach a task accuracy of 79 %",
    "concepts at λ = 0.01 are learnt less well (concept accuracy 63 % against 100 %)", "CTL, published shows no difference: 0.07 (−0.16 to 0.30)",
    "concept AUC is 0.7000, below 0.85; intervention drop is 25.04 points, above 25 points, for 4 evaluations"]);
});

test("every module is asked for at once, not one after the other", async (t) => {
  const { page } = await scene(t);
  const web = new URL("../../web/", import.meta.url);
  const modules = (await readdir(web)).filter((name) => name.endsWith(".js") && name !== "main.js").sort();
  const asked = await page.locator("link[rel=modulepreload]").evaluateAll((all) => all.map((one) => one.getAttribute("href").replace("assets/", "")));
  assert.deepEqual(asked, modules);
});
