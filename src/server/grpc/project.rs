//! The project that a call acts for.

use std::sync::Arc;

/// The project of a call: that of its token. Calls with a client certificate alone, or of a port without tokens, are of
/// the default one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project(pub Arc<str>);

impl Default for Project {
    fn default() -> Self {
        Self("default".into())
    }
}

/// A token that authenticates a call, and the project that the call then acts for.
#[derive(Clone, Debug)]
pub struct Token {
    pub text: String,
    pub project: Project,
}
