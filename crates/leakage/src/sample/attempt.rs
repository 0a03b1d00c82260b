//! Attempts: the launch of a run, or the restart of a launch, that a client belongs to.
//!
//! A job that names its launch states its attempt. Clients of jobs that do not are grouped into attempts in the order
//! in which they declare the run, `world_size` clients each. The ranks they send as correct this grouping, because two
//! clients of the same rank never belong to the same attempt.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::field_error::FieldError;
use crate::step::{Rank, Step};

/// A launch of a run, or one of its restarts. Later attempts compare greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// Number of earlier launches of the run.
    pub launch: u32,
    /// Number of earlier restarts of the launch.
    pub restart: u32,
}

/// A client's attempt and rank at the time of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub attempt: Attempt,
    /// Number of ranks of the attempt, at least 1.
    pub world_size: u32,
    /// Below `world_size`.
    pub rank: Rank,
}

/// The rank that a message states, not checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatedRank {
    pub rank: u32,
    /// Number of ranks that the run declares. A client that has declared itself is checked against its attempt instead.
    pub world_size: u32,
}

impl StatedRank {
    fn checked(self) -> Result<Rank, FieldError> {
        Rank::of(self.rank, self.world_size)
    }

    /// In an attempt of another number of ranks.
    fn among(self, world_size: u32) -> Result<Rank, FieldError> {
        Self { world_size, ..self }.checked()
    }
}

/// The clients of one attempt.
#[derive(Clone, Debug)]
struct Crew {
    world_size: u32,
    /// Whether the clients name the launch.
    named: bool,
    /// Its evaluations continue those in the history, as after a restart of the sidecar.
    continues: bool,
    declared: Duration,
    clients: u32,
    /// For unnamed launches, the client that sent as each rank.
    ranks: BTreeMap<Rank, u64>,
    /// For named launches, the ranks that have declared themselves to this process.
    present: BTreeSet<Rank>,
    finished: BTreeSet<Rank>,
    /// The step of each rank's last message, and when it came.
    reached: BTreeMap<Rank, (Step, Duration)>,
}

impl Crew {
    fn new(world_size: u32, named: bool, continues: bool, declared: Duration) -> Self {
        let (ranks, present, finished, reached) = Default::default();
        Self { world_size, named, continues, declared, clients: 0, ranks, present, finished, reached }
    }

    /// Whether every rank has declared itself, or finished before.
    fn is_assembled(&self) -> bool {
        let known = match self.named {
            true => self.present.union(&self.finished).count(),
            false => self.clients as usize,
        };
        known >= self.world_size as usize
    }

    fn has_room_for(&self, client: u64, rank: Rank, world_size: u32) -> bool {
        let free = self.ranks.get(&rank).is_none_or(|known| *known == client);
        !self.named && self.world_size == world_size && self.clients < self.world_size && free
    }
}

#[derive(Clone, Copy, Debug)]
struct Client {
    attempt: Attempt,
    world_size: u32,
    /// Whether it has sent a message.
    sent: bool,
}

/// A client's declaration of the run.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// [`client_hash`](super::client_hash) of the client's name.
    pub client: u64,
    /// The attempt that the client names; `None` if it names none.
    pub attempt: Option<Attempt>,
    pub world_size: u32,
    /// The client's rank, where it names its launch.
    pub rank: Option<Rank>,
    /// Whether this attempt continues evaluations in the history.
    pub continues: bool,
}

/// Maximum number of clients remembered; beyond it, those of the oldest attempts are forgotten.
const MAX_CLIENTS: usize = 1 << 17;

/// The clients of a run by attempt.
#[derive(Clone, Debug, Default)]
pub struct Members {
    clients: HashMap<u64, Client>,
    crews: BTreeMap<Attempt, Crew>,
    /// The run has finished: the next declaration begins a new launch.
    over: bool,
}

impl Members {
    /// Errors where ranks of the attempt that a client names have stated another number of ranks.
    pub fn check_world_size(&self, declaration: &Declaration) -> Result<(), FieldError> {
        let Declaration { attempt, world_size, rank, .. } = *declaration;
        let crew = attempt.filter(|_| !self.over).and_then(|attempt| self.crews.get(&attempt));
        match crew.filter(|crew| crew.named && crew.world_size != world_size) {
            Some(crew) => Err(FieldError::new(
                "run.world_size",
                format!(
                    "got {world_size} from rank {}, expected {} as other ranks of the job have stated: start all ranks with one \
                     world_size, and a restart with another one as a newer attempt",
                    rank.unwrap_or_default().get(),
                    crew.world_size
                ),
            )),
            None => Ok(()),
        }
    }

    /// Records a declaration. Returns whether it begins an attempt newer than all earlier ones; `false` for the first.
    pub fn declare(&mut self, declaration: Declaration, now: Duration) -> bool {
        let Declaration { client, attempt, world_size, rank, continues } = declaration;
        let newest = self.newest();
        let over = std::mem::take(&mut self.over);
        let (attempt, named) = match attempt {
            Some(attempt) => (attempt, true),
            None if !over && self.clients.get(&client).is_some_and(|known| known.world_size == world_size) => {
                return false;
            }
            None => (self.unnamed_place(world_size, over), false),
        };
        let continues = continues && (named || newest.is_none());
        let crew = self.crews.entry(attempt).or_insert_with(|| Crew::new(world_size, named, continues, now));
        crew.clients += 1;
        crew.present.extend(rank.filter(|_| named));
        if over {
            crew.finished.clear();
            crew.continues = false;
            crew.world_size = world_size;
        }
        self.clients.insert(client, Client { attempt, world_size, sent: false });
        self.forget_oldest();
        newest.is_some_and(|newest| attempt > newest)
    }

    /// The attempt and rank of a client that sends a message. A client that has not declared the run joins an unnamed
    /// launch of as many ranks as the run declares. Errors when the rank is out of range.
    pub fn sends(&mut self, client: u64, stated: StatedRank, now: Duration) -> Result<Member, FieldError> {
        if !self.knows(client) {
            stated.checked()?;
            let world_size = stated.world_size;
            self.declare(Declaration { client, attempt: None, world_size, rank: None, continues: false }, now);
        }
        let known = self.clients.get(&client).copied();
        let Some(Client { attempt, world_size, sent }) = known else {
            return Err(FieldError::new("client", "is not known"));
        };
        let rank = stated.among(world_size)?;
        let place = if self.crews.get(&attempt).is_none_or(|crew| crew.named) {
            attempt
        } else {
            self.corrected(client, attempt, rank, world_size, sent, now)
        };
        if let Some(crew) = self.crews.get_mut(&place) {
            crew.ranks.insert(rank, client);
        }
        self.clients.insert(client, Client { attempt: place, world_size, sent: true });
        Ok(Member { attempt: place, world_size, rank })
    }

    pub fn knows(&self, client: u64) -> bool {
        self.clients.contains_key(&client)
    }

    /// Notes that a rank sent a message of `step`.
    pub fn reached(&mut self, member: Member, step: Step, now: Duration) {
        if let Some(crew) = self.crews.get_mut(&member.attempt) {
            crew.reached.insert(member.rank, (step, now));
        }
    }

    /// When a rank of an attempt last sent anything of `step` or before, of those that have neither `ended` nor finished.
    pub fn heard_before(&self, attempt: Attempt, step: Step, ended: impl Fn(Rank) -> bool) -> Option<Duration> {
        let crew = self.crews.get(&attempt)?;
        let coming = crew
            .reached
            .iter()
            .filter(|(rank, (reached, _))| *reached <= step && !ended(**rank) && !crew.finished.contains(*rank));
        coming.map(|(_, (_, heard))| *heard).max()
    }

    /// Whether every rank of an attempt has declared itself to this process, or finished before.
    pub fn is_assembled(&self, attempt: Attempt) -> bool {
        self.crews.get(&attempt).is_some_and(Crew::is_assembled)
    }

    /// Adds ranks of an attempt that finished before the sidecar was restarted.
    pub fn restore_finished(&mut self, attempt: Attempt, ranks: impl IntoIterator<Item = Rank>) {
        if let Some(crew) = self.crews.get_mut(&attempt) {
            crew.finished.extend(ranks);
        }
    }

    /// Records that a rank has finished, in the client's attempt or, for an unknown client, in the newest one. Returns
    /// the checked rank, and the attempt if this was its last. Errors when the rank is out of range.
    pub fn finish(&mut self, client: Option<u64>, stated: StatedRank) -> Result<(Rank, Option<Attempt>), FieldError> {
        let attempt = self.attempt_of(client);
        let nobody_declared = self.crews.is_empty();
        let Some(crew) = self.crews.get_mut(&attempt) else {
            return Ok((stated.checked()?, nobody_declared.then_some(attempt)));
        };
        let rank = stated.among(crew.world_size)?;
        crew.finished.insert(rank);
        Ok((rank, (crew.finished.len() == crew.world_size as usize).then_some(attempt)))
    }

    /// Records that the run has finished.
    pub fn end(&mut self) {
        self.over = true;
    }

    pub fn newest(&self) -> Option<Attempt> {
        self.crews.last_key_value().map(|(attempt, _)| *attempt)
    }

    /// The attempt of a client; the newest one for an unknown client.
    pub fn attempt_of(&self, client: Option<u64>) -> Attempt {
        let known = client.and_then(|client| self.clients.get(&client)).map(|client| client.attempt);
        known.or(self.newest()).unwrap_or_default()
    }

    /// Whether the evaluations of an attempt continue those in the history.
    pub fn continues(&self, attempt: Attempt) -> bool {
        self.crews.get(&attempt).is_some_and(|crew| crew.continues)
    }

    /// When the first client of an attempt's launch declared itself, in this attempt or an earlier one.
    pub fn launched(&self, attempt: Attempt) -> Duration {
        let attempts = self.crews.range(Attempt { restart: 0, ..attempt }..=attempt);
        attempts.map(|(_, crew)| crew.declared).min().unwrap_or_default()
    }

    /// The attempt of one more client of an unnamed launch.
    fn unnamed_place(&self, world_size: u32, over: bool) -> Attempt {
        match self.crews.last_key_value() {
            None => Attempt::default(),
            Some((newest, crew)) if over || crew.named || crew.world_size != world_size => after(*newest, crew),
            Some((newest, crew)) if crew.clients >= world_size => after(*newest, crew),
            Some((newest, _)) => *newest,
        }
    }

    /// The attempt of a client of an unnamed launch, given that it sends as `rank`.
    fn corrected(
        &mut self,
        client: u64,
        attempt: Attempt,
        rank: Rank,
        world_size: u32,
        sent: bool,
        now: Duration,
    ) -> Attempt {
        let taken = self.crews.get(&attempt).and_then(|crew| crew.ranks.get(&rank));
        let taken = taken.is_some_and(|known| *known != client);
        let room = |(at, crew): (&Attempt, &Crew)| crew.has_room_for(client, rank, world_size).then_some(*at);
        let mut newer = self.crews.range((std::ops::Bound::Excluded(attempt), std::ops::Bound::Unbounded));
        // A client that has sent nothing has no part in an abandoned attempt, so it joins the restarted one.
        let begun = !sent && newer.clone().any(|(_, crew)| !crew.ranks.is_empty());
        if !(taken || begun) {
            return attempt;
        }
        let place = match (newer.find_map(room), self.crews.last_key_value()) {
            (Some(place), _) => place,
            (None, Some((newest, crew))) if taken => {
                let place = after(*newest, crew);
                self.crews.insert(place, Crew::new(world_size, false, false, now));
                place
            }
            _ => return attempt,
        };
        for (at, change) in [(attempt, -1), (place, 1)] {
            if let Some(crew) = self.crews.get_mut(&at) {
                crew.clients = crew.clients.saturating_add_signed(change);
            }
        }
        place
    }

    fn forget_oldest(&mut self) {
        while self.clients.len() > MAX_CLIENTS {
            let Some((oldest, _)) = self.crews.pop_first() else { return };
            self.clients.retain(|_, client| client.attempt != oldest);
        }
    }
}

/// The attempt that follows `attempt`.
fn after(attempt: Attempt, crew: &Crew) -> Attempt {
    match crew.named {
        true => Attempt { launch: attempt.launch.saturating_add(1), restart: 0 },
        false => Attempt { restart: attempt.restart.saturating_add(1), ..attempt },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn unnamed(client: u64, world_size: u32) -> Declaration {
        Declaration { client, attempt: None, world_size, rank: None, continues: false }
    }

    fn named(client: u64, launch: u32, restart: u32, world_size: u32) -> Declaration {
        Declaration { attempt: Some(Attempt { launch, restart }), ..unnamed(client, world_size) }
    }

    /// The restart number of each client's unnamed attempt after it sends as the given rank.
    fn sent(members: &mut Members, clients: &[(u64, u32)], world_size: u32) -> Vec<u32> {
        let send = |&(client, rank): &(u64, u32)| {
            members.sends(client, StatedRank { rank, world_size }, NOW).unwrap().attempt.restart
        };
        clients.iter().map(send).collect()
    }

    #[test]
    fn ranks_of_an_attempt_state_one_number_of_ranks() {
        let mut members = Members::default();
        let of = |client, restart, world_size| Declaration { world_size, ..named(client, 0, restart, world_size) };
        members.declare(of(1, 0, 2), NOW);
        assert!(members.check_world_size(&of(2, 0, 2)).is_ok());
        let fault = members.check_world_size(&of(2, 0, 3)).unwrap_err();
        assert!(fault.to_string().starts_with("run.world_size: got 3 from rank 0, expected 2 "), "{fault}");
        assert!(members.check_world_size(&of(2, 1, 3)).is_ok(), "a restart may have more ranks");
        members.end();
        assert!(members.check_world_size(&of(2, 0, 3)).is_ok(), "the run has finished");
    }

    #[test]
    fn unnamed_clients_form_attempts_in_the_order_of_their_declarations() {
        let mut members = Members::default();
        let newer: Vec<bool> = (0..6).map(|client| members.declare(unnamed(client, 2), NOW)).collect();
        assert_eq!(newer, [false, false, true, false, true, false]);
        assert!(!members.declare(unnamed(1, 2), NOW), "a client that reconnects stays where it is");
        assert_eq!(sent(&mut members, &[(4, 0), (1, 1), (3, 0), (0, 0), (2, 1), (5, 1)], 2), [2, 0, 1, 0, 1, 2]);
    }

    #[test]
    fn a_launch_is_as_old_as_its_first_attempt() {
        let mut members = Members::default();
        for (client, (launch, restart)) in (0..).zip([(0, 0), (1, 0), (1, 1), (1, 2), (2, 0)]) {
            members.declare(named(client, launch, restart, 1), Duration::from_secs(10 + client));
        }
        let launched = |launch, restart| members.launched(Attempt { launch, restart }).as_secs();
        assert_eq!([launched(0, 0), launched(1, 0), launched(1, 2), launched(2, 0)], [10, 11, 11, 14]);
    }

    #[test]
    fn a_client_of_a_rank_already_present_belongs_to_a_later_attempt() {
        let mut members = Members::default();
        // Rank 1 of the first attempt never declared the run, so rank 0 of the second one was counted instead.
        members.declare(unnamed(10, 2), NOW);
        assert_eq!(sent(&mut members, &[(10, 0)], 2), [0]);
        members.declare(unnamed(20, 2), NOW);
        members.declare(unnamed(21, 2), NOW);
        assert_eq!(sent(&mut members, &[(20, 0), (21, 1), (20, 0)], 2), [1, 1, 1]);
        // The same with the ranks swapped, and with a first attempt that has sent nothing.
        for first_sends in [true, false] {
            let mut members = Members::default();
            members.declare(unnamed(10, 2), NOW);
            if first_sends {
                sent(&mut members, &[(10, 0)], 2);
            }
            members.declare(unnamed(20, 2), NOW);
            members.declare(unnamed(21, 2), NOW);
            assert_eq!(sent(&mut members, &[(21, 1), (20, 0)], 2), [1, 1], "{first_sends}");
        }
    }

    #[test]
    fn an_abandoned_client_stays_in_its_attempt() {
        let mut members = Members::default();
        for client in [10, 11, 20] {
            members.declare(unnamed(client, 2), NOW);
        }
        assert_eq!(sent(&mut members, &[(10, 0), (11, 1), (20, 1), (11, 1), (10, 0)], 2), [0, 0, 1, 0, 0]);
    }

    #[test]
    fn another_number_of_ranks_or_the_end_of_the_run_begins_a_new_attempt() {
        let mut members = Members::default();
        members.declare(unnamed(1, 3), NOW);
        assert!(members.declare(unnamed(2, 2), NOW));
        assert!(!members.declare(unnamed(3, 2), NOW));
        assert_eq!(members.finish(Some(2), StatedRank { rank: 0, world_size: 2 }).unwrap().1, None);
        assert_eq!(
            members.finish(Some(3), StatedRank { rank: 1, world_size: 2 }).unwrap().1,
            Some(Attempt { launch: 0, restart: 1 })
        );
        members.end();
        assert!(members.declare(unnamed(3, 2), NOW), "a process may train again after the run has finished");
        assert!(members.sends(3, StatedRank { rank: 2, world_size: 2 }, NOW).is_err());
    }

    #[test]
    fn a_named_launch_determines_the_attempt_of_its_clients() {
        let mut members = Members::default();
        assert!(!members.declare(named(1, 0, 1, 2), NOW));
        assert!(!members.declare(named(2, 0, 0, 2), NOW), "a late client of the previous attempt");
        assert!(members.declare(named(3, 1, 0, 1), NOW));
        let stated = StatedRank { rank: 0, world_size: 9 };
        let attempt = |members: &mut Members, client| members.sends(client, stated, NOW).unwrap().attempt;
        assert_eq!(attempt(&mut members, 1), Attempt { launch: 0, restart: 1 });
        assert_eq!(attempt(&mut members, 2), Attempt { launch: 0, restart: 0 });
        assert_eq!(attempt(&mut members, 3), Attempt { launch: 1, restart: 0 });
        // Several processes of one rank all belong to the attempt they name.
        members.declare(named(4, 1, 0, 1), NOW);
        assert_eq!(attempt(&mut members, 4), Attempt { launch: 1, restart: 0 });
        assert_eq!(
            attempt(&mut members, 5),
            Attempt { launch: 2, restart: 0 },
            "an unnamed client begins a later launch"
        );
    }
}
