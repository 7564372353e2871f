//! Requests of operators to a store.

use std::collections::HashMap;

use seqsvr_core::command::{Command, Reply};
use seqsvr_core::ids::SessionId;
use seqsvr_core::namespace::NamespaceChange;
use seqsvr_core::state::State;
use seqsvr_metrics::{dropped_log_lines_sample, to_counter_map};
use seqsvr_proto::convert::{namespace_spec_from, u128_to_bytes};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{self, Reason, admin_server};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response};

use super::{GrpcResult, StoreService, backup, families, members, to_grpc_result};
use crate::context::StoreContext;
use crate::metrics;
use crate::rpc_errors;

#[tonic::async_trait]
impl admin_server::Admin for StoreService {
    async fn create_namespace(
        &self,
        request: Request<v1::CreateNamespaceRequest>,
    ) -> GrpcResult<v1::Namespace> {
        to_grpc_result(create_namespace(&self.0, request.into_inner()).await)
    }

    async fn alter_namespace(
        &self,
        request: Request<v1::AlterNamespaceRequest>,
    ) -> GrpcResult<v1::Namespace> {
        to_grpc_result(alter_namespace(&self.0, request.into_inner()).await)
    }

    async fn list_namespaces(
        &self,
        _: Request<v1::ListNamespacesRequest>,
    ) -> GrpcResult<v1::ListNamespacesResponse> {
        let listed = self.0.namespaces.call(async {
            self.0.confirm_leadership().await?;
            let namespaces = |s: &State| s.namespaces().map(v1::Namespace::from).collect();
            Ok(v1::ListNamespacesResponse {
                namespaces: self.0.node.with_state(namespaces),
            })
        });
        listed.await.map(Response::new)
    }

    async fn cluster_status(
        &self,
        _: Request<v1::ClusterStatusRequest>,
    ) -> GrpcResult<v1::ClusterStatusResponse> {
        let status = async { Ok(cluster_status(&self.0).await?) };
        self.0.cluster_status.call(status).await.map(Response::new)
    }

    async fn move_slot(
        &self,
        _: Request<v1::AdminMoveSlotRequest>,
    ) -> GrpcResult<v1::AdminMoveSlotResponse> {
        to_grpc_result(Err(rpc_errors::invalid_request(
            "only the owner of a slot can move it: send the request to an AllocSvr",
        )))
    }

    async fn drain(&self, _: Request<v1::DrainRequest>) -> GrpcResult<v1::DrainResponse> {
        to_grpc_result(Err(rpc_errors::invalid_request(
            "only an AllocSvr can drain itself: send the request to an AllocSvr",
        )))
    }

    async fn add_member(
        &self,
        request: Request<v1::AddMemberRequest>,
    ) -> GrpcResult<v1::MembersResponse> {
        to_grpc_result(members::add_member(&self.0, request.into_inner()).await)
    }

    async fn remove_member(
        &self,
        request: Request<v1::RemoveMemberRequest>,
    ) -> GrpcResult<v1::MembersResponse> {
        to_grpc_result(members::remove_member(&self.0, request.into_inner()).await)
    }

    async fn transfer_leader(
        &self,
        request: Request<v1::TransferLeaderRequest>,
    ) -> GrpcResult<v1::MembersResponse> {
        to_grpc_result(members::transfer_leader(&self.0, request.into_inner()).await)
    }

    type BackupStream = ReceiverStream<Result<v1::BackupChunk, tonic::Status>>;

    async fn backup(&self, _: Request<v1::BackupRequest>) -> GrpcResult<Self::BackupStream> {
        to_grpc_result(backup::start_backup(&self.0).await)
    }

    async fn change_ids(
        &self,
        request: Request<v1::ChangeIdsRequest>,
    ) -> GrpcResult<v1::IdsStatus> {
        to_grpc_result(families::change_ids(&self.0, request.into_inner()).await)
    }

    async fn list_ids(&self, request: Request<v1::ListIdsRequest>) -> GrpcResult<v1::IdsStatus> {
        to_grpc_result(families::list_ids(&self.0, request.into_inner()).await)
    }

    async fn node_status(
        &self,
        _: Request<v1::NodeStatusRequest>,
    ) -> GrpcResult<v1::NodeStatusResponse> {
        let status = async { Ok(node_status(&self.0)) };
        self.0.node_status.call(status).await.map(Response::new)
    }
}

async fn create_namespace(
    context: &StoreContext,
    request: v1::CreateNamespaceRequest,
) -> Result<v1::Namespace, RpcError> {
    let namespace = request.namespace.as_ref();
    let spec = namespace_spec_from(namespace.ok_or_else(|| {
        rpc_errors::invalid_request("no namespace given: name the one to create")
    })?)?;
    spec.validate().map_err(rpc_errors::invalid_request)?;
    let name = spec.name.clone();
    match context.propose(Command::CreateNamespace(spec)).await? {
        Reply::Namespace(_) => namespace_by_name(context, &name),
        other => Err(rpc_errors::unexpected_reply(&other)),
    }
}

async fn alter_namespace(
    context: &StoreContext,
    request: v1::AlterNamespaceRequest,
) -> Result<v1::Namespace, RpcError> {
    let change = NamespaceChange {
        step: request.step,
        step_max: request.step_max,
        raise_to_max: request.raise_to_max,
        strict: request.strict,
    };
    // Below level 2 the command is absolute. Another handler must not alter what this one reads
    // before its command applies. Otherwise that alteration is lost although it was acknowledged.
    let _guard = context.alteration_lock.lock().await;
    context.confirm_leadership().await?;
    let (found, level) = context
        .node
        .with_state(|s| (s.find_namespace(&request.name).cloned(), s.format_level()));
    let found = found.ok_or_else(|| no_such_namespace(&request.name))?;
    let id = found.id;
    let command = if level >= 2 {
        Command::ChangeNamespace { id, change }
    } else {
        let (step, limits) = change.apply_to(&found.spec);
        Command::AlterNamespace { id, step, limits }
    };
    context.propose(command).await?;
    namespace_by_name(context, &request.name)
}

fn namespace_by_name(context: &StoreContext, name: &str) -> Result<v1::Namespace, RpcError> {
    let found = context
        .node
        .with_state(|s| s.find_namespace(name).map(v1::Namespace::from));
    found.ok_or_else(|| no_such_namespace(name))
}

fn no_such_namespace(name: &str) -> RpcError {
    let text = format!("there is no namespace {name:?}: `seqsvr namespace list` shows them");
    RpcError::new(Reason::NamespaceNotFound, text)
}

async fn cluster_status(context: &StoreContext) -> Result<v1::ClusterStatusResponse, RpcError> {
    let term = context.confirm_leadership().await?;
    let stores = members::list_members(context);
    let renewal_ages = context.renewal_ages();
    let (draining, moves_planned) = context.rebalance_status();
    context.node.with_state(|state| {
        let cluster = state.cluster().ok_or_else(rpc_errors::not_initialized)?;
        let mut owned: HashMap<SessionId, u32> = HashMap::new();
        for owner in state.slots().iter().filter_map(|row| row.owner) {
            *owned.entry(owner).or_default() += 1;
        }
        let sessions = state.sessions().map(|(id, session)| v1::SessionStatus {
            session: id.0,
            name: session.name.clone(),
            address: session.address.clone(),
            slots: owned.get(&id).copied().unwrap_or(0),
            last_renewal_age_ms: renewal_ages.get(&id).copied(),
            draining: draining.contains(&id),
        });
        Ok(v1::ClusterStatusResponse {
            cluster: u128_to_bytes(cluster.id.0),
            lease_ms: u64::from(cluster.lease_ms),
            slot_count: cluster.slots,
            table_version: cluster.table_version,
            term,
            stores,
            sessions: sessions.collect(),
            free_slots: state.slots().iter().filter(|s| s.owner.is_none()).count() as u32,
            sections_open: state.sections_open(),
            sections_known: state.sections_known(),
            moves_planned,
        })
    })
}

fn node_status(context: &StoreContext) -> v1::NodeStatusResponse {
    let mut samples = metrics::collect_samples(context);
    samples.extend(context.security.samples());
    samples.push(dropped_log_lines_sample());
    let mut counters = to_counter_map("", samples);
    counters.extend(to_counter_map("raft_", context.node.metrics()));
    let identity = context.node.identity();
    v1::NodeStatusResponse {
        role: "store".to_owned(),
        name: identity.node.to_string(),
        address: context.address.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        counters,
        ..v1::NodeStatusResponse::default()
    }
}
