//! The rules of the protocols, one switch each, and the promises that they keep.
//!
//! Every rule is one sentence of the design, or half of one. A model without a rule is the protocol
//! with that sentence struck out; [`rule_removals`] says which promise must then break.

pub(crate) mod promise;
pub(crate) mod rule_removals;

use std::fmt;

/// Declares the rules, each with the sentence that it stands for.
macro_rules! define_rules {
    ($($(#[doc = $sentence:literal])+ $name:ident,)*) => {
        /// One rule of the protocol, named after what it demands.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Rule { $($(#[doc = $sentence])+ $name,)* }

        impl Rule {
            /// All rules.
            pub(crate) const ALL: &'static [Rule] = &[$(Rule::$name,)*];
        }
    };
}

define_rules! {
    // Replicated state: what `apply` rejects.
    /// Open: only from the session that owns the slot at that epoch.
    OpenOwner,
    /// Open: only at the expected generation.
    OpenExpected,
    /// Open: the same nonce gets the same answer.
    OpenNonce,
    /// Raise: only from the session that owns the slot at that epoch.
    RaiseOwner,
    /// Raise: only for the current generation.
    RaiseGeneration,
    /// CloseSection: the generation ends in the state too.
    EndGeneration,
    /// CloseSection: only from the session that owns the slot at that epoch.
    CloseOwner,
    /// CloseSection: only for the current generation.
    CloseGeneration,
    /// MoveSlot: only from the session that owns the slot at that epoch.
    MoveOwner,
    /// MoveSlot: a high-water mark whose generation does not match is skipped.
    MoveGeneration,
    /// CloseSession: a high-water mark applies only if slot and epoch are still the session's.
    LeaveOwner,
    /// CloseSession: a high-water mark applies only if the generation is still current.
    LeaveGeneration,
    /// High-water marks are clamped to `[base, max_seq]`.
    Clamp,
    /// Assign: only at the epoch at which it was decided.
    AssignFrom,
    /// Assign: only a free slot, or one whose owner has ended.
    AssignFree,
    /// ExpireSession: a no-op unless its term is that of the log entry.
    ExpireTerm,
    /// OpenSession: rejected while another session lives under that name.
    NameExclusive,
    /// OpenSession: the proof must be that of the living session.
    ProofOfSession,
    // Leaders: renewals and the arbiter.
    /// A renewal is stamped after a quorum round confirmed the leadership.
    Confirm,
    /// That round started after the request arrived.
    ConfirmAfterRequest,
    /// The leader waits until it has applied up to the read index.
    ReadIndexApplied,
    /// The read index covers the first entry of the leader's own term.
    ReadFirstEntry,
    /// A renewal is stamped only in the term in which it was confirmed.
    StampInTerm,
    /// A renewal is stamped only if the session exists.
    SessionExists,
    /// Renewals are rejected while the session is being expired.
    RejectWhileExpiring,
    /// A session stays marked as being expired until the term ends.
    MarkSticks,
    /// The arbiter acts only after it has applied the first entry of its own term.
    ArbiterFirstEntry,
    /// W counts from the election at the earliest.
    WaitAfterElection,
    /// W is larger than D by the drift bound.
    DriftMargin,
    /// Calls of a store count only from the data directory that the membership records.
    SenderKnown,
    // Clusters.
    /// A call names its cluster: an AllocSvr of another cluster takes no number for it.
    CallNamesCluster,
    /// A request names its cluster: a store of another cluster applies nothing.
    RequestNamesCluster,
    /// Replies and routes of a store name its cluster: an AllocSvr of another cluster takes
    /// nothing from them.
    ReplyNamesCluster,
    // Owners: leases.
    /// The lease counts from t0, noted before sending.
    LeaseFromT0,
    /// OpenSession alone grants no lease.
    LeaseFromRenewalOnly,
    /// The check demands a valid lease.
    CheckLease,
    /// The check reads the clock after the request was received.
    CheckAfterReceive,
    /// The check follows the taking of the number.
    CheckAfterTake,
    /// The number is taken after the request was received.
    TakeAfterReceive,
    /// The check compares the session of the section object.
    CheckSession,
    /// The check compares the epoch of the section object.
    CheckEpoch,
    /// The check is bound to the section object, not to the slot.
    CheckObject,
    // Owners: sections.
    /// An Open's reply for an installed or older generation is ignored.
    IgnoreOldReply,
    /// The highest generation installed is remembered after the object is gone.
    RememberGeneration,
    /// A Raise's reply widens only the object of its generation.
    WidenOwnGeneration,
    /// An older section object is sealed before a newer one is published.
    SealOlder,
    /// A generation for which a close was sent is dead for the sender.
    ClosedIsDead,
    /// A high-water mark is read after the section guards have left.
    WaitForGuards,
    /// A moved slot is stopped first: its sections are sealed.
    StopSeals,
    /// A slot stopped at an epoch is never served again at it.
    StoppedStays,
    /// Stopping waits for Opens in flight.
    StopWaitsForOpens,
    /// MoveSlot repeats the high-water marks of closes not known to be applied.
    MoveRepeatsMarks,
    /// `current` is not answered from a stopped slot.
    CurrentWhileServed,
    /// RaiseTo is acknowledged once memory is set in an unsealed section.
    RaiseToInMemory,
    // Restart and strict mode.
    /// The proof is kept under an exclusive lock of the living process.
    ProofUnderLock,
    /// Strict: the confirmation of the store started after the request arrived.
    StrictAfterArrival,
    /// Strict: it equals the session and epoch that the section object stores.
    StrictObject,
    // Grants: what `apply` does.
    /// A grant begins at the first tick of its lane that was not granted, or later.
    GrantAboveUntil,
    /// An acquisition takes only a worker that is free, or whose grant has passed.
    TakeFreeOrPassed,
    /// An acquisition raises the worker epoch.
    AcquireRaisesEpoch,
    /// Acquire: the same nonce gets the same answer.
    SameNonceSameAnswer,
    /// Acquire: a nonce is answered as before only while its worker is held.
    NonceWhileHeld,
    /// A grant begins at most `ahead` in front of the store time.
    NotTooFarInFront,
    /// A grant begins at the floor of the family or later.
    FloorRespected,
    /// No grant reaches beyond the last tick of the layout.
    LastTick,
    /// A lane that is used once is followed by the next one.
    OnceLaneNeverAgain,
    /// The lane does not change within a worker epoch.
    LaneConstantInEpoch,
    /// Renew: only from the holder at that worker epoch.
    RenewFenced,
    /// Renew: only for a grant that begins at the floor or later.
    RenewAboveFloor,
    /// Renew: rejected if the grant ends more than `ahead` + `window` in front of the store time.
    RenewNotTooFarInFront,
    /// Release: only from the holder at that worker epoch.
    ReleaseFenced,
    /// The used tick of a release is clamped to `[base, until]`.
    ClampUsed,
    /// Time: only to a later time.
    TimeOnlyRises,
    /// Time: a reading from before the last SetTime has no effect.
    TimeNamesResets,
    // Grants: holders.
    /// A reply widens only the grant of the worker and epoch that it names.
    WidenOwn,
    /// The highest epoch of each worker that was installed is remembered after the grant is gone.
    RememberEpoch,
    /// A grant is sealed before its release is sent.
    ReleasedIsDead,
}

/// A set of rules.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RuleSet(u128);

impl RuleSet {
    /// Returns all rules but the given ones.
    pub(crate) fn without(removed: &[Rule]) -> Self {
        let all = (1 << Rule::ALL.len()) - 1;
        let bits = removed.iter().map(|rule| 1 << *rule as u128);
        RuleSet(bits.fold(all, |left, bit: u128| left & !bit))
    }

    /// Returns whether the rule is in force.
    pub(crate) fn has(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u128) != 0
    }
}

impl fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let removed = Rule::ALL.iter().filter(|rule| !self.has(**rule));
        f.write_str("all but ")?;
        f.debug_set().entries(removed).finish()
    }
}
