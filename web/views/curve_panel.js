// The curve behind a score: task accuracy over the share of concepts that an intervention sets, or a score over a threshold.
import { answers } from "../data/answers.js";
import { figure } from "../charts/figure.js";
import { HALF } from "../charts/lines.js";
import { options } from "./overview.js";
import { hueOf, lookOf } from "../palette.js";
import { titleOf } from "../data/prefs.js";
import { change } from "../data/state.js";
import { el, number, upper } from "../text.js";
import { nameOf, ofTask, scoreOf, tipOf, whoseText, withNames } from "../labels.js";

/**
 * @import { Point } from "../data/api.js"
 * @import { Shown } from "../data/shown.js"
 */

/** @param {HTMLElement} host @param {() => void} again draws the page again */
export function behindPanel(host, again) {
  const title = el("h2", {});
  const choose = el("select", { "aria-label": "Curve of", onchange: () => change({ behind: choose.value }) });
  const said = el("p", {});
  host.append(el("header", {}, title, el("div", { class: "end" }, choose), said));
  /** @type {ReturnType<typeof figure>|null} */
  let drawn = null;
  let of = "";
  /** @type {any} */
  let table = null;
  // A slow score is that of an evaluation before the newest.
  const earlier = answers("point", again);

  /** @param {Shown} shown @param {Point|null} point the newest evaluation, of the task that decides */
  return function draw(shown, point) {
    const { run, split, behind } = shown.view;
    const line = shown.lines[0];
    const known = [...line?.series?.scores ?? []].filter(([, { value }]) => value.some((one) => one !== null)).map(([id]) => id);
    const having = allWithCurves(point, known);
    host.hidden = having.length === 0 || !line;
    if (host.hidden) return;
    const score = having.includes(behind) ? behind : having[0];
    options(choose, withNames(having), score);
    choose.hidden = having.length < 2;
    const axes = scoreOf(score)?.curve;
    const task = shown.rows.get(run)?.verdict?.task;
    const whose = whoseText(score, line.run, task);
    let from = point;
    if (!point?.scores[score]?.curve) {
      const series = line.series;
      const values = series?.scores.get(score)?.value ?? [];
      const at = values.findLastIndex((value) => value !== null);
      from = at < 0 || !series ? null : ofTask(earlier({ run, split, step: String(series.step[at]) }, String(series.step[at])).body, line.run, task);
    }
    const curve = from?.scores[score]?.curve ?? [];
    if (!axes || !from) return;
    const interventions = score.endsWith("intervention_drop");
    title.textContent = score === "intervention_drop" ? "Effect of interventions" : `${axes.y} over the ${axes.x}`;
    const quality = typeof from.scores.task_r2?.value === "number" ? "R² of the task" : "Task accuracy";
    const name = interventions ? quality : axes.y;
    if (of !== score + name) {
      drawn?.remove();
      of = score + name;
      drawn = figure({ id: `behind-${score}`, name, unit: `over the ${axes.x}`, tip: tipOf(score),
        group: `behind-${score}`, csv: () => table });
      host.append(drawn.root);
    }
    const beside = axes.beside ? from.scores[axes.beside]?.curve ?? [] : [];
    const lineOf = (/** @type {string} */ name, /** @type {[number, number|null][]} */ values, /** @type {string} */ color, /** @type {number} */ look) =>
      ({ name, color, look, x: values.map(([x]) => x), y: values.map(([, y]) => y) });
    const lines = [lineOf(interventions ? "true values" : titleOf(run), curve, `--s${hueOf(line.slot)}`, lookOf(line.slot)),
      ...(beside.length ? [lineOf(interventions ? "wrong values" : nameOf(axes.beside ?? ""), beside, "--s5", lookOf(line.slot) === 3 ? 1 : 3)] : [])];
    const best = axes.best ? from.scores[axes.best]?.value : undefined;
    const positive = curve.every(([x]) => x > 0);
    drawn?.show({ lines, along: axes.x, zoom: null,
      logx: positive && curve.length > 1 && curve[curve.length - 1][0] / curve[0][0] > 50, logy: false, smooth: 0,
      text: (value) => number(value, 0.1), least: [0, 1], points: true },
        JSON.stringify([curve, beside, score, shown.theme, line.slot]));
    const undefinedAt = curve.filter(([, y]) => y === null).length;
    said.textContent = [whose && `${upper(whose)}.`, score === "intervention_drop" ? costText(from.scores[score], shown.limitOf(score)?.limit) : "",
      best !== undefined ? `Best at ${number(best)}.` : "", undefinedAt ? `Undefined at ${undefinedAt} of ${curve.length}.` : "",
      from !== point ? `From step ${from.step}, the newest evaluation with this score.` : ""].filter(Boolean).join(" ");
    const columns = ["run", "step", axes.x, name, ...(beside.length ? [`${name}: ${scoreOf(axes.beside ?? "")?.curve?.x}`] : [])];
    table = { name: `${score} ${run}`, columns, rows: curve.map(([x, y], i) => [run, from?.step, x, y, ...(beside.length ? [beside[i]?.[1]] : [])]) };
  };
}

/** Whether interventions cost accuracy, as the verdict has it. @param {Point["scores"][string]} drop @param {number} [limit] */
function costText({ value, standard_error: error }, limit) {
  if (typeof value !== "number" || limit === undefined) return "";
  const half = HALF * (error ?? 0);
  if (value - half > limit) return "Setting concepts to their true values should not cost accuracy. Here it does.";
  if (value + half < limit) return "Setting concepts to their true values costs no accuracy.";
  return "More rows would tell whether setting concepts to their true values costs accuracy.";
}

/** Scores with a curve, interventions first. @param {Point|null} point @param {string[]} known */
function allWithCurves(point, known) {
  const ids = new Set([...Object.keys(point?.scores ?? {}), ...known].filter((id) => scoreOf(id)?.curve));
  const beside = new Set([...ids].map((id) => scoreOf(id)?.curve?.beside));
  // Columns that were learnt with labels are matched to themselves.
  const says = (/** @type {string} */ id) => id !== "alignment" || point?.scores[id]?.curve?.some(([x, y]) => x !== y);
  const found = [...ids].filter((id) => !beside.has(id) && says(id) && (point?.scores[id]?.curve || !point?.scores[id]));
  return found.sort((a, b) => Number(b === "intervention_drop") - Number(a === "intervention_drop"));
}
