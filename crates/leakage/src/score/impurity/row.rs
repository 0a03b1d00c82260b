//! One row of the purity matrices: the networks that read one concept.

use std::collections::BTreeMap;
use std::ops::Range;

use ndarray::Array2;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::super::accuracy::{auc, auc_of_classes};
use super::super::holdout::Holdout;
use super::super::term::{Sum, Term};
use crate::nn::adam::Epsilon;
use crate::nn::dense::Activation;
use crate::nn::mlp::Mlp;
use crate::nn::scalar::{self, Batches, Classifier, HIDDEN};
use crate::nn::trainer::{Recipe, Targets, fit, start_as_keras};
use crate::parallel;
use crate::prepare::{KnownRows, Prepared};
use crate::sample::Column;
use crate::sample::priority::priority;
use crate::tensor::TensorName;

/// Why labels of a continuous concept are predicted by no network.
pub const ARE_NUMBERS: &str = "they are not classes";
const EPOCHS: usize = 25;
const BATCH: usize = 512;
const LEARNING_RATE: f32 = 1e-3;

/// The rows on which the networks of one matrix are trained and tested.
pub struct Side {
    pub holdout: Holdout,
    /// The targets by concept.
    pub targets: BTreeMap<usize, Target>,
}

impl Side {
    pub fn new(p: &Prepared, draw: u64) -> Result<Self, String> {
        Self::of(p, draw, &(0..p.concepts()).collect::<Vec<_>>(), &KnownRows::all(p.rows()))
    }

    /// Returns the side of these concepts on rows in which their labels are known.
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
#[derive(Clone, Debug)]
pub struct Row {
    pub learnt: Vec<Result<f64, String>>,
    pub oracle: Vec<Result<f64, String>>,
    pub own: Result<Term, String>,
    pub deviation: Sum,
    pub between: Sum,
}

impl Row {
    /// Returns the row of a concept from which nothing is predicted.
    pub fn without_value(p: &Prepared, i: usize, why: &str) -> Self {
        let why = format!("labels of concept '{}': {why}", p.run().concepts[i].name);
        let cells = vec![Err(why.clone()); p.concepts()];
        let none = || Sum::new(p.rows());
        Self { learnt: cells.clone(), oracle: cells, own: Err(why), deviation: none(), between: none() }
    }

    pub fn new(p: &Prepared, sides: &[Side; 2], i: usize, inputs: [&Inputs; 2]) -> Self {
        let learners = [0, 1].map(|side| Learner::new(inputs[side], p.settings().seed, side as u64, i));
        let mut row = Row::empty(p);
        // Trained side by side, and added up in order.
        let entries: Vec<Entry> = parallel::map(p.concepts(), &|j| Entry::new(p, sides, &learners, (i, j)));
        entries.into_iter().enumerate().for_each(|(j, entry)| row.push(entry, i == j));
        row
    }

    /// Every entry on the rows in which both labels are known, with a choice of test rows of its own.
    pub fn of_known(p: &Prepared, i: usize, learnt: impl Fn(&Holdout) -> Result<Option<Inputs>, String>) -> Self {
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
                    row.push(Entry::new(p, &sides, &learners, (i, j)), i == j);
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

    fn push(&mut self, Entry { learnt, oracle }: Entry, own: bool) {
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
        if own {
            self.own = learnt;
        }
    }
}

/// How well two networks predict concept j from concept i.
struct Entry {
    learnt: Result<Term, String>,
    /// `None` for a concept from itself.
    oracle: Result<Option<Term>, String>,
}

impl Entry {
    fn new(p: &Prepared, sides: &[Side; 2], learners: &[Learner; 2], (i, j): (usize, usize)) -> Self {
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
        Self { learnt, oracle }
    }
}

/// Networks that read one concept.
struct Learner<'i> {
    inputs: &'i Inputs,
    /// The batches of a scalar concept, shared by all its networks.
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
        fit(&mut network, row_major(&self.inputs.train).view(), &targets, &recipe, &mut rng, &mut |_, _| ());
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
        if self.classes == 0 {
            return Err(ARE_NUMBERS.into());
        }
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

/// Class numbers of these concepts; of a continuous one there are none.
fn targets(p: &Prepared, concepts: &[usize], holdout: &Holdout) -> Result<BTreeMap<usize, Target>, String> {
    if p.run().is_all_continuous() {
        return Err("the concepts are continuous and have no classes to predict".into());
    }
    p.column(TensorName::ConceptLabels).ok_or("there are no concept labels")?;
    let target = |i: usize| {
        let (labels, classes) = match p.concept_classes(i) {
            Some(labels) => (labels, p.run().concepts[i].classes() as usize),
            None => (vec![-1; p.rows()], 0),
        };
        let of = |rows: &[usize]| rows.iter().map(|&row| labels[row]).collect();
        (i, Target { train: of(&holdout.train), test: of(&holdout.test), classes })
    };
    Ok(concepts.iter().map(|&i| target(i)).collect())
}

pub fn inputs(column: &Column, block: Range<usize>, holdout: &Holdout) -> Inputs {
    let columns: Vec<Vec<f64>> = block.map(|at| column.floats(at)).collect();
    let of =
        |rows: &[usize]| columns.iter().map(|column| rows.iter().map(|&row| column[row] as f32).collect()).collect();
    Inputs { train: of(&holdout.train), test: of(&holdout.test) }
}

pub fn as_input(target: &Target) -> Inputs {
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

/// Column-major inputs of the rows to train on and to test on.
pub struct Inputs {
    train: Vec<Vec<f32>>,
    test: Vec<Vec<f32>>,
}

/// Class numbers of one true concept.
pub struct Target {
    pub train: Vec<i32>,
    test: Vec<i32>,
    /// 0 of a continuous concept.
    classes: usize,
}
