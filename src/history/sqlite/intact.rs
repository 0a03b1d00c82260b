//! The rows of a history that can be read and match their checksums, also where its pages are damaged.

use std::collections::BTreeSet;
use std::fmt;

use rusqlite::Connection;

use crate::history::db::{Db, Value};
use crate::history::error::HistoryError;
use crate::history::stored::{
    Head, MATRIX, MATRIX_COLUMNS, POINT, POINT_COLUMNS, RUN, RUN_COLUMNS, UNSCORED, UNSCORED_COLUMNS, VALUE,
    VALUE_COLUMNS, decode,
};

/// Row numbers that are tried one by one.
const MOST_PROBED: usize = 1 << 16;

/// Rows of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    pub runs: u64,
    pub points: u64,
    pub matrices: u64,
    /// Records of passes without a complete point.
    pub unscored: u64,
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, points, matrices, unscored } = self;
        write!(f, "{runs} runs, {points} points, {matrices} matrices, {unscored} records of passes without a point")
    }
}

/// Rows that can be copied: their table, and the condition that selects them there.
pub(super) struct Found<'a> {
    pub table: &'static str,
    pub condition: &'a str,
    pub key: &'a [&'a dyn Value],
}

/// Calls `keep` for every row that can be read and matches its checksum; parents come before children. Rows
/// that are of use only together come together. `keep` returns whether it could read them, too.
pub(super) fn for_each_intact(
    connection: &Connection,
    intact: &mut Contents,
    lost: &mut Contents,
    mut keep: impl FnMut(&Connection, &[Found<'_>]) -> Result<bool, HistoryError>,
) -> Result<(), HistoryError> {
    let mut runs = BTreeSet::new();
    for run in ids(connection, "run") {
        let select = format!("SELECT {RUN}, checksum FROM run WHERE id = $1");
        let found = [Found { table: "run", condition: "id = $1", key: &[&run] }];
        if !check(connection, &select, run, RUN_COLUMNS) || !keep(connection, &found)? {
            lost.runs += 1;
            continue;
        }
        runs.insert(run);
        intact.runs += 1;
    }
    for table in ["launch", "rank", "process"] {
        // A row without its run is of no use, and not served; the new file's references keep it out.
        for launch in ids(connection, "launch") {
            let condition = if table == "launch" { "id = $1" } else { "launch = $1" };
            let _ = keep(connection, &[Found { table, condition, key: &[&launch] }]);
        }
    }
    for point in ids(connection, "point") {
        let found = [
            Found { table: "point", condition: "id = $1", key: &[&point] },
            Found { table: "value", condition: "point = $1", key: &[&point] },
        ];
        let head = head(connection, point).ok().flatten().filter(|(_, run)| runs.contains(run));
        let Some((head, _)) = head else {
            lost.points += 1;
            continue;
        };
        if !keep(connection, &found)? {
            lost.points += 1;
            continue;
        }
        intact.points += 1;
        for score in matrices(connection, point, head, &mut lost.matrices) {
            let found = [Found { table: "matrix", condition: "point = $1 AND score = $2", key: &[&point, &score] }];
            *if keep(connection, &found)? { &mut intact.matrices } else { &mut lost.matrices } += 1;
        }
    }
    for pass in ids(connection, "unscored") {
        let select = format!(
            "SELECT {UNSCORED}, unscored.checksum FROM unscored JOIN run ON run.id = unscored.run WHERE unscored.id = $1"
        );
        let known = Db::Sqlite(connection).one("SELECT run FROM unscored WHERE id = $1", &[&pass], |row| row.get(0));
        let known = known.ok().flatten().is_some_and(|run: i64| runs.contains(&run));
        let found = [Found { table: "unscored", condition: "id = $1", key: &[&pass] }];
        let is_intact = known && check(connection, &select, pass, UNSCORED_COLUMNS);
        *if is_intact && keep(connection, &found)? { &mut intact.unscored } else { &mut lost.unscored } += 1;
    }
    Ok(())
}

/// Whether one row can be read and matches its checksum.
fn check(connection: &Connection, select: &str, id: i64, columns: usize) -> bool {
    let found = Db::Sqlite(connection).one(select, &[&id], |row| row.checksum(None, 0..columns));
    found.is_ok_and(|found| found.flatten().is_some())
}

/// The checksum of a point and the number of its run; `None` unless the point is intact with all its scores, and current
/// or marked as superseded with its own number, which no checksum covers.
fn head(connection: &Connection, point: i64) -> Result<Option<(i64, i64)>, HistoryError> {
    let mut db = Db::Sqlite(connection);
    let select = format!(
        "SELECT {POINT}, point.checksum, point.run, superseded IN (0, point.id) FROM point \
         JOIN run ON run.id = point.run WHERE point.id = $1"
    );
    let found = db.one(&select, &[&point], |row| {
        let head = row.checksum(None, 0..POINT_COLUMNS)?.filter(|_| row.get(POINT_COLUMNS + 2).unwrap_or(false));
        let scores = decode::<Head>(&row.get::<Vec<u8>>(POINT_COLUMNS - 1)?)?.scores;
        Ok(head.map(|head| (head, row.get::<i64>(POINT_COLUMNS + 1), scores)))
    })?;
    let Some((head, run, expected)) = found.flatten() else { return Ok(None) };
    let select = format!("SELECT {VALUE}, checksum FROM value WHERE point = $1");
    let scores = db.all(&select, &[&point], |row| row.checksum(Some(head), 0..VALUE_COLUMNS))?;
    let is_whole = scores.len() == expected as usize && scores.iter().all(Option::is_some);
    Ok(is_whole.then_some((head, run?)))
}

/// The scores whose matrix is intact. Where pages stand in two places of the tree, so do their rows.
fn matrices(connection: &Connection, point: i64, head: i64, lost: &mut u64) -> BTreeSet<String> {
    let select = format!("SELECT {MATRIX}, checksum FROM matrix WHERE point = $1");
    let mut scores = BTreeSet::new();
    let read = Db::Sqlite(connection).each(&select, &[&point], |row| {
        if row.checksum(Some(head), 0..MATRIX_COLUMNS)?.is_some() {
            scores.insert(row.get(0)?);
        } else {
            *lost += 1;
        }
        Ok(())
    });
    *lost += u64::from(read.is_err());
    scores
}

/// The row numbers of a table: read in their order, and tried one by one where pages cannot be read.
fn ids(connection: &Connection, table: &str) -> BTreeSet<i64> {
    let mut db = Db::Sqlite(connection);
    let mut read = |order: &str| -> (Vec<i64>, bool) {
        let mut found = Vec::new();
        let select = format!("SELECT id FROM {table} NOT INDEXED ORDER BY id {order}");
        let whole = db.each(&select, &[], |row| {
            found.push(row.get(0)?);
            Ok(())
        });
        (found, whole.is_ok())
    };
    let (first, whole) = read("ASC");
    let mut found: BTreeSet<i64> = first.into_iter().collect();
    if !whole {
        let last = read("DESC").0;
        // The last page may be one that cannot be read.
        let from = found.last().copied().unwrap_or_default();
        let to = last.first().copied().unwrap_or(from + MOST_PROBED as i64);
        found.extend(last);
        let probe = format!("SELECT id FROM {table} WHERE id = $1");
        let is_there = |id: &i64| db.exists(&probe, &[id]).unwrap_or(false);
        found.extend((from + 1..to).take(MOST_PROBED).filter(is_there));
    }
    found
}
