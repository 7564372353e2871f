//! The gRPC services. A request that has rules of its own has a file of its own; `store.rs` and
//! `admin.rs` only pass requests on.

mod admin;
mod backup;
mod clock;
mod families;
mod init;
mod keep_alive;
mod members;
mod move_slot;
mod read;
mod sender;
mod session;
mod store;
mod submit;
mod watch;

use std::sync::Arc;

use seqsvr_proto::cluster_tag::ClusterTagged;
use seqsvr_proto::error::RpcError;
use tonic::{Request, Response, Status};

use crate::context::StoreContext;
use crate::service::sender::Sender;

pub(crate) use members::meet_store;

/// Serves `Store` and `Admin`.
#[derive(Clone)]
pub(crate) struct StoreService(pub(crate) Arc<StoreContext>);

type GrpcResult<T> = Result<Response<T>, Status>;

fn to_grpc_result<T>(result: Result<T, RpcError>) -> GrpcResult<T> {
    result.map(Response::new).map_err(Status::from)
}

impl StoreService {
    /// Serves a request of this store's cluster with its sender, and names the cluster in the
    /// answer. Rejects a request of another cluster before it has any effect: see
    /// [`seqsvr_proto::cluster_tag`].
    async fn serve_cluster<R, T, F>(
        &self,
        request: Request<R>,
        serve: impl FnOnce(R, Sender) -> F,
    ) -> GrpcResult<T>
    where
        R: ClusterTagged,
        T: ClusterTagged,
        F: Future<Output = Result<T, RpcError>>,
    {
        let (_, extensions, request) = request.into_parts();
        let checked = self.0.check_cluster(request.cluster_tag());
        let served = match checked.and_then(|()| Sender::identify(&extensions)) {
            Ok(sender) => serve(request, sender).await,
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
