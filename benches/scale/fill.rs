//! Fills a database with thousands of runs, and measures the bytes per run.

use std::time::{Duration, Instant};

use conceptwatch::history::{Identity, Postgres, Store};
use leakage::score::catalogue::CATALOGUE;
use postgres::{Client, NoTls};
use serde_json::{Value, json};

use super::{LAMBDAS, Options, point, run};

/// Runs copied per statement.
const TOGETHER: usize = 500;

/// Fills an empty database with `runs` runs of `values` values in total: copies, with other names, times and values, of
/// runs that the store itself has recorded.
pub fn fill(options: &Options) -> Value {
    let url = options.text("store");
    let (runs, values, concepts): (usize, usize, usize) =
        (options.number("runs"), options.number("values"), options.number("concepts"));
    let steps = values.div_ceil(runs * CATALOGUE.len()) as u64;
    let begun = Instant::now();
    let store = Postgres::open(url).unwrap();
    for at in 0..LAMBDAS.len() {
        let name = format!("template-{at}");
        store.record_run(&run(&name, at, concepts), &Identity::default(), 1.8e9).unwrap();
        for step in 1..=steps {
            store.record_point(&point(&name, at, step, concepts, false), None).unwrap();
        }
    }
    drop(store);
    let mut database = Client::connect(url, NoTls).unwrap();
    // The copied rows are consistent by construction, so foreign keys are not checked row by row.
    database.batch_execute("SET session_replication_role = replica; SET synchronous_commit = off").unwrap();
    for first in (0..runs).step_by(TOGETHER) {
        let last = runs.min(first + TOGETHER) - 1;
        database.batch_execute(&copies(first, last)).unwrap();
    }
    database.batch_execute("SET session_replication_role = origin").unwrap();
    database.batch_execute("DELETE FROM run WHERE name LIKE 'template-%'").unwrap();
    let filled = begun.elapsed();
    database.batch_execute("VACUUM ANALYZE").unwrap();
    let mut count = |what: &str| database.query_one(what, &[]).unwrap().get::<_, i64>(0);
    json!({
        "runs": count("SELECT count(*) FROM run"),
        "points": count("SELECT count(*) FROM point"),
        "values": count("SELECT count(*) FROM value"),
        "bytes": count("SELECT pg_database_size(current_database())"),
        "fill_seconds": filled.as_secs_f64(),
    })
}

fn copies(first: usize, last: usize) -> String {
    let templates = LAMBDAS.len();
    format!(
        "INSERT INTO run (name, project, declaration, labels, concepts, started, finished, touched) \
         SELECT 'run-' || i, project, replace(declaration, '\"' || name || '\"', '\"run-' || i || '\"'), labels, concepts, \
         started + 60 * i, CASE WHEN i % 10 > 0 THEN started + 60 * i + 3600 END, now() \
         FROM generate_series({first}, {last}) i JOIN run ON name = 'template-' || (i % {templates}) ORDER BY i; \
         CREATE TEMPORARY TABLE made AS SELECT run.id AS run, template.id AS template, i \
         FROM generate_series({first}, {last}) i JOIN run ON run.name = 'run-' || i \
         JOIN run template ON template.name = 'template-' || (i % {templates}); \
         INSERT INTO point (run, split, step, ordinal, time, launch, restart, rows_seen, provisional, incomplete, body, thinned) \
         SELECT made.run, split, step, ordinal, time + 60 * i, launch, restart, rows_seen, provisional, incomplete, body, true \
         FROM made JOIN point ON point.run = made.template ORDER BY made.run, step; \
         INSERT INTO value (point, score, value, standard_error, undefined, body, lists) \
         SELECT point.id, score, value * (0.9 + 0.2 * random()), standard_error, undefined, value.body, lists \
         FROM made JOIN point ON point.run = made.run \
         JOIN point old ON old.run = made.template AND old.split = point.split AND old.step = point.step \
         JOIN value ON value.point = old.id ORDER BY point.id, score; \
         INSERT INTO curve (run, split, time, body, changed) SELECT made.run, split, time + 60 * i, body, changed \
         FROM made JOIN curve ON curve.run = made.template; \
         DROP TABLE made;"
    )
}

/// The bytes that runs of a realistic shape take: each with `points` evaluations of `concepts` concepts, with four matrices,
/// of which retention has kept those it keeps.
pub fn size(options: &Options) -> Value {
    let url = options.text("store");
    let (runs, points, concepts): (usize, u64, usize) =
        (options.number("runs"), options.number("points"), options.number("concepts"));
    let store = Postgres::open(url).unwrap();
    let mut database = Client::connect(url, NoTls).unwrap();
    let mut bytes = || -> i64 {
        database.batch_execute("VACUUM FULL").unwrap();
        database.query_one("SELECT pg_database_size(current_database())", &[]).unwrap().get(0)
    };
    let before = bytes();
    let begun = Instant::now();
    for at in 0..runs {
        let name = format!("sized-{at}");
        store.record_run(&run(&name, at, concepts), &Identity::default(), 1.8e9).unwrap();
        for step in 1..=points {
            store.record_point(&point(&name, at, step, concepts, true), None).unwrap();
            // Hubs do this as often for a run whose evaluations are minutes apart.
            if step % 8 == 0 {
                store.retain(None, Duration::MAX).unwrap();
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    store.retain(None, Duration::MAX).unwrap();
    json!({"bytes_per_run": (bytes() - before) / runs as i64, "points_per_second": (runs as u64 * points) as f64 / seconds})
}
