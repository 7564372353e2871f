//! The rules of the protocol, one switch each.
//!
//! Every rule is one sentence (or half of one) of the design. A model without a rule is the
//! protocol with that sentence struck out; [`crate::rule_removals`] says what must then go wrong.

use std::fmt;

/// Declares the rules with the sentence that each stands for.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// One rule of the protocol, named after what it demands.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the text of a rule is its documentation: see Rule::text")]
        pub enum Rule { $($name,)* }

        impl Rule {
            /// All rules.
            pub const ALL: &'static [Rule] = &[$(Rule::$name,)*];

            /// What the rule demands, in the words of the design.
            pub fn text(self) -> &'static str {
                match self { $(Rule::$name => $text,)* }
            }
        }
    };
}

rules! {
    // Replicated state: what `apply` refuses.
    OpenOwner = "Open: only from the session that owns the slot at that epoch",
    OpenExpected = "Open: only at the expected generation",
    OpenNonce = "Open: the same nonce gets the same answer",
    RaiseOwner = "Raise: only from the session that owns the slot at that epoch",
    RaiseGeneration = "Raise: only for the current generation",
    EndGeneration = "CloseSection: the generation ends in the state too",
    CloseOwner = "CloseSection: only from the session that owns the slot at that epoch",
    CloseGeneration = "CloseSection: only for the current generation",
    MoveOwner = "MoveSlot: only from the session that owns the slot at that epoch",
    MoveGeneration = "MoveSlot: a final whose generation does not match is skipped",
    LeaveOwner = "CloseSession: a final applies only if slot and epoch are still the session's",
    LeaveGeneration = "CloseSession: a final applies only if the generation is still current",
    Clamp = "finals are clamped to [base, max_seq]",
    AssignFrom = "Assign: only at the epoch it was decided on",
    AssignFree = "Assign: only a free slot, or one whose owner is gone",
    ExpireTerm = "ExpireSession: a no-op unless its term is the log entry's own",
    NameExclusive = "OpenSession: refused while another session lives under that name",
    ProofOfSession = "OpenSession: the proof must be that of the living session",
    // Leaders: renewals and the arbiter.
    Confirm = "a renewal is stamped after a quorum round confirmed the leadership",
    ConfirmAfterRequest = "that round started after the request came in",
    ReadIndexApplied = "the leader waits until it has applied up to the read index",
    ReadFirstEntry = "the read index covers the term's own first entry",
    StampInTerm = "a renewal is stamped only in the term in which it was confirmed",
    SessionExists = "a renewal is stamped only if the session exists",
    RefuseWhileExpiring = "renewals are refused while the session is being expired",
    MarkSticks = "a session stays marked as being expired until the term ends",
    ArbiterFirstEntry = "the arbiter acts only after applying its own term's first entry",
    WaitAfterElection = "W counts from the election at the earliest",
    DriftMargin = "W is larger than D by the drift bound",
    SenderKnown = "a store's calls count only from the data directory that the membership records",
    // Clusters.
    CallNamesCluster = "a call names its cluster: an AllocSvr of another takes no number for it",
    RequestNamesCluster = "a request names its cluster: a store of another applies nothing",
    ReplyNamesCluster = "a store's answers and routes name its cluster: an AllocSvr of another takes nothing from them",
    // Owners: leases.
    LeaseFromT0 = "the lease counts from t0, noted before sending",
    LeaseFromRenewalOnly = "OpenSession grants no lease by itself",
    CheckLease = "the check asks for a valid lease",
    CheckAfterReceive = "the check reads the clock after the request was received",
    CheckAfterTake = "the check follows the taking of the number",
    TakeAfterReceive = "the number is taken after the request was received",
    CheckSession = "the check compares the session of the section object",
    CheckEpoch = "the check compares the epoch of the section object",
    CheckObject = "the check is bound to the section object, not to the slot",
    // Owners: sections.
    IgnoreOldReply = "an Open's reply for an installed or older generation is ignored",
    RememberGeneration = "the highest generation installed is remembered after the object is gone",
    WidenOwnGeneration = "a Raise's reply widens only the object of its generation",
    SealOlder = "an older section object is sealed before a newer one is published",
    ClosedIsDead = "a generation for which a close was sent is dead for the sender",
    WaitForAdders = "a final is read after the adders have left",
    StopSeals = "a moved slot is stopped first: its sections are sealed",
    StoppedStays = "a slot stopped at an epoch is never served again at it",
    StopWaitsForOpens = "stopping waits for Opens in flight",
    MoveRepeatsFinals = "MoveSlot repeats the finals of closes not known to be applied",
    CurrentWhileServed = "`current` is not answered from a stopped slot",
    RaiseToInMemory = "RaiseTo is acknowledged once memory is set in an unsealed section",
    // Restart and strict mode.
    ProofUnderLock = "the proof is kept under an exclusive lock of the living process",
    StrictAfterArrival = "strict: the store's confirmation started after arrival",
    StrictObject = "strict: it equals session and epoch stored in the section object",
}

/// A set of rules.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Rules(u64);

impl Rules {
    /// The full protocol.
    pub fn all() -> Self {
        Rules((1 << Rule::ALL.len()) - 1)
    }

    /// The full protocol without the given rules.
    pub fn without(removed: &[Rule]) -> Self {
        Rules(
            removed
                .iter()
                .fold(Self::all().0, |bits, rule| bits & !(1 << *rule as u64)),
        )
    }

    /// Is this rule in force?
    pub fn has(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u64) != 0
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let removed = Rule::ALL.iter().filter(|rule| !self.has(**rule));
        f.write_str("all but ")?;
        f.debug_set().entries(removed).finish()
    }
}
