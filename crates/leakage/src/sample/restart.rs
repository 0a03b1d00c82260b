//! The restart of its launch that a rank belongs to.
//!
//! Launchers number restarts, but not all of them number those of the launch: each of torchrun's agents counts the
//! failures of its own workers, and restarts them without counting where those of another agent failed, or where hosts
//! joined or left. So after a restart the ranks of one attempt state different numbers, and ranks of two attempts the same.
//! Each restart replaces the processes of all ranks, however. Where jobs name these processes, they tell the attempts
//! apart, and the stated numbers are lower bounds.

/// The state of a launch when a process declares itself as one of its ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The newest restart; `None` before the first declaration.
    pub newest: Option<u32>,
    /// The restart that this process has declared itself for.
    pub own: Option<u32>,
    /// Whether another process has declared itself as this rank for the newest restart.
    pub is_taken: bool,
    /// Number of ranks of the newest restart; `None` where no process of it is known.
    pub world_size: Option<u32>,
}

/// The restart that a named process belongs to, which states the number `stated` and `world_size` ranks.
pub fn restart_of(stated: u32, world_size: u32, seen: Seen) -> u32 {
    let Some(newest) = seen.newest.filter(|newest| stated <= *newest) else { return stated };
    let has_room = !seen.is_taken && seen.world_size.is_none_or(|known| known == world_size);
    match seen.own {
        Some(own) if own == newest => newest,
        // Its launcher has not replaced it: a restart that it was no part of began without it.
        _ if has_room => newest,
        Some(own) => own,
        None => newest.saturating_add(1),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A launch as its history keeps it.
    #[derive(Default)]
    struct Launch {
        newest: Option<u32>,
        /// Restart, rank and number of ranks of each process.
        processes: BTreeMap<&'static str, (u32, u32, u32)>,
    }

    impl Launch {
        fn declare(&mut self, process: &'static str, stated: u32, rank: u32, world_size: u32) -> u32 {
            let of_newest = |&(restart, ..): &(u32, u32, u32)| Some(restart) == self.newest;
            let others = self.processes.iter().filter(|(name, of)| **name != process && of_newest(of));
            let seen = Seen {
                newest: self.newest,
                own: self.processes.get(process).map(|(restart, ..)| *restart),
                is_taken: others.clone().any(|(_, (_, taken, _))| *taken == rank),
                world_size: self.processes.values().find(|of| of_newest(of)).map(|(.., size)| *size),
            };
            let restart = restart_of(stated, world_size, seen);
            self.newest = self.newest.max(Some(restart));
            self.processes.insert(process, (restart, rank, world_size));
            restart
        }
    }

    #[test]
    fn ranks_whose_agents_count_differently_share_an_attempt_in_any_order() {
        // Ranks 0 and 1 are on the host whose agent counts nothing, 2 and 3 on the one whose workers failed.
        let restarted = [("a0", 0, 0), ("a1", 0, 1), ("b2", 1, 2), ("b3", 1, 3)];
        for first in 0..restarted.len() {
            let mut launch = Launch::default();
            for (rank, process) in (0..).zip(["p0", "p1", "p2", "p3"]) {
                assert_eq!(launch.declare(process, 0, rank, 4), 0);
            }
            for (process, stated, rank) in restarted.iter().cycle().skip(first).take(restarted.len()) {
                assert_eq!(launch.declare(process, *stated, *rank, 4), 1, "{process} after a start at {first}");
            }
            // A process that declares itself again, as after a restart of the sidecar, stays where it is.
            assert_eq!(launch.declare("a1", 0, 1, 4), 1);
            assert_eq!(launch.declare("p1", 0, 1, 4), 0, "the rank is another process's now");
        }
    }

    #[test]
    fn another_number_of_ranks_is_another_attempt() {
        let mut launch = Launch::default();
        assert_eq!(launch.declare("p0", 0, 0, 8), 0);
        assert_eq!(launch.declare("p7", 0, 7, 8), 0);
        // The host of rank 7 has left. Its agent does not count that, and rank 5 is a process that was never heard of.
        assert_eq!(launch.declare("q5", 0, 5, 6), 1);
        assert_eq!(launch.declare("q0", 0, 0, 6), 1);
        assert_eq!(launch.declare("p7", 0, 7, 8), 0, "the host that left goes on alone");
        // A new host joins. Its agent begins to count.
        assert_eq!(launch.declare("r6", 0, 6, 8), 2);
        assert_eq!(launch.declare("r0", 0, 0, 8), 2);
    }

    #[test]
    fn a_process_that_was_left_behind_joins_the_others() {
        let mut launch = Launch::default();
        assert_eq!(launch.declare("a", 0, 0, 2), 0);
        // The other host's workers failed twice before they could declare themselves.
        assert_eq!(launch.declare("b", 2, 1, 2), 2);
        assert_eq!(launch.declare("a", 0, 0, 2), 2);
    }

    #[test]
    fn numbers_of_a_launcher_that_counts_for_all_are_kept() {
        let mut launch = Launch::default();
        for restart in [0, 1, 5] {
            for rank in 0..2 {
                let process = ["p0", "p1", "q0", "q1", "r0", "r1"][(restart.min(2) * 2 + rank) as usize];
                assert_eq!(launch.declare(process, restart, rank, 2), restart);
            }
        }
        assert_eq!(restart_of(0, 2, Seen { newest: Some(u32::MAX), is_taken: true, ..Seen::default() }), u32::MAX);
    }
}
