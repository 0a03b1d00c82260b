//! The memory of this machine.

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// As the system tells it at this moment.
pub fn memory() -> System {
    System::new_with_specifics(RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram()))
}
