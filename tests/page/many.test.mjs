// Thousands of runs on the page of all runs, in a real Chromium: few are laid out, all can be reached, and neither focus,
// typing nor a screen reader loses its place.
import assert from "node:assert/strict";
import { test } from "node:test";
import { serve, world } from "./mock.mjs";
import { eventually, open, withBrowser } from "./scene.mjs";

const RUNS = 10_000;
/** Rows that may be laid out: those of a window and some around them. */
const MOST = 120;
withBrowser();

/** Names as they are listed: runs in training before the others, and each newest first. */
const names = (runs) => runs.toSorted((a, b) => Number(a.finished) - Number(b.finished) || b.started - a.started).map(({ name }) => name);

async function many(t, options = {}) {
  const runs = world({ runs: RUNS, points: 3 });
  const mock = await serve({ runs, alerts: { rules: [], standings: [], changes: [] } });
  const view = await open(mock.url, options);
  t.after(async () => {
    await view.close();
    await mock.close();
  });
  await eventually("all are listed", async () => /^All\n10\D000$/.test(await view.page.locator(".tabs button").first().innerText()));
  return { ...view, mock, listed: names(runs) };
}

const laidOut = (page) => page.evaluate(() => [...document.querySelectorAll(".runs tr[data-run]")].map((row) => row.dataset.run));
/** Runs in the window, with their place as it is told. */
const inSight = (page) => page.evaluate(() => [...document.querySelectorAll(".runs tr[data-run]")]
  .filter((row) => { const { top, bottom } = row.getBoundingClientRect(); return top >= 90 && bottom <= innerHeight; })
  .map((row) => [row.dataset.run, Number(row.getAttribute("aria-rowindex"))]));
/** Returns the text about the window, without separators of thousands. */
const place = async (page) => (await page.locator(".place").innerText()).replace(/(?<=\d)\D(?=\d{3})/g, "");

test("the end of ten thousand runs is one key away, and few of them are laid out", async (t) => {
  const { page, complaints, listed } = await many(t);
  assert.equal(await page.locator(".runs").getAttribute("aria-rowcount"), String(RUNS + 1));
  await page.locator("h1").click();
  await page.keyboard.press("End");
  await eventually("the last run", async () => (await laidOut(page)).includes(listed.at(-1)));
  assert.ok((await laidOut(page)).length <= MOST, `${(await laidOut(page)).length} rows`);
  assert.match(await place(page), /^Rows 99\d\d to 10000 of 10000$/);
  const last = page.locator(`.runs tr[data-run="${listed.at(-1)}"]`);
  assert.equal(await last.getAttribute("aria-rowindex"), String(RUNS + 1));
  // With its verdict, though its page of rows is the last.
  await eventually("its verdict", async () => /Sound|Leaking|Possibly/.test(await last.innerText()) || last.innerText());
  await page.evaluate(() => scrollTo(0, 100_000));
  await eventually("where the window is", async () => {
    const [, from, to] = (await place(page)).match(/^Rows (\d+) to (\d+) of 10000$/).map(Number);
    const at = (await inSight(page)).map(([, index]) => index - 1);
    return (at.length > 10 && Math.abs(at[0] - from) <= 2 && Math.abs(at.at(-1) - to) <= 2) || `${from} ${to} ${at}`;
  });
  await page.keyboard.press("Home");
  await eventually("the first", async () => (await inSight(page)).some(([name, at]) => name === listed[0] && at === 2));
  assert.deepEqual(complaints, []);
});

test("on a phone the rows are cards of their own heights, and its end is reached as well", async (t) => {
  const { page, complaints, listed } = await many(t, { width: 390, height: 844 });
  for (const [share, from, to] of [[0.5, 4000, 6000], [1, 9900, 10_000]]) {
    await eventually(`rows at ${share}`, async () => {
      // Charts stand below the list.
      await page.evaluate((share) => { const { top, height } = document.querySelector(".runs").getBoundingClientRect(); scrollBy(0,
        top + height * share - innerHeight); }, share);
      const at = (await inSight(page)).map(([, index]) => index - 1);
      return (at.length > 2 && at.every((one) => one >= from && one <= to)) || at.join();
    });
  }
  await eventually("the last run", async () => (await laidOut(page)).includes(listed.at(-1)));
  assert.ok((await laidOut(page)).length <= MOST);
  assert.deepEqual(complaints, []);
});

test("wherever the window is, its runs are in their order, and few are laid out", { timeout: 180_000 }, async (t) => {
  const { page, listed } = await many(t, { height: 2000 });
  for (let part = 0; part <= 20; part += 1) {
    await page.evaluate((share) => {
      const { top, height } = document.querySelector(".runs").getBoundingClientRect();
      scrollTo(0, scrollY + top + (height - innerHeight) * share);
    }, part / 20);
    await eventually(`the runs at ${part} of 20`, async () => {
      const rows = await inSight(page);
      const [first, last] = [rows[0], rows.at(-1)].map((row) => row?.[1] - 2);
      const expected = listed.slice(first, last + 1);
      const near = Math.abs(first - (listed.length - rows.length) * (part / 20)) <= rows.length;
      return (rows.length > 20 && near && rows.map(([name]) => name).join() === expected.join()) || `${first} to ${last}`;
    });
    const most = (await laidOut(page)).length;
    assert.ok(most <= 2 * MOST, `${most} rows`);
  }
});

test("the focus stays with its run wherever the window is, and Tab goes on to the next", async (t) => {
  const { page, listed } = await many(t);
  const focused = () => page.evaluate(() => document.activeElement?.closest("tr")?.dataset.run ?? document.activeElement?.tagName);
  await page.locator(`.runs a[data-key="open ${listed[3]}"]`).focus();
  await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight / 2));
  await eventually("the middle", async () => /^Rows [45]\d{3} /.test(await place(page)) || place(page));
  assert.equal(await focused(), listed[3]);
  assert.ok((await laidOut(page)).length <= MOST);
  // Tab reaches rows that were not laid out when it began, also before the next frame.
  for (const at of [3, 4, 5, 4, 3]) {
    const there = await page.evaluate((run) => {
      document.querySelector(`.runs a[data-key="open ${run}"]`).focus({ preventScroll: true });
      return [...document.querySelectorAll(".runs tr[data-run]")].map((row) => row.dataset.run);
    }, listed[at]);
    assert.ok(there.includes(listed[at - 1]) && there.includes(listed[at + 1]), `beside row ${at}`);
  }
  const reached = new Set();
  for (let turn = 0; turn < 400 && reached.size < 90; turn += 1) {
    await page.keyboard.press("Tab");
    reached.add(await focused());
  }
  const order = [...reached].filter((name) => listed.includes(name));
  assert.deepEqual(order, listed.slice(3, 3 + order.length));
  assert.ok(order.length >= 80, `${order.length} runs`);
});

test("a list that is sorted, grouped or searched starts from what it has, and a group of thousands is laid out like the list", async (t) => {
  const { page, mock, listed } = await many(t);
  await page.locator("#search").fill("seed=9999");
  await eventually("one", async () => (await laidOut(page)).join() === listed[0]);
  await eventually("no place in a list of one", async () => !(await page.locator(".place").isVisible()));
  await page.locator("#search").fill("");
  await page.getByLabel("Group by").selectOption("lambda");
  await eventually("groups", async () => (await page.locator(".runs .group").count()) === 8);
  await page.locator(".runs .more button").first().click();
  await eventually("a group of 1,250", async () => /of 12\d\d$/.test(await place(page)) || place(page));
  await page.locator("h1").click();
  await page.keyboard.press("End");
  await eventually("the other groups", async () => (await page.locator(".runs .group").count()) >= 7);
  assert.ok((await laidOut(page)).length <= MOST);
  await page.getByLabel("Group by").selectOption("");
  await page.evaluate(() => scrollTo(0, 0));
  await page.locator(".runs .sort", { hasText: "Run" }).click();
  const sorted = listed.toSorted((a, b) => a.localeCompare(b, "en", { numeric: true }));
  await eventually("by name", async () => (await laidOut(page)).slice(0, 3).join() === sorted.slice(0, 3).join() || (await laidOut(page)).slice(0, 3).join());
  // A run that changes far outside the window moves nothing inside it.
  const before = await inSight(page);
  mock.send("run", { run: sorted.at(-1) });
  await page.waitForTimeout(800);
  assert.deepEqual(await inSight(page), before);
});

test("runs that change together are asked for together", async (t) => {
  const { mock, asked, listed } = await many(t);
  const rows = () => asked.filter((url) => url.includes("/overview"));
  await eventually("all rows", async () => new Set(rows().map((url) => new URL(url).searchParams.get("after"))).size === 50);
  await new Promise((next) => setTimeout(next, 1000));
  const before = rows().length;
  for (const run of listed.slice(500, 530)) mock.send("alert",
    { rule: "r", run, split: "val", score: "ctl", state: "pending", since: 0, evidence: "", step: 1 });
  await eventually("a question", async () => rows().length > before);
  await new Promise((next) => setTimeout(next, 1500));
  const questions = rows().slice(before).map((url) => new URL(url).searchParams.get("run"));
  assert.equal(questions.length, 1);
  assert.deepEqual(questions[0].split("\n"), listed.slice(500, 530));
});
