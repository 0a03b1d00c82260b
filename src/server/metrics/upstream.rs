//! How the sidecar stands with its hub. There only with `--upstream`.

use prometheus::{Error, Registry};

use super::families::{self, Described};
use super::names;
use crate::server::live::UpstreamStatus;

const FAMILIES: [Described; 6] = [
    (names::UPSTREAM_REACHED, "1 if the hub answered the last call, else 0.", &[]),
    (
        names::UPSTREAM_WAITING,
        "Changes of the history that are not yet sent to the hub, or not yet acknowledged by it.",
        &[],
    ),
    (
        names::UPSTREAM_ANSWER_AGE,
        "Time since the hub's last answer, or since the start where there was none, in seconds.",
        &[],
    ),
    (names::UPSTREAM_SENT, "Changes of the history that the hub has applied.", &[]),
    (names::UPSTREAM_REFUSED, "Changes of the history that the hub can never apply.", &[]),
    (
        names::UPSTREAM_DROPPED,
        "Changes that the size limit of the history removed before they were sent to the hub, or that could not be read.",
        &[],
    ),
];

pub fn register(registry: &Registry, status: impl Fn() -> UpstreamStatus + Send + Sync + 'static) -> Result<(), Error> {
    families::register(registry, FAMILIES, move |families| {
        let status = status();
        families.set(names::UPSTREAM_REACHED, status.reached);
        families.set(names::UPSTREAM_WAITING, status.waiting as f64);
        families.set(names::UPSTREAM_ANSWER_AGE, status.seconds_since_answer);
        families.set(names::UPSTREAM_SENT, status.sent as f64);
        families.set(names::UPSTREAM_REFUSED, status.refused as f64);
        families.set(names::UPSTREAM_DROPPED, status.dropped as f64);
    })
}
