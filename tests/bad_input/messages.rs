//! Messages that are out of order or inconsistent, and the test that sends them and those of `batches`.

use conceptwatch::server::proto::ingest_request::Message;
use conceptwatch::server::proto::ingest_response::Outcome;
use conceptwatch::server::proto::{BatchChunk, EndPass, FinishRunRequest};
use prost::Message as _;
use tonic::Code;

use super::{Faults, NO_NAME, NOT_SHOWN, batches};
use crate::common::rows::{floats, integers};
use crate::common::{Client, Sent, Sidecar, Stream, chunk, end_pass, point, run, split};

/// Messages for a run of the given name.
type ForRun = dyn Fn(&str) -> Vec<Message>;

/// Messages whose last answer is a refusal, and its text.
pub struct Case {
    name: String,
    code: Code,
    field: &'static str,
    says: &'static str,
    messages: Box<ForRun>,
    /// Batches and ends of passes accepted before the refusal.
    taken: usize,
    /// Rows of them.
    rows_taken: u64,
    /// Number of refusals; a message whose answer the client does not await has none.
    refused: usize,
    /// Whether the run is finished before the last message.
    finish: bool,
    /// The step of the valid batch sent afterwards, and the number of rows of its point.
    afterwards: (u64, u64),
}

impl Case {
    pub fn new(
        name: &str,
        field: &'static str,
        says: &'static str,
        messages: impl Fn(&str) -> Vec<Message> + 'static,
    ) -> Self {
        Self {
            name: name.to_owned(),
            code: Code::InvalidArgument,
            field,
            says,
            messages: Box::new(messages),
            taken: 0,
            rows_taken: 0,
            refused: 1,
            finish: false,
            afterwards: (1, 16),
        }
    }

    fn after(self, taken: usize, rows_taken: u64) -> Self {
        Self { taken, rows_taken, afterwards: (1, rows_taken + 16), ..self }
    }
}

/// The `at`-th of several chunks of batch `sequence`, four rows each.
pub fn part(run: &str, sequence: u64, at: u32, last: bool) -> BatchChunk {
    let first_row = u64::from(at) * 4;
    BatchChunk { chunk: at, last, first_row, ..chunk(run, sequence, first_row..first_row + 4) }
}

/// Two chunks, the second of which is invalid.
fn second(name: &str, field: &'static str, says: &'static str, spoil: fn(&mut BatchChunk)) -> Case {
    Case::new(&format!("second chunk: {name}"), field, says, move |run| {
        let mut bad = part(run, 1, 1, true);
        spoil(&mut bad);
        vec![part(run, 1, 0, false).message(), bad.message()]
    })
}

/// A valid batch, and a second one that differs from it.
fn schema(name: &str, field: &'static str, says: &'static str, spoil: fn(&mut BatchChunk)) -> Case {
    let messages = move |run: &str| {
        let mut bad = chunk(run, 2, 16..32);
        spoil(&mut bad);
        vec![chunk(run, 1, 0..16).message(), bad.message()]
    };
    Case::new(&format!("second batch: {name}"), field, says, messages).after(1, 16)
}

fn end(name: &str, field: &'static str, says: &'static str, spoil: fn(&mut EndPass)) -> Case {
    Case::new(&format!("end of pass: {name}"), field, says, move |run| {
        let mut bad = end_pass(run, 1);
        spoil(&mut bad);
        vec![bad.message()]
    })
}

fn cases() -> Vec<Case> {
    let wide = |c: &mut BatchChunk| c.tensors[0] = floats("concept_activations", &[16, 2, 3], &[0.5; 96]);
    let closed = |name: &str, messages: fn(&str) -> Vec<Message>| Case {
        code: Code::FailedPrecondition,
        afterwards: (2, 16),
        ..Case::new(name, "step", "has already been evaluated", messages).after(2, 16)
    };
    let finished = |name: &str, messages: fn(&str) -> Vec<Message>| Case {
        code: Code::FailedPrecondition,
        finish: true,
        afterwards: (2, 16),
        ..Case::new(name, "run", "has finished, start it again", messages).after(1, 16)
    };
    let unknown = |case: Case| Case { code: Code::NotFound, ..case };
    vec![
        second("a gap in the numbers", "chunk", "got 2, expected 1", |c| c.chunk = 2),
        second("the first number again", "chunk", "got 0, expected 1", |c| c.chunk = 0),
        second("another run", "run", "expected that of the first chunk", |c| c.run = "elsewhere".into()),
        second("another split", "split", "expected that of the first chunk", |c| c.split = "test".into()),
        second("another step", "step", "expected that of the first chunk", |c| c.step = 2),
        second("another epoch", "epoch", "expected that of the first chunk", |c| c.epoch = Some(0.75)),
        second("another rank", "rank", "expected that of the first chunk", |c| c.rank = 3),
        second("a tensor less", "tensors.task_labels", "is missing", |c| drop(c.tensors.remove(2))),
        second("a tensor more", "tensors.task_predictions", "is new", |c| {
            c.tensors.push(integers("task_predictions", &[4], &[0; 4]));
        }),
        second("a value out of range", "tensors.task_labels", "expected 0 to 65535", |c| {
            c.tensors[2] = integers("task_labels", &[4], &[-1; 4]);
        }),
        second("rows left out beyond counting", "rows_left_out", "expected at most", |c| c.rows_left_out = u64::MAX),
        schema("a tensor less", "tensors.task_labels", "log the tensor in every evaluation of the split", |c| {
            drop(c.tensors.remove(2))
        }),
        schema("ids no more", "tensors.sample_ids", "is missing, expected as in earlier", |c| {
            drop(c.tensors.remove(3))
        }),
        schema("a tensor more", "tensors.task_predictions", "is new, expected the tensors of earlier", |c| {
            c.tensors.push(integers("task_predictions", &[16], &[0; 16]));
        }),
        schema("another width", "tensors.concept_activations.shape", "expected [2] as in earlier batches", wide),
        Case {
            refused: 2,
            ..Case::new("interleaved batches", "chunk", "got 1, expected 0", |run| {
                vec![
                    part(run, 1, 0, false).message(),
                    chunk(run, 2, 100..116).message(),
                    part(run, 1, 1, true).message(),
                ]
            })
            .after(1, 16)
        },
        Case::new("a batch above 64 MiB", "batch", "expected at most 67108864", |run| {
            let wide = floats("image_embeddings", &[15, 65_536], &[0.5; 15 * 65_536]);
            let part =
                |at: u32| BatchChunk { chunk: at, last: at == 17, tensors: vec![wide.clone()], ..chunk(run, 1, 0..0) };
            (0..18).map(|at| part(at).message()).collect()
        }),
        closed("a batch after its pass", |run| {
            vec![chunk(run, 1, 0..16).message(), end_pass(run, 2).message(), chunk(run, 3, 16..32).message()]
        }),
        finished("a batch after the run", |run| vec![chunk(run, 1, 0..16).message(), chunk(run, 2, 16..32).message()]),
        finished("an end after the run", |run| vec![chunk(run, 1, 0..16).message(), end_pass(run, 2).message()]),
        end("a run that is no name", "run", NOT_SHOWN, |e| e.run = NO_NAME.into()),
        end("a split that is no name", "split", NOT_SHOWN, |e| e.split = NO_NAME.into()),
        end("a client that is no name", "client", NOT_SHOWN, |e| e.client = NO_NAME.into()),
        end("sequence 0", "sequence", "expected at least 1", |e| e.sequence = 0),
        end("a NaN epoch", "epoch", "expected a finite number", |e| e.epoch = Some(f64::NAN)),
        end("a step of 2^63", "step", "expected at most", |e| e.step = 1 << 63),
        end("too many left out", "left_out", "expected at most", |e| e.left_out = u64::MAX),
        end("rank 1 of 1", "rank", "got 1, expected 0 to 0", |e| e.rank = 1),
        unknown(end("an unknown run", "run", "'another' is unknown", |e| e.run = "another".into())),
        unknown(Case::new("a batch of an unknown run", "run", "'another' is unknown", |_| {
            vec![chunk("another", 1, 0..16).message()]
        })),
    ]
}

/// The sidecar's counters that a refused batch may change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counts {
    pub received: f64,
    pub dropped: f64,
    pub refused: f64,
    pub accepted: f64,
}

pub fn counts(sidecar: &Sidecar, code: Code) -> Counts {
    let text = sidecar.get("/metrics");
    let metric = |name: &str, labels: &str| crate::common::metric(&text, &format!("conceptwatch_{name}_total"), labels);
    Counts {
        received: metric("rows_received", ""),
        dropped: metric("rows_dropped", "refused"),
        refused: metric("batches_refused", &format!("\"{code:?}\"")),
        accepted: metric("batches_accepted", ""),
    }
}

/// Number of rows that messages claim to hold, limited by what their bytes can hold.
fn rows(messages: &[Message]) -> u64 {
    let rows = |message: &Message| match message {
        Message::Chunk(chunk) => {
            let declared = chunk.tensors.first().and_then(|t| t.shape.first()).copied().unwrap_or(0);
            declared.min(chunk.encoded_len() as u64)
        }
        Message::EndPass(_) => 0,
    };
    messages.iter().map(rows).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_bad_batches_and_applies_nothing_of_them() {
    let mut sidecar = Sidecar::start(&["--linger", "5", "--log", "error"]);
    let mut client = sidecar.client().await;
    let mut faults = Faults::default();
    let mut stream = Stream::open(&mut client).await;
    for (at, case) in batches::cases().chain(cases()).enumerate() {
        try_case(&case, &format!("case {at}"), &sidecar, &mut client, &mut stream, &mut faults).await;
        assert!(sidecar.is_alive(), "{}: the sidecar ended", case.name);
    }
    faults.report();
}

async fn try_case(
    case: &Case,
    name: &str,
    sidecar: &Sidecar,
    client: &mut Client,
    stream: &mut Stream,
    faults: &mut Faults,
) {
    client.start_run(run(name)).await.unwrap();
    let before = counts(sidecar, case.code);
    let messages = (case.messages)(name);
    let (last, first) = messages.split_last().unwrap();
    for message in first {
        stream.send(message.clone()).await;
    }
    for _ in 0..case.taken {
        let answer = stream.answer().await;
        faults.check(
            &case.name,
            answer.outcome() == Outcome::Accepted,
            format!("the message before it got {answer:?}"),
        );
    }
    if case.finish {
        client.finish_run(FinishRunRequest { run: name.into(), ..Default::default() }).await.unwrap();
    }
    let answer = stream.ask(last.clone()).await;
    let got = (answer.outcome(), Code::from(answer.code), answer.field.as_str());
    faults.check(&case.name, got == (Outcome::Refused, case.code, case.field), format!("was answered {got:?}"));
    faults.check_message(&case.name, &answer.message, case.says);
    faults.check(
        &case.name,
        answer.message.starts_with(case.field),
        format!("does not begin with its field: {}", answer.message),
    );
    let after = counts(sidecar, case.code);
    let expected = Counts {
        received: before.received + case.rows_taken as f64,
        dropped: before.dropped + (rows(&messages) - case.rows_taken) as f64,
        refused: before.refused + case.refused as f64,
        accepted: after.accepted,
    };
    faults.check(&case.name, after == expected, format!("counts are {after:?}, expected {expected:?}"));
    if case.finish {
        client.start_run(run(name)).await.unwrap();
    } else {
        if case.afterwards.0 == 2 {
            point(client, name, "val", 1).await;
        }
        let status = split(client, name, "val").await.unwrap_or_default();
        let found = (status.rows_received, status.points);
        let points = u64::from(case.afterwards.0 == 2);
        faults.check(&case.name, found == (case.rows_taken, points), format!("rows and points are {found:?}"));
    }
    let (step, rows) = case.afterwards;
    let good = stream.ask(BatchChunk { step, ..chunk(name, 1000, 1000..1016) }).await;
    faults.check(&case.name, good.outcome() == Outcome::Accepted, format!("afterwards a good batch got {good:?}"));
    let ended = stream.ask(EndPass { step, ..end_pass(name, 1001) }).await;
    faults.check(&case.name, ended.outcome() == Outcome::Accepted, format!("afterwards an end got {ended:?}"));
    let point = point(client, name, "val", step).await;
    let found = (point.rows, point.rows_seen);
    faults.check(&case.name, found == (rows, rows), format!("the point then has {found:?} rows, expected {rows}"));
    client.finish_run(FinishRunRequest { run: name.into(), ..Default::default() }).await.unwrap();
}
