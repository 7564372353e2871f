//! Requests of operators about store time and the clocks that it follows.
//!
//! Invariant: store time is set back only where no family is stopped by it, and ahead only by
//! force. Schedule: the clocks of all stores were an hour ahead, and grants were given. They are
//! put right, and an operator sets store time back: a family without lanes grants nothing for an
//! hour. Or an operator mistypes the year, and store time is a year ahead.

use seqsvr_core::command::Command;
use seqsvr_core::family::IdsCommand;
use seqsvr_core::ids::WorkerId;
use seqsvr_core::layout::format_utc_ms;
use seqsvr_core::state::State;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{self, Reason};

use crate::context::StoreContext;
use crate::rpc_errors;
use crate::store_time::{LeaderView, NS_PER_MS};

pub(super) async fn clock_status(
    context: &StoreContext,
) -> Result<v1::ClockStatusResponse, RpcError> {
    let view = confirmed_view(context).await?;
    let read = context.store_time.read(&view);
    let suspect = context.store_time.suspect();
    let mut offsets = context.store_time.clock_offsets_ns();
    offsets.insert(view.own_id, 0);
    let clocks = offsets
        .into_iter()
        .map(|(store, offset_ns)| v1::StoreClock {
            store,
            offset_ms: offset_ns / NS_PER_MS.cast_signed(),
        });
    Ok(v1::ClockStatusResponse {
        store_time_ms: read.unwrap_or(view.time.high_ms),
        resets: view.time.resets,
        clocks: clocks.collect(),
        suspect: suspect.is_some(),
        agreed_ms: suspect.map_or(0, |suspect| suspect.agreed_ns / NS_PER_MS),
        grants: read.is_ok(),
    })
}

pub(super) async fn accept_clock(
    context: &StoreContext,
) -> Result<v1::ClockStatusResponse, RpcError> {
    let view = confirmed_view(context).await?;
    let now_ms = context.store_time.accept(&view);
    let resets = view.time.resets;
    let command = IdsCommand::AdvanceTime { now_ms, resets };
    context.propose(Command::Ids(command)).await?;
    clock_status(context).await
}

pub(super) async fn set_clock(
    context: &StoreContext,
    request: v1::SetClockRequest,
) -> Result<v1::ClockStatusResponse, RpcError> {
    let view = confirmed_view(context).await?;
    let now_ms = request.unix_ms;
    let present_ms = present_ms(context, &view);
    if !request.force && now_ms > present_ms {
        let text = format!(
            "{} is after store time, {}: set an earlier time, run `seqsvr id clock accept` if the clocks of the stores are right, or pass --force",
            format_utc_ms(now_ms),
            format_utc_ms(present_ms)
        );
        return Err(RpcError::new(Reason::Rejected, text));
    }
    let stopped = context
        .node
        .with_state(|state| stopped_families(state, now_ms));
    if !request.force && !stopped.is_empty() {
        let text = format!(
            "families would grant nothing until the clock has passed that time again: {}; set a later time, or pass --force",
            stopped.join(", ")
        );
        return Err(RpcError::new(Reason::Rejected, text));
    }
    let resets = view.time.resets;
    let command = IdsCommand::SetTime { now_ms, resets };
    context.propose(Command::Ids(command)).await?;
    clock_status(context).await
}

/// Returns store time now. That in the state is as old as the last command that needed it.
pub(super) fn present_ms(context: &StoreContext, view: &LeaderView) -> u64 {
    let read = context.store_time.read(view);
    read.unwrap_or(view.time.high_ms)
}

/// Returns the families without lanes whose grants lie beyond this time, each with the seconds for
/// which it would grant nothing.
fn stopped_families(state: &State, now_ms: u64) -> Vec<String> {
    let stopped = state.families().filter_map(|row| {
        let spec = &row.family.spec;
        let latest = state
            .workers(row.family.id, WorkerId(0))
            .map(|(_, worker)| worker.until());
        let latest_ms = spec.scale.unix_ms_of(latest.max()?);
        let reach_ms = now_ms.saturating_add(u64::from(row.family.limits.ahead_ms));
        let wait_ms = latest_ms
            .checked_sub(reach_ms)
            .filter(|wait_ms| *wait_ms > 0)?;
        let is_stopped = spec.lanes() == 1;
        is_stopped.then(|| format!("{} for {} s", spec.name, wait_ms.div_ceil(1_000)))
    });
    stopped.collect()
}

async fn confirmed_view(context: &StoreContext) -> Result<LeaderView, RpcError> {
    context.confirm_leadership().await?;
    let view = context.leader_view();
    view.ok_or_else(|| rpc_errors::not_leader(context.leader_address()))
}
