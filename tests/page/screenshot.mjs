// A picture of the page: node screenshot.mjs URL OUT.png [--dark] [--width 1440] [--height 0] [--scale 1] [--run NAME --step 1]
//
// URL may have the address of a view. Height 0 takes the whole page. With a run, the picture is taken as soon as the page
// shows this step of it, and it is an error if the run has ended by then.
import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { launch, settled } from "./chromium.mjs";
import { small } from "./png.mjs";

const text = (value) => ({ type: "string", default: value });
const { values, positionals: [url, out] } = parseArgs({ allowPositionals: true, options: {
  dark: { type: "boolean", default: false }, width: text("1440"), height: text("0"), scale: text("1"), run: text(""), step: text("1"),
} });
if (!url || !out) {
  console.error("usage: node screenshot.mjs URL OUT.png [--dark] [--width 1440] [--height 0] [--scale 1] [--run NAME --step 1]");
  process.exit(2);
}
const RUN_MS = 300_000;

/** Whether a run has come to the step. */
const reached = async ([run, step]) => {
  const { runs } = await (await fetch(`api/v1/overview?${new URLSearchParams({ split: "val" })}`)).json();
  return runs.some((one) => one.name === run && (one.step ?? 0) >= step);
};

const browser = await launch();
try {
  const [width, height] = [Number(values.width), Number(values.height)];
  const page = await browser.newPage({ viewport: { width, height: height || 900 }, deviceScaleFactor: Number(values.scale),
    colorScheme: values.dark ? "dark" : "light" });
  page.on("console", (message) => { if (message.type() === "error") console.error(message.text()); });
  page.on("pageerror", (error) => console.error(error.stack));
  await page.goto(url);
  await settled(page);
  // Scores that join meanwhile make the page longer.
  const fit = async () => {
    const full = () => page.evaluate(() => document.documentElement.scrollHeight);
    for (let before = -1, now = await full(); now !== before; [before, now] = [now, await full()]) {
      await page.setViewportSize({ width, height: Math.max(600, now) });
      await page.waitForTimeout(800);
    }
  };
  if (!height) await fit();
  if (values.run) {
    // waitForFunction would take the promise itself for an answer.
    for (const until = Date.now() + RUN_MS; !(await page.evaluate(reached, [values.run, Number(values.step)]));) {
      if (Date.now() > until) throw new Error(`'${values.run}' has not come to step ${values.step}`);
      await page.waitForTimeout(300);
    }
    await page.waitForTimeout(600);
    if (!height) await fit();
  }
  await writeFile(out, await small(page, await page.screenshot()));
  if (values.run && (await page.locator(`.runs tr[data-run="${values.run}"] .live`)
    .count()) === 0) throw new Error(`'${values.run}' has ended: the picture does not show it in training`);
} finally {
  await browser.close();
}
