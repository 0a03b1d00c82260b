// A picture of the page: node screenshot.mjs URL OUT.png [--dark] [--width 1440] [--height 0] [--run NAME --step 1]
//
// Height 0 takes the whole page. With a run, the picture is taken as soon as the page shows this step of it, and it is an
// error if the run has ended by then.
import { parseArgs } from "node:util";
import { launch, settled } from "./chromium.mjs";

const text = (value) => ({ type: "string", default: value });
const { values, positionals: [url, out] } = parseArgs({ allowPositionals: true, options: {
  dark: { type: "boolean", default: false }, width: text("1440"), height: text("0"), run: text(""), step: text("1"),
} });
if (!url || !out) {
  console.error("usage: node screenshot.mjs URL OUT.png [--dark] [--width 1440] [--height 0] [--run NAME --step 1]");
  process.exit(2);
}
const RUN_MS = 300_000;

/** Whether a curve has come to the step. */
const reached = ([run, step]) => [...document.querySelectorAll('.chart[data-score="ctl"] .scatterlayer .trace')]
  .map((trace) => trace.__data__[0].trace).some(({ meta, name, x }) => meta === "line" && name === run && x.at(-1) >= step);

const browser = await launch();
try {
  const [width, height] = [Number(values.width), Number(values.height)];
  const page = await browser.newPage({ viewport: { width, height: height || 900 }, colorScheme: values.dark ? "dark" : "light" });
  page.on("console", (message) => { if (message.type() === "error") console.error(message.text()); });
  page.on("pageerror", (error) => console.error(error.stack));
  await page.goto(url);
  await settled(page);
  const fit = async (ms) => {
    const full = await page.evaluate(() => ["main", "header", "#alerts"].reduce((sum, one) => sum + document.querySelector(one).scrollHeight, 4));
    await page.setViewportSize({ width, height: Math.max(600, full) });
    await page.waitForTimeout(ms);
  };
  if (!height) await fit(800);
  if (values.run) {
    await page.waitForFunction(reached, [values.run, Number(values.step)], { timeout: RUN_MS });
    // The run goes on: its row made the page a little higher, and little time is left.
    if (!height) await fit(100);
  }
  await page.screenshot({ path: out });
  if (values.run) {
    const state = await page.locator(`.runs li[data-run="${values.run}"] .state`).innerText();
    if (state !== "live") throw new Error(`'${values.run}' is ${state}: the picture does not show it in training`);
  }
} finally {
  await browser.close();
}
