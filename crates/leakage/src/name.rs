//! Names of runs, splits, concepts, clients, labels and alert rules.
//!
//! Names are data, never paths or code: any text that a person can read is one, and each output escapes it.

use unicode_normalization::is_nfc;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

use crate::field_error::FieldError;

/// Most characters (code points) of a name.
pub const MAX_NAME: usize = 200;

/// Errors unless `name` is 1 to [`MAX_NAME`] code points of Unicode text in normalisation form C, with one that can be seen, and
/// without control characters (Cc), formatting characters (Cf), separators of lines (Zl) and paragraphs (Zp), and fillers.
/// The joiners U+200C and U+200D stand between two characters that can be seen, as in Persian, Sinhala and emoji.
///
/// Normalised text has one spelling for what looks the same; control and formatting characters could forge a line of a
/// log or reverse the text that follows.
pub fn check_name(field: &str, name: &str) -> Result<(), FieldError> {
    let characters = name.chars().count();
    if characters == 0 || characters > MAX_NAME {
        let got = if characters == 0 { "none".to_owned() } else { characters.to_string() };
        return Err(FieldError::new(field, format!("got {got}, expected 1 to {MAX_NAME} characters")));
    }
    check_shown(field, name)?;
    if !name.chars().any(is_seen) {
        return Err(FieldError::new(field, "is blank, expected text"));
    }
    if !joiners_join(name) {
        let message = "has a joiner (U+200C or U+200D) that joins nothing, expected it between two characters";
        return Err(FieldError::new(field, message));
    }
    if !is_nfc(name) {
        return Err(FieldError::new(
            field,
            "is not in Unicode normalisation form C (NFC), expected composed characters",
        ));
    }
    Ok(())
}

/// As [`check_name`], for a name that may be left out: then it is empty.
pub fn check_optional_name(field: &str, name: &str) -> Result<(), FieldError> {
    if name.is_empty() { Ok(()) } else { check_name(field, name) }
}

/// Checks a line of text, which may be empty.
pub fn check_text(field: &str, text: &str, most: usize) -> Result<(), FieldError> {
    let characters = text.chars().count();
    if characters > most {
        return Err(FieldError::new(field, format!("got {characters} characters, expected at most {most}")));
    }
    check_shown(field, text)
}

/// Errors where a character is not shown as itself.
fn check_shown(field: &str, text: &str) -> Result<(), FieldError> {
    let hidden = text.chars().find(|character| is_hidden(*character));
    hidden.map_or(Ok(()), |character| {
        let message =
            format!("has the character {}, expected text without control characters", character.escape_unicode());
        Err(FieldError::new(field, message))
    })
}

/// Zero width non-joiner and joiner.
const JOINERS: [char; 2] = ['\u{200C}', '\u{200D}'];

/// Whether a character can be seen on its own: no joiner, selector of a variation, or blank pattern of Braille.
fn is_seen(character: char) -> bool {
    let selects = matches!(character, '\u{180B}'..='\u{180F}' | '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}');
    !(character.is_whitespace() || JOINERS.contains(&character) || selects || character == '\u{2800}')
}

/// Whether every joiner stands after and before another character.
fn joiners_join(name: &str) -> bool {
    let apart = |piece: &str| {
        piece.is_empty() || piece.starts_with(char::is_whitespace) || piece.ends_with(char::is_whitespace)
    };
    name.is_ascii() || !name.contains(JOINERS) || !name.split(JOINERS).any(apart)
}

/// Whether a character changes how text is shown and is not seen itself.
fn is_hidden(character: char) -> bool {
    use GeneralCategory::{Control, Format, LineSeparator, ParagraphSeparator};
    // Each message has names, and most are ASCII: the tables of Unicode took 0.5 % of ingest.
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    match character {
        '\u{200C}' | '\u{200D}' => false,
        // Fillers: letters and marks without a form of their own.
        '\u{34F}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{3164}' | '\u{FFA0}' => true,
        _ => matches!(character.general_category(), Control | Format | LineSeparator | ParagraphSeparator),
    }
}
