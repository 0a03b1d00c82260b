use std::sync::Mutex;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use prometheus::Registry;
use tokio::net::TcpListener;

use super::*;
use crate::alert::State::{Firing, Inactive, Pending};
use crate::alert::{self, Severity};

/// A receiver that keeps what it gets, and answers with what it is told to.
struct Receiver {
    url: String,
    taken: Arc<Mutex<Vec<Value>>>,
    answer: Arc<Mutex<StatusCode>>,
}

type Kept = (Arc<Mutex<Vec<Value>>>, Arc<Mutex<StatusCode>>);

async fn receiver(path: &str) -> Receiver {
    let kept: Kept = (Arc::default(), Arc::new(Mutex::new(StatusCode::OK)));
    let take = |State((taken, answer)): State<Kept>, body: String| async move {
        taken.lock().unwrap().push(serde_json::from_str(&body).unwrap());
        *answer.lock().unwrap()
    };
    let router = Router::new().route(path, post(take)).with_state(kept.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    Receiver { url, taken: kept.0, answer: kept.1 }
}

impl Receiver {
    /// What has come, once it is as many.
    async fn taken(&self, count: usize) -> Vec<Value> {
        for _ in 0..400 {
            let taken = self.taken.lock().unwrap().clone();
            if taken.len() >= count {
                return taken;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{count} did not come: {:?}", self.taken.lock().unwrap());
    }
}

fn metrics() -> Metrics {
    Metrics::register(&Registry::new(), "1", 1).unwrap()
}

fn change(state: alert::State, since: f64) -> Arc<AlertChange> {
    Arc::new(AlertChange {
        rule: "leaking".into(),
        run: "cub".into(),
        split: "val".into(),
        score: "icl",
        state,
        since,
        evidence: "icl is 0.4, above 0.2".into(),
        step: 7,
        severity: Severity::Critical,
        advises_stop: true,
        value: Some(0.4),
        baseline: None,
        runbook: Some("https://example.org/leaking".into()),
    })
}

fn options(resend: u64) -> Options {
    Options { resend: Duration::from_millis(resend), timeout: Duration::from_millis(300), ..Options::default() }
}

#[tokio::test]
async fn a_webhook_hears_of_the_beginning_and_the_end_of_an_alert() {
    let hook = receiver("/hook").await;
    let target = Target::parse("webhook", &format!("{}/hook", hook.url)).unwrap();
    let metrics = metrics();
    let notifier = Notifier::start(Options { webhook: Some(target), ..options(1000) }, "page".into(), metrics.clone());
    for (state, since) in [(Pending, 1.0), (Inactive, 2.0), (Pending, 3.0), (Firing, 4.0), (Inactive, 5.0)] {
        notifier.tell(change(state, since));
    }
    let taken = hook.taken(2).await;
    let said: Vec<_> =
        taken.iter().map(|body| (body["status"].as_str().unwrap(), body["alert"]["since"].clone())).collect();
    assert_eq!(said, [("firing", json!(4.0)), ("resolved", json!(5.0))]);
    assert_eq!(taken[0]["alert"]["evidence"], "icl is 0.4, above 0.2");
    assert_eq!(metrics.notifications.with_label_values(&["webhook"]).get(), 2);
}

#[tokio::test]
async fn alertmanager_hears_again_of_what_fires_and_once_of_what_is_over() {
    let manager = receiver("/prefix/api/v2/alerts").await;
    let target = Target::parse("alertmanager", &format!("{}/prefix/", manager.url)).unwrap();
    let notifier = Notifier::start(Options { alertmanager: Some(target), ..options(50) }, "page".into(), metrics());
    notifier.tell(change(Firing, 1_700_000_000.5));
    let taken = manager.taken(3).await;
    let alert = &taken[0][0];
    assert_eq!(
        alert["labels"],
        json!({"alertname": "leaking", "run": "cub", "split": "val", "score": "icl", "severity": "critical"})
    );
    assert_eq!(alert["annotations"]["runbook_url"], "https://example.org/leaking");
    assert_eq!(alert["annotations"]["description"], "icl is 0.4, above 0.2");
    assert_eq!(alert["startsAt"], "2023-11-14T22:13:20.500Z");
    assert!(alert["endsAt"].as_str().unwrap() > alert["startsAt"].as_str().unwrap());
    notifier.tell(change(Inactive, 1_700_000_060.0));
    tokio::time::sleep(Duration::from_millis(400)).await;
    let taken = manager.taken(4).await;
    let ends: Vec<_> = taken.iter().filter(|alerts| alerts[0]["endsAt"] == "2023-11-14T22:14:20Z").collect();
    assert_eq!(ends.len(), 1, "{taken:?}");
    assert_eq!(taken.last().unwrap()[0]["endsAt"], "2023-11-14T22:14:20Z", "silence after the end");
}

#[tokio::test]
async fn an_end_that_was_answered_500_is_told_again() {
    let manager = receiver("/api/v2/alerts").await;
    let target = Target::parse("alertmanager", &manager.url).unwrap();
    let metrics = metrics();
    let notifier =
        Notifier::start(Options { alertmanager: Some(target), ..options(40) }, "page".into(), metrics.clone());
    notifier.tell(change(Firing, 10.0));
    manager.taken(1).await;
    *manager.answer.lock().unwrap() = StatusCode::INTERNAL_SERVER_ERROR;
    notifier.tell(change(Inactive, 20.0));
    let before = manager.taken(3).await.len();
    *manager.answer.lock().unwrap() = StatusCode::OK;
    let last = manager.taken(before + 1).await.pop().unwrap();
    assert_eq!(last[0]["endsAt"], "1970-01-01T00:00:20Z");
    assert!(metrics.notifications_failed.with_label_values(&["alertmanager"]).get() >= 1);
}

#[tokio::test]
async fn a_receiver_that_hangs_or_is_gone_delays_nobody_and_is_counted() {
    // Accepts and says nothing.
    let hanging = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target::parse("webhook", &format!("http://{}", hanging.local_addr().unwrap())).unwrap();
    let metrics = metrics();
    let notifier = Notifier::start(Options { webhook: Some(target), ..options(1000) }, "page".into(), metrics.clone());
    let started = std::time::Instant::now();
    for _ in 0..QUEUE + 50 {
        notifier.tell(change(Firing, 1.0));
    }
    assert!(started.elapsed() < Duration::from_millis(200), "{:?}", started.elapsed());
    assert!(metrics.notifications_dropped.with_label_values(&["webhook"]).get() >= 49);
    for _ in 0..200 {
        if metrics.notifications_failed.with_label_values(&["webhook"]).get() > 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the failure was not counted");
}

#[test]
fn addresses_that_cannot_be_posted_to_are_named() {
    for (address, why) in [
        ("hooks.example/x", "came"),
        ("http://", "came"),
        ("http://user@host/", "user names"),
        ("ftp://host/", "no scheme"),
    ] {
        let fault = Target::parse("webhook", address).unwrap_err();
        assert!(fault.field == "webhook" && fault.message.contains(why), "{fault}");
    }
    let target = Target::parse("webhook", "https://[::1]:9093/a?b=c").unwrap();
    assert_eq!((target.0.to_string().as_str(), target.authority()), ("https://[::1]:9093/a?b=c", "[::1]:9093"));
    assert_eq!(target.join("/x").0.to_string(), "https://[::1]:9093/a/x");
    assert_eq!(Target::parse("webhook", "http://h/").unwrap().join("/x").0.to_string(), "http://h/x");
}
