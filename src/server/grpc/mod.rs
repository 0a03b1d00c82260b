//! The gRPC port, for training jobs and readers. Only this folder uses tonic's types.

mod budget;
mod calls;
mod chunk;
pub mod client;
mod codec;
mod convert;
pub mod hub;
mod ingest;
mod messages;
pub mod otlp;
pub mod pipe;
mod project;
pub mod proto;
mod reads;
pub mod recording;
mod scores;
mod serve;
mod service;
mod status;

pub use budget::Budget;
#[cfg(fuzzing)]
pub use convert::tensor as tensor_of;
pub use hub::service::HubService;
pub use ingest::{Ingest, Limits as IngestLimits};
pub use project::{Project, Token};
pub use serve::{Calls, Port, serve};
pub use service::Service;
