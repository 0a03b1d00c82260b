//! Alerts as users see them: metrics, API, watch stream, webhook, stop advice.

use conceptwatch::server::proto::watch_response::Event;
use conceptwatch::server::proto::{
    AlertState, BatchChunk, FinishRunRequest, GetAdviceRequest, GetAdviceResponse, WatchRequest,
};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::common::certificates::{Authority, acceptor};
use crate::common::{Client, Sidecar, Stream, chunk, pass, run, text, until};

/// Fires at every pass: the passes of these tests have 64 rows.
const FEW: &str =
    "[[alerts]]\nname = \"few\"\nfew_rows = 1000\nevaluations = 2\nadvise_stop = true\nseverity = \"critical\"\n";

fn configured(directory: &tempfile::TempDir, configuration: &str) -> Sidecar {
    let path = directory.path().join("serve.toml");
    std::fs::write(&path, configuration).unwrap();
    Sidecar::start(&["--config", text(&path)])
}

async fn advice(client: &mut Client, step: u64) -> GetAdviceResponse {
    let request =
        GetAdviceRequest { run: "r".into(), step, timeout_seconds: 20.0, client: String::new(), ..Default::default() };
    client.get_advice(request).await.unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_reaches_every_output_and_ends_with_its_run() {
    let directory = tempfile::tempdir().unwrap();
    let sidecar = configured(&directory, FEW);
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    let mut watch = client.watch(WatchRequest::default()).await.unwrap().into_inner();
    let state = || sidecar.metric("conceptwatch_alert_state", "rule=\"few\"");

    Stream::open(&mut client).await.ask(BatchChunk { step: 1, ..chunk("r", 1000, 0..32) }).await;
    let asked = GetAdviceRequest { run: "r".into(), step: 1, ..Default::default() };
    let early = client.get_advice(asked).await.unwrap().into_inner();
    assert!(!early.stop && early.reason.contains("the scores of step 1 are late"), "{early:?}");
    pass(&mut client, 1).await;
    until("it is judged", || state() == 1.0).await;
    pass(&mut client, 2).await;
    let stop = advice(&mut client, 2).await;
    assert!(stop.stop && stop.reason.starts_with("few: 64 rows, fewer than 1000, for 2 evaluations"), "{stop:?}");
    assert_eq!(stop.decided_by_step, 2);
    assert_eq!(advice(&mut client, 1).await, early, "the answer that another rank received");
    assert_eq!(state(), 2.0);
    assert!(!sidecar.get("/metrics").contains("NaN"), "an undefined value is left out");
    let told = sidecar.json("/api/v1/alerts");
    let standing = &told["standings"][0];
    assert_eq!((&standing["state"], &standing["advises_stop"]), (&"firing".into(), &true.into()), "{told}");
    assert_eq!(told["changes"].as_array().unwrap().len(), 2);
    assert_eq!(told["rules"][0]["few_rows"], 1000);

    // The verdict on the same evaluations is the same when the run has finished.
    let verdict = || {
        let found = sidecar.json("/api/v1/verdict?run=r&split=val");
        ["state", "reason", "since"].map(|key| found[key].clone())
    };
    let before = verdict();
    assert_eq!(before[0], "leaking");
    let finished = client.finish_run(FinishRunRequest { run: "r".into(), ..Default::default() }).await.unwrap();
    assert_eq!(finished.into_inner().other_splits, [] as [&str; 0]);
    assert_eq!(state(), 0.0);
    assert_eq!(verdict(), before);
    let last = sidecar.json("/api/v1/alerts")["changes"][2].clone();
    assert!(last["evidence"].as_str().unwrap().starts_with("the run finished; last: 64 rows"), "{last}");
    let mut seen = Vec::new();
    while seen.len() < 3 {
        if let Some(Event::Alert(alert)) = watch.message().await.unwrap().unwrap().event {
            seen.push(alert.state());
        }
    }
    assert_eq!(seen, [AlertState::Pending, AlertState::Firing, AlertState::Inactive]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_no_rule_judged_is_told_so_when_it_finishes() {
    let directory = tempfile::tempdir().unwrap();
    let sidecar = configured(&directory, &format!("{FEW}split = \"test\"\n"));
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    pass(&mut client, 1).await;
    let finished = client.finish_run(FinishRunRequest { run: "r".into(), ..Default::default() }).await.unwrap();
    assert_eq!(finished.into_inner().other_splits, ["test"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_keeps_its_state_across_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let configuration = format!("data_dir = \"{}\"\n{FEW}", text(&directory.path().join("curves")));
    let sidecar = configured(&directory, &configuration);
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    for step in 1..=3 {
        pass(&mut client, step).await;
    }
    // A point is there before it is judged.
    assert!(advice(&mut client, 3).await.stop);
    let before = sidecar.json("/api/v1/alerts");
    sidecar.kill();
    let sidecar = configured(&directory, &configuration);
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    let after = sidecar.json("/api/v1/alerts");
    assert_eq!(after["standings"], before["standings"]);
    assert_eq!(after["changes"], before["changes"]);
    assert!(advice(&mut client, 3).await.stop, "without another evaluation");
}

/// A TLS receiver, the file of its authority, and a channel of the bodies it receives.
async fn https_receiver(
    directory: &tempfile::TempDir,
) -> (std::net::SocketAddr, std::path::PathBuf, mpsc::Receiver<String>) {
    let authority = Authority::new(directory.path(), "trusted");
    let acceptor = acceptor(&authority.issue(directory.path(), "receiver", 2100));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::channel(8);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut text = String::new();
            while !text.ends_with('}') {
                let mut bytes = [0; 4096];
                let read = stream.read(&mut bytes).await.unwrap();
                text += std::str::from_utf8(&bytes[..read]).unwrap();
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            tell.send(text).await.unwrap();
        }
    });
    (address, authority.file, told)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_https_webhook_is_notified_if_its_certificate_is_trusted() {
    let directory = tempfile::tempdir().unwrap();
    let (address, authority, mut told) = https_receiver(&directory).await;
    let path = directory.path().join("serve.toml");
    std::fs::write(&path, format!("webhook = \"https://{address}/secret\"\n{FEW}")).unwrap();
    for trusted in [true, false] {
        let mut command = crate::common::program();
        if trusted {
            command.env("SSL_CERT_FILE", &authority);
        }
        let sidecar = Sidecar::start_as(command, &["--config", text(&path)]);
        let mut client = sidecar.client().await;
        client.start_run(run("r")).await.unwrap();
        pass(&mut client, 1).await;
        pass(&mut client, 2).await;
        if trusted {
            let request = told.recv().await.unwrap();
            assert!(
                request.starts_with("POST /secret HTTP/1.1\r\n") && request.contains("\"rule\":\"few\""),
                "{request}"
            );
        } else {
            until("the failure is counted", || {
                sidecar.metric("conceptwatch_notifications_failed_total", "webhook") >= 1.0
            })
            .await;
            let log = sidecar.logged();
            assert!(log.contains("certificate") && !log.contains("secret"), "{log}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn default_rules_apply_without_configuration_and_an_empty_list_has_none() {
    let sidecar = Sidecar::start(&[]);
    assert_eq!(sidecar.json("/api/v1/alerts")["rules"][0]["name"], "interconcept leakage is high");
    let directory = tempfile::tempdir().unwrap();
    let sidecar = configured(&directory, "alerts = []\n");
    assert_eq!(sidecar.json("/api/v1/alerts")["rules"], Value::Array(Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_terminal_shows_points_and_alerts_as_they_arrive() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    let directory = tempfile::tempdir().unwrap();
    let sidecar = configured(&directory, FEW);
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    let address = sidecar.grpc.to_string();
    let mut command = crate::common::program();
    command.args(["watch", "r", "--address", &address, "--scores", "ctl,icl_excess"]).stdout(Stdio::piped());
    let mut watching = command.spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let shown = std::thread::spawn(move || {
        let mut shown = Vec::new();
        // The stream may start in the middle: wait for a point and then an alert.
        let begins = |line: &String, with: &str| line.starts_with(with);
        while !(shown.iter().any(|line| begins(line, "r  step "))
            && shown.last().is_some_and(|line| begins(line, "FIRING")))
        {
            shown.push(lines.next().expect("the program keeps running").unwrap());
        }
        shown
    });
    // The program may connect late: send passes until it has shown enough.
    for step in 1..=200 {
        pass(&mut client, step).await;
        client.start_run(run("r")).await.unwrap();
        if shown.is_finished() {
            break;
        }
        if step % 10 == 0 {
            // Ends the alert, so that it fires again.
            client.finish_run(FinishRunRequest { run: "r".into(), ..Default::default() }).await.unwrap();
            client.start_run(run("r")).await.unwrap();
        }
    }
    let shown = shown.join().unwrap();
    watching.kill().unwrap();
    watching.wait().unwrap();
    assert!(
        shown
            .iter()
            .any(|line| line.starts_with("r  step ") && line.contains("  ctl ") && line.contains("  icl_excess ")),
        "{shown:?}"
    );
    assert!(shown.last().unwrap().contains("r: few: 64 rows, fewer than 1000"), "{shown:?}");
}
