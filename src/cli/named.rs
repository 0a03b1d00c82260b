//! Values of options that have names.

use std::str::FromStr;

use strum::VariantArray;

use leakage::field_error::in_short;

/// The value of this name. Errors say which names there are.
pub fn named<T: FromStr + VariantArray + Copy + Into<&'static str>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| {
        let names: Vec<&str> = T::VARIANTS.iter().map(|&one| one.into()).collect();
        let (last, others) = names.split_last().expect("it has variants");
        format!("got '{}', expected {} or {last}", in_short(text), others.join(", "))
    })
}
