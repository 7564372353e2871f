//! What goes wrong without each rule: the table that the tests and `cargo xtask model` go by.
//!
//! A rule whose removal breaks nothing is redundant within the bounds; the reason says why it
//! stays. Where two rules cover for each other, the pair is removed too, and must break.

use crate::rules::Rule::{self, *};

/// What a removal is expected to do.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    /// This promise breaks.
    Broken(&'static str),
    /// Nothing breaks within the bounds; why the rule stays all the same.
    Redundant(&'static str),
}

/// Rules taken away together, and the scenario that shows the effect.
#[derive(Clone, Copy, Debug)]
pub struct Removal {
    /// What is taken away.
    pub rules: &'static [Rule],
    /// Name of the scenario.
    pub scenario: &'static str,
    /// What must come of it.
    pub expected: Expected,
}

const fn breaks(rules: &'static [Rule], scenario: &'static str, promise: &'static str) -> Removal {
    Removal {
        rules,
        scenario,
        expected: Expected::Broken(promise),
    }
}

const fn redundant(rule: &'static [Rule], scenario: &'static str, why: &'static str) -> Removal {
    Removal {
        rules: rule,
        scenario,
        expected: Expected::Redundant(why),
    }
}

const UNIQUE: &str = "unique";
const MONOTONIC: &str = "monotonic";
const TIGHT: &str = "tight";

/// The table.
pub const REMOVALS: &[Removal] = &[
    // Renewals and the arbiter.
    breaks(&[Confirm], "leases", MONOTONIC),
    breaks(&[ConfirmAfterRequest], "leases", MONOTONIC),
    breaks(&[ReadIndexApplied], "leases", MONOTONIC),
    breaks(&[ReadFirstEntry], "leases", MONOTONIC),
    breaks(&[StampInTerm], "leases", MONOTONIC),
    breaks(&[SessionExists], "leases", MONOTONIC),
    breaks(&[RefuseWhileExpiring], "expiry", MONOTONIC),
    breaks(&[MarkSticks], "expiry", MONOTONIC),
    breaks(&[WaitAfterElection], "leases", MONOTONIC),
    breaks(&[DriftMargin], "expiry", MONOTONIC),
    breaks(&[ExpireTerm], "leases", MONOTONIC),
    breaks(&[SenderKnown], "leases", MONOTONIC),
    redundant(
        &[ArbiterFirstEntry],
        "leases",
        "what an arbiter decides on an old state is fenced when it is applied (term, from epoch); stays, for a decision made blind is work for nothing",
    ),
    redundant(
        &[AssignFrom],
        "assigns",
        "covered by AssignFree; stays: it names the decision's ground, and AssignFree alone would let an old choice of owner win over a newer one",
    ),
    redundant(
        &[AssignFree],
        "assigns",
        "covered by AssignFrom; stays as the second lock on the same door",
    ),
    breaks(&[AssignFrom, AssignFree], "assigns", MONOTONIC),
    // Leases at the owner.
    breaks(&[LeaseFromT0], "expiry", MONOTONIC),
    breaks(&[LeaseFromRenewalOnly], "expiry", MONOTONIC),
    breaks(&[CheckLease], "expiry", MONOTONIC),
    breaks(&[CheckAfterReceive], "expiry", MONOTONIC),
    breaks(&[TakeAfterReceive], "generations", MONOTONIC),
    redundant(
        &[CheckAfterTake],
        "moves",
        "a check after the request's arrival proves the order whichever comes first; stays: for `current` and for batches one order is easier to get right",
    ),
    breaks(&[CheckSession], "rejoin", MONOTONIC),
    redundant(
        &[CheckEpoch],
        "moves",
        "within one session a slot comes back only after a planned move, which sealed the old object; stays: it is what strict mode and a stale route rely on",
    ),
    breaks(&[CheckObject], "rejoin", MONOTONIC),
    // Windows.
    breaks(&[RaiseGeneration], "generations", MONOTONIC),
    breaks(&[WidenOwnGeneration], "takeover", UNIQUE),
    breaks(&[IgnoreOldReply], "generations", MONOTONIC),
    breaks(&[RememberGeneration], "raise-to", MONOTONIC),
    breaks(&[ClosedIsDead], "takeover", UNIQUE),
    breaks(&[WaitForAdders], "generations", MONOTONIC),
    breaks(&[RaiseToInMemory], "raise-to", MONOTONIC),
    breaks(&[OpenExpected], "moves", TIGHT),
    breaks(&[OpenNonce], "moves", TIGHT),
    redundant(
        &[OpenOwner],
        "takeover",
        "a deposed owner's Open only ends the new owner's generation above its window; stays: the two would reopen against each other for ever",
    ),
    redundant(
        &[RaiseOwner],
        "takeover",
        "covered by RaiseGeneration: before the new owner's Open a late Raise only lifts its base; stays: it keeps the jump of a takeover within one window",
    ),
    redundant(
        &[EndGeneration],
        "generations",
        "a late Raise of a closed generation only widens a window that nobody serves; stays: it would undo what the close gave back",
    ),
    redundant(
        &[SealOlder],
        "generations",
        "the older window stays disjoint, for RaiseGeneration refuses to widen it; stays: it bounds how long an old object lives",
    ),
    redundant(
        &[Clamp],
        "takeover",
        "a true final of the current generation is within [base, max_seq] anyhow; stays as the last lock against a lying or broken sender",
    ),
    // Finals.
    breaks(&[CloseGeneration], "takeover", UNIQUE),
    redundant(
        &[CloseOwner],
        "takeover",
        "covered by CloseGeneration: the final of a dead generation is true whoever owns the slot; stays: without the generation check it is the only fence",
    ),
    breaks(&[MoveOwner], "moved-back", MONOTONIC),
    redundant(
        &[MoveGeneration],
        "moves",
        "the owner has no Open in flight when it reads its finals, so within one epoch they are current; stays because the finals may be many and old",
    ),
    redundant(&[LeaveOwner], "leave", "covered by LeaveGeneration"),
    redundant(
        &[LeaveGeneration],
        "leave",
        "covered by LeaveOwner, with StopWaitsForOpens",
    ),
    breaks(&[LeaveOwner, LeaveGeneration], "leave", MONOTONIC),
    breaks(&[StopSeals], "moves", MONOTONIC),
    breaks(&[StoppedStays], "moves", MONOTONIC),
    breaks(&[StopWaitsForOpens], "moves", TIGHT),
    breaks(&[MoveRepeatsFinals], "moved-back", TIGHT),
    breaks(&[CurrentWhileServed], "moves", MONOTONIC),
    // Clusters.
    breaks(&[CallNamesCluster], "clusters", UNIQUE),
    breaks(&[RequestNamesCluster], "clusters", UNIQUE),
    redundant(
        &[ReplyNamesCluster],
        "clusters",
        "covered by RequestNamesCluster: stores of another cluster refuse what this AllocSvr sends next; stays: a store of before that rule refuses nothing",
    ),
    // Restart and strict mode.
    breaks(&[ProofUnderLock], "restart", MONOTONIC),
    redundant(
        &[ProofOfSession],
        "restart",
        "under a true lock an older proof comes only in a late OpenSession of a dead process, whose ghost serves nobody; stays: it is all that helps when an old copy of the proof escapes the lock (tried: order breaks in 17 steps), and a ghost would hold the slot for W",
    ),
    redundant(
        &[NameExclusive],
        "restart",
        "sessions of one name are still told apart by id; stays: two processes under one name are an operator's mistake that must show",
    ),
    breaks(&[StrictAfterArrival], "strict", MONOTONIC),
    breaks(&[StrictObject], "strict", MONOTONIC),
];
