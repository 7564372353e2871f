//! Limit of the bytes that a server, an endpoint or a connection holds.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Maximum bytes, and the bytes that are held now. The holders give back what they added.
#[derive(Debug)]
pub struct ByteBudget {
    bytes_max: usize,
    held_bytes: AtomicUsize,
}

impl ByteBudget {
    /// Creates a budget of `bytes_max` bytes, of which none is held.
    pub const fn new(bytes_max: usize) -> ByteBudget {
        ByteBudget {
            bytes_max,
            held_bytes: AtomicUsize::new(0),
        }
    }

    /// Returns the bytes that are held now.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.load(Relaxed)
    }

    /// Adds bytes. False: the sum would be above the maximum, and nothing has changed.
    pub fn try_add(&self, bytes: usize) -> bool {
        add_within(&self.held_bytes, bytes, self.bytes_max)
    }

    /// Gives bytes back.
    pub fn subtract(&self, bytes: usize) {
        self.held_bytes.fetch_sub(bytes, Relaxed);
    }

    /// Changes the bytes of one holder to `bytes`. False: the sum would be above the maximum, and
    /// nothing has changed.
    pub fn try_resize(&self, held: &mut usize, bytes: usize) -> bool {
        if bytes > *held {
            if !self.try_add(bytes - *held) {
                return false;
            }
        } else if bytes < *held {
            self.subtract(*held - bytes);
        }
        *held = bytes;
        true
    }
}

/// Adds `n` if the sum stays within `most`. Returns whether it did.
pub fn add_within(counter: &AtomicUsize, n: usize, most: usize) -> bool {
    let added = |now: usize| now.checked_add(n).filter(|sum| *sum <= most);
    counter.fetch_update(Relaxed, Relaxed, added).is_ok()
}
