//! The history in its file: what it keeps and removes, and on disks that lie, fail, are slow and lose power.

mod corruption;
mod damage;
mod faults;
mod kept;
mod limits;
mod opening;
mod outbox;
mod points;
mod power_cuts;
mod removed;
mod slow;
#[path = "../common/stored.rs"]
mod stored;
mod vfs;
