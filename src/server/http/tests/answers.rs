//! The answers of each route.

use std::io::Read;
use std::sync::Arc;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::port::{HEARD, NAME, next_event, point, port, port_with, run};
use super::*;
use crate::history::{Identity, RunOutcome, Wanted};
use crate::server::http::rows::Rows;
use leakage::point::{Outcome, ScoreValue};

#[tokio::test(flavor = "multi_thread")]
async fn a_scrape_has_the_verdicts_that_the_page_shows() {
    let port = port().await;
    let row = port.get("/api/v1/overview?split=val").await.json()["runs"][0].clone();
    let state = row["verdict"]["state"].as_str().unwrap();
    let series = loop {
        let scrape = port.get("/metrics").await;
        let of_verdict = scrape.text().lines().filter(|line| line.starts_with("conceptwatch_verdict{"));
        let series: Vec<String> = of_verdict.map(str::to_owned).collect();
        if !series.is_empty() {
            break series;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    };
    assert!(series.len() == 1 && series[0].contains(&format!("verdict=\"{state}\"")), "{state}: {series:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers() {
    let port = port().await;
    let status = port.get("/api/v1/status").await.json();
    assert_eq!(
        (&status["version"], &status["estimator"], &status["lag_seconds"]),
        (&json!("1.2.3"), &json!("tie_aware"), &json!(0.5))
    );
    let catalogue = port.get("/api/v1/catalogue").await.json();
    assert_eq!(catalogue["scores"][0]["id"], "icl");
    assert_eq!(catalogue["scores"][0]["range"], json!([0.0, 1.0]));
    assert_eq!(catalogue["scores"][1]["matrix"], false);

    let runs = port.get("/api/v1/runs").await.json();
    let train = json!({"split": "train", "window": "recent", "rows_received": 10, "rows_duplicate": 2,
        "rows_dropped": 1, "passes_unsettled": 3, "points": 0, "last_step": null});
    let val = json!({"split": "val", "window": "pass", "rows_received": 10, "rows_duplicate": 2,
        "rows_dropped": 1, "passes_unsettled": 3, "points": 2, "last_step": 2});
    let mut expected = json!({"name": NAME, "title": null, "note": null, "finished": false, "open": true, "started": 20.0,
        "state": "training", "reason": null, "updated": HEARD, "outcome": null, "activation_kind": "probability",
        "concepts": ["x", "y"], "labels": {"lambda": "5"}, "world_size": 1, "splits": [train, val]});
    assert_eq!(runs["runs"][0], expected);
    for (key, value) in [
        ("name", json!("earlier")),
        ("finished", json!(true)),
        ("open", json!(false)),
        ("started", json!(10.0)),
        ("state", json!("finished")),
        ("updated", json!(15.0)),
        ("outcome", json!({"kind": "finished"})),
        ("splits", json!([])),
    ] {
        expected[key] = value;
    }
    assert_eq!(runs["runs"][1], expected);
    assert_eq!((&runs["total"], &runs["next"]), (&json!(2), &json!(null)));

    let series = port.get(&format!("/api/v1/series?run={ENCODED}&split=val&score=icl&first_step=2")).await.json();
    let left_out = json!({"concepts": [1], "of": 2, "why": "one class"});
    let expected = json!({"step": 2, "epoch": null, "time": 100.0, "value": 0.25, "standard_error": 0.01,
        "undefined": null, "rows": 64, "tie_fraction": 0.0, "provisional": false, "incomplete": false,
        "left_out": left_out, "p_value": 0.005});
    assert_eq!(series, json!({"points": [expected]}));
    let concept =
        port.get(&format!("/api/v1/series?run={ENCODED}&split=val&score=icl&concept=x&last_step=1")).await.json();
    assert_eq!((&concept["points"][0]["value"], &concept["points"][1]), (&json!(0.5), &Value::Null));
    let waiting = port.get(&format!("/api/v1/series?run={ENCODED}&split=train&score=icl")).await;
    assert_eq!((waiting.status, waiting.json()), (200, json!({"points": []})));

    let point = port.get(&format!("/api/v1/point?run={ENCODED}&split=val")).await.json();
    assert_eq!((&point["run"], &point["step"], &point["epoch"]), (&json!(NAME), &json!(2), &Value::Null));
    let icl = json!({"value": 0.25, "standard_error": 0.01, "per_concept": [0.5, null], "left_out": left_out,
        "p_value": 0.005, "per_concept_q": [0.25, null]});
    assert_eq!(point["scores"], json!({"icl": icl, "ctl": {"undefined": "one class"}}));
    let first = port.get(&format!("/api/v1/point?run={ENCODED}&split=val&step=1")).await.json();
    assert_eq!(first["step"], 1);
    let matrix = port.get(&format!("/api/v1/matrix?run={ENCODED}&split=val&score=icl&step=1")).await.json();
    assert_eq!(
        matrix,
        json!({"step": 1, "concepts": ["x", "y"], "matrix": [[null, 0.25], [0.75, null]],
        "matrix_q": [[null, 0.5], [1.0, null]]})
    );

    let metrics = port.get("/metrics").await;
    assert!(metrics.headers["content-type"].starts_with("text/plain; version=0.0.4"));
    assert!(metrics.text().contains(&format!("conceptwatch_icl{{run=\"{NAME}\",split=\"val\"}} 0.25\n")));
    assert!(metrics.text().contains("conceptwatch_http_requests_total{code=\"200\",path=\"/api/v1/runs\"} 1\n"));
    assert_eq!(port.get("/live").await.status, 200);
    assert_eq!(port.get("/ready").await.status, 200);
    let page = port.get("/").await;
    assert_eq!((page.status, page.headers["content-type"].as_str()), (200, "text/html; charset=utf-8"));
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_paged_searched_and_counted() {
    let port = port().await;
    let page = port.get("/api/v1/runs?limit=1&search=lambda%3C6").await.json();
    assert_eq!((&page["runs"][0]["name"], &page["runs"][1], &page["total"]), (&json!(NAME), &json!(null), &json!(2)));
    let next = page["next"].as_str().unwrap();
    let last = port.get(&format!("/api/v1/runs?limit=1&search=lambda%3C6&after={next}")).await.json();
    assert_eq!((&last["runs"][0]["name"], &last["next"], &last["total"]), (&json!("earlier"), &json!(null), &json!(2)));
    let rows = port.get(&format!("/api/v1/overview?split=val&limit=1&after={next}")).await.json();
    assert_eq!((&rows["runs"][0]["name"], &rows["runs"][1]), (&json!("earlier"), &json!(null)));
    assert_eq!(port.get("/api/v1/runs?search=lambda%3E6").await.json(), json!({"runs": [], "total": 0, "next": null}));
    for (query, field) in [("limit=0", "limit"), ("limit=-1", "limit"), ("after=x", "after"), ("page=2", "page")] {
        let reply = port.get(&format!("/api/v1/runs?{query}")).await;
        assert_eq!((reply.status, reply.field().as_str()), (400, field));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_titled_noted_and_removed() {
    let port = port().await;
    let own = format!("Host: {}\r\nOrigin: http://{}\r\n", port.address, port.address);
    let ask = |method: &'static str, run: &'static str, headers: String, body: &'static str| {
        let path = format!("/api/v1/run?run={run}");
        let headers = format!("{headers}Content-Length: {}\r\n", body.len());
        let port = &port;
        async move { port.ask_with(method, &path, &headers, body).await }
    };
    let mut events = port.events().await;
    let title = r#"{"title": " The best ", "note": "a\nb"}"#;
    let changed = ask("PATCH", ENCODED, own.clone(), title).await.json();
    assert_eq!(
        (&changed["name"], &changed["title"], &changed["note"]),
        (&json!(NAME), &json!("The best"), &json!("a\nb"))
    );
    assert_eq!(next_event(&mut events).await, ("run".into(), json!({"run": NAME})));
    assert_eq!(port.get(&format!("/api/v1/run?run={ENCODED}")).await.json(), changed);
    assert_eq!(ask("PATCH", ENCODED, own.clone(), r#"{"title": null}"#).await.json()["title"], json!(null));
    for (body, field) in [
        ("", "body"),
        ("[]", "body"),
        ("{}", "body"),
        (r#"{"title": 1}"#, "title"),
        (r#"{"name": "x"}"#, "name"),
        (r#"{"title": "\u0007"}"#, "title"),
        (r#"{"note": "\u0007"}"#, "note"),
    ] {
        let reply = ask("PATCH", ENCODED, own.clone(), body).await;
        assert_eq!((reply.status, reply.field().as_str()), (400, field), "{body}");
    }
    // Only this server's own page changes runs, and only of the runs that there are.
    for (headers, status, field) in [
        ("Host: localhost\r\n", 403, "Origin"),
        ("Host: localhost\r\nOrigin: http://evil.example\r\n", 403, "Origin"),
        ("Host: evil.example\r\nOrigin: http://evil.example\r\n", 403, "Host"),
    ] {
        for method in ["PATCH", "DELETE"] {
            let reply = ask(method, "earlier", headers.into(), title).await;
            assert_eq!((reply.status, reply.field().as_str()), (status, field), "{method} {headers}");
        }
    }
    assert_eq!(ask("DELETE", "nobody", own.clone(), "").await.status, 404);
    let open = ask("DELETE", ENCODED, own.clone(), "").await;
    assert_eq!((open.status, open.field().as_str()), (409, "run"));
    assert_eq!(ask("DELETE", "earlier", own.clone(), "").await.status, 204);
    assert_eq!(port.get("/api/v1/run?run=earlier").await.status, 404);
    assert_eq!(port.get("/api/v1/runs").await.json()["total"], 1);
    let secret = port_with(Some("a secret of the tests"), Ok(()), Bounds::default()).await;
    let own = format!("Host: {}\r\nOrigin: http://{}\r\n", secret.address, secret.address);
    let token = "Authorization: Bearer a secret of the tests\r\n";
    for (headers, status) in [(own.clone(), 401), (format!("{own}{token}"), 204)] {
        assert_eq!(secret.ask("DELETE", "/api/v1/run?run=earlier", &headers).await.status, status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn points_come_whole() {
    let port = port().await;
    let points = port.get(&format!("/api/v1/points?run={ENCODED}&split=val&limit=1")).await.json();
    assert_eq!((&points["points"][0]["step"], &points["next_step"]), (&json!(1), &json!(2)));
    let icl = &points["points"][0]["scores"]["icl"];
    assert_eq!(
        (&icl["matrix"], &icl["matrix_q"]),
        (&json!([[null, 0.25], [0.75, null]]), &json!([[null, 0.5], [1.0, null]]))
    );
    let points = port.get(&format!("/api/v1/points?run={ENCODED}&split=val&first_step=2&matrices=false")).await.json();
    assert_eq!((&points["next_step"], points["points"][0]["scores"]["icl"].get("matrix")), (&json!(null), None));
    for (query, field) in [("limit=0", "limit"), ("limit=1001", "limit"), ("matrices=1", "matrices")] {
        let reply = port.get(&format!("/api/v1/points?run={ENCODED}&split=val&{query}")).await;
        assert_eq!((reply.status, reply.field().as_str()), (400, field));
    }
    assert_eq!(port.get(&format!("/api/v1/points?run={ENCODED}&split=no")).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_sent_again_only_where_it_changed() {
    let port = port().await;
    let ask =
        async |headers: &str| port.ask("GET", "/assets/data/store.js", &format!("Host: localhost\r\n{headers}")).await;
    let reply = ask("").await;
    assert_eq!((reply.status, reply.headers["content-type"].as_str()), (200, "text/javascript; charset=utf-8"));
    assert_eq!(reply.headers["cache-control"], "no-cache");
    let tag = &reply.headers["etag"];
    let again = ask(&format!("If-None-Match: \"other\", {tag}\r\n")).await;
    assert_eq!((again.status, again.body.len(), &again.headers["etag"]), (304, 0, tag));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_compressed_where_that_is_accepted_and_worthwhile() {
    let port = port().await;
    let ask = async |path: &str, more: &str| port.ask("GET", path, &format!("Host: localhost\r\n{more}")).await;
    let gzip = "Accept-Encoding: br, gzip;q=0.8\r\n";
    for path in ["/", "/assets/data/store.js", "/assets/style.css", "/metrics"] {
        let (plain, packed) = (ask(path, "").await, ask(path, gzip).await);
        assert_eq!((plain.status, packed.status), (200, 200), "{path}");
        assert!(!plain.headers.contains_key("content-encoding") && plain.headers.contains_key("content-length"));
        assert_eq!(packed.headers["content-encoding"], "gzip", "{path}");
        assert!(packed.body.len() < plain.body.len() / 2, "{path}: {} of {}", packed.body.len(), plain.body.len());
        let mut text = String::new();
        GzDecoder::new(&*packed.body).read_to_string(&mut text).unwrap();
        // The scrape counts itself.
        assert!(text == plain.text() || path == "/metrics", "{path}");
        assert_eq!(
            (plain.headers["vary"].as_str(), packed.headers["vary"].as_str()),
            ("accept-encoding", "accept-encoding")
        );
        assert_eq!(plain.headers.get("etag"), packed.headers.get("etag"), "{path}");
        if let Some(tag) = packed.headers.get("etag") {
            let again = ask(path, &format!("{gzip}If-None-Match: {tag}\r\n")).await;
            assert_eq!((again.status, again.body.len(), &again.headers["vary"]), (304, 0, &packed.headers["vary"]));
            assert!(tag.starts_with("W/"), "{tag}");
        }
    }
    for (path, accepted) in
        [("/api/v1/status", gzip), ("/live", gzip), ("/", "Accept-Encoding: gzip;q=0, identity\r\n")]
    {
        let reply = ask(path, accepted).await;
        assert!(
            !reply.headers.contains_key("content-encoding") && reply.headers.contains_key("content-length"),
            "{path}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overview_keeps_no_rows_of_runs_that_are_gone_and_of_few_splits() {
    let port = port().await;
    let (rows, history) = (Rows::default(), &port.app.history);
    let read = |split: &str| {
        while rows.read(&port.app, split, &[], &Wanted::default()).unwrap_or_else(|_| panic!()).pending > 0 {}
    };
    let name = |run: usize| format!("run {run}");
    for number in 0..90 {
        history.record_run(&run(&name(number)), &Identity::default(), 30.0).unwrap();
    }
    read("val");
    assert_eq!(rows.count(), 92);
    for number in 0..70 {
        history.finish_run(&name(number), 40.0, &RunOutcome::Finished).unwrap();
        history.remove_run(&name(number)).unwrap();
    }
    read("val");
    assert_eq!(rows.count(), 22);
    for split in 0..100 {
        read(&format!("split {split}"));
        assert!(rows.count() <= 16 * (22 + 64) + 22, "{}", rows.count());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overview_has_a_row_for_each_run() {
    let port = port().await;
    let overview = port.get("/api/v1/overview?split=val").await.json();
    assert_eq!((&overview["split"], &overview["pending"]), (&json!("val"), &json!(0)));
    let row = &overview["runs"][0];
    assert_eq!(
        (&row["name"], &row["step"], &row["rows"], &row["evaluations"]),
        (&json!(NAME), &json!(2), &json!(64), &json!(2))
    );
    assert_eq!(row["scores"]["icl"], json!({"step": 2, "value": 0.25, "standard_error": 0.01}));
    assert_eq!(row["scores"]["ctl"], json!({"step": 2, "undefined": "one class"}));
    // Two evaluations of a run that still trains.
    assert_eq!((&row["verdict"]["state"], &row["verdict"]["since"]), (&json!("too_early"), &Value::Null));
    // A run without evaluations has a row, too.
    let empty = &overview["runs"][1];
    assert_eq!((&empty["name"], &empty["verdict"], &empty["spark"]), (&json!("earlier"), &Value::Null, &Value::Null));
    // Names stand one on each line; runs that are gone are left out.
    let several = port.get(&format!("/api/v1/overview?split=val&run=gone%0A{ENCODED}%0Aearlier")).await.json();
    assert_eq!(several["runs"], json!([row, empty]));
    // A new evaluation changes the row; its scores allow no conclusion.
    let mut third = point(3);
    third.epoch = Some(1.5);
    port.app.history.record_point(&third, None).unwrap();
    let one = port.get(&format!("/api/v1/overview?split=val&run={ENCODED}")).await.json();
    assert_eq!(one["runs"].as_array().unwrap().len(), 1);
    let row = &one["runs"][0];
    assert_eq!(
        (&row["step"], &row["epoch"], &row["verdict"]["state"]),
        (&json!(3), &json!(1.5), &json!("cannot_tell"))
    );
    assert!(row["verdict"]["reason"].as_str().unwrap().starts_with("needs leakage to the task"), "{row}");
    let whole = port.get(&format!("/api/v1/verdict?split=val&run={ENCODED}")).await.json();
    for shared in ["state", "reason", "deciding", "concepts", "since", "stop_advised_by"] {
        assert_eq!(whole[shared], row["verdict"][shared], "{shared}");
    }
    assert_eq!(
        (&whole["step"], &whole["rows"], whole["coverage"].as_array().unwrap().len()),
        (&json!(3), &json!(64), 13)
    );
    assert_eq!(whole["actions"][0]["text"], "Evaluate more rows");
    // Slow scores join an evaluation that is no longer the newest.
    let mut second = point(2);
    second.seconds = 9.0;
    let drop = ScoreValue { value: 0.5, standard_error: Some(0.01), ..ScoreValue::default() };
    second.scores.push(("intervention_drop".into(), Outcome::Value(drop)));
    port.app.history.record_point(&second, None).unwrap();
    port.late.lock().unwrap().push(Arc::new(second));
    let one = port.get(&format!("/api/v1/overview?split=val&run={ENCODED}")).await.json();
    assert_eq!(one["runs"][0]["scores"]["intervention_drop"]["step"], json!(2), "{one}");
}

#[tokio::test(flavor = "multi_thread")]
async fn leakage_is_dated_however_long_it_lasts() {
    let port = port().await;
    let leaking = |step: u64, value: f64| {
        let mut point = point(step);
        (point.rows, point.epoch) = (2000, Some(step as f64 / 10.0));
        let value = ScoreValue {
            value,
            standard_error: Some(0.01),
            per_concept: Some(vec![Some(2.0 * value), None]),
            ..ScoreValue::default()
        };
        let learnt = if step < 20 { 0.98 } else { 0.7 };
        let learnt = ScoreValue { value: learnt, standard_error: Some(0.01), ..ScoreValue::default() };
        point.scores = vec![
            ("ctl_conditional".into(), Outcome::Value(value)),
            ("concept_accuracy".into(), Outcome::Value(learnt)),
        ];
        point
    };
    let row = async || port.get(&format!("/api/v1/overview?split=val&run={ENCODED}")).await.json()["runs"][0].clone();
    for step in 3..250 {
        let value = if step < 20 { 0.05 } else { 0.4 };
        port.app.history.record_point(&leaking(step, value), None).unwrap();
    }
    let seen = row().await;
    let verdict = &seen["verdict"];
    assert_eq!((&verdict["state"], &verdict["or_earlier"]), (&json!("leaking"), &json!(false)));
    assert_eq!(verdict["since"], json!({"step": 20, "epoch": 2.0}));
    assert_eq!(verdict["last_sound"], json!({"step": 19, "epoch": 1.9}));
    assert_eq!(seen["concepts"], json!({"score": "ctl_conditional", "above": 1, "of": 2, "limit": 0.16}));
    let steps = seen["spark"]["steps"].as_array().unwrap();
    assert_eq!((steps.len(), &steps[0], &steps[29]), (30, &json!(3), &json!(249)));
    // It goes on, and the date stays.
    port.app.history.record_point(&leaking(250, 0.41), None).unwrap();
    assert_eq!(row().await["verdict"]["since"], json!({"step": 20, "epoch": 2.0}));
}

#[tokio::test(flavor = "multi_thread")]
async fn curves_come_as_columns() {
    let port = port().await;
    let left_out = json!({"concepts": [1], "of": 2, "why": "one class"});
    let curves = port.get(&format!("/api/v1/curves?run={ENCODED}&split=val&scores=icl,ctl")).await.json();
    assert_eq!(
        (&curves["step"], &curves["epoch"], &curves["rows"]),
        (&json!([1, 2]), &json!([null, null]), &json!([64, 64]))
    );
    let icl = &curves["scores"]["icl"];
    assert_eq!(
        (&icl["value"], &icl["left_out"], &icl["p_value"]),
        (&json!([0.125, 0.25]), &json!([[0, left_out]]), &json!(0.005))
    );
    assert_eq!(curves["scores"]["ctl"]["undefined"], json!({"one class": [0, 1]}));
    assert_eq!(curves["scores"]["ctl"]["value"], json!([null, null]));
    let later = port.get(&format!("/api/v1/curves?run={ENCODED}&split=val&scores=icl&first_step=2")).await.json();
    assert_eq!(later["step"], json!([2]));
    assert_eq!(later["superseded"], json!([]));
    let concepts = port.get(&format!("/api/v1/concepts?run={ENCODED}&split=val&score=icl")).await.json();
    assert_eq!(
        concepts,
        json!({"step": [1, 2], "epoch": [null, null], "concepts": ["x", "y"],
        "values": [[0.5, 0.5], [null, null]]})
    );
    let catalogue = port.get("/api/v1/catalogue").await.json();
    assert!(
        catalogue["limits"]
            .as_array()
            .unwrap()
            .contains(&json!({"score": "ctl_conditional", "limit": 0.16, "bad": "above"}))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_attempts_have_left_is_listed_by_attempt() {
    let port = port().await;
    let made = |step, launch| {
        let attempt = leakage::sample::Attempt { launch, restart: 0 };
        port.app.history.record_point(&point(step), Some(attempt)).unwrap();
    };
    [10, 20, 30, 40].iter().for_each(|step| made(*step, 0));
    [15, 35].iter().for_each(|step| made(*step, 1));
    made(16, 2);
    let curves = port.get(&format!("/api/v1/curves?run={ENCODED}&split=val&scores=icl&first_step=10")).await.json();
    assert_eq!(curves["step"], json!([10, 15, 16, 20, 30, 35, 40]));
    assert_eq!(curves["superseded"], json!([[3, 4, 6], [5]]));
    // They stay when it gets there again.
    [35, 50].iter().for_each(|step| made(*step, 2));
    let curves = port.get(&format!("/api/v1/curves?run={ENCODED}&split=val&scores=icl,ctl&first_step=10")).await.json();
    assert_eq!(curves["step"], json!([10, 15, 16, 20, 30, 35, 35, 40, 50]));
    assert_eq!(curves["superseded"], json!([[3, 4, 7], [6]]));
    assert_eq!(curves["scores"]["ctl"]["undefined"], json!({"one class": [0, 1, 2, 3, 4, 5, 6, 7, 8]}));
}
