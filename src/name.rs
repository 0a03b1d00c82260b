//! Names of runs, splits, concepts, clients, labels and alert rules.
//!
//! Names are data, never paths or code: any text that a person can read is one, and each output escapes it.

use unicode_normalization::is_nfc;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

use crate::fault::Fault;

/// Most characters (code points) of a name.
pub const MAX_NAME: usize = 200;

/// Errors unless `name` is 1 to [`MAX_NAME`] code points of Unicode text in normalisation form C, not blank, without
/// control characters (Cc), formatting characters (Cf), and separators of lines (Zl) and paragraphs (Zp).
///
/// Normalised text has one spelling for what looks the same; control and formatting characters could forge a line of a
/// log or reverse the text that follows.
pub fn check_name(field: &str, name: &str) -> Result<(), Fault> {
    let characters = name.chars().take(MAX_NAME + 1).count();
    if characters == 0 || characters > MAX_NAME {
        let got = if characters == 0 { "none".to_owned() } else { format!("{} bytes", name.len()) };
        return Err(Fault::new(field, format!("got {got}, expected 1 to {MAX_NAME} characters")));
    }
    if let Some(character) = name.chars().find(|character| is_hidden(*character)) {
        let message =
            format!("has the character {}, expected text without control characters", character.escape_unicode());
        return Err(Fault::new(field, message));
    }
    if name.chars().all(char::is_whitespace) {
        return Err(Fault::new(field, "is blank, expected text"));
    }
    if !is_nfc(name) {
        return Err(Fault::new(field, "is not in Unicode normalisation form C (NFC), expected composed characters"));
    }
    Ok(())
}

/// As [`check_name`], for a name that may be left out: then it is empty.
pub fn check_optional_name(field: &str, name: &str) -> Result<(), Fault> {
    if name.is_empty() { Ok(()) } else { check_name(field, name) }
}

/// Whether a character changes how text is shown and is not seen itself.
fn is_hidden(character: char) -> bool {
    use GeneralCategory::{Control, Format, LineSeparator, ParagraphSeparator};
    // Each message has names, and most are ASCII: the tables of Unicode took 0.5 % of ingest.
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    matches!(character.general_category(), Control | Format | LineSeparator | ParagraphSeparator)
}
