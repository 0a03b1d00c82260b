//! The union of the parts of a pass is the evaluation that one process makes of all arrivals, to the bit, whatever the
//! number of processes, the order, repeats and cut-offs; and bytes that are no part are refused.

mod bytes;
#[path = "../common/counting.rs"]
mod counting;
mod job;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use conceptwatch::estimate::Settings;
use conceptwatch::prepare::Prepared;
use conceptwatch::sample::{Evaluation, Part, Sampling, Union, union};
use conceptwatch::score::{Wanted, evaluate};
use conceptwatch::tensor::{DataType, Tensor, TensorName};
use proptest::prelude::*;

use job::{Job, content, run, step};

/// Fast scores with their errors, values of concepts and matrices, in digits that tell every bit; those that have a value.
fn scores(evaluation: &Evaluation) -> BTreeMap<&'static str, String> {
    let prepared = Prepared::new(&evaluation.sample, &evaluation.run, Settings::default());
    let named = ["ctl", "icl", "concept_accuracy", "task_accuracy", "ctl_conditional", "icl_conditional"];
    let chosen: Vec<_> = named.iter().filter_map(|id| conceptwatch::score::catalogue::find(id)).collect();
    let found = evaluate(&prepared, Wanted::Named(&chosen), |_, _, _| ControlFlow::Continue(())).unwrap();
    let defined = found.into_iter().filter_map(|(score, outcome)| Some((score.id, format!("{:?}", outcome.value()?))));
    defined.collect()
}

#[test]
fn parts_of_any_number_of_processes_are_one_evaluation() {
    for seed in 0..20 {
        for (ranks, processes, rows) in [(2, 2, 700), (8, 8, 1001), (64, 8, 1500), (1024, 128, 2500)] {
            for with_ids in [true, false] {
                let job = Job { with_ids, ..Job::new(ranks, rows, 256, seed) };
                let batches = job.batches(seed);
                let one = job.in_one_process(&batches);
                let mut parts = job.parts(&job.in_processes(processes, &batches), None);
                // The order and repeats of parts do not matter either.
                let middle = (seed as usize * 7) % parts.len();
                parts.rotate_left(middle);
                parts.push(parts[0].clone());
                let (union, _) = job.exactly(&parts);
                assert!(content(&union) == content(&one), "{ranks} ranks, seed {seed}");
                assert!(union.rows_missing == 1 && union.duplicates > 0 && union.sample.rows() == 256);
                let scores = scores(&union);
                assert_eq!(scores, self::scores(&one), "{ranks} ranks, seed {seed}");
                assert!(scores.len() >= 4, "{scores:?}");
            }
        }
    }
}

#[test]
fn a_sample_that_is_not_full_holds_all_rows_of_all_parts() {
    let job = Job::new(4, 100, 256, 1);
    let batches = job.batches(1);
    let (union, next) = job.exactly(&job.parts(&job.in_processes(4, &batches), None));
    assert!(content(&union) == content(&job.in_one_process(&batches)));
    assert_eq!((union.sample.rows(), union.rows_seen, next), (100, 100, None));
}

#[test]
fn a_pass_without_all_parts_is_incomplete() {
    let job = Job::new(4, 100, 64, 1);
    let parts = job.parts(&job.in_processes(4, &job.batches(1)), None);
    let (union, _) = job.exactly(&parts[..3]);
    assert_eq!((union.ranks_missing, union.incomplete()), (1, true));
    // A process whose ranks ended without any rows has a part, too.
    let mut idle = job.split();
    job.end(&mut idle, 3);
    let idle = idle.part(step(7), None).unwrap();
    assert_eq!((idle.rows(), idle.ended().len()), (0, 1));
    let (union, _) = job.exactly(&[&parts[..3], &[idle.to_bytes()]].concat());
    assert_eq!((union.ranks_missing, union.rows_missing), (0, 26));
    assert!(job.split().part(step(7), None).is_none(), "no pass is open");
}

#[test]
fn ranks_that_send_again_to_another_process_are_counted_once() {
    for seed in 0..5 {
        let job = Job::new(8, 900, 256, seed);
        let batches = job.batches(seed);
        let parts = job.parts(&job.in_processes(4, &batches), None);
        // Two processes are replaced by one that hears all of their ranks again, and their parts are still there.
        let mut again = job.split();
        batches.iter().filter(|sent| sent.rank < 4).for_each(|sent| job.send(&mut again, sent));
        (0..4).for_each(|rank| assert!(job.end(&mut again, rank).is_empty()));
        let mut all = [parts, job.parts(&[again], None)].concat();
        let one = content(&job.in_one_process(&batches));
        for _ in 0..all.len() {
            all.rotate_left(1);
            assert!(content(&job.exactly(&all).0) == one, "seed {seed}");
        }
    }
}

#[test]
fn a_cut_off_from_the_pass_before_is_exact() {
    for (with_ids, kept, rows) in [(true, 256, 3000), (false, 256, 3000), (false, 64, 3000), (false, 1024, 3000)] {
        for seed in 0..20 {
            let job = Job { with_ids, ..Job::new(16, rows, kept, seed) };
            let (first, cutoff) = job.exactly(&job.parts(&job.in_processes(8, &job.batches(seed)), None));
            let next = Job { step: 8, ..job };
            let batches = next.batches(seed + 1);
            let cut = next.parts(&next.in_processes(8, &batches), cutoff);
            let (second, again) = next.exactly(&cut);
            assert!(content(&second) == content(&next.in_one_process(&batches)), "{kept} rows, seed {seed}");
            if with_ids {
                assert_eq!((first.sample.ids(), cutoff), (second.sample.ids(), again));
                let held: usize = cut.iter().map(|bytes| Part::from_bytes(bytes).unwrap().rows()).sum();
                // Padding is held twice.
                assert!((kept..kept + 8).contains(&held), "{held} rows for {kept}");
            }
        }
    }
}

#[test]
fn data_that_have_changed_need_whole_parts() {
    let job = Job::new(16, 3000, 256, 3);
    let (_, cutoff) = job.exactly(&job.parts(&job.in_processes(8, &job.batches(3)), None));
    let mut outcomes = (0, 0);
    let others = [(0, 2000), (0, 4000), (0, 200)].into_iter().chain((1..20).map(|at| (at * 100_000, 3000)));
    for (first, rows) in others {
        let next = Job { first, rows, step: 8, ..job.clone() };
        let batches = next.batches(4);
        let (one, splits) = (next.in_one_process(&batches), next.in_processes(8, &batches));
        match next.union(&next.parts(&splits, cutoff)) {
            Union::Exact { evaluation, .. } => {
                outcomes.0 += 1;
                assert!(content(&evaluation) == content(&one));
            }
            Union::NeedsWhole { rows, cutoff: smallest } => {
                outcomes.1 += 1;
                assert!(rows < 256 && Some(smallest) == cutoff);
                assert!(content(&next.exactly(&next.parts(&splits, None)).0) == content(&one));
                // One process that has not heard of it yet.
                let mut mixed = next.parts(&splits[..7], None);
                mixed.extend(next.parts(&splits[7..], cutoff));
                match next.union(&mixed) {
                    Union::Exact { evaluation, .. } => assert_eq!(content(&evaluation), content(&one)),
                    Union::NeedsWhole { cutoff: smallest, .. } => assert_eq!(Some(smallest), cutoff),
                }
            }
        }
    }
    assert!(outcomes.0 > 3 && outcomes.1 > 3, "{outcomes:?} exact and not");
}

/// Parts of the three processes of a job, each cut or not.
fn three_parts() -> impl Strategy<Value = [Part; 3]> {
    let cutoff = prop_oneof![Just(None), any::<u64>().prop_map(Some), (0..u64::MAX / 4).prop_map(Some)];
    (0..50u64, 20..400u64, 1..80usize, any::<bool>(), prop::array::uniform3(cutoff)).prop_map(
        |(seed, rows, kept, with_ids, cutoffs)| {
            let job = Job { with_ids, batch_rows: 5, ..Job::new(6, rows, kept, seed) };
            let mut splits = job.in_processes(3, &job.batches(seed)).into_iter().zip(cutoffs);
            [0; 3].map(|_| splits.next().and_then(|(split, cutoff)| split.part(step(7), cutoff)).unwrap())
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn joining_is_commutative_associative_and_idempotent([a, b, c] in three_parts()) {
        let join = |a: &Part, b: &Part| a.clone().join(b.clone()).unwrap();
        let all = join(&join(&a, &b), &c);
        prop_assert_eq!(&all, &join(&a, &join(&b, &c)));
        prop_assert_eq!(&all, &join(&join(&c, &a), &b));
        prop_assert_eq!(join(&a, &b), join(&b, &a));
        prop_assert_eq!(&join(&a, &a), &a);
        prop_assert_eq!(&join(&all, &b), &all);
        prop_assert_eq!(&join(&a, &all), &all);
    }

    #[test]
    fn a_part_is_what_its_bytes_say(parts in three_parts()) {
        for part in parts {
            let bytes = part.to_bytes();
            let read = Part::from_bytes(&bytes).unwrap();
            prop_assert_eq!(&read, &part);
            prop_assert_eq!(read.to_bytes(), bytes);
        }
    }
}

#[test]
fn every_kind_of_tensor_is_kept_in_a_part() {
    let mut job = Job::new(2, 3, 8, 0);
    let mut fields = conceptwatch::run::RunFields::clone(&job.run);
    fields.constants.image_size = Some((20, 30));
    fields.missing_concept_labels = true;
    job.run = conceptwatch::run::Run::try_from(fields).unwrap().into();
    use TensorName::*;
    let numbers = |name, dtype, shape: &[u64], values: &[f64]| {
        let bytes = values.iter().flat_map(|&value| match dtype {
            DataType::Float16 => (value as i8 as u8 as u16).to_le_bytes().to_vec(),
            DataType::Float32 => (value as f32).to_le_bytes().to_vec(),
            DataType::Float64 => value.to_le_bytes().to_vec(),
            DataType::Bool => vec![value as u8],
            _ => (value as i32).to_le_bytes().to_vec(),
        });
        Tensor::numbers(name, dtype, shape, bytes.collect::<Vec<u8>>().into()).unwrap()
    };
    let some = |n: usize| (0..n).map(|at| (at * 37 % 11) as f64 / 4.0).collect::<Vec<f64>>();
    let tensors = vec![
        numbers(ConceptActivations, DataType::Float16, &[3, 2, 4], &some(24)),
        numbers(ConceptLabels, DataType::Int32, &[3, 2], &[0.0, 1.0, -1.0, 1.0, 0.0, 0.0]),
        numbers(TaskLabels, DataType::Int32, &[3, 1], &[0.0, 300.0, 65_535.0]),
        numbers(InterventionPredictions, DataType::Int32, &[3, 3], &[-1.0, 0.0, 1.0, 1.0, 1.0, 1.0, -1.0, 5.0, 2.0]),
        numbers(ConceptEmbeddings, DataType::Float64, &[3, 2, 2], &some(12)),
        numbers(ActiveConcepts, DataType::Bool, &[3, 2], &[0.0, 1.0, 1.0, 0.0, 0.0, 1.0]),
        numbers(PartLocations, DataType::Float32, &[3, 1, 2], &[f64::NAN, f64::NAN, 1.0, 2.0, 3.0, 4.0]),
        numbers(LocalizationMaps, DataType::Float32, &[3, 2, 2, 2], &some(24)),
        numbers(DeepFeatures, DataType::Float32, &[3, 5, 2, 3], &some(90)),
        numbers(ShallowFeatures, DataType::Float32, &[3, 2, 2, 3], &some(36)),
        numbers(CrossImageDifference, DataType::Float64, &[3, 2, 2, 2], &some(24)),
        Tensor::texts(PredictedText, &[3], vec!["".into(), "größer".into(), "數".into()]).unwrap(),
    ];
    let evaluation = |job: &Job, alone: bool| {
        let mut split = job.split();
        job.send_tensors(&mut split, 0, tensors.clone());
        let mut closed = job.end(&mut split, 0);
        match alone {
            true => {
                closed.extend(job.end(&mut split, 1));
                closed.remove(0)
            }
            false => {
                let mut idle = job.split();
                job.end(&mut idle, 1);
                job.exactly(&job.parts(&[idle, split], None)).0
            }
        }
    };
    let (one, parts) = (evaluation(&job, true), evaluation(&job, false));
    assert_eq!(one.sample.names().count(), tensors.len());
    assert!(content(&one) == content(&parts));
}

#[test]
fn parts_that_contradict_each_other_are_refused_by_the_field() {
    let job = Job::new(4, 100, 64, 1);
    let part = |job: &Job| {
        let split = &job.in_processes(2, &job.batches(1))[1];
        split.part(step(job.step), None).unwrap()
    };
    let first = part(&job);
    let sampling = |rows, seed| Job { sampling: Sampling { rows, seed }, ..job.clone() };
    let wide = Job { run: run(3, 4), ..job.clone() };
    let cases = [
        (Job { step: 8, ..job.clone() }, "part.step", "got 8, expected 7"),
        (sampling(65, 1), "part.sampling.rows", "got 65, expected 64"),
        (sampling(64, 2), "part.sampling.seed", "got 2, expected 1"),
        (Job { ranks: 8, run: run(2, 8), ..job.clone() }, "part.world_size", "got 8, expected 4"),
        (Job { with_ids: false, ..job.clone() }, "tensors.sample_ids", "is missing"),
        (wide.clone(), "tensors.concept_activations.shape", "got rows of shape [3], expected [2]"),
    ];
    for (other, field, message) in cases {
        let fault = union([first.clone(), part(&other)], job.pass()).unwrap_err();
        assert!(fault.field == field && fault.message.contains(message), "{fault}");
    }
    // Against the run.
    let fault = union([part(&wide)], job.pass()).unwrap_err();
    assert!(fault.field == "tensors.concept_activations.shape", "{fault}");
    let fault = union([], job.pass()).unwrap_err();
    assert_eq!(fault.to_string(), "parts: got none, expected at least one");
}

/// 64 ranks on 8 hosts evaluate 40,000 rows of 112 concepts; 4,096 rows are kept.
#[test]
fn a_cut_off_saves_seven_of_eight_bytes() {
    let job = Job { run: run(112, 64), batch_rows: 64, ..Job::new(64, 40_000, 4096, 0) };
    let bytes = |parts: &[Vec<u8>]| parts.iter().map(Vec::len).sum::<usize>() as u64 / 64;
    let whole = job.parts(&job.in_processes(8, &job.batches(0)), None);
    let (_, cutoff) = job.exactly(&whole);
    let next = Job { step: 8, ..job };
    let batches = next.batches(1);
    let cut = next.parts(&next.in_processes(8, &batches), cutoff);
    assert!(content(&next.exactly(&cut).0) == content(&next.in_one_process(&batches)));
    println!("bytes a rank and pass: {} whole, {} cut", bytes(&whole), bytes(&cut));
    assert!(bytes(&whole) <= 500_000 && bytes(&cut) <= 70_000, "{} {}", bytes(&whole), bytes(&cut));
    assert!(bytes(&cut) * 6 < bytes(&whole));
}
