//! Invalid names.

/// The fault, the name, and the text of the refusal.
pub fn hostile() -> Vec<(&'static str, String, &'static str)> {
    let hidden = "expected text without control characters";
    vec![
        ("empty", String::new(), "expected 1 to 200 characters"),
        ("over-long", "é".repeat(201), "expected 1 to 200 characters"),
        ("enormous", "a".repeat(1 << 20), "expected 1 to 200 characters"),
        ("with a new line", "a\nb".into(), hidden),
        ("with a zero byte", "a\0b".into(), hidden),
        ("with a terminal escape", "\u{1b}[31mred".into(), hidden),
        ("with a second sample", "a\"} 1\nx{b=\"".into(), hidden),
        ("that reads backwards", "a\u{202e}b".into(), hidden),
        ("with a joiner at its end", "a\u{200d}".into(), "joins nothing"),
        ("with a filler", "a\u{3164}".into(), hidden),
        ("of two lines", "a\u{2028}b".into(), hidden),
        ("of two paragraphs", "a\u{2029}b".into(), hidden),
        ("blank", " \u{3000}".into(), "is blank"),
        ("decomposed", "e\u{301}preuve".into(), "normalisation form C"),
    ]
}
