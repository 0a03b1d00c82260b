//! Conditional mutual information I(X;Y|C) from samples, in nats.
//!
//! For classes c the information within each stratum, weighted by its share of rows ([`strata`]):
//!
//! ```text
//! I(X;Y|C) = Σ_v p(v) I(X;Y | rows with c = v)
//! ```
//!
//! Nothing is clipped, in either [`Kind`](super::Kind): clipping strata or repeats would turn noise into information. The
//! published kind breaks ties by the noise of the authors' code and gives the mean over repeats.

mod expected;
mod strata;
mod terms;

pub use terms::Conditional;

use strata::Strata;

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
    let strata = match given {
        _ if x.rows() != given.rows() => Err(Undefined::UnequalRows(x.rows(), given.rows())),
        Variable::Discrete(given) => Strata::new(x, given, settings),
        _ => Err(Undefined::ContinuousCondition),
    };
    match strata {
        Ok(strata) => strata.information_with_each(labels),
        Err(why) => labels.iter().map(|_| Err(why)).collect(),
    }
}
