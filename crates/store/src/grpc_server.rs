//! The gRPC server of one store: its services under one address, with their limits.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_net::tls::Role;
use seqsvr_net::{
    CONTROL_REQUEST_BYTES_MAX, CallRule, CallShape, Listener, Roles, accept_connections,
};
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::limits::MESSAGE_BYTES_MAX;
use seqsvr_proto::v1::admin_server::AdminServer;
use seqsvr_proto::v1::store_server::StoreServer;
use tonic::service::Routes;
use tonic::service::interceptor::InterceptedService;
use tonic::{Request, Status};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tower::Layer;

use crate::connection_server::{StoreRuntimes, serve_connections};
use crate::context::StoreContext;
use crate::error::Error;
use crate::service::StoreService;

/// Maximum time of requests in progress after a stop; then the server stops without them.
const SHUTDOWN_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Most bytes of requests and answers in all connections; above it calls are rejected.
pub(crate) const BUFFERED_BYTES_MAX: usize = 256 << 20;

/// Services that reflection lists.
const REFLECTED_SERVICES: [&str; 6] = [
    "seqsvr.v1.Store",
    "seqsvr.v1.Admin",
    "seqsvr.v1.Raft",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

/// Answer to other calls.
pub(crate) const OTHER_CALLS: &str = "this is a StoreSvr, which has no such call; call an AllocSvr for seqsvr.v1.Sequence and \
     seqsvr.v1.Ids";

/// Stores, of Raft.
const STORES: Roles = Roles::new(&[Role::Store]);
/// AllocSvrs, of the slots that they own.
const ALLOCS: Roles = Roles::new(&[Role::Alloc]);
/// Operators.
const ADMINS: Roles = Roles::new(&[Role::Admin]);
/// All that need the state or the identity of a store.
const READERS: Roles = Roles::new(&[Role::Store, Role::Alloc, Role::Admin]);

/// Returns the rule of a method; None: it is closed to all.
pub(crate) fn call_rule(path: &str) -> Option<CallRule> {
    use CallShape::{RequestStream, ResponseStream, Unary};
    let (shape, roles) = match path {
        "/seqsvr.v1.Raft/Append"
        | "/seqsvr.v1.Raft/Vote"
        | "/seqsvr.v1.Raft/PreVote"
        | "/seqsvr.v1.Raft/TransferLeader"
        | "/seqsvr.v1.Raft/ProposeInit" => (Unary, STORES),
        "/seqsvr.v1.Store/Clock" => (Unary, STORES),
        "/seqsvr.v1.Raft/InstallSnapshot" => (RequestStream, STORES),
        "/seqsvr.v1.Store/OpenSession"
        | "/seqsvr.v1.Store/KeepAlive"
        | "/seqsvr.v1.Store/CloseSession"
        | "/seqsvr.v1.Store/MoveSlot"
        | "/seqsvr.v1.Store/Submit"
        | "/seqsvr.v1.Store/Workers"
        | "/seqsvr.v1.Store/Read" => (Unary, ALLOCS),
        "/seqsvr.v1.Store/Watch" => (ResponseStream, ALLOCS),
        "/seqsvr.v1.Store/Init" => return Some(CallRule::of_change(Unary, ADMINS)),
        "/seqsvr.v1.Store/Describe"
        | "/seqsvr.v1.Admin/ListNamespaces"
        | "/seqsvr.v1.Admin/ListIds"
        | "/seqsvr.v1.Admin/ClusterStatus"
        | "/seqsvr.v1.Admin/NodeStatus" => (Unary, READERS),
        "/seqsvr.v1.Admin/CreateNamespace"
        | "/seqsvr.v1.Admin/AlterNamespace"
        | "/seqsvr.v1.Admin/ChangeIds"
        | "/seqsvr.v1.Admin/MoveSlot"
        | "/seqsvr.v1.Admin/Drain"
        | "/seqsvr.v1.Admin/AddMember"
        | "/seqsvr.v1.Admin/RemoveMember"
        | "/seqsvr.v1.Admin/TransferLeader" => return Some(CallRule::of_change(Unary, ADMINS)),
        "/seqsvr.v1.Admin/Backup" => return Some(CallRule::of_change(ResponseStream, ADMINS)),
        _ => return CallRule::of_standard_service(path),
    };
    Some(CallRule::new(shape, roles))
}

/// Serves until the store stops; the error is the reason why it could not continue.
pub(crate) fn serve(
    context: &Arc<StoreContext>,
    listener: Box<dyn Listener>,
    streams_max: u32,
    runtimes: StoreRuntimes,
) -> Result<impl Future<Output = Result<(), String>> + use<>, Error> {
    let descriptors = |e: tonic_reflection::server::Error| Error::Descriptors(e.to_string());
    let reflection = || {
        let described = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(seqsvr_proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(
                tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
            );
        // The AllocSvr's service is described as well, and not served here.
        REFLECTED_SERVICES
            .iter()
            .fold(described, |all, name| all.with_service_name(*name))
    };
    let reflection_v1 = reflection().build_v1().map_err(descriptors)?;
    let reflection_v1alpha = reflection().build_v1alpha().map_err(descriptors)?;
    let (reporter, health) = tonic_health::server::health_reporter();
    let service = StoreService(context.clone());
    // An AllocSvr that outlived its stores relays operators' calls. The store serves a caller that
    // names no cluster.
    let own = context.clone();
    let check = move |request: Request<()>| -> Result<Request<()>, Status> {
        own.check_cluster(ClusterTag::from_metadata(request.metadata())?)?;
        Ok(request)
    };
    let store = StoreServer::new(service.clone())
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let routes = Routes::new(store)
        .add_service(InterceptedService::new(
            AdminServer::new(service)
                .max_decoding_message_size(CONTROL_REQUEST_BYTES_MAX)
                .max_encoding_message_size(MESSAGE_BYTES_MAX),
            check,
        ))
        .add_service(context.node.service())
        .add_service(health.max_decoding_message_size(CONTROL_REQUEST_BYTES_MAX))
        .add_service(reflection_v1.max_decoding_message_size(CONTROL_REQUEST_BYTES_MAX))
        .add_service(reflection_v1alpha.max_decoding_message_size(CONTROL_REQUEST_BYTES_MAX));
    let bounded = context.calls.layer(routes.prepare());
    let context = context.clone();
    Ok(async move {
        let stop = context.stop.clone();
        report_health(&context, &reporter).await;
        // The others are answered independently of this store's state.
        let raft = ServingStatus::Serving;
        reporter.set_service_status("seqsvr.v1.Raft", raft).await;
        let incoming = accept_connections(listener, context.connections.clone());
        let serving = serve_connections(
            incoming,
            bounded,
            call_rule,
            streams_max,
            runtimes,
            stop.clone(),
        );
        let drained = async {
            stop.cancelled().await;
            tokio::time::sleep(SHUTDOWN_DRAIN_TIMEOUT).await;
        };
        tokio::select! {
            () = serving => Ok(()),
            () = follow_leadership(&context, reporter) => Err("raft ended".to_owned()),
            () = drained => Ok(()),
        }
    })
}

/// Reports each change of the leadership. Does not end before Raft does.
async fn follow_leadership(context: &StoreContext, reporter: HealthReporter) {
    let mut leadership = context.node.leadership();
    loop {
        leadership.mark_unchanged();
        report_health(context, &reporter).await;
        if leadership.changed().await.is_err() {
            // Raft has ended; the caller of `StoreServer::wait_for_failure` receives the reason.
            context.stop.cancelled().await;
            return;
        }
    }
}

/// Reports SERVING while this store belongs to a cluster and has a known leader; "" is the whole
/// server.
async fn report_health(context: &StoreContext, reporter: &HealthReporter) {
    let has_leader = context.node.leadership().borrow().leader.is_some();
    let status = match has_leader && context.node.identity().cluster.is_some() {
        true => ServingStatus::Serving,
        false => ServingStatus::NotServing,
    };
    for name in ["", "seqsvr.v1.Store", "seqsvr.v1.Admin"] {
        reporter.set_service_status(name, status).await;
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::*;

    /// A stream that counted as a unary call would never be answered, and a unary call that counted
    /// as a stream would hold its answer without a bound.
    #[test]
    fn shape_of_each_method_is_that_of_its_descriptor() {
        let files = FileDescriptorSet::decode(seqsvr_proto::DESCRIPTORS).unwrap();
        let services = files.file.iter().flat_map(|file| &file.service);
        let mut methods = 0;
        for service in services.filter(|service| !["Sequence", "Ids"].contains(&service.name())) {
            for method in &service.method {
                let path = format!("/seqsvr.v1.{}/{}", service.name(), method.name());
                let shape = match (method.client_streaming(), method.server_streaming()) {
                    (false, false) => CallShape::Unary,
                    (true, false) => CallShape::RequestStream,
                    (false, true) => CallShape::ResponseStream,
                    (true, true) => panic!("{path} has no shape"),
                };
                let rule = call_rule(&path).expect(&path);
                assert_eq!(rule.shape, shape, "{path}");
                methods += 1;
            }
        }
        assert!(methods > 20, "{methods}");
    }
}
