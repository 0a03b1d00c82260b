//! The state that all requests share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::app::App;
use super::assets::Page;
use super::exposition::Exposition;
use crate::server::peers::Caller;

#[derive(Clone)]
pub(super) struct Shared {
    pub app: App,
    pub page: Arc<Page>,
    pub exposition: Exposition,
    /// Places of answers that take a thread. Those beyond wait.
    pub answers: Arc<Semaphore>,
    /// Places of event streams, which last as long as a page is open. Those beyond are refused.
    pub streams: Arc<Semaphore>,
    pub stop: CancellationToken,
    /// Time limit for the head of an answer.
    pub patience: Duration,
}

impl Shared {
    /// Counts and logs a wrong token.
    pub fn refuse_token(&self, caller: Option<&Caller>) {
        Caller::refuse_token(caller, &self.app.metrics.tokens_refused.with_label_values(&["http"]));
    }
}
