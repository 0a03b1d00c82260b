//! Ranks open and close passes, rolling samples advance, and the order of arrival has no effect.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use leakage::batch::{Batch, NonFinite};
use leakage::run::{Concept, Run, RunFields, SplitKey};
use leakage::sample::{
    Attempt, Began, CommitError, Committed, Declaration, EndOfPass, EndedPass, Evaluation, Member, Members, Now,
    RowNumbers, Sample, Sampling, Source, Split, SplitOptions, Staged, Unfinished, Values, WindowKind, client_hash,
};
use leakage::step::{Epoch, Ordinal, PassKey, Rank, Step};
use leakage::tensor::{DataType, Tensor, TensorName};
use proptest::prelude::*;

const NAME: TensorName = TensorName::ConceptActivations;

fn run(world_size: u32) -> Run {
    let concepts = vec![Concept { name: "c".into(), cardinality: 2, ..Concept::default() }];
    Run::try_from(RunFields { name: "run".into(), concepts, world_size, ..Default::default() }).unwrap()
}

fn options(window: WindowKind, rows: usize) -> SplitOptions {
    SplitOptions {
        window,
        sampling: Sampling { rows, seed: 4 },
        half_life_steps: 10.0,
        pass_deadline: seconds(60),
        idle_deadline: seconds(600),
        open_passes: 2,
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn at(time: u64) -> Now {
    Now { elapsed: seconds(time), unix: time as f64 }
}

fn step(step: u64) -> Step {
    Step::new(step).unwrap()
}

fn restarted(restart: u32) -> Attempt {
    Attempt { launch: 0, restart }
}

/// A split, and the number of ranks that send to it.
struct Watched {
    split: Split,
    world_size: u32,
}

impl Watched {
    fn new(options: SplitOptions, world_size: u32) -> Self {
        let split = Split::new(SplitKey::new("run", "split"), options, Arc::new(run(world_size)));
        Self { split, world_size }
    }

    fn member(&self, rank: u32, restart: u32) -> Member {
        let rank = Rank::of(rank, self.world_size).unwrap();
        Member { attempt: restarted(restart), world_size: self.world_size, rank }
    }
}

impl Deref for Watched {
    type Target = Split;
    fn deref(&self) -> &Split {
        &self.split
    }
}

impl DerefMut for Watched {
    fn deref_mut(&mut self) -> &mut Split {
        &mut self.split
    }
}

fn floats(values: &[f32], dtype: DataType) -> Tensor {
    let bytes: Vec<u8> = match dtype {
        DataType::Float64 => values.iter().flat_map(|&value| f64::from(value).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    };
    Tensor::numbers(NAME, dtype, &[values.len() as u64, 1], bytes.into()).unwrap()
}

fn sample_ids(ids: &[u64]) -> Tensor {
    let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    Tensor::numbers(TensorName::SampleIds, DataType::UInt64, &[ids.len() as u64], bytes.into()).unwrap()
}

/// A batch logged by a client.
#[derive(Clone, Debug)]
struct Logged {
    rank: u32,
    restart: u32,
    sequence: u64,
    step: u64,
    ordinal: u32,
    ids: Option<Vec<u64>>,
    values: Vec<f32>,
}

impl Logged {
    fn with_ids(rank: u32, sequence: u64, step: u64, ids: impl IntoIterator<Item = u64>) -> Self {
        let ids: Vec<u64> = ids.into_iter().collect();
        // The value encodes the rank, so that the kept value shows its sender.
        let values = ids.iter().map(|&id| id as f32 + rank as f32 / 8.0).collect();
        Self { rank, restart: 0, sequence, step, ordinal: 1, ids: Some(ids), values }
    }

    fn without_ids(rank: u32, sequence: u64, step: u64, rows: usize) -> Self {
        let values = (0..rows).map(|row| (sequence * 1000) as f32 + row as f32).collect();
        Self { rank, restart: 0, sequence, step, ordinal: 1, ids: None, values }
    }

    /// This batch, from a client of a later attempt.
    fn after(self, restart: u32) -> Self {
        Self { restart, ..self }
    }

    fn source(&self) -> Source {
        Source { client: client_hash(&format!("rank-{}-{}", self.rank, self.restart)), sequence: self.sequence }
    }

    fn pass(&self) -> PassKey {
        PassKey { step: step(self.step), ordinal: Ordinal::stated(self.ordinal) }
    }

    /// In an evaluation of the step other than the first.
    fn of(self, ordinal: u32) -> Self {
        Self { ordinal, ..self }
    }

    fn stage(&self, split: &Watched, chunk_rows: usize) -> Staged {
        let mut staged = split.stage(self.pass(), self.source(), split.member(self.rank, self.restart));
        for first in (0..self.values.len()).step_by(chunk_rows) {
            let range = first..self.values.len().min(first + chunk_rows);
            let mut tensors = vec![floats(&self.values[range.clone()], DataType::Float32)];
            tensors.extend(self.ids.as_ref().map(|ids| sample_ids(&ids[range])));
            let chunk = Batch::new(tensors, &run(1), NonFinite::DropRow).unwrap();
            staged.offer(&chunk, RowNumbers { first: first as u64, listed: &[] }).unwrap();
        }
        staged
    }

    fn commit(&self, split: &mut Watched, now: u64) -> Result<Committed, CommitError> {
        let staged = self.stage(split, 7);
        split.commit(staged, Some(Epoch::new(self.step as f64 / 10.0).unwrap()), 0, at(now))
    }
}

/// `None` without rows.
fn contents(sample: &Sample) -> Option<(Vec<u64>, Vec<u32>)> {
    (sample.rows() > 0).then(|| content(sample))
}

fn content(sample: &Sample) -> (Vec<u64>, Vec<u32>) {
    let Some(Values::Float32(values)) = sample.column(NAME).map(|column| column.values()) else {
        panic!("float32 stays float32")
    };
    (sample.ids().to_vec(), values.iter().map(|value| value.to_bits()).collect())
}

fn end(split: &mut Watched, step: u64, rank: u32, now: u64) -> Vec<Evaluation> {
    ended(split, step, rank, now).unwrap().closed
}

fn ended(split: &mut Watched, at_step: u64, rank: u32, now: u64) -> Result<EndedPass, CommitError> {
    let member = split.member(rank, 0);
    split.end_pass(ending(at_step, 0), member, at(now))
}

/// The end of a pass for which the rank logged `rows` rows; 0: it does not say.
fn ending(at_step: u64, rows: u64) -> EndOfPass {
    EndOfPass { pass: step(at_step).into(), epoch: None, rows, held_back: 0, backlog: false }
}

fn late_at(at_step: u64) -> CommitError {
    CommitError::Late { split: "split".into(), pass: step(at_step).into() }
}

#[derive(Clone, Debug)]
enum Event {
    Batch(Logged),
    End(u32),
}

/// Three ranks' batches of one pass, each rank in its order, interleaved at random; the rank's end last.
fn interleaved() -> impl Strategy<Value = Vec<Event>> {
    let batches = prop::collection::vec(prop::collection::vec(prop::collection::vec(0u64..80, 1..20), 0..4), 3);
    (batches, any::<u64>()).prop_map(|(ranks, mut order)| {
        let mut queues: Vec<std::collections::VecDeque<Event>> = (0u32..)
            .zip(ranks)
            .map(|(rank, batches)| {
                let logged = (1..).zip(batches).map(|(sequence, ids)| Logged::with_ids(rank, sequence, 5, ids));
                logged.map(Event::Batch).chain([Event::End(rank)]).collect()
            })
            .collect();
        let mut events = Vec::new();
        while queues.iter().any(|queue| !queue.is_empty()) {
            order = order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (order >> 33) as usize % 3;
            events.extend(queues[at].pop_front());
        }
        events
    })
}

proptest! {
    #[test]
    fn ranks_close_a_pass_in_any_order_with_one_result(
        events in interleaved(), rows in 1usize..50, repeats in prop::collection::vec(any::<bool>(), 20),
    ) {
        let mut split = Watched::new(options(WindowKind::Pass, rows), 3);
        let mut plain = Watched::new(options(WindowKind::Pass, rows), 3);
        let (mut closed, mut expected) = (Vec::new(), Vec::new());
        let mut offered = 0;
        for (at, event) in events.iter().enumerate() {
            prop_assert!(closed.is_empty(), "closed before all ranks ended");
            match event {
                Event::Batch(batch) => {
                    offered += batch.values.len() as u64;
                    prop_assert_eq!(batch.commit(&mut split, at as u64).unwrap().rows, batch.values.len() as u64);
                    if repeats[at] {
                        let again = batch.commit(&mut split, at as u64).unwrap();
                        prop_assert_eq!(again.rows, again.duplicates);
                    }
                }
                Event::End(rank) => closed = end(&mut split, 5, *rank, at as u64),
            }
        }
        // One rank after the other, without repeats, on a separate split.
        let mut in_turn = events.clone();
        in_turn.sort_by_key(|event| match event {
            Event::Batch(batch) => (batch.rank, batch.sequence),
            Event::End(rank) => (*rank, u64::MAX),
        });
        for event in in_turn {
            match event {
                Event::Batch(batch) => drop(batch.commit(&mut plain, 0).unwrap()),
                Event::End(rank) => expected = end(&mut plain, 5, rank, 0),
            }
        }
        prop_assert_eq!((closed.len(), expected.len()), (1, 1));
        let (closed, expected) = (&closed[0], &expected[0]);
        prop_assert_eq!(contents(&closed.sample), contents(&expected.sample));
        prop_assert_eq!((closed.rows_seen, closed.incomplete()), (expected.rows_seen, false));
        prop_assert_eq!(closed.sample.rows() == 0, offered == 0);
        prop_assert_eq!(plain.counts().received, offered);
    }

    #[test]
    fn batches_staged_at_once_commit_to_the_same_sample_in_any_order(
        batches in prop::collection::vec(prop::collection::vec(0u64..300, 1..30), 1..8), rows in 1usize..40, chunk in 1usize..40,
        window in prop_oneof![Just(WindowKind::Pass), Just(WindowKind::All), Just(WindowKind::Recent)],
    ) {
        let step_of = |sequence: u64| if window == WindowKind::Pass { 1 } else { sequence % 3 };
        let logged: Vec<Logged> = (1..).zip(batches).map(|(s, ids)| Logged::with_ids(0, s, step_of(s), ids)).collect();
        let mut result = Vec::new();
        for (staged_first, reversed) in [(false, false), (true, false), (true, true)] {
            let mut split = Watched::new(options(window, rows), 1);
            let mut order: Vec<&Logged> = logged.iter().collect();
            if reversed {
                order.reverse();
            }
            if staged_first {
                let staged: Vec<Staged> = order.iter().map(|batch| batch.stage(&split, chunk)).collect();
                for staged in staged {
                    split.commit(staged, None, 0, at(0)).unwrap();
                }
            } else {
                order.iter().for_each(|batch| drop(batch.commit(&mut split, 0).unwrap()));
            }
            let sample = match window {
                WindowKind::Pass => end(&mut split, 1, 0, 1).remove(0).sample,
                _ => split.snapshot(at(0)).unwrap().sample,
            };
            result.push(content(&sample));
        }
        prop_assert_eq!(&result[0], &result[1]);
        prop_assert_eq!(&result[0], &result[2]);
    }
}

#[test]
fn a_world_of_one_without_sample_ids_keeps_every_row_once() {
    let mut split = Watched::new(options(WindowKind::Pass, 100), 1);
    for sequence in 1..=3 {
        let batch = Logged::without_ids(0, sequence, 7, 20);
        assert_eq!(batch.commit(&mut split, 0).unwrap().duplicates, 0);
        assert_eq!(batch.commit(&mut split, 0).unwrap().duplicates, 20, "a retry");
    }
    let closed = end(&mut split, 7, 0, 1).remove(0);
    assert_eq!(
        (closed.rows_seen, closed.duplicates, closed.step.get(), closed.epoch.map(Epoch::get)),
        (60, 60, 7, Some(0.7))
    );
    assert_eq!(closed.sample.rows(), 60);
}

#[test]
fn a_pass_without_rows_closes_without_a_sample() {
    let mut split = Watched::new(options(WindowKind::Pass, 100), 2);
    assert!(end(&mut split, 1, 0, 0).is_empty());
    let nan = Logged { values: vec![f32::NAN; 3], ..Logged::without_ids(1, 1, 1, 0) };
    let committed = nan.commit(&mut split, 0).unwrap();
    assert_eq!((committed.rows, committed.dropped), (0, 3));
    let closed = end(&mut split, 1, 1, 0).remove(0);
    assert!(closed.sample.rows() == 0 && !closed.incomplete());
    assert_eq!((closed.rows_seen, split.counts().dropped), (0, 3));
}

#[test]
fn padding_of_a_distributed_sampler_is_removed() {
    let mut split = Watched::new(options(WindowKind::Pass, 100), 2);
    Logged::with_ids(1, 1, 1, [1, 3, 0]).commit(&mut split, 0).unwrap();
    // Rank 1 padded with row 0. In either order, the value of the same rank is kept.
    assert_eq!(Logged::with_ids(0, 1, 1, [0, 2, 4]).commit(&mut split, 0).unwrap().duplicates, 1);
    end(&mut split, 1, 0, 0);
    let closed = end(&mut split, 1, 1, 0).remove(0);
    assert_eq!((closed.rows_seen, closed.duplicates), (5, 1));
    assert_eq!(closed.sample.ids(), [0, 1, 2, 3, 4]);
}

#[test]
fn deadlines_close_passes_that_ranks_leave_open() {
    let mut split = Watched::new(options(WindowKind::Pass, 100), 3);
    Logged::with_ids(0, 1, 1, 0..5).commit(&mut split, 100).unwrap();
    assert_eq!(split.next_deadline(&Members::default()), Some(seconds(700)), "no rank has ended: the idle deadline");
    Logged::with_ids(0, 2, 1, 5..9).commit(&mut split, 200).unwrap();
    assert_eq!(split.next_deadline(&Members::default()), Some(seconds(800)));
    end(&mut split, 1, 0, 300);
    end(&mut split, 1, 2, 350);
    assert_eq!(split.next_deadline(&Members::default()), Some(seconds(360)), "60 s after the first end");
    assert!(split.close_overdue(at(359), &Members::default()).is_empty());
    let closed = split.close_overdue(at(360), &Members::default()).remove(0);
    assert_eq!((closed.ranks_missing, closed.rows_seen, closed.incomplete()), (1, 9, true));
    assert_eq!(split.next_deadline(&Members::default()), None);

    Logged::with_ids(0, 3, 2, 0..5).commit(&mut split, 1000).unwrap();
    assert!(split.close_overdue(at(1599), &Members::default()).is_empty());
    assert_eq!(split.close_overdue(at(1600), &Members::default())[0].ranks_missing, 3);
    assert_eq!((split.counts().passes, split.counts().passes_incomplete), (2, 2));
}

#[test]
fn late_batches_are_refused_and_counted_but_retries_are_harmless() {
    let mut split = Watched::new(options(WindowKind::Pass, 3), 1);
    let batch = Logged::with_ids(0, 1, 1, 0..5);
    batch.commit(&mut split, 0).unwrap();
    end(&mut split, 1, 0, 0);
    let late = Logged::with_ids(0, 2, 1, 5..9);
    assert_eq!(late.commit(&mut split, 1).unwrap_err(), late_at(1));
    let retry = batch.commit(&mut split, 1).unwrap();
    assert_eq!((retry.rows, retry.duplicates, split.counts().late), (5, 5, 4));
    assert!(ended(&mut split, 1, 0, 1).unwrap().duplicate);
    // An earlier step without a pass is not late: an older checkpoint is being evaluated.
    assert!(Logged::with_ids(0, 3, 0, 0..5).commit(&mut split, 1).is_ok());

    let began = late.after(1).commit(&mut split, 2).unwrap().began.unwrap();
    assert_eq!(
        (began.discarded.iter().map(|unfinished| unfinished.pass.step).collect(), began.rows_discarded),
        (vec![step(0)], 5),
        "the run was resumed before this step"
    );
    let open = split.close_all(at(3));
    assert_eq!(open.iter().map(|pass| (pass.step.get(), pass.rows_seen)).collect::<Vec<_>>(), [(1, 4)]);
}

#[test]
fn a_newer_attempt_discards_the_open_passes_of_the_older_one() {
    let mut split = Watched::new(options(WindowKind::Pass, 30), 2);
    // Rank 0 of the old model ended the pass, then all ranks restarted: the new pass has rows of the new ranks alone.
    Logged::with_ids(0, 1, 9, 0..5).commit(&mut split, 0).unwrap();
    assert!(end(&mut split, 9, 0, 0).is_empty());
    let staged_before = Logged::with_ids(1, 1, 9, 5..9).stage(&split, 7);
    let committed = Logged::with_ids(1, 1, 9, 10..15).after(1).commit(&mut split, 1).unwrap();
    let began = Began {
        attempt: restarted(1),
        first_step: step(9),
        previous: Some(restarted(0)),
        discarded: vec![Unfinished { pass: step(9).into(), rows: 5, ended: 1, ranks: 2 }],
        rows_discarded: 5,
    };
    assert_eq!((committed.began, split.attempt()), (Some(began), Some(restarted(1))));
    let new = split.member(1, 1);
    assert!(
        split.end_pass(ending(9, 5), new, at(1)).unwrap().closed.is_empty(),
        "rank 0 of the new attempt is missing"
    );
    // Later messages of the old attempt are refused and counted.
    assert_eq!(split.commit(staged_before, None, 0, at(1)).unwrap_err(), CommitError::OlderAttempt);
    assert_eq!(Logged::with_ids(0, 2, 9, 0..3).commit(&mut split, 1).unwrap_err(), CommitError::OlderAttempt);
    assert_eq!(ended(&mut split, 9, 1, 1).unwrap_err(), CommitError::OlderAttempt);
    assert_eq!((split.counts().refused, split.counts().discarded), (7, 5));

    let earlier = Logged::with_ids(0, 1, 8, 20..25).after(1).commit(&mut split, 2).unwrap().began.unwrap();
    assert_eq!(
        (earlier.first_step, earlier.discarded.len()),
        (step(8), 0),
        "a rank that lags comes to an earlier step"
    );
    Logged::with_ids(0, 2, 9, 20..25).after(1).commit(&mut split, 2).unwrap();
    let new = split.member(0, 1);
    let closed = split.end_pass(ending(9, 5), new, at(2)).unwrap().closed.remove(0);
    assert_eq!(closed.sample.ids(), [10, 11, 12, 13, 14, 20, 21, 22, 23, 24]);
    assert_eq!((closed.incomplete(), closed.attempt), (false, restarted(1)));
}

#[test]
fn a_step_evaluated_again_has_one_sample_for_each_evaluation() {
    let mut split = Watched::new(options(WindowKind::Pass, 30), 2);
    let end = |split: &mut Watched, of: &Logged| {
        let (pass, member) = (of.pass(), split.member(of.rank, 0));
        split.end_pass(EndOfPass { pass, ..ending(0, 0) }, member, at(9)).unwrap().closed
    };
    // Rank 1 is still at the first evaluation while rank 0 is at the second.
    let first = [Logged::with_ids(0, 1, 7, 0..5), Logged::with_ids(1, 1, 7, 5..9)];
    let second = [Logged::with_ids(0, 3, 7, 0..3).of(2), Logged::with_ids(1, 3, 7, 3..5).of(2)];
    for batch in [&first[0], &second[0], &first[1]] {
        batch.commit(&mut split, 0).unwrap();
    }
    assert!(end(&mut split, &first[0]).is_empty() && end(&mut split, &second[0]).is_empty());
    let closed = end(&mut split, &first[1]);
    assert_eq!((closed[0].pass(), closed[0].rows_seen, closed[0].incomplete()), (first[0].pass(), 9, false));
    second[1].commit(&mut split, 1).unwrap();
    let closed = end(&mut split, &second[1]);
    assert_eq!((closed[0].pass(), closed[0].rows_seen, closed[0].incomplete()), (second[0].pass(), 5, false));
    // A batch sent again belongs to the evaluation that it states.
    assert_eq!(first[0].commit(&mut split, 2).unwrap().duplicates, 5);
    let late = Logged::with_ids(0, 9, 7, 0..2).commit(&mut split, 2).unwrap_err();
    assert!(matches!(&late, CommitError::Late { pass, .. } if *pass == first[0].pass()), "{late}");
}

#[test]
fn an_evaluation_that_a_rank_leaves_is_discarded_with_the_rows_of_all() {
    let mut split = Watched::new(options(WindowKind::Pass, 30), 2);
    let (left, again) = (Logged::with_ids(0, 1, 7, 0..5), Logged::with_ids(0, 4, 7, 0..5).of(2));
    left.commit(&mut split, 0).unwrap();
    Logged::with_ids(1, 1, 7, 5..9).commit(&mut split, 0).unwrap();
    again.commit(&mut split, 0).unwrap();
    let member = split.member(0, 0);
    let discarded = Unfinished { pass: left.pass(), rows: 9, ended: 0, ranks: 2 };
    let abandoned = split.abandon(left.pass(), member).unwrap();
    assert_eq!((abandoned.duplicate, abandoned.discarded), (false, Some(discarded)));
    assert!(split.abandon(left.pass(), member).unwrap().duplicate, "sent twice");
    assert_eq!(split.counts().discarded, 9);
    // What the other rank still sends of it is refused, and its end is known.
    let late = Logged::with_ids(1, 2, 7, 9..12).commit(&mut split, 1).unwrap_err();
    assert!(matches!(late, CommitError::Abandoned { .. }), "{late}");
    assert_eq!(Logged::with_ids(1, 1, 7, 5..9).commit(&mut split, 1).unwrap().duplicates, 4, "a retry");
    let other = split.member(1, 0);
    assert!(split.end_pass(ending(7, 0), other, at(1)).unwrap().duplicate);
    // The evaluation after it is untouched.
    let open = split.close_all(at(2));
    assert_eq!(open.iter().map(|pass| (pass.pass(), pass.rows_seen)).collect::<Vec<_>>(), [(again.pass(), 5)]);
    assert!(split.abandon(again.pass(), member).unwrap().duplicate, "it is closed");
}

#[test]
fn an_attempt_may_have_another_number_of_ranks() {
    let mut split = Watched::new(options(WindowKind::Pass, 30), 3);
    end(&mut split, 1, 0, 0);
    split.world_size = 2;
    let ends: Vec<usize> = (0..2)
        .map(|rank| {
            let member = split.member(rank, 1);
            split.end_pass(ending(1, 0), member, at(0)).unwrap().closed.len()
        })
        .collect();
    assert_eq!(ends, [0, 1]);
}

#[test]
fn ranks_that_missed_the_deadline_are_late() {
    let mut split = Watched::new(options(WindowKind::Pass, 3), 2);
    end(&mut split, 1, 0, 0);
    assert_eq!(split.close_overdue(at(60), &Members::default()).len(), 1);
    assert!(ended(&mut split, 1, 0, 61).unwrap().duplicate);
    assert_eq!(ended(&mut split, 1, 1, 61).unwrap_err(), late_at(1));
}

/// The members of a named launch of these ranks.
fn launched(ranks: &[u32], world_size: u32) -> Members {
    let mut members = Members::default();
    for &rank in ranks {
        let rank = Some(Rank::of(rank, world_size).unwrap());
        let client = client_hash(&format!("{rank:?}"));
        let attempt = Some(restarted(0));
        members.declare(Declaration { client, attempt, world_size, rank, continues: true }, seconds(0));
    }
    members
}

#[test]
fn a_pass_stays_open_while_a_missing_rank_still_sends_what_comes_before_it() {
    let mut split = Watched::new(options(WindowKind::Pass, 100), 3);
    let mut members = launched(&[0, 1, 2], 3);
    Logged::with_ids(0, 1, 100, 0..5).commit(&mut split, 10).unwrap();
    end(&mut split, 100, 0, 10);
    end(&mut split, 100, 1, 10);
    // Rank 2 trains more slowly. It has not come to step 100, in this split or any other.
    for (time, at_step) in [(50, 30), (100, 60), (150, 99), (200, 100)] {
        members.reached(split.member(2, 0), step(at_step), seconds(time));
        assert_eq!(split.next_deadline(&members), Some(seconds(time + 60)), "60 s after its last message");
        assert!(split.close_overdue(at(time + 59), &members).is_empty());
    }
    // It has passed the step without a word about it, or has died.
    members.reached(split.member(2, 0), step(101), seconds(201));
    assert_eq!(split.next_deadline(&members), Some(seconds(70)));
    assert_eq!(split.close_overdue(at(202), &members)[0].ranks_missing, 1);
    // A rank that has finished is not waited for.
    end(&mut split, 200, 0, 300);
    members.reached(split.member(2, 0), step(150), seconds(500));
    assert_eq!(split.next_deadline(&members), Some(seconds(560)));
    members.restore_finished(restarted(0), [Rank::of(2, 3).unwrap()]);
    assert_eq!(split.next_deadline(&members), Some(seconds(360)));
}

#[test]
fn held_passes_are_closed_by_their_last_rank_alone() {
    let mut split = Watched::new(options(WindowKind::Pass, 10), 2);
    split.hold(true, at(0));
    for at_step in 1..=5 {
        assert!(end(&mut split, at_step, 0, 0).is_empty(), "two may be open otherwise");
    }
    assert!(split.close_overdue(at(100_000), &Members::default()).is_empty());
    assert_eq!(end(&mut split, 3, 1, 100_000)[0].step, step(3));
    split.hold(false, at(100_000));
    assert!(split.close_overdue(at(100_059), &Members::default()).is_empty(), "deadlines begin now");
    assert_eq!(split.close_overdue(at(100_060), &Members::default()).len(), 4);
}

#[test]
fn a_launch_is_assembled_when_every_rank_has_declared_itself_or_finished_before() {
    let attempt = restarted(0);
    let mut members = launched(&[0, 2, 2], 4);
    assert!(!members.is_assembled(attempt));
    members.restore_finished(attempt, [Rank::of(1, 4).unwrap()]);
    assert!(!members.is_assembled(attempt));
    let declaration =
        Declaration { client: 9, attempt: Some(attempt), world_size: 4, rank: Rank::of(3, 4).ok(), continues: true };
    members.declare(declaration, seconds(1));
    assert!(members.is_assembled(attempt));
    let mut unnamed = Members::default();
    for client in 0..2 {
        assert!(!unnamed.is_assembled(Attempt::default()));
        unnamed.declare(Declaration { client, attempt: None, world_size: 2, rank: None, continues: true }, seconds(0));
    }
    assert!(unnamed.is_assembled(Attempt::default()));
}

#[test]
fn without_memory_the_pass_opened_first_is_closed_and_one_that_is_stored_is_discarded() {
    let mut split = Watched::new(options(WindowKind::Pass, 10), 1);
    for (sequence, at_step) in [(1, 30), (2, 10)] {
        Logged::with_ids(0, sequence, at_step, 0..5).commit(&mut split, 0).unwrap();
    }
    let unfinished: Vec<_> =
        split.unfinished().iter().map(|of| (of.pass.step.get(), of.rows, of.ended, of.ranks)).collect();
    assert_eq!(unfinished, [(30, 5, 0, 1), (10, 5, 0, 1)]);
    assert_eq!(split.close_oldest(step(30), at(0)).unwrap().step, step(10), "not the pass that needs the memory");
    assert!(split.close_oldest(step(30), at(0)).is_none());
    assert_eq!((split.drop_pass(step(30)), split.drop_pass(step(30)), split.counts().duplicate), (5, 0, 5));
    // It may be sent again.
    Logged::with_ids(0, 3, 30, 0..5).commit(&mut split, 0).unwrap();
    assert_eq!(end(&mut split, 30, 0, 0)[0].sample.rows(), 5);
}

#[test]
fn exceeding_the_open_passes_closes_the_one_opened_first() {
    let mut split = Watched::new(options(WindowKind::Pass, 10), 1);
    for (sequence, step) in [(1, 30), (2, 10)] {
        assert!(Logged::with_ids(0, sequence, step, 0..5).commit(&mut split, 0).unwrap().closed.is_empty());
    }
    let closed = Logged::with_ids(0, 3, 20, 0..5).commit(&mut split, 0).unwrap().closed;
    assert_eq!(closed.iter().map(|pass| (pass.step.get(), pass.incomplete())).collect::<Vec<_>>(), [(30, true)]);
    let ended = end(&mut split, 40, 0, 0);
    assert_eq!(ended.iter().map(|pass| pass.step.get()).collect::<Vec<_>>(), [10, 40]);
    assert_eq!(ended[1].sample.rows(), 0);
}

#[test]
fn invalid_ranks_and_changed_schemas_apply_nothing() {
    assert_eq!(Rank::of(2, 2).unwrap_err().to_string(), "rank: got 2, expected 0 to 1 (world_size is 2)");
    let mut split = Watched::new(options(WindowKind::Pass, 10), 2);
    let source = Source { client: 1, sequence: 1 };
    let stage = |split: &Watched, tensors: Vec<Tensor>| {
        let mut staged = split.stage(step(1), source, split.member(0, 0));
        let chunk = Batch::new(tensors, &run(1), NonFinite::Reject).unwrap();
        staged.offer(&chunk, RowNumbers::default()).unwrap();
        (staged, chunk)
    };
    let (mut staged, _) = stage(&split, vec![floats(&[1.0], DataType::Float32)]);
    // The element type may change between batches, but not within one.
    let (_, wide) = stage(&split, vec![floats(&[1.0], DataType::Float64)]);
    let labels = Tensor::numbers(TensorName::TaskLabels, DataType::Int64, &[1], vec![0; 8].into()).unwrap();
    let (other, _) = stage(&split, vec![floats(&[1.0], DataType::Float32), labels]);
    let fault = staged.offer(&wide, RowNumbers::default()).unwrap_err();
    assert_eq!(fault.field, "tensors.concept_activations.dtype");
    assert_eq!(staged.rows(), 1, "the chunk was not applied");
    split.commit(staged, None, 0, at(0)).unwrap();
    let error = split.commit(other, None, 0, at(0)).unwrap_err();
    assert!(matches!(&error, CommitError::Invalid(fault) if fault.field == "tensors.task_labels"), "{error:?}");
    assert_eq!((split.counts().received, split.counts().refused), (1, 1));
}

#[test]
fn row_numbers_fit_the_rows() {
    let split = Watched::new(options(WindowKind::Pass, 10), 1);
    let mut staged = split.stage(step(1), Source { client: 1, sequence: 1 }, split.member(0, 0));
    let chunk = Batch::new(vec![floats(&[1.0, 2.0], DataType::Float32)], &run(1), NonFinite::Reject).unwrap();
    let offer = |staged: &mut Staged, first, listed: &[u32]| staged.offer(&chunk, RowNumbers { first, listed });
    assert_eq!(offer(&mut staged, 0, &[4]).unwrap_err().field, "row_numbers");
    assert_eq!(offer(&mut staged, u64::MAX, &[]).unwrap_err().field, "first_row");
    assert_eq!(staged.rows(), 0);
    offer(&mut staged, 0, &[4, 9]).unwrap();
    assert_eq!(staged.rows(), 2);
}

#[test]
fn thinning_by_the_job_changes_nothing() {
    let close = |rows: &[u32], left_out: u64| {
        let mut split = Watched::new(options(WindowKind::Pass, 8), 1);
        let mut staged = split.stage(step(1), Source { client: 3, sequence: 1 }, split.member(0, 0));
        let values: Vec<f32> = rows.iter().map(|&row| row as f32).collect();
        let chunk = Batch::new(vec![floats(&values, DataType::Float32)], &run(1), NonFinite::Reject).unwrap();
        staged.offer(&chunk, RowNumbers { first: 0, listed: rows }).unwrap();
        split.commit(staged, None, left_out, at(0)).unwrap();
        assert_eq!(split.counts().left_out, left_out);
        end(&mut split, 1, 0, 0).remove(0)
    };
    let all: Vec<u32> = (0..100).collect();
    let whole = close(&all, 0);
    let kept = content(&whole.sample);
    let rows: Vec<u32> = kept.1.iter().map(|&bits| f32::from_bits(bits) as u32).collect();
    let thinned = close(&rows, 92);
    assert_eq!(content(&thinned.sample), kept);
    assert_eq!((whole.rows_seen, thinned.rows_seen), (100, 100));
    // An absurd number changes only the count.
    let nonsense = close(&rows, u64::MAX);
    assert_eq!(content(&nonsense.sample), kept);
}

#[test]
fn rolling_samples_report_what_changed_and_whether_they_are_filling() {
    let mut split = Watched::new(options(WindowKind::All, 50), 1);
    assert!(split.snapshot(at(0)).is_none());
    Logged::with_ids(0, 1, 1, 0..20).commit(&mut split, 0).unwrap();
    assert_eq!(split.rolling_rows(), (20, 20));
    let first = split.snapshot(at(0)).unwrap();
    assert_eq!((first.provisional, first.step, first.epoch), (true, step(1), Some(Epoch::new(0.1).unwrap())));
    assert_eq!(split.rolling_rows(), (0, 20));
    // Four known rows at a newer step: values change, the sample does not grow.
    let again = Logged { values: vec![0.5; 4], ..Logged::with_ids(0, 2, 2, 0..4) };
    assert_eq!(again.commit(&mut split, 0).unwrap().duplicates, 0);
    assert_eq!(split.rolling_rows(), (4, 20));
    let second = split.snapshot(at(0)).unwrap();
    assert_eq!((second.provisional, second.rows_seen, second.step), (false, 20, step(2)));
    assert_eq!(content(&second.sample).1[..4], [0.5f32.to_bits(); 4]);
    Logged::with_ids(0, 3, 3, 20..200).commit(&mut split, 0).unwrap();
    let full = split.snapshot(at(0)).unwrap();
    assert_eq!((full.sample.rows(), full.provisional), (50, false));
    // A late batch of an older step: its rows are known with newer values.
    Logged::with_ids(0, 4, 1, 0..20).commit(&mut split, 0).unwrap();
    assert_eq!((split.rolling_rows().0, split.snapshot(at(0)).unwrap().step), (0, step(3)));
    assert!(end(&mut split, 3, 0, 0).is_empty());
}

#[test]
fn a_recent_window_is_mostly_of_recent_steps() {
    let mut split = Watched::new(options(WindowKind::Recent, 500), 1);
    for step in 0..200 {
        Logged::with_ids(0, step + 1, step, step * 1000..step * 1000 + 100).commit(&mut split, 0).unwrap();
    }
    let sample = split.snapshot(at(0)).unwrap().sample;
    // A row of weight w is kept with probability close to 1 − e^{−cw}, with c such that 500 rows are expected.
    let kept_of_newest = |c: f64, steps: i32| -> f64 {
        (0..steps).map(|age| 100.0 * (1.0 - (-c * 0.5f64.powf(f64::from(age) / 10.0)).exp())).sum()
    };
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if kept_of_newest(middle, 200) < 500.0 { low = middle } else { high = middle }
    }
    for steps in [3, 10, 30] {
        let observed = sample.ids().iter().filter(|&&id| id / 1000 + steps as u64 >= 200).count() as f64;
        let expected = kept_of_newest(low, steps);
        assert!((observed - expected).abs() < 4.0 * expected.sqrt(), "{observed} for {expected} of {steps} steps");
    }
}

#[test]
fn an_attempt_at_an_earlier_step_resets_the_rolling_sample() {
    let mut split = Watched::new(options(WindowKind::All, 10), 1);
    Logged::with_ids(0, 1, 100, 0..50).commit(&mut split, 0).unwrap();
    // Staged for the previous sample, or by an attempt that another one has replaced.
    let in_flight = Logged::with_ids(0, 2, 60, 50..60).stage(&split, 5);
    Logged::with_ids(0, 1, 60, 50..55).after(1).commit(&mut split, 0).unwrap();
    assert_eq!(split.commit(in_flight, None, 0, at(0)).unwrap_err(), CommitError::OlderAttempt);
    let snapshot = split.snapshot(at(0)).unwrap();
    assert_eq!((snapshot.sample.ids(), snapshot.step), (&[50, 51, 52, 53, 54][..], step(60)));
    // An attempt that resumes where the last one stopped continues the sample.
    Logged::with_ids(0, 1, 60, 55..57).after(2).commit(&mut split, 0).unwrap();
    assert_eq!(split.snapshot(at(0)).unwrap().sample.rows(), 7);
}

proptest! {
    #[test]
    fn a_saved_window_continues_as_if_nothing_had_happened(
        batches in prop::collection::vec((prop::collection::vec(0u64..60, 1..20), 0u64..3), 2..20),
        rows in 1usize..40, at in 0usize..20, recent in any::<bool>(),
    ) {
        let window = if recent { WindowKind::Recent } else { WindowKind::All };
        let new = || Watched::new(options(window, rows), 1);
        let (mut split, mut restarted) = (new(), new());
        let mut time = 0;
        for (sequence, (ids, steps)) in (1..).zip(batches) {
            time += steps;
            let batch = Logged::with_ids(0, sequence, time, ids);
            if sequence as usize == 1 + at {
                if let Some(saved) = restarted.save() {
                    let mut fresh = new();
                    prop_assert!(fresh.restore(saved, true).unwrap().is_some());
                    restarted = fresh;
                }
                let again = batch.clone();
                again.commit(&mut split, 0).unwrap();
                again.commit(&mut restarted, 0).unwrap();
            }
            // Known batches are known after the restart, too.
            let [a, b] = [&mut split, &mut restarted].map(|split| batch.commit(split, 0).unwrap());
            prop_assert_eq!((a.rows, a.duplicates), (b.rows, b.duplicates));
            prop_assert_eq!((split.rolling_rows(), split.counts()), (restarted.rolling_rows(), restarted.counts()));
        }
        let [a, b] = [&mut split, &mut restarted].map(|split| split.snapshot(at_end()).unwrap());
        prop_assert_eq!(content(&a.sample), content(&b.sample));
        prop_assert_eq!((a.step, a.epoch, a.rows_seen, a.duplicates), (b.step, b.epoch, b.rows_seen, b.duplicates));
        prop_assert_eq!(a.provisional, b.provisional);
        prop_assert!(Watched::new(options(window, rows + 1), 1).restore(split.save().unwrap(), true).is_err());
    }
}

fn at_end() -> Now {
    at(1000)
}

#[test]
fn memory_stays_bounded() {
    let mut split = Watched::new(options(WindowKind::Pass, 64), 1);
    let mut most = 0;
    for sequence in 1..400 {
        let batch = Logged::without_ids(0, sequence, sequence / 3, 300);
        let staged = batch.stage(&split, 100);
        assert!(staged.bytes() < 64 * 400, "{} bytes staged", staged.bytes());
        split.commit(staged, None, 0, at(0)).unwrap();
        most = most.max(split.bytes());
    }
    // Two open passes of 64 rows, and the records of closed ones.
    assert!(most < 2 * 64 * 400 + 64 * 1024, "{most} bytes");
}

#[test]
fn once_a_sample_is_full_most_of_a_batch_is_not_even_copied() {
    let batch = |sequence| Logged::without_ids(0, sequence, 1, 300);
    for window in [WindowKind::Pass, WindowKind::Recent] {
        let mut split = Watched::new(options(window, 256), 1);
        let alone = batch(100).stage(&split, 100).bytes();
        (1..50).for_each(|sequence| drop(batch(sequence).commit(&mut split, 0).unwrap()));
        assert_eq!(
            split.stage(step(1), Source { client: 0, sequence: 0 }, split.member(0, 0)).bytes(),
            0,
            "staging costs nothing"
        );
        let bytes = batch(100).stage(&split, 100).bytes();
        assert!(bytes < alone / 4, "{window:?}: {bytes} bytes, {alone} into an empty sample");
    }
}

#[test]
fn a_pass_that_lost_rows_is_incomplete() {
    // The rank reports more rows than arrived, as after a restart of the server during the pass.
    for (stated, missing) in [(0, 0), (10, 0), (25, 15)] {
        let mut split = Watched::new(options(WindowKind::Pass, 100), 1);
        Logged::without_ids(0, 1, 1, 10).commit(&mut split, 0).unwrap();
        let closed = {
            let member = split.member(0, 0);
            split.end_pass(ending(1, stated), member, at(1)).unwrap().closed
        };
        assert_eq!((closed[0].rows_missing, closed[0].incomplete()), (missing, missing > 0), "{stated} stated");
    }
}

#[test]
fn a_rolling_sample_without_ids_has_rows_of_one_epoch() {
    let epoch = |epoch: f64| Some(Epoch::new(epoch).unwrap());
    let commit = |split: &mut Watched, sequence: u64, at_step: u64, of: f64, ids: bool| {
        let mut staged = split.stage(step(at_step), Source { client: 1, sequence }, split.member(0, 0));
        let mut tensors = vec![floats(&[sequence as f32, 0.5], DataType::Float32)];
        if ids {
            let bytes: Vec<u8> = [0_u64, 1].iter().flat_map(|id| id.to_le_bytes()).collect();
            tensors.push(Tensor::numbers(TensorName::SampleIds, DataType::UInt64, &[2], bytes.into()).unwrap());
        }
        staged.offer(&Batch::new(tensors, &run(1), NonFinite::Reject).unwrap(), RowNumbers::default()).unwrap();
        split.commit(staged, epoch(of), 0, at(0)).unwrap()
    };
    for window in [WindowKind::Recent, WindowKind::All] {
        let mut split = Watched::new(options(window, 10), 1);
        assert!(commit(&mut split, 1, 1, 0.0, false).closed.is_empty());
        assert!(commit(&mut split, 2, 2, 0.5, false).closed.is_empty(), "half of the same epoch");
        let closed = commit(&mut split, 3, 3, 1.0, false).closed;
        assert_eq!(closed.len(), 1, "the epoch that is over is scored as a whole");
        assert_eq!((closed[0].sample.rows(), closed[0].provisional, closed[0].step), (4, false, step(2)));
        assert_eq!(split.rolling_rows().1, 2);
        // Another rank may be late.
        assert!(commit(&mut split, 4, 2, 0.9, false).closed.is_empty());
        assert_eq!((split.rolling_rows().1, split.counts().late), (2, 2));
    }
    let mut split = Watched::new(options(WindowKind::Recent, 10), 1);
    assert!((0..4).all(|at| commit(&mut split, at + 1, at + 1, at as f64, true).closed.is_empty()));
    assert_eq!(split.rolling_rows().1, 2, "rows with ids replace each other");
}
