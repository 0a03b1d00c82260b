//! Advice for a step that a rank could not ask about: what others were told of it comes with its next answer.

use conceptwatch::server::proto::{GetAdviceRequest, GetAdviceResponse};

use super::{Rank, a_database, all, at, passes, ranks, settled, sidecar, text, until};
use crate::common::Sidecar;
use conceptwatch::server::proto::settled::Outcome;

/// Fires at the second pass and those that follow, whose samples have fewer rows.
const ALWAYS: &str =
    "[[alerts]]\nname = \"few\"\nfew_rows = 100000\nevaluations = 2\nadvise_stop = true\nseverity = \"critical\"\n";

/// A question of a rank that got no answer for some steps.
async fn ask(rank: &mut Rank, step: u64, unanswered_steps: &[u64]) -> GetAdviceResponse {
    let request = GetAdviceRequest {
        run: "r".into(),
        step,
        timeout_seconds: 10.0,
        client: rank.name.clone(),
        unanswered_steps: unanswered_steps.to_vec(),
    };
    rank.client.get_advice(request).await.unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rank_whose_sidecar_died_learns_what_others_were_told() {
    let Some(database) = a_database() else { return };
    let data = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let rules = data[2].path().join("rules.toml");
    std::fs::write(&rules, ALWAYS).unwrap();
    let hub = Sidecar::start(&["--store", &database, "--workers", "1", "--config", text(&rules)]);
    let mut hosts = [0, 1].map(|host: usize| Some(sidecar(&at(&hub), data[host].path(), &[])));
    let mut ranks = {
        let [one, two] = hosts.each_ref().map(|host| host.as_ref().unwrap());
        ranks(&[one, two], 1, 0).await
    };
    for step in 1..3 {
        passes(&mut ranks, step).await;
        assert!(all(&settled(&mut ranks, step).await, Outcome::Point));
    }
    for rank in &mut ranks {
        let answer = ask(rank, 1, &[]).await;
        assert!(!answer.undecided && answer.missed_step.is_none(), "{answer:?}");
    }
    // One asks; the sidecar of the other is dead.
    hosts[1] = None;
    let told = ask(&mut ranks[0], 2, &[]).await;
    assert!(told.stop, "{told:?}");
    let again = sidecar(&at(&hub), data[1].path(), &[]);
    let mut returned = Rank::join(&again, 1, 2, 0).await;
    let answer = ask(&mut returned, 3, &[0, 1, 2]).await;
    assert_eq!((answer.missed_step, &answer.missed_reason), (Some(2), &told.reason), "{answer:?}");
    // What its sidecar has already answered is asked for again, too; the answer itself does not change.
    let repeated = ask(&mut returned, 3, &[2]).await;
    assert_eq!(repeated, answer);
    assert_eq!(ask(&mut returned, 3, &[0]).await.missed_step, None);
    // Another attempt has missed nothing.
    let mut newer = Rank::join(&again, 1, 2, 1).await;
    assert_eq!(ask(&mut newer, 3, &[1, 2]).await.missed_step, None);
    drop(hosts);
    drop(again);
    drop(hub);
    // Without a hub nobody knows what the other host is told.
    let alone = sidecar("http://127.0.0.1:9", data[1].path(), &[]);
    let mut rank = Rank::join(&alone, 1, 2, 2).await;
    until("ranks are elsewhere", || std::fs::read_to_string(alone.log()).unwrap().contains("has ranks on other hosts"))
        .await;
    let request = GetAdviceRequest { run: "r".into(), step: 3, client: rank.name.clone(), ..Default::default() };
    let answer = rank.client.get_advice(request).await.unwrap().into_inner();
    assert!(answer.undecided && !answer.stop, "{answer:?}");
}
