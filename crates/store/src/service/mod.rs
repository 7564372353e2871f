//! The gRPC services: thin; a request that has rules of its own has a file of its own.

mod admin;
pub(crate) mod backup;
mod keep_alive;
mod members;
mod move_slot;
mod read;
mod session;
mod submit;
mod watch;

use std::sync::Arc;

use seqsvr_core::id::ClusterId;
use seqsvr_proto::cluster_tag::NamesCluster;
use seqsvr_proto::convert::{u128_bytes, u128_from};
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1;
use seqsvr_proto::v1::store_server;
use seqsvr_raft::{Error, Member};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::context::StoreContext;
use crate::rpc_errors;

/// Serves `Store` and `Admin`.
#[derive(Clone)]
pub(crate) struct StoreService(pub(crate) Arc<StoreContext>);

type GrpcResult<T> = Result<Response<T>, Status>;

fn to_grpc_result<T>(result: Result<T, Fault>) -> GrpcResult<T> {
    result.map(Response::new).map_err(Status::from)
}

impl StoreService {
    /// Serves a request of this store's cluster, and names the cluster in the answer. Rejects a
    /// request of another cluster before it has any effect: see [`seqsvr_proto::cluster_tag`].
    async fn serve_cluster<R, T, F>(
        &self,
        request: Request<R>,
        serve: impl FnOnce(R) -> F,
    ) -> GrpcResult<T>
    where
        R: NamesCluster,
        T: NamesCluster,
        F: Future<Output = Result<T, Fault>>,
    {
        let request = request.into_inner();
        let served = match self.0.check_cluster(request.cluster_tag()) {
            Ok(()) => serve(request).await,
            Err(fault) => Err(fault),
        };
        let own = self.0.cluster_tag();
        to_grpc_result(match served {
            Ok(mut response) => {
                response.set_cluster_tag(own);
                Ok(response)
            }
            Err(fault) => Err(fault.with_cluster_tag(own)),
        })
    }
}

#[tonic::async_trait]
impl store_server::Store for StoreService {
    async fn describe(&self, _: Request<v1::DescribeRequest>) -> GrpcResult<v1::DescribeResponse> {
        let identity = self.0.node.identity();
        Ok(Response::new(v1::DescribeResponse {
            node: identity.node,
            incarnation: identity.incarnation,
            cluster: identity
                .cluster
                .map(|c| u128_bytes(c.0))
                .unwrap_or_default(),
            address: self.0.address.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            format_level: self.0.node.level_max(),
        }))
    }

    async fn init(&self, request: Request<v1::InitRequest>) -> GrpcResult<v1::InitResponse> {
        to_grpc_result(init_cluster(&self.0, request.into_inner()).await)
    }

    async fn open_session(
        &self,
        request: Request<v1::OpenSessionRequest>,
    ) -> GrpcResult<v1::OpenSessionResponse> {
        self.serve_cluster(request, |request| session::open_session(&self.0, request))
            .await
    }

    async fn keep_alive(
        &self,
        request: Request<v1::KeepAliveRequest>,
    ) -> GrpcResult<v1::KeepAliveResponse> {
        self.serve_cluster(request, |request| {
            keep_alive::serve_keep_alive(&self.0, request)
        })
        .await
    }

    type WatchStream = ReceiverStream<Result<v1::RoutingTable, Status>>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> GrpcResult<Self::WatchStream> {
        let request = request.into_inner();
        let checked = self.0.check_cluster(request.cluster_tag());
        to_grpc_result(checked.and_then(|()| watch::watch_routes(&self.0, request.table_version)))
    }

    async fn submit(&self, request: Request<v1::SubmitRequest>) -> GrpcResult<v1::SubmitResponse> {
        self.serve_cluster(request, |request| submit::submit_commands(&self.0, request))
            .await
    }

    async fn close_session(
        &self,
        request: Request<v1::CloseSessionRequest>,
    ) -> GrpcResult<v1::CloseSessionResponse> {
        self.serve_cluster(request, |request| session::close_session(&self.0, request))
            .await
    }

    async fn move_slot(
        &self,
        request: Request<v1::MoveSlotRequest>,
    ) -> GrpcResult<v1::MoveSlotResponse> {
        self.serve_cluster(request, |request| move_slot::move_slot(&self.0, request))
            .await
    }

    async fn read(&self, request: Request<v1::ReadRequest>) -> GrpcResult<v1::ReadResponse> {
        self.serve_cluster(request, |request| read::read_confirmed(&self.0, request))
            .await
    }
}

/// Makes the cluster. Repeating it with the same cluster id is harmless and continues where an
/// interrupted one stopped.
async fn init_cluster(
    context: &Arc<StoreContext>,
    request: v1::InitRequest,
) -> Result<v1::InitResponse, Fault> {
    let cluster = ClusterId(u128_from(&request.cluster, "cluster id: 16 bytes")?);
    if cluster.0 == 0 {
        return Err(rpc_errors::invalid_request(
            "the cluster id must be random, not 0",
        ));
    }
    let members = request.members.into_iter().map(|m| Member {
        id: m.id,
        address: m.address,
        incarnation: m.incarnation,
        voter: true,
    });
    let members = members.collect();
    let node = context.node.clone();
    // In a task of its own: a caller that hangs up must not leave the work half done.
    let initialized = tokio::spawn(async move {
        node.init(members, cluster, request.lease_ms, request.slots)
            .await
    });
    let initialized = initialized
        .await
        .map_err(|e| rpc_errors::unavailable(e.to_string()))?;
    initialized.map_err(|e| match e {
        Error::Members(_) | Error::Options(_) => rpc_errors::invalid_request(e.to_string()),
        Error::WrongCluster { .. } => Fault::new(v1::Reason::Refused, e.to_string()),
        other => rpc_errors::unavailable(other.to_string()),
    })?;
    Ok(v1::InitResponse {})
}
