//! Passes over several hosts: the size of their parts, and jobs for workers.

use conceptwatch::estimate::{Kind, Settings};
use conceptwatch::history::{Identity, PassKey, Postgres, Store};
use conceptwatch::point::Point;
use conceptwatch::sample::Attempt;
use serde_json::{Value, json};

use super::Options;
use super::job::{Job, run};

pub const SETTINGS: Settings = Settings { kind: Kind::TieAware, neighbours: 3, repeats: 5, seed: 0 };

/// 64 ranks on 8 hosts evaluate 40,000 rows of 112 concepts; 4,096 rows are kept.
fn large(step: u64) -> Job {
    Job { run: run(112, 64), batch_rows: 64, step, ..Job::new(64, 40_000, 4096, 0) }
}

/// Bytes per rank of a first pass, and of later passes.
pub fn bytes() -> Value {
    let job = large(7);
    let bytes = |parts: &[Vec<u8>]| parts.iter().map(Vec::len).sum::<usize>() as u64 / 64;
    let whole = job.parts(&job.in_processes(8, &job.batches(0)), None);
    let (_, cutoff) = job.exactly(&whole);
    let next = large(8);
    let cut = next.parts(&next.in_processes(8, &next.batches(1)), cutoff);
    json!({"whole": bytes(&whole), "cut": bytes(&cut)})
}

/// Queues jobs: stores the parts of passes of 112 concepts that keep `rows` rows.
pub fn put(options: &Options) -> Value {
    let (passes, rows): (u64, usize) = (options.number("passes"), options.number("rows"));
    let store = Postgres::open(options.text("store")).unwrap();
    store.state_settings(&SETTINGS).unwrap();
    let name = options.text("run").to_owned();
    for step in 1..=passes {
        let job = Job { run: run(112, 8), batch_rows: 64, step, ..Job::new(8, 2 * rows as u64, rows, 0) };
        let fields = conceptwatch::run::RunFields { name: name.clone(), ..(**job.run).clone() };
        let declared = store.record_run(&fields.try_into().unwrap(), &Identity::default(), 1.9e9).unwrap();
        let key = PassKey { run: declared.run.name.clone(), split: "val".into(), attempt: Attempt::default(), step };
        for (at, body) in job.parts(&job.in_processes(2, &job.batches(step)), None).iter().enumerate() {
            store.put_part(&key, &format!("sidecar-{at}"), body).unwrap();
        }
    }
    json!({"waiting": store.job_queue().unwrap().waiting})
}

/// Whether jobs are left, and a number for all bits of a run's points, without the moments at which they were made.
pub fn points(options: &Options) -> Value {
    let store = Postgres::open(options.text("store")).unwrap();
    let queue = store.job_queue().unwrap();
    let (points, _) = store.whole_points(options.text("run"), "val", 0, 100, true).unwrap();
    let timeless = |point: Point| Point { run: "run".into(), time: 0.0, seconds: 0.0, ..point };
    let text: Vec<String> =
        points.iter().map(|whole| serde_json::to_string(&timeless(whole.point.clone())).unwrap()).collect();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.concat().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let ois = points.iter().filter(|whole| whole.point.score("ois").is_some()).count();
    json!({"waiting": queue.waiting, "leased": queue.leased, "points": points.len(), "with_ois": ois, "hash": format!("{hash:016x}")})
}
