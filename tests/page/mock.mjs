// A stand-in for the sidecar with synthetic runs, for work on the page and for its tests. Nothing here is measured.
//
//   node mock.mjs [--port 7801] [--runs 2] [--concepts 3] [--points 30] [--live] [--empty]
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { extname, join } from "node:path";
import { parseArgs } from "node:util";

const WEB = fileURLToPath(new URL("../../web/", import.meta.url));
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8" };
export const CSP = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
  + "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const PASS = 20;

const SCORES = [
  ["ctl", "CTL", "leakage", true, false, [0, 1], "Concepts-task leakage: what the activations tell of the task beyond the true concepts, over H(y)."],
  ["icl", "ICL", "leakage", true, true, [0, 1], "Interconcept leakage: what activations tell of each other beyond what the true concepts do."],
  ["ctl_excess", "CTL excess", "leakage", true, false, [-1, 1], "CTL unclipped."],
  ["icl_excess", "ICL excess", "leakage", true, true, [-1, 1], "ICL unclipped."],
  ["ctl_conditional", "Conditional CTL", "leakage", true, false, [0, 1], "What activations tell of the task given their concept."],
  ["icl_conditional", "Conditional ICL", "leakage", true, true, [0, 1], "What activations tell of other concepts given their own."],
  ["icl_label", "ICL by label", "leakage", true, true, [0, 1], "What an activation tells of another concept's label."],
  ["concept_accuracy", "Concept accuracy", "accuracy", true, false, [0, 1], "Share of concept labels predicted."],
  ["task_accuracy", "Task accuracy", "accuracy", false, false, [0, 1], "Share of task labels predicted."],
  ["embedding_self", "Ĩ(self)", "embedding leakage", true, false, [0, 1], "What an embedding tells of its own concept."],
  ["embedding_ct", "Ĩ(CT)", "embedding leakage", true, false, [0, 1], "What the mixed vectors tell of the task."],
  ["embedding_ct_positive", "Ĩ(CT), positive", "embedding leakage", true, false, [0, 1], "What the positive vectors tell of the task."],
  ["embedding_ct_negative", "Ĩ(CT), negative", "embedding leakage", true, false, [0, 1], "What the negative vectors tell of the task."],
  ["alignment_leakage", "Ĩ(align)", "embedding leakage", true, false, [-2, 2], "Task information in choosing a vector."],
  ["clarity_best", "Highest Clarity over thresholds", "clarity", false, false, [0, 1], "Clarity at the best threshold.",
    { x: "activity threshold τ", y: "Clarity", best: "clarity_best_threshold" }],
  ["clarity_best_threshold", "Threshold of highest Clarity", "clarity", false, false, [0, 1], "Where it was found."],
  ["nis", "Niche impurity (NIS)", "impurity", false, false, [0, 0.95], "What others tell of a concept.", { x: "niche threshold β", y: "Mean AUC" }],
  ["ctl_conditional_r2", "Conditional CTL, R²", "numbers", true, false, [0, 1], "What activations explain of a number given their concept."],
  ["intervention_drop", "Accuracy lost by intervention", "intervention", false, false, [-1, 1], "What true concepts cost.",
    { x: "share of concepts set to their true values", y: "Task accuracy", beside: "wrong_intervention_drop" }],
  ["wrong_intervention_drop", "Accuracy lost by wrong interventions", "intervention", false, false, [-1, 1], "What wrong concepts cost.",
    { x: "share of concepts set to wrong values", y: "Task accuracy" }],
].map(([id, title, family, per_concept, matrix, range, help, curve]) => ({
  id, title, family, per_concept, matrix, range, help, curve, paper: "P0", equation: "eq. 6", unit: "",
}));
const OF_TASK = SCORES.map(({ id }) => id).filter((id) => /^(ctl|task|intervention)/.test(id));
/** Scores that only some runs have, by what those are called. */
const ONLY = { "embedding leakage": "cem", clarity: "swept", impurity: "swept", intervention: "intervened", numbers: "numbers" };
const THRESHOLDS = [1e-4, 1e-3, 5e-3, 1e-2, 2e-2, 3e-2, 4e-2, 5e-2, 7e-2, 0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9];
/** Whether a run's evaluation has a score: NIS comes late, and the newest has none yet. */
const hasScore = (run, { id, family }, at) => (!ONLY[family] || run[ONLY[family]]) && !(id === "nis" && at >= run.points);

/** Noise in [-1, 1] that is the same every time. */
function noise(...parts) {
  let hash = 2166136261;
  for (const char of parts.join()) hash = Math.imul(hash ^ char.codePointAt(0), 16777619);
  hash ^= hash >>> 15;
  return ((Math.imul(hash, 2246822519) >>> 0) / 2 ** 31) - 1;
}

/** The made-up world: runs whose curves rise to a level that their λ decides. */
export function world({ runs = 2, concepts = 3, points = 30, labels = {}, constant = null, rename = () => {}, cem = [], swept = [], intervened = [], twins = [],
  partial = null, left = {} } = {}) {
  const parts = ["wing", "bill", "tail", "crown", "belly", "leg", "nape", "eye"];
  const names = concepts <= 8 ? Array.from({ length: concepts }, (_, i) => `c${i + 1}`)
    : Array.from({ length: concepts }, (_, i) => `has_${parts[i % 8]}_colour::${["grey", "black", "white", "buff", "red"][i % 5]}_${i}`);
  const lambdas = ["5", "0.01", "0.1", "1", "0.5", "0.05", "10", "2"];
  const made = Array.from({ length: runs }, (_, r) => ({
    name: runs === 2 ? `tabulartoy-lambda-${lambdas[r]}` : `cub/soft-seed${r}-lambda-${lambdas[r % 8]}`,
    labels: { lambda: lambdas[r % 8], seed: String(r), ...labels }, lambda: Number(lambdas[r % 8]),
    concepts: names, started: 1_790_000_000 + r * 1000, finished: runs > 2 && r % 4 !== 3, points,
    // A concept whose activations never change, what the sidecar counted since it started, and the split.
    constant, counts: { rows_received: 2000 * points, rows_duplicate: 0, rows_dropped: 0, passes_unsettled: 0 }, split: "val",
    // Whether it has embeddings, as a CEM does.
    cem: cem.includes(r),
    // The point from which on the conditional CTL leaves a concept out.
    partial,
    // Whether it has scores with a curve behind them.
    swept: swept.includes(r),
    // Whether its head was run again with concepts set.
    intervened: intervened.includes(r),
    // Whether its evaluations are also of the split with regions dropped.
    twin: twins.includes(r) ? "val_dropped" : null,
    // Evaluations that attempts before the newest have made, a list for each.
    left: left[r] ?? [],
  }));
  made.forEach(rename);
  return made;
}

function level(run, id) {
  // A run that leaks less than the limit loses next to nothing.
  if (id === "intervention_drop") return 4 * Math.max(0, level(run, "ctl_conditional") - 0.16) + 0.02 + 0.02 / (1 + run.lambda);
  const most = { ctl: 0.3, ctl_excess: 0.28, icl: 0.12, icl_excess: 0.1, icl_label: 0.22, embedding_self: 0.8,
    ctl_conditional: 0.33, icl_conditional: 0.27 }[id] ?? 0.9;
  return most / (id.endsWith("accuracy") ? 1 : 1 + 3 * run.lambda) * (1 + 0.15 * noise(run.name, id));
}

function valueAt(run, id, at, concept = null) {
  if (id === "icl" && run.lambda < 0.02 && (at === 4 || at === 5)) return { undefined: "one class only: concept c2 is constant in this sample" };
  if (run.constant !== null && id === "ctl" && (concept === null || concept === run.constant)) {
    return { undefined: `concept ${run.concepts[run.constant]} is constant` };
  }
  const rise = id.endsWith("accuracy") ? 1 - 0.4 * Math.exp(-at / 6) : 1 - Math.exp(-at / 9);
  const own = concept === null ? 0 : 0.5 * noise(run.name, id, "concept", concept);
  const most = id.endsWith("accuracy") ? 0.995 : 1;
  return { value: Math.min(most, level(run, id) * rise * (1 + own) + 0.006 * noise(run.name, id, at)),
    standard_error: id === "task_accuracy" ? 0.007 : 0.005 + 0.012 * Math.exp(-at / 4) };
}

/** Over τ a hill that moves to the right while a run trains, without a value at the last; over β a rise to 0.95. */
function curveOf(run, id, at) {
  if (id.endsWith("intervention_drop")) {
    const slope = id.startsWith("wrong") ? -0.8 : run.lambda < 0.1 ? -0.6 : 0.05;
    return [0, 0.25, 0.5, 0.75, 1].map((share) => [share, 0.9 + slope * share]);
  }
  if (id === "nis") return Array.from({ length: 20 }, (_, i) => [i * 0.05, 0.5 + 0.3 * (i / 19) ** 2 + 0.004 * run.lambda]);
  const peak = -3 + 0.05 * at;
  return THRESHOLDS.map((x) => [x, x === 0.9 ? null : 0.7 * Math.exp(-((Math.log10(x) - peak) ** 2)) - 0.01 * run.lambda]);
}

/** The facts beside a value: the concepts that it leaves out, and its p-value. */
function beside(run, id, at, concept = null) {
  if (id !== "ctl_conditional" || concept !== null) return {};
  return { p_value: 0.005, ...(run.partial !== null && at >= run.partial && {
    left_out: { concepts: [1], of: run.concepts.length, why: `${run.concepts[1]} has one class only` } }) };
}

function facts(run, at) {
  return {
    step: at * PASS, epoch: at, time: run.started + at * 7.5, rows: 2000,
    tie_fraction: Math.min(0.46, at * 0.015), provisional: at === run.provisional, incomplete: at === 12,
  };
}

function pointOf(run, at, perConcept) {
  const scores = {};
  const bestOf = (curve) => curve.reduce((best, one) => (one[1] > best[1] ? one : best));
  for (const { id, per_concept: has, curve } of SCORES.filter((score) => hasScore(run, score, at))) {
    scores[id] = { ...valueAt(run, id, at), ...beside(run, id, at) };
    if (id === "clarity_best") scores[id].value = bestOf(curveOf(run, id, at))[1];
    if (id === "clarity_best_threshold") scores[id] = { value: bestOf(curveOf(run, id, at))[0], standard_error: null };
    if (curve && perConcept) scores[id].curve = curveOf(run, id, at);
    if (run.tasks && id === "task_accuracy") scores[id].per_task = [{ value: 0.8, standard_error: 0.01 }, { undefined: "one class" }];
    if (run.deciding && OF_TASK.includes(id)) {
      scores[id].per_task = run.tasks.map((task) => ({ value: (task === run.deciding ? 2 : 0) * (scores[id].value ?? 0), standard_error: 0.01,
        ...(perConcept && has && { per_concept: run.concepts.map((_, i) => 2 * (valueAt(run, id, at, i).value ?? 0)) }) }));
    }
    if (perConcept && has) {
      scores[id].per_concept = run.concepts.map((_, i) => valueAt(run, id, at, i).value ?? null);
      if (id === "ctl_conditional") scores[id].per_concept_q = run.concepts.map(() => 0.012);
    }
  }
  return {
    run: run.name, split: "val", ...facts(run, at), rows_seen: 2000,
      warnings: run.lambda === 5 ? ["activations are float16: the ICL normaliser is lowered"] : [],
    estimator: "tie_aware", neighbours: 3, seed: 0, catalogue_version: 1, seconds: 0.08, scores,
  };
}

const LIMITS = [["ctl_conditional", 0.16], ["icl_conditional", 0.16], ["intervention_drop", 0.05], ["concept_accuracy", 0.9]]
  .map(([score, limit]) => ({ score, limit, bad: score === "concept_accuracy" ? "below" : "above" }));
const OF_ROW = ["ctl_conditional", "icl_conditional", "intervention_drop", "task_accuracy", "concept_accuracy", "ctl", "icl"];

/** Evaluations of a concept's small curve. */
const places = (run) => Array.from({ length: run.points + 1 }, (_, i) => i).filter((i) => run.points <= 60 || i % Math.ceil(run.points / 60) === 0);

/** A run's row of the overview: those with a small λ leak from the evaluation on at which they cross the limit. */
function rowOf(run, split) {
  const none = { name: run.name, verdict: null, step: null, epoch: null, time: null, rows: null, evaluations: 0, scores: {}, concepts: null, spark: null };
  if (run.split !== split || run.unevaluated) return none;
  const newest = run.points - (run.provisional === run.points ? 1 : 0);
  const value = (i) => valueAt(run, "ctl_conditional", i).value ?? 0;
  const above = Array.from({ length: newest + 1 }, (_, i) => value(i) > 0.17);
  const since = above.lastIndexOf(false) + 1;
  const at = (i) => ({ step: i * PASS, epoch: i });
  const near = Math.abs(value(newest) - 0.16) < 0.02;
  const state = run.poor ? "cannot_tell" : run.state ?? (newest < 3 ? "too_early" : near ? "possibly_leaking" : value(newest) > 0.17 ? "leaking" : "sound");
  const reason = { possibly_leaking: "the interval of leakage to the task (ctl_conditional) reaches the limit", too_early: "2 of 3 evaluations that are needed",
    leaking: "unclipped interconcept leakage (icl_excess) is 0.0654, above 0.05, for 2 evaluations",
      cannot_tell: run.poor ? "the concept c0 is hardly learnt, and interventions were not logged"
      : "212 rows are too few: the interval of leakage to the task (ctl_conditional) reaches the limit",
    sound: run.intervened ? "" : "interventions were not logged" }[state] ?? "";
  const scores = {};
  for (const id of OF_ROW) {
    const score = SCORES.find((one) => one.id === id);
    if (!hasScore(run, score, newest)) continue;
    const { value, standard_error, undefined: why } = valueAt(run, id, newest);
    if (run.deciding && OF_TASK.includes(id)) Object.assign(scores, { [id]: { step: newest * PASS, value: 2 * value, standard_error } });
    else scores[id] = { step: newest * PASS, ...(why ? { undefined: why } : { value, standard_error }) };
  }
  const kept = places(run).filter((_, i, all) => i % Math.ceil(all.length / 30) === 0 && _ <= newest);
  return { name: run.name, evaluations: run.points, rows: 2000, time: run.started + newest * 7.5, ...at(newest), scores,
    verdict: { state, task: run.deciding, since: state === "leaking" ? at(since) : null, or_earlier: false, last_sound: state === "leaking" && since > 0 ? at(since - 1) : null,
      reason,
      deciding: { score: "ctl_conditional", value: value(newest), standard_error: 0.01, limit: 0.16, step: newest * PASS },
      concepts: run.poor ? ["c0"] : state === "leaking" ? run.concepts.map((name, i) => ({ name, value: valueAt(run, "ctl_conditional", newest, i).value }))
        .filter((one) => one.value > 0.16).sort((a, b) => b.value - a.value).map(({ name }) => name) : [],
      stop_advised_by: state === "leaking" && run.lambda < 0.05 ? "interconcept leakage is high" : null },
    concepts: { score: "ctl_conditional", above: run.concepts.filter((_, i) => valueAt(run, "ctl_conditional", newest, i).value > 0.16).length,
      of: run.concepts.length, limit: 0.16 },
    spark: { score: "ctl_conditional", steps: kept.map((i) => i * PASS), values: kept.map(value) } };
}

/** Columns of several scores, as the sidecar gives them. */
function curvesOf(run, ids, split) {
  const none = run.split !== split || run.unevaluated;
  const evaluated = none ? [] : Array.from({ length: run.points + 1 }, (_, i) => i).filter((i) => !run.unscored?.includes(i * PASS));
  // The points of an attempt that was left stay beside what the run makes again up to `passed`.
  const branchOf = (i) => run.left.findIndex((branch) => branch.includes(i));
  const made = evaluated.flatMap((i) => (branchOf(i) < 0 ? [{ i, of: -1 }] : [...(i <= (run.passed ?? -1) ? [{ i, of: -1 }] : []), { i, of: branchOf(i) }]));
  const all = made.map(({ i }) => i);
  const scores = {};
  for (const id of ids) {
    const score = SCORES.find((one) => one.id === id);
    const known = all.filter((i) => score && hasScore(run, score, i));
    if (!known.length) continue;
    const values = all.map((i) => (known.includes(i) ? valueAt(run, id, i) : {}));
    const why = {};
    values.forEach((one, i) => { if (one.undefined) (why[one.undefined] ??= []).push(i); });
    const left = all.map((i) => beside(run, id, i).left_out ?? null);
    scores[id] = { value: values.map(({ value }) => value ?? null), standard_error: values.map(({ standard_error }) => standard_error ?? null), undefined: why,
      left_out: left.flatMap((one, i) => (JSON.stringify(one) === JSON.stringify(left[i - 1] ?? null) ? [] : [[i, one]])),
        p_value: beside(run, id, 0).p_value ?? null };
  }
  const of = all.map((i) => facts(run, i));
  return { step: of.map(({ step }) => step), epoch: of.map(({ epoch }) => epoch), time: of.map(({ time }) => time), rows: of.map(({ rows }) => rows),
    tie_fraction: of.map(({ tie_fraction }) => tie_fraction), provisional: of.flatMap(({ provisional }, i) => (provisional ? [i] : [])),
    incomplete: of.flatMap(({ incomplete }, i) => (incomplete ? [i] : [])),
      superseded: run.left.map((_, branch) => made.flatMap(({ of }, place) => (of === branch ? [place] : []))).filter((places) => places.length > 0), scores };
}

/** A made-up run and its twin with regions dropped, where the first concept falls to a half and the others do not. */
function splitsOf(run, split, twin) {
  const compared = (a, b) => {
    const [low, high] = [a - b - 0.02, a - b + 0.02];
    return { a: interval(a, 0.007, 5), b: interval(b, 0.007, 5), difference: { mean: a - b, standard_error: 0.01, low, high, count: 5 },
      p_value: low > 0 ? 1e-6 : 0.8, verdict: low > 0 ? "higher_in_a" : "compatible" };
  };
  const side = (name) => ({ run: run.name, evaluations: [0, 1, 2, 3, 4].map((i) => [name, (run.points - 4 + i) * PASS]), rows: [2000, 2000] });
  const per_concept = run.concepts.map((concept, i) => ({ concept, ...compared(0.95, i === 0 ? 0.5 : 0.945) }));
  return { run: run.name, a: side(split), b: side(twin), confidence: 0.95, notes: [],
    scores: [{ score: "concept_accuracy", ...compared(0.95, 0.8), per_concept }, { score: "task_accuracy", ...compared(0.9, 0.7) }] };
}

const interval = (mean, error, count) => ({ mean, standard_error: error, low: mean - 1.96 * error, high: mean + 1.96 * error, count });

/** The difference of two made-up runs, in the shape of the sidecar's answer. */
function comparisonOf(a, b) {
  const compared = (of, concept) => {
    const [one, other] = [a, b].map((run) => valueAt(run, of, run.points, concept).value ?? 0);
    const [low, high] = [one - other - 0.02, one - other + 0.02];
    const verdict = low > 0 ? "higher_in_a" : high < 0 ? "higher_in_b" : "compatible";
    return { a: interval(one, 0.007, 5), b: interval(other, 0.007, 5), difference: { mean: one - other, standard_error: 0.01, low, high, count: 5 },
      p_value: 0.01, verdict };
  };
  const scores = ["ctl_conditional", "ctl", "icl", "icl_label", "task_accuracy"].map((score) => ({
    score, ...compared(score), per_concept: score === "task_accuracy" ? undefined : a.concepts.map((concept, i) => ({ concept, ...compared(score, i) })),
  }));
  scores.push({ score: "concept_accuracy", a: null, b: null, difference: null, p_value: null, verdict: "undefined",
    undefined: `no evaluation of ${a.name} that is compared has it` });
  const verdict = compared("ctl").verdict === "higher_in_a" ? "a_leaks_more" : "b_leaks_more";
  const side = (run) => ({ run: run.name, evaluations: [0, 1, 2, 3, 4].map((i) => [run.split, (run.points - 4 + i) * PASS]), rows: [2000, 2000] });
  const criterion = { verdict,
    why: `concepts-task leakage (ctl) is higher in ${verdict === "a_leaks_more" ? a.name : b.name} by 0.2000 (0.1800 to 0.2200); `
      + "interconcept leakage (icl) shows no difference (0.0010, -0.0100 to 0.0120)" };
  const weighed = { verdict: "scores_disagree",
    why: "concepts-task leakage (ctl) is higher in a by 0.0400, but because concepts of b are learnt less well (concept accuracy 0.45 against 0.98)" };
  return { a: side(a), b: side(b), confidence: 0.95, weighed, criterion, criterion_unclipped: criterion, scores,
    notes: [`not finished yet: ${a.name}, ${b.name}`] };
}

/** Groups of made-up runs; the two largest values leak least. */
function groupsOf(runs, label) {
  const values = [...new Set(runs.map((run) => run.labels[label]))].sort((a, b) => Number(a) - Number(b) || a.localeCompare(b));
  const groups = values.map((value) => {
    const own = runs.filter((run) => run.labels[label] === value);
    const scores = ["ctl_conditional", "icl_conditional", "intervention_drop", "concept_accuracy", "task_accuracy", "ctl", "icl"].map((score) => {
      const all = own.map((run) => valueAt(run, score, run.points).value ?? 0);
      return { score, interval: interval(all.reduce((sum, one) => sum + one, 0) / all.length, 0.01, all.length) };
    });
    return { value, runs: own.map((run) => run.name), scores, training: { trained: own.length, runs: own.length, accuracy: 0.8 } };
  });
  const least = values.slice(-2);
  const mean = (/** @type {string} */ value, /** @type {string} */ score) =>
    groups.find((group) => group.value === value).scores.find((one) => one.score === score).interval.mean;
  const before = values.at(-3) ?? values[0];
  const more = mean(before, "ctl") - mean(least.at(-1), "ctl");
  const drop = mean(least[0], "intervention_drop");
  return { label, confidence: 0.95, groups, notes: [], least: { reference: least.at(-1), values: least,
    ...(values.every((value) => Number.isFinite(Number(value))) && { below: `${label}=${before}: concepts-task leakage (ctl) is higher in ${label}=${before} by ${more.toFixed(4)} `
      + `(${(more - 0.01).toFixed(4)} to ${(more + 0.01).toFixed(4)})`, above: "no larger value was tried" }),
    ...(drop > 0.05 && { caution: `${label}=${least[0]} still loses ${drop.toFixed(2)} of accuracy under intervention` }) } };
}

function assessmentOf(run) {
  const { verdict } = rowOf(run, run.split);
  const line = (rule, title, state, text, evidence, subject = title) => ({ rule, title, subject, state, text, evidence,
    source: "arXiv:2504.14094, Section 7", action: rule === "insufficient_supervision" ? "Raise the weight of the concept loss" : "Evaluate more rows" });
  const leak = valueAt(run, "ctl_excess", run.points).value;
  const evidence = [
    { score: "ctl_excess", value: leak, standard_error: 0.005, limit: 0.15, step: run.points * PASS },
    { score: "concept_accuracy", value: 0.61, standard_error: 0.004, limit: 0.9, step: run.points * PASS },
  ];
  const coverage = [
    line("insufficient_supervision", "Insufficient concept supervision", leak > 0.15 ? "found" : "absent", "concepts are poorly learnt", evidence),
    line("too_few_rows", "Sample too small", "absent", "with 2000 rows leakage to the task (ctl_conditional) is known to ± 0.02 (95 %)",
      [{ score: "rows", value: 2000, limit: 500, step: run.points * PASS }], "Sample size"),
    line("alignment_leakage", "Alignment leakage", "unknown", "needs alignment_leakage, which no evaluation has", []),
  ];
  const actions = [
    ...(verdict?.stop_advised_by ? [{ text: "Stop this run", why: `${verdict.stop_advised_by}: ${verdict.reason}`, evidence: [] }] : []),
    ...coverage.filter(({ state }) => state === "found").map((one) => ({ text: one.action, why: one.text, evidence: one.evidence })),
  ];
  const otherwise = { too_early: "Wait", possibly_leaking: "Log more rows", cannot_tell: "Log what is missing" }[verdict?.state];
  if (actions.length === 0 && otherwise) actions.push({ text: otherwise, why: verdict.reason, evidence: [] });
  return { run: run.name, split: run.split, step: run.points * PASS, epoch: run.points, rows: 2000, incomplete: false, ...verdict, coverage, actions };
}

/** Two rules: a limit that leaking runs cross at their tenth point, and rises that never come. */
export function alertsOf(runs) {
  const rules = [
    { name: "interconcept leakage is high", score: "icl_excess", split: "val", above: 0.05, scope: "run", severity: "critical", advise_stop: true },
    { name: "interconcept leakage rises", score: "icl_excess", split: "val", rise: 0.05, scope: "run", severity: "critical", advise_stop: true },
  ];
  const of = (run, rule, firing) => ({
    rule: rule.name, run: run.name, split: "val", score: rule.score, state: firing ? "firing" : "inactive", since: run.started + 75,
    evidence: firing ? "unclipped interconcept leakage (icl_excess) is 0.0654, above 0.05, for 2 evaluations"
      : "unclipped interconcept leakage (icl_excess) is 0.0654, its baseline 0.0210: 0.3 standard errors (SE 0.0020)",
    step: 10 * PASS, severity: rule.severity, advises_stop: firing, value: 0.0654, baseline: rule.rise ? 0.021 : null,
  });
  const standings = runs.flatMap((run) => rules.map((rule) => of(run, rule, rule.above !== undefined && run.lambda < 0.05)));
  return { rules, standings, changes: standings.filter(({ state }) => state === "firing") };
}

function matrixOf(run, id, at) {
  const k = run.concepts.length;
  const grown = level(run, id) * (1 - Math.exp(-at / 9));
  return run.concepts.map((_, i) => run.concepts.map((_, j) => {
    if (i === j) return 0;
    const block = i % 8 === j % 8 ? 2 : 0.4;
    const value = grown * (k > 8 ? block : 1) * (1 + 0.8 * noise(run.name, id, Math.min(i, j), Math.max(i, j)));
    return id.endsWith("excess") ? value - 0.04 : Math.max(0, value);
  }));
}

/**
 * Serves the page and the API. `grow(name)` makes a run's provisional point final, adds another and tells every listener.
 * @returns {Promise<{url: string, runs: object[], grow: (name: string, provisional?: boolean) => void,
 *   send: (event: string, data: object, number?: number) => void, close: () => Promise<void>}>}
 */
export async function serve({ port = 0, runs = world(), alerts = alertsOf(runs), faults = [] } = {}) {
  const listeners = new Set();
  const started = Date.now();
  const origin = randomUUID().replaceAll("-", "");
  let sent = 0;
  for (const run of runs) if (!run.finished) run.provisional = run.points;

  /** A run as lists have it. */
  const viewOf = (one) => ({
    name: one.name, title: one.title ?? null, note: one.note ?? null, finished: one.finished, open: !one.finished,
      state: one.finished ? "finished" : one.counts ? "training" : "lost", reason: null, updated: one.started + one.points * 7.5,
      started: one.started, activation_kind: "probability",
      concepts: one.concepts, tasks: one.tasks ?? [], labels: one.labels, ...one.ended,
    world_size: 1, splits: [one.split, ...(one.twin ? [one.twin] : [])].map((split) => ({
      split, window: one.counts ? "pass" : null, points: one.unevaluated ? 0 : one.points,
      last_step: one.unevaluated ? null : one.points * PASS,
      ...(one.counts ?? { rows_received: null, rows_duplicate: null, rows_dropped: null, passes_unsettled: null }),
    })),
  });

  /** A page of the runs, newest first, and where the next one begins. */
  function pageOf(query) {
    const sorted = runs.toSorted((a, b) => b.started - a.started);
    const [from, limit] = [Number(query.get("after") ?? 0), Number(query.get("limit") ?? Infinity)];
    return { page: sorted.slice(from, from + limit), next: from + limit < sorted.length ? String(from + limit) : null };
  }

  function api(path, query) {
    const run = runs.find((one) => one.name === query.get("run"));
    const at = query.get("step") === null ? run?.points : Number(query.get("step")) / PASS;
    const run_a = () => runs.find((one) => one.name === query.get("run_a"));
    switch (path) {
      case "status": return {
        version: "0.1.0", catalogue_version: 1, uptime_seconds: (Date.now() - started) / 1000, lag_seconds: 0.2, rows_dropped: 0,
        points_skipped: 0, memory_bytes: 38.2e6, memory_limit_bytes: 512e6, staleness_seconds: 3, cpu_share: 0.5, cpu_seconds: 1, estimator: "tie_aware",
      };
      case "alerts": return alerts;
      case "catalogue": return { scores: SCORES, of_task: OF_TASK, limits: LIMITS, rows: 500 };
      case "overview": {
        const { page, next } = pageOf(query);
        // One name on each line.
        const only = query.get("run")?.split("\n").flatMap((name) => runs.find((one) => one.name === name) ?? []);
        return { split: query.get("split"), pending: 0, next: only ? null : next, runs: (only ?? page).map((one) => rowOf(one, query.get("split"))) };
      }
      case "curves": return run ? curvesOf(run, query.get("scores").split(","), query.get("split")) : null;
      case "concepts": return run && { step: places(run).map((i) => i * PASS), epoch: places(run), concepts: run.concepts,
        values: run.concepts.map((_, c) => places(run).map((i) => valueAt(run, query.get("score"), i, c).value ?? null)) };
      case "unscored": return run && { passes: (run.unscored ?? []).map((step) =>
        ({ run: run.name, split: "val", step, time: run.started, outcome: "skipped",
        reason: "a newer evaluation replaced it before it was scored", rows_seen: 2000 })) };
      case "runs": {
        const { page, next } = pageOf(query);
        return { runs: page.map(viewOf), total: runs.length, next };
      }
      case "run": return run && viewOf(run);
      case "series": {
        const asked = SCORES.find(({ id }) => id === query.get("score"));
        if (!run || !hasScore(run, asked, 0)) return { points: [] };
        const concept = query.get("concept");
        const of = concept === null ? null : run.concepts.indexOf(concept);
        return { points: Array.from({ length: run.points + 1 }, (_, i) => {
          const { value = null, standard_error = null, undefined: why = null } = valueAt(run, query.get("score"), i, of);
          return { ...facts(run, i), value, standard_error: of === null ? standard_error : null, undefined: why, ...beside(run, asked.id, i, of) };
        }).filter((point, i) => hasScore(run, asked, i) && point.step >= Number(query.get("first_step") ?? 0)) };
      }
      case "point": return run?.split === query.get("split") && !run.unevaluated && pointOf(run, at, true);
      case "verdict": return run?.split === query.get("split") && !run.unevaluated && assessmentOf(run);
      case "compare": {
        if (query.get("by") !== null) return groupsOf(runs, query.get("by"));
        const twin = query.get("with_split");
        if (twin !== null) return run_a()?.twin === twin && splitsOf(run_a(), query.get("split"), twin);
        const [a, b] = ["run_a", "run_b"].map((key) => runs.find((one) => one.name === query.get(key)));
        return a && b && comparisonOf(a, b);
      }
      case "rows": return run && {
        score: query.get("score"), task: run.tasks?.at(-1) ?? null, step: at * PASS, value: 0.3,
        rows: [7, 3].map((id, i) => ({ id, local: query.get("concept") ? 0.5 : 0.4 - 0.1 * i, term: 0.9, task_label: i, group: null })),
      };
      case "matrix": return run && {
        step: at * PASS, concepts: run.concepts, matrix: matrixOf(run, query.get("score"), at),
        ...(query.get("score") === "icl_conditional" && { matrix_q: run.concepts.map((_, i) => run.concepts.map((_, j) => (i === j ? null : 0.034))) }),
        ...(run.aged && { ages: run.concepts.map((_, i) => run.concepts.map((_, j) => 15 * Math.abs(i - j))) }),
      };
      default: return null;
    }
  }

  const remembered = new Map();
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, "http://mock");
    response.setHeader("content-security-policy", CSP);
    if (url.pathname === "/api/v1/events") {
      response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
      response.write(`event: begin\nid: ${origin}-${sent}\ndata: {}\n\n`);
      listeners.add(response);
      request.on("close", () => listeners.delete(response));
      return;
    }
    if (url.pathname.startsWith("/api/v1/")) {
      response.setHeader("conceptwatch-mark", `${origin}-${sent}`);
      if (faults.some((path) => url.pathname.endsWith(path))) {
        response.writeHead(503, { "content-type": "application/json" });
        response.end(JSON.stringify({ error: { field: "history", message: "is being compacted" } }));
        return;
      }
      if (["PATCH", "DELETE"].includes(request.method)) {
        const at = runs.findIndex((one) => one.name === url.searchParams.get("run"));
        let body = "";
        for await (const part of request) body += part;
        if (request.method === "DELETE") {
          response.writeHead(204);
          response.end();
          runs.splice(at, 1);
        } else {
          for (const [key, value] of Object.entries(JSON.parse(body))) runs[at][key] = value || null;
          response.writeHead(200, { "content-type": "application/json" });
          response.end(JSON.stringify(viewOf(runs[at])));
        }
        return;
      }
      const stateOf = (run) => [run.name, run.points, run.provisional, run.state, run.aged, run.lambda, run.left, run.passed];
      const asked = `${url.pathname}${url.search} ${JSON.stringify(runs.map(stateOf))}`;
      const body = remembered.get(asked) ?? api(url.pathname.slice(8), url.searchParams);
      // An answer that was computed once is only sent again: it is the page that is measured.
      if (/(overview|curves)$/.test(url.pathname)) remembered.set(asked, body);
      response.writeHead(body ? 200 : 404, { "content-type": "application/json" });
      response.end(JSON.stringify(body ?? { error: { field: "run", message: "no such run" } }));
      return;
    }
    const name = url.pathname === "/" ? "index.html" : url.pathname.match(/^\/assets\/((?:[a-z]+\/)?[a-z_.]+)$/)?.[1];
    const body = name && await readFile(join(WEB, name)).catch(() => null);
    response.writeHead(body ? 200 : 404, { "content-type": TYPES[extname(name ?? "")] ?? "text/plain" });
    response.end(body ?? "not found");
  });
  await new Promise((done) => server.listen(port, "127.0.0.1", done));

  /** Paths that answer with an error; a test changes them. */
  const broken = faults;
  /** Sends an event, which counts as the next unless it has a number. */
  const send = (event, data, number = sent += 1) => {
    for (const listener of listeners) listener.write(`event: ${event}\nid: ${origin}-${number}\ndata: ${JSON.stringify(data)}\n\n`);
  };
  return {
    url: `http://127.0.0.1:${server.address().port}`, runs, faults: broken, send,
    grow(name, provisional = false) {
      const run = runs.find((one) => one.name === name);
      if (run.provisional === run.points) {
        run.provisional = null;
        send("point", pointOf(run, run.points, false));
      }
      run.points += 1;
      run.provisional = provisional ? run.points : null;
      send("point", pointOf(run, run.points, false));
    },
    close: () => new Promise((done) => {
      server.close(done);
      server.closeAllConnections();
    }),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const option = (type, value) => ({ type, default: value });
  const { values } = parseArgs({ options: {
    port: option("string", "7801"), runs: option("string", "2"), concepts: option("string", "3"), points: option("string", "30"),
    live: option("boolean", false), empty: option("boolean", false),
  } });
  const runs = values.empty ? [] : world({ runs: Number(values.runs), concepts: Number(values.concepts), points: Number(values.points) });
  const mock = await serve({ port: Number(values.port), runs });
  console.log(mock.url);
  if (values.live) setInterval(() => runs.filter((run) => !run.finished).forEach((run) => mock.grow(run.name)), 1000);
}
