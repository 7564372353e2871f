//! All unary calls of the contract in one form, so that one loop can attempt any of them.

use std::future::Future;

use seqsvr_proto::cluster_tag::{ClusterTag, ClusterTagged};
use seqsvr_proto::limits::MESSAGE_BYTES_MAX;
use seqsvr_proto::v1;
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::ids_client::IdsClient;
use seqsvr_proto::v1::sequence_client::SequenceClient;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

/// Request of a unary call.
pub(crate) trait Rpc: Clone + Send + 'static {
    type Reply: Send;

    fn send(
        channel: Channel,
        request: Request<Self>,
    ) -> impl Future<Output = Result<Response<Self::Reply>, Status>> + Send;

    /// Takes the routing table attached to a reply.
    fn take_routes(reply: &mut Self::Reply) -> Option<v1::RoutingTable>;

    /// Names the client's cluster in a request: in its field, or in the metadata of a call that has
    /// none.
    fn name_cluster(request: &mut Request<Self>, tag: ClusterTag) {
        tag.write_metadata(request.metadata_mut());
    }

    /// Returns the cluster that a reply names.
    fn reply_cluster(_: &Self::Reply) -> ClusterTag {
        ClusterTag::NONE
    }
}

macro_rules! rpc {
    (
        $client:ident, $method:ident, $request:ident -> $reply:ident,
        $routes:expr $(, $named:item)*
    ) => {
        impl Rpc for v1::$request {
            type Reply = v1::$reply;

            async fn send(
                channel: Channel,
                request: Request<Self>,
            ) -> Result<Response<v1::$reply>, Status> {
                let client = $client::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
                { client }.$method(request).await
            }

            fn take_routes(reply: &mut v1::$reply) -> Option<v1::RoutingTable> {
                let routes: fn(&mut v1::$reply) -> Option<v1::RoutingTable> = $routes;
                routes(reply)
            }

            $($named)*
        }
    };
}

rpc!(
    SequenceClient,
    raise_to,
    RaiseToRequest -> RaiseToResponse,
    |r| r.routes.take(),
    fn name_cluster(request: &mut Request<Self>, tag: ClusterTag) {
        request.get_mut().set_cluster_tag(tag);
    },
    fn reply_cluster(reply: &v1::RaiseToResponse) -> ClusterTag {
        reply.cluster_tag()
    }
);
// The table itself names its cluster, and is learned only if that is the client's.
rpc!(
    SequenceClient,
    routes,
    RoutesRequest -> RoutingTable,
    |r| Some(std::mem::take(r)),
    fn name_cluster(request: &mut Request<Self>, tag: ClusterTag) {
        request.get_mut().set_cluster_tag(tag);
    }
);
rpc!(AdminClient, create_namespace, CreateNamespaceRequest -> Namespace, |_| None);
rpc!(AdminClient, alter_namespace, AlterNamespaceRequest -> Namespace, |_| None);
rpc!(AdminClient, list_namespaces, ListNamespacesRequest -> ListNamespacesResponse, |_| None);
rpc!(AdminClient, cluster_status, ClusterStatusRequest -> ClusterStatusResponse, |_| None);
rpc!(AdminClient, move_slot, AdminMoveSlotRequest -> AdminMoveSlotResponse, |_| None);
rpc!(AdminClient, drain, DrainRequest -> DrainResponse, |_| None);
rpc!(AdminClient, add_member, AddMemberRequest -> MembersResponse, |_| None);
rpc!(AdminClient, remove_member, RemoveMemberRequest -> MembersResponse, |_| None);
rpc!(AdminClient, transfer_leader, TransferLeaderRequest -> MembersResponse, |_| None);
rpc!(AdminClient, change_ids, ChangeIdsRequest -> IdsStatus, |_| None);
rpc!(AdminClient, list_ids, ListIdsRequest -> IdsStatus, |_| None);
rpc!(AdminClient, node_status, NodeStatusRequest -> NodeStatusResponse, |_| None);
rpc!(IdsClient, acquire_worker, AcquireWorkerRequest -> WorkerGrant, |_| None);
rpc!(IdsClient, renew_workers, RenewWorkersRequest -> RenewWorkersResponse, |_| None);
rpc!(IdsClient, release_worker, ReleaseWorkerRequest -> ReleaseWorkerResponse, |_| None);

/// The answer is a stream, which is read outside the time of an attempt.
impl Rpc for v1::BackupRequest {
    type Reply = Streaming<v1::BackupChunk>;

    async fn send(
        channel: Channel,
        request: Request<Self>,
    ) -> Result<Response<Self::Reply>, Status> {
        AdminClient::new(channel).backup(request).await
    }

    fn take_routes(_: &mut Self::Reply) -> Option<v1::RoutingTable> {
        None
    }
}
