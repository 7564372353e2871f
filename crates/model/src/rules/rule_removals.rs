//! What breaks without each rule: the table behind the tests and `cargo xtask model`.
//!
//! A rule whose removal breaks nothing is redundant within the bounds; a comment says why it stays.
//! Where two rules cover for each other, the table removes the pair too, and a promise must break.

use super::Rule::{self, *};
use super::promise::Promise::{
    self, End, Floor, Forward, Monotonic, Near, Once, Single, Tight, Unique,
};

/// Rules that are removed together, and the scenario that shows the effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleRemoval {
    /// The removed rules.
    pub(crate) rules: &'static [Rule],
    /// Name of the scenario.
    pub(crate) scenario: &'static str,
    /// The promise that must break. None: no promise may break within the bounds.
    pub(crate) broken: Option<Promise>,
}

const fn breaks(rules: &'static [Rule], scenario: &'static str, promise: Promise) -> RuleRemoval {
    RuleRemoval {
        rules,
        scenario,
        broken: Some(promise),
    }
}

const fn breaks_nothing(rules: &'static [Rule], scenario: &'static str) -> RuleRemoval {
    RuleRemoval {
        rules,
        scenario,
        broken: None,
    }
}

/// All removals.
pub(crate) const RULE_REMOVALS: &[RuleRemoval] = &[
    // Renewals and the arbiter.
    breaks(&[Confirm], "leases", Monotonic),
    breaks(&[ConfirmAfterRequest], "leases", Monotonic),
    breaks(&[ReadIndexApplied], "leases", Monotonic),
    breaks(&[ReadFirstEntry], "leases", Monotonic),
    breaks(&[StampInTerm], "leases", Monotonic),
    breaks(&[SessionExists], "leases", Monotonic),
    breaks(&[RejectWhileExpiring], "expiry", Monotonic),
    breaks(&[MarkSticks], "expiry", Monotonic),
    breaks(&[WaitAfterElection], "leases", Monotonic),
    breaks(&[DriftMargin], "expiry", Monotonic),
    breaks(&[ExpireTerm], "leases", Monotonic),
    breaks(&[SenderKnown], "leases", Monotonic),
    // What an arbiter decides on an old state is fenced when it is applied, by term and
    // epoch. It stays because such a decision is wasted work.
    breaks_nothing(&[ArbiterFirstEntry], "leases"),
    // Covered by `AssignFree`. It stays because it names the basis of the decision:
    // `AssignFree` alone would let an old choice of owner win over a newer one.
    breaks_nothing(&[AssignFrom], "assigns"),
    // Covered by `AssignFrom`. It stays as a second fence.
    breaks_nothing(&[AssignFree], "assigns"),
    breaks(&[AssignFrom, AssignFree], "assigns", Monotonic),
    // Leases at the owner.
    breaks(&[LeaseFromT0], "expiry", Monotonic),
    breaks(&[LeaseFromRenewalOnly], "expiry", Monotonic),
    breaks(&[CheckLease], "expiry", Monotonic),
    breaks(&[CheckAfterReceive], "expiry", Monotonic),
    breaks(&[TakeAfterReceive], "generations", Monotonic),
    // A check after the arrival of the request proves the order, before or after the number
    // is taken. It stays because one order is easier to get right for `current` and for
    // batches.
    breaks_nothing(&[CheckAfterTake], "moves"),
    breaks(&[CheckSession], "rejoin", Monotonic),
    // Within one session a slot returns only after a planned move, which sealed the old
    // object. It stays because strict mode and stale routes rely on it.
    breaks_nothing(&[CheckEpoch], "moves"),
    breaks(&[CheckObject], "rejoin", Monotonic),
    // Windows.
    breaks(&[RaiseGeneration], "generations", Monotonic),
    breaks(&[WidenOwnGeneration], "takeover", Unique),
    breaks(&[IgnoreOldReply], "generations", Monotonic),
    breaks(&[RememberGeneration], "raise-to", Monotonic),
    breaks(&[ClosedIsDead], "takeover", Unique),
    breaks(&[WaitForGuards], "generations", Monotonic),
    breaks(&[RaiseToInMemory], "raise-to", Monotonic),
    breaks(&[OpenExpected], "moves", Tight),
    breaks(&[OpenNonce], "moves", Tight),
    // An Open of a deposed owner only ends the generation of the new owner above its window.
    // It stays because the two would otherwise reopen against each other without end.
    breaks_nothing(&[OpenOwner], "takeover"),
    // Covered by `RaiseGeneration`: before the Open of the new owner a late Raise only
    // raises its base. It stays because it keeps the jump of a takeover within one window.
    breaks_nothing(&[RaiseOwner], "takeover"),
    // A late Raise of a closed generation only widens a window that no process serves. It
    // stays because the Raise would undo what the close gave back.
    breaks_nothing(&[EndGeneration], "generations"),
    // The older window stays disjoint, because `RaiseGeneration` rejects its widening. It
    // stays because it bounds how long an old object lives.
    breaks_nothing(&[SealOlder], "generations"),
    // A true mark of the current generation is within `[base, max_seq]` in any case. It
    // stays as the last protection against a lying or broken sender.
    breaks_nothing(&[Clamp], "takeover"),
    // High-water marks.
    breaks(&[CloseGeneration], "takeover", Unique),
    // Covered by `CloseGeneration`: the mark of an ended generation is true for every owner
    // of the slot. It stays because without the check of the generation it is the only
    // fence.
    breaks_nothing(&[CloseOwner], "takeover"),
    breaks(&[MoveOwner], "moved-back", Monotonic),
    // The owner has no Open in flight when it reads its marks, so within one epoch they are
    // current. It stays because the marks may be many and old.
    breaks_nothing(&[MoveGeneration], "moves"),
    // Covered by `LeaveGeneration`.
    breaks_nothing(&[LeaveOwner], "leave"),
    // Covered by `LeaveOwner`, with `StopWaitsForOpens`.
    breaks_nothing(&[LeaveGeneration], "leave"),
    breaks(&[LeaveOwner, LeaveGeneration], "leave", Monotonic),
    breaks(&[StopSeals], "moves", Monotonic),
    breaks(&[StoppedStays], "moves", Monotonic),
    breaks(&[StopWaitsForOpens], "moves", Tight),
    breaks(&[MoveRepeatsMarks], "moved-back", Tight),
    breaks(&[CurrentWhileServed], "moves", Monotonic),
    // Clusters.
    breaks(&[CallNamesCluster], "clusters", Unique),
    breaks(&[RequestNamesCluster], "clusters", Unique),
    // Covered by `RequestNamesCluster`: stores of another cluster reject the next request of
    // this AllocSvr. It stays because a store of a version before that rule rejects nothing.
    breaks_nothing(&[ReplyNamesCluster], "clusters"),
    // Restart and strict mode.
    breaks(&[ProofUnderLock], "restart", Monotonic),
    // Under a true lock an older proof comes only in a late OpenSession of a dead process,
    // whose ghost serves no call. It stays for two reasons. It is the only protection when
    // an old copy of the proof escapes the lock (tried: the order breaks in 17 steps). And a
    // ghost would hold the slot for W.
    breaks_nothing(&[ProofOfSession], "restart"),
    // Sessions of one name still differ by id. It stays because two processes under one name
    // are an operator's mistake that must show.
    breaks_nothing(&[NameExclusive], "restart"),
    breaks(&[StrictAfterArrival], "strict", Monotonic),
    breaks(&[StrictObject], "strict", Monotonic),
    // Grants.
    breaks(&[GrantAboveUntil], "sticky", Unique),
    // Taking the worker of a living holder only makes it lose its number: the new grant begins
    // above its ticks. It stays because a holder that renews in time must keep its number.
    breaks_nothing(&[TakeFreeOrPassed], "pauses"),
    breaks(&[AcquireRaisesEpoch], "pauses", Unique),
    breaks(&[SameNonceSameAnswer], "retries", Single),
    breaks(&[NonceWhileHeld], "releases", Unique),
    breaks(&[NotTooFarInFront], "sticky", Near),
    breaks(&[FloorRespected], "floors", Floor),
    breaks(&[LastTick], "pauses", End),
    breaks(&[OnceLaneNeverAgain], "lanes-once", Once),
    breaks(&[LaneConstantInEpoch], "lanes-reuse", Unique),
    breaks(&[RenewFenced], "pauses", Unique),
    breaks(&[RenewAboveFloor], "floors", Floor),
    // Such a renewal adds no tick. It stays because its holder must acquire again to get a lane
    // in which the present time is free.
    breaks_nothing(&[RenewNotTooFarInFront], "lanes-reuse"),
    breaks(&[ReleaseFenced], "releases", Unique),
    // The used tick of the present epoch is within its grant in any case. It stays as the last
    // protection against a lying or broken holder.
    breaks_nothing(&[ClampUsed], "releases"),
    breaks(&[TimeOnlyRises], "floors", Forward),
    breaks(&[TimeNamesResets], "floors", Near),
    breaks(&[WidenOwn], "two-workers", Unique),
    breaks(&[RememberEpoch], "releases", Unique),
    breaks(&[ReleasedIsDead], "releases", Unique),
];
