//! `conceptwatch demo`: two real models, one that leaks and one that does not, watched while they train.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::runtime::Runtime;

use crate::server::client::{Job, class_tensor, float_tensor};
use crate::server::peers::Remote;
use crate::server::proto;
use crate::server::proto::run_outcome::{Finished, Kind, StoppedOnAdvice};
use leakage::limits::INTERVAL;
use leakage::nn::bottleneck::{Bottleneck, task_accuracy};
use leakage::nn::rows::Rows;
use leakage::nn::tabular_toy::{Split, TabularToy};
use leakage::run::{Concept, Run, RunFields};
use leakage::tensor::TensorName;

use super::failure::Failure;
use super::in_process::{InProcess, Port};
use super::logs;
use super::options::{DEFAULT_ADDRESSES, ServeOptions};
use super::terminal::print;

/// Watch two concept bottleneck models train
///
/// Trains a model with strong concept supervision (lambda 5) and one with almost none (lambda 0.01) on TabularToy, with
/// a sidecar in this process.
#[derive(Args)]
pub struct DemoOptions {
    /// Epochs of each model.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    epochs: u32,
    /// Correlation of the concepts' latent variables.
    #[arg(long, default_value_t = 0.25)]
    delta: f64,
    /// Seed of the data and of the models.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Keep training when the sidecar advises to stop, to see what follows.
    #[arg(long)]
    ignore_advice: bool,
    /// Keep serving the page when training is over.
    #[arg(long)]
    keep_open: bool,
    /// Where the models send to [default: 127.0.0.1:7800, or a free port where that is taken]
    #[arg(long, value_name = "HOST:PORT")]
    grpc_address: Option<SocketAddr>,
    /// The page [default: 127.0.0.1:7801, or a free port where that is taken]
    #[arg(long, value_name = "HOST:PORT")]
    http_address: Option<SocketAddr>,
}

/// λ of the two models: strong concept supervision, and almost none.
const LAMBDAS: [f32; 2] = [5.0, 0.01];
/// Longest wait for the scores of a pass.
const PATIENCE: Duration = Duration::from_secs(20);
/// Epochs between two lines where the output is not a terminal.
const EVERY: u32 = 10;

pub fn run(options: &DemoOptions) -> Result<(), Failure> {
    let started = Instant::now();
    logs::start("warn", false)?;
    let toy = TabularToy::new(options.delta)?;
    let runtime = Runtime::new()?;
    let defaults = ServeOptions::default();
    let [default_grpc, default_http] = DEFAULT_ADDRESSES;
    let port = |chosen: Option<SocketAddr>, default| chosen.map_or(Port::Preferably(default), Port::At);
    let ports = [port(options.grpc_address, default_grpc), port(options.http_address, default_http)];
    let sidecar = InProcess::start(&runtime, defaults, ports)?;
    let (grpc, http) = (sidecar.grpc, sidecar.http);

    for (chosen, default, got) in
        [(options.grpc_address, default_grpc, grpc), (options.http_address, default_http, http)]
    {
        if chosen.is_none() && got != default {
            let [taken, used] = [default.port(), got.port()];
            print(&format!("Port {taken} is taken, perhaps by a sidecar of yours: the demo uses {used}.\n"));
        }
    }
    print(&format!("The curves are live at http://{http}/\n\n"));
    let data = toy.split(options.seed);
    let mut models =
        LAMBDAS.iter().map(|&lambda| Watched::start(&runtime, grpc, lambda, options)).collect::<Result<Vec<_>, _>>()?;
    let mut table = Table::start();
    for epoch in 1..=options.epochs {
        for model in models.iter_mut().filter(|model| model.stopped.is_none()) {
            model.epoch(&runtime, &data, epoch)?;
            if !options.ignore_advice {
                model.take_advice(&runtime)?;
            }
        }
        table.show(epoch, options.epochs, &models);
    }
    for model in models.iter_mut().filter(|model| model.stopped.is_none()) {
        runtime.block_on(model.client.finish(Kind::Finished(Finished {})))?;
    }
    print(&summary(&models, started.elapsed()));
    if options.keep_open {
        print(&format!("\nServing http://{http}/ until Ctrl-C.\n"));
        let _ = runtime.block_on(tokio::signal::ctrl_c());
    }
    sidecar.end(runtime)
}

/// A model in training, with its connection to the sidecar and its newest scores.
struct Watched {
    lambda: f32,
    model: Bottleneck,
    client: Job,
    newest: Option<proto::Point>,
    intervened_accuracy: f64,
    epochs: u32,
    /// The advice that training was stopped by, before its last epoch.
    stopped: Option<String>,
}

impl Watched {
    fn start(runtime: &Runtime, grpc: SocketAddr, lambda: f32, options: &DemoOptions) -> Result<Self, Failure> {
        let labels =
            [("lambda", lambda.to_string()), ("bottleneck", "soft".into()), ("seed", options.seed.to_string())];
        let concept = |name: &str| Concept { name: name.into(), cardinality: 2, ..Concept::default() };
        let run = Run::try_from(RunFields {
            name: format!("demo lambda {lambda}"),
            concepts: ["z1 > 0", "z2 > 0", "z3 > 0"].map(|name| concept(&name.replace(" > 0", " positive"))).to_vec(),
            labels: labels.into_iter().map(|(key, value)| (key.into(), value)).collect(),
            ..RunFields::default()
        })?;
        let client = runtime.block_on(Job::start(&Remote::from(grpc).into(), &run, &format!("demo-{lambda}")));
        Ok(Self {
            lambda,
            model: Bottleneck::new(lambda, options.seed),
            client: client?,
            newest: None,
            intervened_accuracy: 0.0,
            epochs: 0,
            stopped: None,
        })
    }

    /// Trains for an epoch, streams its validation pass and waits for the scores.
    fn epoch(&mut self, runtime: &Runtime, data: &Split, epoch: u32) -> Result<(), Failure> {
        self.model.train_epoch(&data.training);
        let rows = &data.validation;
        let concepts = self.model.concepts(rows);
        let predictions = self.model.tasks(concepts.view());
        self.intervened_accuracy = task_accuracy(&self.model.tasks(rows.concepts()), rows);
        let (n, k) = concepts.dim();
        let [corrected, misled] = self.model.intervention_curves(rows);
        let tensors = vec![
            float_tensor(TensorName::ConceptActivations, &[n, k], concepts.iter().copied()),
            class_tensor(TensorName::ConceptLabels, &[n, k], classes(rows, Rows::concepts)),
            class_tensor(TensorName::TaskLabels, &[n], classes(rows, Rows::tasks)),
            class_tensor(TensorName::TaskPredictions, &[n], predictions),
            class_tensor(TensorName::InterventionPredictions, &[n, k + 1], corrected),
            class_tensor(TensorName::WrongInterventionPredictions, &[n, k + 1], misled),
            class_tensor(TensorName::SampleIds, &[n], 0..n as i32),
        ];
        let step = u64::from(epoch) * data.training.len().div_ceil(512) as u64;
        let point = runtime.block_on(async {
            self.client.pass("val", step, f64::from(epoch), tensors).await?;
            self.client.scores("val", step, PATIENCE).await
        });
        self.newest = point?.or(self.newest.take());
        self.epochs = epoch;
        Ok(())
    }

    /// Asks the sidecar for stop advice, as `run.should_stop()` does, and ends the run if there is any.
    fn take_advice(&mut self, runtime: &Runtime) -> Result<(), Failure> {
        let Some(step) = self.newest.as_ref().map(|point| point.step) else { return Ok(()) };
        let advice = runtime.block_on(self.client.stop_advice(step, PATIENCE))?;
        if advice.is_some() {
            runtime.block_on(self.client.finish(Kind::StoppedOnAdvice(StoppedOnAdvice {})))?;
            self.stopped = advice;
        }
        Ok(())
    }

    /// Value and standard error of a score at the newest point.
    fn score(&self, id: &str) -> Option<(f64, Option<f64>)> {
        let score = self.newest.as_ref()?.scores.iter().find(|score| score.id == id)?;
        Some((score.value?, score.standard_error))
    }

    fn value(&self, id: &str) -> String {
        self.score(id).map_or("-".into(), |(value, _)| format!("{value:.3}"))
    }

    fn value_with_error(&self, id: &str) -> String {
        match self.score(id) {
            Some((value, Some(error))) => format!("{value:.3} ± {:.3}", INTERVAL * error),
            Some((value, None)) => format!("{value:.3}"),
            None => "-".into(),
        }
    }
}

fn classes<'r>(rows: &'r Rows, part: impl Fn(&'r Rows) -> ndarray::ArrayView2<'r, f32>) -> Vec<i32> {
    part(rows).iter().map(|&value| value as i32).collect()
}

/// The live table: one line for each model, redrawn on a terminal; elsewhere a line every [`EVERY`] epochs.
struct Table {
    terminal: bool,
    lines: usize,
}

impl Table {
    fn start() -> Self {
        let [epoch, lambda, task, concepts, ctl, icl] = ["epoch", "lambda", "task acc", "concepts", "CTL", "ICL"];
        print(&format!("{epoch:>7}  {lambda:>7}  {task:>9}  {concepts:>9}  {ctl:>7}  {icl:>7}\n"));
        Self { terminal: std::io::stdout().is_terminal(), lines: 0 }
    }

    fn show(&mut self, epoch: u32, epochs: u32, models: &[Watched]) {
        let stops = models.iter().any(|model| model.stopped.is_some() && model.epochs == epoch);
        if !self.terminal && epoch != 1 && !epoch.is_multiple_of(EVERY) && epoch != epochs && !stops {
            return;
        }
        let mut text = if self.terminal && self.lines > 0 { format!("\x1b[{}A", self.lines) } else { String::new() };
        for model in models {
            // Without a terminal to redraw, a stopped model has already had its last line.
            if !self.terminal && model.stopped.is_some() && model.epochs != epoch {
                continue;
            }
            text += &format!(
                "{:>7}  {:>7}  {:>9}  {:>9}  {:>7}  {:>7}\n",
                format!("{}/{epochs}", model.epochs),
                model.lambda,
                model.value("task_accuracy"),
                model.value("concept_accuracy"),
                model.value("ctl"),
                model.value("icl"),
            );
        }
        self.lines = models.len();
        print(&text);
    }
}

fn summary(models: &[Watched], took: Duration) -> String {
    let mut text = format!("\nAfter training ({:.0} s; ± 95 %):\n\n", took.as_secs_f64());
    let mut row = |title: &str, value: &dyn Fn(&Watched) -> String| {
        text += &format!("{title:34}");
        models.iter().for_each(|model| text += &format!("{:>18}", value(model)));
        text.push('\n');
    };
    row("", &|model| format!("lambda {}", model.lambda));
    row("task accuracy", &|model| model.value("task_accuracy"));
    row("concept accuracy", &|model| model.value("concept_accuracy"));
    row("task accuracy, concepts corrected", &|model| format!("{:.3}", model.intervened_accuracy));
    row("accuracy lost by intervention", &|model| model.value_with_error("intervention_drop"));
    row("concepts-task leakage (CTL)", &|model| model.value_with_error("ctl"));
    row("interconcept leakage (ICL)", &|model| model.value_with_error("icl"));
    row("epochs", &|model| format!("{}{}", model.epochs, if model.stopped.is_some() { " (stopped)" } else { "" }));
    for model in models {
        if let Some(reason) = &model.stopped {
            text +=
                &format!("\nThe model with lambda {} was stopped by the sidecar's advice: {reason}\n", model.lambda);
        }
    }
    if let [clean, leaky] = models
        && let (Some((less, _)), Some((more, Some(error)))) = (clean.score("ctl"), leaky.score("ctl"))
        && more - less > 4.0 * error
        // A model stopped early may not predict the task yet.
        && leaky.score("task_accuracy").is_some_and(|(accuracy, _)| accuracy > leaky.intervened_accuracy + 0.1)
    {
        let (accurate, broken) = (leaky.value("task_accuracy"), leaky.intervened_accuracy);
        text += &format!(
            "\nThe model with lambda {} predicts the task ({accurate}), but not through its concepts: with their true \
             values\nthe accuracy falls to {broken:.3}. Its CTL shows it: {:.0} × that of the other model.\n",
            leaky.lambda,
            more / less.max(1e-3),
        );
    }
    text
}
