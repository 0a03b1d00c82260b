// The part of plotly.js that the page uses. The page loads it as a script, so it is a global; what it draws with and
// what it reports in events stay untyped.
interface Window {
  Plotly: typeof Plotly;
}

declare namespace Plotly {
  const Plots: { resize(plot: Element): void };
  function react(plot: Element, traces: unknown[], layout: object, config: object): Promise<unknown>;
  function relayout(plot: Element, change: object): Promise<unknown>;
  function purge(plot: Element): void;
  function toImage(plot: Element, options: object): Promise<string>;
}
