//! Public functions of the core that need no folder of their own, in one program.

mod alert_curves;
mod alert_evidence;
mod declarations;
mod diagnosis;
mod passes;
#[cfg(feature = "server")]
mod prometheus_rules;
mod rises;
mod sampling;
mod scheduling;
mod structure;
mod tensor_table;
mod training;
