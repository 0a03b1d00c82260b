//! The state that all requests share.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::app::App;
use super::assets::Page;
use super::rooms::Rooms;
use super::verdicts::Newest;
use crate::server::peers::Attempts;

#[derive(Clone)]
pub(super) struct Shared {
    pub app: App,
    pub page: Arc<Page>,
    pub verdicts: Arc<Newest>,
    pub rooms: Arc<Rooms>,
    pub attempts: Arc<Attempts>,
    pub stop: CancellationToken,
    /// Time limit for the head of an answer.
    pub patience: Duration,
}
