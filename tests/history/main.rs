//! The history on disks that lie, fail, are slow and lose power.

mod corruption;
mod faults;
mod points;
mod power_cuts;
mod slow;
mod vfs;
