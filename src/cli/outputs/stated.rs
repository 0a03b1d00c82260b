//! Kinds that the command line states: of all concepts or tasks, or of those that it names.

use std::str::FromStr;

use strum::VariantArray;

use leakage::field_error::{FieldError, in_short};

use super::super::named::named;

/// KIND for all, or NAME=KIND for one.
#[derive(Clone, Debug, PartialEq)]
pub struct Stated<K> {
    name: Option<String>,
    kind: K,
}

impl<K: FromStr + VariantArray + Copy + Into<&'static str>> FromStr for Stated<K> {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, kind) = text.rsplit_once('=').map_or((None, text), |(name, kind)| (Some(name.to_owned()), kind));
        Ok(Self { name, kind: named(kind)? })
    }
}

/// The kind stated for all, and those stated for each. `what`: concept or task.
pub fn by_name<K: Copy>(
    option: &str,
    what: &str,
    stated: &[Stated<K>],
    names: &[&str],
) -> Result<(Option<K>, Vec<Option<K>>), FieldError> {
    let (mut of_all, mut of_each) = (None, vec![None; names.len()]);
    for Stated { name: of, kind } in stated {
        let Some(of) = of else {
            of_all = Some(*kind);
            continue;
        };
        let Some(i) = names.iter().position(|name| name == of) else {
            let known = in_short(&names.join(", "));
            return Err(FieldError::new(option, format!("got the {what} '{of}', expected one of {known}")));
        };
        of_each[i] = Some(*kind);
    }
    Ok((of_all, of_each))
}

#[cfg(test)]
mod tests {
    use leakage::run::LabelKind;

    use super::*;

    #[test]
    fn kinds_are_of_all_concepts_or_of_a_named_one() {
        let stated: Vec<Stated<LabelKind>> = ["class", "a=b=continuous"].map(|text| text.parse().unwrap()).to_vec();
        let (of_all, of_each) = by_name("--concept-kind", "concept", &stated, &["a=b", "c"]).unwrap();
        assert_eq!((of_all, of_each), (Some(LabelKind::Class), vec![Some(LabelKind::Continuous), None]));
        let fault = by_name("--concept-kind", "concept", &stated, &["c"]).unwrap_err();
        assert_eq!(fault.to_string(), "--concept-kind: got the concept 'a=b', expected one of c");
        let wrong = "wing=binary".parse::<Stated<LabelKind>>().unwrap_err();
        assert_eq!(wrong, "got 'binary', expected class or continuous");
    }
}
