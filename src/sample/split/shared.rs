//! Passes of an attempt whose ranks send to several processes. One process cannot know when all ranks have ended a pass, so
//! the pass stays open here, whatever its deadline and the limit of open passes, until another process reports its end.

use super::{Remembered, Split};
use crate::sample::evaluation::{Evaluation, Now};
use crate::sample::window::{Begun, Unfinished};
use crate::step::PassKey;

impl Split {
    /// Whether ranks of the current attempt send to other processes, too. A newer attempt is not shared until this is
    /// called for it. Returns what is complete once an attempt is no longer shared.
    pub fn share(&mut self, shared: bool, now: Now) -> Vec<Evaluation> {
        let mut closed = Vec::new();
        if self.shared && !shared {
            let world_size = self.current.map_or(0, |current| current.world_size);
            self.close_where(&mut closed, now, |pass| pass.ended.count() == world_size);
            self.released = now.elapsed;
        }
        self.shared = shared;
        closed
    }

    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// The open passes that at least one rank has ended, in the order in which they were opened.
    pub fn begun(&self) -> impl Iterator<Item = Begun> + '_ {
        self.open.iter().filter_map(|pass| {
            let ended = pass.ended.iter().collect();
            Some(Begun { pass: pass.key, ended, since: pass.first_end? })
        })
    }

    /// Forgets the rows of an open pass that has ended elsewhere. Its batches and ends are known from then on. `None` if it
    /// is not open.
    pub fn settle(&mut self, key: PassKey) -> Option<Unfinished> {
        let at = self.open.iter().position(|pass| pass.key == key)?;
        let pass = self.open.remove(at);
        let ranks = self.current.map_or(0, |current| current.world_size);
        let unfinished = Unfinished { pass: key, rows: pass.taken, ended: pass.ended.count(), ranks };
        self.counts.passes += 1;
        self.closed.insert(key, Remembered { applied: pass.applied, ended: pass.ended, abandoned: false });
        Some(unfinished)
    }

    /// [Settles](Self::settle) the shared pass that was opened first, other than `key`.
    pub fn settle_oldest(&mut self, key: PassKey) -> Option<Unfinished> {
        let oldest = self.open.iter().find(|pass| pass.key != key).filter(|_| self.shared)?.key;
        self.settle(oldest)
    }
}
