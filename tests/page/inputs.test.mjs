// An input is answered in the next frame, and what takes long comes after it, in a real Chromium.
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually, scene, withBrowser } from "./scene.mjs";

withBrowser();

test("work of turns comes after the frame in its order, once for each key, and a fault keeps none from its turn", async (t) => {
  const { page, complaints } = await scene(t);
  const done = await page.evaluate(async () => {
    const { afterFrame } = await import("/assets/scheduler.js");
    const done = [];
    const note = (what) => () => { done.push(what); };
    const parts = (what, count) => function* () { for (let i = 0; i < count; i += 1) { done.push(`${what}${i}`); yield; } };
    afterFrame("a", note("replaced"));
    afterFrame("b", parts("b", 3));
    afterFrame("fault", () => { throw new Error("on purpose"); });
    afterFrame("a", note("a"));
    // Replaced while it is done: what it has left is dropped.
    afterFrame("c", function* () {
      done.push("c");
      afterFrame("c", note("c again"));
      yield;
      done.push("never");
    });
    requestAnimationFrame(() => done.push("frame"));
    await new Promise((end) => afterFrame("end", () => afterFrame("last", end)));
    return done;
  });
  assert.deepEqual(done, ["frame", "b0", "b1", "b2", "a", "c", "c again"]);
  assert.equal(complaints.length, 1);
  assert.match(complaints[0], /on purpose/);
});

test("a run is marked in the next frame, in the row that was there, and the charts follow", async (t) => {
  const { page, complaints } = await scene(t, { runs: 20 });
  const seen = await page.evaluate(async () => {
    const row = document.querySelector('.runs tr[data-run]:has(.sw[aria-pressed="false"])');
    const button = row.querySelector(".sw");
    const { chart } = document.querySelector('.chart[data-score="ctl_conditional"] .plot');
    const before = chart.plot;
    const lines = before.spec.lines.length;
    button.focus();
    button.click();
    await new Promise(requestAnimationFrame);
    const pressed = button.getAttribute("aria-pressed");
    const same = chart.plot === before;
    return { pressed, same, lines, kept: row.contains(button) && row.isConnected && document.activeElement === button };
  });
  assert.deepEqual(seen, { pressed: "true", same: true, lines: 5, kept: true });
  await eventually("the sixth line", () => page.evaluate(() =>
    document.querySelector('.chart[data-score="ctl_conditional"] .plot').chart.plot.spec.lines.length === 6));
  assert.deepEqual(complaints, []);
});

test("a list that has changed shows the rows in sight in the next frame, and the others after it", async (t) => {
  const { page } = await scene(t, { runs: 50 });
  const rows = () => page.locator(".runs tr[data-run]").count();
  await eventually("all rows", async () => (await rows()) === 50);
  const first = await page.evaluate(async () => {
    document.querySelectorAll(".runs .sort")[0].click();
    await new Promise(requestAnimationFrame);
    const all = [...document.querySelectorAll(".runs tr[data-run]")];
    return { count: all.length, reaches: all.at(-1).getBoundingClientRect().bottom >= innerHeight, height: document.querySelector(".runs").offsetHeight };
  });
  assert.ok(first.count < 30 && first.reaches, JSON.stringify(first));
  await eventually("all rows again", async () => (await rows()) === 50);
  const height = await page.evaluate(() => document.querySelector(".runs").offsetHeight);
  assert.ok(Math.abs(height - first.height) <= 2, `${first.height} and ${height}`);
  const names = await page.locator(".runs tr[data-run]").evaluateAll((all) => all.map((one) => one.dataset.run));
  assert.deepEqual(names, names.toSorted((a, b) => a.localeCompare(b, "en", { numeric: true })));
});

test("the address follows many changes at once, and never a reader who has gone elsewhere", async (t) => {
  const { page } = await scene(t);
  const written = await page.evaluate(async () => {
    let count = 0;
    const { replaceState } = history;
    history.replaceState = function (...of) { count += 1; replaceState.apply(this, of); };
    const slider = document.querySelector('.aside input[type="range"]');
    for (let i = 0; i < 50; i += 1) {
      slider.value = String((i % 19) / 20);
      slider.dispatchEvent(new Event("input"));
    }
    slider.value = "0.5";
    slider.dispatchEvent(new Event("input"));
    while (!location.hash.includes("smooth=0.5")) await new Promise(requestAnimationFrame);
    return count;
  });
  assert.equal(written, 1);
  await page.evaluate(() => {
    const slider = document.querySelector('.aside input[type="range"]');
    slider.value = "0.25";
    slider.dispatchEvent(new Event("input"));
    document.getElementById("nav-compare").click();
  });
  await eventually("the comparison", async () => (await page.locator(".compare").count()) === 1);
  await page.waitForTimeout(200);
  assert.match(page.url(), /#\/compare/);
});

test("charts keep their place while one searches, and a tab of a comparison the focus", async (t) => {
  const { page } = await scene(t, { runs: 20 });
  const left = () => page.locator(".aside").evaluate((one) => Math.round(one.getBoundingClientRect().left));
  const before = await left();
  await page.locator("#search").fill("seed=3");
  await eventually("one run", async () => (await page.locator(".runs tr[data-run]").count()) === 1);
  assert.equal(await left(), before);
  await page.locator("#nav-compare").click();
  const tab = page.locator(".compare .tabs button").nth(1);
  await tab.click();
  await eventually("two runs", async () => (await tab.getAttribute("aria-pressed")) === "true");
  assert.equal(await tab.evaluate((one) => one === document.activeElement), true);
});
