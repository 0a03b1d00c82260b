// How fast the page of a sidecar is: node benches/page/run.sh FOLDER, or node real.mjs URL [--opened 7] [--times 3]
//
// On the curves that the example `filled` writes. For the pages of all runs, of groups of runs, and of one run: the first
// contentful paint, and for each input, made as a person makes it, the time until the next frame is painted, as the browser's
// event timing has it: in steps of 8 ms, where what takes less than 16 ms counts as 16.
import { parseArgs } from "node:util";
import { launch, settled } from "./chromium.mjs";

const { values, positionals } = parseArgs({ allowPositionals: true, options: { opened: { type: "string", default: "7" }, times: { type: "string", default: "3" } } });
const url = (positionals[0] ?? "http://127.0.0.1:7801").replace(/\/$/, "");
const [OPENED, TIMES] = [Number(values.opened), Number(values.times)];
const SHORTEST = 16;
const WIDTH = { width: 1440, height: 900 };

const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
const row = (what, list) => console.log(`| ${what} | ${median(list).toFixed(0)} ms | ${Math.max(...list).toFixed(0)} ms | ${list.length} |`);

/** Runs in the page: keeps the longest event of each interaction. */
function watch() {
  window.longest = new Map();
  new PerformanceObserver((list) => {
    for (const { interactionId, duration } of list.getEntries()) {
      if (interactionId) window.longest.set(interactionId, Math.max(window.longest.get(interactionId) ?? 0, duration));
    }
  }).observe({ type: "event", durationThreshold: 16, buffered: true });
}

const browser = await launch();

/** Opens an address as a person does who has not been there. The page keeps a stream open, so it is never idle. */
async function opened(hash) {
  const context = await browser.newContext({ viewport: WIDTH });
  const page = await context.newPage();
  await page.addInitScript(watch);
  await page.goto(`${url}/${hash}`, { waitUntil: "commit" });
  const paint = await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  return { context, page, paint: await paint.jsonValue() };
}

async function paints(what, hash) {
  await (await opened(hash)).context.close();
  const found = [];
  for (let i = 0; i < OPENED; i += 1) {
    const { context, page, paint } = await opened(hash);
    found.push(paint);
    await settled(page);
    await context.close();
  }
  row(`first contentful paint, ${what}`, found);
}

/** Does something several times, each as one or more inputs, and says how long they took to be painted. */
async function inputs(page, what, acts) {
  const found = [];
  for (let i = 0; i < TIMES; i += 1) {
    for (const act of acts) {
      await page.evaluate(() => window.longest.clear());
      await act();
      await page.waitForTimeout(400);
      // Inputs that the browser does not report were faster than its threshold.
      const times = await page.evaluate(() => [...window.longest.values()]);
      found.push(...(times.length ? times : [SHORTEST]));
    }
  }
  row(what, found);
}

const keys = (page, text) => [...text].map((key) => () => page.keyboard.press(key));
const sorts = (page, n) => Array.from({ length: n }, (_, i) => () => page.locator(".runs .sort").nth(i).click());

try {
  console.log("| | median | worst | of |\n|---|---:|---:|---:|");
  await paints("all runs", "#/");
  await paints("groups of runs", "#/compare");
  await paints("a run", "#/run/cbm-10-s3");

  const { context, page } = await opened("#/");
  await settled(page);
  for (const of of ["five runs in the charts", "100 runs in the charts"]) {
    if (of.startsWith("100")) {
      await inputs(page, "showing 100 runs in the charts", [async () => {
        await page.getByLabel("Show all listed runs in the charts").click();
        await settled(page);
      }]);
      await page.getByLabel("Show all listed runs in the charts").check();
      await page.waitForFunction(() => document.querySelector('.chart[data-score="ctl_conditional"]').curves.length >= 100, null, { timeout: 120_000 });
      await settled(page);
    }
    await page.locator("#search").click();
    await inputs(page, `${of}: typing in the search, each key`, [...keys(page, "s12"), ...Array(3).fill(() => page.keyboard.press("Backspace"))]);
    await inputs(page, `${of}: sorting`, sorts(page, 4));
    await inputs(page, `${of}: a run more or less in the charts`, [0, 1].flatMap((i) => [0, 1].map(() => () => page.locator(".runs tr[data-run] .sw").nth(i).click())));
    await page.locator("summary", { hasText: /scores|charts/i }).first().click();
    const box = page.locator('input[type=checkbox][value="task_f1"]').first();
    await inputs(page, `${of}: choosing a score`, [() => box.click(), () => box.click()]);
    await page.keyboard.press("Escape");
    const slider = page.locator("input[type=range]").first();
    await slider.focus();
    await inputs(page, `${of}: smoothing, each key`, [() => slider.press("ArrowRight"), () => slider.press("ArrowRight"), () => slider.press("Home")]);
  }
  await context.close();

  const run = await opened("#/run/cbm-10-s3");
  await settled(run.page);
  const small = run.page.getByRole("button", { name: "Small curves" });
  await inputs(run.page, "a run: its concepts as curves, and back", [() => small.click(), () => small.click()]);
  await run.context.close();
} finally {
  await browser.close();
}
