//! Recomputes every row of the Clarity paper's tables from its components, and generates `docs/clarity.md`
//! (`UPDATE_DOCS=1 cargo test --test scores`).

use std::fmt::Write;

use leakage::score::clarity::harmonic_mean;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/clarity.md");

/// Clarity, accuracy in percent, sparsity and precision as printed, with all digits, which bound the unrounded values.
struct Row {
    table: u8,
    name: &'static str,
    printed: [&'static str; 4],
}

const fn row(table: u8, name: &'static str, printed: [&'static str; 4]) -> Row {
    Row { table, name, printed }
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row(2, "CUB, B/16, VLM ℓ1", ["0.36", "58.7", ".980", ".181"]),
    row(2, "CUB, B/16, VLM ℓ0", ["0.32", "76.6", ".838", ".148"]),
    row(2, "CUB, B/16, VLM Bernoulli", ["0.40", "69.7", ".955", ".196"]),
    row(2, "CUB, B/16, predictor ℓ1", ["0.63", "71.2", ".927", ".444"]),
    row(2, "CUB, B/16, predictor ℓ0", ["0.54", "73.5", ".821", ".331"]),
    row(2, "CUB, B/16, predictor Bernoulli", ["0.69", "69.6", ".962", ".527"]),
    row(2, "CUB, L/14, VLM ℓ1", ["0.37", "68.8", ".974", ".175"]),
    row(2, "CUB, L/14, VLM ℓ0", ["0.33", "83.2", ".837", ".153"]),
    row(2, "CUB, L/14, VLM Bernoulli", ["0.38", "76.4", ".956", ".182"]),
    row(2, "CUB, L/14, predictor ℓ1", ["0.67", "77.3", ".941", ".474"]),
    row(2, "CUB, L/14, predictor ℓ0", ["0.56", "80.0", ".843", ".339"]),
    row(2, "CUB, L/14, predictor Bernoulli", ["0.72", "77.5", ".966", ".538"]),
    row(2, "SUN, B/16, VLM ℓ1", ["0.31", "55.4", ".810", ".153"]),
    row(2, "SUN, B/16, VLM ℓ0", ["0.22", "60.5", ".566", ".101"]),
    row(2, "SUN, B/16, VLM Bernoulli", ["0.28", "56.5", ".726", ".133"]),
    row(2, "SUN, B/16, predictor ℓ1", ["0.40", "51.6", ".816", ".227"]),
    row(2, "SUN, B/16, predictor ℓ0", ["0.43", "54.9", ".788", ".258"]),
    row(2, "SUN, B/16, predictor Bernoulli", ["0.49", "52.2", ".863", ".327"]),
    row(2, "SUN, L/14, VLM ℓ1", ["0.32", "60.2", ".793", ".152"]),
    row(2, "SUN, L/14, VLM ℓ0", ["0.23", "65.1", ".557", ".104"]),
    row(2, "SUN, L/14, VLM Bernoulli", ["0.28", "62.0", ".718", ".131"]),
    row(2, "SUN, L/14, predictor ℓ1", ["0.41", "57.3", ".825", ".232"]),
    row(2, "SUN, L/14, predictor ℓ0", ["0.45", "59.7", ".801", ".270"]),
    row(2, "SUN, L/14, predictor Bernoulli", ["0.51", "56.4", ".874", ".345"]),
    row(4, "Standard-CBM", ["0.6345", "61.69", ".9359", "0.6531"]),
    row(4, "Post-Hoc CBM", ["0.2463", "55.50", ".8320", "0.1090"]),
    row(4, "Label-Free CBM", ["0.0020", "74.14", ".9024", "0.0006"]),
    row(4, "Sparse-CBM", ["0.2127", "34.16", ".8380", "0.1001"]),
    row(4, "VLM TopK-32", ["0.2313", "43.16", ".9000", "0.1713"]),
    row(4, "Predictor TopK-32", ["0.5672", "60.72", ".9000", "0.5473"]),
    row(4, "VLM Bernoulli", ["0.3830", "76.35", ".9560", "0.1825"]),
    row(4, "Predictor Bernoulli", ["0.7170", "77.48", ".9660", "0.5377"]),
    row(6, "τ = 1e-4", ["0.1868", "81.09", "0.0437", "0.1056"]),
    row(6, "τ = 1e-3", ["0.2178", "81.28", "0.2014", "0.1257"]),
    row(6, "τ = 1e-2", ["0.3065", "81.07", "0.4806", "0.1890"]),
    row(6, "τ = 2e-2", ["0.3488", "81.11", "0.5659", "0.2222"]),
    row(6, "τ = 5e-2", ["0.4201", "80.52", "0.6763", "0.2842"]),
    row(6, "τ = 1e-1", ["0.4875", "79.26", "0.7584", "0.3520"]),
    row(6, "τ = 3e-1", ["0.6081", "72.38", "0.8831", "0.5243"]),
    row(6, "τ = 5e-1", ["0.6345", "61.69", "0.9359", "0.6531"]),
    row(6, "τ = 7e-1", ["0.5818", "46.87", "0.9675", "0.7667"]),
    row(6, "τ = 9e-1", ["0.2616", "15.37", "0.9919", "0.8779"]),
    row(7, "Predictor TopK-4", ["0.3135", "22.60", "0.987", "0.8027"]),
    row(7, "Predictor TopK-8", ["0.4392", "34.12", "0.974", "0.7538"]),
    row(7, "Predictor TopK-16", ["0.5588", "47.82", "0.949", "0.6755"]),
    row(7, "Predictor TopK-32", ["0.5672", "60.72", "0.900", "0.5473"]),
    row(7, "Predictor TopK-64", ["0.5168", "70.80", "0.800", "0.3834"]),
    row(7, "VLM TopK-4", ["0.1949", "21.65", "0.987", "0.2158"]),
    row(7, "VLM TopK-8", ["0.2206", "28.20", "0.974", "0.2118"]),
    row(7, "VLM TopK-16", ["0.2249", "34.20", "0.949", "0.1919"]),
    row(7, "VLM TopK-32", ["0.2313", "43.16", "0.900", "0.1713"]),
    row(7, "VLM TopK-64", ["0.2137", "50.62", "0.800", "0.1406"]),
    row(8, "PostHoc, low sparsity", ["0.2357", "56.37", "0.7652", "0.1037"]),
    row(8, "PostHoc, mid regime", ["0.2400", "56.39", "0.7926", "0.1057"]),
    row(8, "PostHoc, transition", ["0.2432", "56.42", "0.8083", "0.1072"]),
    row(8, "PostHoc, high sparsity", ["0.2366", "49.64", "0.9009", "0.1047"]),
    row(8, "Label-Free, low sparsity", ["0.0017", "74.06", "0.8842", "0.0006"]),
    row(8, "Label-Free, mid regime", ["0.0019", "73.73", "0.9247", "0.0006"]),
    row(8, "Label-Free, transition", ["0.0020", "73.23", "0.9413", "0.0007"]),
    row(8, "Label-Free, high sparsity", ["0.0030", "32.95", "0.9891", "0.0010"]),
    row(8, "Sparse, low sparsity", ["0.0282", "63.73", "0.0105", "0.1009"]),
    row(8, "Sparse, mid regime", ["0.2001", "24.90", "0.9294", "0.1010"]),
    row(8, "Sparse, transition", ["0.1615", "12.97", "0.9758", "0.1016"]),
    row(8, "Sparse, high sparsity", ["0.0151", "0.66", "0.9994", "0.0221"]),
];

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
    let forms: Vec<(u8, &str, &str)> = ROWS.iter().map(|row| (row.table, row.name, form_of(row))).collect();
    let of = |table: u8, form: &str| forms.iter().filter(|(t, _, f)| *t == table && *f == form).count();
    // Table 6 and the Standard-CBM row use the two-component form, most of Table 4 the three-component form.
    assert_eq!(of(6, "two"), 10);
    assert!(
        forms.contains(&(4, "Standard-CBM", "two")) && forms.contains(&(4, "Predictor Bernoulli", "three, padded"))
    );
    // The TopK rows fit neither form.
    assert!(forms.iter().filter(|(_, name, _)| name.contains("TopK")).all(|(_, _, form)| *form == "neither"));
    let expected = render();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PATH, &expected).unwrap();
    }
    let written = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(written == expected, "docs/clarity.md is out of date: run UPDATE_DOCS=1 cargo test --test scores");
}

fn render() -> String {
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
        let rows: Vec<&Row> = ROWS.iter().filter(|row| row.table == table).collect();
        let counts = ["three", "two", "three, padded", "neither"]
            .map(|form| rows.iter().filter(|row| form_of(row) == form).count());
        writeln!(text, "| {table} | {} | {} |", rows.len(), counts.map(|count| count.to_string()).join(" | ")).unwrap();
    }
    text += "\nTable 6 and the Standard-CBM row of Table 4 use two components. The rows with TopK fit neither form.\n";
    text
}
