//! Evaluations of a rolling window that refresh only some of the pairs.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use leakage::pair_cache::refresh::{least, most_ticks};
use leakage::pair_cache::{Budgeted, Kept};
use leakage::point::ScoreValue;
use leakage::prepare::Prepared;
use leakage::score::catalogue::Cost;
use leakage::score::{Influences, Wanted, evaluate};

use super::*;

const K: usize = 12;
const PAIRS: usize = K * (K - 1) / 2;
/// Scores of families that are refreshed by pairs, by concepts, and by concepts beside their pairs.
const BY_PAIRS: [&str; 2] = ["icl", "icl_excess"];
const BY_CONCEPTS: [&str; 7] = [
    "icl_label",
    "icl_label_excess",
    "icl_conditional",
    "embedding_ic",
    "embedding_ic_positive",
    "embedding_ic_negative",
    "embedding_ic_conditional",
];
const BESIDE: [&str; 5] = [
    "embedding_ct",
    "embedding_self",
    "embedding_self_positive",
    "embedding_self_negative",
    "embedding_ct_conditional",
];

type Scores = BTreeMap<String, Outcome>;

/// A split whose ticks are ten seconds apart.
struct Ticking {
    kept: Mutex<Kept>,
    tick: u64,
    settings: Settings,
}

/// The result of a tick.
struct Tick {
    scores: Scores,
    /// Scores used for trends whose influences are known.
    influences: Vec<String>,
    pairs_left: u64,
    /// In calls of `pause`: one for each pair, and one for each neighbour search of an embedding.
    spent: f64,
}

impl Ticking {
    fn new(settings: Settings) -> Self {
        Self { kept: Mutex::default(), tick: 0, settings }
    }

    /// Evaluates a sample; the CPU time is counted in calls of `pause`.
    fn tick(&mut self, columns: &Columns, allowance: f64) -> Tick {
        let (sample, run) = (columns.sample(), columns.run());
        self.tick += 1;
        self.kept.lock().unwrap().begin(sample.rows());
        let pauses = AtomicU64::new(0);
        let pause = || {
            pauses.fetch_add(1, Ordering::Relaxed);
        };
        let spent = || pauses.load(Ordering::Relaxed) as f64;
        let time = 10.0 * self.tick as f64;
        let budgeted = Budgeted { kept: &self.kept, time, allowance, spent: &spent };
        let prepared = Prepared::new(&sample, &run, self.settings).with_pause(&pause).with_budget(budgeted);
        let scores = evaluate(&prepared, Wanted::AvailableAt(Cost::AT_ONCE), |_, _, _| ControlFlow::Continue(()));
        let scores = scores.unwrap().into_iter().map(|(score, outcome)| (score.id.to_owned(), outcome)).collect();
        let influences = Influences::of(&prepared, sample.ids(), Cost::AT_ONCE);
        let influences = influences.change_errors(&influences).into_iter().map(|(id, _)| id).collect();
        let mut kept = self.kept.lock().unwrap();
        kept.end(spent());
        Tick { scores, influences, pairs_left: kept.pairs_left(), spent: spent() }
    }

    fn fresh(&self, columns: &Columns) -> Scores {
        let mut scores = columns.available(self.settings);
        scores.retain(|id, _| Cost::AT_ONCE.contains(&find(id).cost));
        scores
    }
}

fn find(id: &str) -> &'static leakage::score::catalogue::Score {
    leakage::score::catalogue::find(id).unwrap()
}

fn value_of<'a>(scores: &'a Scores, id: &str) -> &'a ScoreValue {
    scores[id].value().unwrap_or_else(|| panic!("{id} is undefined: {:?}", scores[id]))
}

/// The samples of successive ticks: the same rows, with changed activations for some of them.
fn moved(columns: &Columns, seed: u64, moves_of: impl Fn(usize) -> bool) -> Columns {
    let mut random = random(seed);
    let moves = gaussians(columns.rows * columns.k() * 3, &mut random);
    let change = |row: usize, at: usize, value: f64| {
        value + if moves_of(row) { 0.3 * moves[row * columns.k() * 3 + at] } else { 0.0 }
    };
    let moving = [
        TensorName::ConceptActivations,
        TensorName::ConceptEmbeddings,
        TensorName::PositiveEmbeddings,
        TensorName::NegativeEmbeddings,
    ];
    moving.into_iter().fold(columns.clone(), |columns, name| columns.changed(name, change))
}

fn same_values(a: &Scores, b: &Scores) {
    for (id, expected) in b {
        let bits = |outcome: &Outcome| {
            let cells = outcome.matrix().unwrap_or_default().iter().flatten();
            let parts = outcome.per_concept().unwrap_or_default().iter().chain(cells);
            let all = parts.copied().chain([outcome.value().map(|value| value.value)]);
            all.map(|number| number.map(f64::to_bits)).collect::<Vec<_>>()
        };
        assert_eq!(bits(&a[id]), bits(expected), "{id}");
    }
}

#[test]
fn with_enough_time_every_bit_equals_an_evaluation_without_kept_values() {
    let start = model(150, K, 0.6, 1);
    for settings in [TIE_AWARE, Settings { repeats: 2, ..PUBLISHED }] {
        let mut ticking = Ticking::new(settings);
        // The second may take 1.5 times what the first took.
        let first = ticking.tick(&start, 0.0);
        assert_eq!(first.scores, ticking.fresh(&start), "the first evaluation computes everything");
        let after = moved(&start, 2, |_| true);
        let second = ticking.tick(&after, 1.5 * first.spent);
        assert_eq!(second.scores, ticking.fresh(&after));
        assert_eq!((first.pairs_left, second.pairs_left), (0, 0));
        assert_eq!(second.influences, TRENDS);
        // In another order: some pairs first, and the rest in the tick without a limit.
        let later = moved(&start, 3, |_| true);
        assert!(ticking.tick(&moved(&start, 4, |_| true), 0.0).pairs_left > 0);
        assert_eq!(ticking.tick(&later, f64::INFINITY).scores, ticking.fresh(&later));
    }
}

#[test]
fn without_time_a_sixteenth_is_refreshed_and_the_rest_states_its_age() {
    let mut ticking = Ticking::new(TIE_AWARE);
    let (before, now) = (model(150, K, 0.6, 1), moved(&model(150, K, 0.6, 1), 2, |_| true));
    ticking.tick(&before, 0.0);
    let tick = ticking.tick(&now, 0.0);
    let [old, new] = [&before, &now].map(|columns| ticking.fresh(columns));
    let check = |id: &str, fresh_cells: usize| {
        let value = value_of(&tick.scores, id);
        let (ages, matrix) = (value.ages.as_ref().unwrap(), value.matrix.as_ref().unwrap());
        assert_eq!(value.age, Some(10.0), "{id}");
        let mut fresh = 0;
        for (i, j) in (0..K).flat_map(|i| (0..K).map(move |j| (i, j))) {
            let of_this = ages[i][j] == 0.0;
            assert!(of_this || ages[i][j] == 10.0, "{id}");
            let expected = value_of(if of_this { &new } else { &old }, id).matrix.as_ref().unwrap()[i][j];
            assert_eq!(matrix[i][j], expected, "{id} of {i}, {j}");
            fresh += usize::from(of_this && i != j);
        }
        assert_eq!(fresh, fresh_cells, "{id}");
        let cells: Vec<f64> =
            (0..K * K).filter(|at| at / K != at % K).map(|at| matrix[at / K][at % K].unwrap()).collect();
        assert!((value.value - mean(&cells)).abs() < 1e-12, "the value is the mean over all pairs, {id}");
    };
    BY_PAIRS.iter().for_each(|id| check(id, 2 * least(PAIRS)));
    BY_CONCEPTS.iter().for_each(|id| check(id, least(K) * (K - 1)));
    for id in BESIDE {
        let value = value_of(&tick.scores, id);
        assert_eq!((value.age, value.ages.is_none()), (Some(10.0), true), "{id}");
        let of = |scores: &Scores| value_of(scores, id).per_concept.clone().unwrap();
        let kept = of(&tick.scores).into_iter().zip(of(&old)).filter(|(a, b)| a == b).count();
        assert_eq!(kept, K - least(K), "{id}");
    }
    let left = (PAIRS - least(PAIRS)) + 6 * (K - least(K)) * (K - 1);
    assert_eq!(tick.pairs_left, left as u64);
    assert_eq!(tick.influences, ["ctl_excess", "ctl_conditional"], "rows of another sample are not paired");
    // Scores without pairs are computed on this sample.
    for (id, outcome) in new.iter().filter(|(_, outcome)| outcome.matrix().is_none()) {
        assert!(BESIDE.contains(&id.as_str()) || tick.scores[id] == *outcome, "{id}");
    }
}

#[test]
fn the_error_is_that_of_the_mean_over_the_pairs_of_this_sample() {
    // With three concepts, a tick without time refreshes one pair, or the pairs of one concept.
    let columns = model(200, 3, 0.6, 5);
    let mut ticking = Ticking::new(TIE_AWARE);
    ticking.tick(&columns, 0.0);
    let tick = ticking.tick(&columns, 0.0);
    let ages = value_of(&tick.scores, "icl").ages.clone().unwrap();
    let pair = [(0, 1), (0, 2), (1, 2)].into_iter().find(|&(i, j)| ages[i][j] == 0.0).unwrap();
    let chosen = |values: &[f64]| -> Vec<f64> { values.chunks(3).flat_map(|row| [row[pair.0], row[pair.1]]).collect() };
    let two = [TensorName::ConceptActivations, TensorName::ConceptLabels]
        .into_iter()
        .fold(Columns::new(200, 2), |two, name| two.with(name, &[2], chosen(&columns.arrays[&name].1)));
    let alone = standard_error(&two.score("icl"));
    assert!((standard_error(&tick.scores["icl"]) - alone).abs() < 1e-9 * alone);
    let all = standard_error(&columns.score("icl"));
    assert!((all - alone).abs() > 1e-3 * alone, "the error of these pairs differs from that of all pairs");
    // For weighted embeddings, one concept: its error about the task is that of its one term.
    let all = standard_error(&columns.score("embedding_ct"));
    assert!(standard_error(&tick.scores["embedding_ct"]) > 1.2 * all);
}

#[test]
fn while_the_sample_stays_the_same_every_pair_is_refreshed_within_the_stated_ticks() {
    let mut ticking = Ticking::new(TIE_AWARE);
    let mut columns = model(120, K, 0.6, 1);
    ticking.tick(&columns, 0.0);
    for seed in 2..6 {
        columns = moved(&columns, seed, |_| true);
        ticking.tick(&columns, 0.0);
    }
    let bound = most_ticks(PAIRS, least(PAIRS)).max(most_ticks(K, least(K)));
    assert!(bound <= 32);
    let fresh = ticking.fresh(&columns);
    for tick in 1..=2 * bound {
        let found = ticking.tick(&columns, 0.0).scores;
        let oldest = found.values().filter_map(Outcome::age).fold(0.0, f64::max);
        assert!(oldest <= 10.0 * (bound as f64 - 1.0), "{oldest} s after tick {tick}");
        if tick >= bound {
            same_values(&found, &fresh);
        }
    }
}

#[test]
fn a_tick_uses_its_allowance_and_each_family_gets_its_part() {
    let mut ticking = Ticking::new(TIE_AWARE);
    let columns = model(120, K, 0.6, 1);
    let first = ticking.tick(&columns, 0.0);
    // Half of the time of the pairs, plus that of the other scores.
    let of_pairs = (PAIRS + 2 * K * (K - 1) + 4 * K) as f64;
    for seed in 2..8 {
        let allowance = first.spent - of_pairs / 2.0;
        let tick = ticking.tick(&moved(&columns, seed, |_| true), allowance);
        assert!((tick.spent / allowance - 1.0).abs() < 0.1, "{} of {allowance}", tick.spent);
        // A concept's embedding counts as one pair here: too little to separate its part from the others' last batches.
        for id in ["icl", "icl_label", "icl_conditional"] {
            let ages = value_of(&tick.scores, id).ages.clone().unwrap();
            let fresh = ages.iter().flatten().filter(|age| **age == 0.0).count() - K;
            let share = fresh as f64 / (K * (K - 1)) as f64;
            assert!((0.35..0.65).contains(&share), "{id}: {share}");
        }
    }
}

#[test]
fn nothing_is_kept_across_samples_of_another_size_or_other_inputs() {
    let mut ticking = Ticking::new(TIE_AWARE);
    let columns = model(150, K, 0.6, 1);
    ticking.tick(&columns, 0.0);
    let fewer = model(149, K, 0.6, 1);
    assert_eq!(ticking.tick(&fewer, 0.0).scores, ticking.fresh(&fewer), "another N");
    // Without task labels, the units of embeddings differ, and the pairs of activations stay the same.
    let unlabelled = fewer.clone().without(TensorName::TaskLabels);
    let tick = ticking.tick(&unlabelled, 0.0).scores;
    assert_eq!(tick["embedding_ic"], ticking.fresh(&unlabelled)["embedding_ic"]);
    assert!(tick["icl"].age().is_some());
}

#[test]
fn a_pair_without_a_value_is_left_out_until_it_has_one_again() {
    let mut ticking = Ticking::new(TIE_AWARE);
    let columns = model(120, 4, 0.6, 1);
    ticking.tick(&columns, 0.0);
    let constant =
        columns.clone().changed(TensorName::ConceptActivations, |_, at, x| if at % 4 == 2 { 0.0 } else { x });
    let ticks = most_ticks(6, least(6));
    for _ in 0..ticks {
        ticking.tick(&constant, 0.0);
    }
    let scores = ticking.tick(&constant, 0.0).scores;
    let (icl, left_out) = (value_of(&scores, "icl"), scores["icl"].left_out().unwrap());
    assert!(left_out.why.contains("constant") && icl.age.is_some() && icl.ages.is_some());
    assert_eq!((&left_out.concepts[..], left_out.pairs), (&[2][..], 6));
    let cells = icl.matrix.as_ref().unwrap();
    let with_value: Vec<f64> = (0..16).filter(|at| at / 4 != at % 4).filter_map(|at| cells[at / 4][at % 4]).collect();
    assert!((icl.value - mean(&with_value)).abs() < 1e-12 && with_value.len() == 6);
    for _ in 0..ticks {
        ticking.tick(&columns, 0.0);
    }
    same_values(&ticking.tick(&columns, 0.0).scores, &ticking.fresh(&columns));
}
