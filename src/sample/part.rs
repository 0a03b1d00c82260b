//! Parts: what one of several processes that share a pass holds of it.
//!
//! A sample is a function of the set of arrivals, so the sample of a pass is the union of the samples of its parts: see
//! [`union`](fn@super::union). A part may be cut: it then holds only the rows of priority `cutoff` or below. The union of cut
//! parts is the sample of the whole pass if and only if it has N rows, the union of Theta sketches (Dasgupta, Lang, Rhodes
//! & Thaler 2016, doi:10.4230/LIPIcs.ICDT.2016.5). With the N-th priority of the pass before as cut-off, the parts of a
//! pass hold N rows in all, where whole parts hold N each.
//!
//! Joining parts is commutative, associative and idempotent. A part counts once however often it comes: where the ranks
//! that ended in one part all ended in another, too, every row of theirs is in that one, and its counts hold.

mod bytes;
mod check;
pub(super) mod union;

use std::sync::Arc;

use super::attempt::Attempt;
use super::bottom_k::Sampling;
use super::pass::OpenPass;
use super::rows::Rows;
use crate::batch::Schema;
use crate::fault::Fault;
use crate::run::{Run, SplitKey};
use crate::step::{Epoch, Rank, Step};

/// What one process holds of a pass, the first of its step.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    step: Step,
    sampling: Sampling,
    world_size: u32,
    /// The largest epoch that any rank stated.
    epoch: Option<Epoch>,
    /// `None` where no acceptable row arrived.
    schema: Option<Schema>,
    /// Ranks that have ended the pass, ascending.
    ended: Vec<Rank>,
    /// Rows of larger priority were left out; `None` if none were.
    cutoff: Option<u64>,
    /// Rows that arrived, those included that were not sent because no sample can hold them.
    offered: u64,
    /// As in [`OpenPass`](super::pass::OpenPass).
    repeated: u64,
    taken: u64,
    stated: u64,
    held_back: u64,
    backlog: bool,
    rows: Rows,
}

/// The pass that a union is of, as its point will name it.
#[derive(Clone, Debug)]
pub struct PassOf {
    pub key: SplitKey,
    pub run: Arc<Run>,
    pub attempt: Attempt,
    /// Seconds since 1970-01-01 UTC at which the pass was closed.
    pub time: f64,
}

impl Part {
    /// All that is held of an open pass.
    pub(super) fn of(pass: &OpenPass, schema: Option<Schema>, sampling: Sampling, world_size: u32) -> Part {
        Part {
            step: pass.key.step,
            sampling,
            world_size,
            epoch: pass.epoch,
            schema,
            ended: pass.ended.iter().collect(),
            cutoff: None,
            offered: pass.sampler.rows_offered(),
            repeated: pass.repeated,
            taken: pass.taken,
            stated: pass.stated,
            held_back: pass.held_back,
            backlog: pass.backlog,
            rows: pass.sampler.share(),
        }
    }

    pub fn step(&self) -> Step {
        self.step
    }

    pub fn sampling(&self) -> Sampling {
        self.sampling
    }

    pub fn world_size(&self) -> u32 {
        self.world_size
    }

    /// Ranks that have ended the pass, ascending.
    pub fn ended(&self) -> &[Rank] {
        &self.ended
    }

    /// Rows of larger priority were left out; `None` if none were.
    pub fn cutoff(&self) -> Option<u64> {
        self.cutoff
    }

    /// Number of rows held.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// This part without the rows of a priority above `cutoff`.
    pub fn cut(self, cutoff: u64) -> Part {
        let before = self.cutoff;
        let (rows, was_cut) = self.rows.cut(self.sampling.seed, cutoff);
        let cutoff = if was_cut { Some(cutoff) } else { before };
        Part { rows, cutoff, ..self }
    }

    /// Both parts as one process would hold them. Errors, naming the field, when they cannot be parts of one pass.
    pub fn join(self, other: Part) -> Result<Part, Fault> {
        self.check_alike(&other)?;
        let (main, second) = if other.rank() > self.rank() { (other, self) } else { (self, other) };
        let known = main.knows(&second);
        // Of a process that is known altogether, what is left out does not matter.
        let cutoff = match (main.cutoff, second.cutoff.filter(|_| !known)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let Sampling { rows: most, seed } = main.sampling;
        let cut = |rows: Rows| match cutoff {
            Some(cutoff) => rows.cut(seed, cutoff).0,
            None => rows,
        };
        let add = |a: u64, b: u64| if known { a } else { a.saturating_add(b) };
        let rows = cut(main.rows).union(cut(second.rows), most, seed, known);
        let mut ended = [main.ended, second.ended].concat();
        ended.sort_unstable();
        ended.dedup();
        Ok(Part {
            step: main.step,
            sampling: main.sampling,
            world_size: main.world_size,
            epoch: Epoch::later(main.epoch, second.epoch),
            schema: main.schema.or(second.schema),
            ended,
            // With N rows, none of those left out can be in the sample.
            cutoff: cutoff.filter(|_| rows.len() < most),
            offered: add(main.offered, second.offered).max(rows.arrivals()),
            repeated: add(main.repeated, second.repeated),
            taken: add(main.taken, second.taken),
            stated: add(main.stated, second.stated),
            held_back: add(main.held_back, second.held_back),
            backlog: main.backlog || second.backlog,
            rows,
        })
    }

    /// Whether every row of `other` is known to be among those of `self`: a rank that ends a pass has sent all its rows.
    fn knows(&self, other: &Part) -> bool {
        let ended = |rank: &Rank| self.ended.binary_search(rank).is_ok();
        match other.ended.is_empty() {
            true => {
                self.rows.ids == other.rows.ids && self.rows.origins == other.rows.origins && self.taken == other.taken
            }
            false => other.ended.iter().all(ended),
        }
    }

    /// Of two parts, the larger one may know the other.
    fn rank(&self) -> impl Ord + '_ {
        let counts = (self.taken, self.offered, self.stated, self.repeated, self.held_back);
        (self.ended.len(), self.cutoff.unwrap_or(u64::MAX), counts, &self.rows.ids, &self.rows.origins)
    }

    fn check_alike(&self, other: &Part) -> Result<(), Fault> {
        let differs = |field: &str, got: u64, expected: u64| match got == expected {
            true => Ok(()),
            false => Err(Fault::new(field, format!("got {got}, expected {expected} as in another part of the pass"))),
        };
        differs("part.step", other.step.get(), self.step.get())?;
        differs("part.sampling.rows", other.sampling.rows as u64, self.sampling.rows as u64)?;
        differs("part.sampling.seed", other.sampling.seed, self.sampling.seed)?;
        differs("part.world_size", other.world_size.into(), self.world_size.into())?;
        if let (Some(schema), Some(got)) = (&self.schema, &other.schema) {
            schema.check_alike(got)?;
        }
        for (name, column) in &self.rows.columns {
            if other.rows.columns.get(name).is_some_and(|got| !column.is_alike(got)) {
                return Err(Fault::new(
                    format!("tensors.{name}"),
                    "got values of another kind or image size, expected those of another part of the pass",
                ));
            }
        }
        Ok(())
    }
}
