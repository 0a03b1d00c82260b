//! Sidecars that push their points to hubs: each has a connection, a source and a run of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conceptwatch::history::{Change, Declared, Launch};
use conceptwatch::server::hub_protocol::convert;
use conceptwatch::server::hub_protocol::proto::hub_client::HubClient;
use conceptwatch::server::hub_protocol::proto::{Entry, PushRequest};
use leakage::step::Rank;
use postgres::{Client, NoTls};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use tonic::transport::Channel;

use super::{Options, point, run};

/// How long streams may take to connect and declare their runs.
const CONNECTED: Duration = Duration::from_secs(20);

struct Stream {
    client: HubClient<Channel>,
    source: String,
    run: String,
    at: usize,
}

impl Stream {
    async fn open(hub: String, batch: u32, at: usize) -> Self {
        let client = HubClient::connect(hub).await.unwrap();
        let source = format!("{batch:08x}-0000-4000-8000-{at:012x}");
        Self { client, source, run: format!("stream-{batch}-{at}"), at }
    }

    fn launch(&self) -> Launch {
        Launch { job: self.run.clone(), restart: 0, number: 0 }
    }

    async fn push(&mut self, entry: Entry) {
        let number = entry.number;
        let request = PushRequest { source: self.source.clone(), entries: vec![entry] };
        let answer = self.client.push(request).await.unwrap().into_inner();
        assert!(answer.applied == number && answer.refused.is_empty(), "{answer:?}");
    }

    async fn declare(&mut self, concepts: usize) {
        let declared = Declared {
            run: run(&self.run, self.at, concepts),
            declared_name: None,
            launch: self.launch(),
            rank: Rank::default(),
            client: "client".into(),
            resume: false,
            scheduler_job: String::new(),
            host: String::new(),
            started: 1.9e9 + self.at as f64,
        };
        self.push(convert::entry(1, &Change::Declare(Box::new(declared)))).await;
    }

    /// Pushes a point at each of these times and returns how long each took to be acknowledged.
    async fn points(mut self, begin: Instant, every: Duration, count: u64, concepts: usize) -> Vec<Duration> {
        let mut took = Vec::new();
        for step in 1..=count {
            let due = begin + every * (step - 1) as u32;
            let of = point(&self.run, self.at, step, concepts, false);
            let entry = convert::entry(step + 1, &Change::Point(Box::new(of), Some(self.launch())));
            sleep_until(due).await;
            self.push(entry).await;
            took.push(due.elapsed());
        }
        took
    }
}

/// `streams` sidecars together push `rate` points per second for `seconds`.
pub fn push(options: &Options) -> Value {
    let hubs: Vec<String> = options.text("hubs").split(',').map(str::to_owned).collect();
    let (streams, seconds, rate, concepts): (usize, f64, f64, usize) =
        (options.number("streams"), options.number("seconds"), options.number("rate"), options.number("concepts"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // A number of this call, so that its runs and sources are new.
    let batch = std::process::id();
    let every = Duration::from_secs_f64(streams as f64 / rate);
    let count = (seconds * rate / streams as f64).round().max(1.0) as u64;
    let stop = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&stop);
    let url = options.text("store").to_owned();
    let watching = std::thread::spawn(move || most_connections(&url, &watched));
    let mut took = runtime.block_on(async {
        let mut opened = Vec::new();
        for at in 0..streams {
            let hub = hubs[at % hubs.len()].clone();
            opened.push(tokio::spawn(async move {
                let mut stream = Stream::open(hub, batch, at).await;
                stream.declare(concepts).await;
                stream
            }));
            tokio::time::sleep(CONNECTED / streams as u32).await;
        }
        let mut running = Vec::new();
        let start = Instant::now() + Duration::from_secs(1);
        for (at, stream) in opened.into_iter().enumerate() {
            let begin = start + every * at as u32 / streams as u32;
            running.push(tokio::spawn(stream.await.unwrap().points(begin, every, count, concepts)));
        }
        let mut took = Vec::new();
        for one in running {
            took.extend(one.await.unwrap());
        }
        took
    });
    stop.store(true, Ordering::Relaxed);
    let connections = watching.join().unwrap();
    took.sort_unstable();
    let quantile = |share: f64| took[((took.len() - 1) as f64 * share).round() as usize].as_secs_f64() * 1e3;
    let stored: i64 = Client::connect(options.text("store"), NoTls)
        .unwrap()
        .query_one(
            "SELECT count(*) FROM point JOIN run ON run.id = point.run WHERE run.name LIKE $1",
            &[&format!("stream-{batch}-%")],
        )
        .unwrap()
        .get(0);
    json!({
        "streams": streams, "sent": took.len(), "stored": stored, "p50_ms": quantile(0.5), "p99_ms": quantile(0.99),
        "longest_ms": quantile(1.0), "connections": connections,
    })
}

/// Peak number of connections from hubs to the database.
fn most_connections(url: &str, stop: &AtomicBool) -> i64 {
    let mut database = Client::connect(url, NoTls).unwrap();
    let mut most = 0;
    while !stop.load(Ordering::Relaxed) {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'conceptwatch'";
        most = most.max(database.query_one(count, &[]).unwrap().get(0));
        std::thread::sleep(Duration::from_millis(250));
    }
    most
}
