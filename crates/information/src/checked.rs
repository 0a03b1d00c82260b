//! A variable that was checked: estimators take no other.

use super::settings::Settings;
use super::undefined::Undefined;
use super::variable::{Continuous, Discrete, Variable};

/// A variable that can be estimated from.
pub(super) enum Checked<'a> {
    Discrete(&'a Discrete),
    Continuous(Continuous<'a>),
}

/// The variable, if it can be estimated from with these settings.
pub(super) fn check<'a>(variable: &'a Variable, settings: &Settings) -> Result<Checked<'a>, Undefined> {
    let (rows, neighbours) = (variable.rows(), settings.neighbours);
    let continuous = match variable {
        Variable::Discrete(_) if rows == 0 => return Err(Undefined::NoRows),
        Variable::Discrete(discrete) => return Ok(Checked::Discrete(discrete)),
        Variable::Scalar(scalar) => Continuous::Scalar(scalar),
        Variable::Vector(vector) => Continuous::Vector(vector),
    };
    if neighbours == 0 {
        return Err(Undefined::NoNeighbours);
    }
    if rows < neighbours + 2 {
        return Err(Undefined::TooFewRows { rows, neighbours });
    }
    match continuous.fault() {
        Some(fault) => Err(fault),
        None => Ok(Checked::Continuous(continuous)),
    }
}
