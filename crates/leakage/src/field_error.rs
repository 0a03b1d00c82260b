//! Errors that name the field of a received value, and how messages quote such values.

/// A refused value: the field, and a message of the form "got X, expected Y".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct FieldError {
    /// Path of the field, such as `tensors.task_labels.shape`.
    pub field: String,
    pub message: String,
}

impl FieldError {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// An error with its causes, as one line.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Maximum number of characters quoted from a peer's text: the maximum length of a name.
const QUOTED: usize = 128;

/// Escapes text of unknown origin for a message or the log, and cuts it where it is long.
pub fn in_short(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => printable(&text[..end]) + "…",
        None => printable(text),
    }
}

/// `text` on one line that is safe to print on a terminal: characters that do not print are escaped.
pub fn printable(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\'' | '"' | '\\' => line.push(c),
            _ => line.extend(c.escape_debug()),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted_in_full_and_a_longer_text_is_cut() {
        assert_eq!(in_short(&"é".repeat(128)), "é".repeat(128));
        assert_eq!(in_short(&"é".repeat(129)), "é".repeat(128) + "…");
    }

    #[test]
    fn unprintable_characters_are_escaped_and_quotes_stay() {
        assert_eq!(in_short("it's \"a\"\n\u{1b}[2J\u{202e}"), "it's \"a\"\\n\\u{1b}[2J\\u{202e}");
        assert_eq!(in_short("Größe 数"), "Größe 数");
    }
}
