//! What the port reads from.

use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use tokio_util::sync::CancellationToken;

use super::access::Access;
use super::assets::Page;
use super::rooms::Rooms;
use crate::history::History;
use crate::point::ScoreDescription;
use crate::server::events::Events;
use crate::server::live::Live;
use crate::server::metrics::Metrics;
use crate::server::peers::Attempts;

/// The state that the port reads from.
#[derive(Clone)]
pub struct App {
    pub history: Arc<History>,
    pub registry: Registry,
    pub metrics: Metrics,
    /// In catalogue order.
    pub scores: Arc<[ScoreDescription]>,
    pub events: Events,
    pub live: Arc<dyn Live>,
    pub access: Arc<Access>,
}

/// What every request has at hand.
#[derive(Clone)]
pub(super) struct Shared {
    pub app: App,
    pub page: Arc<Page>,
    pub rooms: Arc<Rooms>,
    pub attempts: Arc<Attempts>,
    pub stop: CancellationToken,
    /// Time limit for the head of an answer.
    pub patience: Duration,
}
