//! GetScores: the point of a step, or the newest, waited for until a deadline.

use std::time::Duration;

use tokio::time::Instant;
use tonic::{Code, Status};

use super::convert;
use super::proto;
use super::service::Service;
use super::status::refused;
use crate::server::events::Watcher;
use leakage::name::check_name;
use leakage::point::Point;
use leakage::score::catalogue::Cost;
use leakage::step::Ordinal;

/// Interval at which a waiting call looks again: it may have missed an event.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The point that a call waits for.
pub struct Sought {
    pub run: String,
    pub split: String,
    /// `None`: the newest.
    pub step: Option<u64>,
    /// The number of the pass among those of the step; 0: any.
    pub ordinal: u32,
    /// Whether to include the values of pairs.
    pub matrices: bool,
    pub wait: Duration,
}

impl Sought {
    /// Whether a point is of the step and the pass.
    fn admits(&self, point: &Point) -> bool {
        let of_pass = self.ordinal == 0 || self.ordinal == point.ordinal.get();
        self.step.is_none_or(|step| step == point.step && of_pass)
    }
}

/// The result of a look.
enum Found {
    Point(Box<Point>),
    NotYet,
    /// The step has no point and will have none.
    Never,
}

impl Service {
    pub(super) async fn scores(&self, request: proto::GetScoresRequest) -> Result<proto::GetScoresResponse, Status> {
        let proto::GetScoresRequest { run, split, step, timeout_seconds, matrices, ordinal } = request;
        check_name("run", &run).map_err(refused)?;
        check_name("split", &split).map_err(refused)?;
        let wait = convert::timeout("timeout_seconds", timeout_seconds).map_err(refused)?;
        let point = self.wait_for_point(&Sought { run, split, step, ordinal, matrices, wait }).await?;
        let point = point.map(|point| convert::point(&point, matrices));
        Ok(proto::GetScoresResponse { point })
    }

    /// The point, once there is one; `None` if that takes longer than the call waits, or there will be none.
    pub(super) async fn wait_for_point(&self, sought: &Sought) -> Result<Option<Box<Point>>, Status> {
        let deadline = Instant::now() + sought.wait;
        let mut events = self.events.subscribe();
        loop {
            match self.look(sought, deadline).await? {
                Found::Point(point) => return Ok(Some(point)),
                Found::Never => return Ok(None),
                Found::NotYet if Instant::now() >= deadline => return Ok(None),
                Found::NotYet => next_look(&mut events, deadline).await,
            }
        }
    }

    /// Looks once; at or after `deadline` it is the last time.
    async fn look(&self, sought: &Sought, deadline: Instant) -> Result<Found, Status> {
        let Sought { run, split, step, ordinal, matrices, wait } = sought;
        let (step, matrices, ordinal) = (*step, *matrices, Ordinal::stated(*ordinal));
        // Read before the history: the point of a settled step is already stored.
        let settled = step.is_some_and(|step| self.is_settled(run, split, step, ordinal));
        // Read before the point, too: a point is waited for until its fast scores have joined it.
        let running = self.running(run);
        let running = running.as_ref();
        let newest = || running.and_then(|running| running.board.newest(split));
        let pass = step.map(|step| (step, ordinal)).or_else(|| newest().map(|newest| (newest.step, newest.ordinal)));
        let awaits = |pass| running.is_some_and(|running| running.board.awaits(split, pass, Cost::Fast));
        let awaits = pass.is_some_and(awaits);
        let live = newest().filter(|live| sought.admits(live));
        let stored = {
            let (run, split) = (run.clone(), split.clone());
            self.blocking(move |history| history.point(&run, &split, step, matrices)).await
        };
        // A point of an earlier training is no answer for the current one.
        let stored =
            stored.map(|point| point.filter(|point| self.ingest.runs.registry.admits(point) && sought.admits(point)));
        let found = |point: Point| match awaits && Instant::now() < deadline {
            true => Ok(Found::NotYet),
            false => Ok(Found::Point(Box::new(point))),
        };
        match (live, stored) {
            // For the same point the stored form is returned, since every later reader gets that one.
            (Some(live), Ok(Some(stored))) if stored.step > live.step || stored.time == live.time => found(stored),
            // The point could not be stored, or the history keeps a more complete one of another attempt.
            (Some(live), _) => found(Point::clone(&live)),
            (None, Ok(Some(stored))) => found(stored),
            // The history does not know a split before its first point.
            (None, Err(status)) if status.code() != Code::NotFound || wait.is_zero() => Err(status),
            (None, _) if settled => Ok(Found::Never),
            (None, _) => Ok(Found::NotYet),
        }
    }
}

/// Waits until it is time to look again: for an event, an interval, or the deadline.
pub async fn next_look(events: &mut Watcher, deadline: Instant) {
    tokio::select! {
        _ = events.next() => {}
        () = tokio::time::sleep_until(deadline.min(Instant::now() + LOOK_AGAIN)) => {}
    }
}
