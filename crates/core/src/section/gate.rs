//! The gate of a section: how many callers are inside, and whether any may still enter.
//!
//! One atomic word: bit 63 sealed, the rest counts callers inside. Two words would not do. A caller
//! could read "open", the sealer then seal and read "no caller inside". The caller would then enter
//! and hand out a number above the high-water mark reported for the section.
//!
//! Invariant: all changes of the word are read-modify-writes, hence in one order. A caller that
//! enters before the seal in that order is counted until it leaves. A caller that comes after sees
//! the bit, touches nothing and steps back. So "sealed, no caller inside", once seen, means that no
//! counter changes any more. The releases of all callers that left make their writes visible to the
//! thread that saw it.

use super::sync::{AtomicU64, Ordering};

const SEALED: u64 = 1 << 63;

pub(super) struct Gate(AtomicU64);

impl Default for Gate {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Gate {
    /// Enters; returns false once sealed. Every other `enter` is paired with one
    /// [`leave`](Self::leave).
    #[inline]
    pub(super) fn enter(&self) -> bool {
        if self.is_sealed() {
            return false;
        }
        if self.0.fetch_add(1, Ordering::AcqRel) & SEALED == 0 {
            return true;
        }
        self.leave();
        false
    }

    #[inline]
    pub(super) fn leave(&self) {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(
            before & !SEALED > 0,
            "left a gate that no caller had entered"
        );
    }

    pub(super) fn seal(&self) {
        self.0.fetch_or(SEALED, Ordering::AcqRel);
    }

    #[inline]
    pub(super) fn is_sealed(&self) -> bool {
        self.0.load(Ordering::Acquire) & SEALED != 0
    }

    /// Returns whether it is sealed and empty. May be false again while a late caller steps back.
    pub(super) fn is_drained(&self) -> bool {
        self.0.load(Ordering::Acquire) == SEALED
    }
}
