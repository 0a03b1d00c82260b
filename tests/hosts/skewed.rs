//! Hubs with wrong clocks: lateness is judged by the database's clock alone.

use std::path::PathBuf;

use conceptwatch::server::proto::settled::Outcome;
use serde_json::Value;

use super::common::{Sidecar, point, program, text, until};
use super::{a_database, all, assert_same, at, of_one_process, ranks, settled, sidecar, upstream};

/// The library of Debian's package `faketime`; `None`, and a word about it, where it is not installed, unless
/// CONCEPTWATCH_REQUIRE names faketime.
fn library() -> Option<PathBuf> {
    let found = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let found = found.map(|folder| folder.path().join("faketime/libfaketime.so.1")).find(|path| path.exists());
    if found.is_none() {
        let required = std::env::var("CONCEPTWATCH_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|one| one.trim() == "faketime"), "faketime is not installed");
        eprintln!("NOT TESTED: hubs whose clocks differ, because faketime is not installed");
    }
    found
}

#[expect(clippy::disallowed_methods, reason = "the clock of this machine, which is also the database's")]
fn now() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_whose_clock_is_wrong_closes_no_pass_and_fires_no_alert_early() {
    let (Some(library), Some(database)) = (library(), a_database()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let rules = directory.path().join("rules.toml");
    std::fs::write(&rules, "[[alerts]]\nname = \"silent\"\nsplit = \"val\"\nstale = 1800.0\n").unwrap();
    // An hour ahead and an hour behind. Waiting uses the monotonic clock, which is right.
    let hubs = ["+3600", "-3600"].map(|skew| {
        let mut command = program();
        command.env("LD_PRELOAD", &library).env("FAKETIME", skew).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let options = ["--store", &database, "--workers", "1", "--config", text(&rules)];
        Sidecar::start_as(command, &[&options[..], &["--pass-deadline", "1000"]].concat())
    });
    let data = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let hosts = [0, 1].map(|host: usize| sidecar(&at(&hubs[host]), data[host].path(), &[]));
    let mut ranks = ranks(&[&hosts[0], &hosts[1]], 1, 0).await;
    let expected = of_one_process(1..3).await;
    let begun = now();
    for step in 1..3 {
        // The hub of the second host sees a part that is an hour old, or of the future.
        ranks[0].pass(step).await;
        until("a part is sent", || upstream(&hosts[0])["parts_sent"] == step).await;
        ranks[1].pass(step).await;
        assert!(all(&settled(&mut ranks, step).await, Outcome::Point));
        for rank in &mut ranks {
            let found = point(&mut rank.client, "r", "val", step).await;
            assert_same(&found, &expected[step as usize - 1]);
            assert!((begun - 1.0..=now() + 1.0).contains(&found.time), "{} is not of now", found.time);
        }
    }
    for hub in &hubs {
        until("the hub shows both", || {
            let series = hub.get("/api/v1/series?run=r&split=val&score=ctl");
            series.matches("\"step\"").count() == 2
        })
        .await;
        let looks = || hub.metric("conceptwatch_staleness_seconds", "");
        until("the hub has looked at the clock", || (0.0..1800.0).contains(&looks()) && looks() > 0.0).await;
        let alerts: Value = serde_json::from_str(&hub.get("/api/v1/alerts")).unwrap();
        assert!(!alerts.to_string().contains("firing"), "{alerts}");
    }
}
