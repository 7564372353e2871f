//! The gRPC server of one AllocSvr: its services under one address, with their limits.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_access::ClusterRight;
use seqsvr_net::tls::Role;
use seqsvr_net::{
    CONTROL_REQUEST_BYTES_MAX, CallLimiter, CallRight, CallRule, CallShape, ConnectionLimiter,
    Listener, Roles, accept_connections, limit_http2,
};
use seqsvr_proto::limits::MESSAGE_BYTES_MAX;
use seqsvr_proto::v1::admin_server::AdminServer;
use seqsvr_proto::v1::ids_server::IdsServer;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::api::admin_service::AdminService;
use crate::api::ids_service::{IDS_REQUEST_BYTES_MAX, IdsService};
use crate::api::relay_client::ClusterTagCheck;
use crate::api::routes_service::RoutesService;
use crate::api::sequence_parts::SequenceParts;
use crate::api::sequence_service::SequenceService;
use crate::error::Error;
use crate::session::current_session::CurrentSession;

/// Interval of pings. A connection whose peer does not answer within the timeout is closed, with
/// its calls.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum bytes of a call's request, or of a Pipe's frames, that the peer may send before the
/// first are read. Enough for a batch of 10,000 uids with counts and floors. A request that is
/// rejected by its first bytes costs no more than this.
const STREAM_WINDOW: u32 = 256 << 10;
/// Maximum bytes of requests and answers in all connections; above it calls are rejected.
pub(crate) const BUFFERED_BYTES_MAX: usize = 512 << 20;

/// Interval at which the health service checks the lease.
const HEALTH_INTERVAL: Duration = Duration::from_millis(500);
/// Services whose health is reported; "" is the whole server.
const HEALTH_SERVICES: [&str; 4] = ["", "seqsvr.v1.Sequence", "seqsvr.v1.Ids", "seqsvr.v1.Admin"];
/// Services that reflection lists.
const REFLECTED_SERVICES: [&str; 6] = [
    "seqsvr.v1.Sequence",
    "seqsvr.v1.Ids",
    "seqsvr.v1.Admin",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

/// Answer to other calls.
pub(crate) const OTHER_CALLS: &str = "this is an AllocSvr, which has no such call; call a StoreSvr for seqsvr.v1.Store and \
     seqsvr.v1.Raft";

/// Those who take numbers and ids: callers, AllocSvrs that forward, operators.
const CALLERS: Roles = Roles::new(&[Role::Client, Role::Alloc, Role::Admin]);
/// Operators.
const ADMINS: Roles = Roles::new(&[Role::Admin]);
/// All that need the state of the cluster.
const READERS: Roles = Roles::new(&[Role::Store, Role::Alloc, Role::Admin]);

/// Returns the rule of a method; None: it is closed to all.
pub(crate) fn call_rule(path: &str) -> Option<CallRule> {
    use CallRight::{Closed, Cluster, Named, Open};
    use CallShape::{Pipe, ResponseStream, Sequence, Unary};
    let (shape, roles, right) = match path {
        "/seqsvr.v1.Sequence/Next"
        | "/seqsvr.v1.Sequence/NextMany"
        | "/seqsvr.v1.Sequence/Current"
        | "/seqsvr.v1.Sequence/CurrentMany"
        | "/seqsvr.v1.Sequence/RaiseTo" => (Sequence, CALLERS, Named),
        "/seqsvr.v1.Sequence/Routes" => (Sequence, CALLERS, Open),
        "/seqsvr.v1.Sequence/Pipe" => (Pipe, CALLERS, Named),
        "/seqsvr.v1.Ids/NextIds"
        | "/seqsvr.v1.Ids/AcquireWorker"
        | "/seqsvr.v1.Ids/RenewWorkers"
        | "/seqsvr.v1.Ids/ReleaseWorker" => (Unary, CALLERS, Named),
        "/seqsvr.v1.Admin/ListNamespaces"
        | "/seqsvr.v1.Admin/ListIds"
        | "/seqsvr.v1.Admin/ClusterStatus"
        | "/seqsvr.v1.Admin/NodeStatus" => (Unary, READERS, Cluster(ClusterRight::Status)),
        "/seqsvr.v1.Admin/MoveSlot" | "/seqsvr.v1.Admin/Drain" => {
            let rule = CallRule::of_change(Unary, ADMINS);
            return Some(rule.for_principals(Cluster(ClusterRight::Admin)));
        }
        // The leading store makes these changes, and it reads no tokens.
        "/seqsvr.v1.Admin/CreateNamespace"
        | "/seqsvr.v1.Admin/AlterNamespace"
        | "/seqsvr.v1.Admin/ChangeIds"
        | "/seqsvr.v1.Admin/AddMember"
        | "/seqsvr.v1.Admin/RemoveMember"
        | "/seqsvr.v1.Admin/TransferLeader" => (Unary, ADMINS, Closed),
        "/seqsvr.v1.Admin/Backup" => (ResponseStream, ADMINS, Closed),
        _ => return CallRule::of_standard_service(path),
    };
    Some(CallRule::new(shape, roles).for_principals(right))
}

/// gRPC server of one AllocSvr.
pub(crate) struct GrpcServer {
    pub(crate) sequence: Arc<SequenceParts>,
    pub(crate) ids: IdsService,
    pub(crate) admin: AdminService,
    pub(crate) connections: Arc<ConnectionLimiter>,
    pub(crate) calls: CallLimiter,
    /// Maximum calls in progress on one connection.
    pub(crate) streams_max: u32,
    /// Maximum size of a message in bytes.
    pub(crate) message_max: usize,
}

impl GrpcServer {
    /// Serves until canceled, then finishes the calls in flight.
    pub(crate) async fn serve(
        self,
        listener: Box<dyn Listener>,
        cancel: CancellationToken,
    ) -> Result<(), Error> {
        let serve_error = |e: &dyn std::fmt::Display| Error::Serve(e.to_string());
        let (reporter, health) = tonic_health::server::health_reporter();
        set_health(&reporter, false).await;
        let reporting = report_health(
            self.sequence.shared.session.clone(),
            reporter,
            cancel.clone(),
        );
        self.sequence.shared.tasks.spawn(reporting);
        let reflection = || {
            let described = tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(seqsvr_proto::DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(
                    tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
                );
            // The descriptors also contain the services of the store, which are not served here.
            REFLECTED_SERVICES
                .iter()
                .fold(described, |all, name| all.with_service_name(*name))
        };
        let reflection_v1 = reflection().build_v1().map_err(|e| serve_error(&e))?;
        // Older tools use this version of the protocol.
        let reflection_v1alpha = reflection().build_v1alpha().map_err(|e| serve_error(&e))?;
        let sequence = SequenceService(self.sequence.clone());
        let sequence = RoutesService::new(sequence, self.message_max.min(MESSAGE_BYTES_MAX));
        let check = ClusterTagCheck(self.sequence.shared.own_cluster.clone());
        let operators =
            AdminServer::new(self.admin).max_decoding_message_size(CONTROL_REQUEST_BYTES_MAX);
        let operators = InterceptedService::new(operators, check.clone());
        let ids_max = self.message_max.min(IDS_REQUEST_BYTES_MAX);
        let ids = IdsServer::new(self.ids)
            .max_decoding_message_size(ids_max)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let routes = Routes::new(sequence)
            .add_service(InterceptedService::new(ids, check))
            .add_service(operators)
            .add_service(health.max_decoding_message_size(CONTROL_REQUEST_BYTES_MAX))
            .add_service(reflection_v1.max_decoding_message_size(CONTROL_REQUEST_BYTES_MAX))
            .add_service(reflection_v1alpha.max_decoding_message_size(CONTROL_REQUEST_BYTES_MAX));
        let incoming = accept_connections(listener, self.connections);
        limit_http2(Server::builder())
            .max_concurrent_streams(self.streams_max)
            .initial_stream_window_size(STREAM_WINDOW)
            .http2_keepalive_interval(Some(PING_INTERVAL))
            .http2_keepalive_timeout(Some(PING_TIMEOUT))
            .layer(self.calls)
            .add_routes(routes)
            .serve_with_incoming_shutdown(incoming, cancel.cancelled_owned())
            .await
            .map_err(|e| serve_error(&e))
    }
}

/// Reports SERVING while the lease holds. After the lease has ended, or after the stop, clients
/// should use another server.
async fn report_health(
    session: Arc<CurrentSession>,
    reporter: HealthReporter,
    cancel: CancellationToken,
) {
    let mut last_reported = false;
    loop {
        let stopped = cancel.is_cancelled();
        let is_serving = session.has_lease() && !stopped;
        // Watchers receive changes only.
        if last_reported != is_serving {
            set_health(&reporter, is_serving).await;
            last_reported = is_serving;
        }
        if stopped {
            return;
        }
        let pause = tokio::time::sleep(HEALTH_INTERVAL);
        cancel.run_until_cancelled(pause).await;
    }
}

async fn set_health(reporter: &HealthReporter, is_serving: bool) {
    let status = match is_serving {
        true => ServingStatus::Serving,
        false => ServingStatus::NotServing,
    };
    for name in HEALTH_SERVICES {
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
    fn shape_of_each_served_method_is_that_of_its_descriptor() {
        let files = FileDescriptorSet::decode(seqsvr_proto::DESCRIPTORS).unwrap();
        let services = files.file.iter().flat_map(|file| &file.service);
        let mut methods = 0;
        for service in
            services.filter(|service| ["Sequence", "Ids", "Admin"].contains(&service.name()))
        {
            for method in &service.method {
                let path = format!("/seqsvr.v1.{}/{}", service.name(), method.name());
                let streams = (method.client_streaming(), method.server_streaming());
                let shape = match (service.name(), streams) {
                    ("Sequence", (false, false)) => CallShape::Sequence,
                    ("Sequence", (true, true)) => CallShape::Pipe,
                    ("Ids" | "Admin", (false, false)) => CallShape::Unary,
                    ("Admin", (false, true)) => CallShape::ResponseStream,
                    _ => panic!("{path} has no shape"),
                };
                let rule = call_rule(&path).expect(&path);
                assert_eq!(rule.shape, shape, "{path}");
                methods += 1;
            }
        }
        assert!(methods > 15, "{methods}");
    }
}
