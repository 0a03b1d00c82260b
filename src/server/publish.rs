//! Publishes points. Every point that leaves the scorers goes to the history, the alert rules, the board and the
//! watchers, in that order.

use std::sync::Arc;

use crate::history::{Ending, Recorded, Store};
use crate::point::{Outcome as Score, Point};
use crate::sample::Evaluation;

use super::advice::Advice;
use super::board::Board;
use super::events::Events;
use super::live::Event;
use super::metrics::Metrics;
use super::scoring::compute::{Late, joined};
use super::settlement::{Outcome as Settled, Pass, Settlement};

/// The recipients of points.
#[derive(Clone)]
pub struct Publisher {
    pub history: Arc<dyn Store>,
    pub advice: Arc<Advice>,
    pub board: Arc<Board>,
    pub settlement: Arc<Settlement>,
    pub events: Events,
    pub metrics: Metrics,
}

impl Publisher {
    /// Publishes the point of an evaluation. Returns whether it is part of the curve, so that slow scores can be added.
    pub fn publish(&self, evaluation: &Evaluation, point: &Arc<Point>) -> bool {
        self.metrics.score_duration.observe(point.seconds);
        self.publish_lacking(evaluation, point, evaluation.lacks())
    }

    /// Publishes a point that was computed elsewhere, and what its evaluation lacked there, in words.
    pub fn publish_lacking(&self, evaluation: &Evaluation, point: &Arc<Point>, lacks: Option<String>) -> bool {
        if !self.record(evaluation, point, lacks) {
            self.board.settle(evaluation, None);
            self.board.pass_over_slow(evaluation);
            return false;
        }
        self.advice.observe(point);
        self.board.settle(evaluation, Some(point));
        self.send(point);
        !point.provisional
    }

    /// Adds slow scores and tests of fast ones, computed in `seconds`, to the published point of an evaluation.
    pub fn publish_slow(&self, evaluation: &Evaluation, point: &Point, late: Late, seconds: f64) {
        if self.is_evaluated_again(evaluation, point) {
            self.pass_over_slow(evaluation);
            return;
        }
        self.join(evaluation, &Arc::new(joined(point, &late, seconds)), late.outcomes);
    }

    /// Publishes the completed form of the point `published`, whose slow scores were computed elsewhere.
    pub fn publish_whole(&self, evaluation: &Evaluation, published: &Point, whole: &Arc<Point>) {
        if self.is_evaluated_again(evaluation, published) {
            self.pass_over_slow(evaluation);
            return;
        }
        let known = |id: &str| published.scores.iter().any(|(score, _)| score == id);
        let slow = whole.scores.iter().filter(|(id, _)| !known(id)).cloned().collect();
        self.join(evaluation, whole, slow);
    }

    /// Whether the newest point of the split is another evaluation of the step of `published`: a run that resumed from a
    /// checkpoint may have evaluated it again.
    fn is_evaluated_again(&self, evaluation: &Evaluation, published: &Point) -> bool {
        let newest = self.board.newest(&evaluation.key.run, &evaluation.key.split);
        newest.is_some_and(|newest| newest.step == published.step && newest.time != published.time)
    }

    /// `slow` are the scores that join the published point.
    fn join(&self, evaluation: &Evaluation, whole: &Arc<Point>, slow: Vec<(String, Score)>) {
        let slow = Arc::new(Point { scores: slow, ..Point::clone(whole) });
        if let Err(error) = self.history.record_point(whole, Some(evaluation.attempt)) {
            self.metrics.history_errors.inc();
            tracing::error!(run = %whole.run, step = whole.step, %error, "slow scores could not be stored");
        }
        self.advice.observe_late(&slow);
        self.board.settle_slow(evaluation, whole, &slow);
        self.send(whole);
    }

    /// Notes that an evaluation will have no point, and why.
    pub fn pass_over(&self, evaluation: &Evaluation, ending: Ending, reason: &str) {
        tracing::debug!(
            run = %evaluation.key.run, split = %evaluation.key.split, step = %evaluation.step, reason,
            "an evaluation has no point"
        );
        self.settlement.record(&Pass::of(evaluation), ending, reason, evaluation.rows_seen);
        self.board.settle(evaluation, None);
        self.pass_over_slow(evaluation);
    }

    /// Counts and logs a score, or another part of scoring, that failed because of a bug.
    pub fn note_failure(&self, evaluation: &Evaluation, what: &str, text: &str) {
        self.metrics.score_failures.inc();
        let (key, step) = (&evaluation.key, evaluation.step);
        tracing::error!(run = %key.run, split = %key.split, %step, what, text, "scoring failed because of a bug");
    }

    /// Notes that an evaluation will have no slow scores.
    pub fn pass_over_slow(&self, evaluation: &Evaluation) {
        self.board.pass_over_slow(evaluation);
    }

    /// Stores a point, which settles its pass. Returns whether to publish it: not if the history has a more complete one
    /// of the same attempt and step.
    fn record(&self, evaluation: &Evaluation, point: &Point, lacks: Option<String>) -> bool {
        let pass = Pass::of(evaluation);
        let (outcome, reason) = match lacks {
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
                return !self.board.is_own(evaluation, time);
            }
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
