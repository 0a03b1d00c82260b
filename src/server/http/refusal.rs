//! Error answers: a status, the field at fault, and what was expected.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::analysis_query::Refused;
use crate::history::HistoryError;
use leakage::field_error::{FieldError, in_short};

/// An error answer; its body is `{"error": {"field", "message"}}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub status: StatusCode,
    pub field: String,
    pub message: String,
}

impl Refusal {
    pub fn new(status: StatusCode, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status, field: field.into(), message: message.into() }
    }

    pub fn bad(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, field, message)
    }

    pub fn unknown(field: impl Into<String>, name: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, field, format!("'{}' is unknown", in_short(name)))
    }

    pub fn unavailable(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, field, message)
    }
}

impl From<HistoryError> for Refusal {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Unknown { what, name } => Self::unknown(what, &name),
            HistoryError::Invalid { field, message } => Self::bad(field, message),
            HistoryError::Open { run } => {
                let message = format!("'{}' is open, expected one that has finished", in_short(&run));
                Self::new(StatusCode::CONFLICT, "run", message)
            }
            other => Self::unavailable("history", other.to_string()),
        }
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Unknown(FieldError { field, message }) => Self::new(StatusCode::NOT_FOUND, field, message),
            Refused::Bad(FieldError { field, message }) => Self::bad(field, message),
            Refused::History(error) => error.into(),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({"error": {"field": self.field, "message": self.message}});
        let mut response = (self.status, Json(body)).into_response();
        let named = match self.status {
            StatusCode::METHOD_NOT_ALLOWED => Some((header::ALLOW, "GET, HEAD")),
            // Not Basic, at which a browser would ask for a password where the page has a login.
            StatusCode::UNAUTHORIZED => Some((header::WWW_AUTHENTICATE, "Bearer realm=\"conceptwatch\"")),
            _ => None,
        };
        if let Some((name, value)) = named {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
