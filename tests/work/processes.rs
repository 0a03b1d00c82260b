//! The same with the program and PostgreSQL.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use conceptwatch::estimate::Settings;
use conceptwatch::history::{Identity, PassKey, Postgres, PutPart, Store};
use conceptwatch::point::Point;
use conceptwatch::sample::Attempt;

use crate::parts::Job;
use crate::postgres_server::{Server, database};
use crate::signal::terminate;
use crate::{SETTINGS, content, in_one_process, pass, whole};

/// No loaded machine reaches it.
const PATIENCE: Duration = Duration::from_secs(300);

fn worker(url: &str, options: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conceptwatch"));
    command.args(["work", "--store", url, "--threads", "1", "--log", "warn"]).args(options);
    command.env("CONCEPTWATCH_LEASE", "2");
    command.stdin(Stdio::null()).spawn().unwrap()
}

fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !ready() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn ended(mut child: Child) -> ExitStatus {
    child.wait().unwrap()
}

/// A store in which 8 sidecars have put their parts of the passes.
fn store_with(url: &str, passes: &[Job]) -> Postgres {
    let store = Postgres::open(url).unwrap();
    store.state_settings(&SETTINGS).unwrap();
    let declared = store.record_run(&passes[0].run, &Identity::default(), 1e9).unwrap();
    for pass in passes {
        let key = PassKey {
            run: declared.run.name.clone(),
            split: "val".into(),
            attempt: Attempt::default(),
            step: pass.step,
        };
        let put = |(at, body): (usize, &Vec<u8>)| store.put_part(&key, &format!("sidecar-{at}"), body).unwrap();
        let states: Vec<PutPart> = whole(pass).iter().enumerate().map(put).collect();
        assert_eq!((states[6], states[7]), (PutPart::Open, PutPart::Closed));
    }
    store
}

fn is_done(store: &Postgres) -> bool {
    let queue = store.job_queue().unwrap();
    (queue.waiting, queue.leased) == (0, 0)
}

/// What is stored of a run's points, without the moments at which they were made.
fn stored(store: &Postgres, run: &str) -> Vec<String> {
    let (points, more) = store.whole_points(run, "val", 0, 100, true).unwrap();
    assert!(more.is_none());
    let timeless = |point: Point| content(&Point { run: "run".into(), time: 0.0, ..point });
    points.into_iter().map(|whole| timeless(whole.point)).collect()
}

/// The points of one process, in the same form.
fn store_one_process(store: &Postgres, passes: &[Job]) -> Vec<String> {
    let run = conceptwatch::run::RunFields { name: "one process".into(), ..(**passes[0].run).clone() };
    store.record_run(&run.try_into().unwrap(), &Identity::default(), 1e9).unwrap();
    for point in in_one_process(passes) {
        store.record_point(&Point { run: "one process".into(), ..point }, Some(Attempt::default())).unwrap();
    }
    stored(store, "one process")
}

#[test]
fn two_workers_of_which_one_is_killed_store_the_points_of_one_process_once() {
    let Some(url) = database() else { return };
    let passes = [pass(7), pass(8), pass(9)];
    let store = store_with(&url, &passes);
    let (mut killed, other) = (worker(&url, &[]), worker(&url, &[]));
    // In the middle: there is a point, and a job that is being computed.
    wait_for("a job is being computed", || {
        store.job_queue().unwrap().leased == 2 && store.point("run", "val", None, false).unwrap().is_some()
    });
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_for("all jobs are done", || is_done(&store));
    terminate(&other);
    assert!(ended(other).success());
    let found = stored(&store, "run");
    let expected = store_one_process(&store, &passes);
    assert_eq!(found.len(), 3);
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
        for part in ["\"ois\"", "matrix_q", "per_concept"] {
            assert!(found.contains(part), "{part}");
        }
    }
    assert!(found[1].contains("change_errors") && !found[0].contains("change_errors"));
    let mut admin = Server::shared().unwrap().admin(url.rsplit('/').next().unwrap());
    for table in ["part", "job"] {
        let left: i64 = admin.query_one(&format!("SELECT count(*) FROM {table}"), &[]).unwrap().get(0);
        assert_eq!(left, 0, "{table}");
    }
}

#[test]
fn slow_scores_have_the_settings_of_their_point_whatever_hubs_state_meanwhile() {
    let Some(url) = database() else { return };
    let store = store_with(&url, &[pass(7)]);
    assert!(ended(worker(&url, &["--jobs", "1"])).success());
    assert!(store.point("run", "val", None, false).unwrap().is_some() && !is_done(&store));
    // A hub starts with another seed and number of neighbours.
    store.state_settings(&Settings { seed: 77, neighbours: 9, ..SETTINGS }).unwrap();
    assert!(ended(worker(&url, &["--idle-exit", "0"])).success());
    assert!(is_done(&store));
    assert_eq!(stored(&store, "run"), store_one_process(&store, &[pass(7)]));
}

#[test]
fn a_worker_that_is_told_to_stop_returns_its_job_at_once() {
    let Some(url) = database() else { return };
    let store = store_with(&url, &[pass(7)]);
    // Nobody else could take the job over within the test.
    let stopped = worker(&url, &["--lease", "100000"]);
    wait_for("the point is stored and a slow score is being computed", || {
        store.point("run", "val", None, false).unwrap().is_some() && store.job_queue().unwrap().leased == 1
    });
    terminate(&stopped);
    assert!(ended(stopped).success());
    assert_eq!(store.job_queue().unwrap().leased, 0);
    assert!(ended(worker(&url, &["--idle-exit", "0"])).success());
    assert!(is_done(&store));
    assert_eq!(stored(&store, "run"), store_one_process(&store, &[pass(7)]));
}

#[test]
fn a_database_that_crashes_delays_the_work() {
    let Some(server) = Server::start() else { return };
    let url = server.database();
    let store = store_with(&url, &[pass(7)]);
    let worker = worker(&url, &[]);
    wait_for("a job is being computed", || store.job_queue().unwrap().leased == 1);
    server.crash();
    // Parts are lost with the server; the sidecars send them again, until the pass is settled and nothing is to do.
    let key = PassKey { run: "run".into(), split: "val".into(), attempt: Attempt::default(), step: 7 };
    wait_for("all jobs are done", || {
        for (at, body) in whole(&pass(7)).iter().enumerate() {
            // While the server starts they are refused.
            let _ = store.put_part(&key, &format!("sidecar-{at}"), body);
        }
        std::thread::sleep(Duration::from_millis(100));
        let has_point = store.point("run", "val", Some(7), false).is_ok_and(|point| point.is_some());
        has_point && store.job_queue().is_ok_and(|queue| (queue.waiting, queue.leased) == (0, 0))
    });
    terminate(&worker);
    assert!(ended(worker).success());
}

#[test]
fn a_worker_says_what_is_wrong_with_its_options() {
    let refused = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_conceptwatch"));
        let output = command.arg("work").args(options).env_remove("CONCEPTWATCH_STORE").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let local = ["--store", "postgres://nobody@127.0.0.1:1/none"];
    for (options, field, expected) in [
        (&["--threads", "0"][..], "threads", "got 0, expected 1 to 1024"),
        (&["--lease", "0"], "lease", "got 0, expected 1 to 31536000"),
        (&["--idle-exit=-1"], "idle_exit", "got -1, expected 0 to"),
        (&["--niceness", "20"], "niceness", "got 20, expected 0 to 19"),
        (&["--store", "mysql://x"], "store", "expected postgres://"),
        (&["--store", "postgres://u:secret@h/d"], "store", "PGPASSFILE"),
    ] {
        let all: Vec<&str> = if field == "store" { options.to_vec() } else { [&local[..], options].concat() };
        let said = refused(&all);
        assert!(said.contains(field) && said.contains(expected) && !said.contains("secret"), "{said}");
    }
}

#[test]
fn a_hub_with_threads_closes_overdue_passes_and_computes() {
    let Some(url) = database() else { return };
    let (whole_pass, late) = (pass(7), pass(8));
    let store = store_with(&url, std::slice::from_ref(&whole_pass));
    let key = PassKey { run: "run".into(), split: "val".into(), attempt: Attempt::default(), step: 8 };
    let parts = &whole(&late)[..7];
    for (at, body) in parts.iter().enumerate() {
        assert_eq!(store.put_part(&key, &format!("sidecar-{at}"), body).unwrap(), PutPart::Open);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_conceptwatch"));
    command.args(["serve", "--store", &url, "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0"]);
    command.args(["--workers", "1", "--pass-deadline", "1", "--seed", "4", "--niceness", "0", "--log", "warn"]);
    let hub = command.stdin(Stdio::null()).spawn().unwrap();
    wait_for("all jobs are done", || store.point("run", "val", Some(8), false).unwrap().is_some() && is_done(&store));
    terminate(&hub);
    assert!(ended(hub).success());
    let found = stored(&store, "run");
    assert_eq!(found[0], store_one_process(&store, &[whole_pass])[0]);
    let late = store.point("run", "val", Some(8), false).unwrap().unwrap();
    assert!(late.incomplete && late.rows_seen < 300 && late.score("ois").is_some());
}

/// A Python with this package; `None`, and a word about it, where there is none, unless CONCEPTWATCH_REQUIRE names it.
fn python_with(package: &str) -> Option<PathBuf> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/bin/python");
    let has = Command::new(&python).args(["-c", &format!("import {package}")]).stderr(Stdio::null()).status();
    if has.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    let required = std::env::var("CONCEPTWATCH_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|one| one.trim() == package), "{package} is not installed");
    eprintln!("NOT TESTED: workers that {package} starts, because {package} is not installed");
    None
}

#[test]
fn workers_that_ray_starts_do_all_jobs() {
    let (Some(url), Some(python)) = (database(), python_with("ray")) else { return };
    let store = store_with(&url, &[pass(7)]);
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/python/examples/ray_workers.py");
    let program = Path::new(env!("CARGO_BIN_EXE_conceptwatch")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(python);
    command.args([example, &url, "--workers", "2", "--idle", "2"]).env("PATH", path).env("HOME", home.path());
    // A cluster of this machine alone, and no word about it to others.
    command.env_remove("RAY_ADDRESS").envs([("RAY_USAGE_STATS_ENABLED", "0"), ("RAY_AUTH_MODE", "disabled")]);
    command.env("RAY_TMPDIR", home.path());
    assert!(command.stdin(Stdio::null()).status().unwrap().success());
    assert!(is_done(&store));
    assert_eq!(stored(&store, "run"), store_one_process(&store, &[pass(7)]));
}
