//! Adds a family of ids, holders of its workers and wall clocks that lie to a plan.

use super::planned_fault::{
    FaultKind, FaultTarget, PartitionDirection, PartitionScope, PlannedFault, RowsCrashEffect,
};
use super::run_plan::{FamilySetup, RunPlan};
use crate::machine::TRUE_RATE;
use crate::random_stream::RandomStream;

/// Number of processes that hold a worker.
const HOLDERS: u32 = 2;
/// Maximum distance of a wall clock that lies from the time, ms.
const WALL_LIE_MAX_MS: u64 = 3_600_000;

/// Adds calls for ids, holders with faults of their own, and in some plans wall clocks of stores
/// that lie.
pub(super) fn add_ids(random: &mut RandomStream, plan: &mut RunPlan) {
    plan.setup.family = Some(draw_family(random));
    plan.load.ids_percent = random.pick_one(&[5, 20]);
    let remakes = |fault: &PlannedFault| matches!(fault.kind, FaultKind::Remake { .. });
    // A holder belongs to the cluster of its worker for its life.
    if !plan.faults.iter().any(remakes) {
        plan.setup.holders = HOLDERS;
        let faults = draw_holder_faults(random, plan);
        plan.faults.extend(faults);
    }
    plan.bounds_id_time = plan.has_bounded_clocks;
    if random.next_bool(30) {
        lie(random, plan);
    }
}

/// Draws a family. A worker of another holder is granted soon: windows are short, and numbers are
/// few.
pub fn draw_family(random: &mut RandomStream) -> FamilySetup {
    let (unit_ms, seq_bits) = random.pick_one(&[(1, 2), (1, 5), (10, 4)]);
    // Two bits are too few for all AllocSvrs and holders.
    let worker_bits = random.pick_one(&[2, 3, 3]);
    FamilySetup {
        unit_ms,
        worker_bits,
        seq_bits,
        window_ms: random.pick_one(&[1_000, 1_000, 2_000]),
        ahead_ms: random.pick_one(&[20, 200]),
        workers_per_holder: worker_bits - 1,
    }
}

fn draw_holder_faults(random: &mut RandomStream, plan: &RunPlan) -> Vec<PlannedFault> {
    let mut faults = Vec::new();
    let mut at_ms = random.next_between(300, 1_500);
    let gap_ms = random.pick_one(&[500, 1_500, 4_000]);
    while at_ms < plan.heal_at_ms {
        let way = random.pick_one(&[
            PartitionDirection::Both,
            PartitionDirection::Out,
            PartitionDirection::In,
        ]);
        let reads = random.next_below(40);
        let kind = random.pick_one(&[
            FaultKind::Pause,
            FaultKind::Pause,
            FaultKind::PauseAtRead { reads },
            FaultKind::Suspend,
            FaultKind::Kill {
                rows: RowsCrashEffect::Lose(0),
            },
            FaultKind::Kill {
                rows: RowsCrashEffect::Lose(0),
            },
            FaultKind::Part {
                way,
                scope: PartitionScope::Servers,
            },
        ]);
        faults.push(PlannedFault {
            at_ms,
            // Up to three of the shortest windows.
            for_ms: random.next_between(100, 3_500),
            target: FaultTarget::Holder(random.next_below(HOLDERS.into()) as u32),
            kind,
        });
        at_ms += random.next_between(gap_ms / 5, 2 * gap_ms);
    }
    faults
}

/// Adds wall clocks that lie: those of a minority, whose lies must move nothing, or those of all.
fn lie(random: &mut RandomStream, plan: &mut RunPlan) {
    let is_minority = random.next_bool(50);
    if is_minority && random.next_bool(60) {
        // Of the clocks that are right a majority must answer.
        plan.faults.retain(|fault| !may_silence_store(fault));
    }
    plan.bounds_id_time &= is_minority && !plan.faults.iter().any(may_silence_store);
    let liar = random.next_below(plan.setup.stores.into()) as u32;
    let mut at_ms = random.next_between(100, 2_000);
    while at_ms < plan.heal_at_ms {
        let (back, by_ms) = (random.next_bool(50), random.next_below(WALL_LIE_MAX_MS));
        let (all, store) = match is_minority {
            true => (false, liar),
            false => {
                let store = random.next_below(plan.setup.stores.into()) as u32;
                (random.next_bool(50), store)
            }
        };
        plan.faults.push(PlannedFault {
            at_ms,
            for_ms: random.next_between(200, 4_000),
            target: FaultTarget::Store(store),
            kind: FaultKind::Wall {
                by_ms: if back { -(by_ms as i64) } else { by_ms as i64 },
                rate: random.pick_one(&[0, TRUE_RATE, TRUE_RATE, 2 * TRUE_RATE]),
                all,
            },
        });
        at_ms += random.next_between(300, 3_000);
    }
}

/// Returns whether a fault may keep a store from answering in time.
fn may_silence_store(fault: &PlannedFault) -> bool {
    let hits_store = matches!(
        fault.target,
        FaultTarget::Leader | FaultTarget::Follower(_) | FaultTarget::Store(_)
    );
    let is_harmless = matches!(
        fault.kind,
        FaultKind::Rate(_)
            | FaultKind::Transfer
            | FaultKind::Move { .. }
            | FaultKind::Drain
            | FaultKind::Join
            | FaultKind::Leave
            | FaultKind::Wall { .. }
    );
    matches!(fault.kind, FaultKind::PowerCutAll) || (hits_store && !is_harmless)
}
