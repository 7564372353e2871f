//! Decision whether to take a routing table whose version is far above that of ours.
//!
//! Invariant: while another server answers, one server alone does not move the table by more than
//! [`VERSION_JUMP_MAX`] versions. Schedule that breaks it: one AllocSvr sends a table of version
//! 2^62 that names itself as the owner of every slot. The tables of all others are older, so the
//! client takes none of them before it has reason to doubt its own: see `table_origin`.
//!
//! If no other server answers, the table is taken: a client that slept for long would find no
//! owner.

use parking_lot::Mutex;

/// Greatest difference of versions that one server may cause. Above it, another one must confirm
/// the table. All 1,024 slots of a cluster change their owner a thousand times in it.
pub(crate) const VERSION_JUMP_MAX: u64 = 1 << 20;

/// What to do with a table whose version jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JumpVerdict {
    /// Apply it: another server has sent one as well, or no other answers.
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
    pub(crate) fn judge(&self, address: &str, other_answers: bool) -> JumpVerdict {
        let mut claimant = self.claimant.lock();
        match claimant.as_deref() {
            _ if !other_answers => JumpVerdict::Apply,
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
