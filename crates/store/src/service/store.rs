//! Requests of AllocSvrs to a store, and the creation of the cluster.

use seqsvr_proto::cluster_tag::ClusterTagged;
use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::v1::{self, store_server};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::{
    GrpcResult, StoreService, families, init, keep_alive, move_slot, read, session, submit,
    to_grpc_result, watch,
};

#[tonic::async_trait]
impl store_server::Store for StoreService {
    async fn describe(&self, _: Request<v1::DescribeRequest>) -> GrpcResult<v1::DescribeResponse> {
        let identity = self.0.node.identity();
        Ok(Response::new(v1::DescribeResponse {
            node: identity.node,
            incarnation: identity.incarnation,
            cluster: identity
                .cluster
                .map(|c| u128_to_bytes(c.0))
                .unwrap_or_default(),
            address: self.0.address.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            format_level: self.0.node.level_max(),
        }))
    }

    async fn init(&self, request: Request<v1::InitRequest>) -> GrpcResult<v1::InitResponse> {
        to_grpc_result(init::init_cluster(&self.0, request.into_inner()).await)
    }

    async fn open_session(
        &self,
        request: Request<v1::OpenSessionRequest>,
    ) -> GrpcResult<v1::OpenSessionResponse> {
        self.serve_cluster(request, |request, sender| {
            session::open_session(&self.0, request, sender)
        })
        .await
    }

    async fn keep_alive(
        &self,
        request: Request<v1::KeepAliveRequest>,
    ) -> GrpcResult<v1::KeepAliveResponse> {
        self.serve_cluster(request, |request, sender| {
            keep_alive::serve_keep_alive(&self.0, request, sender)
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
        self.serve_cluster(request, |request, sender| {
            submit::submit_commands(&self.0, request, sender)
        })
        .await
    }

    async fn close_session(
        &self,
        request: Request<v1::CloseSessionRequest>,
    ) -> GrpcResult<v1::CloseSessionResponse> {
        self.serve_cluster(request, |request, sender| {
            session::close_session(&self.0, request, sender)
        })
        .await
    }

    async fn move_slot(
        &self,
        request: Request<v1::MoveSlotRequest>,
    ) -> GrpcResult<v1::MoveSlotResponse> {
        self.serve_cluster(request, |request, sender| {
            move_slot::move_slot(&self.0, request, sender)
        })
        .await
    }

    async fn clock(&self, _: Request<v1::ClockRequest>) -> GrpcResult<v1::ClockResponse> {
        let unix_ns = self.0.store_time.read_clock().unix_ns;
        Ok(Response::new(v1::ClockResponse { unix_ns }))
    }

    async fn workers(
        &self,
        request: Request<v1::WorkersRequest>,
    ) -> GrpcResult<v1::WorkersResponse> {
        self.serve_cluster(request, |request, _| {
            families::serve_workers(&self.0, request)
        })
        .await
    }

    async fn read(&self, request: Request<v1::ReadRequest>) -> GrpcResult<v1::ReadResponse> {
        self.serve_cluster(request, |request, _| read::read_confirmed(&self.0, request))
            .await
    }
}
