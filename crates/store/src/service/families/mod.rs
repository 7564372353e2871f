//! Requests of operators about families of ids, their workers, and store time.

mod workers;

use seqsvr_core::command::Command;
use seqsvr_core::family::{Family, FamilyChange, IdsCommand, no_family_text};
use seqsvr_core::ids::{FamilyId, WorkerId, WorkerKey};
use seqsvr_core::layout::format_utc_ms;
use seqsvr_core::state::{FamilyRow, State, WorkerRow};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::change_ids_request::Change;
use seqsvr_proto::v1::{self, Reason};

use crate::context::StoreContext;
use crate::rpc_errors;
use crate::service::clock::{check_set_time, clock_status};
use crate::store_time::LeaderView;

pub(super) use workers::serve_workers;

/// Most workers of one answer.
const WORKERS_PER_PAGE: usize = 1_000;

pub(super) async fn list_ids(
    context: &StoreContext,
    request: v1::ListIdsRequest,
) -> Result<v1::IdsStatus, RpcError> {
    let view = confirmed_view(context).await?;
    ids_status(context, &view, &request.family, request.first_worker)
}

pub(super) async fn change_ids(
    context: &StoreContext,
    request: v1::ChangeIdsRequest,
) -> Result<v1::IdsStatus, RpcError> {
    let view = confirmed_view(context).await?;
    let (mut family, mut revoked_until_ms) = (request.family, 0);
    let resets = view.time.resets;
    let no_change = || rpc_errors::invalid_request("no change given: set one");
    let change = request.change.ok_or_else(no_change)?;
    if matches!(change, Change::SetTimeMs(_)) && !family.is_empty() {
        return Err(rpc_errors::invalid_request(
            "store time is that of all families: name none",
        ));
    }
    // The log of changes knows the method only, which is one for all of them.
    tracing::info!(?change, family, force = request.force, "change of ids");
    let command = match change {
        Change::Create(wire) => {
            let Family { spec, limits, .. } = Family::try_from(&wire)?;
            family = wire.name;
            IdsCommand::CreateFamily { spec, limits }
        }
        Change::Alter(alter) => IdsCommand::AlterFamily {
            id: family_id(context, &family)?,
            change: FamilyChange::try_from(&alter)?,
        },
        Change::Raise(floor) => {
            let raise = |state: &State| raise_command(state, &family, floor, request.force);
            context.node.with_state(raise)?
        }
        Change::Revoke(worker) => {
            let revoke = |state: &State| revocation(state, &family, WorkerId(worker));
            let (command, until_ms) = context.node.with_state(revoke)?;
            revoked_until_ms = until_ms;
            command
        }
        Change::SetTimeMs(now_ms) => {
            if !request.force {
                check_set_time(context, &view, now_ms)?;
            }
            IdsCommand::SetTime { now_ms, resets }
        }
    };
    context.propose(Command::Ids(command)).await?;
    // Done, also if another store leads now.
    let view = context.leader_view().unwrap_or(view);
    Ok(v1::IdsStatus {
        revoked_until_ms,
        ..ids_status(context, &view, &family, None)?
    })
}

fn ids_status(
    context: &StoreContext,
    view: &LeaderView,
    family: &str,
    first_worker: Option<u32>,
) -> Result<v1::IdsStatus, RpcError> {
    let mut status = clock_status(context, view);
    context.node.with_state(|state| {
        if family.is_empty() {
            status.families = state.families().map(family_status).collect();
            return Ok(status);
        }
        let row = find_family(state, family)?;
        status.families = vec![family_status(row)];
        if let Some(first) = first_worker {
            let mut page = state.workers(row.family.id, WorkerId(first));
            let workers = page.by_ref().take(WORKERS_PER_PAGE);
            status.workers = workers.map(worker_status).collect();
            status.has_more = page.next().is_some();
        }
        Ok(status)
    })
}

fn family_status(row: &FamilyRow) -> v1::FamilyStatus {
    v1::FamilyStatus {
        family: Some(v1::Family::from(&row.family)),
        floor: row.floor,
        next_worker: row.next_fresh.0,
    }
}

fn worker_status((worker, row): (WorkerId, &WorkerRow)) -> v1::WorkerStatus {
    v1::WorkerStatus {
        worker: worker.0,
        epoch: row.epoch.0,
        holder: row.holder.clone(),
        held: row.is_held,
        lane: row.lane,
        from: row.base,
        until: row.until(),
        taken_ms: row.taken_ms,
    }
}

/// Returns the command that raises the floor of a family. Nothing lowers a floor, so one at the end
/// would end the family.
fn raise_command(
    state: &State,
    name: &str,
    floor: u64,
    force: bool,
) -> Result<IdsCommand, RpcError> {
    let Family { id, spec, .. } = &find_family(state, name)?.family;
    if floor >= spec.end_tick() {
        let end = format_utc_ms(spec.layout.end_ms(spec.scale));
        let text = format!(
            "family {name:?} ends on {end}: a floor from then on ends it permanently; give an earlier one"
        );
        return Err(rpc_errors::invalid_request(text));
    }
    let id = *id;
    Ok(IdsCommand::RaiseFamily { id, floor, force })
}

/// Returns the command that revokes a worker, and the time until which its holder may make ids.
fn revocation(state: &State, name: &str, number: WorkerId) -> Result<(IdsCommand, u64), RpcError> {
    let family = &find_family(state, name)?.family;
    let worker = WorkerKey {
        family: family.id,
        worker: number,
    };
    let held = state.worker(worker).filter(|row| row.is_held);
    let row = held.ok_or_else(|| {
        let text = format!(
            "worker {number} of family {name:?} is not held: `seqsvr id workers {name}` shows those that are"
        );
        RpcError::new(Reason::StaleWorker, text)
    })?;
    let epoch = row.epoch;
    let until_ms = family.spec.scale.unix_ms_of(row.until());
    Ok((IdsCommand::RevokeWorker { worker, epoch }, until_ms))
}

fn family_id(context: &StoreContext, name: &str) -> Result<FamilyId, RpcError> {
    let id = |state: &State| find_family(state, name).map(|row| row.family.id);
    context.node.with_state(id)
}

/// Returns the family of this name.
pub(super) fn find_family<'a>(state: &'a State, name: &str) -> Result<&'a FamilyRow, RpcError> {
    state.find_family(name).ok_or_else(|| {
        let names = state.families().map(|row| row.family.spec.name.as_str());
        RpcError::new(Reason::FamilyNotFound, no_family_text(name, names))
    })
}

async fn confirmed_view(context: &StoreContext) -> Result<LeaderView, RpcError> {
    context.confirm_leadership().await?;
    let view = context.leader_view();
    view.ok_or_else(|| rpc_errors::not_leader(context.leader_address()))
}
