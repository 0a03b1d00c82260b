use std::sync::Mutex;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use prometheus::Registry;
use tokio::net::TcpListener;

use super::*;
use leakage::alert::State::{Firing, Inactive, Pending};
use leakage::alert::{self, Severity};

/// Time after which a test stops waiting for a message.
const PATIENCE: Duration = Duration::from_secs(30);

/// A receiver that forwards the bodies it gets and answers as scripted.
struct Receiver {
    url: String,
    bodies: mpsc::UnboundedReceiver<Value>,
    answer: Arc<Mutex<StatusCode>>,
}

async fn receiver(path: &str) -> Receiver {
    let (sender, bodies) = mpsc::unbounded_channel();
    let answer = Arc::new(Mutex::new(StatusCode::OK));
    type Told = (mpsc::UnboundedSender<Value>, Arc<Mutex<StatusCode>>);
    let take = |State((bodies, answer)): State<Told>, body: String| async move {
        bodies.send(serde_json::from_str(&body).unwrap()).unwrap();
        *answer.lock().unwrap()
    };
    let router = Router::new().route(path, post(take)).with_state((sender, Arc::clone(&answer)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    Receiver { url, bodies, answer }
}

impl Receiver {
    /// The next body received.
    async fn next(&mut self) -> Value {
        timeout(PATIENCE, self.bodies.recv()).await.expect("a body in time").expect("the receiver runs")
    }
}

fn metrics() -> Metrics {
    Metrics::register(&Registry::new(), "1", 1).unwrap()
}

fn change(state: alert::State, since: f64) -> Arc<AlertChange> {
    change_of("leaking", state, since)
}

fn change_of(rule: &str, state: alert::State, since: f64) -> Arc<AlertChange> {
    Arc::new(AlertChange {
        rule: rule.into(),
        run: "cub".into(),
        split: "val".into(),
        score: "icl".into(),
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
    Options { resend: Duration::from_millis(resend), timeout: PATIENCE, ..Options::default() }
}

#[tokio::test]
async fn a_webhook_gets_the_beginning_and_the_end_of_an_alert() {
    let mut hook = receiver("/hook").await;
    let target = Target::parse("webhook", &format!("{}/hook", hook.url)).unwrap();
    let metrics = metrics();
    let notifier = Notifier::start(Options { webhook: Some(target), ..options(1000) }, "page".into(), metrics.clone());
    for (state, since) in [(Pending, 1.0), (Inactive, 2.0), (Pending, 3.0), (Firing, 4.0), (Inactive, 5.0)] {
        notifier.tell(change(state, since));
    }
    let taken = [hook.next().await, hook.next().await];
    let said: Vec<_> =
        taken.iter().map(|body| (body["status"].as_str().unwrap(), body["alert"]["since"].clone())).collect();
    assert_eq!(said, [("firing", json!(4.0)), ("resolved", json!(5.0))]);
    assert_eq!(taken[0]["alert"]["evidence"], "icl is 0.4, above 0.2");
    // The second body was sent when the first had been answered.
    assert!(metrics.notifications.with_label_values(&["webhook"]).get() >= 1);
}

/// Chats limit how often they are told something, and say for how long.
#[tokio::test]
async fn a_busy_chat_is_told_again_no_sooner_than_it_asked() {
    let (sender, mut calls) = mpsc::unbounded_channel();
    let busy = || async move {
        sender.send(Instant::now()).unwrap();
        (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "1.6")])
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target::parse("webhook", &format!("http://{}", listener.local_addr().unwrap())).unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/", post(busy))).await });
    let notifier = Notifier::start(Options { webhook: Some(target), ..options(1000) }, String::new(), metrics());
    notifier.tell(change(Firing, 4.0));
    let mut next = async || timeout(PATIENCE, calls.recv()).await.unwrap().unwrap();
    let (first, second) = (next().await, next().await);
    assert!(second - first >= Duration::from_secs_f64(1.6), "asked again after {:?}", second - first);
}

#[test]
fn a_receiver_cannot_ask_for_a_pause_without_end() {
    let asked = |value: &'static str| asked_pause(&HeaderValue::from_static(value)).as_secs_f64();
    assert_eq!(["0.5", "1e9", "-1", "NaN", "Wed, 21 Oct 2026 07:28:00 GMT"].map(asked), [0.5, 300.0, 0.0, 0.0, 0.0]);
}

/// Slack answers 200 "ok", Discord 204 and Teams 202, each without more to read.
#[tokio::test]
async fn chats_get_a_message_in_their_own_form() {
    for (format, answer) in [
        (WebhookFormat::Slack, StatusCode::OK),
        (WebhookFormat::Discord, StatusCode::NO_CONTENT),
        (WebhookFormat::Teams, StatusCode::ACCEPTED),
    ] {
        let mut hook = receiver("/hook").await;
        *hook.answer.lock().unwrap() = answer;
        let (target, metrics) = (Target::parse("webhook", &format!("{}/hook", hook.url)).unwrap(), metrics());
        let options = Options { webhook: Some(target), webhook_format: format, ..options(1000) };
        let notifier = Notifier::start(options, "http://page/".into(), metrics.clone());
        let firing = AlertChange { run: "<@all> & co".into(), ..AlertChange::clone(&change(Firing, 4.0)) };
        notifier.tell(Arc::new(firing.clone()));
        notifier.tell(Arc::new(AlertChange { state: Inactive, ..firing }));
        let (begin, end) = (hook.next().await, hook.next().await);
        let text = |body: &Value| {
            let text = match format {
                WebhookFormat::Slack => &body["text"],
                WebhookFormat::Discord => &body["content"],
                _ => &body["attachments"][0]["content"]["body"][0]["text"],
            };
            text.as_str().unwrap().to_owned()
        };
        let run = if format == WebhookFormat::Slack { "&lt;@all&gt; &amp; co" } else { "<@all> & co" };
        let about = format!("leaking in run {run}, val, step 7: icl is 0.4, above 0.2");
        let advice = "Training is advised to stop";
        assert_eq!(text(&begin), format!("Firing (critical): {about}. {advice}\nhttp://page/"));
        assert_eq!(text(&end), format!("Resolved (critical): {about}\nhttp://page/"));
        match format {
            WebhookFormat::Discord => assert_eq!(begin["allowed_mentions"], json!({"parse": []})),
            WebhookFormat::Teams => {
                let card = &begin["attachments"][0];
                assert_eq!(card["contentType"], "application/vnd.microsoft.card.adaptive");
                assert_eq!((&begin["type"], &card["content"]["type"]), (&json!("message"), &json!("AdaptiveCard")));
            }
            _ => {}
        }
        assert_eq!(metrics.notifications_failed.with_label_values(&["webhook"]).get(), 0);
    }
}

#[test]
fn a_long_message_is_cut() {
    let change = AlertChange { evidence: "é".repeat(5000), ..AlertChange::clone(&change(Firing, 4.0)) };
    let body = WebhookFormat::Discord.body(&change, "firing", "http://page/");
    let content = body["content"].as_str().unwrap();
    assert!(content.chars().count() <= 2000, "{}", content.chars().count());
    assert!(content.ends_with("…\nhttp://page/"));
}

/// Slack answers 404 "no_service" once a webhook is removed, and 400 "invalid_payload": neither would end.
#[tokio::test]
async fn a_webhook_that_refuses_is_not_asked_again() {
    let mut hook = receiver("/hook").await;
    *hook.answer.lock().unwrap() = StatusCode::NOT_FOUND;
    let (target, metrics) = (Target::parse("webhook", &format!("{}/hook", hook.url)).unwrap(), metrics());
    let notifier = Notifier::start(Options { webhook: Some(target), ..options(1000) }, "page".into(), metrics.clone());
    notifier.tell(change(Firing, 4.0));
    notifier.tell(change(Inactive, 5.0));
    let taken = [hook.next().await, hook.next().await];
    assert_eq!(taken.map(|body| body["status"].clone()), ["firing", "resolved"]);
    let dropped = || metrics.notifications_dropped.with_label_values(&["webhook"]).get();
    while dropped() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(metrics.notifications_failed.with_label_values(&["webhook"]).get(), 2);
}

#[tokio::test]
async fn alertmanager_gets_what_fires_again_and_again_and_an_end_once() {
    let mut manager = receiver("/prefix/api/v2/alerts").await;
    let target = Target::parse("alertmanager", &format!("{}/prefix/", manager.url)).unwrap();
    let notifier = Notifier::start(Options { alertmanager: Some(target), ..options(50) }, "page".into(), metrics());
    notifier.tell(change(Firing, 1_700_000_000.5));
    let first = manager.next().await;
    let alert = &first[0];
    assert_eq!(&manager.next().await[0]["labels"], &alert["labels"]);
    assert_eq!(
        alert["labels"],
        json!({"alertname": "leaking", "run": "cub", "split": "val", "score": "icl", "severity": "critical"})
    );
    assert_eq!(alert["annotations"]["runbook_url"], "https://example.org/leaking");
    assert_eq!(alert["annotations"]["description"], "icl is 0.4, above 0.2");
    assert_eq!(alert["startsAt"], "2023-11-14T22:13:20.500Z");
    assert!(alert["endsAt"].as_str().unwrap() > alert["startsAt"].as_str().unwrap());
    notifier.tell(change(Inactive, 1_700_000_060.0));
    // Messages sent before the end may still arrive.
    while manager.next().await[0]["endsAt"] != "2023-11-14T22:14:20Z" {}
    notifier.tell(change_of("other", Firing, 1_700_000_070.0));
    for _ in 0..3 {
        let alerts = manager.next().await;
        let names: Vec<_> = alerts.as_array().unwrap().iter().map(|alert| &alert["labels"]["alertname"]).collect();
        assert_eq!(names, ["other"], "silence after the end");
    }
}

#[tokio::test]
async fn an_end_that_was_answered_500_is_sent_again() {
    let mut manager = receiver("/api/v2/alerts").await;
    let target = Target::parse("alertmanager", &manager.url).unwrap();
    let metrics = metrics();
    let notifier =
        Notifier::start(Options { alertmanager: Some(target), ..options(40) }, "page".into(), metrics.clone());
    notifier.tell(change(Firing, 10.0));
    manager.next().await;
    *manager.answer.lock().unwrap() = StatusCode::INTERNAL_SERVER_ERROR;
    notifier.tell(change(Inactive, 20.0));
    let mut ends = 0;
    while ends < 2 {
        ends += usize::from(manager.next().await[0]["endsAt"] == "1970-01-01T00:00:20Z");
    }
    assert!(metrics.notifications_failed.with_label_values(&["alertmanager"]).get() >= 1);
}

#[test]
fn alerts_that_a_receiver_has_not_been_told_of_are_bounded_and_the_oldest_are_counted() {
    let metrics = metrics();
    let target = Target::parse("alertmanager", "http://127.0.0.1:1").unwrap();
    let (client, page, timeout) = (client(), String::new(), PATIENCE);
    let post = Post {
        client,
        receiver: "alertmanager",
        target,
        timeout,
        page,
        metrics: metrics.clone(),
        fails: AtomicBool::new(false),
    };
    // Ended alerts of jobs that were killed, one after another, while nobody answered.
    let mut over: BTreeMap<Key, f64> =
        (0..30).map(|run| (("leaking".into(), run.to_string()), f64::from(run))).collect();
    bound(&mut over, 10, |end| *end, &post);
    assert_eq!((over.len(), over.values().copied().fold(f64::INFINITY, f64::min)), (10, 20.0));
    assert_eq!(metrics.notifications_dropped.with_label_values(&["alertmanager"]).get(), 20);
    bound(&mut over, 10, |end| *end, &post);
    assert_eq!(over.len(), 10);
}

#[tokio::test]
async fn a_receiver_that_hangs_delays_nobody_and_is_counted() {
    // Accepts connections and never answers.
    let hanging = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target::parse("webhook", &format!("http://{}", hanging.local_addr().unwrap())).unwrap();
    let metrics = metrics();
    let brief = Options { webhook: Some(target), timeout: Duration::from_millis(1), ..Options::default() };
    let notifier = Notifier::start(brief, "page".into(), metrics.clone());
    // The runtime has one thread, which this loop does not yield: the receiver's task has not run when it ends.
    for _ in 0..QUEUE + 50 {
        notifier.tell(change(Firing, 1.0));
    }
    let failed = metrics.notifications_failed.with_label_values(&["webhook"]);
    assert_eq!(metrics.notifications_dropped.with_label_values(&["webhook"]).get(), 50);
    assert_eq!(failed.get(), 0, "nothing was waited for");
    let counted = async {
        while failed.get() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, counted).await.expect("the failure is counted");
}

#[test]
fn addresses_that_cannot_be_posted_to_are_named() {
    for (address, why) in [
        ("hooks.example/x", "got"),
        ("http://", "got"),
        ("http://user:s3cret@host/", "user names"),
        ("ftp://user:s3cret@host/", "no scheme"),
        ("user:s3cret@host", "got"),
        ("ftp://host/", "no scheme"),
    ] {
        let fault = Target::parse("webhook", address).unwrap_err();
        assert!(fault.field == "webhook" && fault.message.contains(why), "{fault}");
        assert!(!fault.message.contains("s3cret"), "{fault}");
    }
    let target = Target::parse("webhook", "https://[::1]:9093/a?b=c").unwrap();
    assert_eq!((target.0.to_string().as_str(), target.authority()), ("https://[::1]:9093/a?b=c", "[::1]:9093"));
    assert_eq!(target.join("/x").0.to_string(), "https://[::1]:9093/a/x");
    assert_eq!(Target::parse("webhook", "http://h/").unwrap().join("/x").0.to_string(), "http://h/x");
}
