//! For whom a call speaks.

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

/// What a call proves itself by, and for whom it then speaks.
#[derive(Clone, Debug)]
pub struct Token {
    pub text: String,
    pub project: Project,
}
