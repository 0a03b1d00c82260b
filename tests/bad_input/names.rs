//! Invalid names.

/// The fault, the name, and the text of the refusal.
pub fn hostile() -> Vec<(&'static str, String, &'static str)> {
    let characters = "expected letters, digits";
    vec![
        ("empty", String::new(), "expected 1 to 128"),
        ("over-long", "a".repeat(129), "expected 1 to 128"),
        ("enormous", "a".repeat(1 << 20), "expected 1 to 128"),
        ("with a new line", "a\nb".into(), characters),
        ("with a zero byte", "a\0b".into(), characters),
        ("with a terminal escape", "\u{1b}[31mred".into(), characters),
        ("of HTML", "<script>alert(1)</script>".into(), characters),
        ("with a quote", "a\"} 1\nx{b=\"".into(), characters),
        ("of a Windows path", "..\\..\\secret".into(), characters),
        ("with an accent", "épreuve".into(), characters),
        ("that reads backwards", "a\u{202e}b".into(), characters),
    ]
}
