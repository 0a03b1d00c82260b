//! What holds for a database that many processes share.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use conceptwatch::history::{Change, Declared, HistoryError, Identity, Launch, Postgres, Store, Unwritable};
use leakage::point::Point;
use leakage::sample::Attempt;
use leakage::step::Rank;

use super::common::certificates::Authority;
use super::common::postgres::{Server, database};
use super::common::stored::{point, run};

/// Enough for what `retain` does in these tests.
const MINUTE: Duration = Duration::from_secs(60);

fn name(url: &str) -> &str {
    url.rsplit('/').next().unwrap()
}

/// A database of its own with a run `a`, its address and server; `None` where there is no PostgreSQL.
fn with_run() -> Option<(String, &'static Server, Postgres)> {
    let (url, server) = (database()?, Server::shared()?);
    let store = Postgres::open(&url).unwrap();
    store.record_run(&run("a", 2), &Identity::default(), 1.0).unwrap();
    Some((url, server, store))
}

/// The declaration of a run by a launch, which is unnamed where `job` is empty.
fn declared(name: &str, job: &str) -> Change {
    let launch = Launch { job: job.to_owned(), ..Launch::default() };
    let (declared_name, rank, client) = (None, Rank::default(), String::new());
    Change::Declare(Box::new(Declared {
        run: run(name, 2),
        declared_name,
        launch,
        rank,
        client,
        resume: false,
        scheduler_job: String::new(),
        host: String::new(),
        started: 1.0,
    }))
}

#[test]
fn processes_that_start_at_once_make_the_tables_once() {
    let Some(url) = database() else { return };
    std::thread::scope(|scope| {
        let opened: Vec<_> = (0..8).map(|_| scope.spawn(|| Postgres::open(&url).map(drop))).collect();
        opened.into_iter().for_each(|opened| opened.join().unwrap().unwrap());
    });
    Postgres::open(&url).unwrap().record_run(&run("a", 2), &Identity::default(), 1.0).unwrap();
}

#[test]
fn another_schema_is_refused_and_left_alone() {
    let (Some(url), Some(server)) = (database(), Server::shared()) else { return };
    drop(Postgres::open(&url).unwrap());
    server.admin(name(&url)).batch_execute("UPDATE conceptwatch_schema SET version = 99").unwrap();
    let error = Postgres::open(&url).err().unwrap();
    assert!(matches!(&error, HistoryError::OtherSchema { found: 99, known: 1, .. }), "{error}");
    assert!(error.to_string().contains(name(&url)), "{error}");
}

#[test]
fn what_cannot_be_opened_says_why() {
    let (Some(url), Some(server)) = (database(), Server::shared()) else { return };
    let error = |url: &str| Postgres::open(url).err().unwrap();
    let denied = error(&server.address("nobody", name(&url)));
    assert!(matches!(&denied, HistoryError::Denied { why } if why.contains("nobody")), "{denied}");
    let absent = error(&server.address("postgres", "absent"));
    assert!(matches!(&absent, HistoryError::Denied { why } if why.contains("absent")), "{absent}");
    let closed = error("postgres://hub@127.0.0.1:1/curves");
    assert!(matches!(closed, HistoryError::Unreachable { .. }), "{closed}");
    let secret = error("postgres://hub:secret@127.0.0.1:1/curves");
    assert!(matches!(secret, HistoryError::Invalid { .. }), "{secret}");
    assert!(!secret.to_string().contains("secret"), "{secret}");
}

#[test]
fn a_database_that_takes_no_changes_is_read() {
    let Some((url, server, store)) = with_run() else { return };
    drop(store);
    let fix = format!("ALTER DATABASE {} SET default_transaction_read_only = on", name(&url));
    server.admin("postgres").batch_execute(&fix).unwrap();
    let store = Postgres::open(&url).unwrap();
    assert_eq!(store.runs().unwrap().len(), 1);
    let refused = store.record_point(&point("a", "val", 1, 2), None);
    assert!(matches!(refused, Err(HistoryError::ReadOnly)), "{refused:?}");
    assert_eq!(store.waiting().kind, Unwritable::ReadOnly, "{:?}", store.waiting());
}

#[test]
fn a_server_that_dies_in_a_change_leaves_it_made_once() {
    let Some(server) = Server::start() else { return };
    let url = server.database();
    let store = Postgres::open(&url).unwrap();
    store.record_run(&run("a", 2), &Identity::default(), 1.0).unwrap();
    let calls = AtomicU32::new(0);
    let declare = |number| {
        store.apply("source", "default", number, |apply| {
            apply.make(&declared("b", "j"))?;
            apply.make(&Change::Point(point("b", "val", number, 2).into(), None))?;
            if calls.fetch_add(1, Ordering::Relaxed) == 0 {
                server.crash();
            }
            Ok(())
        })
    };
    assert!(declare(1).unwrap());
    assert_eq!(calls.load(Ordering::Relaxed), 2, "the first was lost with the server");
    assert!(!declare(1).unwrap());
    assert_eq!(store.newest_steps("b", "val", 9).unwrap(), [1]);
    assert_eq!(store.runs().unwrap().len(), 2);
    // Connections that were idle when the server died are replaced.
    server.crash();
    assert_eq!(store.runs().unwrap().len(), 2);
    assert_eq!(store.waiting().why, None);
}

#[test]
fn an_entry_that_comes_at_two_processes_at_once_is_applied_once() {
    let Some(url) = database() else { return };
    let stores = [Postgres::open(&url).unwrap(), Postgres::open(&url).unwrap()];
    let calls = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for store in &stores {
            scope.spawn(|| {
                for number in 1..=30 {
                    store
                        .apply("source", "default", number, |apply| {
                            calls.fetch_add(1, Ordering::Relaxed);
                            apply.make(&declared(&format!("run {number}"), ""))
                        })
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(calls.load(Ordering::Relaxed), 30);
    assert_eq!(stores[0].runs().unwrap().len(), 30);
    assert_eq!(stores[1].applied("source").unwrap(), 30);
    assert_eq!(stores[1].applied("other").unwrap(), 0);
    // An entry that fails stays unapplied, and nothing of it is kept.
    let failed = stores[0].apply("source", "default", 31, |apply| {
        apply.make(&declared("kept?", ""))?;
        apply.make(&Change::Point(point("unknown", "val", 1, 2).into(), None))
    });
    assert!(matches!(failed, Err(HistoryError::Unknown { .. })), "{failed:?}");
    assert_eq!((stores[0].applied("source").unwrap(), stores[0].runs().unwrap().len()), (30, 30));
}

#[test]
fn sidecars_of_one_job_share_a_run_and_those_of_another_have_their_own() {
    let Some(url) = database() else { return };
    let store = Postgres::open(&url).unwrap();
    // Each source evaluates once, in the run that is its own.
    let runs_after = |source: &str, project: &str, job: &str, step: u64| {
        let launch = Launch { job: job.to_owned(), ..Launch::default() };
        let applied = store.apply(source, project, 1, |apply| {
            apply.make(&declared("a", job))?;
            apply.make(&Change::Point(point("a", "val", step, 2).into(), Some(launch.clone())))
        });
        assert!(applied.unwrap(), "{source}");
        let mut runs: Vec<String> = store.runs().unwrap().iter().map(|stored| stored.run.name.clone()).collect();
        runs.sort();
        runs.into_iter().map(|run| (store.newest_steps(&run, "val", 9).unwrap(), run)).collect::<Vec<_>>()
    };
    let [first, both] = [vec![1], vec![1, 2]].map(|steps| (steps, "a".to_owned()));
    let [other, of_blue] = [(vec![3], "a-2".to_owned()), (vec![4], "a-3".to_owned())];
    assert_eq!(runs_after("one", "red", "job", 1), [first]);
    assert_eq!(runs_after("two", "red", "job", 2), std::slice::from_ref(&both));
    assert_eq!(runs_after("three", "red", "other job", 3), [both.clone(), other.clone()]);
    let after = runs_after("four", "blue", "job", 4);
    assert_eq!(after, [both, other, of_blue], "the same job of another project is another");
    let in_project = |project: &str| Postgres::open(&url).unwrap().in_project(project);
    let identity = Identity { job: "job", ..Identity::default() };
    let own = |project: &str| in_project(project).record_run(&run("a", 2), &identity, 1.0).unwrap().run.name.clone();
    assert_eq!((own("red"), own("blue")), ("a".into(), "a-3".into()));
    let resume = Identity { job: "x", resume: true, ..Identity::default() };
    let refused = in_project("blue").record_run(&run("a", 2), &resume, 1.0);
    assert!(
        matches!(&refused, Err(HistoryError::OtherProject { run, project, got }) if run == "a" && project == "red" && got == "blue"),
        "{refused:?}"
    );
    assert!(store.apply("one", "blue", 2, |_| Ok(())).is_err(), "a source has one project");
}

#[test]
fn matrices_are_kept_for_the_newest_points_and_for_places_that_double() {
    let Some((.., store)) = with_run() else { return };
    // The places of these steps are 1 to 20.
    for step in 1..=20 {
        store.record_point(&point("a", "val", step * 10, 2), None).unwrap();
    }
    assert_eq!(store.retain(None, MINUTE).unwrap().matrices, 11);
    let kept = |step| store.matrix("a", "val", "icl", Some(step)).unwrap().is_some();
    let steps: Vec<u64> = (1..=20).map(|place| place * 10).filter(|step| kept(*step)).collect();
    assert_eq!(steps, [10, 20, 40, 80, 160, 170, 180, 190, 200]);
    assert_eq!(store.newest_steps("a", "val", 99).unwrap().len(), 20, "points stay");
    assert_eq!(store.retain(None, MINUTE).unwrap(), Default::default());
    // What a branch leaves behind has none, and moves no place of the others.
    store.record_point(&point("a", "val", 165, 2), Some(Attempt::default())).unwrap();
    assert_eq!(
        store.retain(None, MINUTE).unwrap().matrices,
        0,
        "an attempt that is unknown is of the branch of its time"
    );
    let late = Point { time: 2e9, ..point("a", "val", 165, 2) };
    store.record_point(&late, Some(Attempt { launch: 1, restart: 0 })).unwrap();
    // Steps 170 to 200, and the point that was replaced.
    assert_eq!(store.retain(None, MINUTE).unwrap().matrices, 5);
    assert!(store.matrix("a", "val", "icl", Some(165)).unwrap().is_some());
}

#[test]
fn matrices_of_all_points_since_the_last_minute_are_looked_at() {
    let Some((url, server, store)) = with_run() else { return };
    store.record_point(&point("a", "val", 1, 2), None).unwrap();
    let columns = "ordinal, time, launch, restart, rows_seen, provisional, incomplete, body";
    let many = format!(
        "INSERT INTO point (run, split, step, {columns}) SELECT run, split, number, {columns} FROM point, \
         generate_series(2, 3500) number; \
         INSERT INTO matrix (point, score, cells) SELECT point.id, 'icl', cells FROM point, matrix WHERE step > 1;"
    );
    server.admin(name(&url)).batch_execute(&many).unwrap();
    let removed = store.retain(None, MINUTE).unwrap();
    // All but the newest five, and the twelve powers of two up to 2048.
    assert_eq!(removed.matrices, 3500 - 5 - 12);
    assert_eq!(store.retain(None, MINUTE).unwrap().matrices, 0);
    // What takes too long goes on a minute later.
    let again = "UPDATE point SET thinned = false";
    server.admin(name(&url)).batch_execute(again).unwrap();
    store.retain(None, Duration::ZERO).unwrap();
    let left = "SELECT count(*) FROM point WHERE NOT thinned";
    assert_eq!(server.admin(name(&url)).query_one(left, &[]).unwrap().get::<_, i64>(0), 2500);
}

#[test]
fn the_points_that_a_branch_leaves_behind_are_bounded() {
    let Some((url, server, store)) = with_run() else { return };
    let by = |launch| Some(Attempt { launch, restart: 0 });
    let small = |step: u64| Point { scores: Vec::new(), ..point("a", "val", step, 2) };
    store.record_point(&small(100), by(1)).unwrap();
    let columns = "ordinal, time, launch, restart, rows_seen, provisional, incomplete, body";
    let many = format!(
        "INSERT INTO point (run, split, step, {columns}) SELECT run, split, number, {columns} FROM point, \
         generate_series(101, 5199) number WHERE step = 100"
    );
    server.admin(name(&url)).batch_execute(&many).unwrap();
    store.record_point(&small(100), by(2)).unwrap();
    let mut kept = Vec::new();
    let mut next = Some(0);
    while let Some(first) = next {
        let (points, after) = store.whole_points("a", "val", first, 1000, false).unwrap();
        kept.extend(points.into_iter().filter(|point| point.superseded).map(|point| point.point.step));
        next = after;
    }
    assert_eq!((kept.len(), kept[0], kept.last()), (5000, 200, Some(&5199)), "the oldest go first");
}

#[test]
fn an_encrypted_connection_is_only_to_a_server_that_is_vouched_for() {
    let (Some(url), Some(server)) = (database(), Server::shared()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let trusted = Authority::new(directory.path(), "trusted");
    let other = Authority::new(directory.path(), "other");
    let [certificate, key] = trusted.issue(directory.path(), "server", 2999);
    server.encrypt(&certificate, &key);
    let address = |options: &str| format!("postgres://postgres@127.0.0.1:{}/{}?{options}", server.port, name(&url));
    let roots = |authority: &Authority| format!("sslmode=verify-full&sslrootcert={}", authority.file.display());
    for options in [roots(&other), "sslmode=verify-full".to_owned()] {
        let error = Postgres::open(&address(&options)).err().unwrap();
        assert!(error.to_string().to_lowercase().contains("certificate"), "{error}");
    }
    let store = Postgres::open(&address(&roots(&trusted))).unwrap();
    assert!(store.runs().unwrap().is_empty());
    let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE application_name = 'conceptwatch' AND datname = current_database()";
    assert!(server.admin(name(&url)).query_one(encrypted, &[]).unwrap().get::<_, bool>(0));
}

/// From now on the database answers a new point with an error of this code, `times` times.
fn fail(server: &Server, url: &str, code: &str, times: u32) {
    let statement = format!(
        "CREATE SEQUENCE failures; CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS \
         $$BEGIN IF nextval('failures') <= {times} THEN RAISE EXCEPTION 'as told' USING ERRCODE = '{code}'; END IF; \
         RETURN NEW; END$$; CREATE TRIGGER fail BEFORE INSERT ON point FOR EACH ROW EXECUTE FUNCTION fail();"
    );
    server.admin(name(url)).batch_execute(&statement).unwrap();
}

#[test]
fn a_full_disk_is_named_and_loses_nothing_old() {
    let Some((url, server, store)) = with_run() else { return };
    store.record_point(&point("a", "val", 1, 2), None).unwrap();
    fail(server, &url, "53100", 1);
    let again = Point { incomplete: false, ..point("a", "val", 1, 2) };
    assert!(matches!(store.record_point(&again, None), Err(HistoryError::Full)));
    assert_eq!(store.point("a", "val", Some(1), true).unwrap(), Some(point("a", "val", 1, 2)));
    store.record_point(&again, None).unwrap();
    assert_eq!(store.point("a", "val", Some(1), true).unwrap(), Some(again));
}

#[test]
fn a_change_that_meets_another_is_made_once_more_but_not_for_ever() {
    for (times, made) in [(1, true), (2, false)] {
        let Some((url, server, store)) = with_run() else { return };
        // A deadlock.
        fail(server, &url, "40P01", times);
        let recorded = store.record_point(&point("a", "val", 1, 2), None);
        assert_eq!(recorded.is_ok(), made, "{recorded:?}");
        assert_eq!(store.waiting().why.is_none(), made, "{recorded:?}");
        store.write_waiting();
        assert_eq!(store.waiting().why, None, "it asks whether the database is back");
    }
}

#[test]
fn a_store_may_be_dropped_on_a_thread_of_a_runtime() {
    let Some(url) = database() else { return };
    let store = Postgres::open(&url).unwrap();
    store.runs().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async move { drop(store) });
}

#[test]
fn runs_of_which_nothing_was_heard_for_long_are_removed() {
    let (Some(url), Some(server)) = (database(), Server::shared()) else { return };
    let store = Postgres::open(&url).unwrap();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    for at in 0..50 {
        store.record_run(&run(&format!("old {at}"), 2), &Identity::default(), 1.0).unwrap();
    }
    store.record_point(&point("old 3", "val", 1, 2), None).unwrap();
    let age = "UPDATE run SET touched = now() - interval '8 days'";
    server.admin(name(&url)).batch_execute(age).unwrap();
    store.record_run(&run("new", 2), &Identity::default(), now).unwrap();
    let days = |days: u64| Some(Duration::from_secs(86_400 * days));
    assert_eq!(store.retain(days(9), MINUTE).unwrap().runs, 0);
    assert_eq!(store.retain(None, MINUTE).unwrap().runs, 0);
    assert_eq!(store.retain(days(7), MINUTE).unwrap().runs, 50);
    assert_eq!(store.usage().unwrap().dropped.runs, 50);
    let left: Vec<String> = store.runs().unwrap().iter().map(|stored| stored.run.name.clone()).collect();
    assert_eq!(left, ["new"]);
}

/// A pooler that hands each transaction to another session keeps no settings.
#[test]
fn a_pooler_that_keeps_no_sessions_is_refused_at_the_start() {
    let (Some(url), Some(server)) = (database(), Server::shared()) else { return };
    let pooled = Pooler::start(server);
    let refused = Postgres::open(&format!("postgres://postgres@127.0.0.1:{pooled}/{}", name(&url))).err().unwrap();
    let said = refused.to_string();
    assert!(said.starts_with("store: got the address of a pooler") && said.contains("pool_mode=transaction"), "{said}");
}

/// Passes connections on without the options that a client asks for, as PgBouncer does.
struct Pooler;

impl Pooler {
    fn start(server: &Server) -> u16 {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, behind) = (listener.local_addr().unwrap().port(), server.port);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || pass_on(client, behind));
            }
        });
        port
    }
}

fn pass_on(mut client: std::net::TcpStream, behind: u16) {
    use std::io::{Read, Write};
    let mut head = [0; 8];
    client.read_exact(&mut head).unwrap();
    let mut parameters = vec![0; u32::from_be_bytes(head[..4].try_into().unwrap()) as usize - 8];
    client.read_exact(&mut parameters).unwrap();
    let texts: Vec<&[u8]> = parameters.split(|byte| *byte == 0).collect();
    let mut kept = Vec::new();
    for pair in texts.chunks(2).filter(|pair| pair.len() == 2 && !pair[0].is_empty() && pair[0] != b"options") {
        kept.extend([pair[0], b"\0", pair[1], b"\0"].concat());
    }
    kept.push(0);
    let mut server = std::net::TcpStream::connect(("127.0.0.1", behind)).unwrap();
    server.write_all(&((kept.len() + 8) as u32).to_be_bytes()).unwrap();
    server.write_all(&head[4..]).unwrap();
    server.write_all(&kept).unwrap();
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || std::io::copy(&mut from, &mut to));
    let _ = std::io::copy(&mut server, &mut client);
}
