//! Actions: one step of one machine, of time, or of the network.
//!
//! Each action is described where it is carried out, in `protocol`.

use crate::world::alloc_process::CallOperation;
use crate::world::store_command::SessionId;

/// One step of one machine, of time, or of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorldAction {
    /// Time passes.
    Tick,
    /// A step of StoreSvr nodes and their log.
    Leader(LeaderAction),
    /// A step of a renewal.
    Renewal(RenewalAction),
    /// A step of the stores, in scenarios without StoreSvr nodes.
    Stores(StoresAction),
    /// The delivery of a message.
    Network(NetworkAction),
    /// A step of an AllocSvr process.
    Process {
        /// The process.
        process: usize,
        /// The step.
        action: ProcessAction,
    },
}

/// A step of StoreSvr nodes and their log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaderAction {
    Elect {
        node: usize,
        /// Whether the new leader has the uncommitted entry.
        keeps_entry: bool,
    },
    CommitFirstEntry,
    CommitEntry,
    LeadByReusedId {
        node: usize,
    },
    ApplyEntries {
        node: usize,
    },
    DecideExpire {
        node: usize,
        session: SessionId,
    },
    DecideAssign {
        node: usize,
        session: SessionId,
    },
    ForgetMarks {
        node: usize,
    },
    ProposeDecision {
        node: usize,
    },
}

/// A step of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenewalAction {
    SendRenewal { process: usize, node: usize },
    ConfirmLeadership { node: usize },
    StampRenewal { renewal: usize },
    ExtendLease { renewal: usize },
}

/// A step of the stores, in scenarios without StoreSvr nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoresAction {
    ExpireSession { session: SessionId },
    AssignSlot { session: SessionId },
    BecomeNewCluster,
}

/// The delivery of a message that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetworkAction {
    DeliverRequest { request: usize },
    DeliverReply { reply: usize },
}

/// A step of an AllocSvr process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessAction {
    /// The process opens or ends its session, learns a route, or crashes.
    Session(SessionAction),
    /// The process sends a request for its section.
    Section(SectionAction),
    /// The process serves a call.
    Call(CallAction),
}

/// A step of a process and its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionAction {
    LearnRoute,
    OpenSession {
        /// The session that the process proves to have had; 0 is none.
        proof: SessionId,
    },
    RetryOpenSession,
    CloseSession,
    Crash,
}

/// A step of an owner and its section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectionAction {
    OpenSection,
    RaiseSection,
    CloseSection,
    UnsealSection,
    MoveSlot { to: SessionId },
}

/// A step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallAction {
    EnterSection {
        operation: CallOperation,
        /// The cluster of the caller.
        cluster: u8,
    },
    TakeNumber {
        call: usize,
    },
    CheckBeforeArrival,
    CheckBeforeTake {
        call: usize,
    },
    ArriveAfterTake {
        call: usize,
    },
    AnswerCall {
        call: usize,
    },
    DiscardNumber {
        call: usize,
    },
}
