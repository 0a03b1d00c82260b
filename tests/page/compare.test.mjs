// Tests of the page of comparisons in a real Chromium.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { settled } from "./chromium.mjs";
import { eventually, lines, pointAt, scene, withBrowser } from "./scene.mjs";

withBrowser();

const questions = (asked) => asked.map((url) => new URL(url)).filter((url) => url.pathname === "/api/v1/compare");

test("two runs are compared, score by score and concept by concept", async (t) => {
  const { page, asked, complaints } = await scene(t, { hash: "#/compare?by=runs" });
  await eventually("the verdict", async () => (await page.locator("h1").innerText()) === "The scores disagree on which run leaks more");
  assert.match(await page.locator(".head p").innerText(),
    /^Concepts-task leakage \(ctl\) is higher in a by 0\.0400, but because concepts of b are learnt less well \(concept accuracy 0\.45 against 0\.98\)$/);
  assert.match(await page.locator(".panel:visible > header").innerText(), /Leakage Criterion of the paper, by CTL and ICL alone: A leaks more/);
  assert.equal(questions(asked).at(-1).searchParams.get("run_a"), "tabulartoy-lambda-0.01");
  const row = page.locator('tr[data-score="ctl_conditional"]');
  assert.match(await row.innerText(), /Leakage to the task\s+0\.\d\d \(0\.\d\d to 0\.\d\d\)\s+A leaks more\s+3 of 3: c1 \(A\)/);
  assert.match(await page.locator('tr[data-score="task_accuracy"]').innerText(), /\(.*(no difference shown|is worse)/);
  assert.match(await page.locator('tr[data-score="concept_accuracy"]').innerText(), /undefined: no evaluation of tabulartoy/);
  await page.locator(".panel:visible summary").click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save as CSV" }).click()]);
  const rows = (await readFile(await download.path())).toString().trimEnd().split("\n");
  assert.equal(rows[0], "score,concept,a,b,difference,low,high,p_value,verdict");
  assert.equal(rows.length, 1 + 6 + 4 * 3);
  await page.getByLabel("A", { exact: true }).selectOption("tabulartoy-lambda-5");
  await eventually("the other way round", async () => /B leaks more/.test(await row.innerText()));
  await page.reload();
  await settled(page);
  await eventually("the same after a reload", async () => /B leaks more/.test(await row.innerText()));
  assert.deepEqual(complaints, []);
});

test("runs of the address that cannot be compared are named, and no others take their place", async (t) => {
  const rename = (run) => { run.name = `r${run.labels.seed}`; run.unevaluated = run.name === "r3"; };
  const { page, mock, asked, complaints } = await scene(t, { runs: 4, rename, hash: "#/compare?by=runs&a=r3&b=nobody" });
  const says = (text) => eventually(text, async () => (await page.locator(".head p").innerText()) === text || page.locator(".head").innerText());
  await says("r3 has no evaluation of val. There is no run nobody.");
  assert.equal(await page.locator("h1").innerText(), "This comparison is not possible");
  assert.equal(await page.locator(".compare .panel:visible").count(), 0);
  await page.goto(`${mock.url}/#/compare?by=runs&a=r1&b=r1`);
  await says("A and B are the same run, r1.");
  assert.equal(questions(asked).length, 0);
  await page.getByLabel("B", { exact: true }).selectOption("r2");
  await eventually("the two", async () => (await page.locator('tr[data-score="ctl"]').count()) === 1);
  await page.getByLabel("A", { exact: true }).selectOption("r2");
  await eventually("the other way round", async () => /a=r2&b=r1/.test(page.url()) && questions(asked).at(-1).searchParams.get("run_b") === "r1");
  const compare = page.getByRole("link", { name: "Compare", exact: true }).and(page.locator(".btn"));
  await page.goto(`${mock.url}/#/run/r0`);
  await eventually("a run that can be compared", async () => /b=r2/.test(await compare.getAttribute("href")));
  await page.goto(`${mock.url}/#/run/r3`);
  await eventually("no comparison", async () => (await page.locator(".head.run b").first().innerText()) === "r3" && !(await compare.isVisible()));
  assert.deepEqual(complaints, []);
});

test("two splits of a run are compared, concept by concept", async (t) => {
  const { page, asked, complaints } = await scene(t, { twins: [0], hash: "#/compare?by=splits" });
  const row = page.locator('tr[data-score="concept_accuracy"]');
  await eventually("the row", async () => (await row.count()) === 1);
  assert.deepEqual([...questions(asked).at(-1).searchParams], [["run_a", "tabulartoy-lambda-5"], ["split", "val"], ["with_split", "val_dropped"]]);
  assert.equal(await page.locator("h1").innerText(), "tabulartoy-lambda-5: val and val_dropped");
  assert.match(await page.locator(".head p").innerText(), /The 5 newest evaluations that both have, steps 520 to 600/);
  assert.match(await row.innerText(), /0\.15 \(0\.13 to 0\.17\)\s+val_dropped is worse\s+1 of 3: c1 \(val\)/);
  // Only runs that have both splits are to choose from.
  assert.deepEqual(await page.getByLabel("A", { exact: true }).locator("option").allInnerTexts(), ["tabulartoy-lambda-5"]);
  await page.getByRole("button", { name: "Two runs" }).click();
  await eventually("two runs", async () => /disagree/.test(await page.locator("h1").innerText()));
  assert.deepEqual(complaints, []);
});

test("a single run can be compared by its splits alone, and without them the page says what is missing", async (t) => {
  const { page } = await scene(t, { runs: 1, twins: [0], hash: "#/compare" });
  await eventually("its splits", async () => (await page.locator("h1").innerText()).includes("val_dropped"));
  assert.ok(await page.getByRole("button", { name: "Two runs" }).isDisabled());
  const other = await scene(t, { runs: 1, hash: "#/compare" });
  await eventually("what is missing", async () => /Nothing to compare yet/.test(await other.page.locator("h1").innerText()));
});

test("the headline and the comparison say first that they are over some of the runs", async (t) => {
  const { page } = await scene(t, { runs: 12 });
  await eventually("of all", async () => /Leakage is least where λ is 5 to 10/.test(await page.locator(".head p").innerText()));
  await page.route("**/api/v1/compare*", async (route) => {
    const answer = await route.fetch();
    const { groups, ...report } = await answer.json();
    await route.fulfill({ response: answer, json: { ...report, groups: groups.slice(0, 5), notes: ["left out, because their concepts or their task differ: r7"] } });
  });
  await page.reload();
  await eventually("of some", async () => /Among \d runs with the same concepts and task, leakage is least where λ is/.test(await page.locator(".head p").innerText()));
  await page.locator("#nav-compare").click();
  const panels = page.locator(".compare > :not([hidden])");
  await eventually("the note", async () => (await panels.allInnerTexts()).some((text) => /^Left out, because/.test(text)));
  const texts = await panels.allInnerTexts();
  assert.ok(texts.findIndex((text) => /^Left out/.test(text)) < texts.findIndex((text) => /Sweep|Leakage to the task/.test(text)), texts.join("|"));
});

test("groups by a label are curves with the range of least leakage, and say which scores agree", async (t) => {
  const { page, complaints } = await scene(t, { runs: 12, hash: "#/compare" });
  await eventually("the range", async () => (await page.locator("h1").innerText()) === "Leakage is least where λ is 5 to 10");
  assert.match(await page.locator(".compare").innerText(),
    /Below it: lambda=2: concepts-task leakage \(ctl\) is higher in lambda=2 by 0\.0\d+ \(0\.\d+ to 0\.\d+\)/);
  assert.doesNotMatch(await page.locator(".compare").innerText(), /Caution/);
  const [line] = await lines(page, "sweep-ctl_conditional");
  assert.deepEqual([line.x.length, line.x[0]], [8, -2]);
  assert.deepEqual(await page.locator(".agreement thead th").allInnerTexts(),
    ["Score", ...["0.01", "0.05", "0.1", "0.5", "1", "2", "5", "10"].map((value) => `λ = ${value}`)]);
  assert.deepEqual(await page.locator(".agreement th.least").allInnerTexts(), ["λ = 5", "λ = 10"]);
  assert.equal(await page.locator(".agreement td.worst").count(), 9);
  assert.equal(await page.locator(".agreement td.least").count(), 16);
  await page.emulateMedia({ media: "print" });
  assert.equal(await page.locator(".agreement td.least").first().evaluate((one) => getComputedStyle(one).printColorAdjust), "exact");
  assert.match(await page.getByRole("region", { name: "Agreement of the scores" }).locator("header").innerText(), /Yes: all are worst at λ = 0\.01|No\. /);
  assert.deepEqual(complaints, []);
  const all = await scene(t, { runs: 12, hash: "#/compare", rename: (run) => { run.lambda /= 100; } });
  await eventually("that all leak", async () =>
    /Caution: lambda=5 still loses 0\.\d\d of accuracy under intervention/.test(await all.page.locator(".compare").innerText()));
});

test("values of a label without an order are listed, each with its band within the plot", async (t) => {
  const { page, complaints } = await scene(t, { runs: 9, hash: "#/compare?label=encoder",
    rename: (run) => { run.labels.encoder = ["cnn", "mlp", "vit"][run.labels.seed % 3]; } });
  await page.addInitScript(() => {
    const { prototype } = CanvasRenderingContext2D;
    const { fillRect } = prototype;
    prototype.fillRect = function (x, y, width, height) {
      if (Math.abs(this.globalAlpha - 0.13) < 1e-6) (globalThis.bands ??= []).push([x, x + width]);
      fillRect.call(this, x, y, width, height);
    };
  });
  await page.route("**/api/v1/compare*", async (route) => {
    const response = await route.fetch();
    const report = await response.json();
    report.least.values = ["cnn", "vit"];
    delete report.least.caution;
    await route.fulfill({ response, json: report });
  });
  await page.reload();
  await settled(page);
  await eventually("the values", async () => (await page.locator("h1").innerText()) === "Leakage is least where encoder is cnn or vit");
  assert.match(await page.locator(".compare .key").innerText(), /least leakage: encoder = cnn or vit\n/);
  assert.equal(await page.locator(".plain-note").isVisible(), false, "there is nothing below or above a list");
  await eventually("the bands", () => page.evaluate(() => globalThis.bands?.length >= 2));
  const { width } = await page.locator('.chart[data-score="sweep-ctl_conditional"] canvas').boundingBox();
  const bands = await page.evaluate(() => globalThis.bands);
  const [[from, a], [b, to]] = bands;
  assert.ok(from >= 36 && a < b && b - a > 40 && to <= width - 12, JSON.stringify({ bands, width }));
  assert.deepEqual(complaints, []);
});

test("no group is called the worst where the intervals of a score show no difference", async (t) => {
  const { page } = await scene(t, { runs: 9, hash: "#/compare?label=encoder",
    rename: (run) => { run.labels.encoder = ["cnn", "mlp", "vit"][run.labels.seed % 3]; } });
  const of = (mean, low, high) => ({ mean, low, high, standard_error: 0.01, count: 3 });
  const serve = (intervals) => page.route("**/api/v1/compare*", async (route) => {
    const response = await route.fetch();
    const report = await response.json();
    report.groups.forEach(({ scores }, i) => scores.forEach((one) => { one.interval = (intervals[one.score] ?? intervals.rest)?.[i] ?? null; }));
    await route.fulfill({ response, json: report });
  });
  const panel = page.getByRole("region", { name: "Agreement of the scores" });
  const same = [of(0.1, 0.05, 0.15), of(0.12, 0.06, 0.18), of(0.11, null, null)];
  const mlp = [of(0.1, 0.05, 0.15), of(0.4, 0.3, 0.5), of(0.1, 0.05, 0.15)];
  // The highest mean is that of cnn, and mlp may be as high.
  const either = [of(0.42, 0.3, 0.54), of(0.4, 0.3, 0.5), of(0.1, 0.05, 0.15)];
  for (const [intervals, says, worst] of [
    [{ ctl: same, icl: same }, /agree\?\s+No difference between the groups is shown by CTL, published and ICL, published\.$/, 0],
    [{ ctl: mlp, icl: same }, /agree\?\s+CTL, published is worst at encoder = mlp\. No difference .* by ICL, published\.$/, 1],
    [{ ctl: mlp, icl: either }, /agree\?\s+Yes: all are worst at encoder = mlp\.$/, 3],
    [{ ctl: mlp, icl: [mlp[0], mlp[0], mlp[1]] },
      /agree\?\s+No\. CTL, published is worst at encoder = mlp; ICL, published is worst at encoder = vit/, 2],
  ]) {
    await page.unrouteAll();
    await serve(intervals);
    await page.reload();
    await eventually(String(says), async () => says.test(await panel.locator("header").innerText()) || panel.locator("header").innerText());
    assert.equal(await panel.locator("td.worst").count(), worst, says);
  }
});

test("runs stand at their leakage and task accuracy, with the front that none beats in both", async (t) => {
  const { page, complaints } = await scene(t, { runs: 12, hash: "#/compare" });
  const panel = page.getByRole("region", { name: "Leakage against task accuracy" });
  await panel.scrollIntoViewIfNeeded();
  const found = await lines(page, "scatter");
  assert.equal(found.length, 13);
  const [front, ...runs] = found;
  const points = runs.map(({ x: [x], y: [y] }) => ({ x, y }));
  const beaten = ({ x, y }) => points.some((other) => other.x >= x && other.y <= y && (other.x > x || other.y < y));
  const best = points.filter((one) => !beaten(one)).sort((a, b) => a.x - b.x);
  assert.deepEqual([front.name, front.x, front.y], ["Pareto front", best.map(({ x }) => x), best.map(({ y }) => y)]);
  assert.equal(runs.find(({ name }) => name.startsWith("cub/soft-seed1-")).color, "--leak");
  await eventually("λ beside the pointer", async () => {
    const tip = await pointAt(page, "scatter", 0.9);
    return /, λ = [\d.]+\s+[\d.−]+/.test(tip) || tip;
  });
  await panel.locator("summary").click();
  const [download] = await Promise.all([page.waitForEvent("download"), panel.getByRole("button", { name: "Save as CSV" }).click()]);
  const rows = (await readFile(await download.path())).toString().trimEnd().split("\n");
  assert.equal(rows[0], "run,lambda,verdict,task_accuracy,ctl_conditional,on_front");
  assert.equal(rows.filter((row) => row.endsWith(",true")).length, best.length);
  await page.getByLabel("Only runs with").fill("lambda=0.01");
  await page.keyboard.press("Enter");
  await eventually("the two of them", async () => (await lines(page, "scatter")).length === 3);
  assert.deepEqual(complaints, []);
});

test("a score that cannot be compared says why in its row", async (t) => {
  const { page } = await scene(t, { runs: 12, hash: "#/compare" });
  await page.route("**/api/v1/compare*", async (route) => {
    const response = await route.fetch();
    const report = await response.json();
    for (const { scores } of report.groups) for (const one of scores) {
      if (one.score === "icl") Object.assign(one, { interval: null, undefined: "comparable only at equal N, and evaluations have 1200 to 1500 rows" });
    }
    const { scores: [first] } = report.groups[1];
    Object.assign(first, { interval: null, undefined: "no evaluation of lambda=0.05 that is compared has it" });
    await route.fulfill({ response, json: report });
  });
  await page.reload();
  await settled(page);
  await eventually("the reason of a row",
    async () => /Comparable only at equal N, and evaluations have 1200 to 1500 rows/.test(await page.locator('.agreement tr[data-score="icl"]').innerText()));
  await page.locator('.agreement tr[data-score="ctl_conditional"]').getByRole("button", { name: "No value, why" }).focus();
  assert.match(await page.locator("#tip").innerText(), /No evaluation of lambda=0\.05 that is compared has it/);
});

test("a new evaluation asks for the comparison again, and does not empty it meanwhile", async (t) => {
  const { page, mock, asked } = await scene(t, { hash: "#/compare?by=runs" });
  await eventually("the verdict", async () => /disagree/.test(await page.locator("h1").innerText()));
  const before = questions(asked).length;
  await page.evaluate(() => {
    globalThis.emptied = 0;
    new MutationObserver(() => { globalThis.emptied += document.querySelector(".forest tbody tr") ? 0 : 1; }).observe(document.querySelector(".compare"),
      { childList: true, subtree: true });
  });
  for (let i = 0; i < 5; i += 1) mock.grow("tabulartoy-lambda-5");
  await eventually("another question", async () => questions(asked).length > before);
  await page.waitForTimeout(1500);
  assert.ok(questions(asked).length <= before + 2, `${questions(asked).length - before} questions for five evaluations`);
  assert.equal(await page.evaluate(() => globalThis.emptied), 0);
});

test("a comparison that is refused says why", async (t) => {
  const { page } = await scene(t, { hash: "#/compare", faults: ["/compare"] });
  await eventually("the reason", async () => /not possible.*history: is being compacted/s.test(await page.locator(".note.bad").innerText()));
});
