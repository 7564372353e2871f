//! Random numbers of a run.

use seqsvr_core::sim::{hash_text, mix_bits};

/// Stream of random numbers of a seed, one for each purpose.
pub struct RandomStream {
    state: u64,
    count: u64,
}

impl RandomStream {
    /// Creates the stream of a purpose.
    pub fn new(seed: u64, purpose: &str) -> RandomStream {
        RandomStream {
            state: mix_bits(seed, hash_text(purpose)),
            count: 0,
        }
    }

    /// Returns the next number.
    pub fn next_number(&mut self) -> u64 {
        self.count += 1;
        mix_bits(self.state, self.count)
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub fn next_below(&mut self, end: u64) -> u64 {
        self.next_number() % end.max(1)
    }

    /// Returns a number from `from` to `to`, both included.
    pub fn next_between(&mut self, from: u64, to: u64) -> u64 {
        from + self.next_below(to - from + 1)
    }

    /// Returns true with a probability of `percent`.
    pub fn next_bool(&mut self, percent: u64) -> bool {
        self.next_below(100) < percent
    }

    /// Returns one of several values.
    pub fn pick_one<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.next_below(all.len() as u64) as usize].clone()
    }
}
