//! Fields that messages share: launches, attempts, steps, times and texts.

use super::super::proto;
use crate::history::Launch;
use crate::server::grpc::convert::MOST_RESTARTS;
use leakage::field_error::FieldError;
use leakage::name::check_optional_name;
use leakage::step::Step;

/// Most bytes of a reason or warning.
const MAX_TEXT: usize = 10_000;

pub fn launch(launch: &Launch) -> proto::Launch {
    proto::Launch { job: launch.job.clone(), restart: launch.restart, number: launch.number }
}

pub fn launch_of(field: &str, message: proto::Launch) -> Result<Launch, FieldError> {
    check_optional_name(&format!("{field}.job"), &message.job)?;
    for (name, number) in [("restart", message.restart), ("number", message.number)] {
        if number > MOST_RESTARTS {
            let message = format!("got {number}, expected at most {MOST_RESTARTS}");
            return Err(FieldError::new(format!("{field}.{name}"), message));
        }
    }
    Ok(Launch { job: message.job, restart: message.restart, number: message.number })
}

pub fn step(field: &str, step: u64) -> Result<u64, FieldError> {
    Step::new(step).map(Step::get).map_err(|fault| FieldError::new(field, fault.message))
}

/// A number that is not finite is no time, and no share.
pub fn time(field: &str, seconds: f64) -> Result<f64, FieldError> {
    match seconds.is_finite() {
        true => Ok(seconds),
        false => Err(FieldError::new(field, format!("got {seconds}, expected a finite number"))),
    }
}

pub fn text(field: &str, text: String) -> Result<String, FieldError> {
    match text.len() {
        bytes if bytes <= MAX_TEXT => Ok(text),
        bytes => Err(FieldError::new(field, format!("got {bytes} bytes, expected at most {MAX_TEXT}"))),
    }
}
