//! Changes of a history as entries of a push.

use super::super::proto::{self, entry::Change as Message, unscored::Ending as EndingMessage};
use super::fields::{launch, launch_of, step, text, time};
use super::point::{point, point_of};
use crate::history::{Change, Declared, Ending, Judgement, Launch, Remark, Unscored};
use crate::server::grpc::convert as run;
use crate::server::live::AlertChange;
use leakage::diagnosis::Verdict;
use leakage::field_error::FieldError;
use leakage::name::{check_name, check_optional_name};
use leakage::step::{Ordinal, Rank};

/// The change as an entry of a push.
pub fn entry(number: u64, change: &Change) -> proto::Entry {
    let change = match change {
        Change::Declare(declared) => Message::DeclareRun(proto::DeclareRun {
            run: Some(run::run_message(&declared.run)),
            declared_name: declared.declared_name.clone().unwrap_or_default(),
            launch: Some(launch(&declared.launch)),
            rank: declared.rank.get(),
            client: declared.client.clone(),
            resume: declared.resume,
            started: declared.started,
            scheduler_job: declared.scheduler_job.clone(),
            host: declared.host.clone(),
        }),
        Change::FinishRun { run, finished, outcome } => Message::FinishRun(proto::FinishRun {
            run: run.clone(),
            finished: *finished,
            outcome: Some(run::outcome_message(outcome)),
            rank: outcome.rank().unwrap_or_default(),
        }),
        Change::Point(of, by) => Message::Point(point(of, by.as_ref())),
        Change::Unscored(record, by) => Message::Unscored(unscored(record, by.as_ref())),
        Change::Remark { run, remark } => {
            Message::Remark(proto::Remark { run: run.clone(), title: remark.title.clone(), note: remark.note.clone() })
        }
        Change::RemoveRun(run) => Message::RemoveRun(proto::RemoveRun { run: run.clone() }),
        Change::Late(of, by) => Message::LateScores(point(of, by.as_ref())),
        Change::Judged(judgement) => Message::Judgement(proto::Judgement {
            run: judgement.run.clone(),
            split: judgement.split.clone(),
            rule: judgement.rule.clone(),
            active: judgement.active,
            since: judgement.since,
            json: judgement.json.clone(),
        }),
    };
    proto::Entry { number, change: Some(change) }
}

/// The change of an entry. Errors when it is none that a history can make.
pub fn change(entry: proto::Entry) -> Result<Change, FieldError> {
    match entry.change.ok_or_else(|| FieldError::new("change", "is missing"))? {
        Message::DeclareRun(message) => declared(message).map(|declared| Change::Declare(Box::new(declared))),
        Message::FinishRun(message) => {
            check_name("finish_run.run", &message.run)?;
            let finished = message.finished.map(|finished| time("finish_run.finished", finished)).transpose()?;
            let outcome = run::outcome("finish_run.outcome", message.outcome, message.rank)?;
            Ok(Change::FinishRun { run: message.run, finished, outcome })
        }
        Message::Point(message) => point_of(message).map(|(point, by)| Change::Point(Box::new(point), by)),
        Message::Unscored(message) => unscored_of(message).map(|(record, by)| Change::Unscored(record, by)),
        Message::Remark(message) => {
            check_name("remark.run", &message.run)?;
            Ok(Change::Remark { run: message.run, remark: Remark { title: message.title, note: message.note } })
        }
        Message::RemoveRun(message) => {
            check_name("remove_run.run", &message.run)?;
            Ok(Change::RemoveRun(message.run))
        }
        Message::LateScores(message) => point_of(message).map(|(point, by)| Change::Late(Box::new(point), by)),
        Message::Judgement(message) => judgement(message).map(Change::Judged),
    }
}

/// Errors unless the JSON is what a hub shows.
fn judgement(message: proto::Judgement) -> Result<Judgement, FieldError> {
    check_name("judgement.run", &message.run)?;
    check_name("judgement.split", &message.split)?;
    let json = text("judgement.json", message.json)?;
    let parsed = match message.rule {
        Some(_) => serde_json::from_str::<AlertChange>(&json).map(drop),
        None => serde_json::from_str::<Verdict>(&json).map(drop),
    };
    parsed.map_err(|error| FieldError::new("judgement.json", error.to_string()))?;
    let rule = message.rule.map(|rule| text("judgement.rule", rule)).transpose()?;
    let since = time("judgement.since", message.since)?;
    Ok(Judgement { run: message.run, split: message.split, rule, active: message.active, since, json })
}

fn declared(message: proto::DeclareRun) -> Result<Declared, FieldError> {
    let within = |fault: FieldError| FieldError::new(format!("declare_run.{}", fault.field), fault.message);
    let of = message.run.ok_or_else(|| FieldError::new("declare_run.run", "is missing"))?;
    let run = run::run(of).map_err(within)?;
    let launch = message.launch.map(|launch| launch_of("declare_run.launch", launch)).transpose()?.unwrap_or_default();
    let rank = match launch.job.as_str() {
        "" => Rank::default(),
        _ => Rank::of(message.rank, run.world_size).map_err(within)?,
    };
    check_name("declare_run.client", &message.client)?;
    check_optional_name("declare_run.scheduler_job", &message.scheduler_job)?;
    check_optional_name("declare_run.host", &message.host)?;
    let declared_name = Some(message.declared_name.clone()).filter(|name| !name.is_empty());
    if let Some(name) = &declared_name {
        check_name("declare_run.declared_name", name)?;
    }
    let started = time("declare_run.started", message.started)?;
    let proto::DeclareRun { client, resume, scheduler_job, host, .. } = message;
    Ok(Declared { run, declared_name, launch, rank, client, resume, scheduler_job, host, started })
}

pub fn ending(ending: Ending) -> EndingMessage {
    match ending {
        Ending::Skipped => EndingMessage::Skipped,
        Ending::Discarded => EndingMessage::Discarded,
        // A record that is damaged is only read; what is known of the pass is that it has no point.
        Ending::Failed | Ending::Damaged => EndingMessage::Failed,
        Ending::Unsettled => EndingMessage::Unsettled,
    }
}

fn unscored(record: &Unscored, by: Option<&Launch>) -> proto::Unscored {
    proto::Unscored {
        run: record.run.clone(),
        split: record.split.clone(),
        step: record.step,
        ordinal: record.ordinal.get(),
        time: record.time,
        ending: ending(record.outcome).into(),
        reason: record.reason.clone(),
        rows_seen: record.rows_seen,
        launch: by.map(launch),
    }
}

fn unscored_of(message: proto::Unscored) -> Result<(Unscored, Option<Launch>), FieldError> {
    check_name("unscored.run", &message.run)?;
    check_name("unscored.split", &message.split)?;
    let outcome = match EndingMessage::try_from(message.ending) {
        Ok(EndingMessage::Skipped) => Ending::Skipped,
        Ok(EndingMessage::Discarded) => Ending::Discarded,
        Ok(EndingMessage::Failed) => Ending::Failed,
        Ok(EndingMessage::Unsettled) => Ending::Unsettled,
        Ok(EndingMessage::Unspecified) | Err(_) => {
            return Err(FieldError::new("unscored.ending", format!("got {}, expected 1 to 4", message.ending)));
        }
    };
    let by = message.launch.map(|launch| launch_of("unscored.launch", launch)).transpose()?;
    let record = Unscored {
        run: message.run,
        split: message.split,
        step: step("unscored.step", message.step)?,
        ordinal: Ordinal::stated(message.ordinal),
        time: time("unscored.time", message.time)?,
        outcome,
        reason: text("unscored.reason", message.reason)?,
        rows_seen: message.rows_seen,
        attempt: None,
    };
    Ok((record, by))
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::history::RunOutcome;
    use crate::server::grpc::proto as v1;

    /// Returns the change that a receiver decodes from an entry's bytes.
    fn sent(change: &Change) -> Result<Change, FieldError> {
        let bytes = entry(1, change).encode_to_vec();
        super::change(proto::Entry::decode(bytes.as_slice()).unwrap())
    }

    fn a_run() -> leakage::run::Run {
        let message = v1::Run {
            name: "digits-2".into(),
            concepts: vec![v1::Concept { name: "stripes".into(), cardinality: 3, ..v1::Concept::default() }],
            labels: [("lambda".to_owned(), "0.1".to_owned())].into(),
            world_size: 4,
            ..Default::default()
        };
        run::run(message).unwrap()
    }

    fn failed(message: &str) -> RunOutcome {
        RunOutcome::Failed { rank: 2, error: "ValueError".into(), message: message.into() }
    }

    fn firing() -> Judgement {
        let json = r#"{"rule": "few", "run": "r", "split": "val", "score": "", "state": "firing", "since": 1.5,
            "evidence": "64 rows", "step": 3, "severity": "warning", "advises_stop": true, "value": 64.0, "baseline": null}"#;
        let (run, split, rule) = ("digits-2".into(), "val".into(), Some("few".into()));
        Judgement { run, split, rule, active: true, since: 1.5, json: json.into() }
    }

    #[test]
    fn changes_of_runs_arrive_as_they_are() {
        let launch = Launch { job: "job".into(), restart: 3, number: 1 };
        let declared = Declared {
            run: a_run(),
            declared_name: Some("digits".into()),
            launch: launch.clone(),
            rank: Rank::of(2, 4).unwrap(),
            client: "client".into(),
            resume: true,
            scheduler_job: "4711".into(),
            host: "node-1".into(),
            started: 1.5,
        };
        let run = || "digits-2".to_owned();
        let record = Unscored {
            run: run(),
            split: "val".into(),
            step: 7,
            ordinal: Ordinal::stated(2),
            time: 2.5,
            outcome: Ending::Unsettled,
            reason: "the sidecar stopped".into(),
            rows_seen: 9,
            attempt: None,
        };
        let remark = Remark { title: Some(String::new()), note: None };
        for change in [
            Change::Declare(Box::new(declared)),
            Change::FinishRun { run: run(), finished: Some(4.5), outcome: RunOutcome::Finished },
            Change::FinishRun { run: run(), finished: None, outcome: RunOutcome::StoppedOnAdvice { rank: 3 } },
            Change::FinishRun { run: run(), finished: Some(4.5), outcome: failed("a message") },
            Change::Unscored(record, Some(launch)),
            Change::Remark { run: run(), remark },
            Change::RemoveRun(run()),
            Change::Judged(firing()),
        ] {
            assert_eq!(sent(&change).unwrap(), change);
        }
    }

    #[test]
    fn what_is_no_change_is_refused_by_its_field() {
        assert_eq!(change(proto::Entry::default()).unwrap_err().to_string(), "change: is missing");
        let unscored = proto::Unscored { run: "r".into(), split: "val".into(), ..Default::default() };
        let entry = proto::Entry { number: 1, change: Some(Message::Unscored(unscored)) };
        assert_eq!(change(entry).unwrap_err().to_string(), "unscored.ending: got 0, expected 1 to 4");
        let failure = Change::FinishRun { run: "r".into(), finished: None, outcome: failed(&"é".repeat(501)) };
        let message = "finish_run.outcome.failed.message: got 501 characters, expected at most 500";
        assert_eq!(sent(&failure).unwrap_err().to_string(), message);
        let verdict = Change::Judged(Judgement { rule: None, ..firing() });
        assert!(sent(&verdict).unwrap_err().to_string().starts_with("judgement.json: "));
    }
}
