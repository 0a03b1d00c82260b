//! Against real hubs over one database in PostgreSQL.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};

use super::served::a_database;
use super::{Job, drained, upstream};
use crate::common::{Sidecar, text, write_secret};

/// An address whose hub can be replaced.
struct Front {
    port: u16,
    behind: Arc<Mutex<SocketAddr>>,
}

impl Front {
    async fn open(hub: &Sidecar) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let behind = Arc::new(Mutex::new(hub.grpc));
        let target = Arc::clone(&behind);
        tokio::spawn(async move {
            while let Ok((mut outside, _)) = listener.accept().await {
                let target = *target.lock().unwrap();
                tokio::spawn(async move {
                    let Ok(mut inside) = TcpStream::connect(target).await else { return };
                    let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
                });
            }
        });
        Self { port, behind }
    }

    fn lead_to(&self, hub: &Sidecar) {
        *self.behind.lock().unwrap() = hub.grpc;
    }
}

fn series(of: &Sidecar, score: &str) -> Vec<Value> {
    let points = of.json(&format!("/api/v1/series?run=r&split=val&score={score}"))["points"].take();
    serde_json::from_value(points).unwrap()
}

fn start(data: &Path, port: u16) -> Sidecar {
    Sidecar::start(&["--data-dir", text(data), "--upstream", &format!("http://127.0.0.1:{port}")])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_has_every_curve_once_whatever_is_killed() {
    let Some(database) = a_database() else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut hub = Sidecar::start(&["--store", &database]);
    let front = Front::open(&hub).await;
    let mut sidecar = start(directory.path(), front.port);
    let mut job = Job::start(&sidecar).await;
    let mut first = 1;
    for round in 0..6 {
        job.settled(first..first + 25).await;
        first += 25;
        if round % 2 == 0 {
            hub.kill();
            hub = Sidecar::start(&["--store", &database]);
            front.lead_to(&hub);
        } else {
            sidecar.kill();
            sidecar = start(directory.path(), front.port);
            job = Job::start(&sidecar).await;
        }
    }
    job.settled(first..first + 5).await;
    job.finish().await;
    drained(&sidecar).await;
    for score in ["ctl", "icl", "concept_accuracy"] {
        let here = series(&sidecar, score);
        let steps: Vec<u64> = here.iter().map(|point| point["step"].as_u64().unwrap()).collect();
        assert_eq!(steps, (1..first + 5).collect::<Vec<_>>());
        assert_eq!(series(&hub, score), here, "{score}");
    }
    assert_eq!(upstream(&sidecar)["refused"], 0);
    assert_eq!(hub.metric("conceptwatch_hub_entries_total", "outcome=\"refused\""), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecars_of_two_machines_share_names_but_no_runs() {
    let Some(database) = a_database() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    write_secret(&file, "the-token-of-this-hub");
    let hub = Sidecar::start(&["--store", &database, "--token-file", text(&file)]);
    let address = format!("http://{}", hub.grpc);
    let options = ["--upstream", &address, "--upstream-token-file", text(&file)];
    let sidecars = [Sidecar::start(&options), Sidecar::start(&options)];
    for (number, sidecar) in sidecars.iter().enumerate() {
        let mut job = Job::of(sidecar, &format!("job {number}")).await;
        job.settled(1..4 + number as u64).await;
        drained(sidecar).await;
    }
    let (_, listed) = hub.ask("GET", "/api/v1/runs", "Authorization: Bearer the-token-of-this-hub\r\n", "");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let of = |run: &Value| (run["name"].as_str().unwrap().to_owned(), run["splits"][0]["points"].as_u64().unwrap());
    let mut runs: Vec<(String, u64)> = listed["runs"].as_array().unwrap().iter().map(of).collect();
    runs.sort();
    assert_eq!(runs, [("r".to_owned(), 3), ("r-2".to_owned(), 4)]);
}
