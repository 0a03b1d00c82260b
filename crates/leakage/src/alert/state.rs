//! Where a rule stands: inactive, pending or firing.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum State {
    #[default]
    Inactive,
    Pending,
    Firing,
}

impl State {
    pub fn name(self) -> &'static str {
        self.into()
    }
}
