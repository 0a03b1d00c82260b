//! Reading what waits in the outbox, and forgetting what a hub has applied.

use super::outbox::note_judgement;
use super::outbox::table::{Source, count, source};
use super::store::Sqlite;
use super::wal::LONG;
use crate::history::change::{Change, Judgement, Launch};
use crate::history::db::Db;
use crate::history::error::HistoryError;
use crate::history::read::Reading;
use crate::history::settled::Unscored;
use crate::history::unscored::select_unscored;
use leakage::point::Point;
use leakage::sample::Attempt;

/// Entries of one parcel.
const MOST_ENTRIES: i64 = 512;

/// A change under its number.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbered {
    pub number: u64,
    pub change: Change,
}

/// The oldest entries, as many as fit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parcel {
    /// In ascending order, not always consecutive.
    pub entries: Vec<Numbered>,
    /// Numbers of entries that cannot be read, because what they refer to is damaged.
    pub unreadable: Vec<u64>,
}

/// How full the outbox is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxUsage {
    /// Entries that have yet to be sent.
    pub waiting: u64,
    /// Entries whose points or records the size limit has removed before they were sent, since the history was opened.
    pub lost: u64,
}

impl Sqlite {
    /// Creates the outbox unless there is one. From then on changes note themselves.
    pub fn begin_outbox(&self) -> Result<(), HistoryError> {
        let mut store = self.store();
        let begun = store.begin_outbox();
        self.note(&store);
        begun
    }

    pub fn outbox_source(&self) -> Result<Source, HistoryError> {
        source(&self.store().connection)
    }

    /// The oldest entries of at most `bytes` bytes together, but at least one. Empty while the history cannot be written:
    /// what is not durable here is not sent.
    pub fn parcel(&self, bytes: usize) -> Result<Parcel, HistoryError> {
        let store = self.store();
        let mut parcel = Parcel::default();
        if store.is_waiting() {
            return Ok(parcel);
        }
        let mut reading = self.reading_of(&store.connection);
        let oldest = "SELECT number, run, point, unscored, body, checksum FROM outbox ORDER BY number LIMIT $1";
        let rows = reading.db.all(oldest, &[&MOST_ENTRIES], |row| {
            let (number, run) = (row.unsigned(0)?, row.get::<Option<i64>>(1)?.unwrap_or_default());
            let body = row.get::<Option<String>>(4)?;
            let is_intact = body.is_none() || row.checksum(None, 4..5)?.is_some();
            Ok(Row { number, run, point: row.get(2)?, unscored: row.get(3)?, body, is_intact })
        })?;
        let mut taken = 0;
        for row in rows {
            match reading.change(&row)? {
                Some(change) => {
                    taken += bytes_of(&change);
                    if taken > bytes && !parcel.entries.is_empty() {
                        break;
                    }
                    parcel.entries.push(Numbered { number: row.number, change });
                }
                None => parcel.unreadable.push(row.number),
            }
        }
        drop(store);
        Ok(if self.is_durable(LONG) { parcel } else { Parcel::default() })
    }

    /// Notes what was judged, in its order.
    pub fn note_judgements(&self, judgements: &[Judgement]) -> Result<(), HistoryError> {
        self.store().commit_outbox(|connection| {
            judgements.iter().try_for_each(|judgement| note_judgement(&mut Db::Sqlite(connection), judgement))
        })
    }

    /// Forgets the entries up to a number, and single others.
    pub fn forget_entries(&self, up_to: u64, others: &[u64]) -> Result<(), HistoryError> {
        self.store().commit_outbox(|connection| {
            let up_to = up_to.cast_signed();
            connection.prepare_cached("DELETE FROM outbox WHERE number <= ?1")?.execute([up_to])?;
            let mut one = connection.prepare_cached("DELETE FROM outbox WHERE number = ?1")?;
            for number in others {
                one.execute([number.cast_signed()])?;
            }
            Ok(())
        })
    }

    /// Gives all entries numbers above `number`, in their order. Returns the highest number.
    pub fn renumber_entries(&self, number: u64) -> Result<u64, HistoryError> {
        self.store().commit_outbox(|connection| {
            let newest = source(connection)?.newest;
            // No new number is an old one, whatever the order of the update.
            let shift = number.max(newest).cast_signed();
            connection.execute("UPDATE outbox SET number = number + ?1", [shift])?;
            connection.execute("DELETE FROM sqlite_sequence WHERE name = 'outbox'", [])?;
            let highest = shift + newest.cast_signed();
            connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('outbox', ?1)", [highest])?;
            Ok(highest.cast_unsigned())
        })
    }

    pub fn outbox_usage(&self) -> Result<OutboxUsage, HistoryError> {
        let store = self.store();
        Ok(OutboxUsage { waiting: count(&mut Db::Sqlite(&store.connection))?, lost: store.dropped.unsent })
    }
}

impl Reading<'_> {
    /// The change of an entry; `None` if it cannot be read.
    fn change(&mut self, row: &Row) -> Result<Option<Change>, HistoryError> {
        if !row.is_intact {
            return Ok(None);
        }
        let body = row.body.as_deref();
        if let Some(point) = row.point {
            let Some((mut point, by)) = self.point_of(row, point)? else { return Ok(None) };
            let Some(body) = body else { return Ok(Some(Change::Point(Box::new(point), by))) };
            let late: Vec<String> = serde_json::from_str(body)?;
            point.scores.retain(|(score, _)| late.contains(score));
            return Ok(Some(Change::Late(Box::new(point), by)));
        }
        if let Some(unscored) = row.unscored {
            let found = select_unscored(&mut self.db, "unscored.id = $1", &[&unscored])?.pop().flatten();
            let by = self.launch(row, found.as_ref().and_then(|found| found.attempt))?;
            return Ok(found.map(|found| Change::Unscored(Unscored { attempt: None, ..found }, by)));
        }
        Ok(body.and_then(|body| serde_json::from_str(body).ok()))
    }

    fn point_of(&mut self, row: &Row, point: i64) -> Result<Option<(Point, Option<Launch>)>, HistoryError> {
        let of_entry = "point JOIN run ON run.id = point.run WHERE point.id = $1";
        let found = match self.points(of_entry, &[&point], true) {
            Err(HistoryError::Damaged(_)) => None,
            found => found?.pop().flatten(),
        };
        let Some(whole) = found else { return Ok(None) };
        Ok(Some((whole.point, self.launch(row, whole.attempt)?)))
    }

    fn launch(&mut self, row: &Row, attempt: Option<Attempt>) -> Result<Option<Launch>, HistoryError> {
        let Some(attempt) = attempt else { return Ok(None) };
        let job = "SELECT job FROM launch WHERE run = $1 ORDER BY id LIMIT 1 OFFSET $2";
        let job = self.db.one(job, &[&row.run, &i64::from(attempt.launch)], |row| row.get(0))?;
        // One that no job has named is not stored.
        Ok(Some(Launch { job: job.unwrap_or_default(), restart: attempt.restart, number: attempt.launch }))
    }
}

/// An entry. `run` is 0 for a run that was removed.
struct Row {
    number: u64,
    run: i64,
    point: Option<i64>,
    unscored: Option<i64>,
    body: Option<String>,
    /// The body matches its checksum.
    is_intact: bool,
}

/// Bytes of a change in a message, approximately.
fn bytes_of(change: &Change) -> usize {
    const SMALL: usize = 256;
    SMALL
        + match change {
            Change::Declare(declared) => declared.run.concepts.iter().map(|concept| concept.name.len() + 16).sum(),
            Change::Point(point, _) | Change::Late(point, _) => point.bytes(),
            Change::Judged(judgement) => judgement.json.len(),
            Change::Unscored(unscored, _) => unscored.reason.len(),
            Change::Remark { remark, .. } => remark.note.as_ref().map_or(0, String::len),
            Change::FinishRun { .. } | Change::RemoveRun(_) => 0,
        }
}
