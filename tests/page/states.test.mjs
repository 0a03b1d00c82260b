// Tests of what the page says of how runs go on and end, in a real Chromium.
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually, scene, withBrowser } from "./scene.mjs";

withBrowser();

/** Runs by their names, in the order in which they started, and what the sidecar says of them. */
const RUNS = {
  failed: { state: "failed", reason: "rank 1: ValueError: no such concept", finished: true },
  stalled: { state: "stalled", reason: "silent for more than three times its usual interval, 40 s" },
  lost: { state: "lost", reason: "its job has disconnected without saying how it ended" },
  trains: { state: "training", reason: null },
  advised: { state: "stopped_on_advice", reason: null, finished: true },
  done: { state: "finished", reason: null, finished: true },
};
const WORDS = { advised: "stopped on advice", trains: "training", done: "finished" };
/** When the first run was last heard from. */
const HEARD = 1_790_000_000;
/** All leak as little, so that no verdict decides the order. */
const options = (rest = {}) => ({ runs: 6, points: 6, ...rest, rename: (run) => {
  const name = Object.keys(RUNS)[run.labels.seed];
  const updated = HEARD + 60 * Number(run.labels.seed);
  Object.assign(run, { name, lambda: 5, finished: false, ended: { ...RUNS[name], updated } }, RUNS[name].finished && { finished: true });
} });
const row = (page, run) => page.locator(`.runs tr[data-run="${run}"]`);
const order = (page) => page.locator(".runs tr[data-run]").evaluateAll((rows) => rows.map((one) => one.dataset.run));
const time = (page, run) => page.evaluate((at) => {
  const two = (n) => String(n).padStart(2, "0");
  const d = new Date(at * 1000);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}, HEARD + 60 * Object.keys(RUNS).indexOf(run));

for (const [name, { state, reason }] of Object.entries(RUNS)) {
  const word = WORDS[name] ?? state;
  test(`a run that is ${word} says so in the list and at its head, with the reason and its last update`, async (t) => {
    const { page, mock, complaints } = await scene(t, options());
    const cell = row(page, name).locator(".name > span");
    await eventually("its row", async () => (await cell.count()) === 1);
    const says = `${word}${reason ? `: ${reason}` : ""}; last update `;
    const at = await time(page, name);
    const title = await cell.getAttribute("title");
    assert.ok(title.startsWith(says) && title.endsWith(at), title);
    assert.equal(await cell.locator(".live").count(), state === "training" ? 1 : 0);
    const seen = await cell.locator(".state").allInnerTexts();
    assert.deepEqual(seen, state === "training" || state === "finished" ? [] : [title]);
    await page.goto(`${mock.url}/#/run/${name}`);
    const chips = page.locator(".chips .chip");
    await eventually("its head", async () => (await chips.first().innerText()).startsWith(word) || chips.allInnerTexts());
    const said = await chips.allInnerTexts();
    assert.equal(said.includes(reason), reason !== null, said.join());
    assert.ok(said.at(-1).startsWith("last update ") && said.at(-1).endsWith(at), said.join());
    assert.deepEqual(complaints, []);
  });
}

test("runs that need a person come first, then those in training, then the others, the newest first", async (t) => {
  const { page, mock } = await scene(t, options());
  await eventually("six rows", async () => (await order(page)).length === 6);
  assert.deepEqual(await order(page), ["failed", "stalled", "lost", "trains", "done", "advised"]);
  assert.equal(await page.locator(".connection").innerText(), "1 training");
  // One that leaks, and whose alert fires, comes before them.
  const run = mock.runs.find((one) => one.name === "trains");
  run.state = "leaking";
  mock.send("alert", { rule: "leaks", run: "trains", split: "val", score: "ctl", state: "firing", since: HEARD, evidence: "", step: 20 });
  await eventually("the one that leaks", async () => (await order(page))[0] === "trains" || order(page));
});

test("a state that no event tells of is looked for, by one request for all runs", async (t) => {
  const { page, mock } = await scene(t, options());
  await eventually("it trains", async () => (await row(page, "trains").locator(".live").count()) === 1);
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url())));
  Object.assign(mock.runs.find((one) => one.name === "trains").ended, RUNS.lost);
  await eventually("it is lost", async () => /^lost: its job/.test((await row(page, "trains").locator(".state").allInnerTexts())[0] ?? ""));
  const of = (path) => asked.filter(({ pathname }) => pathname === `/api/v1/${path}`);
  assert.deepEqual([of("runs").map(({ search }) => search), of("run").length], [["?limit=5"], 0]);
});
