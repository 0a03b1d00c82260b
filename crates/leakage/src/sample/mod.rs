//! Bounded samples of the rows a split receives.
//!
//! Sampling is keyed bottom-k: a row's priority is a hash of its identity, and the rows with the smallest priorities
//! are kept. The result is uniform without replacement, needs no state beyond the rows kept, merges across ranks by
//! union, and does not change when a batch is sent twice.
//!
//! [`Split`] holds the samples of one split of a run: passes that open and close, or one rolling sample. It uses
//! [`BottomK`], the sampler, and the hashes of [`priority`](mod@priority).

mod attempt;
mod bottom_k;
mod checksum;
mod column;
mod evaluation;
mod features;
mod frozen;
mod map;
mod pass;
pub mod priority;
mod priority_order;
mod restart;
mod seen_batches;
mod split;
mod stage;
mod window;

pub use attempt::{Attempt, Declaration, Member, Members, StatedRank};
pub use bottom_k::{Arrival, BottomK, Offered, Sampling};
pub use checksum::Checksum;
pub use column::{Column, Values};
pub use evaluation::{Evaluation, Now, repeated_ids};
pub use features::{SCALES, windows};
pub use frozen::Sample;
pub use map::MAP_SUMMARY;
pub use priority::{Origin, client_hash};
pub use restart::{Seen, restart_of};
pub use seen_batches::Source;
pub use split::{SavedWindow, Split};
pub use stage::{RowNumbers, Staged};
pub use window::{
    Abandoned, Began, CommitError, Committed, Counts, EndOfPass, EndedPass, SplitOptions, Unfinished, WindowKind,
};
