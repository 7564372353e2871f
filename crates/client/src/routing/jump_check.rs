//! Decision whether to take a routing table whose version is far above that of ours.
//!
//! Invariant: while the client knows two servers, one of them alone does not move its table by more
//! than [`VERSION_JUMP_MAX`] versions. Schedule that breaks it: one AllocSvr sends a table of
//! version 2^62 that names itself as the owner of every slot. The tables of all others are older,
//! so the client takes none of them until it restarts.

use parking_lot::Mutex;

/// Greatest difference of versions that one server may cause. A cluster that changes its table a
/// thousand times a second makes it in 50 days.
pub(crate) const VERSION_JUMP_MAX: u64 = 1 << 32;

/// What to do with a table whose version jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JumpVerdict {
    /// Apply it: another server has sent one as well, or no other is known.
    Apply,
    /// Set it aside, and request the table from another server.
    AskAnother,
    /// Set it aside: the same server has sent one before.
    Ignore,
}

/// Server whose last table was set aside.
#[derive(Default)]
pub(crate) struct JumpCheck {
    claimant: Mutex<Option<String>>,
}

impl JumpCheck {
    /// Decides about a table from the server at `address`.
    pub(crate) fn judge(&self, address: &str, knows_other_server: bool) -> JumpVerdict {
        let mut claimant = self.claimant.lock();
        match claimant.as_deref() {
            _ if !knows_other_server => JumpVerdict::Apply,
            Some(first) if first == address => JumpVerdict::Ignore,
            Some(_) => {
                *claimant = None;
                JumpVerdict::Apply
            }
            None => {
                *claimant = Some(address.to_owned());
                JumpVerdict::AskAnother
            }
        }
    }

    /// Returns the server whose table was set aside; no other server has confirmed it.
    pub(crate) fn claimant(&self) -> Option<String> {
        self.claimant.lock().clone()
    }
}
