//! A rolling window continues exactly when the sidecar is restarted.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use conceptwatch::history::{RunOutcome, Store};
use conceptwatch::server::proto::ingest_response::Outcome;
use conceptwatch::server::proto::{BatchChunk, FinishRunRequest, Point, StartRunRequest};

use crate::common::{Client, PATIENCE, Sidecar, Stream, chunk, open_history, point, program, run, text, until};

const CLIENT: &str = "trainer";

fn start(job: &str) -> StartRunRequest {
    StartRunRequest { client: CLIENT.into(), job: job.into(), ..run("r") }
}

/// More rows than the window holds, each step with other ones.
fn batch(step: u64) -> BatchChunk {
    let rows = chunk("r", step, 100 * step..100 * step + 160);
    BatchChunk { split: "train".into(), step, client: CLIENT.into(), ..rows }
}

/// The last evaluation of the window, without what depends on the time at which it was made.
async fn finish(client: &mut Client) -> Point {
    let timeout_seconds = PATIENCE.as_secs_f64();
    let request = FinishRunRequest { run: "r".into(), client: CLIENT.into(), timeout_seconds, ..Default::default() };
    let answer = client.finish_run(request).await.unwrap().into_inner();
    assert!(answer.finished && answer.unsettled.is_empty(), "{answer:?}");
    Point { time: 0.0, seconds: 0.0, ..point(client, "r", "train", None).await }
}

fn windows(directory: &Path) -> Vec<PathBuf> {
    let files = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let all = files(directory.join("windows")).flat_map(files);
    all.filter(|file| file.extension().is_some_and(|extension| extension == "window")).collect()
}

fn options(directory: &Path) -> [&str; 4] {
    ["--data-dir", text(directory), "--sample-rows", "256"]
}

/// What the window gives when the sidecar is not restarted.
async fn undisturbed(job: &str) -> Point {
    let directory = tempfile::tempdir().unwrap();
    let sidecar = Sidecar::start(&options(directory.path()));
    let mut client = sidecar.client().await;
    client.start_run(start(job)).await.unwrap();
    let mut stream = Stream::open(&mut client).await;
    for step in 1..=6 {
        assert_eq!(stream.ask(batch(step)).await.outcome(), Outcome::Accepted);
    }
    finish(&mut client).await
}

#[tokio::test(flavor = "multi_thread")]
async fn its_scores_are_equal_to_the_bit_after_a_stop_or_a_kill() {
    for (job, killed) in [("job", false), ("job", true), ("", false)] {
        let expected = undisturbed(job).await;
        assert!((expected.rows, expected.step, expected.provisional) == (256, 6, false));
        let directory = tempfile::tempdir().unwrap();
        let sidecar = Sidecar::start(&options(directory.path()));
        let mut client = sidecar.client().await;
        client.start_run(start(job)).await.unwrap();
        let mut stream = Stream::open(&mut client).await;
        for step in 1..=4 {
            stream.ask(batch(step)).await;
        }
        let from = if killed {
            until("the window is saved", || windows(directory.path()).len() == 1).await;
            sidecar.kill();
            1
        } else {
            sidecar.stop().await;
            5
        };
        let sidecar = Sidecar::start(&options(directory.path()));
        let mut client = sidecar.client().await;
        client.start_run(start(job)).await.unwrap();
        let mut stream = Stream::open(&mut client).await;
        for step in from..=6 {
            // After a kill all of them come again, and those that were saved are known.
            let answer = stream.ask(batch(step)).await;
            assert!(step > 1 || answer.outcome() == Outcome::Duplicate, "{answer:?}");
        }
        assert_eq!(finish(&mut client).await, expected, "job '{job}', killed {killed}");
        assert_eq!(windows(directory.path()), Vec::<PathBuf>::new(), "the run has finished");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_from_an_earlier_step_begins_a_new_window() {
    let directory = tempfile::tempdir().unwrap();
    let sidecar = Sidecar::start(&options(directory.path()));
    let mut client = sidecar.client().await;
    client.start_run(start("job")).await.unwrap();
    let mut stream = Stream::open(&mut client).await;
    for step in 1..=4 {
        stream.ask(batch(step)).await;
    }
    sidecar.stop().await;
    let sidecar = Sidecar::start(&options(directory.path()));
    let mut client = sidecar.client().await;
    // Sidecar and job died together; the launcher starts the job again from a checkpoint.
    client.start_run(StartRunRequest { attempt: 1, ..start("job") }).await.unwrap();
    let mut stream = Stream::open(&mut client).await;
    stream.ask(batch(2)).await;
    let last = finish(&mut client).await;
    assert_eq!((last.step, last.rows), (2, 160), "rows of the abandoned model are gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_or_foreign_file_is_ignored_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let mut ignored = 0.0;
    let damages: [fn(&mut Vec<u8>); 5] = [
        |bytes| bytes.truncate(10),
        |bytes| bytes[0] ^= 1,
        |bytes| bytes[8] ^= 1,
        |bytes| *bytes.last_mut().unwrap() ^= 1,
        |bytes| bytes.clear(),
    ];
    for damage in damages {
        let sidecar = Sidecar::start(&options(directory.path()));
        let mut client = sidecar.client().await;
        client.start_run(start("job")).await.unwrap();
        assert_eq!(sidecar.metric("conceptwatch_windows_ignored_total", ""), ignored);
        ignored = 1.0;
        let mut stream = Stream::open(&mut client).await;
        assert_eq!(stream.ask(batch(1)).await.outcome(), Outcome::Accepted, "nothing of it is known");
        until("the window is saved", || windows(directory.path()).len() == 1).await;
        sidecar.stop().await;
        let file = windows(directory.path()).remove(0);
        let mut bytes = std::fs::read(&file).unwrap();
        damage(&mut bytes);
        std::fs::write(&file, bytes).unwrap();
    }
    // A window of other options.
    let sidecar = Sidecar::start(&options(directory.path()));
    let mut client = sidecar.client().await;
    client.start_run(start("job")).await.unwrap();
    Stream::open(&mut client).await.ask(batch(1)).await;
    sidecar.stop().await;
    let sidecar = Sidecar::start(&["--data-dir", text(directory.path()), "--sample-rows", "128"]);
    let mut client = sidecar.client().await;
    client.start_run(start("job")).await.unwrap();
    assert_eq!(sidecar.metric("conceptwatch_windows_ignored_total", ""), 1.0);
    assert_eq!(Stream::open(&mut client).await.ask(batch(1)).await.outcome(), Outcome::Accepted);
}

/// The mode of every file and directory below one, by path.
fn modes(directory: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        let metadata = std::fs::metadata(&path).unwrap();
        if metadata.is_dir() {
            found.extend(modes(&path));
        }
        found.push((path, metadata.permissions().mode() & 0o777));
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn only_its_user_can_read_what_a_sidecar_keeps_whatever_the_umask() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("data");
    let mut command = program();
    // SAFETY: umask takes a number and cannot fail.
    unsafe {
        command.pre_exec(|| {
            libc::umask(0);
            Ok(())
        });
    }
    let sidecar = Sidecar::start_as(command, &options(&directory));
    let mut client = sidecar.client().await;
    client.start_run(start("job")).await.unwrap();
    Stream::open(&mut client).await.ask(batch(1)).await;
    until("the window is saved", || windows(&directory).len() == 1).await;
    let found = modes(&directory);
    for name in ["history.sqlite3", "history.sqlite3-wal", "address", "windows"] {
        assert!(found.iter().any(|(path, _)| path.ends_with(name)), "{name} in {found:?}");
    }
    for (path, mode) in &found {
        assert_eq!(*mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
    drop(sidecar);
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_that_no_run_will_continue_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let saved = async |name: &str| {
        let sidecar = Sidecar::start(&options(directory.path()));
        let mut client = sidecar.client().await;
        client.start_run(StartRunRequest { client: CLIENT.into(), job: name.into(), ..run(name) }).await.unwrap();
        let rows = BatchChunk { split: "train".into(), step: 1, client: CLIENT.into(), ..chunk(name, 1, 0..64) };
        Stream::open(&mut client).await.ask(rows).await;
        sidecar.stop().await;
        windows(directory.path())
    };
    let written = |file: &Path, ago: u64| {
        let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
        let then = file.metadata().unwrap().modified().unwrap() - std::time::Duration::from_secs(ago);
        file.set_modified(then).unwrap();
    };
    let (old, both) = (saved("old").await, saved("young").await);
    let young = both.iter().find(|file| !old.contains(file)).unwrap();
    assert_eq!((old.len(), both.len()), (1, 2));
    written(&old[0], 90_000);
    written(young, 3_600 * 20);
    // As of a run that was removed while the sidecar was not there, and of something else.
    let gone = directory.path().join("windows/0123456789abcdef");
    let theirs = directory.path().join("windows/theirs");
    for folder in [&gone, &theirs] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("0.window"), "rows").unwrap();
    }
    let sidecar = Sidecar::start(&options(directory.path()));
    until("they are removed", || !old[0].exists() && !gone.exists()).await;
    assert!(young.exists() && theirs.exists(), "{:?}", windows(directory.path()));
    until("the log says so", || {
        let log = sidecar.logged();
        log.contains("nobody has sent to its run for too long") && log.contains("its run is not in the history")
    })
    .await;
    // As where a crash came between the end of the run and the removal.
    sidecar.stop().await;
    let history = open_history(directory.path());
    history.finish_run("young", 2.0, &RunOutcome::Finished).unwrap();
    drop(history);
    let _sidecar = Sidecar::start(&options(directory.path()));
    until("it is removed", || !young.exists()).await;
}
