// How fast the page is: node measure.mjs [--runs 100] [--concepts 112] [--points 1000] [--url http://…]
//
// On the stand-in for the sidecar, or on a sidecar. Prints the bytes of the page, the first paint, the time until the rows
// and the curves are drawn, the time from an input to the next frame, and the time between frames while runs grow.
import { parseArgs } from "node:util";
import { launch, settled } from "./chromium.mjs";
import { serve, world } from "./mock.mjs";

const text = (value) => ({ type: "string", default: value });
const { values } = parseArgs({ options: { runs: text("100"), concepts: text("112"), points: text("1000"), url: text("") } });
const OPENED = 5;
const GROW_MS = 250;
const GROWTHS = 20;

const all = Array.from({ length: Number(values.runs) }, (_, i) => i);
const mock = values.url ? null : await serve({ runs: world({ runs: all.length, concepts: Number(values.concepts), points: Number(values.points),
  intervened: all }) });
const url = values.url.replace(/\/$/, "") || mock.url;
const browser = await launch();
const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
const say = (what, value) => console.log(`${what}: ${value}`);
try {
  /** Opens the page anew and notes when it painted. */
  const opened = async () => {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    const page = await context.newPage();
    await page.addInitScript(() => performance.setResourceTimingBufferSize(10_000));
    await page.goto(url);
    await page.waitForFunction(() => document.querySelectorAll(".runs tr[data-run]").length > 0);
    const rows = await page.evaluate(() => performance.now());
    await page.waitForFunction(() => [...document.querySelectorAll(".chart")].some((chart) =>
      chart.curves?.length > 0 && !chart.querySelector(".plot").chart.stale));
    const curves = await page.evaluate(() => performance.now());
    const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
    return { context, page, paint, rows, curves };
  };
  // The stand-in computes what it is asked for the first time.
  const asked = "scores=ctl_conditional,intervention_drop,task_accuracy,concept_accuracy,ctl,icl".replaceAll(",", "%2C");
  for (const run of mock?.runs
    ?? []) await (await fetch(`${url}/api/v1/curves?${new URLSearchParams({ run: run.name, split: "val" })}&${asked}`)).arrayBuffer();
  await (await opened()).context.close();
  const times = [];
  for (let i = 0; i < OPENED; i += 1) {
    const one = await opened();
    times.push(one);
    if (i < OPENED - 1) await one.context.close();
  }
  for (const key of ["paint", "rows", "curves"]) say({ paint: "first contentful paint", rows: "rows of the table", curves: "first curves" }[key],
    `${median(times.map((one) => one[key])).toFixed(0)} ms, median of ${OPENED}`);
  const { page } = times.at(-1);
  await settled(page);
  const bytes = (own) => page.evaluate((own) => performance.getEntriesByType("resource").filter(({ name }) => name.includes("/assets/") === own).reduce((sum,
    { decodedBodySize }) => sum + decodedBodySize, 0), own);
  say("files of the page", `${((await bytes(true)) / 1e3).toFixed(0)} kB`);
  say("data until it is at rest", `${((await bytes(false)) / 1e6).toFixed(2)} MB`);

  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
  const busy = async () => {
    const { metrics } = await devtools.send("Performance.getMetrics");
    return Object.fromEntries(metrics.map(({ name, value }) => [name, value * 1000]));
  };
  /** Milliseconds from an input until what it changes has been drawn, and those that the page's thread computed. */
  const took = async (act) => {
    const before = await busy();
    const wall = await page.evaluate(async (act) => {
      const start = performance.now();
      new Function(act)();
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      return performance.now() - start;
    }, act);
    const after = await busy();
    return { wall, cpu: after.TaskDuration - before.TaskDuration };
  };
  const acts = async (what, list) => {
    const found = [];
    for (const act of list) { found.push(await took(act)); await page.waitForTimeout(250); }
    const told = (key) => `median ${median(found.map((one) => one[key])).toFixed(0)} ms, longest ${Math.max(...found.map((one) => one[key])).toFixed(0)} ms`;
    say(what, `${told("wall")}; computing ${told("cpu")}`);
  };
  const type = (word) => `const one = document.getElementById("search"); one.value = ${JSON.stringify(word)}; one.dispatchEvent(new Event("input"));`;
  const point = (x) => `const plot = document.querySelector('.chart[data-score="ctl_conditional"] .plot'); const box = plot.getBoundingClientRect();
    plot.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + ${x}, clientY: box.top + 50 }));`;
  const interactions = async (of) => {
    await acts(`${of}: typing in the search`, ["s", "se", "see", "seed1", "lambda<1", ""].map(type));
    await acts(`${of}: sorting`, [0, 1, 2, 3].map((i) => `document.querySelectorAll(".runs .sort")[${i}].click();`));
    await acts(`${of}: pointing at a curve`, [60, 90, 120, 150, 180, 210].map(point));
    await acts(`${of}: a run more or less in the charts`, [0, 1, 2, 3].map((i) => `document.querySelectorAll(".runs .sw")[${i}].click();`));
    await acts(`${of}: smoothing`, [0.3, 0.6, 0].map((v) =>
      `const one = document.querySelector("input[type=range]"); one.value = ${v}; one.dispatchEvent(new Event("input"));`));
  };
  await interactions("five runs in the charts");
  const start = Date.now();
  await page.getByLabel("Show all listed runs in the charts").check();
  await page.waitForFunction((n) => document.querySelector('.chart[data-score="ctl_conditional"]').curves.length >= n, all.length, { timeout: 60_000 })
    .catch(() => {});
  say("all runs in the charts", `${((Date.now() - start) / 1000).toFixed(1)} s, ${((await bytes(false)) / 1e6).toFixed(1)} MB of data in all`);
  await settled(page);
  await interactions("all runs in the charts");
  if (mock) {
    const frames = page.evaluate((ms) => new Promise((done) => {
      const [at, end] = [[], performance.now() + ms];
      const tick = (now) => {
        at.push(now);
        if (now < end) requestAnimationFrame(tick);
        else done(at);
      };
      requestAnimationFrame(tick);
    }), GROW_MS * GROWTHS);
    const live = mock.runs.filter((run) => !run.finished).slice(0, 4);
    for (let i = 0; i < GROWTHS; i += 1) {
      mock.grow(live[i % live.length].name);
      await page.waitForTimeout(GROW_MS);
    }
    const at = await frames;
    const gaps = at.slice(1).map((time, i) => time - at[i]);
    say("between frames while points arrive, all runs in the charts",
      `median ${median(gaps).toFixed(1)} ms, longest ${Math.max(...gaps).toFixed(0)} ms of ${gaps.length}`);
  }
} finally {
  await browser.close();
  await mock?.close();
}
