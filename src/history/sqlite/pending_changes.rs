//! Reading what waits in the outbox, and forgetting what a hub has applied.

use super::outbox::note_judgement;
use super::outbox::table::{
    ALERT, By, DECLARE, FINISH, LATE, POINT, REMARK, REMOVE, Source, UNSCORED_PASS, VERDICT, count, launch, source,
};
use crate::history::change::{Change, Declared, Judgement, Launch};
use crate::history::error::HistoryError;
use crate::history::run::{Remark, StoredRun};
use crate::history::sqlite::read::Reading;
use crate::history::sqlite::row_checksum::UNSCORED;
use crate::history::sqlite::store::Sqlite;
use crate::history::sqlite::unscored;
use crate::history::sqlite::wal::LONG;
use leakage::point::Point;
use leakage::run::{Run, RunFields};
use leakage::step::Rank;

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
        let rows: Vec<Row> = store
            .connection
            .prepare_cached("SELECT number, kind, run, point, unscored, body FROM outbox ORDER BY number LIMIT ?1")?
            .query_map([MOST_ENTRIES], |row| {
                Ok(Row {
                    number: row.get::<_, i64>(0)?.cast_unsigned(),
                    kind: row.get(1)?,
                    run: row.get(2)?,
                    point: row.get(3)?,
                    unscored: row.get(4)?,
                    body: row.get::<_, Option<String>>(5)?.unwrap_or_default(),
                })
            })?
            .collect::<Result<_, _>>()?;
        let reading = self.reading(&store.connection);
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
            judgements.iter().try_for_each(|judgement| note_judgement(connection, judgement))
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
        Ok(OutboxUsage { waiting: count(&store.connection)?, lost: store.unsent })
    }
}

impl Reading<'_> {
    /// The change that an entry refers to; `None` if it cannot be read.
    fn change(&self, row: &Row) -> Result<Option<Change>, HistoryError> {
        let change = match row.kind.as_str() {
            DECLARE => self.declaration_of(row)?.map(|declared| Change::Declare(Box::new(declared))),
            FINISH => match (self.run_of(row)?, serde_json::from_str(&row.body)) {
                (Some(run), Ok((finished, outcome))) => {
                    Some(Change::FinishRun { run: run.run.name.clone(), finished, outcome })
                }
                _ => None,
            },
            POINT => self.point_of(row)?.map(|(point, by)| Change::Point(Box::new(point), by)),
            LATE => match (self.point_of(row)?, serde_json::from_str::<Vec<String>>(&row.body)) {
                (Some((mut point, by)), Ok(late)) => {
                    point.scores.retain(|(score, _)| late.contains(score));
                    Some(Change::Late(Box::new(point), by))
                }
                _ => None,
            },
            ALERT | VERDICT => serde_json::from_str(&row.body).ok().map(Change::Judged),
            UNSCORED_PASS => {
                let found = self
                    .connection
                    .prepare_cached(&format!(
                        "SELECT {UNSCORED}, unscored.checksum, unscored.ordinal FROM unscored JOIN run ON run.id = unscored.run \
                         WHERE unscored.id = ?1"
                    ))?
                    .query_row([row.unscored], unscored::read)?;
                let by = found.as_ref().and_then(|found| found.attempt);
                let by = by.map(|attempt| launch(self.connection, row.run, attempt)).transpose()?;
                found.map(|mut found| {
                    found.attempt = None;
                    Change::Unscored(found, by)
                })
            }
            REMARK => self.run_of(row)?.map(|stored| {
                let StoredRun { run, title, note, .. } = stored;
                let remark = Remark { title: Some(title.unwrap_or_default()), note: Some(note.unwrap_or_default()) };
                Change::Remark { run: run.name.clone(), remark }
            }),
            REMOVE => serde_json::from_str(&row.body).ok().map(Change::RemoveRun),
            _ => None,
        };
        Ok(change)
    }

    fn run_of(&self, row: &Row) -> Result<Option<StoredRun>, HistoryError> {
        let name: String = self
            .connection
            .prepare_cached("SELECT name FROM run WHERE id = ?1")?
            .query_row([row.run], |row| row.get(0))?;
        match self.one_run(&name) {
            Ok((_, stored)) => Ok(Some(stored)),
            Err(HistoryError::Unknown { .. } | HistoryError::Damaged(_) | HistoryError::Json(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn declaration_of(&self, row: &Row) -> Result<Option<Declared>, HistoryError> {
        let (Some(stored), Ok(by)) = (self.run_of(row)?, serde_json::from_str::<By>(&row.body)) else {
            return Ok(None);
        };
        let declared_name = self
            .connection
            .prepare_cached("SELECT declared_name FROM run WHERE id = ?1")?
            .query_row([row.run], |row| row.get(0))?;
        let StoredRun { run, started, .. } = stored;
        let Ok(run) = Run::try_from(RunFields { world_size: by.world_size, ..RunFields::clone(&run) }) else {
            return Ok(None);
        };
        let Ok(rank) = Rank::of(by.rank, by.world_size) else { return Ok(None) };
        Ok(Some(Declared {
            run,
            declared_name,
            launch: by.launch,
            rank,
            client: by.client,
            resume: by.resume,
            started,
        }))
    }

    fn point_of(&self, row: &Row) -> Result<Option<(Point, Option<Launch>)>, HistoryError> {
        let k: i64 = self
            .connection
            .prepare_cached("SELECT json_array_length(declaration, '$.concepts') FROM run WHERE id = ?1")?
            .query_row([row.run], |row| row.get(0))?;
        let found = match self.first("point.id = ?1", [row.point], Some(k as usize)) {
            Err(HistoryError::Damaged(_)) => None,
            found => found?,
        };
        let Some((point, attempt)) = found else { return Ok(None) };
        let by = attempt.map(|attempt| launch(self.connection, row.run, attempt)).transpose()?;
        Ok(Some((point, by)))
    }
}

struct Row {
    number: u64,
    kind: String,
    run: Option<i64>,
    point: Option<i64>,
    unscored: Option<i64>,
    body: String,
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
