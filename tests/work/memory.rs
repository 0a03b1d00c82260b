//! Jobs in memory, as a store shared by workers has them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use conceptwatch::estimate::Settings;
use conceptwatch::history::HistoryError;
use conceptwatch::point::Point;
use conceptwatch::sample::{Attempt, Part};
use conceptwatch::score::Influences;
use conceptwatch::server::work::{Claim, Finished, Jobs, Kind, Material, Return, joined};
use conceptwatch::step::Step;

use crate::parts::{Job, NOW};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Waiting,
    Leased,
    Done,
}

struct Entry {
    step: u64,
    kind: Kind,
    state: State,
    until: Instant,
    leases: u32,
    failures: u32,
    /// The result of a job for rows.
    rows: Option<Vec<u8>>,
}

#[derive(Default)]
struct Content {
    passes: BTreeMap<u64, (Job, Vec<Vec<u8>>)>,
    jobs: Vec<Entry>,
    points: BTreeMap<u64, Point>,
    influences: Option<Influences>,
    unscored: Vec<String>,
    returned: Vec<Return>,
    stored: usize,
    replaced: Option<Kind>,
    /// Every n-th call fails; 0: none.
    failing: usize,
    calls: usize,
    stolen: bool,
    at_material: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Number of renewals yet to fail.
    failing_renewals: usize,
    /// Of each renewal, whether the lease had not ended.
    renewed: Vec<bool>,
}

pub struct Memory {
    settings: Settings,
    content: Mutex<Content>,
}

impl Memory {
    pub fn new(settings: Settings) -> Self {
        Self { settings, content: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap()
    }

    /// A call that may fail.
    fn call(&self) -> Result<MutexGuard<'_, Content>, HistoryError> {
        let mut content = self.lock();
        content.calls += 1;
        if content.failing > 0 && content.calls.is_multiple_of(content.failing) {
            return Err(HistoryError::Unwritten { why: "the connection was lost".into() });
        }
        Ok(content)
    }

    /// Closes a pass with these parts.
    pub fn close(&self, pass: &Job, parts: Vec<Vec<u8>>) {
        let mut content = self.lock();
        content.jobs.retain(|job| job.step != pass.step);
        content.passes.insert(pass.step, (pass.clone(), parts));
        content.jobs.push(Entry::new(pass.step, Kind::Fast));
    }

    pub fn fail_every(&self, calls: usize) {
        self.lock().failing = calls;
    }

    /// The score of this id is this one when it is claimed.
    pub fn replace(&self, kind: Kind) {
        self.lock().replaced = Some(kind);
    }

    pub fn at_material(&self, call: impl Fn() + Send + Sync + 'static) {
        self.lock().at_material = Some(Arc::new(call));
    }

    pub fn fail_renewals(&self, count: usize) {
        self.lock().failing_renewals = count;
    }

    /// Of each renewal, whether the lease had not ended by then.
    pub fn renewed(&self) -> Vec<bool> {
        self.lock().renewed.clone()
    }

    pub fn steal_at_material(&self) {
        self.lock().stolen = true;
    }

    pub fn all_done(&self) -> bool {
        self.lock().jobs.iter().all(|job| job.state == State::Done)
    }

    /// In the order in which they were made.
    pub fn kinds(&self) -> Vec<String> {
        self.lock().jobs.iter().map(|job| job.kind.to_string()).collect()
    }

    /// Counts as many failures of a job as are allowed.
    pub fn exhaust(&self, kind: &Kind) {
        self.lock().jobs.iter_mut().filter(|job| job.kind == *kind).for_each(|job| job.failures = 10);
    }

    pub fn states(&self) -> Vec<State> {
        self.lock().jobs.iter().map(|job| job.state).collect()
    }

    pub fn points(&self) -> Vec<Point> {
        self.lock().points.values().cloned().collect()
    }

    pub fn unscored(&self) -> Vec<String> {
        self.lock().unscored.clone()
    }

    pub fn returned(&self) -> Vec<Return> {
        self.lock().returned.clone()
    }

    /// Results stored.
    pub fn stored(&self) -> usize {
        self.lock().stored
    }
}

impl Entry {
    fn new(step: u64, kind: Kind) -> Self {
        Self { step, kind, state: State::Waiting, until: Instant::now(), leases: 0, failures: 0, rows: None }
    }
}

impl Content {
    fn leased(&mut self, claim: &Claim) -> Option<&mut Entry> {
        self.jobs.iter_mut().find(|job| {
            let same = job.step == claim.step.get() && job.kind == claim.kind;
            same && job.state == State::Leased && job.leases.to_string() == claim.lease
        })
    }
}

impl Content {
    /// Jobs for rows of the score of a job.
    fn rows_for(&self, claim: &Claim) -> impl Iterator<Item = &Entry> {
        let (Kind::Slow(of) | Kind::Rows(of, ..)) = claim.kind else { panic!("{claim} has no rows") };
        let step = claim.step.get();
        self.jobs
            .iter()
            .filter(move |job| job.step == step && matches!(job.kind, Kind::Rows(score, ..) if score.id == of.id))
    }
}

impl Jobs for Memory {
    fn settings(&self) -> Result<Option<Settings>, HistoryError> {
        Ok(Some(self.settings))
    }

    fn claim(&self, lease: Duration) -> Result<Option<Claim>, HistoryError> {
        let content = &mut *self.call()?;
        let now = Instant::now();
        let first = content.jobs.iter().filter(|job| job.kind == Kind::Fast && job.state != State::Done);
        let first = first.map(|job| job.step).min();
        let free = |job: &&mut Entry| {
            let in_turn = job.kind != Kind::Fast || Some(job.step) == first;
            in_turn && (job.state == State::Waiting || job.state == State::Leased && job.until <= now)
        };
        let Some(job) = content.jobs.iter_mut().find(free) else { return Ok(None) };
        job.failures += u32::from(job.state == State::Leased);
        (job.state, job.until, job.leases) = (State::Leased, now + lease, job.leases + 1);
        Ok(Some(Claim {
            id: job.step as i64,
            key: content.passes[&job.step].0.pass().key,
            attempt: Attempt::default(),
            step: Step::new(job.step).unwrap(),
            kind: content.replaced.filter(|kind| *kind == job.kind).unwrap_or(job.kind),
            lease: job.leases.to_string(),
            failures: job.failures,
        }))
    }

    fn renew(&self, claim: &Claim, lease: Duration) -> Result<bool, HistoryError> {
        let mut content = self.call()?;
        if content.failing_renewals > 0 {
            content.failing_renewals -= 1;
            return Err(HistoryError::Unwritten { why: "the connection was lost".into() });
        }
        let now = Instant::now();
        let Some(job) = content.leased(claim) else { return Ok(false) };
        let in_time = std::mem::replace(&mut job.until, now + lease) > now;
        content.renewed.push(in_time);
        Ok(true)
    }

    fn material(&self, claim: &Claim) -> Result<Material, HistoryError> {
        let (material, call) = {
            let content = &mut *self.call()?;
            if content.stolen {
                content.leased(claim).unwrap().leases += 1;
            }
            let (pass, parts) = &content.passes[&claim.step.get()];
            let parts = parts.iter().map(|bytes| Part::from_bytes(bytes)).collect();
            let (run, earlier) = (Arc::clone(&pass.run), content.influences.clone());
            let rows = match claim.kind {
                Kind::Slow(_) => content.rows_for(claim).filter_map(|job| job.rows.clone()).collect(),
                Kind::Fast | Kind::Rows(..) | Kind::Tests => Vec::new(),
            };
            (Material { run, time: NOW.unix, parts, earlier, rows, point: None }, content.at_material.clone())
        };
        if let Some(call) = call {
            call();
        }
        Ok(material)
    }

    fn give_back(&self, claim: &Claim, why: Return) -> Result<(), HistoryError> {
        let mut content = self.call()?;
        if let Some(job) = content.leased(claim) {
            job.state = State::Waiting;
            content.returned.push(why);
            if why != Return::Stopped {
                content.jobs.retain(|job| job.step != claim.step.get());
            }
        }
        Ok(())
    }

    fn finish(&self, claim: &Claim, finished: &Finished) -> Result<bool, HistoryError> {
        let mut content = self.call()?;
        let Some(job) = content.leased(claim) else { return Ok(false) };
        job.state = State::Done;
        if let Finished::Rows { rows } = finished {
            job.rows = Some(rows.clone());
        }
        content.stored += 1;
        let step = claim.step.get();
        match finished {
            Finished::Point { point, influences, following, .. } => {
                content.points.insert(step, (**point).clone());
                content.influences.clone_from(influences);
                content.jobs.extend(following.iter().map(|kind| Entry::new(step, *kind)));
            }
            Finished::Rows { .. } => {
                let Kind::Rows(score, ..) = claim.kind else { panic!("{claim} gives no rows") };
                if content.rows_for(claim).all(|job| job.state == State::Done) {
                    content.jobs.push(Entry::new(step, Kind::Slow(score)));
                }
            }
            Finished::Late { late, seconds } => {
                let whole = joined(&content.points[&step], late, *seconds);
                content.points.insert(step, whole);
            }
            Finished::Unscored { reason, .. } => content.unscored.push(reason.clone()),
        }
        Ok(true)
    }

    fn fail(&self, claim: &Claim, _reason: &str) -> Result<bool, HistoryError> {
        let mut content = self.call()?;
        let Some(job) = content.leased(claim) else { return Ok(false) };
        (job.state, job.failures) = (State::Waiting, job.failures + 1);
        Ok(true)
    }
}
