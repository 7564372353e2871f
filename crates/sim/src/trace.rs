//! The trace of a run: a rolling hash over all events, and the last events in words.

use std::collections::VecDeque;

use seqsvr_core::sim::mix;

/// Events kept in words.
const KEPT: usize = 400;

/// Events of a run, in their order.
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

    /// Notes an event: numbers that say what it is, and words for people.
    pub fn note(&mut self, now: u64, numbers: &[u64], words: impl FnOnce() -> String) {
        self.count += 1;
        self.hash = numbers
            .iter()
            .fold(mix(self.hash, now), |hash, n| mix(hash, *n));
        if self.prints {
            println!("{now:>7} {}", words());
        }
    }

    /// Notes an event that people want to see after a failure.
    pub fn tell(&mut self, now: u64, numbers: &[u64], words: String) {
        if self.words.len() == KEPT {
            self.words.pop_front();
        }
        self.words.push_back(format!("{now:>7} {words}"));
        self.note(now, numbers, || words);
    }

    /// Hash over all events so far.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Events so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the last events in words.
    pub fn last(&self) -> Vec<String> {
        self.words.iter().cloned().collect()
    }
}
