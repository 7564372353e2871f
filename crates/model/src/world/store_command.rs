//! Commands of the log, and the replies to them.

/// Id of a session; 0 is none. No id is used twice.
pub(crate) type SessionId = u8;

/// Returns the bit of a session in a set of sessions.
pub(crate) fn session_bit(session: SessionId) -> u8 {
    1 << session
}

/// What an owner reports when it stops using a generation: a high-water mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct HighWaterReport {
    /// The generation that the report is for; 0: there is nothing to report.
    pub(crate) generation: u8,
    /// The highest value that a counter of the generation reached.
    pub(crate) highest: u8,
}

impl HighWaterReport {
    /// The report of an owner that has nothing to report.
    pub(crate) const NOTHING: HighWaterReport = HighWaterReport {
        generation: 0,
        highest: 0,
    };
}

/// A command of the log, with the names and meanings of the design, section 4.
///
/// All but `ExpireSession` and `Assign` are requests of an AllocSvr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum StoreCommand {
    OpenSession {
        process: u8,
        nonce: u8,
        /// The session that the process proves to have had; 0 is none.
        proof: SessionId,
    },
    CloseSession {
        session: SessionId,
        epoch: u8,
        last: HighWaterReport,
    },
    ExpireSession {
        session: SessionId,
        /// The term in which the arbiter decided it.
        term: u8,
    },
    Assign {
        /// The epoch at which the arbiter decided it.
        from: u8,
        to: SessionId,
    },
    Open {
        session: SessionId,
        epoch: u8,
        /// The generation that the new one follows.
        expected: u8,
        nonce: u8,
    },
    Raise {
        session: SessionId,
        epoch: u8,
        generation: u8,
        /// The new max_seq.
        to: u8,
    },
    CloseSection {
        session: SessionId,
        epoch: u8,
        last: HighWaterReport,
    },
    MoveSlot {
        session: SessionId,
        epoch: u8,
        last: HighWaterReport,
        to: SessionId,
    },
}

/// A reply that its receiver acts on. Other replies change nothing, so the model omits them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum StoreReply {
    SessionOpened {
        nonce: u8,
        session: SessionId,
    },
    SectionOpened {
        session: SessionId,
        epoch: u8,
        nonce: u8,
        generation: u8,
        base: u8,
        max: u8,
    },
    OpenRejected {
        session: SessionId,
        nonce: u8,
    },
    Raised {
        session: SessionId,
        generation: u8,
        max: u8,
    },
}
