//! Public functions that need no folder of their own, in one program.

mod alert_curves;
mod alert_evidence;
#[path = "../alerts/curves.rs"]
mod curves;
mod declarations;
mod diagnosis;
mod passes;
mod rises;
mod sampling;
mod tasks;
mod training;
