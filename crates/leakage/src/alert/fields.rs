//! The flat form in which a rule is written: the keys and values of one TOML table or JSON object.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::field_error::in_short;

/// The keys of a rule that are still to be read, with their values.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct Fields(BTreeMap<String, Value>);

/// An error in a key of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFault {
    pub key: String,
    pub message: String,
}

impl KeyFault {
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into() }
    }
}

impl Fields {
    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// A text as it stands, for messages about a rule that may be wrong.
    pub fn shown(&self, key: &str) -> String {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// Takes a key's value, where `parse` can read it.
    pub fn take<T>(
        &mut self,
        key: &str,
        expected: &str,
        parse: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, KeyFault> {
        let Some(value) = self.0.remove(key) else { return Ok(None) };
        let wrong = || KeyFault::new(key, format!("got {}, expected {expected}", quoted(&value)));
        parse(&value).ok_or_else(wrong).map(Some)
    }

    pub fn text(&mut self, key: &str) -> Result<Option<String>, KeyFault> {
        self.take(key, "a text", |value| value.as_str().map(str::to_owned))
    }

    pub fn flag(&mut self, key: &str) -> Result<bool, KeyFault> {
        Ok(self.take(key, "true or false", Value::as_bool)?.unwrap_or_default())
    }

    pub fn number(&mut self, key: &str) -> Result<Option<f64>, KeyFault> {
        self.take(key, "a finite number", Value::as_f64)
    }

    pub fn at_least_0(&mut self, key: &str) -> Result<Option<f64>, KeyFault> {
        self.take(key, "a finite number of at least 0", |value| value.as_f64().filter(|value| *value >= 0.0))
    }

    pub fn whole(&mut self, key: &str, least: u64, most: u64) -> Result<Option<u64>, KeyFault> {
        let expected = format!("a whole number from {least} to {most}");
        self.take(key, &expected, |value| value.as_u64().filter(|value| (least..=most).contains(value)))
    }

    /// One of the names of an enum that serde knows.
    pub fn one_of<T: serde::de::DeserializeOwned>(&mut self, key: &str, expected: &str) -> Result<Option<T>, KeyFault> {
        self.take(key, expected, |value| T::deserialize(value).ok())
    }

    /// A key that nothing has taken yet and that `known` does not list.
    pub fn other_than(&self, known: &[&str]) -> Option<&str> {
        self.0.keys().map(String::as_str).find(|key| !known.contains(key))
    }
}

/// As TOML or JSON would show it. A number that is not finite arrives as null.
fn quoted(value: &Value) -> String {
    match value {
        Value::Null => "a number that is not finite".to_owned(),
        Value::String(text) => format!("'{}'", in_short(text)),
        other => in_short(&other.to_string()),
    }
}
