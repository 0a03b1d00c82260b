//! The HTTP port: the page, the metrics, the JSON API and its event stream. Titles, notes and the removal of runs are the only
//! changes.

mod access;
mod api;
mod app;
mod assets;
mod curves;
mod edit;
mod events;
mod exposition;
mod login;
mod overview;
mod query;
mod refusal;
mod router;
mod rows;
mod serve;
mod session;
mod shared;
mod stored;
#[cfg(test)]
mod tests;
mod verdicts;
mod view;

pub use access::Access;
pub use app::App;
pub use assets::PAGE_FILES;
pub use exposition::Exposition;
pub use serve::{Bounds, serve};
pub use stored::StoredApi;
pub use verdicts::verdicts_of;
