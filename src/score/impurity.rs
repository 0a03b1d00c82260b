//! How well small networks predict concepts from the activations of others: the Oracle Impurity Score, and the matching
//! of unsupervised concepts.
//!
//! Source: Towards Robust Metrics for Concept Representation Evaluation, definitions 3.1-3.2, Appendices A.3 and A.5,
//! doi:10.1609/aaai.v37i10.26392. The training budget is part of the definition: 25 epochs do not fit everything.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use ndarray::Array2;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::nn::adam::Epsilon;
use crate::nn::dense::Activation;
use crate::nn::mlp::Mlp;
use crate::nn::scalar::{self, Batches, Classifier, HIDDEN};
use crate::nn::trainer::{Recipe, Targets, fit, start_as_keras};
use crate::point::{Outcome, ScoreValue, Undefined};
use crate::prepare::{KnownRows, Prepared};
use crate::run::LabelKind;
use crate::sample::Column;
use crate::sample::priority::priority;
use crate::tensor::TensorName;

use super::accuracy::{auc, auc_of_classes};
use super::holdout::Holdout;
use super::left_out::Over;
use super::matching::{greedy, of_latents};
use super::pairs::{Matrix, mean};
use super::representation::Representation;
use super::term::{Sum, Term, mean_over_concepts};

const EPOCHS: usize = 25;
const BATCH: usize = 512;
const LEARNING_RATE: f32 = 1e-3;
/// Concepts whose embeddings are scored beside activations.
const MOST_BESIDE: usize = 40;

/// (2/k) · ‖π(ĉ) − π(c)‖_F, definition 3.2: twice the root mean square of the entries that have a value. A concept's
/// value is the same of its row.
pub fn ois(p: &Prepared) -> Outcome {
    ois_of(p, Representation::first(p))
}

/// OIS of the embeddings, also where there are activations; then undefined for many concepts, whose k² networks would hold up
/// the other slow scores.
pub fn embedding_ois(p: &Prepared) -> Outcome {
    let k = p.concepts();
    if k > MOST_BESIDE && Representation::first(p) == Representation::Activations {
        return Outcome::undefined(format!(
            "{k} concepts are more than {MOST_BESIDE}: networks that read an embedding for each pair would hold up the other \
             slow scores; ois is of the embeddings in a run without concept_activations"
        ));
    }
    ois_of(p, Representation::Embeddings)
}

fn ois_of(p: &Prepared, representation: Representation) -> Outcome {
    match &*purity_of(p, representation) {
        Err(why) => Outcome::undefined(why),
        Ok(purity) => purity.impurity(&(0..p.concepts()).map(Some).collect::<Vec<_>>(), true),
    }
}

/// Mean over concepts of π_ii(ĉ): how well an activation predicts its own concept; the matrix π(ĉ).
pub fn purity(p: &Prepared) -> Outcome {
    match &*purity_of(p, Representation::first(p)) {
        Err(why) => Outcome::undefined(why),
        Ok(purity) => {
            let own = mean_over_concepts(p, &p.equal_weights(), &purity.own, |term| term.value);
            with_matrix(own, cells(&purity.learnt))
        }
    }
}

/// Mean over i ≠ j of π_ij(c): how well one true concept predicts another; the matrix π(c), whose diagonal is 1.
pub fn oracle_purity(p: &Prepared) -> Outcome {
    let k = p.concepts();
    match &*purity_of(p, Representation::first(p)) {
        Err(why) => Outcome::undefined(why),
        Ok(_) if k < 2 => Outcome::undefined("there is one concept, pairs need at least two"),
        Ok(purity) => {
            let matrix = cells(&purity.oracle);
            let over = Over::pairs(&matrix, first_error(&purity.oracle));
            let left_out = over.left_out.as_ref().map_or(0, |left_out| left_out.pairs as usize);
            mean(matrix, over, || purity.between.standard_error() / (k * (k - 1) - left_out) as f64)
        }
    }
}

/// Mean AUC of predicting true concepts from the learnt ones matched to them (Appendix A.5): of all pairs not yet
/// used, that of highest AUC is matched next. The matrix has 1 where learnt i is matched to true j; with latents, whose
/// rows are those matched to the concepts, it is π of these rows.
pub fn alignment(p: &Prepared) -> Outcome {
    match &*purity_of(p, Representation::first(p)) {
        Err(why) => Outcome::undefined(why),
        Ok(purity) => match purity.matching() {
            Err(why) => Outcome::undefined(why),
            Ok(matching) => {
                let k = matching.len();
                let auc = |(j, i): (usize, &Option<usize>)| purity.learnt[(*i)?][j].as_ref().ok().copied();
                let aucs: Vec<Option<f64>> = matching.iter().enumerate().map(auc).collect();
                let mut matrix: Matrix = vec![vec![Some(0.0); k]; k];
                for (j, i) in matching.iter().enumerate() {
                    match i {
                        Some(i) => matrix[*i][j] = Some(1.0),
                        None => matrix.iter_mut().for_each(|row| row[j] = None),
                    }
                }
                if purity.latents.is_some() {
                    matrix = cells(&purity.learnt);
                }
                let columns = purity.latents.as_ref().unwrap_or(&matching).iter().enumerate();
                let curve = columns.map(|(j, column)| (j as f64, column.map(|column| column as f64))).collect();
                let why = |auc: &Option<f64>| auc.is_none().then(|| first_error(&purity.learnt).unwrap_or_default());
                let (_, over) = Over::concepts(k, &p.equal_weights(), aucs.iter().map(why));
                let count = aucs.iter().flatten().count();
                let value = aucs.iter().flatten().sum::<f64>() / count.max(1) as f64;
                let (per_concept, matrix, left_out) = (Some(aucs), Some(matrix), over.left_out);
                match over.undefined {
                    None => {
                        let curve = Some(curve);
                        Outcome::Value(ScoreValue {
                            value,
                            per_concept,
                            matrix,
                            curve,
                            left_out,
                            ..ScoreValue::default()
                        })
                    }
                    Some(why) => {
                        Outcome::Undefined(Undefined { why, per_concept, matrix, left_out, ..Undefined::default() })
                    }
                }
            }
        },
    }
}

/// OIS of the learnt concepts in the order of the true ones they are matched to.
pub fn aligned_ois(p: &Prepared) -> Outcome {
    match &*purity_of(p, Representation::first(p)) {
        Err(why) => Outcome::undefined(why),
        Ok(purity) => match purity.matching() {
            Err(why) => Outcome::undefined(why),
            Ok(rows) => purity.impurity(&rows, false),
        },
    }
}

/// Both purity matrices, and what the errors of the scores follow from.
struct Purity {
    /// π(ĉ): AUC of predicting c_j from ĉ_i; of the latents that are matched to the concepts.
    learnt: Vec<Vec<Result<f64, String>>>,
    /// The latent of each row of `learnt`, where activations are latents; `None` for a concept whose labels do not vary.
    latents: Option<Vec<Option<usize>>>,
    /// π(c).
    oracle: Vec<Vec<Result<f64, String>>>,
    /// π_ii(ĉ).
    own: Vec<Result<Term, String>>,
    /// Σ D_ij · dD_ij with D = π(ĉ) − π(c).
    deviation: Sum,
    /// Σ over i ≠ j of dπ_ij(c).
    between: Sum,
}

impl Purity {
    /// OIS with row `order[j]` of π(ĉ) in place of row j. The error is that of the test rows, for trained networks.
    fn impurity(&self, order: &[Option<usize>], with_error: bool) -> Outcome {
        let k = order.len();
        let difference = |j: usize, at: usize| match (&self.learnt[order[j]?][at], &self.oracle[j][at]) {
            (Ok(learnt), Ok(oracle)) => Some(learnt - oracle),
            _ => None,
        };
        let matrix: Matrix = (0..k).map(|j| (0..k).map(|at| difference(j, at)).collect()).collect();
        // Sum of squares and number of entries of each row.
        let sums: Vec<(f64, usize)> = matrix
            .iter()
            .map(|row| (row.iter().flatten().map(|d| d * d).sum(), row.iter().flatten().count()))
            .collect();
        let of_row = |&(square, count): &(f64, usize)| (count > 0).then(|| 2.0 * (square / count as f64).sqrt());
        let per_concept = Some(sums.iter().map(of_row).collect());
        let why = [&self.learnt, &self.oracle].into_iter().find_map(|matrix| first_error(matrix));
        let Over { left_out, mut undefined } = Over::pairs(&matrix, why);
        let norm = sums.iter().map(|sum| sum.0).sum::<f64>().sqrt();
        let count: usize = sums.iter().map(|sum| sum.1).sum();
        if count == 0 {
            undefined = Some(why.unwrap_or_default().to_owned());
        }
        let matrix = Some(matrix);
        if let Some(why) = undefined {
            return Outcome::Undefined(Undefined { why, per_concept, matrix, left_out, ..Undefined::default() });
        }
        // k where no entry is left out.
        let size = f64::from(count as u32).sqrt();
        // Where no entry deviates, no row moves one.
        let slope = if norm > 0.0 { 2.0 / (size * norm) } else { 0.0 };
        let standard_error = with_error.then(|| slope * self.deviation.standard_error());
        let value = 2.0 / size * norm;
        Outcome::Value(ScoreValue { value, standard_error, per_concept, matrix, left_out, ..ScoreValue::default() })
    }

    /// The row of `learnt` matched to each true concept; `None` for those that no network could be tested on. Latents are
    /// matched before networks are trained.
    fn matching(&self) -> Result<Vec<Option<usize>>, String> {
        let k = self.learnt.len();
        let mut pairs = Vec::with_capacity(k * k);
        for (i, row) in self.learnt.iter().enumerate() {
            pairs.extend(row.iter().enumerate().filter_map(|(j, auc)| Some((*auc.as_ref().ok()?, i, j))));
        }
        if pairs.is_empty() {
            return Err(first_error(&self.learnt).unwrap_or_default().to_owned());
        }
        if let Some(latents) = &self.latents {
            return Ok(latents.iter().enumerate().map(|(j, latent)| latent.map(|_| j)).collect());
        }
        Ok(greedy(pairs, k))
    }
}

/// Column-major inputs of the rows to train on and to test on.
struct Inputs {
    train: Vec<Vec<f32>>,
    test: Vec<Vec<f32>>,
}

/// Class numbers of one true concept.
struct Target {
    train: Vec<i32>,
    test: Vec<i32>,
    classes: usize,
}

fn purity_of(p: &Prepared, representation: Representation) -> Arc<Result<Purity, String>> {
    let name = match representation {
        Representation::Activations => "purity matrices",
        Representation::Embeddings => "purity matrices of embeddings",
    };
    p.shared(name, || {
        // Each matrix has a split of its own, as in the authors' code: on shared rows their errors partly cancel, and
        // the score comes out lower than the published ones (3.2 where they have 4.7 %).
        let sides = [Side::new(p, 0)?, Side::new(p, 1)?];
        let k = p.concepts();
        let latents = matched_latents(p, representation, &sides[0]);
        let row = |i: usize| -> Result<Row, String> {
            let learnt = |holdout: &Holdout| match (&latents, representation.latents(p)) {
                (Some(latents), Some(column)) => match latents[i] {
                    Some(latent) => Ok(Some(inputs(column, latent..latent + 1, holdout))),
                    None => Ok(None),
                },
                _ => {
                    let (column, block) = representation.columns(p, i)?;
                    Ok(Some(inputs(column, block, holdout)))
                }
            };
            if p.has_unknown_labels() {
                return Ok(Row::of_known(p, i, learnt));
            }
            let Some(learnt) = learnt(&sides[0].holdout)? else { return Ok(Row::unmatched(p, i)) };
            let oracle = as_input(&sides[1].targets[&i]);
            Ok(Row::new(p, &sides, i, [&learnt, &oracle]))
        };
        let rows: Vec<Row> = (0..k).into_par_iter().map(row).collect::<Result<_, _>>()?;
        let mut purity = Purity {
            learnt: Vec::new(),
            latents,
            oracle: Vec::new(),
            own: Vec::new(),
            deviation: Sum::new(p.rows()),
            between: Sum::new(p.rows()),
        };
        for row in rows {
            purity.learnt.push(row.learnt);
            purity.oracle.push(row.oracle);
            purity.own.push(row.own);
            purity.deviation.add_sum(1.0, &row.deviation);
            purity.between.add_sum(1.0, &row.between);
        }
        Ok(purity)
    })
}

/// The latent that stands for each concept, on the rows that networks train on; `None` where activations belong to
/// concepts.
fn matched_latents(p: &Prepared, representation: Representation, side: &Side) -> Option<Vec<Option<usize>>> {
    let column = representation.latents(p)?;
    let labels: Vec<&[i32]> = side.targets.values().map(|target| &target.train[..]).collect();
    Some(of_latents(p, column, &side.holdout.train, &labels))
}

/// What the networks of one matrix train and are tested on.
struct Side {
    holdout: Holdout,
    /// By concept.
    targets: BTreeMap<usize, Target>,
}

impl Side {
    fn new(p: &Prepared, draw: u64) -> Result<Self, String> {
        Self::of(p, draw, &(0..p.concepts()).collect::<Vec<_>>(), &KnownRows::all(p.rows()))
    }

    /// Of these concepts on rows in which their labels are known.
    fn of(p: &Prepared, draw: u64, concepts: &[usize], rows: &KnownRows) -> Result<Self, String> {
        let holdout = Holdout::of_concepts(p, draw, concepts, rows)?;
        let targets = targets(p, concepts, &holdout)?;
        Ok(Self { holdout, targets })
    }

    /// Test AUC of predicting concept `j`, as a term of all rows.
    fn score(&self, learner: &Learner, j: usize) -> Result<Term, String> {
        self.targets[&j].check()?;
        learner.auc(j, &self.targets[&j]).map(|term| self.holdout.spread(&term))
    }
}

/// Row i of both matrices.
struct Row {
    learnt: Vec<Result<f64, String>>,
    oracle: Vec<Result<f64, String>>,
    own: Result<Term, String>,
    deviation: Sum,
    between: Sum,
}

impl Row {
    /// Of a concept whose labels do not vary, so that no latent is matched to it.
    fn unmatched(p: &Prepared, i: usize) -> Self {
        let why = format!("labels of concept '{}': there is one class only", p.run().concepts[i].name);
        let cells = vec![Err(why.clone()); p.concepts()];
        let none = || Sum::new(p.rows());
        Self { learnt: cells.clone(), oracle: cells, own: Err(why), deviation: none(), between: none() }
    }

    fn new(p: &Prepared, sides: &[Side; 2], i: usize, inputs: [&Inputs; 2]) -> Self {
        let learners = [0, 1].map(|side| Learner::new(inputs[side], p.settings().seed, side as u64, i));
        let mut row = Row::empty(p);
        (0..p.concepts()).for_each(|j| row.push(p, sides, &learners, (i, j)));
        row
    }

    /// Every entry on the rows in which both labels are known, with a choice of test rows of its own.
    fn of_known(p: &Prepared, i: usize, learnt: impl Fn(&Holdout) -> Result<Option<Inputs>, String>) -> Self {
        let mut row = Row::empty(p);
        for j in 0..p.concepts() {
            let sides = || -> Result<([Side; 2], [Inputs; 2]), String> {
                let rows = if i == j { p.known(&[i])? } else { p.known(&[i, j])? };
                let sides = [Side::of(p, 0, &[i, j], &rows)?, Side::of(p, 1, &[i, j], &rows)?];
                let learnt = learnt(&sides[0].holdout)?.ok_or("no latent is matched to the first")?;
                let oracle = as_input(&sides[1].targets[&i]);
                Ok((sides, [learnt, oracle]))
            };
            match sides() {
                Ok((sides, inputs)) => {
                    let learners = [0, 1].map(|side| Learner::new(&inputs[side], p.settings().seed, side as u64, i));
                    row.push(p, &sides, &learners, (i, j));
                }
                Err(why) => {
                    let [a, b] = [i, j].map(|at| &p.run().concepts[at].name);
                    let why = match i == j {
                        true => format!("labels of concept '{a}': {why}"),
                        false => format!("labels of concepts '{a}' and '{b}': {why}"),
                    };
                    row.learnt.push(Err(why.clone()));
                    row.oracle.push(Err(why.clone()));
                    if i == j {
                        row.own = Err(why);
                    }
                }
            }
        }
        row
    }

    fn empty(p: &Prepared) -> Self {
        Row {
            learnt: Vec::new(),
            oracle: Vec::new(),
            own: Err(String::new()),
            deviation: Sum::new(p.rows()),
            between: Sum::new(p.rows()),
        }
    }

    /// Adds the entry of (i, j).
    fn push(&mut self, p: &Prepared, sides: &[Side; 2], learners: &[Learner; 2], (i, j): (usize, usize)) {
        p.pause();
        let named = |at: usize| move |why: String| format!("labels of concept '{}': {why}", p.run().concepts[at].name);
        let learnt = sides[0].score(&learners[0], j).map_err(named(j));
        // A concept that does not vary says nothing about others, learnt or not.
        let oracle = match sides[1].targets[&i].check().map_err(named(i)) {
            Err(why) => Err(why),
            // A concept predicts itself: the oracle's diagonal is 1, without training.
            Ok(()) if i == j => Ok(None),
            Ok(()) => sides[1].score(&learners[1], j).map(Some).map_err(named(j)),
        };
        if let (Ok(learnt), Ok(oracle)) = (&learnt, &oracle) {
            let deviation = learnt.value - oracle.as_ref().map_or(1.0, |term| term.value);
            self.deviation.add(deviation, learnt);
            if let Some(oracle) = oracle {
                self.deviation.add(-deviation, oracle);
                self.between.add(1.0, oracle);
            }
        }
        self.learnt.push(learnt.as_ref().map(|term| term.value).map_err(String::clone));
        self.oracle.push(oracle.map(|term| term.map_or(1.0, |term| term.value)));
        if i == j {
            self.own = learnt;
        }
    }
}

/// Networks that read one concept.
struct Learner<'i> {
    inputs: &'i Inputs,
    /// Of a scalar concept: shared by all its networks.
    batches: Option<Batches>,
    seed: u64,
    stream: u64,
}

impl<'i> Learner<'i> {
    fn new(inputs: &'i Inputs, seed: u64, side: u64, i: usize) -> Self {
        let stream = (i as u64) << 32 | side << 31;
        let recipe = scalar::Recipe { epochs: EPOCHS, batch: BATCH, learning_rate: LEARNING_RATE };
        let order = |values: &Vec<f32>| Batches::new(values, recipe, &mut random(seed, stream | 0x7fff_ffff));
        let batches = match &inputs.train[..] {
            [values] => Some(order(values)),
            _ => None,
        };
        Self { inputs, batches, seed, stream }
    }

    /// Test AUC of a network trained to predict target `j`.
    fn auc(&self, j: usize, target: &Target) -> Result<Term, String> {
        let mut rng = random(self.seed, self.stream | j as u64);
        if let (Some(batches), 2) = (&self.batches, target.classes) {
            let labels: Vec<f32> = target.train.iter().map(|&class| f32::from(u8::from(class > 0))).collect();
            let mut network = Classifier::new(&mut rng);
            network.fit(batches, &labels);
            return tested(network.logits(&self.inputs.test[0]), 1, target);
        }
        let outputs = if target.classes > 2 { target.classes } else { 1 };
        let layers = [(HIDDEN, Activation::Relu), (outputs, Activation::Identity)];
        let mut network = Mlp::new(self.inputs.train.len(), &layers, &mut rng);
        start_as_keras(&mut network, &mut rng);
        let targets = if outputs > 1 {
            Targets::Classes(target.train.iter().map(|&class| class as usize).collect())
        } else {
            let flags = target.train.iter().map(|&class| f32::from(u8::from(class > 0))).collect();
            Targets::Flags(Array2::from_shape_vec((target.train.len(), 1), flags).expect("a flag for each row"))
        };
        let recipe = Recipe {
            epochs: EPOCHS,
            batch: BATCH,
            learning_rate: LEARNING_RATE,
            epsilon: Epsilon::Corrected,
            weight_decay: 0.0,
            stop: None,
        };
        fit(&mut network, row_major(&self.inputs.train).view(), &targets, &recipe, &mut rng, &|| ());
        let mut logits = network.outputs(row_major(&self.inputs.test).view());
        if outputs > 1 {
            // Shares of the classes: one class's logit says nothing without the others'.
            for mut row in logits.rows_mut() {
                let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                row.mapv_inplace(|z| (z - largest).exp());
                let total = row.sum();
                row.mapv_inplace(|share| share / total);
            }
        }
        tested(logits.into_iter().collect(), outputs, target)
    }
}

impl Target {
    /// Errors unless both parts have at least two classes.
    fn check(&self) -> Result<(), String> {
        for (rows, purpose) in [(&self.test, "test"), (&self.train, "train")] {
            if rows.iter().all(|class| *class == rows[0]) {
                return Err(format!("there is one class only among the {} rows to {purpose} on", rows.len()));
            }
        }
        Ok(())
    }
}

fn tested(outputs: Vec<f32>, width: usize, target: &Target) -> Result<Term, String> {
    if outputs.iter().any(|z| !z.is_finite()) {
        return Err("a network's outputs left the range of numbers".into());
    }
    let outputs: Vec<f64> = outputs.into_iter().map(f64::from).collect();
    let tested = if width == 1 {
        let present: Vec<Option<bool>> = target.test.iter().map(|&class| Some(class > 0)).collect();
        auc(&outputs, &present)
    } else {
        auc_of_classes(&outputs, width, &target.test)
    };
    tested.map_err(|why| format!("{why} among the {} rows to test on", target.test.len()))
}

/// Class numbers of these concepts.
fn targets(p: &Prepared, concepts: &[usize], holdout: &Holdout) -> Result<BTreeMap<usize, Target>, String> {
    if p.run().concept_label_kind == LabelKind::Continuous {
        return Err("the concepts are continuous and have no classes to predict".into());
    }
    let column = p.column(TensorName::ConceptLabels).ok_or("there are no concept labels")?;
    let target = |i: usize| {
        let labels = column.integers(i).ok_or("the concept labels are not classes")?;
        let of = |rows: &[usize]| rows.iter().map(|&row| labels[row]).collect();
        let classes = p.run().concepts[i].classes() as usize;
        Ok((i, Target { train: of(&holdout.train), test: of(&holdout.test), classes }))
    };
    concepts.iter().map(|&i| target(i)).collect()
}

fn inputs(column: &Column, block: Range<usize>, holdout: &Holdout) -> Inputs {
    let columns: Vec<Vec<f64>> = block.map(|at| column.floats(at)).collect();
    let of =
        |rows: &[usize]| columns.iter().map(|column| rows.iter().map(|&row| column[row] as f32).collect()).collect();
    Inputs { train: of(&holdout.train), test: of(&holdout.test) }
}

fn as_input(target: &Target) -> Inputs {
    let of = |classes: &[i32]| vec![classes.iter().map(|&class| class as f32).collect()];
    Inputs { train: of(&target.train), test: of(&target.test) }
}

fn row_major(columns: &[Vec<f32>]) -> Array2<f32> {
    Array2::from_shape_fn((columns[0].len(), columns.len()), |(row, column)| columns[column][row])
}

/// A generator of its own for every network, so that none depends on what was trained before it.
fn random(seed: u64, stream: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(priority(seed, stream))
}

fn cells(matrix: &[Vec<Result<f64, String>>]) -> Matrix {
    matrix.iter().map(|row| row.iter().map(|cell| cell.as_ref().ok().copied()).collect()).collect()
}

fn first_error(matrix: &[Vec<Result<f64, String>>]) -> Option<&str> {
    matrix.iter().flatten().find_map(|cell| cell.as_ref().err().map(String::as_str))
}

fn with_matrix(outcome: Outcome, matrix: Matrix) -> Outcome {
    match outcome {
        Outcome::Value(value) => Outcome::Value(ScoreValue { matrix: Some(matrix), ..value }),
        Outcome::Undefined(undefined) => Outcome::Undefined(Undefined { matrix: Some(matrix), ..undefined }),
    }
}
