//! Conditional mutual information I(X;Y|C) from samples, in nats.
//!
//! For classes c the information within each stratum, weighted by its share of rows ([`strata`]):
//!
//! ```text
//! I(X;Y|C) = Σ_v p(v) I(X;Y | rows with c = v)
//! ```
//!
//! For a continuous c nearest neighbours in x, y and c together ([`continuous`]). [`Permutations`] are the estimates of labels
//! in random order within the strata: what they are where x tells nothing beyond c.
//!
//! Nothing is clipped, in either [`Kind`](super::Kind): clipping strata or repeats would turn noise into information. The
//! published kind breaks ties by the noise of the authors' code and gives the mean over repeats.

mod continuous;
mod expected;
mod permutations;
mod shared;
mod strata;
mod terms;
mod together;

pub use continuous::permuted_locally;
pub use permutations::{Moments, Permutations};
pub use strata::Strata;
pub use terms::Conditional;
pub use together::values_together;

use super::settings::Settings;
use super::undefined::Undefined;
use super::variable::Variable;

/// I(X;Y|C). Undefined where fewer than half of the rows can be used.
pub fn conditional_information(
    x: &Variable,
    y: &Variable,
    given: &Variable,
    settings: &Settings,
) -> Result<Conditional, Undefined> {
    conditional_information_with_each(x, &[y], given, settings).swap_remove(0)
}

/// I(X;label|C) for each label, in their order: the same bits as one at a time, but x is cut into strata once, and its
/// neighbours are found once for all discrete labels.
pub fn conditional_information_with_each(
    x: &Variable,
    labels: &[&Variable],
    given: &Variable,
    settings: &Settings,
) -> Vec<Result<Conditional, Undefined>> {
    if let Variable::Scalar(given) = given {
        return labels.iter().map(|label| continuous::information(x, label, given, settings)).collect();
    }
    match Strata::new(x, given, settings) {
        Ok(strata) => strata.information_with_each(labels),
        Err(why) => labels.iter().map(|_| Err(why)).collect(),
    }
}
