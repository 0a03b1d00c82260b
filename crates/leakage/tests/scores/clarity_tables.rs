//! Recomputes every row of the Clarity paper's tables from its components, and generates `docs/clarity.md`
//! (`UPDATE_DOCS=1 cargo test --test scores`). `golden/clarity.csv` has the rows.

use std::fmt::Write;

use leakage::score::clarity::harmonic_mean;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/clarity.md");

/// A row as printed, with all digits, which bound the unrounded values.
struct Row {
    table: u8,
    name: &'static str,
    /// Clarity, accuracy in percent, sparsity and precision.
    printed: [&'static str; 4],
}

fn rows() -> Vec<Row> {
    let read = |line: &'static str| {
        let fields: Vec<&str> = line.splitn(6, ',').collect();
        Row { table: fields[0].parse().unwrap(), name: fields[5], printed: fields[1..5].try_into().unwrap() }
    };
    include_str!("../golden/clarity.csv").lines().skip(1).map(read).collect()
}

/// Bounds on a printed number before rounding. `padded` treats trailing zeros as padding.
fn bounds(printed: &str, padded: bool) -> [f64; 2] {
    let printed = if padded { printed.trim_end_matches('0') } else { printed };
    let decimals = printed.split_once('.').map_or(0, |(_, digits)| digits.len());
    let half = 0.5 * 10f64.powi(-(decimals as i32));
    let value: f64 = printed.parse().unwrap();
    [value - half, value + half]
}

/// Lowest and highest possible value of a form: the harmonic mean rises with each of its parts.
fn range(parts: &[[f64; 2]]) -> [f64; 2] {
    [0, 1].map(|end| harmonic_mean(&parts.iter().map(|part| (1.0, part[end])).collect::<Vec<_>>()))
}

/// The form that a row fits.
fn form_of(row: &Row) -> &'static str {
    let parts = |padded| {
        let [clarity, accuracy, sparsity, precision] = row.printed.map(|printed| bounds(printed, padded));
        let accuracy = accuracy.map(|percent| percent / 100.0);
        (clarity, [sparsity, precision, accuracy], [precision, accuracy])
    };
    let fits = |padded| {
        let (clarity, three, two) = parts(padded);
        let overlaps = |[low, high]: [f64; 2]| low <= clarity[1] && high >= clarity[0];
        (overlaps(range(&three)), overlaps(range(&two)))
    };
    match (fits(false), fits(true)) {
        ((true, true), _) => "either",
        ((true, false), _) => "three",
        ((false, true), _) => "two",
        (_, (true, true)) => "either, padded",
        (_, (true, false)) => "three, padded",
        (_, (false, true)) => "two, padded",
        _ => "neither",
    }
}

#[test]
fn every_row_of_the_paper_is_recomputed_from_its_components() {
    let rows = rows();
    let forms: Vec<(u8, &str, &str)> = rows.iter().map(|row| (row.table, row.name, form_of(row))).collect();
    let of = |table: u8, form: &str| forms.iter().filter(|(t, _, f)| *t == table && *f == form).count();
    // Table 6 and the Standard-CBM row use the two-component form, most of Table 4 the three-component form.
    assert_eq!(of(6, "two"), 10);
    assert!(
        forms.contains(&(4, "Standard-CBM", "two")) && forms.contains(&(4, "Predictor Bernoulli", "three, padded"))
    );
    // The TopK rows fit neither form.
    assert!(forms.iter().filter(|(_, name, _)| name.contains("TopK")).all(|(_, _, form)| *form == "neither"));
    let expected = render(&rows);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PATH, &expected).unwrap();
    }
    let written = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(written == expected, "docs/clarity.md is out of date: run UPDATE_DOCS=1 cargo test --test scores");
}

fn render(rows: &[Row]) -> String {
    let mut text = String::from(
        "# Clarity in the paper's tables\n\n\
         The paper (P2 in [scores.md](scores.md)) defines Clarity as the harmonic mean of sparsity, precision and task \
         accuracy (eq. 23), which is `clarity`; for models that do not aim at sparsity, as that of precision and \
         accuracy, which is `clarity_dense`. Its tables do not state which form a row uses. A test recomputes their \
         rows from the printed components: a form fits if some components that round to the printed ones give the \
         printed Clarity, \"padded\" if a trailing 0 must be padding.\n\n\
         | table | rows | three components | two | three, padded | neither |\n|---|--:|--:|--:|--:|--:|\n",
    );
    for table in [2, 4, 6, 7, 8] {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.table == table).collect();
        let counts = ["three", "two", "three, padded", "neither"]
            .map(|form| rows.iter().filter(|row| form_of(row) == form).count());
        writeln!(text, "| {table} | {} | {} |", rows.len(), counts.map(|count| count.to_string()).join(" | ")).unwrap();
    }
    text += "\nTable 6 and the Standard-CBM row of Table 4 use two components. The rows with TopK fit neither form.\n";
    text
}
