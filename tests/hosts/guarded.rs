//! Between sidecars and hubs: TLS, tokens of projects, and a hub that restarts at its address.

use std::path::{Path, PathBuf};

use conceptwatch::server::proto::settled::Outcome;
use serde_json::Value;
use tempfile::TempDir;

use super::common::certificates::Authority;
use super::common::{Sidecar, metric, point, text, until, write_secret};
use super::{a_database, all, assert_same, of_one_process, passes, ranks, settled, sidecar, upstream};

/// The files of two projects with one token each.
struct Projects {
    directory: TempDir,
    file: PathBuf,
    /// Of the token of the hub's page.
    page: PathBuf,
}

impl Projects {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("projects.toml");
        std::fs::write(&file, "[projects]\nvision = \"vision\"\naudio = \"audio\"\n").unwrap();
        let projects = Self { page: directory.path().join("page"), directory, file };
        for name in ["vision", "audio", "forged", "page"] {
            write_secret(&projects.token(name), &format!("the-token-of-{name}"));
        }
        projects
    }

    fn token(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Options of a hub with these projects, and a token of its own for the page.
    fn of_hub<'a>(&'a self, database: &'a str) -> Vec<&'a str> {
        let page = ["--token-file", text(&self.page)];
        [&["--store", database, "--workers", "1", "--projects", text(&self.file)][..], &page].concat()
    }

    /// An answer of a hub's page.
    fn get(hub: &Sidecar, path: &str) -> String {
        hub.ask("GET", path, "Authorization: Bearer the-token-of-page\r\n", "").1
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_on_two_hosts_reach_a_hub_by_tls_with_their_token_also_after_its_restart() {
    let Some(database) = a_database() else { return };
    let projects = Projects::new();
    let authority = Authority::new(projects.path(), "authority");
    let [cert, key] = authority.issue(projects.path(), "hub", 2100);
    let options = projects.of_hub(&database);
    let tls = ["--tls-cert", text(&cert), "--tls-key", text(&key)];
    let hub = Sidecar::start(&[&options[..], &tls].concat());
    let (grpc, http) = (hub.grpc.to_string(), hub.http.to_string());
    let data = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let token = projects.token("vision");
    let given = ["--upstream-ca", text(&authority.file), "--upstream-token-file", text(&token)];
    let hosts = [0, 1].map(|host: usize| sidecar(&format!("https://{grpc}"), data[host].path(), &given));
    let mut ranks = ranks(&[&hosts[0], &hosts[1]], 1, 0).await;
    let expected = of_one_process(1..4).await;
    passes(&mut ranks, 1).await;
    assert!(all(&settled(&mut ranks, 1).await, Outcome::Point));
    // One host has sent its part when the hub dies.
    ranks[0].pass(2).await;
    until("a part is sent", || upstream(&hosts[0])["parts_sent"] == 2).await;
    hub.kill();
    ranks[1].pass(2).await;
    let at = ["--grpc-address", &grpc, "--http-address", &http];
    let _hub = Sidecar::start(&[&options[..], &tls, &at].concat());
    passes(&mut ranks, 3).await;
    for step in [2, 3] {
        assert!(all(&settled(&mut ranks, step).await, Outcome::Point));
    }
    for rank in &mut ranks {
        for expected in &expected {
            assert_same(&point(&mut rank.client, "r", "val", expected.step).await, expected);
        }
        rank.finish().await;
    }
    until("all is told", || hosts.iter().all(|host| upstream(host)["waiting"] == 0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_token_is_refused_by_name_while_training_goes_on() {
    let Some(database) = a_database() else { return };
    let projects = Projects::new();
    let hub = Sidecar::start(&projects.of_hub(&database));
    let data = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let tokens = [projects.token("vision"), projects.token("forged")];
    let hosts = [0, 1].map(|host: usize| {
        sidecar(&format!("http://{}", hub.grpc), data[host].path(), &["--upstream-token-file", text(&tokens[host])])
    });
    let mut ranks = ranks(&[&hosts[0], &hosts[1]], 1, 0).await;
    // Both sidecars accept it; the hub has the part of one.
    passes(&mut ranks, 1).await;
    until("a part is sent", || upstream(&hosts[0])["parts_sent"] == 1).await;
    let why = || upstream(&hosts[1])["why"].as_str().unwrap_or_default().to_owned();
    until("it says why", || why().contains("token")).await;
    assert!(metric(&Projects::get(&hub, "/metrics"), "conceptwatch_tokens_refused_total", "port=\"grpc\"") > 0.0);
    assert_eq!(upstream(&hosts[1])["parts_sent"], 0);
    passes(&mut ranks, 2).await;
    // The file is read again for each connection.
    write_secret(&tokens[1], "the-token-of-vision");
    for (step, expected) in (1..3).zip(of_one_process(1..3).await) {
        assert!(all(&settled(&mut ranks, step).await, Outcome::Point));
        for rank in &mut ranks {
            assert_same(&point(&mut rank.client, "r", "val", step).await, &expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_with_the_token_of_another_project_are_no_part_of_the_run() {
    let Some(database) = a_database() else { return };
    let projects = Projects::new();
    let deadline = ["--pass-deadline", "2"];
    let options = projects.of_hub(&database);
    let hub = Sidecar::start(&[&options[..], &deadline].concat());
    let data = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let tokens = [projects.token("vision"), projects.token("audio")];
    let hosts = [0, 1].map(|host: usize| {
        sidecar(&format!("http://{}", hub.grpc), data[host].path(), &["--upstream-token-file", text(&tokens[host])])
    });
    let mut ranks = ranks(&[&hosts[0], &hosts[1]], 1, 0).await;
    passes(&mut ranks, 1).await;
    // Each is incomplete on its own: rows of two projects never form one point.
    assert!(all(&settled(&mut ranks, 1).await, Outcome::Incomplete));
    let mut listed = Vec::new();
    for (host, rank) in ranks.iter_mut().enumerate() {
        let found = point(&mut rank.client, "r", "val", 1).await;
        assert_eq!((found.incomplete, found.rows_seen), (true, super::ROWS / 2), "host {host}");
    }
    let runs: Value = serde_json::from_str(&Projects::get(&hub, "/api/v1/runs")).unwrap();
    listed.extend(runs["runs"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap().to_owned()));
    listed.sort();
    assert_eq!(listed, ["r", "r-2"]);
}
