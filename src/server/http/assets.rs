//! The page's files, compiled in.

use std::collections::BTreeMap;
use std::hash::Hasher;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use siphasher::sip::SipHasher13;

use super::refusal::Refusal;

/// Path and bytes of each file in web/.
pub const PAGE_FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page_files.rs"));
const INDEX: &str = "index.html";

/// The files by their path in web/, with their entity tags. No other path is served.
///
/// The tags are weak: a file has one for all encodings.
pub(super) struct Page(BTreeMap<&'static str, File>);

struct File {
    bytes: &'static [u8],
    tag: String,
}

impl Page {
    pub fn new() -> Self {
        Self(PAGE_FILES.iter().map(|&(name, bytes)| (name, File { bytes, tag: tag(bytes) })).collect())
    }

    pub fn index(&self, headers: &HeaderMap) -> Response {
        self.file(INDEX, headers)
    }

    /// A file under `/assets/`; the index is served at `/` only.
    pub fn asset(&self, name: &str, headers: &HeaderMap) -> Response {
        if name == INDEX { Refusal::unknown("path", name).into_response() } else { self.file(name, headers) }
    }

    fn file(&self, name: &str, headers: &HeaderMap) -> Response {
        let Some(file) = self.0.get(name) else { return Refusal::unknown("path", name).into_response() };
        let known = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
        let unchanged = known.is_some_and(|tags| tags.split(',').any(|tag| tag.trim() == file.tag));
        let mut response = match unchanged {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => ([(header::CONTENT_TYPE, content_type(name))], Body::from(file.bytes)).into_response(),
        };
        let mut set = |name, value: &str| {
            // Tags and the constants here are ASCII.
            if let Ok(value) = value.parse() {
                response.headers_mut().insert(name, value);
            }
        };
        set(header::ETAG, &file.tag);
        // They are small, and those of another version must not meet.
        set(header::CACHE_CONTROL, "no-cache");
        // An answer without content names what the one with content depends on.
        set(header::VARY, header::ACCEPT_ENCODING.as_str());
        response
    }
}

fn tag(bytes: &[u8]) -> String {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    format!("W/\"{:016x}\"", hasher.finish())
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        _ => "application/octet-stream",
    }
}
