//! Queries for something that does not exist, or with invalid parameters.

use conceptwatch::server::proto::run_outcome::{Failed, Kind};
use conceptwatch::server::proto::{
    FinishRunRequest, GetAdviceRequest, GetScoresRequest, GetSeriesRequest, RunOutcome, WatchRequest,
};
use tonic::{Code, Status};

use super::declarations::check_status;
use super::{Faults, NO_NAME, NOT_SHOWN};
use crate::common::{Client, Sidecar, Stream, chunk, end_pass, point, run};

struct Case {
    name: String,
    code: Code,
    field: &'static str,
    says: &'static str,
    call: Call,
}

enum Call {
    Scores(GetScoresRequest),
    Series(GetSeriesRequest),
    Advice(GetAdviceRequest),
    Finish(FinishRunRequest),
    Watch(WatchRequest),
}

impl Call {
    async fn make(self, client: &mut Client) -> Result<(), Status> {
        match self {
            Self::Scores(request) => client.get_scores(request).await.map(drop),
            Self::Series(request) => client.get_series(request).await.map(drop),
            Self::Advice(request) => client.get_advice(request).await.map(drop),
            Self::Finish(request) => client.finish_run(request).await.map(drop),
            Self::Watch(request) => client.watch(request).await.map(drop),
        }
    }
}

fn scores() -> GetScoresRequest {
    GetScoresRequest { run: "known".into(), split: "val".into(), ..Default::default() }
}

fn series() -> GetSeriesRequest {
    GetSeriesRequest { run: "known".into(), split: "val".into(), score: "ctl".into(), ..Default::default() }
}

fn advice() -> GetAdviceRequest {
    GetAdviceRequest { run: "known".into(), ..Default::default() }
}

fn cases() -> Vec<Case> {
    let case = |name: &str, code, field, says, call| Case { name: format!("call: {name}"), code, field, says, call };
    let (bad, unknown) = (Code::InvalidArgument, Code::NotFound);
    let other = || "other".to_owned();
    let wait = "expected 0 to 3600 seconds";
    let mut cases = vec![
        case("scores of an unknown run", unknown, "run", "'other' is unknown", {
            Call::Scores(GetScoresRequest { run: other(), ..scores() })
        }),
        case("a series of an unknown run", unknown, "run", "'other' is unknown", {
            Call::Series(GetSeriesRequest { run: other(), ..series() })
        }),
        case("a series of an unknown score", bad, "score", "'leak' is not a score", {
            Call::Series(GetSeriesRequest { score: "leak".into(), ..series() })
        }),
        case("a series of an enormous score", bad, "score", "is not a score", {
            Call::Series(GetSeriesRequest { score: "x".repeat(1 << 20), ..series() })
        }),
        case("a series of a score in HTML", bad, "score", "is not a score", {
            Call::Series(GetSeriesRequest { score: "<b>\n".into(), ..series() })
        }),
        case("a series of an unknown concept", unknown, "concept", "'tail' is unknown", {
            Call::Series(GetSeriesRequest { concept: "tail".into(), ..series() })
        }),
        case("advice for an unknown run", unknown, "run", "'other' is unknown", {
            Call::Advice(GetAdviceRequest { run: other(), ..advice() })
        }),
        case("the end of an unknown run", unknown, "run", "'other' is unknown", {
            Call::Finish(FinishRunRequest { run: other(), ..Default::default() })
        }),
    ];
    for (what, seconds) in
        [("-1", -1.0), ("an hour and a second", 3601.0), ("NaN", f64::NAN), ("infinite", f64::INFINITY)]
    {
        let request = GetScoresRequest { timeout_seconds: seconds, ..scores() };
        cases.push(case(&format!("scores, waiting {what}"), bad, "timeout_seconds", wait, Call::Scores(request)));
        let request = GetAdviceRequest { timeout_seconds: seconds, ..advice() };
        cases.push(case(&format!("advice, waiting {what}"), bad, "timeout_seconds", wait, Call::Advice(request)));
    }
    for (what, field, error, message, says) in [
        ("no error", "outcome.failed.error", "", String::new(), "got none, expected 1 to 200 characters"),
        ("an error of two lines", "outcome.failed.error", "a\nb", String::new(), "has the character \\u{a}"),
        ("a long message", "outcome.failed.message", "E", "é".repeat(501), "got 501 characters, expected at most 500"),
        ("a message of two lines", "outcome.failed.message", "E", "a\nb".into(), "has the character \\u{a}"),
        ("a message that turns", "outcome.failed.message", "E", "\u{202e}".into(), "has the character \\u{202e}"),
    ] {
        let failed = Kind::Failed(Failed { error: error.into(), message });
        let outcome = Some(RunOutcome { kind: Some(failed) });
        let request = FinishRunRequest { run: "known".into(), outcome, ..Default::default() };
        cases.push(case(&format!("the end of a run with {what}"), bad, field, says, Call::Finish(request)));
    }
    let no_name = || NO_NAME.to_owned();
    for (call, field, request) in [
        ("scores of a run", "run", Call::Scores(GetScoresRequest { run: no_name(), ..scores() })),
        ("scores of a split", "split", Call::Scores(GetScoresRequest { split: no_name(), ..scores() })),
        ("a series of a run", "run", Call::Series(GetSeriesRequest { run: no_name(), ..series() })),
        ("a series of a split", "split", Call::Series(GetSeriesRequest { split: no_name(), ..series() })),
        ("a series of a concept", "concept", Call::Series(GetSeriesRequest { concept: no_name(), ..series() })),
        ("advice for a run", "run", Call::Advice(GetAdviceRequest { run: no_name(), ..advice() })),
        ("the end of a run", "run", Call::Finish(FinishRunRequest { run: no_name(), ..Default::default() })),
        ("a watch of a run", "runs", Call::Watch(WatchRequest { runs: vec![no_name()] })),
    ] {
        cases.push(case(&format!("{call} that is no name"), bad, field, NOT_SHOWN, request));
    }
    cases
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_bad_questions_by_naming_the_field() {
    let mut sidecar = Sidecar::start(&["--log", "error"]);
    let mut client = sidecar.client().await;
    let mut faults = Faults::default();
    client.start_run(run("known")).await.unwrap();
    let mut stream = Stream::open(&mut client).await;
    stream.ask(chunk("known", 1, 0..16)).await;
    stream.ask(end_pass("known", 2)).await;
    point(&mut client, "known", "val", 1).await;
    for case in cases() {
        match case.call.make(&mut client).await {
            Ok(()) => faults.check(&case.name, false, "was taken"),
            Err(status) if case.code == Code::NotFound => {
                faults.check(&case.name, status.code() == case.code, format!("was answered {status:?}"));
                faults.check_message(&case.name, status.message(), case.says);
                faults.check(&case.name, status.message().starts_with(case.field), format!("is {status}"));
            }
            Err(status) => check_status(&mut faults, &case.name, &status, case.code, case.field, case.says),
        }
        assert!(sidecar.is_alive(), "{}: the sidecar ended", case.name);
    }
    assert_eq!(point(&mut client, "known", "val", 1).await.rows, 16);
    faults.report();
}
