// How fast the page of a sidecar is: node benches/page/run.sh FOLDER, or node real.mjs URL [--opened 7] [--times 3]
//
// On the curves that the example `filled` writes. For the pages of all runs, of groups of runs, and of one run: the first
// contentful paint, and for each input, made as a person makes it, the time until the next frame is painted, as the browser's
// event timing has it: in steps of 8 ms, where what takes less than 16 ms counts as 16. First those of a page that has nothing
// but a button and a field: what the browser and the machine take alone. And over slow networks, how long the page of all runs
// takes, and how many bytes.
import { parseArgs } from "node:util";
import { launch, settled } from "./chromium.mjs";

const { values, positionals } = parseArgs({ allowPositionals: true,
  options: { opened: { type: "string", default: "7" }, times: { type: "string", default: "3" } } });
const url = (positionals[0] ?? "http://127.0.0.1:7801").replace(/\/$/, "");
const [OPENED, TIMES] = [Number(values.opened), Number(values.times)];
const SHORTEST = 16;
const WIDTH = { width: 1440, height: 900 };

const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
const row = (what, list, unit = "ms") =>
  console.log(`| ${what} | ${median(list).toFixed(0)} ${unit} | ${Math.max(...list).toFixed(0)} ${unit} | ${list.length} |`);
/** Networks as Chromium's developer tools have them: bits per second, and milliseconds until an answer begins. */
const SLOW = { "slow 4G": [1.6e6, 150], "slow 3G": [4e5, 400] };

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
async function opened(hash, network = null) {
  const context = await browser.newContext({ viewport: WIDTH });
  const page = await context.newPage();
  if (network !== null) {
    const [bits, latency] = SLOW[network];
    const session = await context.newCDPSession(page);
    await session.send("Network.emulateNetworkConditions", { offline: false, latency, downloadThroughput: bits / 8, uploadThroughput: bits / 16 });
  }
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

/** The first view of all runs over a slow network. */
async function slow(network) {
  const [painted, listed, drawn, bytes] = [[], [], [], []];
  for (let i = 0; i < OPENED; i += 1) {
    const { context, page, paint } = await opened("#/", network);
    const when = async (is) => (await page.waitForFunction(is, null, { timeout: 120_000 }), page.evaluate(() => performance.now()));
    painted.push(paint);
    listed.push(await when(() => document.querySelector(".runs tr[data-run]")));
    drawn.push(await when(() => [...document.querySelectorAll(".chart")].some((chart) => chart.curves?.length)));
    // An answer is listed once it has come whole.
    await when(() => performance.getEntriesByType("resource").some(({ name }) => name.includes("/api/v1/overview")));
    await settled(page);
    bytes.push(await page.evaluate(() => ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind))
      .reduce((sum, { transferSize }) => sum + transferSize / 1000, 0)));
    await context.close();
  }
  row(`${network}: first contentful paint`, painted);
  row(`${network}: all runs listed`, listed);
  row(`${network}: their first curves`, drawn);
  row(`${network}: the first view`, bytes, "kB");
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
const clicks = (page, ...selectors) => selectors.map((selector) => () => page.locator(selector).first().click());
/** Keys on a choice, which take the next or the one before. */
const chosen = (page, label, ...keys) => keys.map((key) => async () => {
  const choice = page.getByLabel(label, { exact: true }).first();
  if (!(await choice.evaluate((one) => one === document.activeElement))) await choice.focus();
  await page.keyboard.press(key);
});
const sorts = (page, n) => Array.from({ length: n }, (_, i) => () => page.locator(".runs .sort").nth(i).click());
const RUN = "#/run/cbm-10-s3";

/** Milliseconds that an input takes where there is next to nothing to draw. */
async function floor() {
  const page = await browser.newPage({ viewport: WIDTH });
  await page.addInitScript(watch);
  const html = '<button onclick="this.textContent = 1 + Number(this.textContent)">0</button><input oninput="text.textContent = value"><p id="text">';
  await page.goto(`data:text/html,${encodeURIComponent(html)}`);
  await page.waitForTimeout(500);
  await inputs(page, "an empty page: a button that changes a text", clicks(page, "button", "button", "button", "button"));
  await page.locator("input").focus();
  await inputs(page, "an empty page: a key that changes a text", keys(page, "s12"));
  await page.close();
}

/** Opens a page and waits until it has drawn what it opens with. */
async function visited(hash) {
  const { context, page } = await opened(hash);
  await settled(page);
  await page.waitForTimeout(500);
  return { context, page };
}

async function allRuns() {
  const { context, page } = await visited("#/");
  for (const of of ["five runs in the charts", "100 runs in the charts"]) {
    if (of.startsWith("100")) {
      const all = page.getByLabel("Show all listed runs in the charts");
      await inputs(page, "showing 100 runs in the charts, and five again", [() => all.click(), () => all.click()]);
      await all.check();
      await page.waitForFunction(() => document.querySelector('.chart[data-score="ctl_conditional"]').curves.length >= 100, null, { timeout: 120_000 });
      await settled(page);
    }
    await page.locator("#search").click();
    await inputs(page, `${of}: typing in the search, each key`, [...keys(page, "s12"), ...Array(3).fill(() => page.keyboard.press("Backspace"))]);
    await inputs(page, `${of}: sorting`, sorts(page, 4));
    await inputs(page, `${of}: a run more or less in the charts`,
      [0, 1].flatMap((i) => [0, 1].map(() => () => page.locator(".runs tr[data-run] .sw").nth(i).click())));
    await inputs(page, `${of}: one verdict, and all`, clicks(page, ".tabs button:nth-child(2)", ".tabs button:nth-child(1)"));
    await inputs(page, `${of}: grouping, each key`, chosen(page, "Group by", "ArrowDown", "ArrowDown", "Home"));
    await page.locator("summary", { hasText: /scores|charts/i }).first().click();
    await inputs(page, `${of}: choosing a score`, Array(2).fill(() => page.locator('input[type=checkbox][value="task_f1"]').first().click()));
    await page.keyboard.press("Escape");
    await page.locator(".aside summary", { hasText: "Axes" }).click();
    await page.locator(".aside input[type=range]").focus();
    await inputs(page, `${of}: smoothing, each key`, ["ArrowRight", "ArrowRight", "Home"].map((key) => () => page.keyboard.press(key)));
    await page.keyboard.press("Escape");
    await page.locator('.chart[data-score="ctl_conditional"] .plot').focus();
    await inputs(page, `${of}: reading a chart, each key`, ["ArrowLeft", "ArrowLeft", "Home"].map((key) => () => page.keyboard.press(key)));
    await inputs(page, `${of}: light and dark`, clicks(page, "#theme", "#theme"));
  }
  await inputs(page, "100 runs in the charts: to a run, and back", [clicks(page, ".runs tr[data-run] .name a")[0], clicks(page, "#nav-runs")[0]]);
  await context.close();
}

async function oneRun() {
  const { context, page } = await visited(RUN);
  await inputs(page, "a run: pinning it", clicks(page, ".head.run .btn >> nth=0", ".head.run .btn >> nth=0"));
  await inputs(page, "a run: the horizontal axis, each key", chosen(page, "Horizontal axis", "ArrowDown", "ArrowDown", "Home"));
  await page.getByLabel("Search concepts").click();
  await inputs(page, "a run: searching its concepts, each key", [...keys(page, "11"), ...Array(2).fill(() => page.keyboard.press("Backspace"))]);
  await inputs(page, "a run: sorting its concepts, each key", chosen(page, "Sort concepts by", "ArrowDown", "ArrowDown", "Home"));
  await inputs(page, "a run: its concepts as curves, and back", Array(2).fill(() => page.getByRole("button", { name: "Small curves" }).click()));
  await inputs(page, "a run: all scores, and none", Array(2).fill(() => page.locator("summary", { hasText: "All scores" }).click()));
  await context.close();
}

async function groups() {
  const { context, page } = await visited("#/compare");
  await inputs(page, "comparing: by a label, and two runs", clicks(page, ".tabs button:nth-child(2)", ".tabs button:nth-child(1)"));
  await inputs(page, "comparing: another label, each key", chosen(page, "Label", "ArrowDown", "ArrowUp"));
  await clicks(page, ".tabs button:nth-child(2)")[0]();
  await page.waitForTimeout(1500);
  await inputs(page, "comparing: another run, each key", chosen(page, "A", "ArrowDown", "ArrowUp"));
  await context.close();
}

try {
  console.log("| | median | worst | of |\n|---|---:|---:|---:|");
  await floor();
  await paints("all runs", "#/");
  await paints("groups of runs", "#/compare");
  await paints("a run", RUN);
  for (const network of Object.keys(SLOW)) await slow(network);
  await allRuns();
  await oneRun();
  await groups();
  await floor();
} finally {
  await browser.close();
}
