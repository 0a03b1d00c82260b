//! Limits the lines that one peer can have written: a client that sends nonsense a thousand times a second would otherwise
//! fill a disk with warnings.
//!
//! Warnings and errors are counted by the place in the code that writes them and by the peer of the call, which a span
//! names. Each may write a few lines at once and then one a second; a summary says how many were left out.

use leakage::lock::lock;
use std::collections::HashMap;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Lines that may be written at once, and lines a second thereafter.
const BURST: f64 = 20.0;
const RATE: f64 = 1.0;
/// Places and peers told apart; further peers of a place share one count.
const KINDS: usize = 1024;
const OTHERS: &str = "others";
/// Interval of the summaries, and lines of one.
const SUMMARY: Duration = Duration::from_secs(10);
const SUMMARY_LINES: usize = 8;

#[derive(Clone, Default)]
pub struct LogLimit(Arc<Mutex<HashMap<Kind, Count>>>);

/// The place and the peer of a line.
type Kind = (Identifier, String);

struct Count {
    /// Lines that may be written now, and when that was so.
    left: f64,
    at: Instant,
    /// Lines left out since the last summary, and what the first of them says.
    omitted: u64,
    message: String,
}

/// The values of the fields `peer` and `message`.
#[derive(Default)]
struct Words {
    peer: String,
    message: String,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = match field.name() {
            "peer" => &mut self.peer,
            "message" => &mut self.message,
            _ => return,
        };
        let _ = write!(text, "{value:?}");
    }
}

/// The peer of a span.
struct Named(String);

impl LogLimit {
    /// Starts a thread that writes the summaries for as long as the process runs.
    pub fn start_summaries(&self) {
        let counts = self.clone();
        let summaries = std::thread::Builder::new().name("log-summary".to_owned());
        // Without the thread the lines are limited all the same.
        let _ = summaries.spawn(move || {
            loop {
                std::thread::sleep(SUMMARY);
                counts.summarise();
            }
        });
    }

    /// Writes how many lines were left out since the last time.
    pub fn summarise(&self) {
        let omitted = self.take_omitted();
        for (lines, peer, message) in omitted.iter().take(SUMMARY_LINES) {
            tracing::warn!(lines, like = %message, of = %peer, "lines of the log were left out");
        }
        let rest: u64 = omitted.iter().skip(SUMMARY_LINES).map(|(lines, ..)| lines).sum();
        if rest > 0 {
            tracing::warn!(lines = rest, like = OTHERS, of = OTHERS, "lines of the log were left out");
        }
    }

    /// The numbers of lines left out, largest first, each with the peer and the text.
    fn take_omitted(&self) -> Vec<(u64, String, String)> {
        let mut counts = lock(&self.0);
        let mut omitted: Vec<_> = counts
            .iter_mut()
            .filter(|(_, count)| count.omitted > 0)
            .map(|((_, peer), count)| {
                (std::mem::take(&mut count.omitted), peer.clone(), std::mem::take(&mut count.message))
            })
            .collect();
        omitted.sort_by(|a, b| b.cmp(a));
        omitted
    }

    /// Whether a line may be written now.
    fn admits(&self, place: Identifier, words: Words, now: Instant) -> bool {
        let mut counts = lock(&self.0);
        let full = |count: &Count| count.left + now.duration_since(count.at).as_secs_f64() * RATE >= BURST;
        let mut kind = (place, words.peer);
        if counts.len() >= KINDS && !counts.contains_key(&kind) {
            counts.retain(|_, count| count.omitted > 0 || !full(count));
            if counts.len() >= KINDS {
                kind.1 = OTHERS.to_owned();
            }
        }
        let new = || Count { left: BURST, at: now, omitted: 0, message: String::new() };
        let count = counts.entry(kind).or_insert_with(new);
        count.left = (count.left + now.duration_since(count.at).as_secs_f64() * RATE).min(BURST);
        count.at = now;
        if count.left >= 1.0 {
            count.left -= 1.0;
            return true;
        }
        if count.omitted == 0 {
            count.message = words.message;
        }
        count.omitted += 1;
        false
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLimit {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut words = Words::default();
        attributes.record(&mut words);
        if let Some(span) = context.span(id).filter(|_| !words.peer.is_empty()) {
            span.extensions_mut().insert(Named(words.peer));
        }
    }

    fn event_enabled(&self, event: &Event<'_>, context: Context<'_, S>) -> bool {
        if *event.metadata().level() > Level::WARN {
            return true;
        }
        let mut words = Words::default();
        event.record(&mut words);
        if words.peer.is_empty()
            && let Some(scope) = context.event_scope(event)
        {
            let named =
                scope.into_iter().find_map(|span| span.extensions().get::<Named>().map(|named| named.0.clone()));
            words.peer = named.unwrap_or_default();
        }
        self.admits(event.metadata().callsite(), words, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Counts the lines that pass.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<u64>>);

    impl<S: Subscriber> Layer<S> for Lines {
        fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
            *self.0.lock().unwrap() += 1;
        }
    }

    #[test]
    fn each_peer_writes_a_few_lines_of_a_kind_and_the_others_are_counted() {
        let (limit, lines) = (LogLimit::default(), Lines::default());
        let written = || std::mem::take(&mut *lines.0.lock().unwrap());
        let subscriber = tracing_subscriber::registry().with(limit.clone()).with(lines.clone());
        tracing::subscriber::with_default(subscriber, || {
            let refuse = || tracing::warn!(rows = 3, "a batch was refused");
            for peer in ["10.0.0.1", "user 7"] {
                let span = tracing::error_span!("call", peer = %peer);
                span.in_scope(|| (0..1000).for_each(|_| refuse()));
                assert!((20..25).contains(&written()), "{peer}");
            }
            // Another kind of line, and those of no peer.
            (0..10).for_each(|_| tracing::error!(peer = "10.0.0.1", "another"));
            (0..10).for_each(|_| refuse());
            (0..1000).for_each(|_| tracing::info!("a run started"));
            assert_eq!(written(), 1020);
            limit.summarise();
            assert_eq!(written(), 2);
            limit.summarise();
            assert_eq!(written(), 0);
        });
    }

    #[test]
    fn many_peers_share_what_room_is_left() {
        let (limit, now) = (LogLimit::default(), Instant::now());
        let place = tracing::subscriber::with_default(tracing_subscriber::registry(), || {
            tracing::error_span!("a place").metadata().unwrap().callsite()
        });
        let write = |peer: String, now| limit.admits(place.clone(), Words { peer, message: "m".into() }, now);
        let written = (0..10_000).filter(|number| write(number.to_string(), now)).count();
        assert_eq!(written, KINDS + BURST as usize);
        assert!(limit.0.lock().unwrap().len() <= KINDS + 1);
        assert_eq!(limit.take_omitted(), [(10_000 - written as u64, "others".to_owned(), "m".to_owned())]);
        // Kinds that are quiet make room.
        assert!(write("new".into(), now + Duration::from_secs(60)));
        assert!(limit.0.lock().unwrap().len() < 10);
    }
}
