//! The memory that the program has allocated, read at each scrape.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, IntGauge, Registry};

use super::names;
use crate::memory;

pub(super) struct HeapCollector(IntGauge);

impl HeapCollector {
    pub fn register(registry: &Registry) -> Result<(), Error> {
        let help = "Bytes allocated and not freed. Resident memory also holds the program and what the allocator keeps \
                    free. Absent where the C library does not report it.";
        registry.register(Box::new(Self(IntGauge::new(names::HEAP, help)?)))
    }
}

impl Collector for HeapCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.0.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(bytes) = memory::in_use() else { return Vec::new() };
        self.0.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.0.collect()
    }
}
