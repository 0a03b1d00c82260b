//! Hubs over one database in PostgreSQL: what sidecars push arrives exactly once, whichever hub gets it and however often,
//! all hubs show the same as the sidecars judged, and nothing of another project can be changed.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, Stdio};

use conceptwatch::history::{Change, Declared, Ending, Judgement, Launch, Remark, RunOutcome, Unscored};
use conceptwatch::server::hub_protocol::convert;
use conceptwatch::server::hub_protocol::proto::hub_client::HubClient;
use conceptwatch::server::hub_protocol::proto::{Entry, PushRequest, PushResponse, entry};
use leakage::point::{Outcome, Point, ScoreValue};
use leakage::run::Run;
use leakage::step::Rank;
use serde_json::{Value, json};
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

use crate::common::{self, PATIENCE, Sidecar, metric, postgres as database, text, until, write_secret};

const SOURCE: &str = "11111111-2222-4333-8444-555555555555";
const OTHER: &str = "99999999-2222-4333-8444-555555555555";

/// Calls what blocks, on a thread that may.
fn elsewhere<T: Send>(call: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(call).join().unwrap())
}

pub fn a_database() -> Option<String> {
    elsewhere(database::database)
}

fn hub(database: &str, arguments: &[&str]) -> Sidecar {
    Sidecar::start(&[&["--store", database], arguments].concat())
}

async fn client(hub: &Sidecar) -> HubClient<Channel> {
    HubClient::connect(format!("http://{}", hub.grpc)).await.unwrap().max_encoding_message_size(usize::MAX)
}

fn with_token<T>(message: T, token: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", MetadataValue::try_from(format!("Bearer {token}")).unwrap());
    request
}

/// For the page.
const PAGE: &str = "token-of-the-page-0123456789";

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

fn launch() -> Launch {
    Launch { job: "job".into(), restart: 0, number: 0 }
}

fn a_run(name: &str) -> Run {
    let message = json!({"name": name, "concepts": [{"name": "a", "cardinality": 2}, {"name": "b", "cardinality": 2}]});
    serde_json::from_value(message).unwrap()
}

fn declared(name: &str) -> Change {
    Change::Declare(Box::new(declaration(name)))
}

fn declaration(name: &str) -> Declared {
    Declared {
        run: a_run(name),
        declared_name: None,
        launch: launch(),
        rank: Rank::default(),
        client: "client".into(),
        resume: false,
        scheduler_job: "4711".into(),
        host: "node-0".into(),
        started: 1_000_000.0,
    }
}

fn value(value: f64) -> ScoreValue {
    ScoreValue { value, standard_error: Some(0.001), ..ScoreValue::default() }
}

/// A point whose values are no round numbers.
fn point(run: &str, step: u64) -> Point {
    let third = step as f64 / 3.0;
    let ctl = ScoreValue {
        per_concept: Some(vec![Some(third), None]),
        matrix: Some(vec![vec![None, Some(f64::from(0.1_f32))], vec![Some(0.25), None]]),
        ..value(third)
    };
    Point {
        run: run.into(),
        split: "val".into(),
        step,
        epoch: Some(third),
        time: 1_000_000.0 + step as f64,
        rows: 64,
        rows_seen: 64,
        tie_fraction: 0.1,
        estimator: "tie_aware".into(),
        neighbours: 3,
        catalogue_version: 2,
        seconds: 0.01,
        scores: vec![("ctl".into(), Outcome::Value(ctl)), ("icl".into(), Outcome::Value(value(0.1)))],
        change_errors: vec![("ctl".into(), 0.1 / 3.0)],
        ..Point::default()
    }
}

fn of_point(run: &str, step: u64) -> Change {
    Change::Point(Box::new(point(run, step)), Some(launch()))
}

/// A slow score that joins the point.
fn late(run: &str, step: u64) -> Change {
    let scores = vec![("ois".into(), Outcome::Value(value(0.7)))];
    Change::Late(Box::new(Point { scores, seconds: 9.0, ..point(run, step) }), Some(launch()))
}

/// The state of a rule that advises to stop.
fn alert(run: &str, rule: &str, state: &str, since: f64) -> Change {
    let json = json!({"rule": rule, "run": run, "split": "val", "score": "ctl", "state": state, "since": since, "evidence": "0.5",
        "step": 12, "severity": "critical", "advises_stop": true, "value": 0.5, "baseline": null});
    let (run, split, rule) = (run.into(), "val".into(), Some(rule.into()));
    Change::Judged(Judgement { run, split, rule, active: state != "inactive", since, json: json.to_string() })
}

fn verdict(run: &str) -> Change {
    let json = json!({"state": "leaking", "deciding": null, "concepts": ["a"], "since": null, "or_earlier": false,
        "last_sound": null, "reason": "as the sidecar said", "stop_advised_by": "few"});
    let (run, split, json) = (run.into(), "val".into(), json.to_string());
    Change::Judged(Judgement { run, split, rule: None, active: false, since: 0.0, json })
}

fn numbered(changes: Vec<Change>) -> Vec<Entry> {
    changes.iter().zip(1..).map(|(change, number)| convert::entry(number, change)).collect()
}

async fn push(client: &mut HubClient<Channel>, entries: &[Entry]) -> Result<PushResponse, Status> {
    let request = PushRequest { source: SOURCE.into(), entries: entries.to_vec() };
    client.push(request).await.map(|answer| answer.into_inner())
}

/// What hubs must agree on: lists, curves, points, alerts and the metrics of curves and alerts.
fn shown(hub: &Sidecar) -> Vec<Value> {
    let mut alerts = hub.json("/api/v1/alerts");
    let text = |change: &Value| change.to_string();
    alerts["changes"].as_array_mut().unwrap().sort_by_key(text);
    let metrics = hub.get("/metrics");
    let is_of_run = |line: &&str| line.contains("run=\"") && !line.contains("push_age");
    let of_runs: Vec<&str> = metrics.lines().filter(is_of_run).collect();
    vec![
        hub.json("/api/v1/runs"),
        hub.json("/api/v1/overview?split=val"),
        hub.json("/api/v1/points?run=r&split=val"),
        hub.json("/api/v1/curves?run=r&split=val&scores=ctl,icl,ois"),
        hub.json("/api/v1/unscored?run=r&split=val"),
        alerts,
        json!(of_runs),
    ]
}

/// The newest step of the run `r`.
fn newest(hub: &Sidecar) -> Option<u64> {
    let points = hub.json("/api/v1/points?run=r&split=val");
    points["points"].as_array()?.last()?["step"].as_u64()
}

/// The states of alerts that a hub shows under a key, by rule.
fn states(hub: &Sidecar, key: &str) -> Vec<(String, String)> {
    let text = |alert: &Value, key: &str| alert[key].as_str().unwrap().to_owned();
    let shown = hub.json("/api/v1/alerts")[key].as_array().cloned().unwrap_or_default();
    shown.iter().map(|alert| (text(alert, "rule"), text(alert, "state"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_pushed_twice_to_several_hubs_are_applied_once_and_all_hubs_show_the_same() {
    let Some(database) = a_database() else { return };
    let (first, second) = (hub(&database, &[]), hub(&database, &[]));
    let record = Unscored {
        run: "r".into(),
        split: "val".into(),
        step: 9,
        ordinal: Default::default(),
        time: 1_000_009.5,
        outcome: Ending::Skipped,
        reason: "a newer pass was ready".into(),
        rows_seen: 5,
        attempt: None,
    };
    let remark = Remark { title: Some("The title".into()), note: None };
    // The host is that of the lowest rank, whatever declared itself last.
    let second_rank = Declared { rank: Rank::stored(1), host: "node-1".into(), ..declaration("r") };
    let mut changes = vec![declared("r"), Change::Declare(Box::new(second_rank))];
    changes.extend((1..=8).map(|step| of_point("r", step)));
    changes.push(Change::Unscored(record, Some(launch())));
    changes.extend((10..=12).map(|step| of_point("r", step)));
    changes.extend([late("r", 9), late("r", 12)]);
    changes.push(alert("r", "few", "pending", 1_000_001.0));
    changes.push(alert("r", "few", "firing", 1_000_002.0));
    changes.push(verdict("r"));
    changes.push(Change::Remark { run: "r".into(), remark });
    let entries = numbered(changes);

    // Batches that overlap, to both hubs at once; the second is killed on the way.
    let (mut one, mut two) = (client(&first).await, client(&second).await);
    for (from, to) in [(0, 3), (1, 5), (0, 8)] {
        let (a, b) = tokio::join!(push(&mut one, &entries[from..to]), push(&mut two, &entries[from..to]));
        assert_eq!((a.unwrap().applied, b.unwrap().applied), (to as u64, to as u64));
    }
    second.kill();
    push(&mut one, &entries[4..]).await.unwrap();
    let again = push(&mut one, &entries).await.unwrap();
    assert_eq!((again.applied, again.refused.len()), (entries.len() as u64, 0));
    let third = hub(&database, &[]);

    let points = first.json("/api/v1/points?run=r&split=val")["points"].as_array().unwrap().clone();
    let steps: Vec<u64> = points.iter().map(|point| point["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12]);
    assert_eq!(points[6]["scores"]["ctl"]["value"].as_f64().map(f64::to_bits), Some((7.0_f64 / 3.0).to_bits()));
    assert_eq!((&points[10]["scores"]["ois"]["value"], &points[10]["seconds"]), (&json!(0.7), &json!(9.0)));
    // The page's JSON is the point's own.
    assert_eq!(points[0]["scores"]["ctl"], serde_json::to_value(&point("r", 1).scores[0].1).unwrap());
    let applied = first.metric("conceptwatch_hub_entries_total", "outcome=\"applied\"");
    assert!(applied > 0.0 && first.metric("conceptwatch_hub_entries_total", "outcome=\"known\"") > 0.0);

    until("the alert fires at both", || {
        [&first, &third].iter().all(|hub| hub.metric("conceptwatch_alert_state", "rule=\"few\"") == 2.0)
    })
    .await;
    // A hub that started later shows what one shows that was there. The verdicts in its metrics follow its points.
    let deadline = std::time::Instant::now() + PATIENCE;
    while shown(&first) != shown(&third) && std::time::Instant::now() < deadline {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let (expected, found) = (shown(&first), shown(&third));
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(found, expected);
    }
    assert_eq!(expected[0]["runs"][0]["title"], "The title");

    let row = &expected[1]["runs"][0];
    assert_eq!(
        (row["verdict"]["state"].as_str(), row["verdict"]["reason"].as_str()),
        (Some("leaking"), Some("as the sidecar said"))
    );
    let assessed = third.json("/api/v1/verdict?run=r&split=val");
    assert_eq!((&assessed["state"], &assessed["stop_advised_by"]), (&json!("leaking"), &json!("few")));
    assert_eq!(third.metric("conceptwatch_verdict", "verdict=\"leaking\""), 1.0);
    assert_eq!(third.metric("conceptwatch_run_info", "host=\"node-0\",job=\"4711\",run=\"r\""), 1.0);

    // Both learn the end, whoever is told.
    let mut three = client(&third).await;
    let over = alert("r", "few", "inactive", 1_000_020.0);
    let outcome = RunOutcome::Failed { rank: 0, error: "ValueError".into(), message: "no such concept".into() };
    let failed = Change::FinishRun { run: "r".into(), finished: None, outcome };
    push(&mut three, &[convert::entry(99, &failed)]).await.unwrap();
    let state = |hub: &Sidecar| {
        let run = &hub.json("/api/v1/runs")["runs"][0];
        (run["finished"].as_bool().unwrap(), run["state"].clone(), run["reason"].clone())
    };
    let reason = json!("ValueError: no such concept");
    assert_eq!(state(&first), (false, json!("failed"), reason.clone()));
    let finish = Change::FinishRun { run: "r".into(), finished: Some(1_000_020.0), outcome: RunOutcome::Finished };
    push(&mut three, &[convert::entry(100, &finish), convert::entry(101, &over)]).await.unwrap();
    assert_eq!(state(&first), (true, json!("failed"), reason));
    until("the alert ends at both", || [&first, &third].iter().all(|hub| states(hub, "standings").is_empty())).await;
    for hub in [&first, &third] {
        let changes: Vec<String> = states(hub, "changes").into_iter().map(|(_, state)| state).collect();
        assert_eq!(changes, ["pending", "firing", "inactive"]);
    }
}

/// Carries out what an owner of the database may.
fn administer(database: &str, sql: &str) {
    let name = database.rsplit('/').next().unwrap();
    elsewhere(|| database::Server::shared().unwrap().admin(name).batch_execute(sql).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_of_a_sidecar_that_is_silent_are_the_last_known_and_do_not_fire() {
    let Some(database) = a_database() else { return };
    let hub = hub(&database, &[]);
    let mut client = client(&hub).await;
    let changes = vec![declared("r"), of_point("r", 1), alert("r", "few", "firing", 1_000_001.0)];
    push(&mut client, &numbered(changes)).await.unwrap();
    let firing = [("few".to_owned(), "firing".to_owned())];
    until("the alert fires", || states(&hub, "standings") == firing).await;
    assert!(hub.metric("conceptwatch_hub_push_age_seconds", "run=\"r\"") < 60.0);
    assert_eq!(hub.json("/api/v1/runs")["runs"][0]["state"], "training");
    administer(&database, "UPDATE source SET heard = now() - interval '61 seconds'");
    until("the sidecar is lost", || states(&hub, "last_known") == firing && states(&hub, "standings").is_empty()).await;
    assert!(!hub.get("/metrics").contains("conceptwatch_alert_state{"));
    assert!(hub.metric("conceptwatch_hub_push_age_seconds", "run=\"r\"") > 60.0);
    let run = &hub.json("/api/v1/runs")["runs"][0];
    let lost = ("lost", "its sidecar has been silent for more than a minute");
    assert_eq!((run["state"].as_str().unwrap(), run["reason"].as_str().unwrap()), lost);
    push(&mut client, &[]).await.unwrap();
    until("it is heard again", || states(&hub, "standings") == firing && states(&hub, "last_known").is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_alert_that_fires_is_exported_however_many_there_are() {
    let Some(database) = a_database() else { return };
    let hub = hub(&database, &[]);
    let mut client = client(&hub).await;
    let firing = |number| alert("r", &format!("rule {number}"), if number < 2100 { "firing" } else { "pending" }, 1.0);
    let changes: Vec<Change> = [declared("r")].into_iter().chain((0..2110).map(firing)).collect();
    for entries in numbered(changes).chunks(1000) {
        push(&mut client, entries).await.unwrap();
    }
    let exported = || hub.get("/metrics").lines().filter(|line| line.starts_with("conceptwatch_alert_state{")).count();
    until("all are exported", || exported() == 2100).await;
    assert_eq!(hub.metric("conceptwatch_series_omitted", "family=\"conceptwatch_alert_state\""), 10.0);
}

/// The status of `/ready`, and the reason that the metrics and the API give, too.
fn health(hub: &Sidecar) -> (u16, Option<String>) {
    let metrics = hub.get("/metrics");
    let (ready, said) = hub.ask("GET", "/ready", "", "");
    let status = hub.json("/api/v1/status");
    let reason = status["unwritable"]["reason"].as_str().map(str::to_owned);
    assert_eq!(metric(&metrics, "conceptwatch_history_writable", "") == 1.0, reason.is_none(), "{said}");
    if let Some(reason) = &reason {
        assert!(said.contains(reason.as_str()), "{said}");
        assert_eq!(metric(&metrics, "conceptwatch_history_unwritable", &format!("reason=\"{reason}\"")), 1.0);
    }
    (ready, reason)
}

#[test]
fn a_hub_is_ready_only_while_its_database_takes_a_change() {
    let Some(server) = database::Server::start() else { return };
    let url = server.database();
    let name = url.rsplit('/').next().unwrap().to_owned();
    let run = |sql: &str| server.admin("postgres").batch_execute(sql).unwrap();
    run(&format!("CREATE ROLE hub LOGIN; ALTER DATABASE {name} OWNER TO hub"));
    let hub = hub(&server.address("hub", &name), &[]);
    let is = |what: &str, reason: Option<&str>| {
        let deadline = std::time::Instant::now() + PATIENCE;
        // Between two questions the hub may look again.
        let found = || std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| health(&hub))).ok();
        let expected = (if reason.is_none() { 200 } else { 503 }, reason.map(str::to_owned));
        while found().as_ref() != Some(&expected) {
            assert!(std::time::Instant::now() < deadline, "{what}: {:?}", found());
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    };
    let end_sessions = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'hub'";
    is("at first", None);
    run(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on; {end_sessions}"));
    is("read-only", Some("read_only"));
    run(&format!("ALTER DATABASE {name} RESET default_transaction_read_only; {end_sessions}"));
    is("writable again", None);
    server
        .admin(&name)
        .batch_execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS \
             $$BEGIN RAISE EXCEPTION 'as told' USING ERRCODE = '53100'; END$$; \
             CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON probe FOR EACH ROW EXECUTE FUNCTION fail();",
        )
        .unwrap();
    is("full", Some("full"));
    server.admin(&name).batch_execute("DROP TRIGGER fail ON probe").unwrap();
    is("there is room again", None);
    run(&format!("ALTER ROLE hub NOLOGIN; {end_sessions}"));
    is("denied", Some("denied"));
    run("ALTER ROLE hub LOGIN");
    is("let in again", None);
    server.stop();
    is("unreachable", Some("unreachable"));
    server.start_again();
    is("reached again", None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_can_never_be_applied_is_refused_by_name_and_stops_none() {
    let Some(database) = a_database() else { return };
    let hub = hub(&database, &[]);
    let mut client = client(&hub).await;
    let mut short = point("r", 2);
    short.scores = vec![("ctl".into(), Outcome::Value(ScoreValue { per_concept: Some(vec![None; 3]), ..value(1.0) }))];
    let counts = Point { concept_rows: vec![64; 3], ..point("r", 5) };
    let mut forged = convert::entry(4, &of_point("r", 3));
    if let Some(entry::Change::Point(point)) = &mut forged.change {
        point.point.as_mut().unwrap().time = f64::NAN;
    }
    let entries = [
        convert::entry(1, &declared("r")),
        convert::entry(2, &of_point("r", 1)),
        convert::entry(3, &Change::Point(Box::new(short), Some(launch()))),
        forged,
        convert::entry(
            5,
            &Change::FinishRun { run: "unknown".into(), finished: Some(1.0), outcome: RunOutcome::Finished },
        ),
        Entry { number: 6, change: None },
        convert::entry(7, &Change::Point(Box::new(counts), Some(launch()))),
        convert::entry(8, &of_point("r", 4)),
    ];
    let answer = push(&mut client, &entries).await.unwrap();
    assert_eq!(answer.applied, 8);
    let refused: Vec<_> = answer.refused.iter().map(|one| (one.number, one.field.as_str())).collect();
    let expected =
        [(3, "scores.ctl.per_concept"), (4, "point.time"), (5, "run"), (6, "change"), (7, "point.concept_rows")];
    assert_eq!(refused, expected);
    assert_eq!(hub.metric("conceptwatch_hub_entries_total", "outcome=\"refused\""), 5.0);
    let points = hub.json("/api/v1/points?run=r&split=val")["points"].as_array().unwrap().len();
    assert_eq!(points, 2);
    // They stay refused: nothing is applied the second time.
    let again = push(&mut client, &entries).await.unwrap();
    assert_eq!((again.applied, again.refused.len()), (8, 0));

    for (request, field) in [
        (PushRequest { source: "x".into(), entries: entries.to_vec() }, "source"),
        (PushRequest { source: SOURCE.into(), entries: vec![entries[0].clone(); 1025] }, "entries"),
        (
            PushRequest { source: SOURCE.into(), entries: vec![entries[1].clone(), entries[0].clone()] },
            "entries.number",
        ),
    ] {
        let status = client.push(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert_eq!(status.get_details_bad_request().unwrap().field_violations[0].field, field);
    }
    // As many runs as a message holds.
    let declare = |number: u64| convert::entry(number, &declared(&format!("run {number}")));
    let answer = push(&mut client, &(100..400).map(declare).collect::<Vec<_>>()).await.unwrap();
    assert_eq!((answer.applied, answer.refused.len()), (399, 0));
    let applied = push(&mut client, &[]).await.unwrap().applied;
    assert_eq!(applied, 399, "without entries it only tells what is applied");
    let large = Remark { title: None, note: Some("x".repeat(17 << 20)) };
    let large = [convert::entry(400, &Change::Remark { run: "r".into(), remark: large })];
    let status = push(&mut client, &large).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert!(status.message().contains("expected at most 16777216 bytes"), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_changes_runs_of_its_own_project_alone() {
    let Some(database) = a_database() else { return };
    let directory = tempfile::tempdir().unwrap();
    let tokens = ["token-of-vision-0123456789", "token-of-audio-0123456789"];
    for (name, token) in ["vision", "audio"].into_iter().zip(tokens) {
        write_secret(&directory.path().join(name), token);
    }
    let (projects, page) = (directory.path().join("projects.toml"), directory.path().join("page"));
    std::fs::write(&projects, "[projects]\nvision = \"vision\"\naudio = \"audio\"\n").unwrap();
    write_secret(&page, PAGE);
    let hub = hub(&database, &["--projects", text(&projects), "--token-file", text(&page)]);
    let mut client = client(&hub).await;
    let get = |path: &str| hub.ask("GET", path, &bearer(PAGE), "").1;

    let entries = numbered(vec![declared("r"), of_point("r", 1)]);
    let request = || PushRequest { source: SOURCE.into(), entries: entries.clone() };
    assert_eq!(client.push(request()).await.unwrap_err().code(), Code::Unauthenticated);
    let forged = with_token(request(), "token-of-vision-0123456780");
    assert_eq!(client.push(forged).await.unwrap_err().code(), Code::Unauthenticated);
    assert_eq!(metric(&get("/metrics"), "conceptwatch_tokens_refused_total", "port=\"grpc\""), 1.0);
    client.push(with_token(request(), tokens[0])).await.unwrap();

    // The other project has a source of its own, which cannot name the first's run as its own.
    let status = client.push(with_token(request(), tokens[1])).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
    assert!(status.message().contains("belongs to project 'vision', got 'audio'"), "{status:?}");
    let asked = PushRequest { source: SOURCE.into(), entries: Vec::new() };
    assert_eq!(client.push(with_token(asked, tokens[1])).await.unwrap_err().code(), Code::PermissionDenied);
    let theirs = PushRequest { source: OTHER.into(), entries: numbered(vec![of_point("r", 2)]) };
    let answer = client.push(with_token(theirs, tokens[1])).await.unwrap().into_inner();
    assert_eq!(answer.refused[0].field, "run", "{answer:?}");
    let points: Value = serde_json::from_str(&get("/api/v1/points?run=r&split=val")).unwrap();
    assert_eq!(points["points"].as_array().unwrap().len(), 1, "nothing was applied");

    // The page, and what people change there, is for another token: no project's opens it, not even that of the run.
    let own = format!("Origin: http://{}\r\n", hub.http);
    for token in tokens {
        let headers = format!("{own}{}", bearer(token));
        for (method, body) in [("PATCH", "{\"title\": \"mine\"}"), ("DELETE", ""), ("GET", "")] {
            let (status, said) = hub.ask(method, "/api/v1/run?run=r", &headers, body);
            assert_eq!(status, 401, "{method} {said}");
        }
        let (status, said) = hub.ask("POST", "/login", &own, &format!("token={token}"));
        assert_eq!(status, 401, "{said}");
    }
    let titled = |title: &str| {
        hub.ask("PATCH", "/api/v1/run?run=r", &format!("{own}{}", bearer(PAGE)), &json!({"title": title}).to_string())
    };
    let (status, said) = titled("The page's");
    let run: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((status, run["title"].as_str()), (200, Some("The page's")), "{said}");

    // A run of its own it may have, under another name.
    let theirs = PushRequest { source: OTHER.into(), entries: vec![convert::entry(2, &declared("r"))] };
    client.push(with_token(theirs, tokens[1])).await.unwrap();
    let run: Value = serde_json::from_str(&get("/api/v1/run?run=r-2")).unwrap();
    assert_eq!(run["name"], "r-2");
    // What a project has pushed can be given to another.
    for table in ["source", "run"] {
        administer(&database, &format!("UPDATE {table} SET project = 'audio' WHERE project = 'vision'"));
    }
    let later = PushRequest { source: SOURCE.into(), entries: vec![convert::entry(3, &of_point("r", 2))] };
    let answer = client.push(with_token(later, tokens[1])).await.unwrap().into_inner();
    assert_eq!((answer.applied, answer.refused.len()), (3, 0), "{answer:?}");
    let points: Value = serde_json::from_str(&get("/api/v1/points?run=r&split=val")).unwrap();
    assert_eq!(points["points"].as_array().unwrap().len(), 2);
    // Jobs send to sidecars.
    let mut jobs = hub.client().await;
    let status = jobs.start_run(with_token(common::run("x"), tokens[0])).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
    assert!(status.message().contains("--upstream"), "{status:?}");
}

/// As behind a balancer, which sends each request of a browser to another hub.
#[test]
fn a_browser_that_has_logged_in_at_one_hub_is_known_to_all() {
    let Some(database) = database::database() else { return };
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page");
    write_secret(&page, PAGE);
    let hubs = [0, 1].map(|_| hub(&database, &["--token-file", text(&page)]));
    let origin = format!("Origin: http://{}\r\n", hubs[0].http);
    let (status, headers, _) = hubs[0].answer("POST", "/login", &origin, &format!("token={PAGE}"));
    let (_, set) = headers.iter().find(|(name, _)| name == "set-cookie").unwrap();
    assert!(status == 303 && set.contains("; HttpOnly; SameSite=Strict"), "{set}");
    let cookie = format!("Cookie: {}\r\n", set.split(';').next().unwrap());
    for hub in hubs.iter().cycle().take(6) {
        assert_eq!(hub.ask("GET", "/api/v1/runs", &cookie, "").0, 200);
        assert_eq!(hub.ask("GET", "/api/v1/runs", "", "").0, 401);
    }
    // Another token ends all sessions.
    write_secret(&page, "token-of-the-page-9876543210");
    let later = hub(&database, &["--token-file", text(&page)]);
    assert_eq!(later.ask("GET", "/api/v1/runs", &cookie, "").0, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_outlives_its_database() {
    let Some(server) = elsewhere(database::Server::start) else { return };
    let database = elsewhere(|| server.database());
    let hub = hub(&database, &[]);
    let mut client = client(&hub).await;
    let entries = numbered(vec![declared("r"), of_point("r", 1), of_point("r", 2)]);
    push(&mut client, &entries[..2]).await.unwrap();
    elsewhere(|| server.stop());
    let status = push(&mut client, &entries).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert!(status.get_details_retry_info().is_some());
    let counted =
        elsewhere(|| hub.metric("conceptwatch_hub_calls_refused_total", "call=\"Push\",code=\"Unavailable\""));
    assert_eq!(counted, 1.0);
    elsewhere(|| server.start_again());
    // At once, or after the hub has looked again.
    let mut applied = 0;
    for _ in 0..100 {
        match push(&mut client, &entries).await {
            Ok(answer) => {
                applied = answer.applied;
                break;
            }
            Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status:?}"),
        }
    }
    assert_eq!(applied, 3);
    let points = || hub.json("/api/v1/points?run=r&split=val")["points"].as_array().map_or(0, Vec::len);
    until("both points are there, each once", || points() == 2).await;
}

/// The standard error of a hub that is started, line by line.
fn starting(database: &str) -> (Child, Lines<BufReader<ChildStderr>>) {
    let ports = ["--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0"];
    let mut command = common::program();
    command.args(["serve", "--store", database]).args(ports).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap()).lines();
    (child, said)
}

#[test]
fn a_hub_waits_for_its_database_when_it_starts() {
    let Some(server) = database::Server::start() else { return };
    let url = server.database();
    server.stop();
    let (mut hub, mut said) = starting(&url);
    let mut until = |expected: &str| said.find(|line| line.as_ref().unwrap().contains(expected)).is_some();
    assert!(until("waiting for the database error=history: the database cannot be reached"));
    server.start_again();
    assert!(until("listening"));
    hub.kill().unwrap();
    hub.wait().unwrap();

    // It can be stopped before.
    server.stop();
    let (mut hub, mut said) = starting(&url);
    assert!(said.any(|line| line.unwrap().contains("waiting for the database")));
    common::signal::terminate(&hub);
    assert!(hub.wait().unwrap().success());
    server.start_again();

    // What waiting does not change ends it.
    let name = url.rsplit('/').next().unwrap();
    let (mut hub, said) = starting(&server.address("nobody", name));
    assert!(!hub.wait().unwrap().success());
    let said: Vec<String> = said.map(Result::unwrap).collect();
    assert!(said.last().unwrap().contains("the database refuses access") && said.len() == 1, "{said:?}");
    server.admin(name).batch_execute("UPDATE conceptwatch_schema SET version = 99").unwrap();
    let (mut hub, said) = starting(&url);
    assert!(!hub.wait().unwrap().success());
    let said: Vec<String> = said.map(Result::unwrap).collect();
    assert!(said.last().unwrap().contains("got schema version 99") && said.len() == 1, "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_notices_that_its_database_was_restored_from_a_backup() {
    let Some(server) = elsewhere(database::Server::start) else { return };
    let database = elsewhere(|| server.database());
    let hub = hub(&database, &[]);
    let mut client = client(&hub).await;
    push(&mut client, &numbered(vec![declared("r"), of_point("r", 1)])).await.unwrap();
    until("the hub shows the first evaluation", || newest(&hub) == Some(1)).await;
    elsewhere(|| {
        server.stop();
        server.back_up();
        server.start_again();
    });
    let later = numbered(vec![declared("r"), of_point("r", 1), of_point("r", 2), declared("s"), of_point("s", 1)]);
    until("the hub takes what comes after the backup", || {
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(push(&mut client, &later))).is_ok()
    })
    .await;
    until("the hub shows it", || newest(&hub) == Some(2)).await;
    elsewhere(|| {
        server.stop();
        server.restore();
        server.start_again();
    });
    until("the hub shows what the database holds", || newest(&hub) == Some(1)).await;
    let shown = hub.json("/api/v1/runs").to_string();
    assert!(!shown.contains("\"s\""), "{shown}");
    until("what is pushed then is shown", || {
        let next = [later[2].clone()];
        let _ = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(push(&mut client, &next)));
        newest(&hub) == Some(2)
    })
    .await;
}
