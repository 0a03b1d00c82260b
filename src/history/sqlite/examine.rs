//! Examines the history of a stopped sidecar, and salvages what is readable of a damaged one.
//!
//! A repair writes every row that can be read and matches its checksum to a new file, which takes the place of the
//! damaged one in one step. The damaged file stays beside it.

use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use super::log;
use super::open;
use super::place::{FILE_NAME, is_remote, sync};
use super::seal::{
    MATRIX, MATRIX_COLUMNS, POINT, POINT_COLUMNS, REMARK, REMARK_COLUMNS, RUN, RUN_COLUMNS, Seal, UNSCORED,
    UNSCORED_COLUMNS, VALUE, VALUE_COLUMNS, seal_older,
};
use crate::history::error::{Cause, HistoryError};

/// Free bytes below which a history may soon not be written.
const LITTLE_ROOM: u64 = 64 << 20;
/// Row numbers between readable rows that are tried one by one.
const MOST_PROBED: i64 = 1 << 20;

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

/// What an examination found.
#[derive(Clone, Debug)]
pub struct Examination {
    pub path: PathBuf,
    pub schema: i64,
    pub bytes: u64,
    /// Free bytes of the file system.
    pub free: u64,
    /// Rows that can be read and match their checksum.
    pub intact: Contents,
    /// In words; none for a healthy history.
    pub faults: Vec<String>,
    /// Whether a repair changes more than permissions.
    pub damaged: bool,
}

/// What a repair kept and lost.
#[derive(Clone, Debug)]
pub struct Repair {
    /// Where the damaged file is now.
    pub damaged: PathBuf,
    pub kept: Contents,
    /// Rows that are known to have existed. Those of pages that cannot be read at all are not known.
    pub lost: Contents,
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, points, matrices, unscored, remarks } = self;
        write!(f, "{runs} runs, {points} points, {matrices} matrices, {unscored} records of passes without a point")?;
        if *remarks > 0 { write!(f, ", {remarks} titles and notes") } else { Ok(()) }
    }
}

/// Examines the history in `directory`, which is not changed. Errors when there is none, another process has it open, or
/// a newer program wrote it.
pub fn examine(directory: &Path) -> Result<Examination, HistoryError> {
    let path = directory.join(FILE_NAME);
    let fault = |source| HistoryError::Directory { path: directory.to_owned(), source };
    let place = std::fs::metadata(directory).map_err(fault)?;
    let file = std::fs::metadata(&path).map_err(fault)?;
    let mut faults = Vec::new();
    let mode = place.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        faults.push(format!("directory: got mode {mode:04o}, expected 0700: other users can enter it"));
    }
    // SAFETY: geteuid has no preconditions.
    let user = unsafe { libc::geteuid() };
    if place.uid() != user || file.uid() != user {
        faults.push(format!("owner: got user {} for the file, expected {user}", file.uid()));
    }
    let free = free_bytes(directory).map_err(fault)?;
    if free < LITTLE_ROOM {
        faults.push(format!("free space: got {} MiB, expected at least {} MiB", free >> 20, LITTLE_ROOM >> 20));
    }
    let before = faults.len();
    let hidden = log::hidden(&directory.join(format!("{FILE_NAME}-wal"))).map_err(fault)?;
    if hidden > 0 {
        faults.push(format!("log: damaged, {hidden} committed changes in it cannot be read"));
    }
    let mut examination =
        Examination { path, schema: 0, bytes: file.len(), free, intact: Contents::default(), faults, damaged: false };
    match read_all(&mut examination) {
        Ok(()) => {}
        Err(HistoryError::Damaged(error)) => examination.faults.push(format!("file: {error}")),
        Err(HistoryError::Storage(error)) if is_busy(&error) => {
            return Err(HistoryError::InUse { path: examination.path });
        }
        Err(error) => return Err(error),
    }
    examination.damaged = examination.faults.len() > before;
    Ok(examination)
}

fn is_busy(cause: &Cause) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    let code = cause.downcast_ref().and_then(rusqlite::Error::sqlite_error_code);
    matches!(code, Some(DatabaseBusy | DatabaseLocked))
}

fn free_bytes(directory: &Path) -> std::io::Result<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(directory.as_os_str().as_bytes())?;
    let mut found = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with NUL, and statvfs initialises the structure where it returns 0.
    let found = unsafe {
        if libc::statvfs(path.as_ptr(), found.as_mut_ptr()) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        found.assume_init()
    };
    Ok(found.f_bavail as u64 * found.f_frsize as u64)
}

/// Opens a history to read it. Its log stays as it is.
fn open_unchanged(path: &Path) -> Result<Connection, HistoryError> {
    let connection = Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    Ok(connection)
}

fn read_all(examination: &mut Examination) -> Result<(), HistoryError> {
    let connection = open_unchanged(&examination.path)?;
    examination.schema = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let known = open::schema();
    if examination.schema > known {
        let (path, found) = (examination.path.clone(), examination.schema);
        return Err(HistoryError::NewerSchema { path, found, known });
    }
    let mut check = connection.prepare("PRAGMA integrity_check(20)")?;
    let found: Vec<String> = check.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    examination.faults.extend(found.into_iter().filter(|line| line != "ok").map(|line| format!("file: {line}")));
    if examination.schema == known {
        examination.faults.extend(open::altered(&connection)?.map(|fault| format!("file: {fault}")));
    }
    if examination.schema < open::FIRST_SEALED {
        return Ok(());
    }
    let mut lost = Contents::default();
    for_each_intact(&connection, true, &mut examination.intact, &mut lost, |_, _| Ok(()))?;
    if lost != Contents::default() {
        examination.faults.push(format!("checksums: {lost} cannot be read or do not match"));
    }
    Ok(())
}

/// A row that can be copied: its table, and what selects it there.
struct Found<'a> {
    table: &'static str,
    condition: &'a str,
    key: &'a [Value],
}

/// Calls `keep` for every row that can be read and, where `sealed`, matches its checksum; parents come before children.
fn for_each_intact(
    connection: &Connection,
    sealed: bool,
    intact: &mut Contents,
    lost: &mut Contents,
    mut keep: impl FnMut(&Connection, &Found<'_>) -> Result<(), HistoryError>,
) -> Result<(), HistoryError> {
    let mut runs = BTreeSet::new();
    for run in ids(connection, "run", None) {
        let select = format!("SELECT {RUN}{} FROM run WHERE id = ?1", checksum("run", sealed));
        match check(connection, &select, run, Seal::new(), RUN_COLUMNS, sealed) {
            Some(_) => {
                keep(connection, &Found { table: "run", condition: "id = ?1", key: &[run.into()] })?;
                runs.insert(run);
                intact.runs += 1;
                keep_remark(connection, run, lost, &mut keep)?;
            }
            None => lost.runs += 1,
        }
    }
    for table in ["launch", "rank", "process"] {
        // Of no use without its run, and not served; the new file's references keep them out.
        for launch in ids(connection, "launch", None) {
            let condition = if table == "launch" { "id = ?1" } else { "launch = ?1" };
            let _ = keep(connection, &Found { table, condition, key: &[launch.into()] });
        }
    }
    let has_branches = connection.prepare("SELECT superseded FROM point").is_ok();
    for point in ids(connection, "point", Some("sqlite_autoindex_point_1")) {
        let select = format!(
            "SELECT {POINT_SELECT}{} FROM point JOIN run ON run.id = point.run WHERE point.id = ?1",
            checksum("point", sealed),
            POINT_SELECT = if sealed { POINT } else { "run.name, point.split, point.step" }
        );
        let columns = if sealed { POINT_COLUMNS } else { 3 };
        let is_marked = !has_branches || is_marked(connection, point);
        let run: Option<i64> =
            connection.query_row("SELECT run FROM point WHERE id = ?1", [point], |row| row.get(0)).ok();
        let head = check(connection, &select, point, Seal::new(), columns, sealed);
        let head = head.filter(|_| run.is_some_and(|run| runs.contains(&run)));
        let Some(head) = head.filter(|head| is_marked && has_all_values(connection, point, *head, sealed)) else {
            lost.points += 1;
            continue;
        };
        keep(connection, &Found { table: "point", condition: "id = ?1", key: &[point.into()] })?;
        keep(connection, &Found { table: "value", condition: "point = ?1", key: &[point.into()] })?;
        intact.points += 1;
        for score in matrices(connection, point, head, sealed, &mut lost.matrices) {
            let key = [point.into(), score.into()];
            keep(connection, &Found { table: "matrix", condition: "point = ?1 AND score = ?2", key: &key })?;
            intact.matrices += 1;
        }
    }
    if !sealed {
        return Ok(());
    }
    for pass in ids(connection, "unscored", Some("sqlite_autoindex_unscored_1")) {
        let select = format!(
            "SELECT {UNSCORED}, unscored.checksum FROM unscored JOIN run ON run.id = unscored.run WHERE unscored.id = ?1"
        );
        let known = connection
            .query_row("SELECT run FROM unscored WHERE id = ?1", [pass], |row| row.get(0))
            .is_ok_and(|run| runs.contains(&run));
        match check(connection, &select, pass, Seal::new(), UNSCORED_COLUMNS, true).filter(|_| known) {
            Some(_) => {
                keep(connection, &Found { table: "unscored", condition: "id = ?1", key: &[pass.into()] })?;
                intact.unscored += 1;
            }
            None => lost.unscored += 1,
        }
    }
    Ok(())
}

/// Keeps what is said about a run, where the schema has that.
fn keep_remark(
    connection: &Connection,
    run: i64,
    lost: &mut Contents,
    keep: &mut impl FnMut(&Connection, &Found<'_>) -> Result<(), HistoryError>,
) -> Result<(), HistoryError> {
    let select =
        format!("SELECT {REMARK}, remark.checksum FROM run JOIN remark ON remark.run = run.id WHERE run.id = ?1");
    match connection.prepare_cached("SELECT 1 FROM remark WHERE run = ?1").and_then(|mut found| found.exists([run])) {
        Ok(true) if check(connection, &select, run, Seal::new(), REMARK_COLUMNS, true).is_some() => {
            keep(connection, &Found { table: "remark", condition: "run = ?1", key: &[run.into()] })
        }
        Ok(true) => {
            lost.remarks += 1;
            Ok(())
        }
        // None, or a schema before remarks.
        Ok(false) | Err(_) => Ok(()),
    }
}

fn checksum(table: &str, sealed: bool) -> String {
    if sealed { format!(", {table}.checksum") } else { String::new() }
}

/// The checksum of one row; `None` if it cannot be read or does not match. 0 where rows have none.
fn check(connection: &Connection, select: &str, id: i64, seal: Seal, columns: usize, sealed: bool) -> Option<i64> {
    let mut statement = connection.prepare_cached(select).ok()?;
    let read = statement.query_row([id], |row| match sealed {
        true => seal.matching(row, 0, columns),
        false => (0..columns).try_for_each(|column| row.get_ref(column).map(drop)).map(|()| Some(0)),
    });
    read.ok().flatten()
}

/// Whether a point is current, or marked as superseded with its own number. No checksum covers the mark.
fn is_marked(connection: &Connection, point: i64) -> bool {
    let right = "SELECT superseded IN (0, id) FROM point WHERE id = ?1";
    connection.prepare_cached(right).and_then(|mut right| right.query_row([point], |row| row.get(0))).unwrap_or(false)
}

fn has_all_values(connection: &Connection, point: i64, head: i64, sealed: bool) -> bool {
    if !sealed {
        return connection
            .query_row("SELECT count(*), max(per_concept) FROM value WHERE point = ?1", [point], |_| Ok(()))
            .is_ok();
    }
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

/// The scores whose matrix is intact.
fn matrices(connection: &Connection, point: i64, head: i64, sealed: bool, lost: &mut u64) -> Vec<String> {
    let select = format!("SELECT {MATRIX}{} FROM matrix WHERE point = ?1", checksum("matrix", sealed));
    let mut scores = Vec::new();
    let mut read = || -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(&select)?;
        let mut rows = statement.query([point])?;
        while let Some(row) = rows.next()? {
            if !sealed || Seal::under(head).matching(row, 0, MATRIX_COLUMNS)?.is_some() {
                scores.push(row.get(0)?);
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

/// The row numbers of a table, as far as they can be found: read from both ends, from an index, and tried between.
fn ids(connection: &Connection, table: &str, index: Option<&str>) -> BTreeSet<i64> {
    let read = |select: &str| -> (Vec<i64>, bool) {
        let mut found = Vec::new();
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = connection.prepare(select)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                found.push(row.get(0)?);
            }
            Ok(())
        };
        let whole = read().is_ok();
        (found, whole)
    };
    let (forwards, whole) = read(&format!("SELECT id FROM {table} NOT INDEXED ORDER BY id"));
    let mut found: BTreeSet<i64> = forwards.iter().copied().collect();
    if !whole {
        let (backwards, _) = read(&format!("SELECT id FROM {table} NOT INDEXED ORDER BY id DESC"));
        if let Some(index) = index {
            found.extend(read(&format!("SELECT id FROM {table} INDEXED BY {index}")).0);
        }
        let first = forwards.last().copied().unwrap_or(0);
        let last = backwards.last().copied().or(found.last().copied()).unwrap_or(first);
        found.extend(backwards);
        let probe = format!("SELECT id FROM {table} WHERE id = ?1");
        for id in (first..last).take(MOST_PROBED as usize) {
            let there = connection.prepare_cached(&probe).and_then(|mut probe| probe.exists(params![id]));
            if there.unwrap_or(false) {
                found.insert(id);
            }
        }
    }
    found
}

/// Writes what is readable of the history in `directory` to a new file, which takes its place. Errors as [`examine`]
/// does, and when there is no room.
pub fn repair(directory: &Path) -> Result<Repair, HistoryError> {
    let path = directory.join(FILE_NAME);
    let fault = |source| HistoryError::Directory { path: directory.to_owned(), source };
    let unfinished = directory.join(format!("{FILE_NAME}.repaired"));
    let _ = std::fs::remove_file(&unfinished);
    let (mut kept, mut lost) = (Contents::default(), Contents::default());
    {
        let new = open::create(&unfinished)?;
        match open_unchanged(&path).and_then(|old| copy(&old, &new, &mut kept, &mut lost)) {
            Ok(()) | Err(HistoryError::Damaged(_)) => {}
            Err(HistoryError::Storage(error)) if is_busy(&error) => return Err(HistoryError::InUse { path }),
            Err(error) => return Err(error),
        }
        new.close().map_err(|(_, error)| error)?;
    }
    std::fs::File::open(&unfinished).and_then(|file| file.sync_all()).map_err(fault)?;
    let damaged = |number: u32, suffix: &str| directory.join(format!("{FILE_NAME}.damaged-{number}{suffix}"));
    let number = (1..).find(|number| !damaged(*number, "").exists()).unwrap_or(u32::MAX);
    std::fs::hard_link(&path, damaged(number, "")).map_err(fault)?;
    // A log belongs to the file beside which it was written, and to no other.
    for suffix in ["-wal", "-journal"] {
        let log = directory.join(format!("{FILE_NAME}{suffix}"));
        if log.exists() {
            std::fs::rename(&log, damaged(number, suffix)).map_err(fault)?;
        }
    }
    sync(directory).map_err(fault)?;
    std::fs::rename(&unfinished, &path).and_then(|()| sync(directory)).map_err(fault)?;
    Ok(Repair { damaged: damaged(number, ""), kept, lost })
}

/// Lets only its owner enter the directory.
pub fn make_private(directory: &Path) -> Result<(), HistoryError> {
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))
        .map_err(|source| HistoryError::Directory { path: directory.to_owned(), source })
}

/// Whether the directory is on a network file system.
pub fn on_network(directory: &Path) -> bool {
    is_remote(directory)
}

fn copy(old: &Connection, new: &Connection, kept: &mut Contents, lost: &mut Contents) -> Result<(), HistoryError> {
    let schema: i64 = old.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let known = open::schema();
    if schema > known {
        return Err(HistoryError::NewerSchema { path: PathBuf::new(), found: schema, known });
    }
    let sealed = schema >= open::FIRST_SEALED;
    new.execute_batch("BEGIN")?;
    for_each_intact(old, sealed, kept, lost, |old, found| copy_rows(old, new, found))?;
    if !sealed {
        seal_older(new)?;
    }
    new.execute_batch("COMMIT")?;
    Ok(())
}

fn copy_rows(old: &Connection, new: &Connection, found: &Found<'_>) -> Result<(), HistoryError> {
    let Found { table, condition, key } = found;
    let mut select = old.prepare_cached(&format!("SELECT * FROM {table} WHERE {condition}"))?;
    let columns: Vec<String> = select.column_names().map(str::to_owned).collect();
    let places = vec!["?"; columns.len()].join(", ");
    let insert = format!("INSERT OR IGNORE INTO {table} ({}) VALUES ({places})", columns.join(", "));
    let mut rows = select.query(params_from_iter(key.iter()))?;
    while let Some(row) = rows.next()? {
        let values: Vec<Value> = (0..columns.len()).map(|column| row.get(column)).collect::<Result<_, _>>()?;
        new.prepare_cached(&insert)?.execute(params_from_iter(values))?;
    }
    Ok(())
}
