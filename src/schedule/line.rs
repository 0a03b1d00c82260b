//! The passes of one split that wait to be scored, oldest first, and the pace at which they come and go.
//!
//! A live pass is skipped only where live passes outrun scoring: the median of the last nine gaps between them is
//! shorter than the median of the last nine times that scoring took. A burst, as after a pause of the trainer, waits in
//! line. A backlog pass is never skipped for a newer one.

use std::collections::VecDeque;
use std::time::Duration;

/// A closed pass, ready to be scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed<P> {
    pub pass: P,
    /// It waited at the client while the sidecar could not be reached. It is not skipped for a newer one.
    pub backlog: bool,
    /// Live passes before it that the client held back and did not send.
    pub held_back: u64,
    /// Bytes that it holds in memory.
    pub bytes: usize,
    /// CPU time that its job is expected to take, from its shape; zero where that is unknown.
    pub expected: Duration,
}

impl<P> Closed<P> {
    /// A pass that has just ended.
    pub fn live(pass: P) -> Self {
        Self { pass, backlog: false, held_back: 0, bytes: 0, expected: Duration::ZERO }
    }
}

/// A pass that will not be scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped<P> {
    pub pass: P,
    pub why: Why,
}

/// Why a pass was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Live passes come faster than they are scored.
    Outrun,
    /// The split's queue of live passes is full.
    Full,
    /// The waiting passes of all splits hold as many bytes as they may.
    Memory,
    /// More backlog passes of the split wait than a client may send at a time.
    Backlog,
}

impl Why {
    pub fn text(self) -> &'static str {
        match self {
            Self::Outrun => {
                "a newer pass was ready before it could be scored, and passes come faster than they are scored"
            }
            Self::Full => "too many passes of the split were waiting to be scored",
            Self::Memory => "the passes waiting to be scored hold as much memory as they may",
            Self::Backlog => "the client sent more backlog passes at a time than the sidecar takes",
        }
    }
}

/// The limits on passes that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Live passes of a split, at least 1.
    pub live: usize,
    /// Backlog passes of a split. Clients have at most 4 of them unsettled, each rank its own.
    pub backlog: usize,
    /// Bytes of all waiting passes. One live pass of each split may wait beyond it, and so may backlog passes.
    pub bytes: usize,
}

impl Room {
    /// One pass of each split: a newer one always replaces it.
    pub const NEWEST: Self = Self { live: 1, backlog: 1, bytes: usize::MAX };
}

impl Default for Room {
    fn default() -> Self {
        Self { live: 256, backlog: 32, bytes: usize::MAX }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Waiting<P> {
    pub pass: P,
    backlog: bool,
    pub bytes: usize,
    pub expected: Duration,
    /// When it, or the pass that it replaced, was closed.
    pub since: Duration,
}

/// The line of one split. It stays, with its pace, when nothing waits.
#[derive(Clone, Debug)]
pub(super) struct Line<P> {
    waiting: VecDeque<Waiting<P>>,
    arrived: Option<Duration>,
    gaps: Recent,
    times: Recent,
    /// Start and end of the split's last job.
    last: Option<(Duration, Duration)>,
    /// CPU time of the last job for each second expected of it.
    scale: Option<f64>,
}

impl<P> Default for Line<P> {
    fn default() -> Self {
        let (waiting, arrived, gaps, times, last, scale) = Default::default();
        Self { waiting, arrived, gaps, times, last, scale }
    }
}

/// Gaps that must be known before passes can outrun scoring: a majority of those that the median is over.
const SUSTAINED: usize = Recent::MOST / 2 + 1;

impl<P> Line<P> {
    /// Adds a pass. `others` is the number of bytes that wait in other lines. Returns the pass that is skipped, if any.
    pub fn push(
        &mut self,
        closed: Closed<P>,
        room: &Room,
        others: usize,
        in_flight: Duration,
        now: Duration,
    ) -> Option<Skipped<P>> {
        let Closed { pass, backlog, held_back, bytes, expected } = closed;
        if backlog {
            if self.waiting.iter().filter(|waiting| waiting.backlog).count() >= room.backlog {
                return Some(Skipped { pass, why: Why::Backlog });
            }
            self.waiting.push_back(Waiting { pass, backlog, bytes, expected, since: now });
            return None;
        }
        if let Some(before) = self.arrived.replace(now) {
            let arrivals = u32::try_from(held_back.saturating_add(1)).unwrap_or(u32::MAX);
            self.gaps.push(now.saturating_sub(before) / arrivals);
        }
        let live = self.waiting.iter().filter(|waiting| !waiting.backlog).count();
        let why = if self.is_outrun(in_flight) {
            Some(Why::Outrun)
        } else if live >= room.live {
            Some(Why::Full)
        } else if others.saturating_add(self.bytes()).saturating_add(bytes) > room.bytes {
            Some(Why::Memory)
        } else {
            None
        };
        let newest = self.waiting.iter().rposition(|waiting| !waiting.backlog);
        let replaced = why.zip(newest).and_then(|(why, at)| Some((why, self.waiting.remove(at)?)));
        let since = replaced.as_ref().map_or(now, |(_, replaced)| replaced.since);
        self.waiting.push_back(Waiting { pass, backlog, bytes, expected, since });
        replaced.map(|(why, replaced)| Skipped { pass: replaced.pass, why })
    }

    /// The oldest pass, which starts now.
    pub fn start(&mut self, now: Duration) -> Option<Waiting<P>> {
        let next = self.waiting.pop_front()?;
        if let Some((started, ended)) = self.last
            && next.since <= ended
        {
            // It waited all the time: scoring one pass takes until the next can start.
            self.times.at_least(now.saturating_sub(started));
        }
        Some(next)
    }

    /// CPU time that the oldest pass is expected to take: by its shape, times what the last job took for each second
    /// expected of it, by default `scale`. Zero where it is unknown.
    pub fn cost(&self, scale: f64) -> Duration {
        let expected = self.waiting.front().map_or(Duration::ZERO, |waiting| waiting.expected);
        expected.mul_f64(self.scale.unwrap_or(scale))
    }

    /// Notes the CPU time that a job took for each second expected of it.
    pub fn measured(&mut self, scale: f64) {
        self.scale = Some(scale);
    }

    /// Notes that a job of the split ran from `started` to `now`, and that its CPU time is paid for after `paid`.
    pub fn ended(&mut self, started: Duration, now: Duration, paid: Duration) {
        self.times.push(now.saturating_sub(started).max(paid));
        self.last = Some((started, now));
    }

    /// Whether live passes come faster than they are scored. `in_flight` is how long the split's job in flight has taken.
    pub fn is_outrun(&self, in_flight: Duration) -> bool {
        let time = self.times.median().unwrap_or_default().max(in_flight);
        self.gaps.count() >= SUSTAINED && self.gaps.median().is_some_and(|gap| gap < time)
    }

    pub fn has_live(&self) -> bool {
        self.waiting.iter().any(|waiting| !waiting.backlog)
    }

    pub fn oldest(&self) -> Option<Duration> {
        self.waiting.front().map(|waiting| waiting.since)
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn bytes(&self) -> usize {
        self.waiting.iter().map(|waiting| waiting.bytes).sum()
    }

    pub fn take_all(&mut self) -> impl Iterator<Item = P> + use<P> {
        std::mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.pass)
    }
}

/// The last few of a series of durations.
#[derive(Clone, Debug, Default)]
struct Recent(VecDeque<Duration>);

impl Recent {
    const MOST: usize = 9;

    fn push(&mut self, duration: Duration) {
        if self.0.len() == Self::MOST {
            self.0.pop_front();
        }
        self.0.push_back(duration);
    }

    /// Raises the last one.
    fn at_least(&mut self, duration: Duration) {
        if let Some(last) = self.0.back_mut() {
            *last = duration.max(*last);
        }
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn median(&self) -> Option<Duration> {
        let mut sorted: Vec<Duration> = self.0.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }
}
