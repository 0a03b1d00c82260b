//! The sources of the port's answers.

use std::sync::Arc;

use prometheus::Registry;

use super::access::Access;
use super::rows::Rows;
use crate::history::Store;
use crate::server::events::Events;
use crate::server::live::Live;
use crate::server::metrics::Metrics;
use leakage::score::catalogue::{CATALOGUE, Score};

/// The state that the port reads from.
#[derive(Clone)]
pub struct App {
    pub history: Arc<dyn Store>,
    pub registry: Registry,
    pub metrics: Metrics,
    /// In catalogue order.
    pub scores: &'static [Score],
    pub events: Events,
    pub live: Arc<dyn Live>,
    pub access: Arc<Access>,
    /// The rows of the overview that have been computed.
    pub rows: Arc<Rows>,
}

impl App {
    pub fn new(
        history: Arc<dyn Store>,
        live: Arc<dyn Live>,
        registry: Registry,
        metrics: Metrics,
        events: Events,
        access: Access,
    ) -> Self {
        let (access, rows) = (Arc::new(access), Arc::default());
        Self { history, registry, metrics, scores: CATALOGUE, events, live, access, rows }
    }
}
