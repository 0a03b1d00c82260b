//! Launchers whose agents count restarts each for itself, as those of torchrun do.

use conceptwatch::server::proto::settled::Outcome;

use crate::common::{Sidecar, until};
use crate::{
    Rank, a_database, all, assert_same, at, at_hub, hub, of_one_process, passes, point, settled, sidecar, upstream,
};

/// Two ranks on each host, of a start whose agents state these restarts. Those of the last host declare themselves first.
async fn started(hosts: &[&Sidecar], restarts: &[u32], start: &str) -> Vec<Rank> {
    let mut ranks = Vec::new();
    for (host, (sidecar, restart)) in hosts.iter().zip(restarts).enumerate().rev() {
        for local in 0..2 {
            let number = 2 * host as u32 + local;
            ranks.push(Rank::started(sidecar, number, 2 * hosts.len() as u64, *restart, start).await);
        }
    }
    ranks.sort_by_key(|rank| rank.number);
    ranks
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_of_hosts_that_count_restarts_differently_share_their_passes() {
    let Some(database) = a_database() else { return };
    let hubs = [hub(&database), hub(&database)];
    let data = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let hosts = [0, 1, 2].map(|host: usize| sidecar(&at(&hubs[host % 2]), data[host].path(), &[]));
    let expected = of_one_process(1..5).await;
    let mut first = started(&[&hosts[0], &hosts[1]], &[0, 0], "the first start").await;
    passes(&mut first, 1).await;
    assert!(all(&settled(&mut first, 1).await, Outcome::Point));
    // The workers of the second host fail within the pass. The agent of the first does not count that.
    first.iter_mut().for_each(|rank| rank.model = 1);
    passes(&mut first[..3], 2).await;
    first[3].send(2).await;
    until("a part is sent", || upstream(&hosts[0])["parts_sent"] == 2).await;
    let mut second = started(&[&hosts[0], &hosts[1]], &[0, 1], "the second start").await;
    passes(&mut second, 2).await;
    let outcomes = settled(&mut second, 2).await;
    assert!(all(&outcomes, Outcome::Point), "{outcomes:?}");
    // Another host takes the second one's place. Its agent begins to count.
    let mut third = started(&[&hosts[0], &hosts[2]], &[0, 0], "the third start").await;
    for step in [3, 4] {
        passes(&mut third, step).await;
        let outcomes = settled(&mut third, step).await;
        assert!(all(&outcomes, Outcome::Point), "{outcomes:?}");
        for rank in [0, 3] {
            assert_same(&point(&mut third[rank].client, "r", "val", step).await, &expected[step as usize - 1]);
        }
    }
    for rank in &mut third {
        rank.finish().await;
    }
    until("all is told", || [0, 2].iter().all(|host: &usize| upstream(&hosts[*host])["waiting"] == 0)).await;
    for hub in &hubs {
        assert_eq!(at_hub(hub).await, (4, true));
        for step in 1..5 {
            let found = point(&mut hub.client().await, "r", "val", step).await;
            assert_same(&found, &expected[step as usize - 1]);
            assert!(!found.incomplete);
        }
    }
}
