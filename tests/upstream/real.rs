//! Against real hubs over one database in PostgreSQL.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use conceptwatch::server::proto::{GetSeriesRequest, ListRunsRequest, SeriesPoint};
use tokio::net::{TcpListener, TcpStream};
use tonic::Request;

use super::served::a_database;
use super::{Job, drained, upstream};
use crate::common::{Client, Sidecar, text, write_secret};

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

async fn series(client: &mut Client, run: &str, score: &str) -> Vec<SeriesPoint> {
    let (run, split, score) = (run.to_owned(), "val".to_owned(), score.to_owned());
    let request = GetSeriesRequest { run, split, score, ..Default::default() };
    client.get_series(request).await.unwrap().into_inner().points
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
    let mut of_hub = hub.client().await;
    for score in ["ctl", "icl", "concept_accuracy"] {
        let here = series(&mut job.client, "r", score).await;
        let steps: Vec<u64> = here.iter().map(|point| point.step).collect();
        assert_eq!(steps, (1..first + 5).collect::<Vec<_>>());
        assert_eq!(series(&mut of_hub, "r", score).await, here, "{score}");
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
    let mut request = Request::new(ListRunsRequest::default());
    request.metadata_mut().insert("authorization", "Bearer the-token-of-this-hub".parse().unwrap());
    let listed = hub.client().await.list_runs(request).await.unwrap().into_inner().runs;
    let mut runs: Vec<(String, u64)> =
        listed.into_iter().map(|status| (status.run.unwrap().name, status.splits[0].points)).collect();
    runs.sort();
    assert_eq!(runs, [("r".to_owned(), 3), ("r-2".to_owned(), 4)]);
}
