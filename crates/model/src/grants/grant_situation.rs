//! Situations that scenarios of grants must reach.
//!
//! Invariant: a condition depends on the state alone.

use stateright::{Model, Property};

use super::WINDOW_TICKS;
use super::grant_holder::HeldGrant;
use super::grant_world::GrantWorld;
use super::message::{GrantCommand, GrantReply};
use super::replicated_workers::WorkerRecord;

/// A situation that a scenario must reach. [`GrantSituation::to_property`] describes each.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GrantSituation {
    WokenHolder,
    PassedGrantTaken,
    LateRenewal,
    LateRelease,
    DuplicateReply,
    GrantInFront,
    EndOfTime,
    RenewalBelowFloor,
    OtherLane,
}

impl GrantSituation {
    /// Returns the situation as a property of the model: its description and its condition.
    pub(crate) fn to_property<M: Model<State = GrantWorld>>(self) -> Property<M> {
        match self {
            GrantSituation::WokenHolder => Property::sometimes(
                "a paused holder wakes and makes an id after its successor made one",
                |_, world| has_woken_holder(world),
            ),
            GrantSituation::PassedGrantTaken => Property::sometimes(
                "a worker has its next holder, and the last one still has its grant",
                |_, world| {
                    has_grant(world, |grant, row| {
                        row.epoch == grant.epoch + 1 && row.holder.is_some()
                    })
                },
            ),
            GrantSituation::LateRenewal => Property::sometimes(
                "a renewal may arrive after the release of its epoch",
                |_, world| has_late_renewal(world),
            ),
            GrantSituation::LateRelease => Property::sometimes(
                "a release may arrive again while the worker has its next holder",
                |_, world| has_late_release(world),
            ),
            GrantSituation::DuplicateReply => Property::sometimes(
                "the reply to an acquisition may arrive again after its grant was released",
                |_, world| has_duplicate_reply(world),
            ),
            GrantSituation::GrantInFront => Property::sometimes(
                "a grant begins in front of the store time",
                |_, world: &GrantWorld| {
                    world
                        .state
                        .rows
                        .iter()
                        .any(|row| row.base > world.state.now)
                },
            ),
            GrantSituation::EndOfTime => Property::sometimes(
                "a grant is cut short by the last tick of the layout",
                |_, world: &GrantWorld| {
                    let is_short = |row: &WorkerRecord| row.until() < row.base + WINDOW_TICKS;
                    let mut rows = world.state.rows.iter();
                    rows.any(|row| row.holder.is_some() && is_short(row))
                },
            ),
            GrantSituation::RenewalBelowFloor => Property::sometimes(
                "a holder may renew a grant that begins below a raised floor",
                |_, world| {
                    has_grant(world, |grant, row| {
                        row.epoch == grant.epoch && row.base < world.state.floor
                    })
                },
            ),
            GrantSituation::OtherLane => Property::sometimes(
                "the store time was set back, and an id of another lane was made",
                |_, world: &GrantWorld| {
                    let mut ids = world.ledger.ids.iter();
                    world.state.resets > 0 && ids.any(|id| id.lane == 1)
                },
            ),
        }
    }
}

fn has_woken_holder(world: &GrantWorld) -> bool {
    match world.ledger.ids.as_slice() {
        [first, second] => {
            let is_other = first.holder != second.holder && first.worker == second.worker;
            is_other && first.epoch > second.epoch
        }
        _ => false,
    }
}

fn has_grant(world: &GrantWorld, condition: impl Fn(&HeldGrant, &WorkerRecord) -> bool) -> bool {
    world.holders.iter().any(|holder| {
        let mut grants = holder.grants.iter().zip(&world.state.rows);
        grants.any(|(grant, row)| grant.is_some_and(|grant| condition(&grant, row)))
    })
}

fn has_late_renewal(world: &GrantWorld) -> bool {
    world.requests.iter().any(|request| match request.command {
        GrantCommand::Renew { worker, epoch } => {
            let row = &world.state.rows[worker];
            row.epoch == epoch + 1 && row.holder.is_none()
        }
        _ => false,
    })
}

fn has_late_release(world: &GrantWorld) -> bool {
    world.requests.iter().any(|request| match request.command {
        GrantCommand::Release { worker, epoch, .. } => {
            let row = &world.state.rows[worker];
            row.epoch > epoch + 1 && row.holder.is_some()
        }
        _ => false,
    })
}

fn has_duplicate_reply(world: &GrantWorld) -> bool {
    world.replies.iter().any(|reply| match reply.reply {
        GrantReply::Granted { worker, epoch, .. } => {
            let holder = &world.holders[reply.holder];
            holder.grants[worker].is_none() && epoch <= holder.highest_installed[worker]
        }
        GrantReply::Renewed { .. } => false,
    })
}
