// The page in Firefox: that its curves are painted, its states said and its keys work there as in Chromium, whose tests look
// closer. Another driver, because Playwright drives a Firefox of its own only.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch } from "puppeteer-core";
import { serve, world } from "./mock.mjs";
import { eventually } from "./scene.mjs";

const FIREFOX = process.env.CONCEPTWATCH_FIREFOX;
const LEAKY = "tabulartoy-lambda-0.01";
const SOUND = "tabulartoy-lambda-5";
const skip = FIREFOX ? false : "Firefox is not installed";
let browser;
before(async () => { if (FIREFOX) browser = await launch({ browser: "firefox", executablePath: FIREFOX }); });
after(() => browser?.close());

/** Serves a made-up world and opens a view of it. */
async function scene(t, hash, options = {}) {
  const mock = await serve({ runs: world({ intervened: [0, 1], ...options }) });
  const page = await browser.newPage();
  await page.setViewport({ width: 1440, height: 900 });
  const complaints = [];
  page.on("console", (message) => { if (["error", "warn"].includes(message.type())) complaints.push(message.text()); });
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.goto(`${mock.url}/${hash}`, { waitUntil: "domcontentloaded" });
  t.after(async () => { await page.close(); await mock.close().catch(() => {}); });
  return { page, mock, complaints };
}

const text = (page, selector) => page.evaluate((selector) => document.querySelector(selector)?.innerText ?? "", selector);
const texts = (page, selector) => page.$$eval(selector, (all) => all.map((one) => one.innerText));

/** Pixels of a chart that are neither transparent nor grey. */
const coloured = (page, score) => page.evaluate((score) => {
  const canvas = document.querySelector(`.chart[data-score="${score}"] canvas`);
  if (!canvas) return 0;
  const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height }).getContext("2d");
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) {
    const [r, g, b, alpha] = data.subarray(i, i + 4);
    if (alpha > 200 && Math.max(r, g, b) - Math.min(r, g, b) > 40) count += 1;
  }
  return count;
}, score);

test("Firefox: all runs with their verdicts, curves that are painted, and new values as they come", { skip }, async (t) => {
  const { page, mock, complaints } = await scene(t, "");
  const row = `.runs tr[data-run="${LEAKY}"]`;
  await eventually("its verdict", async () => /leaking/i.test(await text(page, row)) || text(page, row));
  await eventually("its curves", async () => (await coloured(page, "ctl_conditional")) > 200 || coloured(page, "ctl_conditional"));
  mock.grow(LEAKY);
  const newest = () => page.evaluate((run) => document.querySelector('.chart[data-score="ctl_conditional"]').curves
    .find(({ name }) => name === run).x.at(-1), LEAKY);
  await eventually("the newer evaluation", async () => (await newest()) === 31 || newest());
  assert.deepEqual(complaints, []);
});

test("Firefox: a run's verdict, what to do, and the values of a chart by keyboard", { skip }, async (t) => {
  const { page, complaints } = await scene(t, `#/run/${LEAKY}`);
  await eventually("its verdict", async () => /^Leaking since epoch \d+/.test(await text(page, ".verdict h1")));
  await eventually("its advice", async () => /^Stop this run/.test(await text(page, ".todo")) || text(page, ".todo"));
  await eventually("its curve", async () => (await coloured(page, "ctl_conditional")) > 100);
  await page.focus('.chart[data-score="ctl_conditional"] .plot');
  await page.keyboard.press("End");
  await eventually("the last", async () => /^epoch 30\n/.test(await text(page, "#tip")) || text(page, "#tip"));
  await page.keyboard.press("ArrowLeft");
  await eventually("the last but one", async () => /^epoch 29\n/.test(await text(page, "#tip")) || text(page, "#tip"));
  await eventually("it is told", async () => /^epoch 29\. /.test(await text(page, "#told")) || text(page, "#told"));
  assert.deepEqual(complaints, []);
});

test("Firefox: a run that failed, one that stalled and one that is lost say so", { skip }, async (t) => {
  const states = [["failed", "ValueError: no such concept"], ["stalled", "silent for 40 s"], ["lost", "its job is gone"]];
  const { page, complaints } = await scene(t, "", { runs: 3, rename: (run) => {
    const [state, reason] = states[run.labels.seed];
    Object.assign(run, { name: state, ended: { state, reason, updated: 1_790_000_000 } });
  } });
  await eventually("three rows", async () => (await texts(page, ".runs tr .state")).length === 3);
  const said = (await texts(page, ".runs tr .state")).join("\n");
  for (const [state, reason] of states) assert.ok(said.includes(`${state}: ${reason}`), said);
  assert.deepEqual(complaints, []);
});

test("Firefox: after a restart of the sidecar the page is live again, and compares runs", { skip }, async (t) => {
  const { page, mock } = await scene(t, "");
  const state = () => page.$eval(".connection", (one) => one.dataset.state);
  await eventually("live", async () => (await state()) === "live");
  await mock.close();
  await eventually("it says so", async () => (await state()) === "reconnecting");
  await eventually("and since when", async () => /No connection to the sidecar since/.test(await text(page, ".note")) || text(page, ".note"));
  const again = await serve({ port: Number(new URL(mock.url).port), runs: world({ intervened: [0, 1], points: 40 }) });
  t.after(() => again.close());
  // The page tries by itself, too, and then the button is gone.
  await page.$$eval("button", (all) => all.find((one) => one.innerText === "Try now")?.click());
  await eventually("it is back", async () => (await state()) === "live");
  await page.evaluate(() => { location.hash = "#/compare"; });
  await eventually("the recommendation", async () => (await text(page, "main")).includes(SOUND) || text(page, "main"));
});
