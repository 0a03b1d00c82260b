//! `conceptwatch import` and `export --store`: curves go from a data directory into a database and back without loss.

use std::path::Path;

use crate::common::postgres::Server;
use crate::common::stored::{point, unscored};
use crate::common::{Done, conceptwatch, open_history, program, text};
use conceptwatch::history::{Ending, Identity, Postgres, Remark, RunOutcome, Store, StoredRun, Unscored, WholePoint};
use leakage::run::{Concept, Run, RunFields};
use leakage::sample::Attempt;
use leakage::step::Rank;

fn run(name: &str, k: usize) -> Run {
    let concepts =
        (0..k).map(|i| Concept { name: format!("concept {i}"), cardinality: 2, ..Concept::default() }).collect();
    let labels = [("lambda".to_owned(), "5".to_owned())].into();
    Run::try_from(RunFields { name: name.into(), concepts, labels, ..RunFields::default() }).unwrap()
}

/// Two launches of one run, another run that is named like it, one of no job, and passes without points.
fn fill(directory: &Path) {
    let history = open_history(directory);
    let declare = |name: &str, job: &str, restart, rank, resume| {
        let rank = Rank::of(rank, 4).unwrap();
        let identity = Identity { job, restart, resume, rank, client: "client", ..Identity::default() };
        history.record_run(&run(name, 3), &identity, 1.5).unwrap();
    };
    declare("a", "one", 0, 0, false);
    declare("a", "one", 1, 0, false);
    declare("a", "one", 1, 1, false);
    declare("a", "two", 0, 0, true);
    declare("a", "three", 0, 0, false);
    declare("plain", "", 0, 0, false);
    for (launch, restart, steps) in [(0, 0, 0..5), (0, 1, 3..8), (1, 0, 6..9)] {
        for step in steps {
            history.record_point(&point("a", "val", step * 10, 3), Some(Attempt { launch, restart })).unwrap();
        }
    }
    history.record_point(&point("a-2", "train", 7, 3), Some(Attempt::default())).unwrap();
    history.record_point(&point("plain", "val", 7, 3), None).unwrap();
    let attempt = Some(Attempt { launch: 1, restart: 0 });
    let skipped = |split: &str, step| Unscored { run: "a".into(), attempt, ..unscored(split, step, Ending::Skipped) };
    history.record_unscored(&[skipped("val", 85), skipped("only skipped", 1)]).unwrap();
    history.remark("a", &Remark { title: Some("the best one".into()), note: Some("two\nlines".into()) }).unwrap();
    history
        .finish_rank("a", Attempt { launch: 0, restart: 1 }, Rank::of(1, 4).unwrap(), 8.0, &RunOutcome::Finished)
        .unwrap();
    history.finish_run("a", 9.25, &RunOutcome::Finished).unwrap();
}

type Kept = Vec<(StoredRun, Vec<String>, Vec<WholePoint>, Vec<Unscored>)>;

/// All that a history says of its runs, by name.
fn kept(history: &dyn Store) -> Kept {
    let mut runs: Vec<_> = history.runs().unwrap();
    runs.sort_by(|a, b| a.run.name.cmp(&b.run.name));
    let all = |stored: StoredRun| {
        let name = stored.run.name.clone();
        let (mut points, mut passes) = (Vec::new(), Vec::new());
        for split in history.known_splits(&name).unwrap() {
            points.extend(history.whole_points(&name, &split, 0, 1000, true).unwrap().0);
            passes.extend(history.unscored(&name, &split).unwrap());
        }
        // A database gives the scores of a point in the order of the catalogue.
        points.iter_mut().for_each(|whole: &mut WholePoint| whole.point.scores.sort_by(|a, b| a.0.cmp(&b.0)));
        let ranks = history.ranks(&name).unwrap().into_iter().map(|rank| format!("{rank:?}"));
        let launches = history.launches(&name).unwrap().into_iter().map(|launch| format!("{launch:?}"));
        (stored, ranks.chain(launches).collect(), points, passes)
    };
    runs.into_iter().map(all).collect()
}

fn import(directory: &Path, url: &str, more: &[&str]) -> Done {
    conceptwatch(&[&["import", text(directory), "--store", url], more].concat())
}

#[test]
fn curves_go_into_a_database_and_back_without_loss() {
    let Some(server) = Server::shared() else { return };
    let (url, directory) = (server.database(), tempfile::tempdir().unwrap());
    let [there, back] = ["there", "back"].map(|name| directory.path().join(name));
    fill(&there);
    let said = import(&there, &url, &[]).ok();
    assert_eq!(said.lines().count(), 3, "{said}");
    assert!(said.contains("'a': 13 points, 2 passes without a point\n"), "{said}");
    let mut whole = kept(&open_history(&there));
    assert_eq!(whole.len(), 3);
    // The one without a job is told by its name and start from others of its name.
    assert!(whole[2].1.is_empty());
    whole[2].1 = vec![
        "StoredRank { attempt: Attempt { launch: 0, restart: 0 }, rank: 0, client: \"\", finished: false }".to_owned(),
        "StoredLaunch { job: \"copy of 'plain', started at 1.5\", restarts: 0 }".to_owned(),
    ];
    let store = Postgres::open(&url).unwrap();
    assert_eq!(kept(&store), whole);
    // Once more changes nothing.
    import(&there, &url, &[]).ok();
    assert_eq!(kept(&store), whole);

    conceptwatch(&["export", "--store", &url, "--format", "history", "--to", text(&back)]).ok();
    assert_eq!(kept(&open_history(&back)), whole);

    // As tables, from either.
    let tables = |source: [&str; 2], name: &str| {
        let to = directory.path().join(name);
        conceptwatch(&["export", source[0], source[1], "--format", "jsonl", "--to", text(&to)]).ok();
        let lines = std::fs::read_to_string(to.join("scores.jsonl")).unwrap().replace(text(&there), "database");
        let mut lines: Vec<String> = lines.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let of_directory = tables(["--data-dir", text(&there)], "of directory");
    assert_eq!(tables(["--store", &url], "of database"), of_directory);
}

#[test]
fn a_name_that_is_taken_gets_another() {
    let Some(server) = Server::shared() else { return };
    let (url, directory) = (server.database(), tempfile::tempdir().unwrap());
    fill(directory.path());
    let store = Postgres::open(&url).unwrap();
    store.record_run(&run("a", 3), &Identity { job: "theirs", ..Identity::default() }, 0.5).unwrap();
    store.record_run(&run("plain", 2), &Identity::default(), 0.5).unwrap();
    import(directory.path(), &url, &[]).ok();
    let names: Vec<String> = kept(&store).into_iter().map(|(stored, ..)| stored.run.name.clone()).collect();
    assert_eq!(names, ["a", "a-2", "a-2-2", "plain", "plain-2"]);
    assert_eq!(store.newest_steps("a-2", "val", 99).unwrap().len(), 9);
    assert!(store.newest_steps("a", "val", 99).unwrap().is_empty(), "theirs is left alone");
}

/// Runs of one name are those of whoever gave it, also where no launcher names a job.
#[test]
fn runs_of_one_name_in_several_directories_stay_apart() {
    let Some(server) = Server::shared() else { return };
    let (url, directory) = (server.database(), tempfile::tempdir().unwrap());
    let store = Postgres::open(&url).unwrap();
    // A sidecar has pushed the first of them.
    let pushed = Identity { job: "11111111-2222-4333-8444-555555555555", ..Identity::default() };
    let run_of = |steps: std::ops::Range<u64>, to: &dyn Store, name: &str, attempt| {
        for step in steps {
            to.record_point(&point(name, "val", step, 3), attempt).unwrap();
        }
    };
    let record = store.record_run(&run("cub", 3), &pushed, 10.0).unwrap();
    run_of(0..2, &store, "cub", record.attempt);
    for (name, started) in [("one", 20.25), ("two", 20.5)] {
        let history = open_history(&directory.path().join(name));
        history.record_run(&run("cub", 3), &Identity::default(), started).unwrap();
        run_of(0..if name == "one" { 3 } else { 4 }, &history, "cub", None);
        history.finish_run("cub", 30.0, &RunOutcome::Finished).unwrap();
    }
    let import = |name: &str| import(&directory.path().join(name), &url, &[]).ok();
    assert_eq!(import("one"), "'cub' as 'cub-2': 3 points\n");
    assert_eq!(import("two"), "'cub' as 'cub-3': 4 points\n");
    let all = kept(&store);
    let points: Vec<_> = all.iter().map(|(stored, _, points, _)| (&*stored.run.name, points.len())).collect();
    assert_eq!(points, [("cub", 2), ("cub-2", 3), ("cub-3", 4)]);
    // Once more changes nothing.
    for name in ["two", "one"] {
        import(name);
    }
    assert_eq!(kept(&store), all);
}

#[test]
fn runs_belong_to_the_project_that_is_named() {
    let Some(server) = Server::shared() else { return };
    let (url, directory) = (server.database(), tempfile::tempdir().unwrap());
    fill(directory.path());
    import(directory.path(), &url, &["--project", "vision"]).ok();
    let runs = |project: &str| -> Vec<String> {
        let query = "SELECT name FROM run WHERE project = $1 ORDER BY name";
        let rows = server.admin(url.rsplit('/').next().unwrap()).query(query, &[&project]).unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    assert_eq!(runs("vision"), ["a", "a-2", "plain"]);
    // Another project gets runs of its own.
    import(directory.path(), &url, &[]).ok();
    assert_eq!(runs("default"), ["a-2-2", "a-3", "plain-2"]);
    let error = import(directory.path(), &url, &["--project", " "]).refused(2);
    assert!(error.contains("project: "), "{error}");
}

#[test]
fn a_password_is_read_from_a_file_or_the_environment() {
    let Some(server) = Server::shared() else { return };
    let database = server.database();
    let name = database.rsplit('/').next().unwrap();
    let directory = tempfile::tempdir().unwrap();
    fill(directory.path());
    server.admin("postgres").batch_execute("CREATE ROLE hub LOGIN PASSWORD 'a:b' SUPERUSER").unwrap();
    server.ask_for_passwords("hub");
    let import = |environment: &[(&str, &str)]| {
        let url = format!("postgres://hub@127.0.0.1:{}/{name}", server.port);
        let mut command = program();
        command.args(["import", text(directory.path()), "--store", &url]);
        Done::of(command.envs(environment.iter().copied()))
    };
    let file = directory.path().join("passwords");
    crate::common::write_secret(&file, &format!("127.0.0.1:{}:*:other:x\n*:*:{name}:hub:a\\:b\n", server.port));
    for (environment, why) in
        [(&[][..], "the database refuses access"), (&[("PGPASSWORD", "wrong")], "password authentication failed")]
    {
        let error = import(environment).refused(1);
        assert!(error.contains(why), "{error}");
    }
    import(&[("PGPASSFILE", text(&file))]).ok();
    import(&[("PGPASSWORD", "a:b")]).ok();
}

#[test]
fn what_is_no_store_or_no_history_is_bad_input() {
    let directory = tempfile::tempdir().unwrap();
    let error = import(directory.path(), "postgres://h/d", &[]).refused(2);
    assert!(error.contains("has no history.sqlite3"), "{error}");
    drop(open_history(directory.path()));
    let error = import(directory.path(), "postgres://user:secret@h/d", &[]).refused(2);
    assert!(!error.contains("secret"), "{error}");
    let error = conceptwatch(&["export", "--format", "history", "--to", text(&directory.path().join("to"))]).refused(2);
    assert!(error.contains("expected --store"), "{error}");
}
