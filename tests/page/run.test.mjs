// Tests of the page of one run in a real Chromium.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { settled } from "./chromium.mjs";
import { alertsOf, serve, world } from "./mock.mjs";
import { CUB, charts, eventually, lines, pointAt, runHash, scene, withBrowser } from "./scene.mjs";

withBrowser();

const LEAKY = "tabulartoy-lambda-0.01";
const SOUND = "tabulartoy-lambda-5";
const open = (t, options = {}) => scene(t, { hash: runHash(options.run ?? LEAKY, options.query), intervened: [0, 1], ...options });

test("a run opens with its verdict, the numbers behind it and what to do", async (t) => {
  const { page, complaints } = await open(t);
  assert.match(await page.locator(".verdict h1").innerText(), /^Leaking since epoch \d+, through 3 of 3 concepts$/);
  const lead = await page.locator(".verdict .lead").innerText();
  assert.match(lead, /^Leakage to the task is 0\.\d\d ± 0\.\d\d; the limit is 0\.16\. /);
  assert.match(lead, /With every concept set to its true value, balanced task accuracy falls by 0\.\d{3} ± 0\.\d{3}\./);
  assert.match(lead, /Above the limit: c\d/);
  const todo = await page.locator(".todo li").allInnerTexts();
  assert.match(todo[0],
    /^Stop this run\s+Interconcept leakage is high: unclipped interconcept leakage \(icl_excess\) is 0\.0654, above 0\.05, for 2 evaluations\./);
  assert.match(todo[1], /^Raise the weight of the concept loss\s+Concepts are poorly learnt\./);
  assert.match(await page.locator(".checked").innerText(), /Nothing found in: sample size\. Why Not checked: alignment leakage\. What is missing/);
  await page.locator(".todo .tipped", { hasText: "Numbers" }).hover();
  assert.match(await page.locator("#tip").innerText(), /Concept accuracy\s+0\.610 ± 0\.008\s+limit 0\.9/);
  assert.match(await page.locator(".facts-line").innerText(),
    /± is a 95 % interval · val, epoch 29, 2\s000 rows, .* ago · last sound evaluation: epoch \d+, step \d+/);
  assert.deepEqual(complaints, []);
});

test("a task and concepts that are numbers have R² where others have accuracies", async (t) => {
  const { page } = await open(t);
  await page.route("**/api/v1/point*", async (route) => {
    const answer = await route.fetch();
    const { scores, ...point } = await answer.json();
    const no = { undefined: "the task labels are not classes" };
    const value = (value) => ({ value, standard_error: 0.01 });
    const r2 = { ctl_conditional_r2: { ...value(0.31), per_concept: [0.6, 0.3, 0.03] }, task_r2: value(0.91), concept_r2: value(0.84), alignment: { value: 1, curve: [[0, 0], [1, 1]] } };
    // An interval that reaches the limit says neither that interventions cost anything nor that they do not.
    const intervention_drop = { ...scores.intervention_drop, value: 0.05 };
    await route.fulfill({ response: answer, json: { ...point, scores: { ...scores, task_accuracy: no, intervention_drop, ...r2 } } });
  });
  await page.route("**/api/v1/curves*", async (route) => {
    const answer = await route.fetch();
    const { scores, ...columns } = await answer.json();
    const { value, ...column } = scores.concept_accuracy;
    const no = { ...column, value: value.map(() => null), undefined: { "the task labels are not classes": value.map((_, i) => i) } };
    const concept_r2 = { ...column, value: value.map((one) => one - 9) };
    await route.fulfill({ response: answer, json: { ...columns, scores: { ...scores, task_accuracy: no, concept_r2 } } });
  });
  await page.reload();
  const stat = (score) => page.locator(`.stat[data-score="${score}"]`);
  await eventually("its R²", async () => /^R² of the task\s+0\.910 ± 0\.020/.test(await stat("task_r2").innerText()));
  assert.match(await stat("ctl_conditional_r2").innerText(), /^Leakage to the task\s+0\.31 ± 0\.02/);
  // An R² far below 0 does not flatten the accuracies.
  await eventually("its R² in a chart", async () => (await charts(page)).includes("r2"));
  assert.deepEqual((await lines(page, "r2")).map(({ name }) => name), ["concepts"]);
  assert.deepEqual((await lines(page, "accuracy")).map(({ name }) => name), ["concepts"]);
  // Concepts of classes beside those that are numbers keep their accuracy.
  assert.equal(await stat("concept_accuracy").count(), 1);
  assert.deepEqual([await stat("task_accuracy").count(), await stat("ctl_conditional").count()], [0, 0]);
  assert.match(await page.locator(".verdict .lead").innerText(), /With every concept set to its true value, the R² of the task falls by 0\.\d{3}/);
  const behind = page.getByRole("region", { name: "Curve behind a score" });
  await eventually("its R² under interventions", async () => /R² of the task\s+over the share/.test(await behind.innerText()));
  assert.match(await behind.innerText(), /More rows would tell whether setting concepts/);
  assert.equal(await page.locator('[data-score="behind-alignment"]').count(), 0, "columns are matched to themselves");
  const concepts = page.getByRole("region", { name: "Concepts", exact: true });
  await eventually("of its concepts", async () => /Leakage to the task of each concept; mean 0\.31 ± 0\.02\./.test(await concepts.innerText()));
  const choices = await concepts.getByLabel("Score of the concepts").locator("option").allInnerTexts();
  assert.equal(choices.filter((one) => one === "Leakage to the task").length, 1, choices.join());
});

test("a score that is not sent has no chart, and says what to log", async (t) => {
  const { page } = await open(t);
  const none = new Set(["ctl", "ctl_excess", "ctl_conditional", "task_accuracy", "intervention_drop"]);
  await page.route(/api\/v1\/(point|overview|curves|series)/, async (route) => {
    const answer = await route.fetch();
    const bare = (_, value) => (value && typeof value === "object" && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).filter(([key]) => !none.has(key))) : value);
    await route.fulfill({ response: answer, json: JSON.parse(JSON.stringify(await answer.json(), bare)) });
  });
  await page.reload();
  await eventually("what is missing", async () => /Leakage to the task: not sent\. Log task_labels\./
    .test(await page.getByRole("region", { name: "Curves", exact: true }).innerText()));
  await eventually("its published scores", async () => /CTL, published: not sent\./
    .test(await page.getByRole("region", { name: "Published scores" }).innerText()));
  await eventually("the charts of others", async () => { const all = (await charts(page)).join(); return /icl_conditional.*icl/.test(all) || all; });
  assert.ok(!(await charts(page)).some((one) => none.has(one)), (await charts(page)).join());
});

test("the advice to stop survives a sidecar that is killed and restarted", async (t) => {
  const { page, mock } = await open(t);
  const todo = page.locator(".todo");
  await eventually("the advice", async () => /^Stop this run/.test(await todo.innerText()));
  // The question after a new evaluation finds the sidecar dead, and its successor has nothing newer.
  await page.route("**/api/v1/verdict*", (route) => route.abort());
  const failed = page.waitForEvent("requestfailed", (request) => request.url().includes("/verdict"));
  mock.grow(LEAKY);
  await failed;
  const { port } = new URL(mock.url);
  const points = mock.runs.find(({ name }) => name === LEAKY).points;
  await mock.close();
  await eventually("no connection", async () => (await page.locator(".connection").getAttribute("data-state")) === "reconnecting");
  assert.match(await todo.innerText(), /^Stop this run/);
  await page.unroute("**/api/v1/verdict*");
  const again = await serve({ port: Number(port), runs: world({ intervened: [0, 1], points }) });
  t.after(() => again.close());
  const asked = page.waitForResponse((response) => response.url().includes("/verdict"));
  await page.getByRole("button", { name: "Try now" }).click();
  await asked;
  await eventually("it is back", async () => (await page.locator(".connection").getAttribute("data-state")) === "live");
  assert.match(await todo.innerText(), /^Stop this run/);
});

test("the alerts of a run that a restarted sidecar takes up again appear by themselves", async (t) => {
  const { page, mock } = await open(t);
  const log = page.getByRole("region", { name: "Alerts" }).locator(".log");
  await eventually("it fires", async () => /Interconcept leakage is high/i.test(await log.innerText()));
  const { port } = new URL(mock.url);
  await mock.close();
  await eventually("no connection", async () => (await page.locator(".connection").getAttribute("data-state")) === "reconnecting");
  // Until the job has come back, the sidecar has no states of its alerts.
  const runs = world({ intervened: [0, 1] });
  const alerts = { ...alertsOf(runs), standings: [], changes: [] };
  const again = await serve({ port: Number(port), runs, alerts });
  t.after(() => again.close());
  await page.evaluate(() => [...document.querySelectorAll("button")].find((one) => one.textContent === "Try now")?.click());
  await eventually("none", async () => !/Interconcept leakage is high/i.test(await log.innerText()));
  Object.assign(alerts, alertsOf(runs));
  again.send("run", { run: LEAKY });
  await eventually("it fires still", async () => /Interconcept leakage is high/i.test(await log.innerText()));
  assert.match(await page.locator(".todo").innerText(), /^Stop this run/);
});

test("an event that the snapshot has in it changes nothing", async (t) => {
  const { page, mock } = await open(t);
  const log = page.getByRole("region", { name: "Alerts" }).locator(".log");
  const [change] = alertsOf(mock.runs).changes;
  mock.send("alert", { ...change, rule: "before the snapshot", step: 560 }, 0);
  mock.send("alert", { ...change, rule: "after the snapshot", step: 580 });
  await eventually("the newer", async () => /after the snapshot/i.test(await log.innerText()));
  assert.doesNotMatch(await log.innerText(), /before the snapshot/i);
});

test("an alert that changes while a snapshot is in flight is not lost", async (t) => {
  const { page, mock } = await open(t);
  let release = () => {};
  const held = new Promise((go) => { release = go; });
  let caught = () => {};
  const fetched = new Promise((go) => { caught = go; });
  await page.route("**/api/v1/alerts", async (route) => {
    const response = await route.fetch();
    caught();
    await held;
    await route.fulfill({ response });
  });
  mock.send("lost", { count: 3 });
  await fetched;
  const [change] = alertsOf(mock.runs).changes;
  mock.send("alert", { ...change, rule: "meanwhile", step: 580 });
  await eventually("it arrives", async () => /meanwhile/.test(await page.getByRole("region", { name: "Alerts" }).innerText()));
  release();
  await page.waitForTimeout(600);
  assert.equal(await page.getByRole("region", { name: "Alerts" }).locator(".log li", { hasText: "meanwhile" }).count(), 1);
});

test("a sound run says so, and what was checked", async (t) => {
  const { page } = await open(t, { run: SOUND });
  assert.equal(await page.locator(".verdict h1").innerText(), "Sound");
  await eventually("nothing to do", async () => /^Nothing to do\s+No check finds a fault/.test((await page.locator(".todo").innerText())));
});

test("other verdicts say why", async (t) => {
  const of = "the interval of leakage to the task (ctl_conditional)";
  for (const [state, head, todo] of [["cannot_tell", `Can’t tell: 212 rows are too few: ${of} reaches the limit`, /./], ["too_early", "Too early to tell", /^Wait/],
    ["possibly_leaking", `Possibly leaking: ${of} reaches the limit`, /^Log more rows/]]) {
    const { page } = await open(t, { run: SOUND, rename: (run) => { run.state = state; } });
    assert.equal(await page.locator(".verdict h1").innerText(), head);
    await eventually("what to do", async () => todo.test(await page.locator(".todo").innerText()) || page.locator(".todo").innerText());
  }
});

test("a run that leaks never has nothing to do", async (t) => {
  const { page } = await open(t, { run: SOUND, rename: (run) => { run.state = "possibly_leaking"; } });
  await page.route("**/api/v1/verdict*", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...await response.json(), actions: [] } });
  });
  await page.reload();
  await eventually("the reason", async () =>
    (await page.locator(".todo").innerText()).trim() === "The interval of leakage to the task (ctl_conditional) reaches the limit.");
});

test("five numbers stand on a scale with their interval and limit", async (t) => {
  const { page } = await open(t);
  const stats = page.locator(".stats").first().locator(".stat");
  assert.deepEqual(await stats.locator("h3").allInnerTexts(),
    ["Leakage to the task", "Leakage between concepts", "Intervention drop", "Task accuracy", "Concept accuracy"]);
  assert.match(await stats.first().innerText(), /0\.\d\d ± 0\.\d\d\s+limit 0\.16, above it/);
  await page.getByRole("button", { name: "Intervention drop" }).first().focus();
  assert.match(await page.locator("#tip").innerText(),
    /Balanced task accuracy, the mean over classes, lost when every concept is set to its true value.*intervention_drop/s);
});

test("what is not logged or undefined says so in words", async (t) => {
  const { page } = await scene(t, { hash: runHash(LEAKY), constant: 1 });
  assert.match(await page.locator('.stat[data-score="intervention_drop"]').innerText(), /Not sent\s+Pass head= to init/);
});

test("evaluations that wait, were skipped or refused, and what was not sent, are four states with their numbers", async (t) => {
  const counts = { rows_received: 24000, rows_duplicate: 0, rows_dropped: 0, passes_unsettled: 0 };
  const states = {
    waiting: { counts: { ...counts, passes_unsettled: 12 }, finished: true },
    skipped: { counts, unscored: [20, 40, 60] },
    refused: { counts: { ...counts, rows_received: 0, rows_dropped: 2000 } },
    none: { counts },
    ended: { counts, finished: true },
  };
  const said = {
    waiting: /^Leakage to the task\s+Waiting\s+12 evaluations wait to be scored\./,
    skipped: /Skipped\s+3 evaluations: a newer evaluation replaced it before it was scored\./,
    refused: /Refused\s+2.000 rows of val were not accepted; the job’s log says why\./,
    none: /Not sent\s+Log concept_activations, concept_labels and task_labels\./,
    ended: /Not sent/,
  };
  const { page, mock } = await scene(t, { runs: 5, hash: "#/sidecar", rename: (run) => {
    const name = Object.keys(states)[run.labels.seed];
    Object.assign(run, { name, unevaluated: true, finished: false }, states[name]);
  } });
  for (const [name, text] of Object.entries(said)) {
    await page.goto(`${mock.url}/${runHash(name)}`);
    const stat = page.locator('.stat[data-score="ctl_conditional"]');
    await eventually(name, async () => text.test(await stat.innerText()) || stat.innerText());
  }
  await page.goto(`${mock.url}/${runHash("ended")}`);
  await eventually("none to come", async () => /The run has ended without one: there is nothing to judge\.\s+What to do\s+Log evaluations in the next run/
    .test(await page.locator(".verdict").innerText()));
  await page.goto(`${mock.url}/${runHash("none")}`);
  await eventually("one that may come", async () => /^Wait for an evaluation/.test(await page.locator(".todo").innerText()));
  await page.goto(`${mock.url}/${runHash("waiting")}`);
  await eventually("the head", async () => /finished\s*12 evaluations wait to be scored/.test(await page.locator(".chips").innerText())
    || page.locator(".chips").innerText());
  assert.equal(await page.locator(".verdict h1").innerText(), "Can’t tell: 12 evaluations wait to be scored");
  // No event tells of the counts: the page looks.
  mock.runs[0].counts.passes_unsettled = 5;
  await eventually("fewer", async () => /5 evaluations wait/.test(await page.locator(".stats").first().innerText()));
});

test("a run is not finished at its first epoch while others wait", async (t) => {
  const { page } = await open(t, { rename: (run) => Object.assign(run, { points: 1, finished: true, counts: { ...run.counts, passes_unsettled: 11 } }) });
  assert.match(await page.locator(".chips").innerText(), /^finished\s*scored up to epoch 1, 11 evaluations wait to be scored/);
});

test("curves, then CTL and ICL as published, without a click", async (t) => {
  const { page } = await open(t);
  assert.deepEqual((await charts(page)).slice(0, 6), ["ctl_conditional", "icl_conditional", "accuracy", "intervention_drop", "ctl", "icl"]);
  assert.deepEqual((await lines(page, "accuracy")).map(({ name }) => name), ["task", "concepts"]);
});

test("what a mean leaves out breaks the curve and is told", async (t) => {
  const { page } = await open(t, { partial: 20, query: "along=step" });
  const [line] = await lines(page, "ctl_conditional");
  assert.deepEqual(line.x.filter((_, i) => line.broken[i]), [400]);
  assert.match(await page.locator('.chart[data-score="ctl_conditional"] .note-line').innerText(), /leaves out 1 of 3 concepts: c2 has one class only/);
  const tip = await pointAt(page, "ctl_conditional", 1);
  assert.match(tip, /over 2 of 3 concepts/);
  assert.match(tip, /p = 0\.0050/);
});

test("passes without a point are marked with their reason", async (t) => {
  const { page } = await open(t, { query: "along=step", rename: (run) => { run.unscored = [300, 320]; } });
  await eventually("marks", async () => { const [line] = await lines(page, "ctl_conditional"); return line.gaps.map(({ x }) => x).join() === "300,320"
    || JSON.stringify(line.gaps); });
  assert.match(await page.locator(".log").innerText(), /No evaluation\.\s*2 passes, steps 300 to 320: a newer evaluation replaced it before it was scored/);
});

test("alerts have a lane each, and their evidence", async (t) => {
  const { page, mock } = await open(t);
  const panel = page.getByRole("region", { name: "Alerts" });
  assert.match(await panel.innerText(), /interconcept leakage is high\s+firing/);
  assert.match(await panel.innerText(), /epoch 10\s+Stop advised\.\s*interconcept leakage is high: unclipped interconcept leakage \(icl_excess\) is 0\.0654/);
  const [line] = await lines(page, "icl");
  assert.equal(line.alerts.length, 1);
  mock.send("alert", { ...alertsOf(mock.runs).changes[0], state: "inactive", step: 600, evidence: "the run finished" });
  await eventually("it is over", async () => /Ended: interconcept leakage is high: the run finished/.test(await panel.innerText()));
});

test("only rules that fired count when a run ends, and the evidence of a rule stands as the sidecar wrote it", async (t) => {
  const { page, mock } = await open(t);
  const panel = page.getByRole("region", { name: "Alerts" });
  const [change] = alertsOf(mock.runs).changes;
  const evidence = "concept accuracy (concept_accuracy) is 0.7000, below 0.85; intervention drop (intervention_drop) is 0.3973, not below 0.05";
  mock.send("alert", { ...change, rule: "not learnt", state: "pending", step: 560, evidence: `${evidence}, 1 of 3 evaluations` });
  mock.send("alert", { ...change, rule: "breaks the task", state: "firing", step: 580, evidence: `${evidence}, for 3 evaluations` });
  await eventually("the evidence", async () => (await panel.innerText()).includes(`breaks the task: ${evidence}, for 3 evaluations`) || panel.innerText());
  for (const rule of ["not learnt", "breaks the task", change.rule]) mock.send("alert",
    { ...change, rule, state: "inactive", step: 600, evidence: `the run finished; last: ${evidence}` });
  await eventually("two of three",
    async () => /Ended: (breaks the task|interconcept leakage is high), (breaks the task|interconcept leakage is high)\n/.test(`${await panel.innerText()}\n`)
    || panel.innerText());
});

test("an alert at the last evaluation is seen on its lane", async (t) => {
  const { page, mock } = await open(t);
  const [change] = alertsOf(mock.runs).changes;
  mock.send("alert", { ...change, rule: "at the end", step: 600 });
  const lane = page.getByRole("region", { name: "Alerts" }).locator(".lane", { has: page.locator('[title*="epoch 30 to epoch 30"]') });
  await eventually("its lane", async () => (await lane.count()) === 1);
  const [of, alert] = [await lane.boundingBox(), await lane.locator("span").last().boundingBox()];
  assert.ok(alert.width >= 8 && alert.x + alert.width <= of.x + of.width + 0.5, JSON.stringify([of, alert]));
});

test("a run that is sound again is not said to have been sound while it leaked", async (t) => {
  const { page } = await open(t, { run: SOUND });
  const verdict = page.getByRole("region", { name: "Alerts" }).locator(".lane").first().locator("span");
  assert.deepEqual(await verdict.evaluateAll((all) => all.map(({ title }) => title)), ["Sound, epoch 30 to epoch 30"]);
});

test("a hidden run shows its page and says that it is hidden", async (t) => {
  const { page } = await open(t);
  await page.getByRole("button", { name: "Hide this run" }).click();
  await page.reload();
  await settled(page);
  assert.match(await page.locator(".chips").innerText(), /hidden from the list of runs, in this browser/);
  assert.match(await page.locator(".verdict h1").innerText(), /^Leaking since/);
});

test("gauges and bars are printed", async (t) => {
  const { page } = await open(t);
  await page.emulateMedia({ media: "print" });
  const exact = (selector) => page.locator(selector).first().evaluate((one) => getComputedStyle(one).printColorAdjust);
  for (const selector of [".gauge b", ".gauge i", ".hb i", ".hb", ".lane .leak"]) assert.equal(await exact(selector), "exact", selector);
});

test("earlier alerts are one button away", async (t) => {
  const { page, mock } = await open(t);
  const panel = page.getByRole("region", { name: "Alerts" });
  const [change] = alertsOf(mock.runs).changes;
  for (let i = 0; i < 9; i += 1) mock.send("alert", { ...change, rule: `rule ${i}`, state: "firing", step: 300 + 20 * i });
  await eventually("seven", async () => (await panel.locator(".log li").count()) === 8);
  await panel.getByRole("button", { name: "Show 3 earlier" }).press("Enter");
  await eventually("all ten", async () => (await panel.locator(".log li").count()) === 11);
  assert.match(await panel.locator(".log").innerText(), /rule 0/);
  await panel.getByRole("button", { name: "Show only the newest 7" }).press("Enter");
  await eventually("seven again", async () => (await panel.locator(".log li").count()) === 8);
});

test("alerts of an attempt that was left end where the run has gone on from, and mark no curve", async (t) => {
  const { page } = await open(t);
  const panel = page.getByRole("region", { name: "Alerts" });
  const marks = async () => (await lines(page, "icl")).flatMap(({ alerts }) => alerts ?? []).length;
  await eventually("its alert", async () => /epoch 10\s+Stop advised\./.test(await panel.locator(".log").innerText()) && await marks() === 1);
  // The run returns to step 160, and the evaluations since then are newer than the alert of step 200.
  await page.route("**/api/v1/curves*", async (route) => {
    const answer = await route.fetch();
    const columns = await answer.json();
    const time = columns.time.map((one, i) => (i > 8 ? one + 1000 : one));
    await route.fulfill({ response: answer, json: { ...columns, time, superseded: [columns.step.map((_, i) => i).slice(11)] } });
  });
  await page.reload();
  await eventually("none", async () => /^\s*No rule has fired since the run went back to an earlier step\./.test(await panel.locator(".log").innerText())
    || panel.innerText());
  assert.deepEqual([await panel.locator(".lane .leak").count(), await marks()], [1, 0]);
});

test("a run that has not learnt its concepts is not called sound", async (t) => {
  const { page } = await open(t, { run: SOUND, rename: (run) => { run.poor = run.lambda === 5; } });
  assert.match(await page.locator(".verdict h1").innerText(), /^Can’t tell: the concept c0 is hardly learnt/);
  await eventually("which", async () => /Hardly learnt: c0\./.test(await page.locator(".verdict .lead").innerText()));
});

test("charts far from the window are painted when the page is printed", async (t) => {
  const { page, complaints } = await open(t, { height: 500 });
  const blank = () => page.locator(".plot:visible").evaluateAll((all) => all.filter((one) => one.chart.stale || !one.chart.plot).length);
  assert.ok(await blank() > 0);
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  assert.equal(await blank(), 0);
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  await eventually("the width of the window again", () =>
    page.locator('.chart[data-score="ctl_conditional"] .plot').evaluate(({ chart }) => Math.abs(chart.plot.width - chart.root.clientWidth) < 2));
  assert.deepEqual(complaints, []);
});

test("few concepts have a bar with their name each", async (t) => {
  const { page } = await open(t);
  await eventually("their names", async () => (await page.locator(".verdict .bars .name").allInnerTexts()).toSorted().join() === "c1,c2,c3");
  assert.equal(await page.locator(".verdict .bars .hb").count(), 3);
});

test("accuracy by the share of concepts set stands beside that by wrong values", async (t) => {
  const { page, complaints } = await open(t);
  const panel = page.getByRole("region", { name: "Curve behind a score" });
  await panel.scrollIntoViewIfNeeded();
  assert.equal(await panel.locator("h2").innerText(), "Effect of interventions");
  assert.match(await panel.innerText(), /should not cost accuracy\. Here it does\./);
  const found = await lines(page, "behind-intervention_drop");
  assert.deepEqual(found.map(({ name, y }) => [name, y.at(-1).toFixed(1)]), [["true values", "0.3"], ["wrong values", "0.1"]]);
  await panel.locator("figcaption summary").click();
  const [download] = await Promise.all([page.waitForEvent("download"), panel.getByRole("button", { name: "Save as CSV" }).click()]);
  const rows = (await readFile(await download.path())).toString().trimEnd().split("\n");
  assert.equal(rows[0], "run,step,share of concepts set to their true values,Task accuracy,Task accuracy: share of concepts set to wrong values");
  assert.equal(rows.length, 6);
  assert.deepEqual(complaints, []);
});

test("a slow score's curve is that of the newest evaluation that has it", async (t) => {
  const { page, asked } = await scene(t, { hash: runHash(LEAKY), swept: [1] });
  const panel = page.getByRole("region", { name: "Curve behind a score" });
  assert.equal(await panel.locator("h2").innerText(), "Clarity over the activity threshold τ");
  assert.match(await panel.innerText(), /Best at 0\.03\d*\. Undefined at 1 of 17\./);
  assert.equal(await page.evaluate(() => document.querySelector('.chart[data-score="behind-clarity_best"]').curves[0].x.length), 17);
  await panel.getByLabel("Curve of").selectOption("nis");
  await eventually("its curve", async () => (await panel.locator("h2").innerText()) === "Mean AUC over the niche threshold β");
  await eventually("of the evaluation before", async () => /From step 580/.test(await panel.innerText()));
  assert.equal(asked.filter((url) => url.includes("/point?") && url.includes("step=580")).length, 1);
  await page.reload();
  await settled(page);
  await eventually("the same after a reload", async () => (await panel.locator("h2").innerText()).startsWith("Mean AUC"));
});

test("the curves of concepts are not cut at the highest of the newest values", async (t) => {
  const { page } = await open(t);
  await page.route("**/api/v1/concepts*", async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    await route.fulfill({ response, json: { ...body, step: [0, 20, 40], epoch: [0, 1, 2], values: body.values.map(() => [0.9, 0.7, 0.1]) } });
  });
  await page.reload();
  const path = page.locator(".concepts .spark .ln").first();
  await eventually("three heights", async () => new Set((await path.getAttribute("d")).match(/(?<= )[\d.]+/g)).size === 3 || path.getAttribute("d"));
});

test("112 concepts are a table that is searched and sorted, and small curves", async (t) => {
  const { page, complaints, mock } = await open(t, { concepts: 112, points: 60, rename: (run) => { run.concepts = [CUB, ...run.concepts.slice(1)]; } });
  const panel = page.locator("#concepts");
  await eventually("a row each", async () => (await panel.locator("tbody tr").count()) === 112);
  const values = () => panel.locator("tbody .value").evaluateAll((all) => all.map((one) => Number(one.textContent)));
  const all = await values();
  assert.deepEqual(all, all.toSorted((a, b) => b - a));
  await panel.getByLabel("Search concepts").fill("curved_(");
  await eventually("one", async () => (await panel.locator("tbody tr").count()) === 1 && (await panel.locator("tbody th").innerText()) === CUB);
  await panel.getByLabel("Search concepts").fill("");
  await panel.getByRole("button", { name: "Small curves" }).click();
  await eventually("a curve each", async () => (await panel.locator(".multiples .spark").count()) === 112);
  // The common prefix is not shown; long names lose their middle, not their end.
  const names = await panel.locator(".multiples figcaption span").allInnerTexts();
  assert.ok(names.every((name) => name.length <= 19 && !name.startsWith("has_")) && names.some((name) => /…\w*r::\w+$/.test(name)), names.slice(0, 5).join());
  assert.equal(mock.runs.length, 2);
  const side = await page.locator(".heat canvas").evaluate((canvas) => [canvas.width, canvas.getBoundingClientRect().width]);
  assert.ok(side[0] === 112 && side[1] > 112 * 4, side.join());
  assert.deepEqual(complaints, []);
});

test("a mean without a value does not hide the concepts that have one", async (t) => {
  const { page } = await open(t, { constant: 1 });
  const panel = page.locator("#concepts");
  await panel.getByLabel("Score of the concepts").selectOption("ctl");
  await eventually("the reason", async () => /The mean is undefined: concept c2 is constant/.test(await panel.innerText()));
  const rows = await panel.locator("tbody .value").allInnerTexts();
  assert.equal(rows.filter((text) => text === "–").length, 1, rows.join());
  assert.equal(rows.filter((text) => Number(text) > 0).length, 2);
});

test("the map of pairs is read by pointer and keys, and says how old a pair is", async (t) => {
  const { page, complaints } = await open(t, { query: "order=given", rename: (run) => { run.aged = true; } });
  const map = page.locator(".heat .map");
  await map.scrollIntoViewIfNeeded();
  const { x, y, width, height } = await map.boundingBox();
  await page.mouse.move(x + width * 0.9, y + height * 0.1);
  assert.match(await page.locator(".read").innerText(),
    /c1 carries information about c3\s*leakage 0\.\d+\s*in the other direction 0\.\d+\s*q = 0\.034\s*computed 30 s before this evaluation/);
  await map.focus();
  await page.keyboard.press("ArrowDown");
  assert.match(await page.locator(".read").innerText(), /c2 carries information about c3/);
  await page.keyboard.press("ArrowDown");
  assert.match(await page.locator(".read").innerText(), /A concept is not compared with itself/);
  assert.deepEqual(await page.locator(".heat .rows span").allTextContents(), ["c1", "c2", "c3"]);
  assert.match(await page.getByRole("region", { name: "Pairs of concepts" }).innerText(), /The oldest pair was computed 30 s before this evaluation/);
  assert.doesNotMatch(await page.locator(".read").innerText(), /carries/);
  await page.getByLabel("Score between concepts").selectOption("icl");
  // Until its matrix has come there is nothing to read or to save.
  await eventually("another score", async () => { const label = await map.getAttribute("aria-label"); return /^ICL, published between 3 concepts/.test(label) || label; });
  const panel = page.getByRole("region", { name: "Pairs of concepts" });
  await panel.locator("summary").click();
  const [download] = await Promise.all([page.waitForEvent("download"), panel.getByRole("button", { name: "Save as PNG" }).click()]);
  assert.ok((await readFile(await download.path())).length > 1000);
  assert.deepEqual(complaints, []);
});

test("a pair that may be noise is not said to carry information", async (t) => {
  const { page } = await open(t, { query: "order=given" });
  await page.route("**/api/v1/matrix*", async (route) => {
    const response = await route.fetch();
    const report = await response.json();
    report.matrix_q = report.matrix_q?.map((row) => row.map((q) => (q === null ? null : 0.4)));
    await route.fulfill({ response, json: report });
  });
  await page.reload();
  await settled(page);
  const read = page.locator(".read");
  await eventually("its readout",
    async () => /No information of c\d about c\d is shown\s*leakage 0\.\d+.*q = 0\.40/s.test(await read.innerText()) || read.innerText());
});

test("pairs within noise and limit are pale, and only those beyond it coloured", async (t) => {
  for (const [run, least, most] of [[SOUND, 0, 40], [LEAKY, 60, 255]]) {
    const { page } = await open(t, { run });
    await page.locator(".heat .map").scrollIntoViewIfNeeded();
    const spread = () => page.locator(".heat canvas").evaluate((canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let most = 0;
      for (let i = 0; i < data.length; i += 4) most = Math.max(most, Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]));
      return most;
    });
    await eventually(run, async () => { const found = await spread(); return (found >= least && found <= most) || found; });
    assert.match(await page.locator(".ramp").innerText(), /0\.16, the limit of the mean/);
  }
});

test("a model with embeddings shows what its vectors carry", async (t) => {
  const { page, complaints } = await open(t, { concepts: 4, cem: [1] });
  const panel = page.getByRole("region", { name: "Embeddings" });
  await panel.waitFor({ state: "visible" });
  assert.match(await panel.innerText(), /Embeddings about the task\s+0\.\d\d ± 0\.\d\d/);
  assert.match(await panel.innerText(), /Alignment leakage/);
  await page.goto(`${page.url().split("#")[0]}${runHash(SOUND)}`);
  await eventually("another run has none", async () => panel.isHidden());
  assert.deepEqual(complaints, []);
});

test("all scores are a table that opens", async (t) => {
  const { page } = await open(t, { run: SOUND, rename: (run) => { run.tasks = ["edema", "effusion"]; } });
  const panel = page.locator("details.panel", { hasText: "All scores" });
  assert.equal(await panel.locator("tr").count(), 0);
  await panel.locator(":scope > summary").click();
  await eventually("its rows", async () => (await panel.locator('tr[data-score="icl_label"]').count()) === 1);
  assert.match(await panel.innerText(), /activations are float16: the ICL normaliser is lowered/);
  assert.match(await panel.locator('tr[data-score="task_accuracy"]').innerText(), /Of each task: edema 0\.800 ± 0\.020, effusion undefined \(one class\)/);
});

test("the rows that leak most are a table that opens, of each concept or of their mean", async (t) => {
  const { page, complaints } = await open(t);
  const panel = page.locator("details.panel", { hasText: "Rows that leak most" });
  assert.equal(await panel.locator("tr").count(), 0);
  await panel.locator(":scope > summary").click();
  await eventually("its rows", async () => (await panel.locator("tbody tr").count()) === 2);
  assert.match(await panel.locator("tbody").innerText(), /^7\s+0\.40\s+0\.90\s+0\s+3\s+0\.30\s+0\.90\s+1$/);
  assert.match(await panel.innerText(), /Step 600\. Rows are ordered by the mean over rows like them/);
  await panel.getByLabel("Concept of the rows").selectOption("c1");
  await eventually("those of a concept", async () => /^7\s+0\.50/.test(await panel.locator("tbody").innerText()));
  assert.deepEqual(complaints, []);
});

test("of several tasks the rows are those of one, which is named", async (t) => {
  const { page } = await open(t, { rename: (run) => { run.tasks = ["edema", "effusion"]; } });
  const panel = page.locator("details.panel", { hasText: "Rows that leak most" });
  await panel.locator(":scope > summary").click();
  await eventually("the task", async () => /Step 600\. Task effusion, which leaks most\. Rows are ordered/.test(await panel.innerText()));
});

test("where one of several tasks decides, its values stand beside the verdict, and curves say that they are means", async (t) => {
  const { page, mock } = await open(t, { rename: (run) => Object.assign(run, { tasks: ["edema", "effusion"], deciding: "effusion", finished: true }) });
  const answer = await (await page.request.get(`${mock.url}/api/v1/point?run=${LEAKY}&split=val`)).json();
  const { value: mean, per_task: [, { value }] } = answer.scores.ctl_conditional;
  assert.ok(value === 2 * mean, `${value} ${mean}`);
  const tile = page.locator('.stats [data-score="ctl_conditional"]');
  await eventually("its own value", async () => (await tile.innerText()).replaceAll(/\s+/g, " ")
    .endsWith(`${value.toFixed(2)} ± 0.01 task effusion · limit 0.16, above it`) || tile.innerText());
  assert.match(await page.locator('.stats [data-score="icl_conditional"]').innerText(), /\nlimit 0\.16/);
  const concepts = page.locator("#concepts");
  await concepts.scrollIntoViewIfNeeded();
  await eventually("its concepts", async () => (await concepts.innerText()).includes(
    `of each concept, task effusion; mean ${value.toFixed(2)} ± 0.02. The red line is the limit of the mean. Of each task: edema 0.00 ± 0.02`));
  assert.match(await concepts.innerText(), /Curves over the run are means over tasks\./);
  assert.deepEqual([await concepts.locator(".spark .lim").count(), await concepts.locator(".hb").count()], [0, 3]);
  const chart = (score) => page.locator(`.chart[data-score="${score}"]`);
  assert.match(await chart("ctl_conditional").innerText(), /Mean over tasks/);
  assert.match(await chart("accuracy").innerText(), /Task: mean over tasks/);
  const limits = await page.evaluate(async () => {
    const [{ limitIn }, { limitOf, store }] = [await import("/assets/charts/lines.js"), await import("/assets/data/store.js")];
    return ["ctl_conditional", "intervention_drop", "icl_conditional"].map((score) => limitIn({ limitOf }, score, store.runs)?.value);
  });
  assert.deepEqual(limits, [undefined, undefined, 0.16]);
  await page.goto(page.url().replace(/#.*/, "#/"));
  const cell = page.locator(`.runs tr[data-run="${LEAKY}"] td.lk`);
  await eventually("the row's", async () => (await cell.getAttribute("title")) === "Task effusion" || cell.innerText());
  assert.match(await cell.innerText(), new RegExp(`^${value.toFixed(2)}`));
  assert.equal(await page.locator(".runs .spark .lim").count(), 0);
});

test("a new evaluation changes the page of its run", async (t) => {
  const { page, mock } = await open(t);
  for (let i = 0; i < 3; i += 1) mock.grow(LEAKY);
  await eventually("the newest epoch", async () => /epoch 3[23]/.test(await page.locator(".facts-line").innerText())
    || page.locator(".facts-line").innerText());
});

test("a run that is not there says so", async (t) => {
  const { page } = await scene(t, { hash: runHash("λ=0.1") });
  assert.match(await page.locator(".empty").innerText(), /No run “λ=0\.1”/);
  await page.getByRole("link", { name: "All runs" }).click();
  await eventually("all runs", async () => (await page.locator(".runs tr[data-run]").count()) === 2);
});

test("an evaluation of another split is chosen above", async (t) => {
  const { page } = await open(t, { twins: [0, 1] });
  assert.deepEqual(await page.locator(".head").getByLabel("Data").locator("option").allInnerTexts(), ["val", "val_dropped"]);
});

test("a run without the split of the address is shown by the one it has, and the list says which", async (t) => {
  const { page } = await scene(t, { intervened: [0, 1], rename: (run) => { if (run.name === SOUND) run.split = "valid"; } });
  const listed = page.locator(`.runs tr[data-run="${SOUND}"]`);
  assert.match(await listed.innerText(), /Can’t tell: no evaluation of val, but of valid/);
  await listed.getByRole("link").click();
  await eventually("its verdict", async () => (await page.locator(".verdict h1").innerText()) === "Sound" || page.locator(".verdict").innerText());
  assert.match(await page.locator(".facts-line").innerText(), / · valid, epoch 29, /);
  assert.equal(await page.locator(".head").getByLabel("Data").inputValue(), "valid");
  // Other runs are still looked at by theirs, and no verdict has changed.
  await page.locator(".head").getByRole("link", { name: "Runs" }).click();
  await eventually("the list of val", async () => (await page.locator(".head h1").innerText()) === "1 of 2 runs leaks" || page.locator(".head").innerText());
  assert.equal(await page.locator("#told").textContent(), "");
});

test("title and note are given, and a run that does not train is removed", async (t) => {
  const { page, complaints, mock } = await open(t, { run: SOUND, rename: (run) => { if (run.name === SOUND) run.finished = true; } });
  await page.getByRole("button", { name: "Title, note" }).click();
  await page.getByLabel("Title, shown in place of the name").fill("The best <b>one</b>");
  await page.getByLabel("Note", { exact: true }).fill("first line\nsecond");
  await page.getByRole("button", { name: "Save" }).click();
  await eventually("the title", async () => /The best <b>one<\/b> \(tabulartoy-lambda-5\)/.test(await page.locator(".head.run").innerText()));
  assert.equal(await page.locator("p.said").innerText(), "first line\nsecond");
  assert.deepEqual([mock.runs[0].title, mock.runs[0].note], ["The best <b>one</b>", "first line\nsecond"]);
  await page.getByRole("button", { name: "Remove this run" }).click();
  await page.getByRole("button", { name: "Cancel" }).click();
  assert.equal(mock.runs.length, 2);
  await page.getByRole("button", { name: "Remove this run" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await eventually("the other run alone", async () => (await page.locator("h1").innerText()) === "1 of 1 run leaks" || page.locator("h1").innerText());
  assert.equal(mock.runs.length, 1);
  // What was asked of the run before its removal was known has no answer.
  assert.deepEqual(complaints.filter((line) => !(line.includes("404") && line.includes(SOUND))), []);
});
