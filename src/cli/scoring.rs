//! Scores one batch with all that follows from them, for commands that have it in memory.

use std::collections::HashSet;
use std::ops::ControlFlow;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use information::{Kind, Settings};
use leakage::batch::Batch;
use leakage::diagnosis::{Assessment, Verdict, diagnose, verdict};
use leakage::field_error::in_short;
use leakage::point::{Outcome, Point};
use leakage::prepare::Prepared;
use leakage::repeats::{distinct_rows, remark};
use leakage::run::Run;
use leakage::sample::{Sample, repeated_ids};
use leakage::score::catalogue::{CATALOGUE, CATALOGUE_VERSION, Score, find};
use leakage::score::{Wanted, evaluate, test};
use leakage::tensor::TensorName;
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

#[derive(Args)]
pub struct Scoring {
    /// Compute only these scores, by id. A score whose arrays are absent is undefined; the reason names the array.
    #[arg(long, value_delimiter = ',', value_name = "ID,ID")]
    scores: Vec<String>,
    /// tie_aware takes the expectation over all orders of equal distances; published adds noise, as the authors' code does.
    #[arg(long, default_value = Kind::TieAware.name(), value_parser = estimator())]
    estimator: Kind,
    /// Number of neighbours of the estimators.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    neighbours: u16,
    /// Number of repeats of the published estimator, each with its own noise.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,
    /// Seed of the noise.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Number of threads; the result does not depend on it [default: all cores]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// MiB that the arrays and scoring may take. A file that needs more is refused; a score that does is undefined
    /// [default: half of the memory that is available, at most 4096]
    #[arg(long, value_parser = clap::value_parser!(u32).range(8..=1 << 24), value_name = "MIB")]
    memory_mib: Option<u32>,
    /// Omit the permutation tests of conditional leakage, which give p_value, per_concept_q and matrix_q.
    #[arg(long)]
    no_tests: bool,
}

/// The scores of a batch, and what affects how they are read.
pub struct Scored {
    pub settings: Settings,
    /// The rows that were scored.
    pub sample: Sample,
    /// In catalogue order; empty where the batch has the arrays of none.
    pub scores: Vec<(&'static Score, Outcome)>,
    pub tie_fraction: f64,
    /// Rows that are copies of scored ones.
    pub repeated: usize,
    /// The number of rows in which each concept's label is known; empty where all are.
    pub concept_rows: Vec<u64>,
    pub warnings: Vec<String>,
}

/// Ids that are named where one is unknown.
const MOST_ALIKE: usize = 3;

/// Why a batch has no scores.
pub const TOO_FEW: &str = "expected at least two of concept_activations, concept_labels and task_labels";

/// Learns which score comes next, and may break off.
pub type BeforeEach<'a> = dyn Fn(&str) -> ControlFlow<()> + Sync + 'a;

impl Scoring {
    /// Bytes that the arrays and scoring may take.
    pub fn memory(&self) -> usize {
        self.memory_mib.map_or_else(half_of_available, |mebibytes| (mebibytes as usize) << 20)
    }

    /// Errors where a score that is to be computed does not exist.
    pub fn named(&self) -> Result<Vec<&'static Score>, String> {
        named(&self.scores)
    }

    /// Scores a batch within `memory` bytes. Without scores where `before_each` breaks off.
    pub fn score(&self, run: &Run, batch: Batch, memory: usize, before_each: &BeforeEach) -> Result<Scored, String> {
        let named = self.named()?;
        let ids_remark = repeated(&batch);
        let sample = Sample::of_batch(&batch, run);
        drop(batch);
        let distinct = distinct_rows(&sample, run);
        let (repeated, relabelled) = distinct.as_ref().map_or((0, 0), |of| (of.repeated, of.relabelled));
        let sample = match distinct {
            Some(distinct) => sample.gather(&distinct.rows),
            None => sample,
        };
        let settings = Settings {
            kind: self.estimator,
            neighbours: usize::from(self.neighbours),
            repeats: usize::from(self.repeats),
            seed: self.seed,
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads.map_or(0, usize::from)).build();
        let pool = pool.map_err(|e| format!("--threads: {e}"))?;
        let prepared = Prepared::new(&sample, run, settings).with_memory(memory);
        let wanted = if self.scores.is_empty() { Wanted::Available } else { Wanted::Named(&named) };
        let (scores, tie_fraction) = pool.install(|| {
            let show = |at: usize, total: usize, what: &str| before_each(&format!("{}/{total} {what}", at + 1));
            let scored = |at: usize, total: usize, score: &Score| show(at, total, score.id);
            let mut scores = evaluate(&prepared, wanted, scored).unwrap_or_default();
            let is_tested = |score: &Score| !self.no_tests && scores.iter().any(|(other, _)| other.id == score.id);
            let shown = |at: usize, total: usize, score: &Score| show(at, total, &format!("test of {}", score.id));
            for (tested, significance) in test(&prepared, is_tested, shown).unwrap_or_default() {
                let found = scores.iter_mut().find(|(score, _)| score.id == tested.id);
                found.into_iter().for_each(|(_, outcome)| outcome.add(significance.clone()));
            }
            (scores, prepared.tie_fraction())
        });
        let warnings = ids_remark.into_iter().chain(prepared.warnings());
        let warnings = warnings.chain(remark(repeated, relabelled, sample.rows() as u64)).collect();
        let concept_rows = prepared.concept_rows();
        drop(prepared);
        Ok(Scored { settings, sample, scores, tie_fraction, repeated: repeated as usize, concept_rows, warnings })
    }
}

impl Scored {
    /// The only evaluation of a run.
    pub fn point(&self) -> Point {
        Point {
            rows: self.sample.rows() as u64,
            rows_seen: self.sample.rows() as u64 + self.repeated as u64,
            repeated_rows: self.repeated as u64,
            concept_rows: self.concept_rows.clone(),
            tie_fraction: self.tie_fraction,
            warnings: self.warnings.clone(),
            estimator: self.settings.kind.name().to_owned(),
            neighbours: self.settings.neighbours as u32,
            seed: self.settings.seed,
            catalogue_version: CATALOGUE_VERSION,
            scores: self.scores.iter().map(|(score, outcome)| (score.id.to_owned(), outcome.clone())).collect(),
            ..Point::default()
        }
    }
}

/// The verdict on a run whose only evaluation this is.
pub fn verdict_on(run: &Run, point: &Point) -> Option<Verdict> {
    // It has no step.
    verdict(run, std::slice::from_ref(point), true, true, None).map(|verdict| Verdict { since: None, ..verdict })
}

/// The verdict with all that it rests on.
pub fn assessment_on(run: &Run, point: &Point) -> Option<Assessment> {
    Some(Assessment::new(verdict_on(run, point)?, diagnose(run, std::slice::from_ref(point))?))
}

/// Reads an estimator's name; help and errors list the possible ones.
fn estimator() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.map(Kind::name)).try_map(|name| name.parse::<Kind>())
}

/// The remark that `sample_ids` do not identify rows.
fn repeated(batch: &Batch) -> Option<String> {
    let ids = batch.tensor(TensorName::SampleIds)?;
    let distinct = batch.kept_rows().filter_map(|row| ids.id(row)).collect::<HashSet<u64>>().len() as u64;
    repeated_ids(batch.rows() as u64 - distinct, distinct)
}

/// Returns the memory of this machine, as the system tells it at this moment.
pub fn system_memory() -> System {
    System::new_with_specifics(RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram()))
}

/// Half of the memory that is available to this process, at most 4 GiB.
fn half_of_available() -> usize {
    let system = system_memory();
    let of_group = system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory);
    let available = system.available_memory().min(of_group);
    usize::try_from(available / 2).unwrap_or(usize::MAX).clamp(64 << 20, 4 << 30)
}

/// The scores of the ids of `--scores`. Errors name the ids that are most like one that is unknown.
pub fn named(ids: &[String]) -> Result<Vec<&'static Score>, String> {
    let named = |id: &String| {
        find(id).ok_or_else(|| {
            let mut known: Vec<&str> = CATALOGUE.iter().map(|score| score.id).collect();
            known.sort_by(|a, b| strsim::jaro_winkler(id, b).total_cmp(&strsim::jaro_winkler(id, a)));
            let like = known[..MOST_ALIKE].join(", ");
            format!("--scores: got '{}', expected a score of docs/scores.md, such as {like}", in_short(id))
        })
    };
    ids.iter().map(named).collect()
}
