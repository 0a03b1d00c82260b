//! Tests over a real port: every route, and every reason to refuse a request.

mod answers;
mod connections;
mod port;
mod refusals;

use super::*;

/// `NAME` as a browser's encodeURIComponent writes it.
const ENCODED: &str = "toy%2F0.25%3A%20a_b-c";
