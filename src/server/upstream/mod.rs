//! Sends changes of the history, and what is judged of them, to a hub: `conceptwatch serve --upstream`.
//!
//! Changes note themselves in the history's outbox. A task of its own sends them in order and forgets what the hub has
//! applied; nothing waits for it. [`pump`] decides when to send, to which hub, and how much.

mod hubs;
mod judged;
mod pump;
mod reach;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::history::{Change, HistoryError, Numbered, Parcel, Source, Sqlite, Store};
use leakage::field_error::FieldError;
use leakage::point::Point;

use super::events::Events;
use super::grpc::hub::client::{Failure, HubCalls, Unanswered};
use super::grpc::hub::proto::Refused;
use super::live::{Live, UpstreamStatus};

use hubs::{blocking, jitter};
use judged::{Judged, Verdicts};
use pump::{Next, Pump, Settled};

pub use hubs::{Hubs, UpstreamOptions};
pub use reach::Reach;

/// Interval at which the outbox is read while nothing waits in it.
const POLL: Duration = Duration::from_millis(250);
/// Interval of calls to a hub while there is nothing to send, to see whether it can be reached.
const GREETING: Duration = Duration::from_secs(15);
/// How long an answer may take.
const ANSWERING: Duration = Duration::from_secs(30);
/// Bytes of a point above which it is sent without its matrices: a hub takes messages of 16 MiB.
const LARGEST: usize = 15 << 20;

/// The sender of changes to a hub.
pub struct Upstream {
    hubs: Arc<Hubs>,
    history: Arc<Sqlite>,
    reach: Arc<Reach>,
    source: String,
    pump: Pump,
    calls: Option<(usize, HubCalls)>,
    answered: Instant,
    /// The entry to send without its matrices.
    slim: Option<u64>,
    /// Absent where no sidecar is at work.
    judged: Option<Judged>,
}

/// The outcome of a step.
#[derive(PartialEq, Eq)]
enum Step {
    Done,
    /// There is nothing to send, or it cannot be read at the moment.
    Idle,
}

impl Upstream {
    /// Creates the outbox if there is none. Blocks.
    pub fn new(hubs: Hubs, history: Arc<Sqlite>) -> Result<Self, HistoryError> {
        history.begin_outbox()?;
        let Source { id, newest } = history.outbox_source()?;
        Ok(Self {
            pump: Pump::new(hubs.count(), newest),
            source: id,
            reach: Arc::new(Reach::new(hubs.address(0), Arc::clone(&history))),
            answered: Instant::now(),
            calls: None,
            slim: None,
            judged: None,
            hubs: Arc::new(hubs),
            history,
        })
    }

    pub fn reach(&self) -> Arc<Reach> {
        Arc::clone(&self.reach)
    }

    /// From now on also sends what the sidecar judges.
    pub fn judge(&mut self, live: Arc<dyn Live>, events: &Events, verdicts: Verdicts) {
        self.judged = Some(Judged::new(live, events, verdicts));
    }

    /// Sends until `stop`, and then what is left, unless no hub can be reached.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            match self.pump.next() {
                Next::Wait(_) if stop.is_cancelled() => return self.note_judged().await,
                Next::Wait(pause) => drop(stop.run_until_cancelled(sleep(pause)).await),
                Next::Now { hub } => {
                    if self.step(hub).await == Step::Idle {
                        if stop.is_cancelled() {
                            return;
                        }
                        stop.run_until_cancelled(sleep(POLL)).await;
                    }
                }
            }
        }
    }

    async fn note_judged(&mut self) {
        if let Some(judged) = &mut self.judged {
            judged.note(&self.history).await;
        }
    }

    /// Connects, greets, or sends one request.
    async fn step(&mut self, hub: usize) -> Step {
        self.note_judged().await;
        // Changes that are not durable here are not sent.
        if self.history.waiting().why.is_some() {
            return Step::Idle;
        }
        if self.calls.as_ref().is_none_or(|(connected, _)| *connected != hub) {
            return self.connect(hub).await;
        }
        let bytes = self.pump.bytes();
        let read = self.outbox("read", move |history| history.parcel(bytes)).await;
        let Some(Parcel { entries, unreadable }) = read else { return Step::Idle };
        if !unreadable.is_empty() {
            unreadable.iter().for_each(|number| self.reach.given_up(*number, "what it refers to is damaged"));
            return self.forget(0, unreadable).await;
        }
        match entries.is_empty() {
            true if self.answered.elapsed() < GREETING => Step::Idle,
            true => {
                self.greet(hub).await;
                Step::Idle
            }
            false => self.send(hub, entries).await,
        }
    }

    /// Makes a call to the outbox, which is to be read or written; `None` where that fails.
    async fn outbox<T: Send + 'static>(
        &self,
        to_be: &'static str,
        call: impl FnOnce(&Sqlite) -> Result<T, HistoryError> + Send + 'static,
    ) -> Option<T> {
        let history = Arc::clone(&self.history);
        let made = blocking(move || call(&history)).await;
        made.inspect_err(|why| tracing::error!(why, "the outbox cannot be {to_be}")).ok()
    }

    /// Connects and asks what the hub has, which also tells whether it takes this sidecar.
    async fn connect(&mut self, hub: usize) -> Step {
        let Some(source) = self.outbox("read", Sqlite::outbox_source).await else { return Step::Idle };
        // It differs where the history was created only when the disk had room.
        self.source = source.id;
        match self.hubs.connect(hub).await {
            Ok(calls) => {
                self.calls = Some((hub, calls));
                self.greet(hub).await
            }
            Err(unanswered) => self.fail(hub, unanswered),
        }
    }

    async fn greet(&mut self, hub: usize) -> Step {
        match self.call(&[]).await {
            Ok((applied, _)) => self.answer(hub, applied, None).await,
            // No entry is at fault.
            Err(Unanswered { failure: Failure::Unfit, why }) => {
                self.fail(hub, Unanswered { failure: Failure::Refused, why })
            }
            Err(unanswered) => self.fail(hub, unanswered),
        }
    }

    /// Sends entries, at least one.
    async fn send(&mut self, hub: usize, mut entries: Vec<Numbered>) -> Step {
        let (first, last) = (entries[0].number, entries[entries.len() - 1].number);
        for Numbered { number, change } in &mut entries {
            if let Change::Point(point, _) | Change::Late(point, _) = change
                && (self.slim == Some(*number) || point.bytes() > LARGEST)
            {
                **point = point.without_matrices();
            }
        }
        self.pump.sends(last);
        match self.call(&entries).await {
            Ok((applied, refused)) => {
                let answered = entries.iter().filter(|entry| entry.number <= applied).count();
                self.reach.sent(answered.saturating_sub(refused.len()) as u64);
                for Refused { number, field, message } in refused {
                    self.reach.refused(number, &field, &message);
                }
                self.answer(hub, applied, Some((first, last))).await
            }
            Err(Unanswered { failure: Failure::Unfit, why }) => match &entries[..] {
                [Numbered { change: Change::Point(point, _) | Change::Late(point, _), .. }] if has_matrices(point) => {
                    tracing::warn!(number = first, why, "the hub does not take a point: it is sent without matrices");
                    self.slim = Some(first);
                    Step::Done
                }
                [_] => {
                    self.reach.given_up(first, &why);
                    self.forget(0, vec![first]).await
                }
                _ => {
                    self.pump.failed(&Failure::Unfit, jitter());
                    Step::Done
                }
            },
            Err(unanswered) => self.fail(hub, unanswered),
        }
    }

    async fn call(&mut self, entries: &[Numbered]) -> Result<(u64, Vec<Refused>), Unanswered> {
        let late = || Err(Unanswered::late(ANSWERING));
        let Some((_, calls)) = &mut self.calls else { return late() };
        timeout(ANSWERING, calls.push(&self.source, entries)).await.unwrap_or_else(|_| late())
    }

    async fn answer(&mut self, hub: usize, applied: u64, sent: Option<(u64, u64)>) -> Step {
        let address = self.hubs.address(hub);
        let settled = self.pump.answered(applied, sent, jitter());
        if settled != Settled::Nothing {
            self.reach.answered(&address);
            self.answered = Instant::now();
        }
        match settled {
            Settled::UpTo(number) => self.forget(number, Vec::new()).await,
            Settled::Behind(number) => {
                tracing::warn!(
                    number,
                    "the hub has more of this history than the history knows: it is a copy of one that went on"
                );
                if self.outbox("written", move |history| history.renumber_entries(number)).await.is_none() {
                    // Greets again, so that no entry is sent under an old number.
                    self.calls = None;
                    return Step::Idle;
                }
                self.pump.sends(number);
                Step::Done
            }
            Settled::Nothing => {
                self.calls = None;
                self.reach.failed(&address, "the hub applied nothing of what it was sent".to_owned());
                Step::Done
            }
        }
    }

    /// Forgets the entries up to a number, and others. Where that cannot be written, they are sent again.
    async fn forget(&mut self, up_to: u64, others: Vec<u64>) -> Step {
        let history = Arc::clone(&self.history);
        match blocking(move || history.forget_entries(up_to, &others)).await {
            Ok(()) => Step::Done,
            Err(why) => {
                tracing::warn!(why, "the outbox cannot be written");
                Step::Idle
            }
        }
    }

    fn fail(&mut self, hub: usize, unanswered: Unanswered) -> Step {
        self.calls = None;
        self.reach.failed(&self.hubs.address(hub), unanswered.why);
        self.pump.failed(&unanswered.failure, jitter());
        Step::Done
    }
}

/// Sends what waits in the outbox of a history, unless no hub can be reached. Returns how the hub stands then.
pub async fn push(options: UpstreamOptions, history: Arc<Sqlite>) -> Result<UpstreamStatus, HistoryError> {
    let invalid = |fault: FieldError| HistoryError::Invalid { field: fault.field, message: fault.message };
    let upstream = Upstream::new(Hubs::new(options).map_err(invalid)?, history)?;
    let (reach, stop) = (upstream.reach(), CancellationToken::new());
    stop.cancel();
    upstream.run(stop).await;
    Ok(reach.status())
}

fn has_matrices(point: &Point) -> bool {
    point.scores.iter().any(|(_, outcome)| outcome.matrix().is_some())
}
