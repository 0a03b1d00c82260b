//! Metrics pushed by OTLP, to a stub of the official service.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric, NumberDataPoint, number_data_point};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::common::certificates::{Authority, acceptor};
use crate::common::{PATIENCE, Sidecar, pass, program, run, until};

/// A collector that passes on what it takes, less the points that it rejects.
struct Stub {
    taken: mpsc::UnboundedSender<ExportMetricsServiceRequest>,
    rejects: Arc<AtomicI64>,
}

#[tonic::async_trait]
impl MetricsService for Stub {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let _ = self.taken.send(request.into_inner());
        let rejected_data_points = self.rejects.load(Ordering::SeqCst);
        let error_message = if rejected_data_points > 0 { "no room".to_owned() } else { String::new() };
        let partial = ExportMetricsPartialSuccess { rejected_data_points, error_message };
        Ok(Response::new(ExportMetricsServiceResponse { partial_success: Some(partial) }))
    }
}

struct Collector {
    address: SocketAddr,
    taken: mpsc::UnboundedReceiver<ExportMetricsServiceRequest>,
    rejects: Arc<AtomicI64>,
    stop: CancellationToken,
}

impl Collector {
    async fn start(address: &str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let ((tell, taken), rejects, stop) =
            (mpsc::unbounded_channel(), Arc::<AtomicI64>::default(), CancellationToken::new());
        let stub = Stub { taken: tell, rejects: Arc::clone(&rejects) };
        let server = Server::builder().add_service(MetricsServiceServer::new(stub));
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(server.serve_with_incoming_shutdown(TcpListenerStream::new(listener), stopped));
        Self { address, taken, rejects, stop }
    }

    async fn next(&mut self) -> ExportMetricsServiceRequest {
        timeout(PATIENCE, self.taken.recv()).await.expect("a push").expect("the collector runs")
    }

    /// The next push that has a metric of this name, by name.
    async fn next_with(&mut self, name: &str) -> BTreeMap<String, Metric> {
        loop {
            let metrics = metrics(&self.next().await);
            if metrics.contains_key(name) {
                return metrics;
            }
        }
    }
}

fn metrics(request: &ExportMetricsServiceRequest) -> BTreeMap<String, Metric> {
    let scopes = request.resource_metrics.iter().flat_map(|one| &one.scope_metrics);
    scopes.flat_map(|scope| &scope.metrics).map(|metric| (metric.name.clone(), metric.clone())).collect()
}

fn pairs(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let pair = |one: &KeyValue| match one.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(value)) => (one.key.clone(), value.clone()),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(pair).collect()
}

fn points(metric: &Metric) -> &[NumberDataPoint] {
    match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => &gauge.data_points,
        Data::Sum(sum) => {
            assert!(sum.is_monotonic, "{}", metric.name);
            assert_eq!(sum.aggregation_temporality(), AggregationTemporality::Cumulative);
            &sum.data_points
        }
        other => panic!("{other:?}"),
    }
}

fn pushing(to: impl std::fmt::Display, interval: &str) -> Vec<String> {
    ["--otlp-endpoint", &to.to_string(), "--otlp-interval", interval].map(str::to_owned).to_vec()
}

fn start(arguments: &[String]) -> Sidecar {
    Sidecar::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn lines(sidecar: &Sidecar, says: &str) -> usize {
    sidecar.logged().matches(says).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_gets_the_metrics_of_a_scrape() {
    let mut collector = Collector::start("127.0.0.1:0").await;
    let sidecar = start(&pushing(format!("http://{}", collector.address), "1"));
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    pass(&mut client, 1).await;

    let request = collector.next().await;
    let resource = request.resource_metrics[0].resource.as_ref().unwrap();
    let attributes = pairs(&resource.attributes);
    assert_eq!(attributes["service.name"], "conceptwatch");
    assert_eq!(attributes["service.version"], env!("CARGO_PKG_VERSION"));
    let instance = format!("{}:{}", attributes["host.name"], sidecar.http.port());
    assert_eq!(attributes["service.instance.id"], instance);
    assert!(!attributes["host.name"].is_empty());

    let pushed = collector.next_with("conceptwatch_verdict").await;
    let step = &points(&pushed["conceptwatch_step"])[0];
    assert_eq!(
        pairs(&step.attributes),
        BTreeMap::from([("run", "r"), ("split", "val")].map(|(name, value)| (name.to_owned(), value.to_owned())))
    );
    assert_eq!(step.value, Some(number_data_point::Value::AsDouble(1.0)));
    let rows = &points(&pushed["conceptwatch_rows_received_total"])[0];
    assert_eq!(rows.value, Some(number_data_point::Value::AsDouble(64.0)));
    assert!(0 < rows.start_time_unix_nano && rows.start_time_unix_nano < rows.time_unix_nano);
    assert_eq!(pushed["conceptwatch_received_bytes_total"].unit, "By");
    assert_eq!(pushed["conceptwatch_lag_seconds"].unit, "s");
    let Some(Data::Histogram(durations)) = &pushed["conceptwatch_score_duration_seconds"].data else {
        panic!("{pushed:?}")
    };
    let durations = &durations.data_points[0];
    assert!(durations.count > 0 && durations.count == durations.bucket_counts.iter().sum::<u64>(), "{durations:?}");
    assert_eq!(durations.bucket_counts.len(), durations.explicit_bounds.len() + 1);

    // Scrapes count themselves, which pushes do not. Later scores join the point meanwhile.
    let own = BTreeSet::from(["conceptwatch_http_requests_total".to_owned()]);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let pushed: BTreeSet<String> = collector.next_with("conceptwatch_verdict").await.into_keys().collect();
        let scraped = sidecar.get("/metrics");
        let named = scraped.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let scraped: BTreeSet<String> = named.map(|(name, _)| name.to_owned()).collect();
        if &pushed - &own == &scraped - &own {
            break;
        }
        assert!(Instant::now() < deadline, "{:?}", &pushed ^ &scraped);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_push_is_made_at_the_end() {
    let mut collector = Collector::start("127.0.0.1:0").await;
    let sidecar = start(&pushing(collector.address, "3600"));
    assert!(!metrics(&collector.next().await).contains_key("conceptwatch_run_info"));
    sidecar.client().await.start_run(run("r")).await.unwrap();
    assert!(sidecar.terminate().success());
    let last = metrics(&collector.next().await);
    assert_eq!(pairs(&points(&last["conceptwatch_run_info"])[0].attributes)["run"], "r");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_gone_is_counted_and_gets_the_newest_values_when_it_is_back() {
    let first = Collector::start("127.0.0.1:0").await;
    let (address, sidecar) = (first.address, start(&pushing(first.address, "1")));
    let counted = |name: &str| sidecar.metric(&format!("conceptwatch_otlp_{name}_total"), "");
    until("a push", || counted("pushes") >= 1.0).await;
    first.stop.cancel();
    drop(first);
    until("two failures", || counted("pushes_failed") >= 2.0).await;
    assert_eq!(lines(&sidecar, "metrics cannot be pushed by OTLP"), 1);
    let pushes = counted("pushes");

    let mut second = Collector::start(&address.to_string()).await;
    let pushed = second.next_with("conceptwatch_otlp_pushes_failed_total").await;
    let failed = &points(&pushed["conceptwatch_otlp_pushes_failed_total"])[0];
    assert!(
        matches!(failed.value, Some(number_data_point::Value::AsDouble(failures)) if failures >= 2.0),
        "{failed:?}"
    );
    until("another push", || counted("pushes") > pushes).await;
    assert_eq!(lines(&sidecar, "metrics are pushed by OTLP again"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_delays_neither_batches_nor_the_end() {
    let hanging = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let sidecar = start(&pushing(hanging.local_addr().unwrap(), "1"));
    let mut client = sidecar.client().await;
    client.start_run(run("r")).await.unwrap();
    pass(&mut client, 1).await;
    assert_eq!(sidecar.metric("conceptwatch_otlp_pushes_total", ""), 0.0);
    until("the push is given up", || sidecar.metric("conceptwatch_otlp_pushes_failed_total", "") >= 1.0).await;
    assert_eq!(lines(&sidecar, "no answer within 10 s"), 1);
    assert!(sidecar.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn points_that_a_collector_rejects_are_counted() {
    let mut collector = Collector::start("127.0.0.1:0").await;
    collector.rejects.store(3, Ordering::SeqCst);
    let sidecar = start(&pushing(collector.address, "1"));
    let counted = |name: &str| sidecar.metric(&format!("conceptwatch_otlp_{name}_total"), "");
    until("two pushes", || counted("points_rejected") >= 6.0).await;
    assert_eq!((counted("points_rejected") % 3.0, counted("pushes_failed")), (0.0, 0.0));
    assert_eq!(lines(&sidecar, "the OTLP collector rejects points"), 1);
    assert_eq!(lines(&sidecar, "no room"), 1);
    collector.next().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_https_collector_is_pushed_to_if_its_certificate_is_trusted() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path(), "authority");
    let acceptor = acceptor(&authority.issue(directory.path(), "collector", 2100));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let arguments = pushing(format!("https://{}", listener.local_addr().unwrap()), "1");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();

    let mut command = program();
    command.env("SSL_CERT_FILE", &authority.file);
    let sidecar = Sidecar::start_as(command, &arguments);
    let (stream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let mut stream = acceptor.accept(stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await.unwrap();
    assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    drop((stream, sidecar));

    let other = Authority::new(directory.path(), "other");
    let mut command = program();
    command.env("SSL_CERT_FILE", &other.file);
    let sidecar = Sidecar::start_as(command, &arguments);
    let (stream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    assert!(acceptor.accept(stream).await.is_err());
    until("the failure is counted", || sidecar.metric("conceptwatch_otlp_pushes_failed_total", "") >= 1.0).await;
    assert_eq!(lines(&sidecar, "certificate"), 1, "{}", sidecar.logged());
}
