//! Runs whose ranks are on several hosts. Each sidecar sends the hub its part of a pass, and the hub tells all of them the
//! point; it reaches clients, rules and the page as if it had been computed here.
//!
//! Each attempt is classified by the ranks that have declared themselves here. If all have, it is not spread, and its
//! passes close here; if some are missing [`GRACE`] after the newest declaration, the hub closes them. Launchers tell
//! how many processes they start on a host, but not how many sidecars there are: a sidecar may serve several hosts. The
//! history remembers the declared ranks, so a restart of the sidecar changes nothing. A wrong guess costs bytes: a part
//! with the late rank replaces the part without it, and where nothing was sent yet, passes close here again.

mod attempt;
mod courier;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::history::{Sqlite, StoredRank};
use crate::lock::lock;
use crate::sample::Attempt;
use crate::server::advice::{Decision, Missed};
use crate::server::grpc::hub::client::Unanswered;
use crate::server::grpc::proto::StartRunRequest;
use crate::server::runs::Running;
use crate::step::Rank;

use super::hubs::{Hubs, Line, blocking};
use super::reach::Reach;
use attempt::{Ends, Followed};
use courier::Courier;

pub use attempt::SpreadParts;

/// Time after the newest declaration within which the other ranks of a host declare themselves. A launcher starts its ranks
/// together, and no pass ends this early.
const GRACE: Duration = Duration::from_secs(2);

/// Part of the time for which a rank waits for advice that is left for the round trip to the hub.
const WAY: Duration = Duration::from_secs(1);

/// All attempts that may have ranks on other hosts.
pub struct Spread {
    ends: Arc<Ends>,
    followed: Mutex<BTreeMap<Key, Arc<Followed>>>,
}

type Key = (Arc<str>, Attempt);

impl Spread {
    pub fn new(hubs: Arc<Hubs>, history: Arc<Sqlite>, reach: Arc<Reach>, parts: SpreadParts) -> Self {
        Self { ends: Arc::new(Ends { hubs, history, reach, parts }), followed: Mutex::default() }
    }

    /// A rank of a named launch has declared a run here. `start` is its declaration, `known` all ranks that the history
    /// knows of the run.
    pub fn declared(
        self: &Arc<Self>,
        running: &Arc<Running>,
        start: &StartRunRequest,
        attempt: Attempt,
        known: &[StoredRank],
    ) {
        let world_size = start.run.as_ref().map_or(1, |run| run.world_size);
        let here = known.iter().filter(|known| known.attempt == attempt).count();
        let mut followed = lock(&self.followed);
        let key = (Arc::clone(&running.name), attempt);
        match followed.get(&key).filter(|followed| Arc::ptr_eq(&followed.running, running)) {
            Some(followed) => followed.declared(start, known),
            None if here >= world_size as usize => {}
            None => {
                let new = Arc::new(Followed::new(Arc::clone(running), attempt, world_size, start.clone()));
                new.declared(start, known);
                followed.insert(key.clone(), Arc::clone(&new));
                tokio::spawn(Arc::clone(self).follow(key, new));
            }
        }
    }

    /// A rank has finished. Returns whether it was the last one here of an attempt that has ranks elsewhere.
    pub fn finished(&self, run: &str, attempt: Attempt, rank: Rank) -> bool {
        self.of(run, attempt).is_some_and(|followed| followed.finished(rank))
    }

    /// The advice of the hub; `None` where it is given here because the attempt has no ranks elsewhere. The first answer for
    /// an attempt and a step is kept, even if it is only that no hub has answered by the deadline.
    /// What was missed at the `unanswered` steps comes with it, where a hub answers.
    pub async fn advice(
        &self,
        run: &Arc<str>,
        attempt: Attempt,
        step: u64,
        unanswered: &[u64],
        deadline: Instant,
    ) -> Option<(Decision, Option<Missed>)> {
        let followed = self.of(run, attempt)?;
        let Ends { hubs, parts, .. } = &*self.ends;
        let advice = &parts.publisher.advice;
        if let Some(given) = advice.given(run, attempt, step).filter(|_| unanswered.is_empty()) {
            return Some((given, None));
        }
        let mut place = followed.place.subscribe();
        // This call does not keep it alive: its task ends when all ranks turn out to be here.
        drop(followed);
        let mut why = "the hub does not know the run yet".to_owned();
        let placed = match timeout_at(deadline, place.wait_for(Option::is_some)).await {
            Ok(Ok(placed)) => placed.clone(),
            Ok(Err(_)) => return None,
            Err(_) => None,
        };
        if let Some((source, place)) = placed {
            let mut line = Line::new(hubs);
            let asking = async {
                loop {
                    let left = deadline.saturating_duration_since(Instant::now());
                    let wait = left.saturating_sub(WAY.min(left / 4));
                    let asked = line.ask(left, async |mut hub| {
                        hub.advice(&source, &place, step, unanswered.to_vec(), Vec::new(), wait).await
                    });
                    match asked.await {
                        Ok(answer) => return answer,
                        Err(Unanswered { why: found, .. }) => why = found,
                    }
                }
            };
            if let Ok(answer) = timeout_at(deadline, asking).await {
                let (stop, reason, decided_by_step) = (answer.stop, answer.reason, answer.decided_by_step);
                let decision = Decision { stop, reason, decided_by_step, undecided: false };
                let missed = answer.missed_step.map(|step| Missed { step, reason: answer.missed_reason });
                return Some((advice.keep(run, attempt, step, decision), missed));
            }
        }
        let reason = format!("no advice yet: the hub did not answer in time ({why})");
        let undecided = Decision { stop: false, reason, decided_by_step: 0, undecided: true };
        Some((advice.keep(run, attempt, step, undecided), None))
    }

    fn of(&self, run: &str, attempt: Attempt) -> Option<Arc<Followed>> {
        lock(&self.followed).get(&(Arc::from(run), attempt)).cloned()
    }

    /// Follows an attempt until it is over, or until all its ranks are here.
    async fn follow(self: Arc<Self>, key: Key, of: Arc<Followed>) {
        tokio::select! {
            () = self.carry(&of) => {}
            () = self.ends.parts.stop.cancelled() => {}
        }
        let mut followed = lock(&self.followed);
        if followed.get(&key).is_some_and(|known| Arc::ptr_eq(known, &of)) {
            followed.remove(&key);
        }
    }

    async fn carry(&self, of: &Arc<Followed>) {
        let Ends { parts, .. } = &*self.ends;
        if !self.is_spread(of).await {
            return;
        }
        parts.runs.share(&of.running, of.attempt, Arc::clone(&of.wake));
        self.ends.note(of, true).await;
        tracing::info!(run = %of.running.name, ranks = of.world_size, "a run has ranks on other hosts");
        if Courier::new(&self.ends, of).run().await {
            return;
        }
        tracing::info!(run = %of.running.name, "all ranks of the run send to this sidecar after all");
        parts.runs.share_no_longer(&of.running, of.attempt);
        self.ends.note(of, false).await;
    }

    /// Whether an attempt has ranks elsewhere.
    async fn is_spread(&self, of: &Followed) -> bool {
        let (history, run, attempt) = (Arc::clone(&self.ends.history), Arc::clone(&of.running.name), of.attempt);
        // Decided by an earlier process.
        let known = blocking(move || history.is_shared(&run, attempt)).await.unwrap_or_default();
        loop {
            let left = GRACE.saturating_sub(of.age());
            if of.is_complete() {
                return false;
            }
            if known || left.is_zero() {
                return true;
            }
            tokio::select! {
                () = sleep(left) => {}
                () = of.wake.notified() => {}
            }
        }
    }
}
