//! Passes open and close as ranks say; rolling samples roll; nothing depends on who was first.

use std::time::Duration;

use conceptwatch::batch::{Batch, NonFinite};
use conceptwatch::run::{Concept, Run, RunFields};
use conceptwatch::sample::{
    ClosedPass, CommitError, Committed, RowNumbers, Sample, Sampling, Source, Split, SplitOptions, Staged, Values,
    WindowKind, client_hash,
};
use conceptwatch::tensor::{DataType, Tensor, TensorName};
use proptest::prelude::*;

const NAME: TensorName = TensorName::ConceptActivations;

fn run(world_size: u32) -> Run {
    let concepts = vec![Concept { name: "c".into(), cardinality: 2 }];
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

/// A batch as a client logs it.
#[derive(Clone, Debug)]
struct Logged {
    rank: u32,
    sequence: u64,
    step: u64,
    ids: Option<Vec<u64>>,
    values: Vec<f32>,
}

impl Logged {
    fn with_ids(rank: u32, sequence: u64, step: u64, ids: impl IntoIterator<Item = u64>) -> Self {
        let ids: Vec<u64> = ids.into_iter().collect();
        // The value tells the rank, so that it shows whose value was kept.
        let values = ids.iter().map(|&id| id as f32 + rank as f32 / 8.0).collect();
        Self { rank, sequence, step, ids: Some(ids), values }
    }

    fn without_ids(rank: u32, sequence: u64, step: u64, rows: usize) -> Self {
        let values = (0..rows).map(|row| (sequence * 1000) as f32 + row as f32).collect();
        Self { rank, sequence, step, ids: None, values }
    }

    fn source(&self) -> Source {
        Source { client: client_hash(&format!("rank-{}", self.rank)), sequence: self.sequence }
    }

    fn stage(&self, split: &Split, chunk_rows: usize) -> Staged {
        let mut staged = split.stage(self.step, self.source());
        for first in (0..self.values.len()).step_by(chunk_rows) {
            let range = first..self.values.len().min(first + chunk_rows);
            let mut tensors = vec![floats(&self.values[range.clone()], DataType::Float32)];
            tensors.extend(self.ids.as_ref().map(|ids| sample_ids(&ids[range])));
            let chunk = Batch::new(tensors, &run(1), NonFinite::DropRow).unwrap();
            staged.offer(&chunk, RowNumbers { first: first as u64, listed: &[] }).unwrap();
        }
        staged
    }

    fn commit(&self, split: &mut Split, now: u64) -> Result<Committed, CommitError> {
        let staged = self.stage(split, 7);
        split.commit(staged, Some(self.step as f64 / 10.0), self.rank, 0, seconds(now))
    }
}

fn content(sample: &Sample) -> (Vec<u64>, Vec<u32>) {
    let Some(Values::Float32(values)) = sample.column(NAME).map(|column| column.values()) else {
        panic!("float32 stays float32")
    };
    (sample.ids().to_vec(), values.iter().map(|value| value.to_bits()).collect())
}

fn end(split: &mut Split, step: u64, rank: u32, now: u64) -> Vec<ClosedPass> {
    split.end_pass(step, None, rank, 0, seconds(now)).unwrap().closed
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
        let mut split = Split::new(options(WindowKind::Pass, rows), &run(3));
        let mut plain = Split::new(options(WindowKind::Pass, rows), &run(3));
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
        // One rank after the other, without repeats, on a split of its own.
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
        prop_assert_eq!(closed.sample.as_ref().map(content), expected.sample.as_ref().map(content));
        prop_assert_eq!((closed.rows_seen, closed.incomplete()), (expected.rows_seen, false));
        prop_assert_eq!(closed.sample.is_none(), offered == 0);
        prop_assert_eq!(plain.counts().received, offered);
    }

    #[test]
    fn chunks_make_no_difference(ids in prop::collection::vec(0u64..200, 1..60), chunk in 1usize..70, rows in 1usize..40) {
        let batch = Logged::with_ids(0, 1, 3, ids);
        let close = |chunk_rows| {
            let mut split = Split::new(options(WindowKind::Pass, rows), &run(1));
            let staged = batch.stage(&split, chunk_rows);
            split.commit(staged, None, 0, 0, seconds(0)).unwrap();
            end(&mut split, 3, 0, 1).remove(0)
        };
        let (whole, chunked) = (close(1000), close(chunk));
        prop_assert_eq!(content(whole.sample.as_ref().unwrap()), content(chunked.sample.as_ref().unwrap()));
        prop_assert_eq!(whole.rows_seen, chunked.rows_seen);
    }

    #[test]
    fn batches_staged_at_once_commit_to_the_same_sample_in_any_order(
        batches in prop::collection::vec(prop::collection::vec(0u64..300, 1..30), 1..8), rows in 1usize..40,
        window in prop_oneof![Just(WindowKind::Pass), Just(WindowKind::All), Just(WindowKind::Recent)],
    ) {
        let step = |sequence: u64| if window == WindowKind::Pass { 1 } else { sequence % 3 };
        let logged: Vec<Logged> = (1..).zip(batches).map(|(s, ids)| Logged::with_ids(0, s, step(s), ids)).collect();
        let mut result = Vec::new();
        for (staged_first, reversed) in [(false, false), (true, false), (true, true)] {
            let mut split = Split::new(options(window, rows), &run(1));
            let mut order: Vec<&Logged> = logged.iter().collect();
            if reversed {
                order.reverse();
            }
            if staged_first {
                let staged: Vec<Staged> = order.iter().map(|batch| batch.stage(&split, 5)).collect();
                for staged in staged {
                    split.commit(staged, None, 0, 0, seconds(0)).unwrap();
                }
            } else {
                order.iter().for_each(|batch| drop(batch.commit(&mut split, 0).unwrap()));
            }
            let sample = match window {
                WindowKind::Pass => end(&mut split, 1, 0, 1).remove(0).sample.unwrap(),
                _ => split.snapshot().unwrap().sample,
            };
            result.push(content(&sample));
        }
        prop_assert_eq!(&result[0], &result[1]);
        prop_assert_eq!(&result[0], &result[2]);
    }
}

#[test]
fn a_world_of_one_without_sample_ids_keeps_every_row_once() {
    let mut split = Split::new(options(WindowKind::Pass, 100), &run(1));
    for sequence in 1..=3 {
        let batch = Logged::without_ids(0, sequence, 7, 20);
        assert_eq!(batch.commit(&mut split, 0).unwrap().duplicates, 0);
        assert_eq!(batch.commit(&mut split, 0).unwrap().duplicates, 20, "a retry");
    }
    let closed = end(&mut split, 7, 0, 1).remove(0);
    assert_eq!((closed.rows_seen, closed.duplicates, closed.step, closed.epoch), (60, 60, 7, Some(0.7)));
    assert_eq!(closed.sample.unwrap().rows(), 60);
}

#[test]
fn a_pass_without_rows_closes_without_a_sample() {
    let mut split = Split::new(options(WindowKind::Pass, 100), &run(2));
    assert!(end(&mut split, 1, 0, 0).is_empty());
    let nan = Logged { values: vec![f32::NAN; 3], ..Logged::without_ids(1, 1, 1, 0) };
    let committed = nan.commit(&mut split, 0).unwrap();
    assert_eq!((committed.rows, committed.dropped), (0, 3));
    let closed = end(&mut split, 1, 1, 0).remove(0);
    assert!(closed.sample.is_none() && !closed.incomplete());
    assert_eq!((closed.rows_seen, split.counts().dropped), (0, 3));
}

#[test]
fn padding_of_a_distributed_sampler_falls_away() {
    let mut split = Split::new(options(WindowKind::Pass, 100), &run(2));
    Logged::with_ids(1, 1, 1, [1, 3, 0]).commit(&mut split, 0).unwrap();
    // Rank 1 padded with row 0. Whichever rank comes first, the same one's value is kept.
    assert_eq!(Logged::with_ids(0, 1, 1, [0, 2, 4]).commit(&mut split, 0).unwrap().duplicates, 1);
    end(&mut split, 1, 0, 0);
    let closed = end(&mut split, 1, 1, 0).remove(0);
    assert_eq!((closed.rows_seen, closed.duplicates), (5, 1));
    assert_eq!(closed.sample.unwrap().ids(), [0, 1, 2, 3, 4]);
}

#[test]
fn deadlines_close_passes_that_ranks_leave_open() {
    let mut split = Split::new(options(WindowKind::Pass, 100), &run(3));
    Logged::with_ids(0, 1, 1, 0..5).commit(&mut split, 100).unwrap();
    assert_eq!(split.next_deadline(), Some(seconds(700)), "no rank has ended: the idle deadline");
    Logged::with_ids(0, 2, 1, 5..9).commit(&mut split, 200).unwrap();
    assert_eq!(split.next_deadline(), Some(seconds(800)));
    end(&mut split, 1, 0, 300);
    end(&mut split, 1, 2, 350);
    assert_eq!(split.next_deadline(), Some(seconds(360)), "60 s after the first end");
    assert!(split.close_overdue(seconds(359)).is_empty());
    let closed = split.close_overdue(seconds(360)).remove(0);
    assert_eq!((closed.ranks_missing, closed.rows_seen, closed.incomplete()), (1, 9, true));
    assert_eq!(split.next_deadline(), None);

    Logged::with_ids(0, 3, 2, 0..5).commit(&mut split, 1000).unwrap();
    assert!(split.close_overdue(seconds(1599)).is_empty());
    assert_eq!(split.close_overdue(seconds(1600))[0].ranks_missing, 3);
    assert_eq!((split.counts().passes, split.counts().passes_incomplete), (2, 2));
}

#[test]
fn late_batches_are_refused_and_counted_but_retries_are_harmless() {
    let mut split = Split::new(options(WindowKind::Pass, 3), &run(1));
    let batch = Logged::with_ids(0, 1, 1, 0..5);
    batch.commit(&mut split, 0).unwrap();
    end(&mut split, 1, 0, 0);
    let late = Logged::with_ids(0, 2, 1, 5..9);
    assert_eq!(late.commit(&mut split, 1).unwrap_err(), CommitError::Late { step: 1 });
    let retry = batch.commit(&mut split, 1).unwrap();
    assert_eq!((retry.rows, retry.duplicates, split.counts().late), (5, 5, 4));
    assert!(split.end_pass(1, None, 0, 0, seconds(1)).unwrap().duplicate);
    // An earlier step that never was is no late one: someone evaluates an older checkpoint.
    assert!(Logged::with_ids(0, 3, 0, 0..5).commit(&mut split, 1).is_ok());

    split.new_attempt();
    assert!(late.commit(&mut split, 2).is_ok(), "the run was resumed before this step");
    assert_eq!(split.close_all().iter().map(|pass| (pass.step, pass.rows_seen)).collect::<Vec<_>>(), [(0, 5), (1, 4)]);
}

#[test]
fn an_abandoned_pass_does_not_refuse_the_resumed_job() {
    let mut split = Split::new(options(WindowKind::Pass, 3), &run(1));
    // Two attempts were killed within a pass, the second at an earlier step than the first.
    Logged::with_ids(0, 1, 9, 0..5).commit(&mut split, 0).unwrap();
    split.new_attempt();
    Logged::with_ids(0, 1, 4, 0..5).commit(&mut split, 1).unwrap();
    split.new_attempt();
    let opened = Logged::with_ids(0, 1, 2, 0..5).commit(&mut split, 2).unwrap();
    assert_eq!(opened.closed.iter().map(|pass| (pass.step, pass.incomplete())).collect::<Vec<_>>(), [(9, true)]);
    assert!(Logged::with_ids(0, 2, 9, 0..5).commit(&mut split, 3).is_ok(), "the third attempt reached step 9 itself");
    let pass = end(&mut split, 9, 0, 3).pop().unwrap();
    assert!(!pass.incomplete());
    // Now that it is whole, it is closed for good.
    assert_eq!(Logged::with_ids(0, 3, 9, 5..9).commit(&mut split, 4).unwrap_err(), CommitError::Late { step: 9 });
}

#[test]
fn ranks_that_missed_the_deadline_are_late() {
    let mut split = Split::new(options(WindowKind::Pass, 3), &run(2));
    end(&mut split, 1, 0, 0);
    assert_eq!(split.close_overdue(seconds(60)).len(), 1);
    assert!(split.end_pass(1, None, 0, 0, seconds(61)).unwrap().duplicate);
    assert_eq!(split.end_pass(1, None, 1, 0, seconds(61)).unwrap_err(), CommitError::Late { step: 1 });
}

#[test]
fn one_pass_too_many_closes_the_one_opened_first() {
    let mut split = Split::new(options(WindowKind::Pass, 10), &run(1));
    for (sequence, step) in [(1, 30), (2, 10)] {
        assert!(Logged::with_ids(0, sequence, step, 0..5).commit(&mut split, 0).unwrap().closed.is_empty());
    }
    let closed = Logged::with_ids(0, 3, 20, 0..5).commit(&mut split, 0).unwrap().closed;
    assert_eq!(closed.iter().map(|pass| (pass.step, pass.incomplete())).collect::<Vec<_>>(), [(30, true)]);
    let ended = split.end_pass(40, None, 0, 0, seconds(0)).unwrap().closed;
    assert_eq!(ended.iter().map(|pass| pass.step).collect::<Vec<_>>(), [10, 40]);
    assert!(ended[1].sample.is_none());
}

#[test]
fn wrong_ranks_and_changed_schemas_apply_nothing() {
    let mut split = Split::new(options(WindowKind::Pass, 10), &run(2));
    let source = Source { client: 1, sequence: 1 };
    let stage = |split: &Split, tensors: Vec<Tensor>| {
        let mut staged = split.stage(1, source);
        let chunk = Batch::new(tensors, &run(1), NonFinite::Reject).unwrap();
        staged.offer(&chunk, RowNumbers::default()).unwrap();
        (staged, chunk)
    };
    let (staged, _) = stage(&split, vec![floats(&[1.0], DataType::Float32)]);
    let error = split.commit(staged, None, 2, 0, seconds(0)).unwrap_err();
    assert_eq!(error.to_string(), "rank: 2 came, expected 0 to 1 with world_size 2");
    assert!(split.end_pass(1, None, 2, 0, seconds(0)).is_err());
    assert_eq!((split.next_deadline(), split.counts().refused), (None, 1), "no pass was opened");

    let (mut staged, _) = stage(&split, vec![floats(&[1.0], DataType::Float32)]);
    let (other, wide) = stage(&split, vec![floats(&[1.0], DataType::Float64)]);
    let fault = staged.offer(&wide, RowNumbers::default()).unwrap_err();
    assert_eq!(fault.field, "tensors.concept_activations.dtype");
    assert_eq!(staged.rows(), 1, "the chunk was not taken");
    split.commit(staged, None, 0, 0, seconds(0)).unwrap();
    let error = split.commit(other, None, 0, 0, seconds(0)).unwrap_err();
    assert!(matches!(&error, CommitError::Invalid(fault) if fault.field == "tensors.concept_activations.dtype"));
    assert_eq!((split.counts().received, split.counts().refused), (1, 2));
}

#[test]
fn row_numbers_fit_the_rows() {
    let split = Split::new(options(WindowKind::Pass, 10), &run(1));
    let mut staged = split.stage(1, Source { client: 1, sequence: 1 });
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
        let mut split = Split::new(options(WindowKind::Pass, 8), &run(1));
        let mut staged = split.stage(1, Source { client: 3, sequence: 1 });
        let values: Vec<f32> = rows.iter().map(|&row| row as f32).collect();
        let chunk = Batch::new(vec![floats(&values, DataType::Float32)], &run(1), NonFinite::Reject).unwrap();
        staged.offer(&chunk, RowNumbers { first: 0, listed: rows }).unwrap();
        split.commit(staged, None, 0, left_out, seconds(0)).unwrap();
        assert_eq!(split.counts().left_out, left_out);
        end(&mut split, 1, 0, 0).remove(0)
    };
    let all: Vec<u32> = (0..100).collect();
    let whole = close(&all, 0);
    let kept = content(whole.sample.as_ref().unwrap());
    let rows: Vec<u32> = kept.1.iter().map(|&bits| f32::from_bits(bits) as u32).collect();
    let thinned = close(&rows, 92);
    assert_eq!(content(thinned.sample.as_ref().unwrap()), kept);
    assert_eq!((whole.rows_seen, thinned.rows_seen), (100, 100));
    // Nonsense changes the count and nothing else.
    let nonsense = close(&rows, u64::MAX);
    assert_eq!(content(nonsense.sample.as_ref().unwrap()), kept);
}

#[test]
fn rolling_samples_say_what_changed_and_whether_they_fill() {
    let mut split = Split::new(options(WindowKind::All, 50), &run(1));
    assert!(split.snapshot().is_none());
    Logged::with_ids(0, 1, 1, 0..20).commit(&mut split, 0).unwrap();
    assert_eq!(split.rolling_rows(), (20, 20));
    let first = split.snapshot().unwrap();
    assert_eq!((first.rows_changed, first.filling, first.step, first.epoch), (20, true, 1, Some(0.1)));
    assert_eq!(split.rolling_rows(), (0, 20));
    // Four rows again at a newer step: values change, the panel does not grow.
    let again = Logged { values: vec![0.5; 4], ..Logged::with_ids(0, 2, 2, 0..4) };
    assert_eq!(again.commit(&mut split, 0).unwrap().duplicates, 0);
    let second = split.snapshot().unwrap();
    assert_eq!((second.rows_changed, second.filling, second.rows_seen, second.step), (4, false, 20, 2));
    assert_eq!(content(&second.sample).1[..4], [0.5f32.to_bits(); 4]);
    Logged::with_ids(0, 3, 3, 20..200).commit(&mut split, 0).unwrap();
    let full = split.snapshot().unwrap();
    assert_eq!((full.sample.rows(), full.filling), (50, false));
    // An older step comes late: its rows are known in a newer value.
    Logged::with_ids(0, 4, 1, 0..20).commit(&mut split, 0).unwrap();
    assert_eq!((split.rolling_rows().0, split.snapshot().unwrap().step), (0, 3));
    assert!(end(&mut split, 3, 0, 0).is_empty());
}

#[test]
fn a_recent_window_is_mostly_of_recent_steps() {
    let mut split = Split::new(options(WindowKind::Recent, 500), &run(1));
    for step in 0..200 {
        Logged::with_ids(0, step + 1, step, step * 1000..step * 1000 + 100).commit(&mut split, 0).unwrap();
    }
    let sample = split.snapshot().unwrap().sample;
    // Of a row of weight w the chance to be kept is near 1 − e^{−cw}, with c such that 500 rows are expected.
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
fn a_run_resumed_at_an_earlier_step_rolls_anew() {
    let mut split = Split::new(options(WindowKind::All, 10), &run(1));
    Logged::with_ids(0, 1, 100, 0..50).commit(&mut split, 0).unwrap();
    let in_flight = Logged::with_ids(0, 2, 60, 50..60).stage(&split, 5);
    split.new_attempt();
    split.new_attempt();
    let error = split.commit(in_flight, None, 0, 0, seconds(0)).unwrap_err();
    assert_eq!(error, CommitError::Superseded { step: 60 });
    Logged::with_ids(0, 3, 60, 50..55).commit(&mut split, 0).unwrap();
    let snapshot = split.snapshot().unwrap();
    assert_eq!((snapshot.sample.ids(), snapshot.step), (&[50, 51, 52, 53, 54][..], 60));
    // Resumed where it stopped, it goes on.
    split.new_attempt();
    Logged::with_ids(0, 4, 60, 55..57).commit(&mut split, 0).unwrap();
    assert_eq!(split.snapshot().unwrap().sample.rows(), 7);
}

#[test]
fn memory_stays_bounded_whatever_comes() {
    let mut split = Split::new(options(WindowKind::Pass, 64), &run(1));
    let mut most = 0;
    for sequence in 1..400 {
        let batch = Logged::without_ids(0, sequence, sequence / 3, 300);
        let staged = batch.stage(&split, 100);
        assert!(staged.bytes() < 64 * 400, "{} bytes staged", staged.bytes());
        split.commit(staged, None, 0, 0, seconds(0)).unwrap();
        most = most.max(split.bytes());
    }
    // Two open passes of 64 rows, and what is remembered of closed ones.
    assert!(most < 2 * 64 * 400 + 64 * 1024, "{most} bytes");
}

#[test]
fn once_a_sample_is_full_most_of_a_batch_is_not_even_copied() {
    let batch = |sequence| Logged::without_ids(0, sequence, 1, 300);
    for window in [WindowKind::Pass, WindowKind::Recent] {
        let mut split = Split::new(options(window, 256), &run(1));
        let alone = batch(100).stage(&split, 100).bytes();
        (1..50).for_each(|sequence| drop(batch(sequence).commit(&mut split, 0).unwrap()));
        assert_eq!(split.stage(1, Source { client: 0, sequence: 0 }).bytes(), 0, "staging costs nothing");
        let bytes = batch(100).stage(&split, 100).bytes();
        assert!(bytes < alone / 4, "{window:?}: {bytes} bytes, {alone} into an empty sample");
    }
}

#[test]
fn a_pass_that_lost_rows_is_incomplete() {
    // As after a restart of the server within the pass: the rank reports more rows than arrived.
    for (stated, missing) in [(0, 0), (10, 0), (25, 15)] {
        let mut split = Split::new(options(WindowKind::Pass, 100), &run(1));
        Logged::without_ids(0, 1, 1, 10).commit(&mut split, 0).unwrap();
        let closed = split.end_pass(1, None, 0, stated, seconds(1)).unwrap().closed;
        assert_eq!((closed[0].rows_missing, closed[0].incomplete()), (missing, missing > 0), "{stated} stated");
    }
}
