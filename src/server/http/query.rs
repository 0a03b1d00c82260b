//! Strict query parameters: unknown, repeated and missing keys are errors that name the key.

use axum::extract::Query;
use axum::http::Uri;

use super::refusal::Refusal;
use crate::history::Wanted;
use crate::search::Search;
use leakage::field_error::in_short;

pub(super) struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub fn parse(uri: &Uri, known: &[&str]) -> Result<Self, Refusal> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| Refusal::bad("query", format!("cannot be read: {error}")))?;
        for (place, (key, _)) in pairs.iter().enumerate() {
            let short = in_short(key);
            if !known.contains(&key.as_str()) {
                let expected = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Refusal::bad(short, format!("is not a parameter of this route, expected {expected}")));
            }
            if pairs[..place].iter().any(|(earlier, _)| earlier == key) {
                return Err(Refusal::bad(short, "got it twice, expected it once"));
            }
        }
        Ok(Self(pairs))
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| &**value)
    }

    pub fn required(&self, key: &str) -> Result<&str, Refusal> {
        self.text(key).ok_or_else(|| Refusal::bad(key, "is missing"))
    }

    /// Returns run and split.
    pub fn of_split(&self) -> Result<(&str, &str), Refusal> {
        Ok((self.required("run")?, self.required("split")?))
    }

    /// Returns run, split and score.
    pub fn of_score(&self) -> Result<(&str, &str, &str), Refusal> {
        Ok((self.required("run")?, self.required("split")?, self.required("score")?))
    }

    /// Returns a number of 1 to `limit`, which it is by default.
    pub fn most(&self, key: &str, limit: usize) -> Result<usize, Refusal> {
        match self.number(key)?.unwrap_or(limit as u64) {
            most @ 1.. if most <= limit as u64 => Ok(most as usize),
            other => Err(Refusal::bad(key, format!("got {other}, expected 1 to {limit}"))),
        }
    }

    /// Returns the list of runs that `search`, `after` and `limit` describe.
    pub fn page(&self) -> Result<Wanted, Refusal> {
        let after = self
            .text("after")
            .map(|text| text.parse().map_err(|why| Refusal::bad("after", format!("got '{}', {why}", in_short(text)))));
        let most = self.number("limit")?.map(usize::try_from).transpose();
        match most.unwrap_or(Some(usize::MAX)) {
            Some(0) => Err(Refusal::bad("limit", "got 0, expected at least 1")),
            most => Ok(Wanted {
                search: Search::of(self.text("search").unwrap_or_default()),
                after: after.transpose()?,
                most,
            }),
        }
    }

    pub fn number(&self, key: &str) -> Result<Option<u64>, Refusal> {
        let parse = |text: &str| {
            text.parse().map_err(|_| {
                Refusal::bad(key, format!("got '{}', expected a whole number of at least 0", in_short(text)))
            })
        };
        self.text(key).map(parse).transpose()
    }
}
