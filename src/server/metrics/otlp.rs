//! The counters of pushes by OTLP. There only with `--otlp-endpoint`.

use prometheus::{Error, IntCounter, Registry};

use super::names;

pub struct OtlpMetrics {
    pub pushes: IntCounter,
    pub failed: IntCounter,
    pub rejected: IntCounter,
}

impl OtlpMetrics {
    pub fn register(registry: &Registry) -> Result<Self, Error> {
        let counter = |name, help| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, Error>(counter)
        };
        Ok(Self {
            pushes: counter(names::OTLP_PUSHES, "Pushes of all metrics that the OTLP collector took.")?,
            failed: counter(
                names::OTLP_FAILED,
                "Pushes that failed because the OTLP collector was gone or refused them.",
            )?,
            rejected: counter(names::OTLP_REJECTED, "Points that the OTLP collector rejected.")?,
        })
    }
}
