//! StoreSvr nodes, the end of the log, and the renewals of leases on their way.

use crate::parameters::TAKEOVER_WAIT_TICKS;
use crate::world::replicated_state::{ReplicatedState, SlotState};
use crate::world::store_command::{SessionId, StoreCommand, session_bit};

/// The end of the log, and which node may write it.
///
/// Committed entries are in [`ReplicatedState`]. At most one entry is appended and not yet
/// committed. A new leader may have it or not; if it has, the entry is committed with the first
/// entry of the leader's own term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LogEnd {
    /// The newest term.
    pub(crate) term: u8,
    /// The leader of the newest term.
    pub(crate) leader: usize,
    /// The uncommitted entry with its term.
    pub(crate) uncommitted: Option<(u8, StoreCommand)>,
}

/// State that a node has applied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AppliedView {
    /// Version of the state.
    pub(crate) version: u8,
    /// The slot.
    pub(crate) slot: SlotState,
    /// Bits of living sessions.
    sessions: u8,
}

impl AppliedView {
    /// Returns the view of a node that has applied the whole state.
    pub(crate) fn from_state(state: &ReplicatedState) -> Self {
        let bits = state.sessions.iter().map(|living| session_bit(living.id));
        AppliedView {
            version: state.version,
            slot: state.slot,
            sessions: bits.fold(0, |sessions, bit| sessions | bit),
        }
    }

    /// Returns whether the session had not ended.
    pub(crate) fn is_living(&self, session: SessionId) -> bool {
        self.sessions & session_bit(session) != 0
    }
}

/// The memory of a node. It stays when the node is deposed: the node need not notice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StoreNode {
    /// The term that the node leads in its own view; 0 is none.
    pub(crate) term: u8,
    /// The version of the state after the first entry of that term; 0 before it is committed.
    pub(crate) first_version: u8,
    /// What it has applied.
    pub(crate) applied: AppliedView,
    /// Ticks since it became leader in this term, up to W.
    pub(crate) ticks_since_election: u8,
    /// Ticks since the last stamp of each session in this term, up to W.
    pub(crate) ticks_since_stamp: [u8; 4],
    /// Bits of sessions that are being expired.
    pub(crate) expiring: u8,
    /// What its arbiter has decided and not yet proposed. A term may end between the two.
    pub(crate) decided: Option<StoreCommand>,
    /// An earlier quorum round. Only a removed rule uses it.
    pub(crate) earlier_round: Option<QuorumRound>,
}

impl StoreNode {
    /// Creates a node that has applied everything. A leader has led for longer than W and has just
    /// stamped the sessions with bits in `timed`.
    pub(crate) fn new(is_leader: bool, timed: u8, state: &ReplicatedState) -> Self {
        let ticks = |session| {
            if is_leader && timed & session_bit(session) != 0 {
                0
            } else {
                TAKEOVER_WAIT_TICKS
            }
        };
        StoreNode {
            term: is_leader.into(),
            first_version: is_leader.into(),
            applied: AppliedView::from_state(state),
            ticks_since_election: TAKEOVER_WAIT_TICKS,
            ticks_since_stamp: [1, 2, 3, 4].map(ticks),
            expiring: 0,
            decided: None,
            earlier_round: None,
        }
    }

    /// Returns whether the session is marked as being expired.
    pub(crate) fn is_expiring(&self, session: SessionId) -> bool {
        self.expiring & session_bit(session) != 0
    }

    /// Sets all timers as if W had passed.
    pub(crate) fn run_out_timers(&mut self) {
        self.ticks_since_election = TAKEOVER_WAIT_TICKS;
        self.ticks_since_stamp = [TAKEOVER_WAIT_TICKS; 4];
    }
}

/// A quorum round that confirmed a leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct QuorumRound {
    /// The term in which it was confirmed.
    pub(crate) term: u8,
    /// The read index: the version that must be applied before the answer.
    pub(crate) index: u8,
}

/// Position of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum RenewalPosition {
    /// At a node, which may become leader only later, with the round that confirmed it.
    AtNode(usize, Option<QuorumRound>),
    /// Stamped, and its reply is on the way. Separate only where the delay matters.
    Stamped,
}

/// A renewal of a lease on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RenewalInFlight {
    /// The process that sent it.
    pub(crate) process: usize,
    /// The session that it renews.
    pub(crate) session: SessionId,
    /// Ticks since t0, up to D.
    pub(crate) age: u8,
    /// Where it is.
    pub(crate) position: RenewalPosition,
}
