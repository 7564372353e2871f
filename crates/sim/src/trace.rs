//! Trace of a run: a rolling hash over all events, and the last events as text.

use std::collections::VecDeque;

use seqsvr_core::sim::mix;

/// Maximum events kept as text. Above it, the oldest one is dropped.
const KEPT: usize = 400;

/// Events of a run, in order.
#[derive(Default)]
pub struct Trace {
    hash: u64,
    count: u64,
    words: VecDeque<String>,
    prints: bool,
}

impl Trace {
    /// Prints every event as it happens.
    pub fn print_all(&mut self) {
        self.prints = true;
    }

    /// Records an event: `numbers` identify it and enter the hash, `words` are for people.
    pub fn note(&mut self, now: u64, numbers: &[u64], words: impl FnOnce() -> String) {
        self.count += 1;
        self.hash = numbers
            .iter()
            .fold(mix(self.hash, now), |hash, n| mix(hash, *n));
        if self.prints {
            println!("{now:>7} {}", words());
        }
    }

    /// Records an event that the report of a failure shows.
    pub fn tell(&mut self, now: u64, numbers: &[u64], words: String) {
        if self.words.len() == KEPT {
            self.words.pop_front();
        }
        self.words.push_back(format!("{now:>7} {words}"));
        self.note(now, numbers, || words);
    }

    /// Returns the hash over all recorded events.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the number of recorded events.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the last events as text.
    pub fn last(&self) -> Vec<String> {
        self.words.iter().cloned().collect()
    }
}
