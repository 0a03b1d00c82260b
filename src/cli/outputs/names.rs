//! The names of arrays in files, and their names for scores.
//!
//! An array keeps its name unless `--map` gives it another. In tables, a column `array.SUFFIX` or `array[SUFFIX]` is one
//! column of `array`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use leakage::field_error::{FieldError, in_short};
use leakage::tensor::TensorName;

/// Arrays that are no tensors: the declaration of the run and its constants.
#[rustfmt::skip]
pub const CONSTANTS: [&str; 18] = [
    "concept_names", "task_names", "cardinalities", "activation_kind", "activation_columns", "latents", "reference_task_accuracy",
    "concept_score_weight", "activity_threshold", "active_top_k", "clarity_weights", "intervention_counts",
    "concept_weights", "head_weights", "head_bias", "image_size", "concept_parts", "box_size",
];

/// Names of arrays that are kept for a message.
const MOST_NAMED: usize = 64;

fn is_known(name: &str) -> bool {
    TensorName::parse(name).is_some() || CONSTANTS.contains(&name)
}

/// One `--map NAME=ARRAY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The name for scores.
    name: String,
    /// The name in the file; at the end `*` stands for any suffix.
    array: String,
}

impl std::str::FromStr for Mapping {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let split = text.split_once('=').filter(|(name, array)| !name.is_empty() && !array.is_empty());
        let (name, array) =
            split.ok_or_else(|| format!("got '{}', expected NAME=ARRAY, such as concept_labels=c", in_short(text)))?;
        if is_known(name) {
            return Ok(Self { name: name.to_owned(), array: array.to_owned() });
        }
        if is_known(array) {
            return Err(format!(
                "got '{0}={array}', expected '{array}={0}': first the name that scores know",
                in_short(name)
            ));
        }
        let tensors = TensorName::ALL.iter().map(|name| name.text());
        let known: Vec<&str> = tensors.chain(CONSTANTS).collect();
        Err(format!("got '{}' before '=', expected one of {}", in_short(name), known.join(", ")))
    }
}

/// The name of an array for scores, and what follows it in the name of one of its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub name: String,
    pub suffix: Option<String>,
}

/// All mappings, and which arrays the files turned out to have.
#[derive(Default)]
pub struct Names {
    mappings: Vec<(Mapping, Cell<bool>)>,
    /// All arrays, and those passed over.
    found: RefCell<BTreeSet<String>>,
    passed_over: RefCell<BTreeSet<String>>,
}

impl Names {
    pub fn new(mappings: &[Mapping]) -> Result<Self, FieldError> {
        for (at, mapping) in mappings.iter().enumerate() {
            for earlier in &mappings[..at] {
                if earlier.name == mapping.name || earlier.array == mapping.array {
                    let twice = if earlier.name == mapping.name { &mapping.name } else { &mapping.array };
                    return Err(FieldError::new("--map", format!("'{}' is given twice", in_short(twice))));
                }
            }
        }
        let mappings = mappings.iter().map(|mapping| (mapping.clone(), Cell::new(false))).collect();
        Ok(Self { mappings, ..Self::default() })
    }

    /// Returns the name of a file's array for scores; `None` for one to pass over, which is remembered.
    pub fn target(&self, array: &str) -> Option<Target> {
        let found = self.mapped(array).or_else(|| self.own(array));
        let sets = [Some(&self.found), found.is_none().then_some(&self.passed_over)];
        for mut names in sets.into_iter().flatten().map(RefCell::borrow_mut) {
            if names.len() < MOST_NAMED {
                names.insert(in_short(array));
            }
        }
        found
    }

    fn mapped(&self, array: &str) -> Option<Target> {
        self.mappings.iter().find_map(|(mapping, used)| {
            let whole = array == mapping.array;
            let suffix = match mapping.array.strip_suffix('*') {
                Some(prefix) => array.strip_prefix(prefix).map(str::to_owned),
                None => suffix_of(array, &mapping.array),
            };
            (whole || suffix.is_some()).then(|| {
                used.set(true);
                Target { name: mapping.name.clone(), suffix: suffix.filter(|_| !whole) }
            })
        })
    }

    /// Finds an array under its own name, unless that name is another array's by a mapping.
    fn own(&self, array: &str) -> Option<Target> {
        let base = array.split(['.', '[']).next().unwrap_or_default();
        let free = |name: &str| is_known(name) && self.mappings.iter().all(|(mapping, _)| mapping.name != name);
        if free(array) {
            return Some(Target { name: array.to_owned(), suffix: None });
        }
        let suffix = suffix_of(array, base).filter(|_| free(base))?;
        Some(Target { name: base.to_owned(), suffix: Some(suffix) })
    }

    /// Errors when a mapping names an array that no file has.
    pub fn check_used(&self) -> Result<(), FieldError> {
        match self.mappings.iter().find(|(_, used)| !used.get()) {
            Some((mapping, _)) => {
                let found = self.found.borrow();
                let expected =
                    if found.is_empty() { String::new() } else { format!(", expected one of {}", listed(&*found)) };
                Err(FieldError::new("--map", format!("no file has an array '{}'{expected}", in_short(&mapping.array))))
            }
            None => Ok(()),
        }
    }

    /// Arrays that scores do not know.
    pub fn passed_over(&self) -> Vec<String> {
        self.passed_over.borrow().iter().cloned().collect()
    }

    /// Tensors that arrays which were passed over begin with, such as `concept_labels_0` with `concept_labels`.
    pub fn like_tensors(&self) -> Vec<&'static str> {
        let begins = |tensor: &&str| self.passed_over.borrow().iter().any(|name| name.starts_with(*tensor));
        TensorName::ALL.iter().map(|tensor| tensor.text()).filter(begins).collect()
    }
}

/// Names in one line, in quotes where a reader would not see one, as that of the index which pandas writes.
pub fn listed<'n>(names: impl IntoIterator<Item = &'n String>) -> String {
    let unseen = |name: &str| name.trim().len() != name.len() || name.is_empty() || name.contains(',');
    let shown = |name: &String| if unseen(name) { format!("'{name}'") } else { name.clone() };
    names.into_iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// SUFFIX of `base.SUFFIX` or `base[SUFFIX]`.
fn suffix_of(array: &str, base: &str) -> Option<String> {
    let rest = array.strip_prefix(base)?;
    let inner = rest.strip_prefix('.').or_else(|| rest.strip_prefix('[')?.strip_suffix(']'))?;
    (!inner.is_empty()).then(|| inner.to_owned())
}
