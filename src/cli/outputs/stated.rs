//! Kinds that the command line states: of all concepts, or of those that it names.

use std::str::FromStr;

use strum::VariantArray;

use leakage::field_error::{FieldError, in_short};

use super::super::named::named;

/// KIND for all concepts, or NAME=KIND for one.
#[derive(Clone, Debug, PartialEq)]
pub struct Stated<K> {
    concept: Option<String>,
    kind: K,
}

impl<K: FromStr + VariantArray + Copy + Into<&'static str>> FromStr for Stated<K> {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (concept, kind) = text.rsplit_once('=').map_or((None, text), |(name, kind)| (Some(name.to_owned()), kind));
        Ok(Self { concept, kind: named(kind)? })
    }
}

/// The kind stated for all concepts, and those stated for each.
pub fn by_concept<K: Copy>(
    option: &str,
    stated: &[Stated<K>],
    names: &[&str],
) -> Result<(Option<K>, Vec<Option<K>>), FieldError> {
    let (mut of_all, mut of_each) = (None, vec![None; names.len()]);
    for Stated { concept, kind } in stated {
        let Some(concept) = concept else {
            of_all = Some(*kind);
            continue;
        };
        let Some(i) = names.iter().position(|name| name == concept) else {
            let known = in_short(&names.join(", "));
            return Err(FieldError::new(option, format!("got the concept '{concept}', expected one of {known}")));
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
        let (of_all, of_each) = by_concept("--concept-kind", &stated, &["a=b", "c"]).unwrap();
        assert_eq!((of_all, of_each), (Some(LabelKind::Class), vec![Some(LabelKind::Continuous), None]));
        let fault = by_concept("--concept-kind", &stated, &["c"]).unwrap_err();
        assert_eq!(fault.to_string(), "--concept-kind: got the concept 'a=b', expected one of c");
        let wrong = "wing=binary".parse::<Stated<LabelKind>>().unwrap_err();
        assert_eq!(wrong, "got 'binary', expected class or continuous");
    }
}
