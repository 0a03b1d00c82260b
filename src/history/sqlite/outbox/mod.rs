//! The outbox: which changes of the history a hub has yet to be told of.
//!
//! It exists where [`Sqlite::begin_outbox`] was called once, in tables of its own, and from then on every change notes
//! itself in the transaction that makes it: a change and its entry are durable together or not at all. Entries refer to
//! what was changed and are read when they are sent, so a point that was replaced before is sent once; of scores that join a
//! point later these alone are sent. Their numbers ascend and are never given out twice; a hub keeps the highest that it has
//! applied. How rules and verdicts stand is noted by who sends.
//!
//! Runs are followed from their first declaration on, with all that the history has of them by then.

mod note;
pub(super) mod table;
#[cfg(test)]
mod tests;

pub(super) use note::note_judgement;
pub(in crate::history) use note::{
    note_finish, note_point, note_remark, note_removal, note_run, note_unscored, sent_point,
};
pub use table::Source;
pub(super) use table::{count, create, losing};
