//! The rows of a history that can be read and match their checksums, also where its pages are damaged.

use std::collections::BTreeSet;
use std::fmt;

use rusqlite::types::Value;
use rusqlite::{Connection, params};

use super::row_checksum::{
    MATRIX, MATRIX_COLUMNS, POINT, POINT_COLUMNS, REMARK, REMARK_COLUMNS, RUN, RUN_COLUMNS, Seal, UNSCORED,
    UNSCORED_COLUMNS, VALUE, VALUE_COLUMNS,
};
use crate::history::error::HistoryError;

/// Row numbers that are tried one by one.
const MOST_PROBED: i64 = 1 << 16;

/// Rows of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    pub runs: u64,
    pub points: u64,
    pub matrices: u64,
    /// Records of passes without a complete point.
    pub unscored: u64,
    /// Titles and notes that are lost; those that are kept are not counted.
    pub remarks: u64,
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, points, matrices, unscored, remarks } = self;
        write!(f, "{runs} runs, {points} points, {matrices} matrices, {unscored} records of passes without a point")?;
        if *remarks > 0 { write!(f, ", {remarks} titles and notes") } else { Ok(()) }
    }
}

/// Rows that can be copied: their table, and the condition that selects them there.
pub(super) struct Found<'a> {
    pub table: &'static str,
    pub condition: &'a str,
    pub key: &'a [Value],
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
        let select = format!("SELECT {RUN}, checksum FROM run WHERE id = ?1");
        let found = [Found { table: "run", condition: "id = ?1", key: &[run.into()] }];
        if check(connection, &select, run, Seal::new(), RUN_COLUMNS).is_none() || !keep(connection, &found)? {
            lost.runs += 1;
            continue;
        }
        runs.insert(run);
        intact.runs += 1;
        keep_remark(connection, run, lost, &mut keep)?;
    }
    for table in ["launch", "rank", "process"] {
        // A row without its run is of no use, and not served; the new file's references keep it out.
        for launch in ids(connection, "launch") {
            let condition = if table == "launch" { "id = ?1" } else { "launch = ?1" };
            let _ = keep(connection, &[Found { table, condition, key: &[launch.into()] }]);
        }
    }
    for point in ids(connection, "point") {
        let select =
            format!("SELECT {POINT}, point.checksum FROM point JOIN run ON run.id = point.run WHERE point.id = ?1");
        let run: Option<i64> =
            connection.query_row("SELECT run FROM point WHERE id = ?1", [point], |row| row.get(0)).ok();
        let head = check(connection, &select, point, Seal::new(), POINT_COLUMNS);
        let head = head.filter(|_| run.is_some_and(|run| runs.contains(&run)));
        let head = head.filter(|head| is_marked(connection, point) && has_all_values(connection, point, *head));
        let found = [
            Found { table: "point", condition: "id = ?1", key: &[point.into()] },
            Found { table: "value", condition: "point = ?1", key: &[point.into()] },
        ];
        let Some(head) = head else {
            lost.points += 1;
            continue;
        };
        if !keep(connection, &found)? {
            lost.points += 1;
            continue;
        }
        intact.points += 1;
        for score in matrices(connection, point, head, &mut lost.matrices) {
            let key = [point.into(), score.into()];
            let found = [Found { table: "matrix", condition: "point = ?1 AND score = ?2", key: &key }];
            *if keep(connection, &found)? { &mut intact.matrices } else { &mut lost.matrices } += 1;
        }
    }
    for pass in ids(connection, "unscored") {
        let select = format!(
            "SELECT {UNSCORED}, unscored.checksum FROM unscored JOIN run ON run.id = unscored.run WHERE unscored.id = ?1"
        );
        let known = connection
            .query_row("SELECT run FROM unscored WHERE id = ?1", [pass], |row| row.get(0))
            .is_ok_and(|run| runs.contains(&run));
        let found = [Found { table: "unscored", condition: "id = ?1", key: &[pass.into()] }];
        let is_intact = known && check(connection, &select, pass, Seal::new(), UNSCORED_COLUMNS).is_some();
        *if is_intact && keep(connection, &found)? { &mut intact.unscored } else { &mut lost.unscored } += 1;
    }
    Ok(())
}

/// Keeps what is said about a run.
fn keep_remark(
    connection: &Connection,
    run: i64,
    lost: &mut Contents,
    keep: &mut impl FnMut(&Connection, &[Found<'_>]) -> Result<bool, HistoryError>,
) -> Result<(), HistoryError> {
    let select =
        format!("SELECT {REMARK}, remark.checksum FROM run JOIN remark ON remark.run = run.id WHERE run.id = ?1");
    match connection.prepare_cached("SELECT 1 FROM remark WHERE run = ?1").and_then(|mut found| found.exists([run])) {
        Ok(true) => {
            let found = [Found { table: "remark", condition: "run = ?1", key: &[run.into()] }];
            let is_intact = check(connection, &select, run, Seal::new(), REMARK_COLUMNS).is_some();
            lost.remarks += u64::from(!is_intact || !keep(connection, &found)?);
            Ok(())
        }
        Ok(false) | Err(_) => Ok(()),
    }
}

/// The checksum of one row; `None` if it cannot be read or does not match.
fn check(connection: &Connection, select: &str, id: i64, seal: Seal, columns: usize) -> Option<i64> {
    let mut statement = connection.prepare_cached(select).ok()?;
    statement.query_row([id], |row| seal.matching(row, 0, columns)).ok().flatten()
}

/// Whether a point is current, or marked as superseded with its own number. No checksum covers the mark.
fn is_marked(connection: &Connection, point: i64) -> bool {
    let right = "SELECT superseded IN (0, id) FROM point WHERE id = ?1";
    connection.prepare_cached(right).and_then(|mut right| right.query_row([point], |row| row.get(0))).unwrap_or(false)
}

fn has_all_values(connection: &Connection, point: i64, head: i64) -> bool {
    let all = || -> rusqlite::Result<bool> {
        let expected: i64 =
            connection.query_row("SELECT scores FROM point WHERE id = ?1", [point], |row| row.get(0))?;
        let mut statement =
            connection.prepare_cached(&format!("SELECT {VALUE}, checksum FROM value WHERE point = ?1"))?;
        let mut rows = statement.query([point])?;
        let mut found = 0;
        while let Some(row) = rows.next()? {
            if Seal::under(head).matching(row, 0, VALUE_COLUMNS)?.is_none() {
                return Ok(false);
            }
            found += 1;
        }
        Ok(found == expected)
    };
    all().unwrap_or(false)
}

/// The scores whose matrix is intact. Where pages stand in two places of the tree, so do their rows.
fn matrices(connection: &Connection, point: i64, head: i64, lost: &mut u64) -> BTreeSet<String> {
    let select = format!("SELECT {MATRIX}, checksum FROM matrix WHERE point = ?1");
    let mut scores = BTreeSet::new();
    let mut read = || -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(&select)?;
        let mut rows = statement.query([point])?;
        while let Some(row) = rows.next()? {
            if Seal::under(head).matching(row, 0, MATRIX_COLUMNS)?.is_some() {
                scores.insert(row.get(0)?);
            } else {
                *lost += 1;
            }
        }
        Ok(())
    };
    if read().is_err() {
        *lost += 1;
    }
    scores
}

/// The row numbers of a table: read in their order, and tried one by one where pages cannot be read.
fn ids(connection: &Connection, table: &str) -> BTreeSet<i64> {
    let read = |order: &str| -> (Vec<i64>, bool) {
        let mut found = Vec::new();
        let mut read = || -> rusqlite::Result<()> {
            let mut statement =
                connection.prepare(&format!("SELECT id FROM {table} NOT INDEXED ORDER BY id {order}"))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                found.push(row.get(0)?);
            }
            Ok(())
        };
        let whole = read().is_ok();
        (found, whole)
    };
    let (first, whole) = read("ASC");
    let mut found: BTreeSet<i64> = first.into_iter().collect();
    if !whole {
        let last = read("DESC").0;
        // The last page may be one that cannot be read.
        let from = found.last().copied().unwrap_or_default();
        let to = last.first().copied().unwrap_or(from + MOST_PROBED);
        found.extend(last);
        let probe = format!("SELECT id FROM {table} WHERE id = ?1");
        found.extend((from + 1..to).take(MOST_PROBED as usize).filter(|id| {
            let there = connection.prepare_cached(&probe).and_then(|mut probe| probe.exists(params![id]));
            there.unwrap_or(false)
        }));
    }
    found
}
