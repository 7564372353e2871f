//! Trace of a run: a rolling hash over all events, and the last events as text.

use std::collections::VecDeque;

use seqsvr_core::sim::mix_bits;

/// Maximum events kept as text. Above it, the oldest one is dropped.
const LAST_EVENTS_MAX: usize = 400;

/// Events of a run, in order.
#[derive(Default)]
pub struct EventTrace {
    hash: u64,
    event_count: u64,
    last_events: VecDeque<String>,
    is_printing: bool,
}

impl EventTrace {
    /// Prints every event as it happens.
    pub fn enable_printing(&mut self) {
        self.is_printing = true;
    }

    /// Records an event: `numbers` identify it and enter the hash, `words` are for people.
    pub fn record_event(&mut self, now: u64, numbers: &[u64], words: impl FnOnce() -> String) {
        self.event_count += 1;
        self.hash = numbers
            .iter()
            .fold(mix_bits(self.hash, now), |hash, n| mix_bits(hash, *n));
        if self.is_printing {
            println!("{now:>7} {}", words());
        }
    }

    /// Records an event that the report of a failure shows.
    pub fn record_reported_event(&mut self, now: u64, numbers: &[u64], words: String) {
        if self.last_events.len() == LAST_EVENTS_MAX {
            self.last_events.pop_front();
        }
        self.last_events.push_back(format!("{now:>7} {words}"));
        self.record_event(now, numbers, || words);
    }

    /// Returns the hash over all recorded events.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the number of recorded events.
    pub fn event_count(&self) -> u64 {
        self.event_count
    }

    /// Returns the last events as text.
    pub fn last_events(&self) -> Vec<String> {
        self.last_events.iter().cloned().collect()
    }
}
