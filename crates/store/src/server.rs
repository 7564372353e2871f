//! The gRPC server of one store: its services under one address, with their limits.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::limits::MESSAGE_MAX;
use seqsvr_proto::transport::{Listener, incoming};
use seqsvr_proto::v1::admin_server::AdminServer;
use seqsvr_proto::v1::store_server::StoreServer;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::{Request, Status};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::context::Context;
use crate::options::Error;
use crate::service::Service;

/// A caller that does not answer a ping within the timeout is gone, and so are its streams.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// How long requests under way may take after a stop.
const DRAIN: Duration = Duration::from_secs(1);

/// Services that reflection lists.
const LISTED: [&str; 6] = [
    "seqsvr.v1.Store",
    "seqsvr.v1.Admin",
    "seqsvr.v1.Raft",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

/// Serves until the store stops; the error is the reason why it could not continue.
pub(crate) fn serve(
    context: &Arc<Context>,
    listener: Box<dyn Listener>,
    streams_max: u32,
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
        LISTED
            .iter()
            .fold(described, |all, name| all.with_service_name(*name))
    };
    let (reporter, health) = tonic_health::server::health_reporter();
    let service = Service(context.clone());
    // An AllocSvr that outlived its stores relays operators' calls. The store serves a caller that
    // names no cluster.
    let own = context.clone();
    let check = move |request: Request<()>| -> Result<Request<()>, Status> {
        own.check_cluster(ClusterTag::from_metadata(request.metadata())?)?;
        Ok(request)
    };
    let router = Server::builder()
        .max_concurrent_streams(streams_max)
        .http2_keepalive_interval(Some(PING_INTERVAL))
        .http2_keepalive_timeout(Some(PING_TIMEOUT))
        .add_service(
            StoreServer::new(service.clone())
                .max_decoding_message_size(MESSAGE_MAX)
                .max_encoding_message_size(MESSAGE_MAX),
        )
        .add_service(InterceptedService::new(
            AdminServer::new(service)
                .max_decoding_message_size(MESSAGE_MAX)
                .max_encoding_message_size(MESSAGE_MAX),
            check,
        ))
        .add_service(context.node.service())
        .add_service(health)
        .add_service(reflection().build_v1().map_err(descriptors)?)
        .add_service(reflection().build_v1alpha().map_err(descriptors)?);
    let context = context.clone();
    Ok(async move {
        let stop = context.stop.clone();
        tell_health(&context, &reporter).await;
        // The others are answered independently of this store's state.
        let raft = ServingStatus::Serving;
        reporter.set_service_status("seqsvr.v1.Raft", raft).await;
        let incoming = incoming(listener, context.connections.clone());
        let serving = router.serve_with_incoming_shutdown(incoming, stop.cancelled());
        let drained = async {
            stop.cancelled().await;
            tokio::time::sleep(DRAIN).await;
        };
        tokio::select! {
            served = serving => served.map_err(|e| e.to_string()),
            () = report_health(&context, reporter) => Err("raft ended".to_owned()),
            () = drained => Ok(()),
        }
    })
}

/// Reports each change of the leadership. Does not end before Raft does.
async fn report_health(context: &Context, reporter: HealthReporter) {
    let mut leadership = context.node.leadership();
    loop {
        leadership.mark_unchanged();
        tell_health(context, &reporter).await;
        if leadership.changed().await.is_err() {
            // Raft has ended; a caller that waits for `Store::failed` receives the reason.
            context.stop.cancelled().await;
            return;
        }
    }
}

/// Reports SERVING while this store belongs to a cluster and has a known leader; "" is the whole
/// server.
async fn tell_health(context: &Context, reporter: &HealthReporter) {
    let led = context.node.leadership().borrow().leader.is_some();
    let status = match led && context.node.identity().cluster.is_some() {
        true => ServingStatus::Serving,
        false => ServingStatus::NotServing,
    };
    for name in ["", "seqsvr.v1.Store", "seqsvr.v1.Admin"] {
        reporter.set_service_status(name, status).await;
    }
}
