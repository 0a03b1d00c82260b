//! Carries the passes of one attempt to the hub, and their points back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use crate::history::{Ending, Store};
use crate::point::Point;
use crate::run::SplitKey;
use crate::sample::{Evaluation, Part, Sample};
use crate::score::catalogue::Cost;
use crate::server::clock::unix_time;
use crate::server::grpc::hub::client::{Failure, PartOf, PassName, Place, State, Taken, Unanswered};
use crate::server::live::Event;
use crate::server::runs::SharedPass;
use crate::server::settlement::Pass;
use crate::step::{Rank, Step};

use super::attempt::{Ends, Followed};
use crate::server::upstream::hubs::{Line, blocking};

/// How long an answer may take, and one with a part.
const ANSWERING: Duration = Duration::from_secs(30);
const SENDING: Duration = Duration::from_secs(120);
/// How long the hub is asked to wait for the end of a pass.
const LONG_POLL: Duration = Duration::from_secs(20);
/// Passes per request: the answer has their points.
const ASKED: usize = 16;
/// Interval at which deadlines are checked.
const TICK: Duration = Duration::from_millis(500);
/// Interval at which the hub is asked for slow scores, and how long they may take.
const LATE: Duration = Duration::from_secs(2);
const LATEST: Duration = Duration::from_secs(3600);
/// Maximum number of evaluations, the newest, that slow scores can still join.
const MOST_LATE: usize = 64;
/// A pass that no hub settles is given up after this many times the deadline of passes: by default after an hour.
const PATIENCE: u32 = 30;

/// What the hub has of the passes of an attempt.
pub struct Courier<'a> {
    ends: &'a Ends,
    of: &'a Followed,
    line: Line<'a>,
    place: Option<(String, Place)>,
    /// Ranks here that the hub has placed there.
    placed: BTreeSet<Rank>,
    /// Open passes of which the hub has a part.
    sent: BTreeMap<PassName, Sent>,
    /// Evaluations whose points slow scores can join.
    late: BTreeMap<PassName, Late>,
    /// Where the parts of each split are cut.
    cutoffs: BTreeMap<String, Option<u64>>,
    late_asked: Instant,
    /// As counted in the metric.
    waiting: u64,
    /// The hub has had a part of the attempt.
    has_sent: bool,
    /// All ranks here have finished.
    is_over: bool,
    why: String,
}

struct Sent {
    key: SplitKey,
    step: Step,
    /// Ranks in the part.
    ended: usize,
    needs_whole: bool,
}

struct Late {
    evaluation: Evaluation,
    point: Arc<Point>,
    since: Instant,
}

/// What happened while there was nothing to send.
enum Woken {
    Here,
    States(Vec<PassName>, Result<Vec<State>, Unanswered>),
    Late,
}

impl Ends {
    /// Records durably whether an attempt is shared. Until that is written, nothing of the attempt is sent twice: what
    /// cannot be written is not sent.
    pub async fn note(&self, of: &Followed, shared: bool) {
        loop {
            let (history, run, attempt) = (Arc::clone(&self.history), Arc::clone(&of.running.name), of.attempt);
            match blocking(move || history.share(&run, attempt, shared)).await {
                Ok(()) => return,
                Err(why) => tracing::warn!(why, "a run over several hosts could not be recorded as one"),
            }
            sleep(LATE).await;
        }
    }
}

impl<'a> Courier<'a> {
    pub fn new(ends: &'a Ends, of: &'a Followed) -> Self {
        let (placed, sent, late, cutoffs, waiting, why) = Default::default();
        let (place, has_sent, is_over, late_asked) = (None, false, false, Instant::now());
        let line = Line::new(&ends.hubs);
        Self { ends, of, line, place, placed, sent, late, cutoffs, late_asked, waiting, has_sent, is_over, why }
    }

    /// Returns once the attempt is over; `false` if all its ranks are here and the hub has nothing of it.
    pub async fn run(mut self) -> bool {
        let runs = Arc::clone(&self.ends.parts.runs);
        let (running, attempt) = (Arc::clone(&self.of.running), self.of.attempt);
        loop {
            if self.of.is_complete() && !self.has_sent {
                self.count(0);
                return false;
            }
            self.declare().await;
            let sending = self.of.sending();
            // The run is over here, or was removed: only slow scores may still come.
            let mut open = runs.shared_passes(&running, attempt, &sending).unwrap_or_default();
            open.retain(|pass| !self.give_up(pass));
            self.sent.retain(|name, _| open.iter().any(|pass| name_of(pass) == *name));
            self.count(open.len());
            if let Some(pass) = open.iter().find(|pass| self.is_due(pass)).filter(|_| self.place.is_some()) {
                self.send(pass).await;
                continue;
            }
            if open.is_empty() && sending.is_empty() && !self.is_over {
                self.is_over = true;
                self.finish().await;
            }
            self.late.retain(|_, late| late.since.elapsed() < LATEST);
            let is_replaced = runs.is_replaced(&running, attempt) || runs.find(&running.name).is_err();
            if open.is_empty() && self.late.is_empty() && (self.is_over || is_replaced) {
                return true;
            }
            self.wait().await;
        }
    }

    /// Waits for something to do, and asks the hub meanwhile.
    async fn wait(&mut self) {
        let asked: Vec<PassName> = self.sent.keys().take(ASKED).cloned().collect();
        let late = LATE.saturating_sub(self.late_asked.elapsed());
        let place = self.place.clone();
        let woken = tokio::select! {
            () = self.of.wake.notified() => Woken::Here,
            () = sleep(TICK) , if asked.is_empty() => Woken::Here,
            () = sleep(late), if !self.late.is_empty() => Woken::Late,
            (names, states) = ask(&mut self.line, &place, asked.clone(), LONG_POLL), if !asked.is_empty() => {
                Woken::States(names, states)
            }
        };
        match woken {
            Woken::Here => {}
            Woken::Late => self.look_for_late().await,
            Woken::States(names, Ok(states)) => {
                for (name, state) in names.into_iter().zip(states) {
                    self.learn(name, state).await;
                }
            }
            Woken::States(_, Err(unanswered)) => self.failed(unanswered),
        }
    }

    /// Declares the ranks here that the hub does not know yet, and learns its names of the run and the attempt.
    async fn declare(&mut self) {
        let declarations = self.of.declarations(&self.placed);
        if declarations.is_empty() {
            return;
        }
        let history = Arc::clone(&self.ends.history);
        let source = match blocking(move || history.outbox_source()).await {
            Ok(source) => source.id,
            Err(why) => return self.failed(Unanswered { failure: Failure::Unreachable { pause: None }, why }),
        };
        for (rank, start) in declarations {
            let (start, time) = (&start, unix_time());
            match self.line.ask(ANSWERING, async |mut hub| hub.declare(&source, start, time).await).await {
                Ok(place) => self.is_placed(rank, (source.clone(), place)),
                Err(unanswered) => {
                    self.failed(unanswered);
                    // A declaration that no hub takes, as where another run has its name.
                    sleep(TICK).await;
                    return;
                }
            }
        }
    }

    /// Notes where the hub has placed a rank. Those that it placed in another attempt before are declared again.
    fn is_placed(&mut self, rank: Rank, place: (String, Place)) {
        if self.place.as_ref() != Some(&place) {
            let (hub_run, attempt) = (&place.1.run, place.1.attempt);
            tracing::info!(run = %self.of.running.name, hub_run, ?attempt, "the hub knows the run over several hosts");
            self.of.place.send_replace(Some(place.clone()));
            self.place = Some(place);
            self.placed.clear();
            self.sent.clear();
        }
        self.placed.insert(rank);
    }

    /// Asks the hub for the attempt of the ranks here where it has a newer one than `before`. Returns whether they may
    /// belong to that, because the launcher has not replaced their processes.
    async fn joins_newer(&mut self, before: &Place) -> bool {
        let (runs, of) = (&self.ends.parts.runs, self.of);
        if !of.names_processes() || runs.is_replaced(&of.running, of.attempt) {
            return false;
        }
        self.placed.clear();
        self.declare().await;
        // Nothing is placed where no hub answers.
        self.placed.is_empty() || self.place.as_ref().is_some_and(|(_, place)| place.attempt > before.attempt)
    }

    /// Whether the hub lacks something of a pass that is here.
    fn is_due(&self, pass: &SharedPass) -> bool {
        // Half of the time that the hub waits for other hosts.
        let is_late = pass.age >= self.ends.parts.pass_deadline / 2;
        match self.sent.get(&name_of(pass)) {
            Some(sent) if sent.needs_whole => true,
            Some(sent) => pass.ended.len() > sent.ended && (pass.is_whole || is_late),
            None => pass.is_whole || is_late,
        }
    }

    async fn send(&mut self, pass: &SharedPass) {
        let Some((source, place)) = self.place.clone() else { return };
        let (name, of) = (name_of(pass), self.pass(&pass.key, pass.pass.step));
        let needs_whole = self.sent.get(&name).is_some_and(|sent| sent.needs_whole);
        let cutoff = self.cutoffs.get(&name.split).copied().flatten().filter(|_| !needs_whole);
        let (runs, running, taking) = (Arc::clone(&self.ends.parts.runs), Arc::clone(&self.of.running), of.clone());
        let taken = move || {
            let part = runs.part(&running, &taking, cutoff)?;
            Some((Bytes::from(part.to_bytes()), part))
        };
        let Ok(Some((body, part))) = tokio::task::spawn_blocking(taken).await else { return };
        let (bytes, head) = (body.len(), head_of(&name, &part));
        drop(part);
        let ended = head.ended.len();
        let answer = self.line.ask(SENDING, async |mut hub| hub.send_part(&source, &place, &head, body).await).await;
        let parts = self.ends.reach.parts();
        match answer {
            Ok(Taken { is_stale: true, .. }) if self.joins_newer(&place).await => {}
            Ok(Taken { is_stale: true, .. }) => {
                self.abandon(&of, Ending::Discarded, "a newer attempt of the run began");
            }
            Ok(Taken { cutoff, .. }) => {
                parts.sent.fetch_add(1, Relaxed);
                parts.bytes.fetch_add(bytes as u64, Relaxed);
                self.why.clear();
                self.has_sent = true;
                self.cutoffs.insert(name.split.clone(), cutoff);
                let key = pass.key.clone();
                self.sent.insert(name, Sent { key, step: pass.pass.step, ended, needs_whole: false });
            }
            Err(Unanswered { failure: Failure::Unfit, why }) => {
                parts.refused.fetch_add(1, Relaxed);
                tracing::error!(run = %pass.key.run, step = %pass.pass, why, "the hub permanently refuses a part of a pass");
                self.abandon(&of, Ending::Failed, &format!("the hub refuses its part: {why}"));
            }
            Err(unanswered) => self.failed(unanswered),
        }
    }

    /// Applies the hub's answer about a pass.
    async fn learn(&mut self, name: PassName, state: State) {
        let Some(sent) = self.sent.get_mut(&name) else { return };
        let (key, step) = (sent.key.clone(), sent.step);
        match state {
            State::Open => {}
            State::NeedsWhole => sent.needs_whole = true,
            State::Unscored { ending, reason } => {
                self.sent.remove(&name);
                let pass = self.pass(&key, step);
                let unfinished = self.ends.parts.runs.settle_shared(&self.of.running, &pass);
                let evaluation = self.evaluation(&pass, unfinished.map_or(0, |pass| pass.rows), None);
                let publisher = self.ends.parts.publisher.clone();
                // Fails only if it panics.
                let _ = tokio::task::spawn_blocking(move || publisher.pass_over(&evaluation, ending, &reason)).await;
            }
            State::Settled { point, is_final, lacks, cutoff } => {
                self.sent.remove(&name);
                self.cutoffs.insert(name.split.clone(), cutoff);
                let pass = self.pass(&key, step);
                let evaluation = self.evaluation(&pass, point.rows_seen, point.epoch);
                let point = Arc::new(here(*point, &key));
                // First, so that an end that comes from now on finds how the pass was settled.
                self.ends.parts.runs.settle_shared(&self.of.running, &pass);
                let (publisher, published) = (self.ends.parts.publisher.clone(), Arc::clone(&point));
                let publishing = move || {
                    let on_curve = publisher.publish_lacking(&evaluation, &published, true, lacks);
                    if on_curve && is_final {
                        publisher.board.close(&evaluation, Cost::Slow);
                    }
                    (evaluation, on_curve && !is_final)
                };
                let Ok((evaluation, may_join)) = tokio::task::spawn_blocking(publishing).await else { return };
                if may_join {
                    self.late.insert(name, Late { evaluation, point, since: Instant::now() });
                    if self.late.len() > MOST_LATE {
                        self.late.pop_first();
                    }
                }
            }
        }
    }

    /// Asks whether slow scores have joined the points of evaluations.
    async fn look_for_late(&mut self) {
        self.late_asked = Instant::now();
        let names: Vec<PassName> = self.late.keys().rev().take(ASKED).cloned().collect();
        let (names, states) = ask(&mut self.line, &self.place, names, Duration::ZERO).await;
        let states = match states {
            Ok(states) => states,
            Err(unanswered) => return self.failed(unanswered),
        };
        for (name, state) in names.into_iter().zip(states) {
            let State::Settled { point, is_final: true, .. } = state else { continue };
            let Some(Late { evaluation, point: before, .. }) = self.late.remove(&name) else { continue };
            let whole = Arc::new(here(*point, &evaluation.key));
            let publisher = self.ends.parts.publisher.clone();
            let publishing = move || match whole.scores == before.scores {
                true => publisher.board.close(&evaluation, Cost::Slow),
                false => drop(publisher.publish_joined(&evaluation, &before, Cost::Slow, &whole)),
            };
            let _ = tokio::task::spawn_blocking(publishing).await;
        }
    }

    /// Whether a pass was given up because no hub has settled it, or the hub would take it for the first one of its step.
    fn give_up(&mut self, pass: &SharedPass) -> bool {
        let of = Pass { key: pass.key.clone(), attempt: self.of.attempt, at: pass.pass };
        if !pass.pass.ordinal.is_first() {
            self.abandon(&of, Ending::Failed, "over several sidecars the first evaluation of a step counts");
            return true;
        }
        let patience = self.ends.parts.pass_deadline.saturating_mul(PATIENCE);
        if pass.age < patience {
            return false;
        }
        self.ends.reach.parts().lost.fetch_add(1, Relaxed);
        let seconds = patience.as_secs_f64();
        let why = if self.why.is_empty() { "other hosts are missing" } else { &self.why };
        let reason = format!("no hub settled the pass within {seconds} s: {why}");
        self.abandon(&of, Ending::Failed, &reason);
        true
    }

    fn abandon(&self, pass: &Pass, ending: Ending, reason: &str) {
        self.ends.parts.runs.abandon_shared(&self.of.running, pass, ending, reason);
    }

    /// All ranks here have finished: the run ends here, whatever others do.
    async fn finish(&self) {
        let running = &self.of.running;
        let parts = &self.ends.parts;
        if !parts.runs.finish_shared(running, self.of.attempt) {
            return;
        }
        let (history, windows, name) =
            (Arc::clone(&self.ends.history), parts.windows.clone(), Arc::clone(&running.name));
        let finishing = move || {
            windows.remove(&name);
            Store::finish_run(&*history, &name, unix_time())
        };
        if let Err(why) = blocking(finishing).await {
            tracing::error!(run = %running.name, why, "the end of a run could not be recorded");
        }
        tracing::info!(run = %running.name, "the ranks of a run at this sidecar have finished");
        parts.publisher.board.finish(&running.name);
        parts.publisher.advice.finish(&running.name, unix_time());
        parts.publisher.events.send(Event::Run(Arc::clone(&running.name)));
    }

    fn failed(&mut self, Unanswered { failure, why }: Unanswered) {
        if self.why != why {
            tracing::warn!(run = %self.of.running.name, why, "the hub cannot be asked for passes over several hosts");
        }
        if failure == Failure::Refused {
            // The run may have been removed there.
            self.place = None;
        }
        self.why = why;
    }

    fn count(&mut self, waiting: usize) {
        let gauge = &self.ends.reach.parts().waiting;
        gauge.fetch_add(waiting as u64, Relaxed);
        gauge.fetch_sub(std::mem::replace(&mut self.waiting, waiting as u64), Relaxed);
    }

    fn pass(&self, key: &SplitKey, step: Step) -> Pass {
        Pass { key: key.clone(), attempt: self.of.attempt, at: step.into() }
    }

    /// The evaluation, whose rows are at the hub.
    fn evaluation(&self, pass: &Pass, rows_seen: u64, epoch: Option<f64>) -> Evaluation {
        Evaluation {
            key: pass.key.clone(),
            run: Arc::clone(&self.of.running.run),
            attempt: pass.attempt,
            step: pass.at.step,
            ordinal: pass.at.ordinal,
            epoch: epoch.and_then(|epoch| crate::step::Epoch::new(epoch).ok()),
            time: unix_time(),
            sample: Sample::default(),
            rows_seen,
            duplicates: 0,
            repeated_rows: 0,
            repeated_ids: 0,
            provisional: false,
            ranks_missing: 0,
            rows_missing: 0,
            backlog: false,
            held_back: 0,
        }
    }
}

impl Drop for Courier<'_> {
    fn drop(&mut self) {
        self.count(0);
    }
}

/// Asks where passes stand.
async fn ask(
    line: &mut Line<'_>,
    place: &Option<(String, Place)>,
    names: Vec<PassName>,
    wait: Duration,
) -> (Vec<PassName>, Result<Vec<State>, Unanswered>) {
    let Some((source, place)) = place else {
        // Never while there is something to ask.
        return std::future::pending().await;
    };
    let asked = line.ask(wait + ANSWERING, async |mut hub| hub.passes(source, place, &names, wait).await).await;
    (names, asked)
}

fn name_of(pass: &SharedPass) -> PassName {
    PassName { split: pass.key.split.to_string(), step: pass.pass.step.get() }
}

fn head_of(name: &PassName, part: &Part) -> PartOf {
    PartOf {
        pass: name.clone(),
        world_size: part.world_size(),
        ended: part.ended().iter().map(|rank| rank.get()).collect(),
        cutoff: part.cutoff(),
    }
}

/// A point of the hub under the run's name here.
fn here(point: Point, key: &SplitKey) -> Point {
    Point { run: Arc::clone(&key.run), split: Arc::clone(&key.split), ..point }
}
