//! The estimator for each pair of variables:
//!
//! ```text
//!                discrete        scalar or vector
//! discrete       plug_in         ross
//! continuous     ross            ksg
//! ```

use super::checked::{Checked, check};
use super::settings::{Kind, Settings};
use super::undefined::Undefined;
use super::value::Estimate;
use super::variable::{Discrete, Variable};
use super::{ksg, plug_in, ross};

/// I(X;Y). The same bits as I(Y;X). For two discrete variables one class is no fault: the estimate is 0.
pub fn mutual_information(x: &Variable, y: &Variable, settings: &Settings) -> Result<Estimate, Undefined> {
    if std::ptr::eq(x, y) {
        return self_information(x, settings);
    }
    if x.rows() != y.rows() {
        return Err(Undefined::UnequalRows(x.rows(), y.rows()));
    }
    match (check(x, settings)?, check(y, settings)?) {
        (Checked::Discrete(x), Checked::Discrete(y)) => Ok(plug_in::mutual_information(x, y)),
        (Checked::Continuous(x), Checked::Discrete(y)) | (Checked::Discrete(y), Checked::Continuous(x)) => {
            ross::with_each(x, &[y], settings).swap_remove(0)
        }
        (Checked::Continuous(x), Checked::Continuous(y)) => Ok(match settings.kind {
            Kind::Published => ksg::published(x, y, settings),
            Kind::TieAware => ksg::tie_aware(x, y, settings),
        }),
    }
}

/// I(X; label) for each label, in their order: the same bits as one at a time, but x's neighbours are found once for all
/// discrete labels.
pub fn mutual_information_with_each(
    x: &Variable,
    labels: &[&Variable],
    settings: &Settings,
) -> Vec<Result<Estimate, Undefined>> {
    let together: Vec<Option<&Discrete>> = labels
        .iter()
        .map(|label| match label {
            Variable::Discrete(label) if label.classes().len() == x.rows() => Some(label),
            _ => None,
        })
        .collect();
    let shared: Vec<&Discrete> = together.iter().flatten().copied().collect();
    let mut shared = match check(x, settings) {
        Ok(Checked::Continuous(x)) => ross::with_each(x, &shared, settings),
        _ => Vec::new(),
    }
    .into_iter();
    let alone = |label| mutual_information(x, label, settings);
    labels
        .iter()
        .zip(together)
        .map(|(label, together)| together.and_then(|_| shared.next()).unwrap_or_else(|| alone(label)))
        .collect()
}

/// The estimator of the variable with itself: plug-in entropy for a discrete variable (0 for one class), otherwise the
/// estimate of I(X;X), which depends on N and k (without ties: on nothing else) and serves as "H(X)" in normalised scores.
pub fn self_information(x: &Variable, settings: &Settings) -> Result<Estimate, Undefined> {
    match (check(x, settings)?, settings.kind) {
        (Checked::Discrete(x), _) => Ok(plug_in::entropy(x)),
        (Checked::Continuous(x), Kind::Published) => Ok(ksg::published(x, x, settings)),
        (Checked::Continuous(x), Kind::TieAware) if x.tied() == 0 => {
            Ok(ksg::self_information_without_ties(x.rows(), settings.neighbours))
        }
        (Checked::Continuous(x), Kind::TieAware) => Ok(ksg::tie_aware(x, x, settings)),
    }
}
