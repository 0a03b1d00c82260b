//! Publishes points. Every point that leaves the scorers goes to the history, the alert rules, the board and the
//! watchers, in that order.

use std::sync::Arc;

use crate::history::{Ending, HistoryError, Recorded, Store};
use leakage::point::{Outcome as Score, Point};
use leakage::sample::Evaluation;
use leakage::score::catalogue::Cost;

use super::events::Events;
use super::live::Event;
use super::metrics::Metrics;
use super::pass_outcomes::{Outcome as Settled, Pass, Settlement};
use super::runs::Frozen;
use super::scoring::compute::{Late, joined};

/// The costs of the scores that can join a point.
const LATE: [Cost; 2] = [Cost::Fast, Cost::Slow];

/// The recipients of points.
#[derive(Clone)]
pub struct Publisher {
    pub history: Arc<dyn Store>,
    pub settlement: Arc<Settlement>,
    pub events: Events,
    pub metrics: Metrics,
}

impl Publisher {
    /// Publishes the point of an evaluation, which has its fast scores or not. Returns whether it is part of the curve, so
    /// that more scores can be added.
    pub fn publish(&self, frozen: &Frozen, point: &Arc<Point>, has_fast: bool) -> bool {
        self.metrics.score_duration.observe(point.seconds);
        if !self.record(frozen, point) {
            self.close(frozen);
            return false;
        }
        let Frozen { running, evaluation } = frozen;
        running.advice.observe(point);
        running.board.settle(evaluation, Some(point));
        if has_fast || point.provisional {
            running.board.close(evaluation, Cost::Fast);
        }
        self.send(point);
        !point.provisional
    }

    /// Adds scores of a cost and tests, computed in `seconds`, to the published point of an evaluation. Returns the point
    /// that it has now; `None` if another evaluation of the step has taken its place, or the run was removed.
    pub fn join(
        &self,
        frozen: &Frozen,
        published: &Point,
        cost: Cost,
        late: &Late,
        seconds: f64,
    ) -> Option<Arc<Point>> {
        let Frozen { running, evaluation } = frozen;
        if is_evaluated_again(frozen, published) {
            LATE.into_iter().filter(|late| *late >= cost).for_each(|late| running.board.close(evaluation, late));
            return None;
        }
        let whole = Arc::new(joined(published, late, seconds));
        match self.history.record_point(&whole, Some(evaluation.attempt)) {
            Ok(_) => (),
            Err(HistoryError::Unknown { .. }) => return None,
            Err(error) => {
                self.metrics.history_errors.inc();
                tracing::error!(run = %whole.run, step = whole.step, %error, "scores that joined a point could not be stored");
            }
        }
        let known = |id: &str| published.scores.iter().any(|(score, _)| score == id);
        let scores: Vec<(String, Score)> = whole.scores.iter().filter(|(id, _)| !known(id)).cloned().collect();
        // Rules judge the current attempt: scores of one that the run has left may come late.
        if running.board.admits(&whole) {
            running.advice.observe_late(&whole, &scores.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>());
        }
        running.board.join(evaluation, cost, &whole, Arc::new(Point { scores, ..Point::clone(&whole) }));
        self.send(&whole);
        Some(whole)
    }

    /// Notes that an evaluation will have no point, and why. Where the disk is slow, that is part of why one was skipped.
    pub fn pass_over(&self, frozen: &Frozen, ending: Ending, reason: &str) {
        let evaluation = &frozen.evaluation;
        let slow = self.history.waiting().slowness().filter(|_| ending == Ending::Skipped);
        let reason = &slow.map_or_else(|| reason.to_owned(), |slow| format!("{reason}; {slow}"));
        tracing::debug!(
            run = %evaluation.key.run, split = %evaluation.key.split, step = %evaluation.step, reason,
            "an evaluation has no point"
        );
        self.settlement.record(&Pass::of(evaluation), ending, reason.as_str(), evaluation.rows_seen);
        self.close(frozen);
    }

    /// Counts and logs a score, or another part of scoring, that failed because of a bug.
    pub fn note_failure(&self, evaluation: &Evaluation, what: &str, text: &str) {
        self.metrics.score_failures.inc();
        let (key, step) = (&evaluation.key, evaluation.step);
        tracing::error!(run = %key.run, split = %key.split, %step, what, text, "scoring failed because of a bug");
    }

    /// Notes that nothing more will come of an evaluation.
    fn close(&self, Frozen { running, evaluation }: &Frozen) {
        running.board.settle(evaluation, None);
        LATE.into_iter().for_each(|cost| running.board.close(evaluation, cost));
    }

    /// Stores a point, which settles its pass. Returns whether to publish it: not if the history has a more complete one
    /// of the same attempt and step, or the run was removed meanwhile.
    fn record(&self, Frozen { running, evaluation }: &Frozen, point: &Point) -> bool {
        let pass = Pass::of(evaluation);
        let (outcome, reason) = match evaluation.lacks() {
            None => (Settled::Point, String::new()),
            Some(lacks) => (Settled::Incomplete, lacks),
        };
        match self.history.record_point(point, Some(evaluation.attempt)) {
            Ok(Recorded::Stored) => {
                self.metrics.points_recorded.inc();
                self.settlement.settle(&pass, outcome, reason);
            }
            // Counted too: it is written when the history can be.
            Ok(Recorded::Waiting) => {
                self.metrics.points_recorded.inc();
                self.settlement.postpone(&pass, outcome, reason);
            }
            Ok(Recorded::Outranked { time }) => {
                self.metrics.points_outranked.inc();
                tracing::warn!(
                    run = %point.run, split = %point.split, step = point.step, rows = point.rows_seen,
                    "a curve point was not stored: the history has a more complete one for this step"
                );
                self.settlement.settle(&pass, Settled::Point, "the history has a more complete point of this step");
                return !running.board.is_own(evaluation, time);
            }
            Err(HistoryError::Unknown { .. }) => return false,
            Err(error) => {
                self.metrics.history_errors.inc();
                tracing::error!(run = %point.run, step = point.step, %error, "a curve point could not be stored");
                let reason = format!("its point could not be stored: {error}");
                self.settlement.record(&pass, Ending::Failed, reason, point.rows_seen);
            }
        }
        true
    }

    fn send(&self, point: &Arc<Point>) {
        if self.events.are_watched() {
            self.events.send(Event::Point(Arc::new(point.without_matrices())));
        }
    }
}

/// Whether the newest point of the split is another evaluation of the step of `published`: a run that resumed from a
/// checkpoint may have evaluated it again.
fn is_evaluated_again(Frozen { running, evaluation }: &Frozen, published: &Point) -> bool {
    let newest = running.board.newest(&evaluation.key.split);
    newest.is_some_and(|newest| newest.step == published.step && newest.time != published.time)
}
