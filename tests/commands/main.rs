//! Subcommands as users call them: the real program, on real files. In one program, because each test program is linked
//! with the whole crate.

#[path = "../common/mod.rs"]
mod common;

mod agreement;
mod compare;
mod curate;
mod diagnose;
mod doctor;
mod import;
mod kinds;
mod ports;
mod read_only;
mod replay;
mod score;
#[cfg(target_os = "linux")]
mod score_memory;
mod usual_page;
