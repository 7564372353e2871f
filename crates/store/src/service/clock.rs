//! Store time as operators see and set it.
//!
//! Invariant: store time is set back only where that stops no holder and no grant, and ahead only
//! by force. Schedule: the clocks of all stores were an hour ahead, and grants were given. They are
//! put right, and an operator sets store time back: holders without another lane make no id for an
//! hour. Or an operator mistypes the year: store time is a year ahead, or so far behind the clocks
//! that they are not followed, and no worker is granted.

use seqsvr_core::ids::WorkerId;
use seqsvr_core::layout::format_utc_ms;
use seqsvr_core::state::State;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{self, Reason};

use crate::context::StoreContext;
use crate::store_time::{LeaderView, NS_PER_MS, OFF_TIME_MAX_NS};

/// Time in which a checked set-back is done: the clocks move on between the two.
const SET_TIME_MARGIN_MS: u64 = 60_000;

/// Returns store time now, and the clocks. Store time in the state is as old as the last command
/// that needed it.
pub(super) fn clock_status(context: &StoreContext, view: &LeaderView) -> v1::IdsStatus {
    let read = context.store_time.read(view);
    let suspect = context.store_time.suspect();
    let mut offsets = context.store_time.clock_offsets_ms();
    offsets.insert(view.own_id, 0);
    let offsets = offsets.into_iter();
    let clocks = offsets.map(|(store, offset_ms)| v1::StoreClock { store, offset_ms });
    v1::IdsStatus {
        store_time_ms: read.unwrap_or(view.time.high_ms),
        resets: view.time.resets,
        clocks: clocks.collect(),
        suspect: suspect.is_some(),
        agreed_ms: match suspect {
            Some(suspect) => suspect.agreed_ns / NS_PER_MS,
            None => context.store_time.agreed_ms(view),
        },
        grants: read.is_ok(),
        ..v1::IdsStatus::default()
    }
}

/// Checks that store time can be set without force.
pub(super) fn check_set_time(
    context: &StoreContext,
    view: &LeaderView,
    now_ms: u64,
) -> Result<(), RpcError> {
    let rejected = |text| Err(RpcError::new(Reason::Rejected, text));
    let present = clock_status(context, view);
    let (present_ms, agreed_ms) = (present.store_time_ms, present.agreed_ms);
    if now_ms > present_ms {
        return rejected(format!(
            "{} is after store time, {}: set an earlier time, run `seqsvr id clock accept` if the clocks of the stores are right, or pass --force",
            format_utc_ms(now_ms),
            format_utc_ms(present_ms)
        ));
    }
    let reach_ms = OFF_TIME_MAX_NS / NS_PER_MS - SET_TIME_MARGIN_MS;
    if now_ms.saturating_add(reach_ms) < agreed_ms {
        return rejected(format!(
            "{} is more than 30 days before the clocks of the stores, {}, which would stop all grants until `seqsvr id clock accept`: correct the clocks if they are wrong, set a later time if it is, or pass --force",
            format_utc_ms(now_ms),
            format_utc_ms(agreed_ms)
        ));
    }
    let stopped = context
        .node
        .with_state(|state| stopped_families(state, now_ms));
    match stopped.is_empty() {
        true => Ok(()),
        false => rejected(format!(
            "workers without another lane have grants after that time, and their holders would make no id until store time has passed them again: {}; set a later time, or pass --force",
            stopped.join(", ")
        )),
    }
}

/// Returns the families with workers whose grants lie beyond this time and that have no other lane,
/// each with the seconds for which holders of these grants would make no id.
fn stopped_families(state: &State, now_ms: u64) -> Vec<String> {
    let stopped = state.families().filter_map(|row| {
        let spec = &row.family.spec;
        let now = spec.scale.tick_at(now_ms).unwrap_or(0);
        let workers = state.workers(row.family.id, WorkerId(0));
        let bound = workers.filter(|(_, worker)| worker.other_lane(spec, now).is_none());
        let latest = bound.map(|(_, worker)| worker.until());
        let latest_ms = spec.scale.unix_ms_of(latest.max()?);
        let reach_ms = now_ms.saturating_add(u64::from(row.family.limits.ahead_ms));
        let wait_ms = latest_ms.saturating_sub(reach_ms);
        (wait_ms > 0).then(|| format!("{} for {} s", spec.name, wait_ms.div_ceil(1_000)))
    });
    stopped.collect()
}
