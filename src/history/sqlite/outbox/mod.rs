//! The outbox: which changes of the history a hub has yet to be told of.
//!
//! It exists where [`Sqlite::begin_outbox`] was called once, in tables of its own, and from then on every change notes
//! itself in the transaction that makes it: a change and its entry are durable together or not at all. An entry refers to a
//! point or a pass, which is read when it is sent, so a point that was replaced before is sent once; of scores that join a
//! point later these alone are sent. Other changes stand in their entries, under a checksum. Numbers ascend and are never
//! given out twice; a hub keeps the highest that it has applied. How rules and verdicts stand is noted by who sends.
//!
//! Runs are followed from their first declaration on, with all that the history has of them by then.

mod note;
pub(super) mod table;

pub(super) use note::note_judgement;
pub(in crate::history) use note::{REMARK, note, note_point, note_removal, note_run, note_unscored, sent_point};
pub use table::Source;
pub(in crate::history) use table::losing;
pub(super) use table::{count, create};
