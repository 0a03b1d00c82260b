// Tests of the page of all runs in a real Chromium.
//
// CONCEPTWATCH_URL: also looks at a running sidecar that has at least two runs; CONCEPTWATCH_RUNS: their names, as JSON.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { settled } from "./chromium.mjs";
import { serve, world } from "./mock.mjs";
import { HOSTILE, charts, drawn, eventually, lines, open, painted, pointAt, scene, withBrowser } from "./scene.mjs";

const LIVE = process.env.CONCEPTWATCH_URL;
withBrowser();

const row = (page, run) => page.locator(`.runs tr[data-run="${run}"]`);
const LEAKY = "tabulartoy-lambda-0.01";
const SOUND = "tabulartoy-lambda-5";

test("one glance says how many runs leak, which, since when and through what", async (t) => {
  const { page, complaints } = await scene(t, { intervened: [0, 1] });
  assert.equal(await page.locator("h1").innerText(), "1 of 2 runs leaks");
  assert.match(await page.locator(".head p").innerText(), /^tabulartoy-lambda-0\.01 is training and has leaked since epoch \d+; stopping is advised\./);
  assert.match(await row(page, LEAKY).innerText(), /Leaking since epoch \d+\s+3\/3/);
  assert.match(await row(page, SOUND).innerText(), /Sound/);
  assert.deepEqual(await page.locator(".tabs button:visible").allInnerTexts(),
    ["All\n2", "Leaking\n1", "Possibly\n0", "Sound\n1", "Too early\n0", "Can’t tell\n0"]);
  assert.deepEqual(complaints, []);
});

test("conditional leakage, interventions and accuracies come first, CTL and ICL below them without a click", async (t) => {
  const { page, complaints } = await scene(t, { intervened: [0, 1] });
  assert.deepEqual(await charts(page), ["ctl_conditional", "intervention_drop", "task_accuracy", "concept_accuracy", "ctl", "icl"]);
  for (const score of ["ctl_conditional", "task_accuracy"]) {
    const found = await lines(page, score);
    assert.deepEqual(found.map(({ name }) => name).sort(), [LEAKY, SOUND]);
    for (const { name, y } of found) assert.ok(y.filter((value) => value !== null).length > 20, `${name} in ${score}`);
    for (const { name, color } of found) {
      await eventually(`${name} is painted in ${score}`,
        async () => { const pixels = await painted(page, score, color); return pixels > 60 || `${pixels} pixels`; });
    }
  }
  assert.deepEqual(complaints, []);
});

test("all numbers on the page are in one unit, the one of the sidecar's sentences", async (t) => {
  const { page } = await scene(t, { intervened: [0, 1] });
  const units = () => page.locator(".chart .unit").allInnerTexts();
  assert.ok((await units()).every((unit) => unit.startsWith("share")), (await units()).join());
  assert.equal(await page.locator(".runs thead").getByText(/%|, pt/).count(), 0);
  await page.goto(`${page.url().split("#")[0]}#/run/${LEAKY}`);
  await eventually("the run's", async () => (await units()).filter((unit) => unit).length > 5 && (await units()).every((unit) => /share/.test(unit)));
  assert.doesNotMatch((await page.locator(".verdict").innerText()) + (await page.locator(".stats").first().innerText()), /\d (%|pt|points)(?! interval)/);
});

test("a score that no run has logged says what to log, and takes no room", async (t) => {
  const { page } = await scene(t);
  assert.ok(!(await charts(page)).includes("intervention_drop"));
  assert.match(await page.locator(".missing").first().innerText(), /Intervention drop: not sent\. Pass head= to init/);
});

test("what a resumed run has left stays, faint and apart, also when the run has reached it again", async (t) => {
  const { page, mock, asked } = await scene(t, { hash: "#/?along=step", left: { 1: [[20, 22], [27, 28, 29, 30]] } });
  const name = `${LEAKY}, superseded`;
  const found = async () => (await lines(page, "ctl_conditional")).filter((one) => one.name.startsWith(LEAKY)).map((one) =>
    [one.name, one.superseded ?? false, one.from?.[0], one.x.slice(-4).join()]);
  const places = (from) => Array.from({ length: 4 }, (_, i) => (from + i) * 20).join();
  await eventually("three lines", async () => (await found()).length === 3 || JSON.stringify(await found()));
  assert.deepEqual(await found(), [[name, true, 380, "400,440"], [name, true, 520, places(27)], [LEAKY, false, undefined, places(23)]]);
  assert.match(await pointAt(page, "ctl_conditional", 0.99), /superseded/);
  assert.ok(!(await page.locator('.chart[data-score="ctl_conditional"] .plot').getAttribute("aria-label")).includes("superseded"));
  // Its newest evaluation is older than those beyond: the sidecar says which attempt made what.
  const fetched = () => asked.filter((url) => url.includes("/curves") && url.includes(LEAKY)).length;
  const before = fetched();
  const run = mock.runs.find((one) => one.name === LEAKY);
  const point = await (await fetch(`${mock.url}/api/v1/point?run=${LEAKY}&split=val`)).json();
  run.left = [[24, 25, 26, 27, 28, 29, 30]];
  mock.send("point", { ...point, provisional: false, step: 460, time: point.time + 1000 });
  await eventually("the curves are asked for once more", async () => fetched() === before + 1 || fetched());
  await eventually("what is left now", async () => JSON.stringify(await found()) === JSON.stringify([[name, true, 460, places(27)],
    [LEAKY, false, undefined, places(20)]]) || JSON.stringify(await found()));
  // It gets there again: the newest branch alone goes on, and nothing is asked for.
  run.passed = 28;
  const asked_before = fetched();
  for (const i of [24, 25, 26, 27, 28]) mock.send("point", { ...point, provisional: false, step: i * 20, time: point.time + 1000 + i });
  const both = [[name, true, 460, places(27)], [LEAKY, false, undefined, places(25)]];
  await eventually("both branches", async () => JSON.stringify(await found()) === JSON.stringify(both) || JSON.stringify(await found()));
  assert.equal(fetched(), asked_before);
  await page.reload();
  await eventually("both branches, as the sidecar has them",
    async () => JSON.stringify(await found()) === JSON.stringify(both) || JSON.stringify(await found()));
});

test("a point that arrives is appended without fetching the curve again, and the verdict follows", async (t) => {
  const { page, mock, asked } = await scene(t);
  const before = (await drawn(page))[LEAKY];
  const fetched = asked.filter((url) => url.includes("/curves")).length;
  mock.grow(LEAKY);
  mock.grow(LEAKY);
  await eventually("two more points", async () => { const now = (await drawn(page))[LEAKY]; return now === before + 2 || now; });
  assert.equal(asked.filter((url) => url.includes("/curves")).length, fetched);
  await eventually("its row is asked for alone", async () => asked.some((url) => url.includes("/overview") && url.includes("run=tabulartoy-lambda-0.01")));
});

test("provisional and incomplete values are hollow", async (t) => {
  const { page, mock } = await scene(t, { hash: "#/?along=step" });
  mock.grow(LEAKY, true);
  const marked = async () => (await lines(page, "ctl")).map(({ name, x, open }) => `${name} ${x.filter((_, i) => open[i])}`).sort().join("; ");
  await eventually("the newest and the one cut short", async () => await marked() === `${LEAKY} 240,620; ${SOUND} 240,600` || marked());
});

test("while a sample fills, only its newest provisional value stands", async (t) => {
  const { page, mock } = await scene(t, { hash: "#/?along=step" });
  const point = await (await fetch(`${mock.url}/api/v1/point?run=${SOUND}&split=val`)).json();
  for (const step of [620, 640]) mock.send("point", { ...point, step, provisional: true });
  const last = async () => (await lines(page, "ctl")).find(({ name }) => name === SOUND).x.slice(-2).join();
  await eventually("the newest alone", async () => await last() === "580,640" || last());
});

test("an undefined value is a gap with its reason", async (t) => {
  const { page } = await scene(t, { hash: "#/?along=step" });
  const line = (await lines(page, "icl")).find(({ name }) => name === LEAKY);
  assert.deepEqual([80, 100].map((step) => line.y[line.x.indexOf(step)]), [null, null]);
  assert.deepEqual(line.gaps.map(({ x }) => x), [80, 100]);
  await eventually("the reason beside the pointer", async () => {
    const tip = await pointAt(page, "icl", 80 / 600);
    return /Undefined: one class only: concept c2 is constant/.test(tip) || tip;
  });
});

test("the box beside the pointer has value, interval and evaluation of every run", async (t) => {
  const { page } = await scene(t);
  const tip = await pointAt(page, "ctl_conditional", 0.5);
  assert.match(tip, /^epoch 1\d\n/);
  for (const run of [LEAKY, SOUND]) assert.match(tip, new RegExp(`${run}\\s+0\\.\\d+ ± 0\\.\\d+`));
  assert.equal(await page.locator(".chart .cross:visible").count() > 1, true, "one cross hair for all charts");
  await page.keyboard.press("Escape");
  assert.ok(await page.locator("#tip").isHidden());
});

test("hostile names show literally, everywhere", async (t) => {
  const { page, complaints } = await scene(t, { labels: { note: HOSTILE }, rename: (run) => {
    run.concepts = [HOSTILE, "c2", "c3"];
    if (run.lambda === 5) run.name = `${HOSTILE} 5`;
  } });
  const name = `${HOSTILE} 5`;
  assert.ok((await page.locator(".runs").innerText()).includes(name));
  assert.ok((await page.locator(".key").innerText()).includes(name));
  await eventually("beside the pointer", async () => (await pointAt(page, "ctl", 0.5)).includes(name));
  await page.locator(".runs a", { hasText: name }).click();
  await eventually("its page", async () => (await page.locator("#concepts tbody").innerText()).includes(HOSTILE));
  assert.ok((await page.locator(".chips").innerText()).includes(HOSTILE));
  assert.equal(await page.title(), `Sound · ${name} · conceptwatch`);
  await page.goto(`${page.url().split("#")[0]}#/compare?by=runs`);
  await eventually("the comparison", async () => (await page.locator(".compare").innerText()).includes(name));
  assert.equal(await page.locator("img, [onerror]").count(), 0);
  assert.ok(!(await page.locator("b").allInnerTexts()).includes("bold"));
  assert.deepEqual(complaints, []);
});

test("runs are searched by words and by conditions on labels", async (t) => {
  const { page } = await scene(t, { runs: 20 });
  const shown = () => page.locator(".runs tr[data-run]").count();
  const search = page.getByLabel("Search runs and labels");
  for (const [text, count] of [["seed1-", 1], ["lambda<0.05", 3], ["lambda=0.01 seed>10", 1], ["lambda!=5", 17], ["nothing", 0], ["", 20]]) {
    await search.fill(text);
    await eventually(`${count} for "${text}"`, async () => await shown() === count || shown());
  }
  await page.locator("h1").click();
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement.id), "search");
  await page.locator(".tabs button", { hasText: "Leaking" }).click();
  await eventually("the leaking ones", async () => (await page.locator(".runs tr[data-run] .v").evaluateAll((all) =>
    all.every((one) => one.dataset.state === "leaking"))) && await shown() > 2);
});

test("runs are searched by scores and verdicts", async (t) => {
  const { page } = await scene(t, { runs: 20, intervened: Array.from({ length: 20 }, (_, i) => i) });
  const rows = page.locator(".runs tr[data-run]");
  const values = (of) => rows.locator(of).evaluateAll((all) => all.map((one) => Number(one.firstChild.data)));
  const search = page.getByLabel("Search runs and labels");
  const leaking = Number(await page.locator(".tabs button", { hasText: "Leaking" }).locator("b").innerText());
  await search.fill("verdict:leaking");
  await eventually("those that leak", async () => await rows.count() === leaking || rows.count());
  assert.ok(leaking > 2);
  await search.fill("leakage>0.2 lambda<0.05");
  const all = async (of, holds) => { const found = await values(of); return (found.length > 0 && found.length < 20 && found.every(holds)) || found.join(); };
  await eventually("the highest", () => all(".lk", (one) => one >= 0.2));
  await search.fill("drop<0.05 verdict!=leaking");
  await eventually("those that do not", () => all(".lk + td", (one) => one < 0.0501));
  await search.fill("verdict:");
  await eventually("a hint", async () => /^“verdict:” needs a verdict, such as verdict:leaking\./.test(await page.locator(".hint").innerText()));
});

test("the listed runs are saved as CSV in their order", async (t) => {
  const { page } = await scene(t, { runs: 9, hash: "#/?sort=-ctl_conditional&q=lambda<1" });
  const listed = await page.locator(".runs tr[data-run]").evaluateAll((all) => all.map((one) => one.dataset.run));
  await page.locator('.bar summary[aria-label="Save or list the runs"]').click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save as CSV" }).first().click()]);
  assert.equal(download.suggestedFilename(), "runs-val.csv");
  const [head, ...rows] = (await readFile(await download.path())).toString().trimEnd().split("\n").map((line) => line.split(","));
  assert.equal(head.slice(0, 12).join(), "run,title,split,verdict,task,since_step,step,epoch,time,rows,label:lambda,label:seed");
  assert.deepEqual(rows.map(([run]) => run), listed);
  const leakage = rows.map((row) => Number(row[head.indexOf("ctl_conditional")]));
  assert.deepEqual(leakage, leakage.toSorted((a, b) => b - a));
});

test("the headline says of how many runs no verdict is known, and nothing of all runs during a search", async (t) => {
  const rename = (run) => Object.assign(run, { finished: true, lambda: 5, state: "sound", unevaluated: run.labels.seed > 0 });
  const { page } = await scene(t, { runs: 5, rename });
  const head = page.locator("h1");
  await eventually("one", async () => (await head.innerText()) === "1 of 5 runs is sound; 4 cannot be judged" || head.innerText());
  const other = await scene(t, { runs: 12 });
  const lead = other.page.locator(".head p");
  await eventually("of all", async () => /Leakage is least where/.test(await lead.innerText()));
  await other.page.getByLabel("Search runs and labels").fill("lambda<1");
  await eventually("of some", async () => !/Leakage is least/.test(await lead.innerText()));
});

test("a search that finds nothing says so and how to clear it, and one that is incomplete what it lacks", async (t) => {
  const { page, complaints } = await scene(t, { runs: 20 });
  const search = page.getByLabel("Search runs and labels");
  const head = page.locator("h1");
  const shown = () => page.locator(".runs tr[data-run]").count();
  await search.fill("lambda<");
  await eventually("a hint", async () => (await page.locator(".hint").innerText())
    === "“lambda<” needs a value, such as lambda<1. It is ignored until then.");
  assert.equal(await shown(), 20);
  await search.fill("leakage>0,25");
  await eventually("another", async () => (await page.locator(".hint").innerText())
    === "“leakage>0,25” needs a number, such as leakage>0.25. It is ignored until then.");
  assert.equal(await shown(), 20);
  await search.fill("lamda<1");
  await eventually("no run", async () => (await head.innerText()) === "No run matches “lamda<1”");
  assert.equal(await page.locator(".hint").innerText(), "No run has a label “lamda”. Existing labels: lambda, seed.");
  assert.ok(await page.locator(".aside").isHidden());
  await page.getByRole("button", { name: "Clear the search" }).click();
  await eventually("all runs", async () => await shown() === 20);
  assert.ok(await page.locator(".aside").isVisible() && await page.locator(".hint").isHidden());
  assert.match(await head.innerText(), /of 20 runs leak/);
  assert.deepEqual(complaints, []);
});

test("a model that has not learnt its concepts is not called sound", async (t) => {
  const { page } = await scene(t, { rename: (run) => { run.poor = run.lambda === 5; } });
  assert.match(await row(page, SOUND).innerText(), /Can’t tell: the concept c0 is hardly learnt/);
  assert.deepEqual(await page.locator(".tabs button:visible").allInnerTexts(),
    ["All\n2", "Leaking\n1", "Possibly\n0", "Sound\n0", "Too early\n0", "Can’t tell\n1"]);
  await page.locator(".tabs button", { hasText: "Sound" }).click();
  await eventually("none is sound", async () => (await page.locator(".runs tr[data-run]").count()) === 0);
});

test("names, epochs, headers and labels are not cut at any width", async (t) => {
  const { page } = await scene(t, { runs: 12, points: 120, labels: { model: "resnet" }, rename: (run) => {
    run.labels.model = run.lambda > 1 ? "resnet50" : "vit";
    run.name = `cub-112 λ=${run.lambda} seed=${run.labels.seed}`;
  } });
  const cut = (at = page) =>
    at.evaluate(() => [...document.querySelectorAll(".runs .name a > span, .runs .v > span, .runs thead th, .runs td.label")].filter((one) => one.offsetParent)
    .filter((one) => one.scrollWidth > one.clientWidth + (one.matches("td") ? 0 : 1) || (one.matches("span") && one.scrollHeight > one.clientHeight + 1))
      .map((one) => one.textContent));
  for (const width of [390, 768, 1024, 1440, 2560]) {
    await page.setViewportSize({ width, height: 900 });
    await page.waitForTimeout(300);
    assert.deepEqual(await cut(), [], `${width} pixels`);
  }
  const { page: ofTwo } = await scene(t, { rename: (run) => { run.labels = { lambda: String(run.lambda) }; } });
  assert.deepEqual(await cut(ofTwo), [], "the last column is a label's");
});

test("runs are grouped by a label, sorted, and the address keeps it", async (t) => {
  const { page, complaints } = await scene(t, { runs: 20 });
  await page.getByLabel("Group by").selectOption("lambda");
  const heads = page.locator(".runs .group button");
  await eventually("a heading for each value", async () => (await heads.count()) === 8);
  assert.deepEqual((await heads.allInnerTexts()).slice(0, 2), ["λ = 0.01", "λ = 0.05"]);
  await heads.first().press("Enter");
  await eventually("it closes", async () => (await heads.first().getAttribute("aria-expanded")) === "false");
  await page.getByLabel("Group by").selectOption("");
  const values = () => page.locator(".runs tr[data-run] .lk").evaluateAll((all) => all.map((one) => Number(one.firstChild.data)));
  const button = page.locator(".runs .sort", { hasText: "Leakage" });
  await button.click();
  await eventually("ascending", async () => { const all = await values(); return all.join() === all.toSorted((a, b) => a - b).join() || all.join(); });
  await button.click();
  await eventually("descending", async () => { const all = await values(); return all.join() === all.toSorted((a, b) => b - a).join() || all.join(); });
  assert.equal(await page.locator("th[aria-sort=descending]").count(), 1);
  await page.reload();
  await settled(page);
  assert.equal(await page.locator("th[aria-sort=descending]").innerText(), "Leakage\n↓");
  assert.deepEqual(complaints, []);
});

test("curves are means over the runs of a group, with their interval over runs", async (t) => {
  const { page, complaints } = await scene(t, { runs: 24, hash: "#/?group=lambda" });
  await page.getByRole("button", { name: "Means by λ" }).click();
  const found = () => lines(page, "ctl_conditional");
  await eventually("a curve for each value", async () => (await found()).map(({ name }) => name).join() === ["0.01", "0.05", "0.1", "0.5", "1", "2", "5", "10"]
    .map((value) => `λ = ${value}`).join() || (await found()).map(({ name }) => name).join());
  assert.match(await page.locator(".key").innerText(), /λ = 0\.01, 3 runs/);
  await eventually("the mean of all three", async () => {
    const tip = await pointAt(page, "ctl_conditional", 0.9);
    return /λ = 0\.01\s+0\.\d+ ± 0\.\d+/.test(tip) || tip;
  });
  await page.reload();
  await settled(page);
  await eventually("the same after a reload", async () => (await found()).length === 8);
  await page.getByLabel("Group by").selectOption("");
  await eventually("runs again", async () => (await found()).every(({ name }) => name.startsWith("cub/")) && (await found()).length === 5);
  assert.deepEqual(complaints, []);
});

test("a project scopes the list, the headline, the charts and the comparison, and follows to other pages", async (t) => {
  const { page, complaints } = await scene(t, { runs: 6, rename: (run) => { run.labels.project = run.lambda > 1 ? "birds" : "x rays"; } });
  const listed = () => page.locator(".runs tr[data-run]").count();
  await eventually("all runs", async () => (await listed()) === 6);
  assert.equal(await page.getByLabel("Group by").locator("option", { hasText: "project" }).count(), 0);
  await page.getByLabel("Project").selectOption("x rays");
  await eventually("those of the project", async () => (await listed()) < 6 && (await listed()) > 0);
  const inProject = await listed();
  await eventually("the headline counts them", async () => (await page.locator("h1").innerText()).includes(`of ${inProject} runs`) || page.locator("h1").innerText());
  await page.locator("nav a", { hasText: "Compare" }).click();
  await eventually("the comparison is of the project", async () => (await page.getByLabel("Project").inputValue()) === "x rays");
  await page.goto(page.url().replace(/#.*/, "#/?project=gone"));
  await eventually("an unknown project is named", async () => (await page.locator(".runs").innerText()).includes("No run is in project “gone”"));
  await page.getByRole("button", { name: "Show all runs" }).click();
  await eventually("all again", async () => (await listed()) === 6);
  assert.deepEqual(complaints, []);
});

test("runs are pinned and hidden, in this browser alone", async (t) => {
  const { page } = await scene(t, { runs: 9 });
  const first = () => page.locator(".runs tr[data-run]").first().getAttribute("data-run");
  const last = await page.locator(".runs tr[data-run]").last().getAttribute("data-run");
  await page.locator(`.runs a[data-key="open ${last}"]`).focus();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await eventually("on top", async () => await first() === last || first());
  await page.locator(`.runs a[data-key="open ${last}"]`).focus();
  await page.locator(`.runs button[data-key="hide ${last}"]`).focus();
  await page.keyboard.press("Enter");
  await eventually("gone", async () => await first() !== last);
  await page.reload();
  await settled(page);
  assert.notEqual(await first(), last);
  await page.getByRole("button", { name: "1 hidden" }).click();
  await eventually("listed again", async () => await first() === last);
});

test("Back returns to the place in the list, also after a reload", async (t) => {
  const { page } = await scene(t, { runs: 60 });
  await page.mouse.move(400, 500);
  await page.mouse.wheel(0, 900);
  await eventually("scrolled", () => page.evaluate(() => history.state?.y === 900 || history.state?.y));
  const link = page.locator(".runs .name a").nth(30);
  const run = await link.innerText();
  await link.click();
  await eventually("its page, from the top", async () => (await page.title()).includes(run) && await page.evaluate(() => scrollY === 0));
  await page.goBack();
  await eventually("the place", () => page.evaluate(() => Math.abs(scrollY - 900) < 3 || scrollY));
  await page.reload();
  // A line more above the list moves the page, and the list with it.
  await eventually("after a reload", () => page.evaluate(() => Math.abs(scrollY - 900) < 40 || scrollY));
  await page.goForward();
  await eventually("forward", async () => {
    const found = [(await page.title()).includes(run), await page.evaluate(() => scrollY)].join();
    return found === "true,0" || found;
  });
});

test("colours stay as runs come and go", async (t) => {
  const { page, mock } = await scene(t, { runs: 9 });
  const looks = async () => Object.fromEntries((await lines(page, "ctl")).map(({ name, color, look }) => [name, `${color}/${look}`]));
  const before = await looks();
  assert.equal(new Set(Object.values(before)).size, Object.keys(before).length, "each has its own");
  mock.runs.push({ ...world()[1], name: "third", started: 1_790_100_000 });
  mock.send("run", { run: "third" });
  await eventually("the new one", async () => "third" in await looks());
  for (const [run, look] of Object.entries(await looks())) if (run in before) assert.equal(look, before[run], run);
  await page.locator(`.sw[data-key="show ${Object.keys(before)[0]}"]`).click();
  await page.locator(`.sw[data-key="show ${Object.keys(before)[0]}"]`).click();
  await eventually("back with its own look", async () => (await looks())[Object.keys(before)[0]] === before[Object.keys(before)[0]]);
});

test("runs whose task is a number are listed, drawn and searched by its own scores", async (t) => {
  const { page, complaints } = await scene(t);
  const instead = { ctl_conditional: "ctl_conditional_r2", task_accuracy: "task_r2" };
  const renamed = (scores) => Object.fromEntries(Object.entries(scores).map(([id, one]) => [instead[id] ?? id, one]));
  await page.route("**/api/v1/overview*", async (route) => {
    const answer = await route.fetch();
    const { runs, ...rest } = await answer.json();
    await route.fulfill({ response: answer, json: { ...rest, runs: runs.map((row) => ({ ...row, scores: renamed(row.scores) })) } });
  });
  await page.route("**/api/v1/curves*", async (route) => {
    const url = new URL(route.request().url());
    const asked = url.searchParams.get("scores").split(",");
    url.searchParams.set("scores", [...asked, ...Object.keys(instead)].join());
    const answer = await route.fetch({ url: url.href });
    const { scores, ...rest } = await answer.json();
    await route.fulfill({ response: answer, json: { ...rest, scores: renamed(scores) } });
  });
  await page.reload();
  // Interventions are not logged.
  await eventually("their charts", async () => {
    const found = (await charts(page)).slice(0, 3).join();
    return found === "ctl_conditional_r2,task_r2,concept_accuracy" || found;
  });
  const leaky = page.locator(".runs tr[data-run]", { hasText: LEAKY });
  assert.match(await leaky.locator("td.lk").innerText(), /^0\.\d\d±0\.\d\d$/);
  assert.match(await leaky.locator("td.num").nth(1).innerText(), /^0\.\d{3}$/);
  await page.locator("#search").fill("leakage>0.2");
  await eventually("the one that leaks", async () => (await page.locator(".runs tr[data-run]").count()) === 1);
  await page.locator("#search").fill("");
  await page.getByRole("button", { name: "Leakage", exact: true }).click();
  await eventually("an order by it", async () => (await page.locator(".runs tr[data-run]").count()) === 2);
  assert.deepEqual(complaints, []);
});

test("charts of runs of classes ask for nothing that runs of numbers have", async (t) => {
  const { page } = await scene(t);
  await page.route("**/api/v1/overview*", async (route) => {
    const answer = await route.fetch();
    const { runs, ...rest } = await answer.json();
    for (const { name, scores } of runs) if (name === LEAKY) scores.task_r2 = scores.task_accuracy;
    await route.fulfill({ response: answer, json: { ...rest, runs } });
  });
  await page.goto(`${page.url().replace(/#.*/, "")}#/?show=${SOUND}`);
  await page.reload();
  const missing = page.locator(".missing").first();
  await eventually("what is missing", async () => (await missing.innerText()).startsWith("Intervention drop: not sent.") || missing.innerText());
  assert.doesNotMatch(await missing.innerText(), /R²/);
});

test("a hundred runs are listed, and all their curves drawn", async (t) => {
  const { page, complaints } = await scene(t, { runs: 100, points: 60 });
  assert.match(await page.locator("h1").innerText(), /^\d+ of 100 runs leak$/);
  assert.equal(await page.locator(".runs").getAttribute("aria-rowcount"), "101");
  await page.getByLabel("Show all listed runs in the charts").check();
  await eventually("a hundred curves", async () => { const found = Object.keys(await drawn(page)).length; return found === 100 || found; });
  assert.match(await page.locator(".key").innerText(), /100 runs: point at a curve/);
  assert.deepEqual(complaints, []);
});

test("axes, smoothing and the stretch are kept in the address", async (t) => {
  const { page } = await scene(t);
  await page.getByLabel("Horizontal axis", { exact: true }).selectOption("step");
  const plot = page.locator('.chart[data-score="ctl"] .plot');
  await eventually("it is drawn", async () => /^step/.test(await pointAt(page, "ctl", 0.2)));
  const box = await plot.boundingBox();
  await page.mouse.move(box.x + 120, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + 220, box.y + 60);
  await page.mouse.up();
  await eventually("the stretch", async () => /zoom=\d/.test(page.url()) || page.url());
  await page.locator(".aside summary", { hasText: "Axes" }).click();
  await page.getByLabel("Logarithmic values").check();
  await page.getByLabel("Smooth", { exact: false }).first().fill("0.5");
  const across = () => page.evaluate(() => {
    const { across, down, spec } = document.querySelector('.chart[data-score="ctl_conditional"] .plot').chart;
    return [across.from > 50, down.log, spec.smooth, spec.along].join();
  });
  await eventually("all charts follow", async () => await across() === "true,true,0.5,step" || across());
  await page.reload();
  await settled(page);
  await eventually("after a reload", async () => await across() === "true,true,0.5,step" || across());
  await page.getByRole("button", { name: "Show all" }).click();
  await eventually("everything again", async () => !page.url().includes("zoom="));
});

test("every chart is saved as CSV, PNG and SVG, and lists its numbers", async (t) => {
  const { page, complaints } = await scene(t);
  const chart = page.locator('.chart[data-score="ctl"]');
  const saved = async (what) => {
    await chart.scrollIntoViewIfNeeded();
    await chart.locator("summary").click();
    const [download] = await Promise.all([page.waitForEvent("download"), chart.getByRole("button", { name: `Save as ${what}` }).click()]);
    return { name: download.suggestedFilename(), bytes: await readFile(await download.path()) };
  };
  const curve = await saved("CSV");
  assert.equal(curve.name, "ctl-val.csv");
  const rows = curve.bytes.toString().trimEnd().split("\n");
  assert.match(rows[0], /^run,split,score,step,epoch,time,value,standard_error/);
  assert.equal(rows.length, 1 + 2 * 31);
  const picture = await saved("PNG");
  assert.ok(picture.name.endsWith(".png") && picture.bytes.subarray(1, 4).toString() === "PNG" && picture.bytes.length > 5000, `${picture.bytes.length} bytes`);
  assert.equal(picture.bytes.readUInt32BE(16), 1440, "two pixels in each direction");
  const drawing = await saved("SVG");
  const shapes = await page.evaluate((text) => {
    const svg = new DOMParser().parseFromString(text, "image/svg+xml");
    return { fault: svg.querySelector("parsererror")?.textContent ?? null, paths: svg.querySelectorAll("path").length,
      texts: [...svg.querySelectorAll("text")].map((one) => one.textContent) };
  }, drawing.bytes.toString());
  assert.equal(shapes.fault, null);
  assert.ok(shapes.paths > 8, `${shapes.paths} paths`);
  assert.deepEqual(shapes.texts.slice(0, 2), ["CTL, published", "share, 0 to 1, with 95 % intervals"]);
  for (const run of [LEAKY, SOUND]) assert.ok(shapes.texts.includes(run), shapes.texts.join());
  await chart.locator("summary").click();
  await chart.getByRole("button", { name: "Show the numbers" }).click();
  assert.ok((await chart.locator(".twin tbody tr").count()) >= 60);
  assert.deepEqual(complaints, []);
});

test("a chart fills the screen, with the box beside the pointer", async (t) => {
  const { page, complaints } = await scene(t);
  const chart = page.locator('.chart[data-score="ctl_conditional"]');
  await chart.locator("summary").click();
  await chart.getByRole("button", { name: "Full screen" }).click();
  await eventually("it is large", async () => { const { height } = await chart.locator(".plot").boundingBox(); return height > 500 || height; });
  await eventually("painted in that size", () => chart.locator(".plot").evaluate(({ chart }) => chart.plot.height > 500));
  assert.match(await pointAt(page, "ctl_conditional", 0.5), /^epoch 1\d\n/);
  assert.ok(await page.evaluate(() => document.fullscreenElement.contains(document.getElementById("tip"))));
  await page.evaluate(() => document.exitFullscreen());
  await eventually("small again", async () => (await chart.locator(".plot").boundingBox()).height < 300);
  assert.match(await pointAt(page, "task_accuracy", 0.5), /^epoch 1\d\n/);
  assert.deepEqual(complaints, []);
});

test("a chart is read by keyboard", async (t) => {
  const { page } = await scene(t);
  await page.locator('.chart[data-score="ctl_conditional"] .plot').focus();
  await page.keyboard.press("End");
  const end = await page.locator("#tip").innerText();
  await page.keyboard.press("ArrowLeft");
  const before = await page.locator("#tip").innerText();
  assert.match(end, /^epoch 30\n/);
  assert.match(await page.locator("#told").textContent(), /^epoch 29\. tabulartoy-lambda-0\.01 0\.\d+ ± 0\.\d+\. tabulartoy-lambda-5 0\.\d+/);
  assert.match(before, /^epoch 29\n/);
});

test("after a restart of the sidecar the page is live again and has what it missed", async (t) => {
  const { page, mock, complaints } = await scene(t);
  const port = Number(new URL(mock.url).port);
  const state = () => page.locator(".connection").getAttribute("data-state");
  const before = (await drawn(page))[SOUND];
  assert.equal(await state(), "live");
  await mock.close();
  await eventually("it says so", async () => (await state()) === "reconnecting");
  assert.match(await page.locator(".note").innerText(), /No connection to the sidecar since \d\d:\d\d:\d\d\. Training is not affected/);
  assert.equal((await drawn(page))[SOUND], before, "the curves stay");
  assert.match(await row(page, LEAKY).innerText(), /As of epoch 29: leaking/);
  const again = await serve({ port, runs: world({ points: 40 }) });
  t.after(() => again.close());
  // The page tries by itself, too, and then the button is gone.
  await page.evaluate(() => [...document.querySelectorAll("button")].find((one) => one.textContent === "Try now")?.click());
  await eventually("it is back", async () => (await state()) === "live");
  await eventually("ten more points", async () => { const now = (await drawn(page))[SOUND]; return now === before + 10 || now; });
  assert.equal(await page.locator(".note").count(), 0);
  assert.deepEqual(complaints.filter((line) => !line.includes("ERR_")), []);
});

test("a page that opens asks for everything once", async (t) => {
  const { asked } = await scene(t);
  for (const path of ["catalogue", "runs?", "alerts", "overview?", "events"]) {
    assert.equal(asked.filter((url) => url.includes(`/api/v1/${path}`)).length, 1, path);
  }
});

test("grey lines stand where the runs will be before any script has come", async (t) => {
  const { page } = await scene(t);
  let go = () => {};
  const held = new Promise((done) => { go = done; });
  await page.route("**/*.js", (route) => held.then(() => route.continue()));
  await page.reload({ waitUntil: "commit" });
  await page.locator(".sk-row").first().waitFor();
  assert.equal(await page.getByRole("navigation", { name: "Pages" }).isVisible(), true);
  go();
  await settled(page);
  assert.equal(await page.locator(".sk-row").count(), 0);
});

test("what fails says so, with a way on", async (t) => {
  const { page, mock } = await scene(t, { faults: ["/curves"] });
  assert.match(await page.locator(".note.bad").innerText(), /The curves of 2 runs could not be loaded\. Verdicts are complete\.\s+history: is being compacted/);
  mock.faults.length = 0;
  await page.getByRole("button", { name: "Try again" }).click();
  await eventually("the curves", async () => (await drawn(page))[SOUND] > 20);
  assert.equal(await page.locator(".note").count(), 0);
});

test("new runs appear as they start, silent ones are told from live ones", async (t) => {
  const { page, mock } = await scene(t, { rename: (run) => { if (run.lambda === 5) run.counts = null; } });
  assert.equal(await page.locator(".connection").innerText(), "1 training");
  assert.equal(await row(page, SOUND).locator(".live").count(), 0);
  mock.runs.push({ ...world()[1], name: "only train", started: 1_790_100_000, split: "train" });
  mock.send("run", { run: "only train" });
  await eventually("its row", async () => /Can’t tell: no evaluation of val/.test(await row(page, "only train").innerText()));
});

test("hundreds of runs come in pages, and a run that changes comes alone", async (t) => {
  const { page, mock, asked } = await scene(t, { runs: 450, points: 4 });
  await eventually("all are read", async () => (await page.locator(".tabs button").first().innerText()) === "All\n450"
    || page.locator(".tabs button").first().innerText());
  const lists = () => asked.filter((url) => /\/runs\?/.test(url));
  assert.ok(new Set(lists()).size === 3 && lists().every((url) => url.includes("limit=200")), lists().join());
  const before = lists().length;
  await eventually("their rows", async () => new Set(asked.filter((url) => url.includes("/overview")).map((url) =>
    new URL(url).searchParams.get("after"))).size === 3);
  mock.runs[3].title = "A title from the command line";
  mock.send("run", { run: mock.runs[3].name });
  await page.locator("#search").fill("command line");
  await eventually("the titled run", async () => (await page.locator(".runs tr[data-run]").count()) === 1);
  assert.match(await row(page, mock.runs[3].name).innerText(), /A title from the command line/);
  const [gone] = mock.runs.splice(5, 1);
  await page.locator("#search").fill("");
  mock.send("run", { run: gone.name });
  await eventually("one less", async () => (await page.locator(".tabs button").first().innerText()) === "All\n449");
  assert.equal(lists().length, before);
});

test("without runs the page shows how to connect", async (t) => {
  const mock = await serve({ runs: [] });
  const { page, complaints, close } = await open(mock.url);
  t.after(async () => { await close(); await mock.close(); });
  assert.match(await page.locator("#empty").innerText(),
    /Waiting for a first run.*conceptwatch\.init\("my-run".*run\.evaluation\("val", step=.*p\.log\(concept_activations=/s);
  mock.runs.push(...world());
  for (const { name } of mock.runs) mock.send("run", { run: name });
  await eventually("it goes by itself", async () => (await page.locator("#empty").count()) === 0 && (await page.locator(".runs tr[data-run]").count()) === 2);
  assert.deepEqual(complaints, []);
});

test("the facts of the sidecar have a page of their own", async (t) => {
  const { page, complaints } = await scene(t);
  await page.locator("#status").click();
  const text = await page.locator(".sidecar").innerText();
  for (const part of ["Scoring delay", "0.2 s", "Rows not accepted", "38 MB of 512 MB", "cores on average, cpu_share 0.5", "3 s ago",
    "interconcept leakage is high"]) assert.ok(text.includes(part), `${part} in ${text}`);
  assert.deepEqual(complaints, []);
});

test("an idle sidecar says how old its newest evaluation is, an empty one that there is none", async (t) => {
  for (const [options, text] of [[{ rename: (run) => { Object.assign(run, { finished: true, started: 1_700_000_000 }); } }, /Newest evaluation\s+\d+ d ago/],
    [{ rename: (run) => { run.unevaluated = true; } }, /Newest evaluation\s+none yet/]]) {
    const { page, mock } = await scene(t, { hash: "#/sidecar", ...options });
    await page.route("**/api/v1/status", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...await response.json(), staleness_seconds: 0, cpu_share: 16 } });
    });
    await page.goto(`${mock.url}/#/sidecar`);
    await page.reload();
    await eventually("its age", async () => text.test(await page.locator(".sidecar").innerText()) || page.locator(".facts").innerText());
    assert.doesNotMatch(await page.locator(".facts").innerText(), /1600 %/);
  }
});

test("a history that cannot be written is seen on every page, and why among the facts", async (t) => {
  const { page, mock } = await scene(t);
  const why = "history /curves/history.sqlite3: was removed while in use";
  let unwritable = true;
  await page.route("**/api/v1/status", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...await response.json(), ...(unwritable ? { unwritable: { reason: "other", why } } : {}) } });
  });
  const corner = page.locator("#status");
  await page.reload();
  await eventually("the corner", async () => await corner.innerText() === "not storing" || corner.innerText());
  await page.goto(`${mock.url}/#/sidecar`);
  await eventually("the facts", async () => (await page.locator(".facts").innerText()).includes(why) || page.locator(".facts").innerText());
  unwritable = false;
  await page.reload();
  await eventually("as before", async () => /training|idle/.test(await corner.innerText()) || corner.innerText());
  assert.doesNotMatch(await page.locator(".facts").innerText(), /stored/);
});

test("where all runs are hidden the page says so", async (t) => {
  const { page } = await scene(t);
  for (const run of [LEAKY, SOUND]) {
    await row(page, run).hover();
    await page.locator(`.runs button[data-key="hide ${run}"]`).click();
  }
  await eventually("what is hidden", async () => /All 2 runs are hidden/.test(await page.locator(".runs").innerText()) || page.locator(".runs").innerText());
  assert.equal(await page.locator("h1").innerText(), "No run is listed");
  await page.getByRole("button", { name: "List hidden runs" }).click();
  await eventually("both", async () => (await page.locator(".runs tr[data-run]").count()) === 2);
});

test("the tab's title follows the verdict of the shown run, and who asks is notified while the page is out of sight", async (t) => {
  const { page, mock } = await scene(t, { hash: `#/run/${SOUND}` });
  await page.addInitScript(() => {
    globalThis.told = [];
    globalThis.Notification = class {
      static permission = "default";
      static requestPermission = async () => (globalThis.Notification.permission = "granted");
      constructor(title, { body }) { globalThis.told.push(`${title}: ${body}`); }
    };
    Object.defineProperty(document, "hidden", { get: () => globalThis.away ?? false });
  });
  await page.reload();
  await settled(page);
  assert.equal(await page.title(), `Sound · ${SOUND} · conceptwatch`);
  await page.getByRole("button", { name: "Notify me of changed verdicts" }).click();
  await eventually("asked for", async () => (await page.locator("#notify").getAttribute("aria-pressed")) === "true");
  const told = () => page.evaluate(() => globalThis.told.join());
  const judge = async (state, title) => {
    mock.runs[0].state = state;
    mock.grow(SOUND);
    await eventually(title, async () => (await page.title()).startsWith(title) || page.title());
  };
  await judge("too_early", "Too early · ");
  assert.equal(await told(), "");
  await page.evaluate(() => { globalThis.away = true; });
  await judge("possibly_leaking", "Possibly · ");
  assert.equal(await told(), `conceptwatch: ${SOUND}: Possibly leaking`);
  await page.locator("#notify").click();
  await judge("sound", "Sound · ");
  assert.equal(await told(), `conceptwatch: ${SOUND}: Possibly leaking`);
});

test("the running sidecar's page shows its runs", { skip: LIVE ? false : "CONCEPTWATCH_URL is not set" }, async (t) => {
  const { page, complaints, close } = await open(LIVE.replace(/\/$/, ""));
  t.after(close);
  const expected = JSON.parse(process.env.CONCEPTWATCH_RUNS ?? "null");
  for (const score of ["ctl", "icl"]) {
    await eventually(`curves of more than two points in ${score}`, async () => {
      const counts = await drawn(page, score);
      const curves = Object.keys(counts).filter((run) => counts[run] > 2).sort();
      return (expected ? curves.join() === expected.sort().join() : curves.length >= 2) || JSON.stringify(counts);
    });
  }
  assert.ok((await page.locator(".runs tr[data-run]").count()) >= 2);
  await page.locator(".runs .name a").first().click();
  await eventually("a verdict", async () => (await page.locator(".verdict h1").innerText()).length > 3);
  await eventually("the concepts", async () => (await page.locator("#concepts tbody tr").count()) > 0);
  assert.deepEqual(complaints, []);
});
