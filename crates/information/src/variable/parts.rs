//! A variable within each class of another one, such as an activation among the rows of one concept label.
//!
//! Rows keep their order. What was sorted stays sorted: the order of the whole column, taken apart class by class, is the
//! order within each class, so a column is sorted once however many strata it is cut into. Cost: a few passes over N.

use std::sync::{Arc, OnceLock};

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::{Block, Continuous, Discrete, Scalar, Variable, Vector};

impl Variable {
    /// The rows of each class of `given`, which has as many rows.
    pub fn parts(&self, given: &Discrete) -> Vec<Self> {
        match self {
            Self::Discrete(v) => v.parts(given).into_iter().map(Self::Discrete).collect(),
            Self::Scalar(v) => v.parts(given).into_iter().map(Self::Scalar).collect(),
            Self::Vector(v) => v.parts(given).into_iter().map(Self::Vector).collect(),
        }
    }

    /// The values of row `order[i]` in row i. Rows keep their identities.
    pub fn reordered(&self, order: &[u32]) -> Self {
        match self {
            Self::Discrete(v) => Self::Discrete(v.part(order)),
            Self::Scalar(v) => {
                let values = order.iter().map(|&row| v.values[row as usize]).collect();
                Self::Scalar(Scalar::new(values, &v.ids, v.key))
            }
            Self::Vector(v) => {
                let of = |at: usize| order.iter().map(move |&row| v.block.coordinate(at)[row as usize]);
                let values = (0..v.block.width()).flat_map(of).collect();
                let block = Block::new(values, order.len());
                let (ids, key) = (Arc::clone(&v.ids), v.key);
                Self::Vector(Vector::of_block(block, ids, key))
            }
        }
    }

    /// The variable, unless it is discrete.
    pub fn continuous(&self) -> Option<Continuous<'_>> {
        match self {
            Self::Discrete(_) => None,
            Self::Scalar(scalar) => Some(Continuous::Scalar(scalar)),
            Self::Vector(vector) => Some(Continuous::Vector(vector)),
        }
    }
}

impl Discrete {
    /// See [`Variable::parts`].
    pub fn parts(&self, given: &Discrete) -> Vec<Self> {
        (0..given.sizes.len()).map(|at| self.part(given.members(at))).collect()
    }

    /// The given rows, in their order.
    pub fn part(&self, rows: &[u32]) -> Self {
        Self::numbered(rows.iter().map(|&row| self.classes[row as usize]).collect(), self.sizes.len())
    }

    /// The same classes in random order.
    pub fn shuffled(&self, random: &mut ChaCha8Rng) -> Self {
        let mut classes = self.classes.clone();
        classes.shuffle(random);
        Self { classes, sizes: self.sizes.clone(), members: OnceLock::new() }
    }

    /// The rows alone in their class, ascending.
    pub fn alone(&self) -> Vec<u32> {
        // Mostly there are none, and then the rows need not be visited.
        if !self.sizes.contains(&1) {
            return Vec::new();
        }
        let rows = self.classes.iter().zip(0..);
        rows.filter(|&(&class, _)| self.sizes[class as usize] == 1).map(|(_, row)| row).collect()
    }

    /// From class numbers below `most`, some of which may not occur.
    fn numbered(mut classes: Vec<u32>, most: usize) -> Self {
        let mut sizes = vec![0; most];
        classes.iter().for_each(|&class| sizes[class as usize] += 1);
        if sizes.contains(&0) {
            let mut numbers = Vec::with_capacity(most);
            let mut next = 0;
            for &size in &sizes {
                numbers.push(next);
                next += u32::from(size > 0);
            }
            classes.iter_mut().for_each(|class| *class = numbers[*class as usize]);
            sizes.retain(|&size| size > 0);
        }
        Self { classes, sizes, members: OnceLock::new() }
    }
}

impl Scalar {
    fn parts(&self, given: &Discrete) -> Vec<Self> {
        let compact = self.compact();
        let mut narrow =
            compact.map(|sorted| sorted.parts(&given.classes, &given.sizes)).unwrap_or_default().into_iter();
        let mut wide =
            if compact.is_none() { self.sorted().parts(&given.classes, &given.sizes) } else { Vec::new() }.into_iter();
        let part = |at: usize| {
            let members = given.members(at);
            Self {
                values: members.iter().map(|&row| self.values[row as usize]).collect(),
                ids: ids_of(&self.ids, members),
                key: self.key,
                sorted: wide.next().map_or_else(OnceLock::new, |sorted| OnceLock::from(Box::new(sorted))),
                compact: OnceLock::from(narrow.next()),
                levels: OnceLock::new(),
                tied: OnceLock::new(),
                spread: OnceLock::new(),
                fault: OnceLock::new(),
            }
        };
        (0..given.sizes.len()).map(part).collect()
    }
}

impl Vector {
    fn parts(&self, given: &Discrete) -> Vec<Self> {
        let part = |at: usize| {
            let members = given.members(at);
            let values = |coordinate: usize| {
                let column = self.block.coordinate(coordinate);
                members.iter().map(|&row| column[row as usize])
            };
            let block = Block::new((0..self.block.width()).flat_map(values).collect(), members.len());
            Self::of_block(block, ids_of(&self.ids, members), self.key)
        };
        (0..given.sizes.len()).map(part).collect()
    }
}

fn ids_of(ids: &[u64], members: &[u32]) -> Arc<[u64]> {
    members.iter().map(|&row| ids[row as usize]).collect()
}
