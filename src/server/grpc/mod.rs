//! The gRPC port, for training jobs and readers. Only this folder uses tonic's types.

mod budget;
mod calls;
mod chunk;
pub mod client;
mod convert;
mod frames;
pub mod hub;
mod ingest;
mod project;
pub mod proto;
mod reader;
pub mod recording;
mod request_limits;
mod scores;
mod serve;
mod service;
mod status;
pub mod wire;

pub use budget::Budget;
#[cfg(fuzzing)]
pub use convert::tensor as tensor_of;
pub use hub::reads::Reads;
pub use hub::service::HubService;
pub use ingest::{Ingest, Limits as IngestLimits};
pub use project::{Project, Token};
pub use reader::Reader;
pub use request_limits::Window;
pub use serve::{Calls, Port, PortFailed, serve, transport};
pub use service::Service;
