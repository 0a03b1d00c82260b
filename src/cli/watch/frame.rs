//! A frame: the watched runs as rows of a terminal, cut to its width and height.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Sparkline, SparklineBar, Widget};

use crate::server::proto::SeriesPoint;
use crate::server::run_state::State;
use leakage::diagnosis::VerdictState;
use leakage::limits::{SHOWN, plus_minus};

use super::lines::verdict_text;
use super::watched::{Curve, Watched, WatchedRun};

/// Levels of a bar.
const LEVELS: u64 = 8;
/// The most bars of a curve.
const BARS: usize = 60;

/// A row: text, and after it the bars of a curve.
struct Row {
    text: Line<'static>,
    bars: Option<Bars>,
}

/// The bars of a curve, whose heights are 1 to [`LEVELS`]; undefined values have none.
struct Bars {
    limit: Option<u64>,
    values: Vec<SparklineBar>,
}

/// Draws what fits into the area. Runs that do not fit are counted.
pub fn draw(watched: &Watched, area: Rect, buffer: &mut Buffer) {
    let mut rows = vec![header(watched)];
    let alerts = alerts(watched);
    let space = usize::from(area.height).saturating_sub(1 + alerts.len());
    let runs = runs(watched);
    let total = runs.len();
    let all_fit = runs.iter().map(Vec::len).sum::<usize>() <= space;
    for (at, run) in runs.into_iter().enumerate() {
        // The last row is for the count, unless all fit; of one run alone that is too high, the first rows are shown.
        if !all_fit && total > 1 && rows.len() + run.len() > space {
            rows.push(Row::of(Line::from(format!("… {} more of {total} runs", total - at)).dim()));
            break;
        }
        rows.extend(run);
    }
    rows.truncate(1 + space);
    rows.extend(alerts);
    for (row, y) in rows.iter().zip(area.top()..area.bottom()) {
        row.draw(area.x, y, area.width, buffer);
    }
}

/// Returns all rows as plain text of at most this width.
pub fn text(watched: &Watched, width: u16) -> String {
    let mut text = String::new();
    let rows = runs(watched).into_iter().flatten().chain(alerts(watched));
    for row in std::iter::once(header(watched)).chain(rows) {
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, 1));
        row.draw(0, 0, width, &mut buffer);
        let mut line = String::new();
        let mut covered = 0;
        for cell in buffer.content() {
            // A wide character covers the cell after its own.
            if covered == 0 {
                line += cell.symbol();
                covered = Span::raw(cell.symbol()).width();
            }
            covered = covered.saturating_sub(1);
        }
        text += &format!("{}\n", line.trim_end());
    }
    text
}

fn header(watched: &Watched) -> Row {
    let legend = "± 95 %, the first bar is the limit, values beyond it are red";
    Row::of(Line::from(format!("split {}; {legend}", watched.split)).dim())
}

fn alerts(watched: &Watched) -> Vec<Row> {
    watched.alerts.iter().map(|alert| Row::of(Line::from(alert.clone()))).collect()
}

/// The rows of each run, those that train first.
fn runs(watched: &Watched) -> Vec<Vec<Row>> {
    if watched.runs.is_empty() {
        return vec![vec![Row::of(Line::from("no curves yet"))]];
    }
    let mut runs: Vec<_> = watched.runs.iter().collect();
    runs.sort_by_key(|(_, run)| run.state != State::Training);
    runs.into_iter().map(|(name, run)| run_rows(watched, name, run)).collect()
}

fn run_rows(watched: &Watched, name: &str, run: &WatchedRun) -> Vec<Row> {
    let reason = if run.reason.is_empty() { String::new() } else { format!(": {}", run.reason) };
    let mut head = vec![Span::from(name.to_owned()).bold(), Span::from(format!("  {}{reason}", run.state))];
    if let Some(SeriesPoint { step, epoch, .. }) = run.newest() {
        let epoch = epoch.map_or_else(String::new, |epoch| format!("epoch {epoch}, "));
        head.push(format!("  {epoch}step {step}").into());
    }
    let mut rows = vec![Row::of(Line::from(head))];
    if let Some(verdict) = &run.verdict {
        let (word, text) = (verdict.state.to_string(), verdict_text(verdict));
        let rest = text.strip_prefix(&word).unwrap_or_default().to_owned();
        let word = Span::styled(word, Style::new().fg(colour_of(verdict.state)));
        rows.push(Row::of(Line::from(vec!["  ".into(), word, rest.into()])));
    }
    let width = watched.scores.iter().map(String::len).max().unwrap_or(0);
    for (score, curve) in watched.scores.iter().zip(&run.curves).filter(|(_, curve)| !curve.current.is_empty()) {
        rows.push(curve_row(score, width, curve));
        if let Some(newest) = curve.current.last().filter(|newest| newest.value.is_none()) {
            rows.push(Row::of(Line::from(format!("  {:width$}  undefined: {}", "", newest.undefined)).dim()));
        }
    }
    rows.extend(remark(run).map(|remark| Row::of(Line::from(format!("  {remark}")).dim())));
    rows
}

fn curve_row(score: &str, width: usize, curve: &Curve) -> Row {
    let limit = SHOWN.iter().find(|(id, ..)| *id == score);
    let is_beyond = |value: f64| limit.is_some_and(|(_, limit, above)| (value > *limit) == *above && value != *limit);
    let newest = curve.current.last().map(|one| (one.value, one.standard_error));
    let value = match newest {
        Some((Some(value), error)) => format!("{value:.4}{}", plus_minus(error)),
        _ => "–".to_owned(),
    };
    let red = |value: Option<f64>| match value {
        Some(value) if is_beyond(value) => Style::new().fg(Color::Red),
        _ => Style::new(),
    };
    let value = Span::styled(format!("{value:17}"), red(newest.and_then(|(value, _)| value)));
    let shown = limit.map_or_else(String::new, |(_, limit, _)| format!("limit {limit}"));
    let values: Vec<Option<f64>> = curve.current.iter().map(|one| one.value).collect();
    let values = &values[values.len().saturating_sub(BARS)..];
    let limit = limit.map(|(_, limit, _)| *limit);
    let level = scale(values.iter().flatten().copied().chain(limit));
    let bar = |value: &Option<f64>| SparklineBar::from(value.map(&level)).style(red(*value));
    let bars = Bars { limit: limit.map(&level), values: values.iter().map(bar).collect() };
    let text = vec![format!("  {score:width$}  ").into(), value, format!("  {shown:10}  ").into()];
    Row { text: Line::from(text), bars: Some(bars) }
}

/// Returns the level of a value on a scale from 0, or the lowest value if negative, to the highest.
fn scale(values: impl Iterator<Item = f64> + Clone) -> impl Fn(f64) -> u64 {
    let low = values.clone().fold(0.0, f64::min);
    let high = values.fold(low, f64::max);
    move |value| {
        let share = if high > low { (value - low) / (high - low) } else { 0.0 };
        1 + ((share * LEVELS as f64) as u64).min(LEVELS - 1)
    }
}

/// Returns what limits the reading of a run's curves.
fn remark(run: &WatchedRun) -> Option<String> {
    let age = run.age.map(|age| format!("pairs up to {age:.0} s old"));
    let left = run.curves.iter().map(|curve| &curve.left).max_by_key(|left| left.len());
    let left = left.and_then(|left| Some((left.len(), *left.last()?)));
    let left = left.map(|(count, last)| format!("left behind: {count} up to step {last}"));
    let remarks: Vec<String> = age.into_iter().chain(left).collect();
    (!remarks.is_empty()).then(|| remarks.join("; "))
}

fn colour_of(state: VerdictState) -> Color {
    match state {
        VerdictState::Leaking => Color::Red,
        VerdictState::PossiblyLeaking => Color::Yellow,
        VerdictState::Sound => Color::Green,
        VerdictState::NothingFound | VerdictState::TooEarly | VerdictState::CannotTell => Color::Reset,
    }
}

impl Row {
    fn of(text: Line<'static>) -> Self {
        Self { text, bars: None }
    }

    /// Draws the row; text that is too long ends in an ellipsis.
    fn draw(&self, x: u16, y: u16, width: u16, buffer: &mut Buffer) {
        let (end, _) = buffer.set_line(x, y, &self.text, width);
        if self.text.width() > usize::from(width) && width > 0 {
            buffer.set_string(x + width - 1, y, "…", Style::new());
        } else if let Some(bars) = &self.bars {
            bars.draw(Rect::new(end, y, x + width - end, 1), buffer);
        }
    }
}

impl Bars {
    /// Draws the limit, a gap and the newest values that fit.
    fn draw(&self, area: Rect, buffer: &mut Buffer) {
        let mut bars = Vec::new();
        if let Some(limit) = self.limit {
            bars.extend([SparklineBar::from(limit).style(Style::new().dim()), None::<u64>.into()]);
        }
        let space = usize::from(area.width).saturating_sub(bars.len());
        bars.extend_from_slice(&self.values[self.values.len().saturating_sub(space)..]);
        Sparkline::default().data(bars).max(LEVELS).absent_value_symbol(" ").render(area, buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluated(step: u64, value: Option<f64>) -> SeriesPoint {
        let (epoch, standard_error) = (Some(0.5 * step as f64), Some(0.01));
        SeriesPoint { step, epoch, value, standard_error, undefined: "one class".to_owned(), ..Default::default() }
    }

    /// A run with a curve of each score.
    fn watched(curves: &[(&str, &[Option<f64>])]) -> Watched {
        let scores: Vec<String> = curves.iter().map(|(score, _)| (*score).to_owned()).collect();
        let mut watched = Watched::new("val", &scores);
        for (curve, (_, values)) in watched.run("birds").curves.iter_mut().zip(curves) {
            curve.replace_from(0, (1..).zip(*values).map(|(step, value)| evaluated(step, *value)));
        }
        watched
    }

    fn drawn(watched: &Watched, width: u16, height: u16) -> Buffer {
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        draw(watched, buffer.area, &mut buffer);
        buffer
    }

    #[test]
    fn a_run_has_its_state_its_newest_evaluation_and_a_row_for_each_score() {
        let watched =
            watched(&[("ctl_conditional", &[Some(0.0), Some(0.08), Some(0.32)]), ("icl", &[Some(-0.1), None])]);
        let expected = "split val; ± 95 %, the first bar is the limit, values beyond it are red\n\
                        birds  training  epoch 1.5, step 3\n\
                        \x20 ctl_conditional  0.3200 ± 0.0196    limit 0.16  ▅ ▁▃█\n\
                        \x20 icl              –                              ▁\n\
                        \x20                  undefined: one class\n";
        assert_eq!(text(&watched, 100), expected);
    }

    #[test]
    fn values_beyond_the_limit_are_red() {
        let red = |score: &'static str, values: &[f64]| {
            let values: Vec<_> = values.iter().copied().map(Some).collect();
            let buffer = drawn(&watched(&[(score, &values)]), 100, 5);
            let bars = (0..100).map(|x| &buffer[(x, 2)]).filter(|cell| "▁▂▃▄▅▆▇█".contains(cell.symbol()));
            bars.skip(1).map(|cell| cell.fg == Color::Red).collect::<Vec<_>>()
        };
        assert_eq!(red("ctl_conditional", &[0.1, 0.16, 0.2]), [false, false, true]);
        assert_eq!(red("concept_accuracy", &[0.8, 0.9, 0.95]), [true, false, false]);
    }

    #[test]
    fn runs_that_do_not_fit_are_counted_and_the_alerts_stay() {
        let mut watched = watched(&[("ctl_conditional", &[Some(0.1)])]);
        for at in 0..9 {
            watched.run(&format!("run-{at}")).state = State::Finished;
        }
        watched.add_alert("FIRING".to_owned());
        let buffer = drawn(&watched, 40, 8);
        let row = |y: u16| (0..40).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        assert!(row(1).starts_with("birds  training"));
        assert_eq!((row(3), row(4)), ("run-0  finished".to_owned(), "run-1  finished".to_owned()));
        assert_eq!((row(6), row(7)), ("… 6 more of 10 runs".to_owned(), "FIRING".to_owned()));
        assert_eq!(row(5), "run-2  finished");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut watched = watched(&[("ctl", &[])]);
        watched.add_alert("鳥: alert".to_owned());
        assert!(text(&watched, 80).ends_with("\n鳥: alert\n"));
        assert!(text(&watched, 5).ends_with("\n鳥: …\n"));
    }
}
