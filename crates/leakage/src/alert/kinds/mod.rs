//! The kinds of rules, one file each.
//!
//! To add a kind, write a file that implements [`Kind`] (its keys, their check, its judgement and its words), declare it
//! below and add its name to the list `kinds!`. docs/alerts.md describes the keys to users; a test checks that it does.

mod few_rows;
mod rise;
mod saturated;
mod stale;
mod threshold;
mod together;

use serde_json::Value;

use super::fields::{Fields, KeyFault};
use super::kind::{Kind, Pace, Seen, Verdict};
use super::target::Target;
use crate::point::Point;

pub use few_rows::FewRows;
pub use rise::Rise;
pub use saturated::Saturated;
pub use stale::Stale;
pub use threshold::Threshold;
pub use together::{Condition, Together};

macro_rules! kinds {
    ($($kind:ident),+ $(,)?) => {
        /// The criterion of a rule: exactly one kind.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Judge {
            $($kind($kind)),+
        }

        /// A judge, with what it remembers of one run.
        #[derive(Clone, Debug)]
        pub enum Judging {
            $($kind($kind, <$kind as Kind>::Memory)),+
        }

        /// The keys of each kind.
        pub const KEYS: &[&[&str]] = &[$($kind::KEYS),+];

        impl Judge {
            /// Reads the kind whose keys are given.
            pub fn read(fields: &mut Fields) -> Result<Self, KeyFault> {
                only_one(fields)?;
                $(if $kind::KEYS.iter().any(|key| fields.has(key)) {
                    return $kind::read(fields).map(Self::$kind);
                })+
                Err(KeyFault::new(KEYS[0][0], format!("is missing, expected one of {}", KEYS.concat().join(", "))))
            }

            pub fn begin(self) -> Judging {
                match self {
                    $(Self::$kind(kind) => Judging::$kind(kind, Default::default())),+
                }
            }

            pub fn limits(&self) -> Vec<(&'static str, Value)> {
                match self { $(Self::$kind(kind) => kind.limits()),+ }
            }

            pub fn target(&self) -> Option<Target> {
                match self { $(Self::$kind(kind) => kind.target()),+ }
            }

            pub fn reads(&self) -> Vec<&'static str> {
                match self { $(Self::$kind(kind) => kind.reads()),+ }
            }

            pub fn pace(&self) -> Pace {
                match self { $(Self::$kind(kind) => kind.pace()),+ }
            }

            pub fn silence(&self) -> Option<f64> {
                match self { $(Self::$kind(kind) => kind.silence()),+ }
            }

            pub fn meaning(&self, lasting: &str) -> String {
                match self { $(Self::$kind(kind) => kind.meaning(lasting)),+ }
            }

            pub fn casts_doubt(&self) -> bool {
                match self { $(Self::$kind(_) => $kind::CASTS_DOUBT),+ }
            }

            pub fn is_doubted(&self) -> bool {
                match self { $(Self::$kind(_) => $kind::DOUBTED),+ }
            }
        }

        impl Judging {
            pub fn judge(&mut self, seen: &Seen) -> Option<Verdict> {
                match self { $(Self::$kind(kind, memory) => kind.judge(memory, seen)),+ }
            }

            pub fn excuse(&mut self, point: &Point, late: &[&str], step: u64) -> Option<String> {
                match self { $(Self::$kind(kind, memory) => kind.excuse(memory, point, late, step)),+ }
            }
        }

        $(impl From<$kind> for Judge {
            fn from(kind: $kind) -> Self {
                Self::$kind(kind)
            }
        })+
    };
}

kinds! { Threshold, Together, Rise, Stale, FewRows, Saturated }

/// Errors where the keys of two kinds are given.
fn only_one(fields: &Fields) -> Result<(), KeyFault> {
    let mut given = KEYS.iter().filter_map(|keys| keys.iter().find(|key| fields.has(key)));
    match (given.next(), given.next()) {
        (Some(first), Some(second)) => {
            let message = format!("contradicts `{first}`: a rule judges one of them, two need two rules");
            Err(KeyFault::new(*second, message))
        }
        _ => Ok(()),
    }
}
