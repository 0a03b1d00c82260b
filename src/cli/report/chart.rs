//! The charts of a report, as SVG. Colours are classes of the style sheet, so that they follow light and dark.

use super::html::{escaped, number};
use leakage::field_error::printable;

/// Bars and cells of more concepts than this are those of the highest alone.
const MOST: usize = 112;
/// Up to here a cell of a heat map says its value to a pointer; more would be megabytes.
const TIPS: usize = 48;

const WIDTH: f64 = 220.0;

/// Length of a name beside a heat map, in pixels and in characters.
const NAME: f64 = 122.0;
const NAME_CHARACTERS: usize = 20;

/// A value and its interval on the range of its score; an endless range ends a little beyond the interval.
pub fn interval(value: f64, half: Option<f64>, range: (f64, f64)) -> String {
    let half = half.unwrap_or(0.0);
    let reach = (value.abs() + half).max(1e-9) * 1.25;
    let least = if range.0.is_finite() { range.0.min(value - half) } else { (-reach).min(0.0) };
    let most = if range.1.is_finite() { range.1.max(value + half) } else { reach };
    let x = |value: f64| 6.0 + (WIDTH - 12.0) * ((value - least) / (most - least).max(1e-12)).clamp(0.0, 1.0);
    let zero = (least..=most)
        .contains(&0.0)
        .then(|| format!("<line class=\"zero\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"3\" y2=\"17\"/>", x(0.0)));
    format!(
        "<svg class=\"interval\" viewBox=\"0 0 {WIDTH} 20\" role=\"img\" aria-label=\"{value:.4} in {least:.3} to {most:.3}\">\
         <line class=\"axis\" x1=\"6\" x2=\"{:.1}\" y1=\"10\" y2=\"10\"/>{}\
         <line class=\"whisker\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"10\" y2=\"10\"/><circle class=\"dot\" cx=\"{:.1}\" cy=\"10\" r=\"4\"/></svg>",
        WIDTH - 6.0,
        zero.unwrap_or_default(),
        x(value - half),
        x(value + half),
        x(value)
    )
}

/// Positions of values, highest first, undefined ones last.
fn order(values: &[Option<f64>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    let key = |at: usize| values[at].unwrap_or(f64::NEG_INFINITY);
    order.sort_by(|&a, &b| key(b).total_cmp(&key(a)).then(a.cmp(&b)));
    order
}

fn left_out(of: usize) -> String {
    if of > MOST { format!("<p class=\"none\">The {MOST} highest of {of}.</p>\n") } else { String::new() }
}

/// A bar for each concept, highest first; those below 0 point to the left.
pub fn bars(names: &[&str], values: &[Option<f64>]) -> String {
    let (least, most) =
        values.iter().flatten().fold((0.0f64, 0.0f64), |(least, most), &value| (least.min(value), most.max(value)));
    let place = |value: f64| 100.0 * (value - least) / (most - least).max(1e-9);
    let row = |at: usize| {
        let name = escaped(names[at]);
        match values[at] {
            Some(value) => {
                let sign = if value < 0.0 { " below" } else { "" };
                let (from, to) = (place(value.min(0.0)), place(value.max(0.0)));
                format!(
                    "<tr><th scope=\"row\">{name}</th><td><svg class=\"bar{sign}\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" \
                     aria-hidden=\"true\"><rect x=\"{from:.2}\" width=\"{:.2}\" height=\"10\"/></svg></td><td class=\"n\">{}</td></tr>\n",
                    to - from,
                    number(value, 4)
                )
            }
            None => format!("<tr><th scope=\"row\">{name}</th><td></td><td class=\"n none\">undefined</td></tr>\n"),
        }
    };
    let rows: String = order(values).into_iter().take(MOST).map(row).collect();
    format!(
        "<div class=\"wide\"><table class=\"bars\"><tbody>\n{rows}</tbody></table></div>\n{}",
        left_out(values.len())
    )
}

/// Pixels that a text takes at most, in a font of 12: what is beyond ASCII may be twice as wide, and capitals and signs are
/// wider.
fn width(text: &str) -> f64 {
    let of = |c: char| match c {
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 12.0,
        ' '..='~' if !c.is_ascii_uppercase() && !"&#+<=>~_".contains(c) => 7.5,
        ' '..='~' => 9.5,
        _ => 13.0,
    };
    text.chars().map(of).sum()
}

/// A name beside a heat map, cut where it is long, and what squeezes its letters where they may take more than [`NAME`].
fn fitting(name: &str) -> (String, String) {
    let mut short: String = name.chars().take(NAME_CHARACTERS).collect();
    if name.chars().count() > NAME_CHARACTERS {
        short.push('…');
    }
    let shown = printable(&short);
    let fit = match width(&shown) > NAME {
        true => format!(" textLength=\"{NAME}\" lengthAdjust=\"spacingAndGlyphs\""),
        false => String::new(),
    };
    (fit, escaped(&short))
}

/// A cell for each pair of concepts; of more than [`MOST`] those with the highest rows. The darkest is the highest value, or
/// `least` where that is higher, so that noise does not look like much.
pub fn heat(names: &[&str], matrix: &[Vec<Option<f64>>], least: f64) -> String {
    let highest: Vec<Option<f64>> = matrix.iter().map(|row| row.iter().flatten().copied().reduce(f64::max)).collect();
    let mut shown: Vec<usize> = order(&highest).into_iter().take(MOST).collect();
    shown.sort_unstable();
    let k = shown.len();
    let cell = |row: usize, column: usize| matrix[row].get(column).copied().flatten().filter(|_| row != column);
    let pairs = || shown.iter().flat_map(|&row| shown.iter().map(move |&column| (row, column)));
    let most = pairs().filter_map(|(row, column)| cell(row, column)).fold(least, f64::max).max(1e-9);
    let side = (560.0 / k as f64).clamp(5.0, 24.0);
    let named = k <= 32;
    let longest = shown.iter().map(|&at| width(&printable(names[at]))).fold(0.0, f64::max);
    let margin = if named { longest.min(NAME) + 10.0 } else { 2.0 };
    let mut svg = String::new();
    for (y, &row) in shown.iter().enumerate() {
        let at = margin + side * y as f64;
        if named {
            let (end, middle) = (margin - 6.0, at + side / 2.0 + 4.0);
            let (fit, name) = fitting(names[row]);
            svg += &format!("<text x=\"{end:.1}\" y=\"{middle:.1}\" text-anchor=\"end\"{fit}>{name}</text>");
            svg += &format!("<text transform=\"translate({middle:.1} {end:.1}) rotate(-90)\"{fit}>{name}</text>");
        }
        for (x, &column) in shown.iter().enumerate() {
            let class = match cell(row, column) {
                None => "h0".to_owned(),
                Some(value) => format!("h{}", ((5.0 * value / most).ceil() as usize).clamp(1, 5)),
            };
            let tip = match cell(row, column) {
                Some(value) if k <= TIPS => {
                    format!("<title>{} → {}: {}</title>", escaped(names[row]), escaped(names[column]), number(value, 4))
                }
                _ => String::new(),
            };
            svg += &format!(
                "<rect class=\"{class}\" x=\"{:.1}\" y=\"{at:.1}\" width=\"{size:.1}\" height=\"{size:.1}\">{tip}</rect>",
                margin + side * x as f64,
                size = side - if side > 8.0 { 1.0 } else { 0.0 }
            );
        }
    }
    let size = margin + side * k as f64 + 2.0;
    let step = |at: usize| format!("<span class=\"h{at}\"></span>{:.3}", most * at as f64 / 5.0);
    let legend: String = if most < 5e-4 {
        "no pair is above 0".into()
    } else {
        "up to ".to_owned() + &(1..=5).map(step).collect::<String>()
    };
    format!(
        "<div class=\"wide\"><svg class=\"heat\" width=\"{size:.0}\" height=\"{size:.0}\" role=\"img\" aria-label=\"values of {k} by {k} pairs, at most {most:.4}\">{svg}</svg></div>\n\
         <p class=\"legend\">{legend}</p>\n{}",
        left_out(names.len())
    )
}

/// A line through the points that are defined, with its ends named. Zero is on it, so that small changes look small.
pub fn curve(points: &[(f64, Option<f64>)]) -> String {
    let defined: Vec<(f64, f64)> = points.iter().filter_map(|&(x, y)| Some((x, y?))).collect();
    let bounds = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
    };
    let ((left, right), (low, high)) =
        (bounds(&mut defined.iter().map(|point| point.0)), bounds(&mut defined.iter().map(|point| point.1)));
    let (low, high) = (low.min(0.0), high.max(0.0));
    if defined.is_empty() {
        return "<p class=\"none\">undefined</p>\n".to_owned();
    }
    let scaled = |value: f64, least: f64, most: f64| (value - least) / (most - least).max(1e-12);
    let place = |&(x, y): &(f64, f64)| {
        format!("{:.1},{:.1}", 60.0 + 500.0 * scaled(x, left, right), 170.0 - 150.0 * scaled(y, low, high))
    };
    let line: Vec<String> = defined.iter().map(place).collect();
    format!(
        "<div class=\"wide\"><svg class=\"curve\" width=\"580\" height=\"200\" viewBox=\"0 0 580 200\" role=\"img\" aria-label=\"from {low:.4} to {high:.4}\">\
         <line class=\"axis\" x1=\"60\" x2=\"560\" y1=\"170\" y2=\"170\"/><line class=\"axis\" x1=\"60\" x2=\"60\" y1=\"20\" y2=\"170\"/>\
         <text x=\"54\" y=\"24\" text-anchor=\"end\">{}</text><text x=\"54\" y=\"174\" text-anchor=\"end\">{}</text>\
         <text x=\"60\" y=\"190\">{left}</text><text x=\"560\" y=\"190\" text-anchor=\"end\">{right}</text>\
         <polyline points=\"{}\"/></svg></div>\n",
        number(high, 3),
        number(low, 3),
        line.join(" ")
    )
}
