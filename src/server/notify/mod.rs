//! Sends alerts to external receivers: a webhook, and Alertmanager through its API v2.
//!
//! Each receiver has its own task and bounded queue, so callers never wait: a receiver that hangs or answers 500 loses
//! only its own messages, and those are counted.

mod chat;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Request, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use prost_types::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use leakage::field_error::{FieldError, with_causes};

use super::clock::unix_time;
use super::live::AlertChange;
use super::metrics::Metrics;
use super::peers::without_user;
use leakage::alert::State;
use leakage::field_error::in_short;

pub use chat::WebhookFormat;

/// Changes queued for a receiver; further ones are dropped and counted.
const QUEUE: usize = 256;
/// Attempts to deliver a change to a webhook, and the pause after the first attempt; it doubles after each one.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause that a receiver may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Maximum number of alerts, firing or resolved, that wait for a receiver. Beyond it the oldest are dropped and counted.
const MOST: usize = 10_000;
/// Bytes of a refusal's reason.
const MOST_SAID: usize = 4096;
/// Pause before Alertmanager is tried again after a failure.
const RETRY: Duration = Duration::from_secs(5);
/// Alertmanager considers a firing alert resolved if it is not resent within this multiple of the resend interval.
const MISSED: f64 = 4.0;

/// The receivers of alerts, and the timing of deliveries.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub webhook: Option<Target>,
    pub webhook_format: WebhookFormat,
    pub alertmanager: Option<Target>,
    /// Interval at which firing alerts are sent to Alertmanager again.
    pub resend: Duration,
    /// Time limit of a delivery, from connecting to the answer.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let (resend, timeout) = (Duration::from_secs(60), Duration::from_secs(10));
        Self { webhook: None, webhook_format: WebhookFormat::default(), alertmanager: None, resend, timeout }
    }
}

/// The http or https address of a receiver.
#[derive(Clone, Debug, PartialEq)]
pub struct Target(Uri);

impl Target {
    /// Parses `http://host[:port][/path]` or the same with https. Errors name `field`.
    pub fn parse(field: &str, address: &str) -> Result<Self, FieldError> {
        let shown = without_user(address);
        let fault = |why: &str| FieldError::new(field, format!("got '{shown}', expected http://host:port/path: {why}"));
        let uri: Uri = address.parse().map_err(|error: hyper::http::uri::InvalidUri| fault(&error.to_string()))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(fault("it has no scheme, http or https"));
        }
        let authority = uri.authority().ok_or_else(|| fault("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(fault("user names are not supported"));
        }
        Ok(Self(uri))
    }

    fn join(&self, path: &str) -> Self {
        let mut parts = self.0.clone().into_parts();
        let joined = format!("{}{path}", self.0.path().trim_end_matches('/')).parse().ok();
        parts.path_and_query = joined.or(parts.path_and_query);
        Self(Uri::from_parts(parts).unwrap_or_else(|_| self.0.clone()))
    }

    /// Host and port, without the path, which may contain a secret.
    fn authority(&self) -> &str {
        self.0.authority().map_or("", |authority| authority.as_str())
    }
}

/// A client that trusts the system's certificates, including `SSL_CERT_FILE` and `SSL_CERT_DIR`. If there are none, http
/// still works and each delivery by https fails.
fn client() -> Client<HttpsConnector<HttpConnector>, Body> {
    let builder = HttpsConnectorBuilder::new();
    let provider = rustls::crypto::ring::default_provider();
    let builder = match builder.with_provider_and_native_roots(provider.clone()) {
        Ok(builder) => builder,
        Err(error) => {
            tracing::warn!(%error, "no trusted certificates found: alerts cannot be sent by https");
            let nobody = rustls::RootCertStore::empty();
            let versions =
                rustls::ClientConfig::builder_with_provider(Arc::new(provider)).with_safe_default_protocol_versions();
            let trusting = versions.expect("ring has cipher suites of TLS 1.2 and 1.3").with_root_certificates(nobody);
            HttpsConnectorBuilder::new().with_tls_config(trusting.with_no_client_auth())
        }
    };
    Client::builder(TokioExecutor::new()).build(builder.https_or_http().enable_http1().build())
}

/// Passes changes to the receivers' tasks.
#[derive(Clone)]
pub struct Notifier {
    queues: Vec<(&'static str, mpsc::Sender<Arc<AlertChange>>)>,
    metrics: Metrics,
}

impl Notifier {
    /// Starts a task for each receiver, which requires a tokio runtime. The tasks end when the notifier is dropped.
    pub fn start(options: Options, page: String, metrics: Metrics) -> Self {
        let mut queues = Vec::new();
        if options.webhook.is_none() && options.alertmanager.is_none() {
            return Self { queues, metrics };
        }
        let client = client();
        let post = |receiver, target: &Target| Post {
            client: client.clone(),
            receiver,
            target: target.clone(),
            timeout: options.timeout,
            page: page.clone(),
            metrics: metrics.clone(),
            fails: AtomicBool::new(false),
        };
        if let Some(target) = &options.webhook {
            let (sender, changes) = mpsc::channel(QUEUE);
            tokio::spawn(webhook(changes, post("webhook", target), options.webhook_format));
            queues.push(("webhook", sender));
        }
        if let Some(target) = &options.alertmanager {
            let (sender, changes) = mpsc::channel(QUEUE);
            let target = target.join("/api/v2/alerts");
            tokio::spawn(alertmanager(changes, post("alertmanager", &target), options.resend));
            queues.push(("alertmanager", sender));
        }
        Self { queues, metrics }
    }

    /// Queues a change for each receiver, or drops and counts it if a queue is full. Never waits.
    pub fn tell(&self, change: Arc<AlertChange>) {
        for (receiver, queue) in &self.queues {
            if queue.try_send(Arc::clone(&change)).is_err() {
                self.metrics.notifications_dropped.with_label_values(&[*receiver]).inc();
            }
        }
    }
}

/// Identifies an alert by its rule and run.
type Key = (String, String);

fn key(change: &AlertChange) -> Key {
    (change.rule.clone(), change.run.clone())
}

/// Posts each alert when it begins to fire and when it is resolved.
async fn webhook(mut changes: mpsc::Receiver<Arc<AlertChange>>, post: Post, format: WebhookFormat) {
    let mut firing = BTreeMap::new();
    while let Some(change) = changes.recv().await {
        let status = match change.state {
            State::Firing => {
                firing.insert(key(&change), change.since);
                bound(&mut firing, MOST, |since| *since, &post);
                "firing"
            }
            State::Inactive if firing.remove(&key(&change)).is_some() => "resolved",
            State::Inactive | State::Pending => continue,
        };
        let body = format.body(&change, status, &post.page).to_string();
        let mut pause = PAUSE;
        for attempt in 1..=ATTEMPTS {
            let Err(failure) = post.send(&body).await else { break };
            let asked = match failure {
                Failure::Later { pause } if attempt < ATTEMPTS => pause,
                Failure::Later { .. } | Failure::Refused => {
                    post.metrics.notifications_dropped.with_label_values(&[post.receiver]).inc();
                    break;
                }
            };
            tokio::time::sleep(pause.max(asked)).await;
            pause *= 2;
        }
    }
}

/// Posts all firing alerts at every interval, and each resolved alert until Alertmanager has accepted it once.
async fn alertmanager(mut changes: mpsc::Receiver<Arc<AlertChange>>, post: Post, resend: Duration) {
    let mut firing: BTreeMap<Key, Arc<AlertChange>> = BTreeMap::new();
    let mut over: BTreeMap<Key, (Arc<AlertChange>, f64)> = BTreeMap::new();
    let mut next = Instant::now() + resend;
    let mut failed = false;
    loop {
        let change = tokio::select! {
            change = changes.recv() => match change {
                Some(change) => Some(change),
                None => return,
            },
            () = tokio::time::sleep_until(next) => None,
        };
        let news = change.is_some();
        let queued = change.into_iter().chain(std::iter::from_fn(|| changes.try_recv().ok()));
        for change in queued {
            let key = key(&change);
            match change.state {
                State::Firing => {
                    over.remove(&key);
                    firing.insert(key, change);
                }
                State::Inactive | State::Pending => {
                    if let Some(fired) = firing.remove(&key) {
                        over.insert(key, (fired, change.since));
                    }
                }
            }
        }
        bound(&mut firing, MOST, |fired| fired.since, &post);
        bound(&mut over, MOST, |(_, end)| *end, &post);
        if firing.is_empty() && over.is_empty() {
            next = Instant::now() + resend;
            continue;
        }
        // New changes do not shorten the pause after a failure.
        if news && failed && Instant::now() < next {
            continue;
        }
        let until = unix_time() + MISSED * resend.as_secs_f64().max(1.0);
        let alerts: Vec<Value> = (firing.values().map(|change| alert(change, &post.page, until)))
            .chain(over.values().map(|(change, end)| alert(change, &post.page, *end)))
            .collect();
        failed = post.send(&Value::Array(alerts).to_string()).await.is_err();
        if !failed {
            over.clear();
        }
        next = Instant::now() + if failed { RETRY.min(resend) } else { resend };
    }
}

/// Drops the oldest alerts beyond `most`, and counts them.
fn bound<T>(alerts: &mut BTreeMap<Key, T>, most: usize, since: impl Fn(&T) -> f64, post: &Post) {
    while alerts.len() > most {
        let oldest = alerts.iter().min_by(|(_, a), (_, b)| since(a).total_cmp(&since(b))).map(|(key, _)| key.clone());
        oldest.and_then(|key| alerts.remove(&key));
        post.metrics.notifications_dropped.with_label_values(&[post.receiver]).inc();
    }
}

/// An alert in the format of Alertmanager's API v2.
fn alert(change: &AlertChange, page: &str, ends: f64) -> Value {
    let labels = json!({
        "alertname": change.rule, "run": change.run, "split": change.split, "score": change.score,
        "severity": change.severity,
    });
    let mut annotations = json!({
        "summary": format!("{}: {}", change.run, change.rule),
        "description": change.evidence,
    });
    if let Some(runbook) = &change.runbook {
        annotations["runbook_url"] = json!(runbook);
    }
    json!({
        "labels": labels, "annotations": annotations, "generatorURL": page,
        "startsAt": time(change.since), "endsAt": time(ends.max(change.since)),
    })
}

/// Formats seconds since 1970-01-01 UTC as in RFC 3339.
fn time(seconds: f64) -> String {
    let nanos = (seconds.fract() * 1e9) as i32;
    Timestamp { seconds: seconds.floor() as i64, nanos }.to_string()
}

struct Post {
    client: Client<HttpsConnector<HttpConnector>, Body>,
    receiver: &'static str,
    target: Target,
    timeout: Duration,
    page: String,
    metrics: Metrics,
    /// The last delivery failed, which has been logged.
    fails: AtomicBool,
}

/// Why a delivery failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// The receiver does not take this message: it would not take it again.
    Refused,
    /// A later attempt may succeed. `pause` is what the receiver asked for, or zero.
    Later { pause: Duration },
}

impl Post {
    /// Delivers a body; counts the outcome. The first failure after a success is logged.
    async fn send(&self, body: &str) -> Result<(), Failure> {
        let (failure, why) = match timeout(self.timeout, self.post(body.to_owned())).await {
            Ok(Ok(())) => {
                self.metrics.notifications.with_label_values(&[self.receiver]).inc();
                self.fails.store(false, Ordering::Relaxed);
                return Ok(());
            }
            Ok(Err(failure)) => failure,
            Err(_) => (
                Failure::Later { pause: Duration::ZERO },
                format!("no answer within {:.0} s", self.timeout.as_secs_f64()),
            ),
        };
        self.metrics.notifications_failed.with_label_values(&[self.receiver]).inc();
        if !self.fails.swap(true, Ordering::Relaxed) {
            let (receiver, target) = (self.receiver, self.target.authority());
            tracing::warn!(receiver, target, %why, "an alert was not delivered; further failures are counted");
        }
        Err(failure)
    }

    async fn post(&self, body: String) -> Result<(), (Failure, String)> {
        let later = |why: String| (Failure::Later { pause: Duration::ZERO }, why);
        let request = Request::post(&self.target.0).header(CONTENT_TYPE, "application/json").body(Body::from(body));
        let answer = self.client.request(request.map_err(|error| later(with_causes(&error)))?).await;
        let answer = answer.map_err(|error| later(with_causes(&error)))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let pause = answer.headers().get(RETRY_AFTER).map_or(Duration::ZERO, asked_pause);
        let said = axum::body::to_bytes(Body::new(answer.into_body()), MOST_SAID).await.unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let why = if said.is_empty() {
            format!("answered {status}")
        } else {
            format!("answered {status}: {}", in_short(&said))
        };
        let again = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status);
        Err((if status.is_client_error() && !again { Failure::Refused } else { Failure::Later { pause } }, why))
    }
}

/// Parses a `Retry-After` in seconds, which chats send with fractions. A date counts as no request.
fn asked_pause(value: &HeaderValue) -> Duration {
    let seconds = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    let pause = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    pause.map_or(Duration::ZERO, |pause| pause.min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests;
