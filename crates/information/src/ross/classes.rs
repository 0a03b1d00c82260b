//! The classes of a label, as Ross's estimator sees them.

use crate::undefined::Undefined;
use crate::variable::Discrete;

/// The discrete side, with what each of its classes needs.
pub(super) struct Classes<'a> {
    pub(super) label: &'a Discrete,
    /// k_i of each class; 0 for a class of one row, which is left out.
    pub(super) neighbours: Vec<usize>,
    /// Rows that are not.
    pub(super) included: usize,
    /// Rows alone in their class.
    pub(super) left_out: Vec<u32>,
}

impl<'a> Classes<'a> {
    pub(super) fn new(label: &'a Discrete, neighbours: usize) -> Result<Self, Undefined> {
        if label.sizes().len() == 1 {
            return Err(Undefined::OneClass);
        }
        let paired = || label.sizes().iter().filter(|&&size| size > 1);
        match paired().count() {
            0 => Err(Undefined::NoClassOfTwo { classes: label.sizes().len() }),
            1 => Err(Undefined::OneClass),
            _ => {
                let alone = |class: u32| label.sizes()[class as usize] == 1;
                let rows = label.classes().iter().zip(0..);
                let left_out = rows.filter(|&(&class, _)| alone(class)).map(|(_, row)| row);
                Ok(Self {
                    label,
                    neighbours: label.sizes().iter().map(|&size| neighbours.min(size as usize - 1)).collect(),
                    included: paired().map(|&size| size as usize).sum(),
                    // Mostly there are none, and then the rows need not be visited.
                    left_out: if label.sizes().contains(&1) { left_out.collect() } else { Vec::new() },
                })
            }
        }
    }

    pub(super) fn of(&self, row: usize) -> usize {
        self.label.classes()[row] as usize
    }

    /// The rows of the class of `row`.
    pub(super) fn members_with(&self, row: usize) -> &[u32] {
        self.label.members(self.of(row))
    }

    /// k_i of the row; `None` for a row alone in its class.
    pub(super) fn neighbours_of(&self, row: usize) -> Option<usize> {
        Some(self.neighbours[self.of(row)]).filter(|&k| k > 0)
    }
}
