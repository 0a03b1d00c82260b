//! The history on disks that lie, fail and lose power.

mod corruption;
mod faults;
mod points;
mod power_cuts;
mod vfs;
