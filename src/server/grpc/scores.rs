//! GetScores: the point of a step, or the newest, waited for until a deadline. Sidecars and hubs answer alike; where they
//! look differs.

use std::time::Duration;

use tokio::time::Instant;
use tonic::{Response, Status};

use super::convert;
use super::proto;
use super::status::refused;
use crate::server::events::Watcher;
use leakage::name::check_name;
use leakage::point::Point;

/// Interval at which a waiting call looks again. Where there are events, it may have missed one.
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
    pub fn admits(&self, point: &Point) -> bool {
        let of_pass = self.ordinal == 0 || self.ordinal == point.ordinal.get();
        self.step.is_none_or(|step| step == point.step && of_pass)
    }
}

/// The result of a look.
pub enum Found {
    Point(Box<Point>),
    NotYet,
    /// The step has no point and will have none.
    Never,
}

/// Where points are looked for.
#[tonic::async_trait]
pub trait Lookout: Sync {
    /// Looks once; at or after `deadline` it is the last time.
    async fn look(&self, sought: &Sought, deadline: Instant) -> Result<Found, Status>;

    /// The events after which it is worth looking again; `None` to look at intervals only.
    fn events(&self) -> Option<Watcher>;
}

/// Answers a GetScores.
pub async fn get_scores(
    lookout: &impl Lookout,
    request: proto::GetScoresRequest,
) -> Result<Response<proto::GetScoresResponse>, Status> {
    let proto::GetScoresRequest { run, split, step, timeout_seconds, matrices, ordinal } = request;
    check_name("run", &run).map_err(refused)?;
    check_name("split", &split).map_err(refused)?;
    let wait = convert::timeout("timeout_seconds", timeout_seconds).map_err(refused)?;
    let point = wait_for_point(lookout, &Sought { run, split, step, ordinal, matrices, wait }).await?;
    let point = point.map(|point| convert::point(&point, matrices));
    Ok(Response::new(proto::GetScoresResponse { point }))
}

/// The point, once there is one; `None` if that takes longer than the call waits, or there will be none.
pub async fn wait_for_point(lookout: &impl Lookout, sought: &Sought) -> Result<Option<Box<Point>>, Status> {
    let deadline = Instant::now() + sought.wait;
    let mut events = lookout.events();
    loop {
        match lookout.look(sought, deadline).await? {
            Found::Point(point) => return Ok(Some(point)),
            Found::Never => return Ok(None),
            Found::NotYet if Instant::now() >= deadline => return Ok(None),
            Found::NotYet => next_look(events.as_mut(), deadline).await,
        }
    }
}

/// Waits until it is time to look again: for an event, an interval, or the deadline.
pub async fn next_look(events: Option<&mut Watcher>, deadline: Instant) {
    let again = tokio::time::sleep_until(deadline.min(Instant::now() + LOOK_AGAIN));
    match events {
        Some(events) => tokio::select! {
            _ = events.next() => {}
            () = again => {}
        },
        None => again.await,
    }
}
