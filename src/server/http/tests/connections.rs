//! Connections: events, deadlines, limits, and the end of the port.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::port::{LONG, NAME, next_event, next_message, point, port, port_with};
use super::*;
use crate::server::live::{AlertChange, Event};
use leakage::alert::{Severity, State};

#[tokio::test(flavor = "multi_thread")]
async fn events_arrive_in_order_and_losses_are_told() {
    let port = port().await;
    let mut stream = port.events().await;
    let send = |event| assert!(port.app.events.send(event));
    send(Event::Point(Arc::new(point(2))));
    let (kind, content) = next_event(&mut stream).await;
    assert_eq!((kind.as_str(), &content["step"], &content["run"]), ("point", &json!(2), &json!(NAME)));
    let left_out = json!({"concepts": [1], "of": 2, "why": "one class"});
    let icl = json!({"value": 0.25, "standard_error": 0.01, "left_out": left_out, "p_value": 0.005});
    assert_eq!(content["scores"]["icl"], icl);
    send(Event::Run("a".into()));
    assert_eq!(next_event(&mut stream).await, ("run".to_owned(), json!({"run": "a"})));
    let alert = AlertChange {
        rule: "rise".into(),
        run: "a".into(),
        split: "val".into(),
        score: "icl".into(),
        state: State::Firing,
        since: 1.0,
        evidence: "0.3 > 0.2".into(),
        step: 5,
        severity: Severity::Critical,
        advises_stop: true,
        value: Some(0.3),
        baseline: None,
        runbook: None,
    };
    send(Event::Alert(Arc::new(alert)));
    let (kind, content) = next_event(&mut stream).await;
    assert_eq!((kind.as_str(), &content["state"], &content["step"]), ("alert", &json!("firing"), &json!(5)));

    // A burst far larger than the buffers of sockets and the channel, while nobody reads.
    let large = Event::Run("x".repeat(1 << 20).into());
    for _ in 0..64 {
        send(large.clone());
        tokio::task::yield_now().await;
    }
    let lost = timeout(LONG, async {
        loop {
            let (kind, content) = next_event(&mut stream).await;
            if kind == "lost" {
                return content["count"].as_u64().unwrap();
            }
        }
    });
    assert!(lost.await.expect("the loss is reported") > 0);
    assert!(port.app.metrics.watch_events_lost.get() > 0);
    drop(stream);
    port.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_names_the_events_that_it_has_in_it() {
    let port = port().await;
    let mark = async || port.get("/api/v1/alerts").await.headers["conceptwatch-mark"].clone();
    let mut stream = port.events().await;
    let before = mark().await;
    for name in ["a", "b"] {
        port.app.events.send(Event::Run(name.into()));
        let (kind, _, id) = next_message(&mut stream).await;
        assert_eq!((kind.as_str(), id), ("run", mark().await));
    }
    assert_ne!(mark().await, before);
    assert!(!port.get("/metrics").await.headers.contains_key("conceptwatch-mark"));
    drop(stream);
    port.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_port_stops_whatever_its_clients_do() {
    let port = port().await;
    let mut silent = port.silent().await;
    let mut waiting = port.events().await;
    assert_eq!(port.get("/live").await.status, 200);
    let open = port.app.metrics.connections.with_label_values(&["http"]);
    port.stopped().await;
    assert_eq!(open.get(), 0);
    let mut rest = Vec::new();
    // Both were closed; a reset also counts as closing.
    let _ = timeout(LONG, silent.read_to_end(&mut rest)).await.expect("the silent socket is closed");
    let _ = timeout(LONG, waiting.read_to_end(&mut rest)).await.expect("the event stream ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn surplus_event_streams_are_refused() {
    let bounds = Bounds { connections: 4, ..Bounds::default() };
    let port = port_with(None, Ok(()), bounds).await;
    let held = [port.events().await, port.events().await];
    assert_eq!(port.get("/api/v1/events").await.status, 503);
    drop(held);
    port.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_nothing_is_let_go() {
    let bounds = Bounds { write: Duration::from_millis(200), ..Bounds::default() };
    let port = port_with(None, Ok(()), bounds).await;
    let stream = port.events().await;
    let large = Event::Run("x".repeat(1 << 20).into());
    // Fails once the only reader's connection is closed.
    let send = async {
        while port.app.events.send(large.clone()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(LONG, send).await.expect("the reader is disconnected");
    port.deserted().await;
    drop(stream);
    port.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_takes_too_long_is_given_up() {
    let bounds = Bounds { answer: Duration::from_millis(100), ..Bounds::default() };
    let port = port_with(None, Ok(()), bounds).await;
    port.busy.store(true, std::sync::atomic::Ordering::Relaxed);
    let reply = port.get("/api/v1/status").await;
    assert_eq!((reply.status, reply.field().as_str()), (503, "server"));
    port.busy.store(false, std::sync::atomic::Ordering::Relaxed);
    port.stopped().await;
}
