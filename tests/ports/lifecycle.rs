//! How the program stops, and which failures it survives.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use conceptwatch::history::Store;
use conceptwatch::server::proto::settled::Outcome;
use conceptwatch::server::proto::{BatchChunk, GetScoresRequest, WatchRequest};
use tonic::Code;

use crate::common::{Sidecar, Stream, chunk, open_history, pass, point, program, run, text, until};

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_stops_it_with_clients_connected() {
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    pass(&mut client, 1).await;

    let silent = [TcpStream::connect(sidecar.grpc).unwrap(), TcpStream::connect(sidecar.http).unwrap()];
    let mut half_a_greeting = TcpStream::connect(sidecar.grpc).unwrap();
    half_a_greeting.write_all(b"PRI * HTT").unwrap();
    let mut half_a_request = TcpStream::connect(sidecar.http).unwrap();
    half_a_request.write_all(b"GET /metrics HT").unwrap();
    let mut unread = TcpStream::connect(sidecar.http).unwrap();
    write!(unread, "GET /api/v1/events HTTP/1.1\r\nHost: {}\r\n\r\n", sidecar.http).unwrap();
    let mut idle = Stream::open(&mut client).await;
    let mut half_a_batch = Stream::open(&mut client).await;
    half_a_batch.send(BatchChunk { step: 2, last: false, ..chunk("r", 9, 0..64) }).await;
    let _watch = client.watch(WatchRequest::default()).await.unwrap();
    let waiting = {
        let mut client = sidecar.client().await;
        let request = GetScoresRequest {
            run: "r".into(),
            split: "val".into(),
            step: Some(99),
            timeout_seconds: 3600.0,
            matrices: false,
            ..Default::default()
        };
        tokio::spawn(async move { client.get_scores(request).await })
    };
    let open = || sidecar.metric("conceptwatch_connections", "grpc");
    // Two clients and an incomplete greeting; where the system keeps silent connections to itself, these come later.
    until("the connections are open", || open() >= 3.0).await;

    sidecar.stop().await;
    for stream in [&mut idle, &mut half_a_batch] {
        let status = stream.next().await.expect_err("the stream is ended");
        assert_eq!(status.code(), Code::Unavailable, "a status that the client retries: {status}");
    }
    assert!(waiting.await.unwrap().is_err());
    drop((silent, half_a_greeting, half_a_request, unread));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_costs_history_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let mut sidecar = on_a_full_disk(directory.path());
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    let waiting = |sidecar: &Sidecar| sidecar.metric("conceptwatch_history_waiting_bytes", "");
    let (mut step, mut after) = (0, 0);
    while after < 3 {
        step += 1;
        assert!(step < 300, "the disk does not fill");
        let point = pass(&mut client, step).await;
        assert_eq!((point.step, point.rows), (step, 64));
        assert!(point.scores.iter().any(|score| score.id == "icl" && score.value.is_some()));
        after += u32::from(waiting(&sidecar) > 0.0);
    }
    assert!(step > 3, "the history had room for a few");
    assert!(sidecar.is_alive());
    assert_eq!(sidecar.metric("conceptwatch_step", "run=\"r\""), step as f64);
    assert!(sidecar.get("/metrics").contains("conceptwatch_icl{"));
    let newest = point(&mut client, "r", "val", None).await;
    assert_eq!(newest.step, step, "the newest value is served");
    let first = point(&mut client, "r", "val", 1).await;
    assert_eq!(first.step, 1, "earlier points can still be read");
    assert_eq!(sidecar.get("/live"), "live\n");
    let ready = sidecar.get("/ready");
    assert!(ready.contains("the history cannot be written"), "{ready}");
    assert_eq!(sidecar.metric("conceptwatch_history_writable", ""), 0.0);
    assert_eq!(sidecar.metric("conceptwatch_history_errors_total", ""), 0.0, "nothing is lost yet");
    client.start_run(run("next")).await.expect("new runs go on in memory");
    assert_eq!(sidecar.terminate().code(), Some(1), "what waits is lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_room_is_written_at_the_end_if_there_is_room_again() {
    let directory = tempfile::tempdir().unwrap();
    let sidecar = on_a_full_disk(directory.path());
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    let (mut step, mut after) = (0, 0);
    while after < 20 {
        step += 1;
        pass(&mut client, step).await;
        after += u32::from(sidecar.metric("conceptwatch_history_waiting_bytes", "") > 0.0);
    }
    let roomy = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    let process = sidecar.process_id() as libc::pid_t;
    // SAFETY: prlimit reads one struct, and the old limit is not asked for.
    assert_eq!(unsafe { libc::prlimit(process, libc::RLIMIT_FSIZE, &roomy, std::ptr::null_mut()) }, 0);
    // By now the next attempt is seconds away.
    sidecar.stop().await;
    let history = open_history(directory.path());
    assert_eq!(history.newest_steps("r", "val", 999).unwrap(), (1..=step).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_disk_is_said_and_felt_by_nobody() {
    let (directory, library) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [hold, late] = ["hold", "late"].map(|name| library.path().join(name));
    let mut command = program();
    command.env("LD_PRELOAD", held_syncs(library.path(), &hold, &late));
    let sidecar = Sidecar::start_as(command, &["--data-dir", text(directory.path())]);
    let mut client = sidecar.client().await;
    let mut stream = Stream::open(&mut client).await;
    std::fs::write(&hold, "").unwrap();
    client.start_run(run("r")).await.unwrap();
    for step in 1..=10 {
        client.start_run(run(&format!("next {step}"))).await.unwrap();
        stream.pass("r", step, 0..64).await;
        assert_eq!(point(&mut client, "r", "val", step).await.step, step);
        assert_eq!(sidecar.metric("conceptwatch_points_skipped_total", ""), 0.0);
    }
    until("it says so", || sidecar.get("/ready").contains("the disk is slow")).await;
    assert_eq!(sidecar.ask("GET", "/ready", "", "").0, 200, "it takes batches all the same");
    assert!(sidecar.metric("conceptwatch_history_unwritten_seconds", "") > 0.0);
    assert_eq!(stream.settled, [], "nothing is on the disk");
    assert!(!late.exists(), "somebody waited for a sync");
    std::fs::remove_file(&hold).unwrap();
    for step in 1..=10 {
        assert_eq!(stream.settled(step).await.0, Outcome::Point);
    }
    // What waits at the end is written.
    std::fs::write(&hold, "").unwrap();
    pass(&mut client, 11).await;
    let log = sidecar.log();
    let ended = tokio::task::spawn_blocking(move || sidecar.terminate());
    until("it is stopping", || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("stopping"))).await;
    std::fs::remove_file(&hold).unwrap();
    let status = ended.await.unwrap();
    assert!(status.success(), "ended with {status}");
    let history = open_history(directory.path());
    assert_eq!(history.newest_steps("r", "val", 99).unwrap(), (1..=11).collect::<Vec<_>>());
}

/// A library whose syncs do not end while there is a file `hold`. After half a minute one does, and makes the file `late`.
fn held_syncs(directory: &Path, hold: &Path, late: &Path) -> PathBuf {
    const SOURCE: &str = "
        #include <fcntl.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        static int held(long call, int file) {
            int waited = 0;
            while (access(HOLD, F_OK) == 0 && waited++ < 30000) usleep(1000);
            if (waited >= 30000) close(creat(LATE, 0600));
            return syscall(call, file);
        }
        int fsync(int file) { return held(SYS_fsync, file); }
        int fdatasync(int file) { return held(SYS_fdatasync, file); }
    ";
    let (source, library) = (directory.join("held.c"), directory.join("held.so"));
    std::fs::write(&source, SOURCE).unwrap();
    let names = [("HOLD", hold), ("LATE", late)].map(|(name, path)| format!("-D{name}={:?}", text(path)));
    let mut built = Command::new("cc");
    let built = built.args(["-shared", "-fPIC", "-o"]).arg(&library).args(names).arg(&source).status().unwrap();
    assert!(built.success());
    library
}

/// A limit on file size simulates the full disk, for the history and for the log on standard error.
fn on_a_full_disk(directory: &Path) -> Sidecar {
    let mut command = program();
    // SAFETY: setrlimit takes a number and a struct of two, and may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: 400 << 10, rlim_max: libc::RLIM_INFINITY };
            match libc::setrlimit(libc::RLIMIT_FSIZE, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    Sidecar::start_as(command, &["--data-dir", text(directory), "--log", "trace"])
}
