//! The changes that a declaration may make to a stored run, and the names that it may take.

use serde_json::Value;

use super::error::HistoryError;
use leakage::field_error::in_short;
use leakage::name::MAX_NAME;
use leakage::run::{Run, RunFields};

/// The name `declared` with a number, shortened where it would be too long.
pub(super) fn numbered(declared: &str, number: u64) -> String {
    let suffix = format!("-{number}");
    declared.chars().take(MAX_NAME - suffix.len()).chain(suffix.chars()).collect()
}

/// The run under another name.
pub(super) fn named(run: &Run, name: String) -> Result<Run, HistoryError> {
    let fields = RunFields { name, ..RunFields::clone(run) };
    Run::try_from(fields).map_err(|fault| HistoryError::invalid(fault.field, fault.message))
}

/// Errors at the first difference other than `world_size`. Both texts go through the same parser, so that equal numbers
/// compare equal.
pub(super) fn same_declaration(run: &str, stored: &str, got: &str) -> Result<(), HistoryError> {
    let (mut stored, mut got): (Value, Value) = (serde_json::from_str(stored)?, serde_json::from_str(got)?);
    // A job may restart with more or fewer ranks; any other difference would make the curve incomparable.
    for declaration in [&mut stored, &mut got] {
        declaration.as_object_mut().and_then(|fields| fields.remove("world_size"));
    }
    match first_difference("run", &stored, &got) {
        None => Ok(()),
        Some((field, stored, came)) => {
            Err(HistoryError::DeclarationDiffers { run: run.to_owned(), field, stored, came })
        }
    }
}

/// Path of the first field that differs, and both values as short text.
fn first_difference(path: &str, stored: &Value, got: &Value) -> Option<(String, String, String)> {
    match (stored, got) {
        (a, b) if a == b => None,
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            keys.into_iter().find_map(|key| {
                let side = |object: &serde_json::Map<String, Value>| object.get(key).cloned().unwrap_or(Value::Null);
                first_difference(&format!("{path}.{key}"), &side(a), &side(b))
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(i, (a, b))| first_difference(&format!("{path}[{i}]"), a, b))
        }
        (a, b) => Some((path.to_owned(), described(a), described(b))),
    }
}

fn described(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Array(items) => format!("{} items", items.len()),
        Value::Object(fields) => format!("{} fields", fields.len()),
        other => in_short(&other.to_string()),
    }
}
