//! Requests of operators about families of ids and their workers.

mod workers;

use seqsvr_core::command::{Command, Reply};
use seqsvr_core::family::{Family, FamilyChange, IdsCommand, TickStart, no_family_text};
use seqsvr_core::ids::{WorkerEpoch, WorkerId, WorkerKey};
use seqsvr_core::state::{FamilyRow, State, WorkerRow};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{self, Reason};

use crate::context::StoreContext;
use crate::rpc_errors;
use crate::service::clock::present_ms;

pub(super) use workers::serve_workers;

/// Most workers of one page.
const WORKERS_PER_PAGE: usize = 1_000;

pub(super) async fn create_family(
    context: &StoreContext,
    request: v1::CreateFamilyRequest,
) -> Result<v1::Family, RpcError> {
    let given = request.family.as_ref();
    let given = given
        .ok_or_else(|| rpc_errors::invalid_request("no family given: name the one to create"))?;
    let Family { spec, limits, .. } = Family::try_from(given)?;
    let name = spec.name.clone();
    let command = Command::Ids(IdsCommand::CreateFamily { spec, limits });
    match context.propose(command).await? {
        Reply::Family(_) => with_family(context, &name, |row| v1::Family::from(&row.family)),
        other => Err(rpc_errors::unexpected_reply(&other)),
    }
}

pub(super) async fn alter_family(
    context: &StoreContext,
    request: v1::AlterFamilyRequest,
) -> Result<v1::Family, RpcError> {
    use v1::alter_family_request::SequenceStart;
    let change = FamilyChange {
        window_ms: request.window_ms,
        window_max_ms: request.window_max_ms,
        ahead_ms: request.ahead_ms,
        workers_per_holder: request.workers_per_holder,
        frozen: request.frozen,
        sequence_start: request.sequence_start.map(|start| match start {
            SequenceStart::RandomBelow(below) => TickStart::Random { below },
            SequenceStart::Carry(true) => TickStart::Carry,
            SequenceStart::Carry(false) | SequenceStart::Zero(_) => TickStart::Zero,
        }),
    };
    context.confirm_leadership().await?;
    let id = with_family(context, &request.name, |row| row.family.id)?;
    context
        .propose(Command::Ids(IdsCommand::AlterFamily { id, change }))
        .await?;
    with_family(context, &request.name, |row| v1::Family::from(&row.family))
}

pub(super) async fn list_families(
    context: &StoreContext,
) -> Result<v1::ListFamiliesResponse, RpcError> {
    context.confirm_leadership().await?;
    let store_time_ms = store_time_ms(context);
    Ok(context.node.with_state(|state| v1::ListFamiliesResponse {
        families: state.families().map(family_status).collect(),
        store_time_ms,
    }))
}

fn family_status(row: &FamilyRow) -> v1::FamilyStatus {
    v1::FamilyStatus {
        family: Some(v1::Family::from(&row.family)),
        floor: row.floor,
        next_worker: row.next_fresh.0,
    }
}

pub(super) async fn raise_family(
    context: &StoreContext,
    request: v1::RaiseFamilyRequest,
) -> Result<v1::RaiseFamilyResponse, RpcError> {
    context.confirm_leadership().await?;
    let id = with_family(context, &request.name, |row| row.family.id)?;
    let command = IdsCommand::RaiseFamily {
        id,
        floor: request.floor,
        force: request.force,
    };
    context.propose(Command::Ids(command)).await?;
    let floor = with_family(context, &request.name, |row| row.floor)?;
    Ok(v1::RaiseFamilyResponse { floor })
}

pub(super) async fn list_workers(
    context: &StoreContext,
    request: v1::ListWorkersRequest,
) -> Result<v1::ListWorkersResponse, RpcError> {
    context.confirm_leadership().await?;
    let store_time_ms = store_time_ms(context);
    context.node.with_state(|state| {
        let row = find_family(state, &request.family)?;
        let mut page = state.workers(row.family.id, WorkerId(request.first));
        let workers: Vec<_> = page
            .by_ref()
            .take(WORKERS_PER_PAGE)
            .map(|(worker, row)| worker_status(worker, row))
            .collect();
        Ok(v1::ListWorkersResponse {
            workers,
            has_more: page.next().is_some(),
            family: Some(v1::Family::from(&row.family)),
            store_time_ms,
        })
    })
}

fn store_time_ms(context: &StoreContext) -> u64 {
    let view = context.leader_view();
    view.map_or(0, |view| present_ms(context, &view))
}

fn worker_status(worker: WorkerId, row: &WorkerRow) -> v1::WorkerStatus {
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

pub(super) async fn revoke_worker(
    context: &StoreContext,
    request: v1::RevokeWorkerRequest,
) -> Result<v1::RevokeWorkerResponse, RpcError> {
    context.confirm_leadership().await?;
    let (worker, epoch, until_ms) = context.node.with_state(|state| {
        let row = find_family(state, &request.family)?;
        let key = WorkerKey {
            family: row.family.id,
            worker: WorkerId(request.worker),
        };
        let held = state.worker(key).filter(|worker| worker.is_held);
        let held = held.ok_or_else(|| not_held(&row.family, key.worker))?;
        let epoch = match request.epoch {
            0 => held.epoch,
            epoch => WorkerEpoch(epoch),
        };
        let until_ms = row.family.spec.scale.unix_ms_of(held.until());
        Ok::<_, RpcError>((key, epoch, until_ms))
    })?;
    let command = IdsCommand::RevokeWorker { worker, epoch };
    context.propose(Command::Ids(command)).await?;
    Ok(v1::RevokeWorkerResponse { until_ms })
}

fn not_held(family: &Family, worker: WorkerId) -> RpcError {
    let name = &family.spec.name;
    let text = format!(
        "worker {worker} of family {name:?} is not held: `seqsvr id workers {name}` shows those that are"
    );
    RpcError::new(Reason::StaleWorker, text)
}

fn with_family<T>(
    context: &StoreContext,
    name: &str,
    read: impl FnOnce(&FamilyRow) -> T,
) -> Result<T, RpcError> {
    context
        .node
        .with_state(|state| find_family(state, name).map(read))
}

/// Returns the family of this name.
pub(super) fn find_family<'a>(state: &'a State, name: &str) -> Result<&'a FamilyRow, RpcError> {
    state.find_family(name).ok_or_else(|| {
        let names = state.families().map(|row| row.family.spec.name.as_str());
        RpcError::new(Reason::FamilyNotFound, no_family_text(name, names))
    })
}
