//! The messages of a webhook, as each kind of receiver takes them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::server::live::AlertChange;

/// The most characters of a message: Discord takes 2,000.
const LONGEST: usize = 1900;

/// The form of a webhook's messages.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum WebhookFormat {
    /// The change as it is in the API.
    #[default]
    Json,
    /// A text for an incoming webhook of Slack, or of what understands these, such as Mattermost.
    Slack,
    Discord,
    /// An adaptive card for a workflow of Microsoft Teams.
    Teams,
}

impl WebhookFormat {
    /// The body for an alert that began to fire, or was resolved. page: address of the sidecar's page.
    pub fn body(self, change: &AlertChange, status: &str, page: &str) -> Value {
        match self {
            Self::Json => json!({"status": status, "alert": change, "page": page}),
            Self::Slack => {
                // Slack reads only these three characters as its own.
                let text = text(change, status, page).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                json!({"text": text})
            }
            // Names of runs mention nobody.
            Self::Discord => json!({"content": text(change, status, page), "allowed_mentions": {"parse": []}}),
            Self::Teams => {
                let block = json!({"type": "TextBlock", "text": text(change, status, page), "wrap": true});
                let schema = "http://adaptivecards.io/schemas/adaptive-card.json";
                let card = json!({"$schema": schema, "type": "AdaptiveCard", "version": "1.4", "body": [block]});
                let kind = "application/vnd.microsoft.card.adaptive";
                json!({"type": "message", "attachments": [{"contentType": kind, "contentUrl": null, "content": card}]})
            }
        }
    }
}

/// The alert in words.
fn text(change: &AlertChange, status: &str, page: &str) -> String {
    let AlertChange { rule, run, split, evidence, step, .. } = change;
    let state = if status == "firing" { "Firing" } else { "Resolved" };
    let mut text =
        format!("{state} ({}): {rule} in run {run}, {split}, step {step}: {evidence}", change.severity.name());
    if status == "firing" && change.advises_stop {
        text += ". Training is advised to stop";
    }
    let mut short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short}\n{page}")
}
