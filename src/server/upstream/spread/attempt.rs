//! What a sidecar knows of an attempt with ranks on several hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::history::{Sqlite, StoredRank};
use crate::lock::lock;
use crate::sample::Attempt;
use crate::server::grpc::hub::client::Place;
use crate::server::grpc::proto::StartRunRequest;
use crate::server::publish::Publisher;
use crate::server::runs::{Running, Runs};
use crate::server::upstream::hubs::Hubs;
use crate::server::upstream::reach::Reach;
use crate::server::windows::Windows;
use crate::step::Rank;

/// The parts of the sidecar between which passes and points go.
#[derive(Clone)]
pub struct SpreadParts {
    pub runs: Arc<Runs>,
    pub publisher: Publisher,
    pub windows: Windows,
    pub pass_deadline: Duration,
    /// Ends everything.
    pub stop: CancellationToken,
}

/// The hubs, and the parts of the sidecar.
pub struct Ends {
    pub hubs: Arc<Hubs>,
    pub history: Arc<Sqlite>,
    pub reach: Arc<Reach>,
    pub parts: SpreadParts,
}

/// An attempt of a named launch, at least one of whose ranks is here.
pub struct Followed {
    pub running: Arc<Running>,
    pub attempt: Attempt,
    pub world_size: u32,
    /// The declaration of a rank, under the name that its job asked for.
    start: StartRunRequest,
    ranks: Mutex<Ranks>,
    /// A rank has declared itself, ended a pass or finished.
    pub wake: Arc<Notify>,
    /// The hub's names of the attempt and of this sidecar; `None` until it has answered.
    pub place: watch::Sender<Option<(String, Place)>>,
}

struct Ranks {
    here: BTreeSet<Rank>,
    /// The client and the process of each rank that has declared itself to this process of the sidecar.
    senders: BTreeMap<Rank, (String, String)>,
    finished: BTreeSet<Rank>,
    /// When the newest of them declared itself.
    since: Instant,
}

impl Followed {
    pub fn new(running: Arc<Running>, attempt: Attempt, world_size: u32, start: StartRunRequest) -> Self {
        let (here, senders, finished) = Default::default();
        let ranks = Mutex::new(Ranks { here, senders, finished, since: Instant::now() });
        // The launcher of another host may count otherwise: see `restart_of`.
        let start = StartRunRequest { attempt: attempt.restart, ..start };
        Self { running, attempt, world_size, start, ranks, wake: Arc::default(), place: watch::Sender::new(None) }
    }

    /// Notes that a rank has declared itself, and the ranks that the history knows.
    pub fn declared(&self, start: &StartRunRequest, known: &[StoredRank]) {
        let mut ranks = lock(&self.ranks);
        if let Ok(rank) = Rank::of(start.rank, self.world_size) {
            ranks.senders.insert(rank, (start.client.clone(), start.process.clone()));
        }
        for known in known.iter().filter(|known| known.attempt == self.attempt) {
            let Ok(rank) = Rank::of(known.rank, self.world_size) else { continue };
            if ranks.here.insert(rank) {
                ranks.since = Instant::now();
            }
            match known.finished {
                true => ranks.finished.insert(rank),
                false => ranks.finished.remove(&rank),
            };
        }
        drop(ranks);
        self.wake.notify_one();
    }

    /// What each rank here has declared, but those `except`.
    pub fn declarations(&self, except: &BTreeSet<Rank>) -> BTreeMap<Rank, StartRunRequest> {
        let of = |(rank, (client, process)): (&Rank, &(String, String))| {
            let (client, process) = (client.clone(), process.clone());
            (*rank, StartRunRequest { rank: rank.get(), client, process, ..self.start.clone() })
        };
        lock(&self.ranks).senders.iter().filter(|(rank, _)| !except.contains(rank)).map(of).collect()
    }

    /// Whether the ranks name the processes that their launcher started.
    pub fn names_processes(&self) -> bool {
        !self.start.process.is_empty()
    }

    /// Notes that a rank has finished. Returns whether all ranks here have.
    pub fn finished(&self, rank: Rank) -> bool {
        let mut ranks = lock(&self.ranks);
        ranks.finished.insert(rank);
        let all = ranks.finished.is_superset(&ranks.here);
        drop(ranks);
        self.wake.notify_one();
        all
    }

    /// Whether every rank of the attempt is here.
    pub fn is_complete(&self) -> bool {
        lock(&self.ranks).here.len() == self.world_size as usize
    }

    /// Time since the newest rank here declared itself.
    pub fn age(&self) -> Duration {
        lock(&self.ranks).since.elapsed()
    }

    /// The ranks here that may still send.
    pub fn sending(&self) -> BTreeSet<Rank> {
        let ranks = lock(&self.ranks);
        ranks.here.difference(&ranks.finished).copied().collect()
    }
}
