//! A variable cut into the strata of a discrete one, and its information about labels within them.
//!
//! Within a stratum the estimator is that of the variables' types: Ross, KSG or counting. A row alone in its class and
//! stratum has no neighbour to be compared with, so it is left out, and strata weigh by the rows kept. A stratum in which
//! one class is left, or in which a variable is constant, counts 0 at its full weight. Of two continuous variables a
//! stratum needs k + 2 rows; smaller ones are left out.
//!
//! Counting is biased by its cells (10 classes of x, 200 of y and 2,048 rows: 0.34 H(Y) for a truth of 0), so the tie-aware
//! kind subtracts the [mean under permutation](super::expected). Ross's estimator has mean 0 under permutation as it is:
//! E ψ(m_i) = ψ(k_i) + ψ(N) − ψ(n_i) for a random labelling with the same sizes.

use crate::checked::check;
use crate::settings::{Kind, Settings};
use crate::undefined::Undefined;
use crate::value::Estimate;
use crate::variable::{Discrete, Variable};
use crate::{ksg, plug_in, ross};

use super::expected::expected_information;
use super::shared::{self, Shared};
use super::terms::{Conditional, Found, Terms};

/// A checked variable within each class of a discrete one.
pub struct Strata<'a> {
    pub(super) given: &'a Discrete,
    pub(super) parts: Vec<Variable>,
    pub(super) settings: &'a Settings,
}

impl<'a> Strata<'a> {
    /// Errors where nothing can be estimated from x, whatever it is paired with, or `given` is not discrete.
    pub fn new(x: &Variable, given: &'a Variable, settings: &'a Settings) -> Result<Self, Undefined> {
        if x.rows() != given.rows() {
            return Err(Undefined::UnequalRows(x.rows(), given.rows()));
        }
        check(x, settings)?;
        let Variable::Discrete(given) = given else { return Err(Undefined::ContinuousCondition) };
        Ok(Self { given, parts: x.parts(given), settings })
    }

    /// I(X;label|C) for each label. x's neighbours are found once for all discrete labels.
    pub fn information_with_each(&self, labels: &[&Variable]) -> Vec<Result<Conditional, Undefined>> {
        let is_continuous = self.parts.iter().any(|part| part.continuous().is_some());
        let together = |label: &&Variable| match label {
            Variable::Discrete(label) if is_continuous && label.classes().len() == self.rows() => {
                Some(label.parts(self.given))
            }
            _ => None,
        };
        let together: Vec<Option<Vec<Discrete>>> = labels.iter().map(together).collect();
        let shared: Vec<&[Discrete]> = together.iter().flatten().map(Vec::as_slice).collect();
        let mut shared = self.of_classes(&shared).into_iter();
        let one = |(label, together): (&&Variable, &Option<_>)| {
            together.as_ref().and_then(|_| shared.next()).unwrap_or_else(|| self.of_one(label))
        };
        labels.iter().zip(&together).map(one).collect()
    }

    pub(super) fn rows(&self) -> usize {
        self.given.classes().len()
    }

    /// Returns the information of a continuous x about discrete labels, which are given in parts.
    fn of_classes(&self, labels: &[&[Discrete]]) -> Vec<Result<Conditional, Undefined>> {
        let mut terms: Vec<Terms> = labels.iter().map(|_| Terms::new(self.rows())).collect();
        for (stratum, x) in self.parts.iter().enumerate() {
            let of_stratum: Vec<&Discrete> = labels.iter().map(|parts| &parts[stratum]).collect();
            let members = self.given.members(stratum);
            for ((terms, label), found) in terms.iter_mut().zip(&of_stratum).zip(self.ross(x, &of_stratum)) {
                if let Some(found) = &found {
                    let shared = shared::by_classes(&found.terms, label, self.settings.neighbours);
                    terms.share(members.iter().copied(), shared);
                }
                terms.add(members, &label.alone(), found);
            }
        }
        terms.into_iter().map(Terms::finish).collect()
    }

    fn of_one(&self, label: &Variable) -> Result<Conditional, Undefined> {
        if label.rows() != self.rows() {
            return Err(Undefined::UnequalRows(self.rows(), label.rows()));
        }
        check(label, self.settings)?;
        let mut terms = Terms::new(self.rows());
        for ((stratum, x), y) in self.parts.iter().enumerate().zip(label.parts(self.given)) {
            let (members, found) = (self.given.members(stratum), self.within(x, &y));
            if let Some(shared) = found.as_ref().and_then(|found| self.shared(x, &y, found)) {
                terms.share(members.iter().copied(), shared);
            }
            terms.add(members, &self.left_out(x, &y), found);
        }
        terms.finish()
    }

    /// Rows of a stratum that are left out, numbered within it.
    pub(super) fn left_out(&self, x: &Variable, y: &Variable) -> Vec<u32> {
        match (x, y) {
            (_, Variable::Discrete(label)) | (Variable::Discrete(label), _) => label.alone(),
            _ if x.rows() < self.settings.neighbours + 2 => (0..x.rows() as u32).collect(),
            _ => Vec::new(),
        }
    }

    /// x and y within a stratum; `None` where the information is 0, as in one of which no row is kept.
    pub(super) fn within(&self, x: &Variable, y: &Variable) -> Option<Found> {
        match (x, y) {
            (Variable::Discrete(x), Variable::Discrete(y)) => self.counted(x, y),
            (continuous, Variable::Discrete(label)) | (Variable::Discrete(label), continuous) => {
                self.ross(continuous, &[label]).swap_remove(0)
            }
            (x, y) => self.ksg(x, y),
        }
    }

    /// Returns the variance that the rows of a stratum share with their neighbours; `None` where terms are counted.
    fn shared(&self, x: &Variable, y: &Variable, found: &Found) -> Option<Shared> {
        let k = self.settings.neighbours;
        match (x, y) {
            (Variable::Discrete(_), Variable::Discrete(_)) => None,
            (_, Variable::Discrete(label)) | (Variable::Discrete(label), _) => {
                Some(shared::by_classes(&found.terms, label, k))
            }
            _ => Some(shared::by_numbers(found.terms.len(), k)),
        }
    }

    /// A continuous variable and labels within a stratum.
    pub(super) fn ross(&self, x: &Variable, labels: &[&Discrete]) -> Vec<Option<Found>> {
        match x.continuous().filter(|x| x.fault().is_none()) {
            None => labels.iter().map(|_| None).collect(),
            Some(x) => {
                let estimates = ross::with_each(x, labels, self.settings).into_iter();
                // Without two classes of two rows.
                let found = |(estimate, label): (Result<Estimate, Undefined>, &&Discrete)| {
                    Some(Found::of(estimate.ok()?, label.alone().len()))
                };
                estimates.zip(labels).map(found).collect()
            }
        }
    }

    /// Two continuous variables within a stratum.
    fn ksg(&self, x: &Variable, y: &Variable) -> Option<Found> {
        let (x, y) = (x.continuous()?, y.continuous()?);
        let has_neighbours = x.rows() >= self.settings.neighbours + 2;
        (has_neighbours && x.fault().or(y.fault()).is_none()).then(|| {
            let estimate = match self.settings.kind {
                Kind::Published => ksg::published(x, y, self.settings),
                Kind::TieAware => ksg::tie_aware(x, y, self.settings),
            };
            Found::of(estimate, 0)
        })
    }

    /// Two discrete variables within a stratum, from the rows that are not alone in their class of y.
    fn counted(&self, x: &Discrete, y: &Discrete) -> Option<Found> {
        let alone = y.alone();
        let kept: Vec<u32> = (0..y.classes().len() as u32).filter(|row| alone.binary_search(row).is_err()).collect();
        let (x, y) = (x.part(&kept), y.part(&kept));
        if x.sizes().len() < 2 || y.sizes().len() < 2 {
            return None;
        }
        let mut found = Found::of(plug_in::mutual_information(&x, &y), 0);
        if self.settings.kind == Kind::TieAware {
            let by_chance = expected_information(x.sizes(), y.sizes());
            found.terms.iter_mut().for_each(|term| *term -= by_chance);
        }
        Some(found.among(&kept, kept.len() + alone.len()))
    }
}
