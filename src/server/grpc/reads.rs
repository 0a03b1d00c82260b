//! Calls that read from the history and from the events alone.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use tonic::Status;

use super::convert;
use super::proto;
use super::service::Service;
use super::status::{blocking, refused};
use crate::analysis_query::assessment_of;
use crate::history::{HistoryError, SeriesPoint, Store, StoredRun, StoredSplit, Wanted};
use crate::search::Search;
use crate::server::events::Received;
use crate::server::live::{AlertChange, Event, RunStatus};
use crate::server::refusal::Refusal;
use crate::server::run_state::{RunState, states_of};
use leakage::field_error::{FieldError, in_short};
use leakage::name::{check_name, check_optional_name};

impl Service {
    /// Runs a call to the history on a thread that may block.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Store) -> Result<T, HistoryError> + Send + 'static,
    ) -> Result<T, Status> {
        let history = Arc::clone(&self.history);
        blocking(move || call(&*history), "the history call failed").await
    }

    pub(super) async fn listed(&self, request: proto::ListRunsRequest) -> Result<proto::ListRunsResponse, Status> {
        let proto::ListRunsRequest { page_size, page_token, search } = request;
        let after = Some(page_token.as_str()).filter(|token| !token.is_empty()).map(|token| {
            let wrong = |why| FieldError::new("page_token", format!("got '{}', {why}", in_short(token)));
            token.parse().map_err(wrong)
        });
        let wanted = Wanted {
            search: Search::of(&search),
            after: after.transpose().map_err(refused)?,
            most: Some(page_size as usize).filter(|most| *most > 0),
        };
        let live: HashMap<String, RunStatus> =
            self.ingest.runs.statuses().into_iter().map(|status| (status.name.clone(), status)).collect();
        let read = move |history: &dyn Store| {
            let listing = history.listing(&wanted)?;
            let states = states_of(history, &listing.runs, &live)?;
            Ok((listing, states, live))
        };
        let (listing, states, live) = self.blocking(read).await?;
        let status = |((stored, splits), state): ((StoredRun, Vec<StoredSplit>), RunState)| proto::RunStatus {
            run: Some(convert::run_message(&stored.run)),
            finished: stored.finished.is_some(),
            started: stored.started,
            splits: self.split_statuses(splits, live.get(&stored.run.name)),
            title: stored.title.unwrap_or_default(),
            note: stored.note.unwrap_or_default(),
            state: proto::RunState::from(state.state).into(),
            state_reason: state.reason.unwrap_or_default(),
        };
        Ok(proto::ListRunsResponse {
            runs: listing.runs.into_iter().zip(states).map(status).collect(),
            total: listing.total,
            next_page_token: listing.next.map(|next| next.to_string()).unwrap_or_default(),
        })
    }

    /// The splits of a run: those with points, and those that this process has received rows of.
    fn split_statuses(&self, stored: Vec<StoredSplit>, live: Option<&RunStatus>) -> Vec<proto::SplitStatus> {
        let status = |split: String| proto::SplitStatus {
            window: convert::window(self.ingest.runs.options().window(&split)).into(),
            split,
            ..Default::default()
        };
        let of = |StoredSplit { split, points, last_step }| proto::SplitStatus { points, last_step, ..status(split) };
        let mut statuses: Vec<proto::SplitStatus> = stored.into_iter().map(of).collect();
        for split in live.iter().flat_map(|live| &live.splits) {
            let known = statuses.iter().position(|status| status.split == split.split);
            let at = known.unwrap_or_else(|| {
                statuses.push(status(split.split.clone()));
                statuses.len() - 1
            });
            statuses[at].rows_received = split.rows_received;
            statuses[at].rows_duplicate = split.rows_duplicate;
            statuses[at].rows_dropped = split.rows_dropped;
        }
        statuses
    }

    pub(super) async fn series(&self, request: proto::GetSeriesRequest) -> Result<proto::GetSeriesResponse, Status> {
        if leakage::score::catalogue::find(&request.score).is_none() {
            return Err(refused(FieldError::new(
                "score",
                format!("'{}' is not a score of the catalogue", in_short(&request.score)),
            )));
        }
        check_name("run", &request.run).map_err(refused)?;
        check_name("split", &request.split).map_err(refused)?;
        check_optional_name("concept", &request.concept).map_err(refused)?;
        let points = self
            .blocking(move |history| {
                let concept = Some(request.concept.as_str()).filter(|concept| !concept.is_empty());
                let last = request.last_step;
                history.series(&request.run, &request.split, &request.score, concept, request.first_step, last)
            })
            .await?;
        Ok(proto::GetSeriesResponse { points: points.into_iter().map(proto::SeriesPoint::from).collect() })
    }

    /// The verdict on a split and its diagnosis, from the points of the attempt at work.
    pub(super) async fn diagnosis(&self, run: String, split: String) -> Result<proto::GetDiagnosisResponse, Status> {
        let (history, registry) = (Arc::clone(&self.history), Arc::clone(&self.ingest.runs.registry));
        let assess = move || {
            let advised = registry.alerts().advised(&run, &split);
            assessment_of(&*history, &run, &split, |point| registry.admits(point), advised.as_ref())
        };
        match tokio::task::spawn_blocking(assess).await {
            Ok(found) => Ok(convert::assessment(found.map_err(Refusal::from)?)),
            Err(_) => Err(Status::internal("the diagnosis failed")),
        }
    }

    /// Points and alert changes from now on, until the server stops.
    pub(super) fn watched(
        &self,
        request: proto::WatchRequest,
    ) -> Result<BoxStream<'static, Result<proto::WatchResponse, Status>>, Status> {
        let runs = request.runs;
        runs.iter().try_for_each(|run| check_name("runs", run)).map_err(refused)?;
        let (lost, stop) = (self.ingest.metrics.watch_events_lost.clone(), self.stop.clone());
        let wanted = move |run: &str| runs.is_empty() || runs.iter().any(|wanted| wanted == run);
        let events = self.events.subscribe().stream().filter_map(move |received| {
            let event = match received {
                Received::Event(Event::Point(point)) if wanted(&point.run) => {
                    Some(proto::watch_response::Event::Point(convert::point(&point, false)))
                }
                Received::Event(Event::Alert(change)) if wanted(&change.run) => {
                    Some(proto::watch_response::Event::Alert(alert(&change)))
                }
                Received::Event(_) => None,
                Received::Lost(count) => {
                    lost.inc_by(count);
                    Some(proto::watch_response::Event::Lost(count))
                }
            };
            futures::future::ready(event.map(|event| Ok(proto::WatchResponse { event: Some(event) })))
        });
        Ok(events.take_until(Box::pin(stop.cancelled_owned())).boxed())
    }
}

impl From<SeriesPoint> for proto::SeriesPoint {
    fn from(point: SeriesPoint) -> Self {
        Self {
            step: point.step,
            epoch: point.epoch,
            time: point.time,
            value: point.value,
            standard_error: point.standard_error,
            undefined: point.undefined.unwrap_or_default(),
            rows: point.rows,
            tie_fraction: point.tie_fraction,
            provisional: point.provisional,
            incomplete: point.incomplete,
            left_out_pairs: point.left_out.as_ref().map_or(0, |left_out| left_out.pairs),
            left_out: point.left_out.map(|left_out| left_out.concepts).unwrap_or_default(),
            p_value: point.p_value,
            superseded: point.superseded,
        }
    }
}

pub fn alert(change: &AlertChange) -> proto::AlertChange {
    proto::AlertChange {
        rule: change.rule.clone(),
        run: change.run.clone(),
        split: change.split.clone(),
        score: change.score.to_owned(),
        state: proto::AlertState::from(change.state).into(),
        since: change.since,
        evidence: change.evidence.clone(),
        step: change.step,
        severity: change.severity.name().to_owned(),
    }
}
