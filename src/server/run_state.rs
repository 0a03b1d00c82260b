//! The state of a run, from what is stored of it and what is known of its job. Every surface shows this one.

use std::collections::HashMap;

use serde::Serialize;

use crate::history::{HistoryError, RunOutcome, Store, StoredRun, StoredSplit};
use crate::server::clock::unix_time;
use crate::server::live::RunStatus;

/// Newest evaluations of a split whose intervals are its usual ones.
const INTERVALS_OF: usize = 21;
/// Intervals of silence after which a run is stalled, and the seconds that this is at least.
const SILENCE: f64 = 3.0;
const LEAST_SILENCE: f64 = 60.0;

/// The progress of a run, or the way in which it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "lowercase")]
pub enum State {
    /// Its job sends.
    #[default]
    Training,
    /// Its job is connected, and silent for longer than usual.
    Stalled,
    /// Its job is gone, and has not said how it ended.
    Lost,
    Finished,
    #[strum(to_string = "stopped on advice")]
    StoppedOnAdvice,
    /// An exception ended a rank, also where others go on.
    Failed,
}

/// The state of a run, and what it rests on.
#[derive(Debug, PartialEq, Serialize)]
pub struct RunState {
    pub state: State,
    /// In words; absent where the state says all.
    pub reason: Option<String>,
    /// When the run was last heard of, in seconds since 1970-01-01 UTC.
    pub updated: f64,
}

/// Returns the states of these runs, in their order. `live` has the jobs that are known, by run. Blocks.
pub fn states_of(
    history: &dyn Store,
    runs: &[(StoredRun, Vec<StoredSplit>)],
    live: &HashMap<String, RunStatus>,
) -> Result<Vec<RunState>, HistoryError> {
    // Nothing else needs the times of evaluations.
    let curves_of = |(stored, splits): &(StoredRun, Vec<StoredSplit>)| match stored.finished {
        Some(_) => 0,
        None => splits.len(),
    };
    let curves = runs.iter().flat_map(|run| run.1.iter().take(curves_of(run)).map(|of| (&*run.0.run.name, &*of.split)));
    let mut times = history.evaluation_times(&curves.collect::<Vec<_>>(), INTERVALS_OF)?.into_iter();
    let now = unix_time();
    let state = |run: &(StoredRun, Vec<StoredSplit>)| {
        let times: Vec<_> = times.by_ref().take(curves_of(run)).collect();
        RunState::of(&run.0, live.get(&run.0.run.name), &times, now)
    };
    Ok(runs.iter().map(state).collect())
}

impl RunState {
    /// `evaluations` has the times of the newest evaluations of each split, at most [`INTERVALS_OF`]; `now` is in seconds since
    /// 1970-01-01 UTC, as they are.
    fn of(stored: &StoredRun, live: Option<&RunStatus>, evaluations: &[Vec<f64>], now: f64) -> Self {
        let newest = evaluations.iter().flatten().copied().fold(stored.started, f64::max);
        let heard = live.and_then(|live| live.heard).map_or(newest, |heard| heard.max(newest));
        let updated = stored.finished.unwrap_or(heard);
        let (state, reason) = match (&stored.outcome, stored.finished) {
            (Some(RunOutcome::Failed { rank, error, message }), _) => {
                let rank = if stored.run.world_size > 1 { format!("rank {rank}: ") } else { String::new() };
                let message = if message.is_empty() { String::new() } else { format!(": {message}") };
                (State::Failed, Some(format!("{rank}{error}{message}")))
            }
            (Some(RunOutcome::StoppedOnAdvice { .. }), Some(_)) => (State::StoppedOnAdvice, None),
            (_, Some(_)) => (State::Finished, None),
            (_, None) => match live.map(|live| live.lost) {
                None => (State::Lost, Some("no job is connected, and none has said how it ended".to_owned())),
                Some(Some(why)) => (State::Lost, Some(why.to_owned())),
                Some(None) => match usual_interval(evaluations) {
                    Some(usual) if now - heard > (SILENCE * usual).max(LEAST_SILENCE) => {
                        let reason = match SILENCE * usual > LEAST_SILENCE {
                            true => {
                                format!("silent for more than three times its usual interval, {}", duration(usual))
                            }
                            false => "silent for more than a minute".to_owned(),
                        };
                        (State::Stalled, Some(reason))
                    }
                    _ => (State::Training, None),
                },
            },
        };
        Self { state, reason, updated }
    }
}

/// The median interval between the evaluations of the split in which it is longest; `None` where no split has two.
fn usual_interval(evaluations: &[Vec<f64>]) -> Option<f64> {
    let median = |times: &Vec<f64>| {
        let mut times = times.clone();
        times.sort_by(f64::total_cmp);
        let mut intervals: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        intervals.sort_by(f64::total_cmp);
        intervals.get(intervals.len() / 2).copied()
    };
    evaluations.iter().filter_map(median).max_by(f64::total_cmp)
}

/// A duration in the largest unit of which it has at least two.
fn duration(seconds: f64) -> String {
    match seconds {
        _ if seconds < 9.95 => format!("{seconds:.1} s"),
        _ if seconds < 120.0 => format!("{seconds:.0} s"),
        _ if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leakage::run::{Concept, Run, RunFields};

    /// When every run here has started, and when it is looked at.
    const STARTED: f64 = 1000.0;
    const NOW: f64 = 10_000.0;

    fn run(world_size: u32) -> StoredRun {
        let concepts = vec![Concept { name: "c".into(), cardinality: 2, ..Concept::default() }];
        let fields = RunFields { name: "r".into(), concepts, world_size, ..Default::default() };
        let run = Run::try_from(fields).unwrap();
        StoredRun { run, started: STARTED, finished: None, outcome: None, open: true, title: None, note: None }
    }

    fn job(lost: Option<&'static str>, heard: f64) -> RunStatus {
        RunStatus { name: "r".into(), splits: Vec::new(), lost, heard: Some(heard) }
    }

    /// The state of a run of one rank whose job is connected.
    fn connected(heard: f64, evaluations: &[Vec<f64>]) -> State {
        RunState::of(&run(1), Some(&job(None, heard)), evaluations, NOW).state
    }

    /// Times of evaluations, the newest first, that end `ago` seconds before [`NOW`].
    fn every(interval: f64, count: u32, ago: f64) -> Vec<f64> {
        (0..count).map(|at| NOW - ago - interval * f64::from(at)).collect()
    }

    #[test]
    fn a_run_is_stalled_when_it_is_silent_for_three_of_its_own_intervals_and_a_minute() {
        assert_eq!(connected(0.0, &[every(100.0, 9, 299.0)]), State::Training);
        assert_eq!(connected(0.0, &[every(100.0, 9, 301.0)]), State::Stalled);
        assert_eq!(connected(0.0, &[every(1.0, 9, 59.0)]), State::Training, "a minute at least");
        assert_eq!(connected(0.0, &[every(1.0, 9, 61.0)]), State::Stalled);
        let mut paused = every(100.0, 9, 299.0);
        paused.push(paused[8] - 5000.0);
        assert_eq!(connected(0.0, &[paused]), State::Training, "one long pause does not change the median");
    }

    #[test]
    fn one_evaluation_tells_no_interval() {
        assert_eq!(connected(0.0, &[]), State::Training);
        assert_eq!(connected(0.0, &[every(1.0, 1, 5000.0)]), State::Training);
        assert_eq!(connected(0.0, &[every(1.0, 2, 5000.0)]), State::Stalled);
    }

    #[test]
    fn the_slowest_split_and_every_message_count() {
        let (train, val) = (every(1.0, 20, 200.0), every(100.0, 5, 250.0));
        assert_eq!(connected(0.0, std::slice::from_ref(&train)), State::Stalled);
        assert_eq!(connected(0.0, &[train.clone(), val]), State::Training);
        assert_eq!(connected(NOW - 5.0, &[train]), State::Training, "a long evaluation sends batches");
    }

    #[test]
    fn the_reason_of_a_stalled_run_states_its_interval() {
        let found = RunState::of(&run(1), Some(&job(None, 0.0)), &[every(100.0, 9, 400.0)], NOW);
        let reason = "silent for more than three times its usual interval, 100 s";
        assert_eq!(found, RunState { state: State::Stalled, reason: Some(reason.into()), updated: NOW - 400.0 });
        let found = RunState::of(&run(1), Some(&job(None, 0.0)), &[every(0.01, 9, 400.0)], NOW);
        assert_eq!(found.reason.as_deref(), Some("silent for more than a minute"));
        for (seconds, text) in [(0.25, "0.2 s"), (45.4, "45 s"), (600.0, "10 min"), (9000.0, "2.5 h")] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn a_run_whose_job_is_gone_is_lost() {
        let state = |live: Option<&RunStatus>| RunState::of(&run(1), live, &[every(1.0, 9, 20.0)], NOW);
        assert_eq!(state(None).state, State::Lost);
        let found = state(Some(&job(Some("its job has gone"), NOW - 10.0)));
        assert_eq!(
            found,
            RunState { state: State::Lost, reason: Some("its job has gone".into()), updated: NOW - 10.0 }
        );
    }

    #[test]
    fn an_outcome_is_the_state_once_the_run_has_finished_and_a_failure_before() {
        let failed = RunOutcome::Failed { rank: 1, error: "ValueError".into(), message: "no such concept".into() };
        let bare = RunOutcome::Failed { rank: 0, error: "KeyboardInterrupt".into(), message: String::new() };
        let stopped = RunOutcome::StoppedOnAdvice { rank: 0 };
        let cases = [
            (1, Some(2000.0), None, State::Finished, None),
            (1, Some(2000.0), Some(RunOutcome::Finished), State::Finished, None),
            (1, Some(2000.0), Some(stopped.clone()), State::StoppedOnAdvice, None),
            (2, None, Some(stopped), State::Training, None),
            (1, Some(2000.0), Some(bare), State::Failed, Some("KeyboardInterrupt")),
            (2, None, Some(failed.clone()), State::Failed, Some("rank 1: ValueError: no such concept")),
            (1, Some(2000.0), Some(failed), State::Failed, Some("ValueError: no such concept")),
        ];
        for (world_size, finished, outcome, state, reason) in cases {
            let stored = StoredRun { finished, outcome, ..run(world_size) };
            let found = RunState::of(&stored, Some(&job(None, 3000.0)), &[], 3001.0);
            let updated = finished.unwrap_or(3000.0);
            assert_eq!(found, RunState { state, reason: reason.map(str::to_owned), updated }, "{stored:?}");
        }
    }
}
