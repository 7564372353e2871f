//! Commands of the replicated state and their typed replies.
//!
//! Every command is idempotent or fenced, so that a retry after a lost answer, or a late duplicate,
//! is harmless. One Raft entry carries a [`Batch`]: raises of many sections and many AllocSvrs, and
//! all else that waits, share one fsync.

use serde::{Deserialize, Serialize};

use crate::family::{IdsCommand, IdsRejection, WorkerGrant};
use crate::ids::{
    ClusterId, Epoch, FamilyId, Generation, NamespaceId, Nonce, SectionId, SectionKey, SessionId,
    Slot,
};
use crate::namespace::{NamespaceChange, NamespaceLimits, NamespaceSpec};

/// Most high-water marks one command may carry, so that an entry stays under 64 KiB.
pub const HIGH_WATER_MARKS_MAX: usize = 1_000;
/// Longest address of a session, in bytes.
pub const ADDRESS_MAX: usize = 256;
/// Most sessions a cluster may have at one time.
pub const SESSIONS_MAX: usize = 4_096;

/// Content of one Raft entry. Commands apply in order; each has its own reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Commands of the batch, at least one.
    pub commands: Vec<Command>,
}

/// A change of the replicated state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Makes the cluster, once; the reply to a second one with the same id is `Done`.
    Init {
        /// Random id of the cluster.
        cluster: ClusterId,
        /// Lease D in milliseconds, 300 ..= 60,000.
        lease_ms: u32,
        /// Slots of this Set, 1 ..= 16,384.
        slots: u32,
    },
    /// Registers an AllocSvr. Grants no lease. The same nonce gets the same session.
    OpenSession(OpenSession),
    /// Ends a session at its holder's request. `high_water_marks` apply in chunks; only the last
    /// ends the session.
    CloseSession {
        /// The session; its sender never serves in it again.
        session: SessionId,
        /// Marks, at most [`HIGH_WATER_MARKS_MAX`]; one that does not match is skipped.
        high_water_marks: Vec<SlotHighWaterMark>,
        /// Whether this is the last chunk.
        last: bool,
    },
    /// Ends a silent session. A no-op unless `term` is the log entry's own term.
    ExpireSession {
        /// The silent session.
        session: SessionId,
        /// Term in which the arbiter decided.
        term: u64,
    },
    /// Gives a free slot (or one whose owner is gone) at `from` to a session; epoch += 1.
    Assign {
        /// The slot.
        slot: Slot,
        /// The epoch the arbiter saw.
        from: Epoch,
        /// New owner.
        to: SessionId,
    },
    /// Begins a new generation of a section.
    Open {
        /// Fence: the sender's session owns `slot` at `epoch`.
        fence: Fence,
        /// The generation that the sender takes for the last; a mismatch is rejected.
        expected: Generation,
        /// Random number of each attempt to open; the same nonce gets the same answer.
        nonce: Nonce,
        /// Numbers to add, 1 ..= the namespace's step_max.
        step: u32,
    },
    /// Widens the window of a generation. Absolute, so a retry is harmless.
    Raise {
        /// Fence: the sender's session owns `slot` at `epoch`.
        fence: Fence,
        /// The generation to widen.
        generation: Generation,
        /// New max_seq wanted.
        to: u64,
        /// Reason for the raise; bounds differ.
        cause: RaiseCause,
    },
    /// Hands an idle section back and lowers its max_seq to `value`, clamped to [base, max_seq].
    CloseSection {
        /// Fence: the sender's session owns `slot` at `epoch`.
        fence: Fence,
        /// The generation to end.
        generation: Generation,
        /// Highest value a counter of the section reached.
        value: u64,
    },
    /// Planned move in one step: high-water marks, new owner, epoch += 1.
    MoveSlot {
        /// The slot, stopped by its owner.
        slot: Slot,
        /// The epoch at which it was stopped.
        epoch: Epoch,
        /// True high-water marks; one whose generation does not match is skipped. At most
        /// [`HIGH_WATER_MARKS_MAX`].
        high_water_marks: Vec<HighWaterMark>,
        /// New owner; None frees the slot. A dead session frees it too.
        to: Option<SessionId>,
    },
    /// Creates a namespace; the same spec again gets the same id.
    CreateNamespace(NamespaceSpec),
    /// Changes step and limits (strict among them) only.
    AlterNamespace {
        /// Namespace to alter.
        id: NamespaceId,
        /// New step.
        step: u32,
        /// New limits.
        limits: NamespaceLimits,
    },
    /// Raises the format level of the cluster; the reply to a level already reached is `Done`.
    SetLevel {
        /// New format level.
        level: u32,
    },
    /// Changes the given values of step and limits; the others keep the value they have when the
    /// command applies.
    ChangeNamespace {
        /// Namespace to change.
        id: NamespaceId,
        /// Values to change.
        change: NamespaceChange,
    },
    /// Changes families, workers or store time.
    Ids(IdsCommand),
}

impl Command {
    /// Returns the format level that introduced this command. An entry with it is stored and sent
    /// under that version, so an older build rejects it instead of misreading it.
    pub fn format_level(&self) -> u32 {
        match self {
            Command::Init { .. }
            | Command::OpenSession(_)
            | Command::CloseSession { .. }
            | Command::ExpireSession { .. }
            | Command::Assign { .. }
            | Command::Open { .. }
            | Command::Raise { .. }
            | Command::CloseSection { .. }
            | Command::MoveSlot { .. }
            | Command::CreateNamespace(_)
            | Command::AlterNamespace { .. } => 1,
            // A build that does not support the new level must not apply the command.
            Command::SetLevel { level } => (*level).max(2),
            Command::ChangeNamespace { .. } => 2,
            Command::Ids(_) => 3,
        }
    }
}

/// Registration of an AllocSvr process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSession {
    /// Name given by the operator, unique among living sessions.
    pub name: String,
    /// Address at which clients reach it, `host:port`.
    pub address: String,
    /// Random number the process gave itself at its start.
    pub incarnation: u64,
    /// Random number of each attempt to open; proves the session later.
    pub nonce: Nonce,
    /// Proof that the session now living under the name is this host's own earlier one.
    pub proof: Option<SessionProof>,
}

/// Data that only a session's own process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionProof {
    /// The session to supersede.
    pub session: SessionId,
    /// The nonce it was opened with.
    pub nonce: Nonce,
}

/// Right of the sender to touch a section: (slot, epoch) belongs to one session permanently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// Slot the section maps to.
    pub slot: Slot,
    /// Epoch at which the sender owns it.
    pub epoch: Epoch,
    /// The section.
    pub section: SectionKey,
}

/// Reason for a raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RaiseCause {
    /// Ordinary need: at most step_max numbers above the stored max_seq.
    Refill,
    /// `RaiseTo`: counted per section against the namespace's raise_to_max unless forced.
    RaiseTo {
        /// Skips the bound; admin role.
        force: bool,
    },
}

/// Highest number really used in one generation of a section of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HighWaterMark {
    /// The section.
    pub section: SectionKey,
    /// The generation the owner had installed.
    pub generation: Generation,
    /// Highest value a counter reached, by handing out or by RaiseTo.
    pub value: u64,
}

/// A [`HighWaterMark`] that names its slot and epoch itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotHighWaterMark {
    /// Slot the section maps to.
    pub slot: Slot,
    /// Epoch at which the session owned it.
    pub epoch: Epoch,
    /// The high-water mark.
    pub mark: HighWaterMark,
}

/// Answer to one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Applied (or already applied before).
    Done,
    /// The session opened.
    Session(SessionId),
    /// The slot's new epoch and owner.
    Slot {
        /// New epoch.
        epoch: Epoch,
        /// New owner; None: free.
        owner: Option<SessionId>,
    },
    /// The generation begun: the opener owns the numbers in (base, max_seq].
    Opened {
        /// The new generation.
        generation: Generation,
        /// max_seq before.
        base: u64,
        /// max_seq now.
        max_seq: u64,
    },
    /// Result of a raise; it widens only the object of that generation.
    Raised {
        /// The generation widened.
        generation: Generation,
        /// max_seq now.
        max_seq: u64,
    },
    /// Result of a close.
    Closed {
        /// The generation ended.
        generation: Generation,
        /// max_seq now.
        max_seq: u64,
    },
    /// The namespace created (or found equal).
    Namespace(NamespaceId),
    /// Nothing changed.
    Rejected(CommandRejection),
    /// The family created (or found equal).
    Family(FamilyId),
    /// The ticks granted.
    Grant(WorkerGrant),
}

/// Reason why a command changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum CommandRejection {
    /// No `Init` was applied yet.
    #[error("the cluster is not initialized: run `seqsvr init`")]
    NotInitialized,
    /// `Init` with another id.
    #[error("this is already cluster {0}")]
    AlreadyInitialized(ClusterId),
    /// Another session lives under the name.
    #[error("an AllocSvr named {name:?} is already registered from {address} (session {session})")]
    NameTaken {
        /// The name.
        name: String,
        /// The living session.
        session: SessionId,
        /// Its address.
        address: String,
    },
    /// The session is gone.
    #[error("session {0} has ended")]
    SessionNotFound(SessionId),
    /// The slot is not the sender's at that epoch.
    #[error("slot {slot} is at epoch {epoch}")]
    NotOwner {
        /// The slot.
        slot: Slot,
        /// Its epoch now.
        epoch: Epoch,
        /// Its owner now.
        owner: Option<SessionId>,
    },
    /// Another generation is current, or this one has ended. The sender opens again only if
    /// `generation` is the generation it has installed.
    #[error("generation {generation} of section {section} is not current (last is {last})")]
    StaleGeneration {
        /// The section.
        section: SectionKey,
        /// The generation the command named.
        generation: Generation,
        /// The last generation in the state.
        last: Generation,
    },
    /// The raise goes above the bound of its cause.
    #[error(
        "the raise to {to} is above the limit of {bound}; request less, or have an operator raise the limit (`seqsvr namespace alter NAME --raise-to-max N`) or pass it (`seqsvr raise-to KEY N --force`)"
    )]
    JumpTooLarge {
        /// Value of the raise.
        to: u64,
        /// Greatest `to` allowed now.
        bound: u64,
    },
    /// No number is left in the section's range.
    #[error("section {0} has reached the last number, 2^63-1")]
    SequenceExhausted(SectionKey),
    /// No such namespace.
    #[error("no namespace has the id {0}")]
    NamespaceNotFound(NamespaceId),
    /// The name belongs to a namespace of another shape.
    #[error("namespace {0:?} already exists with other settings")]
    NamespaceExists(String),
    /// The command itself is wrong; the text says what to do.
    #[error("{0}")]
    Invalid(String),
    /// As many sessions live as there may be; one of them may end.
    #[error(
        "a cluster has at most {max} AllocSvrs: stop one, or wait until a session expires",
        max = SESSIONS_MAX
    )]
    TooManySessions,
    /// There are as many namespaces as there may be; none can be removed.
    #[error(
        "a cluster has at most {max} namespaces, and none can be removed: use one that exists",
        max = crate::namespace::NAMESPACES_MAX
    )]
    TooManyNamespaces,
    /// A command of ids was rejected.
    #[error(transparent)]
    Ids(#[from] IdsRejection),
}

impl HighWaterMark {
    /// Makes a high-water mark of `section` in namespace `namespace`.
    pub fn new(
        namespace: NamespaceId,
        section: SectionId,
        generation: Generation,
        value: u64,
    ) -> HighWaterMark {
        HighWaterMark {
            section: SectionKey { namespace, section },
            generation,
            value,
        }
    }
}
