//! The gRPC server of one AllocSvr: its services under one address, with their limits.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_proto::limits::MESSAGE_MAX;
use seqsvr_proto::transport::{Listener, incoming};
use seqsvr_proto::v1::admin_server::AdminServer;
use seqsvr_proto::v1::sequence_server::SequenceServer;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use crate::node::Node;
use crate::options::{Error, Options};
use crate::{admin, service};

/// A caller that does not answer a ping within the timeout is gone, and so are its calls.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a call's request, or of a Pipe's frames, that are on their way before the first are taken: a
/// batch of 10,000 uids with counts and floors, and no more of what is refused by its first bytes.
const STREAM_WINDOW: u32 = 256 << 10;

/// Serves until cancelled, and then what is in flight.
pub(crate) fn serve(
    node: Arc<Node>,
    listener: Box<dyn Listener>,
    options: &Options,
    cancel: CancellationToken,
) -> impl Future<Output = Result<(), Error>> + use<> {
    let streams_max = options.streams_max;
    let message_max = options.message_max.min(MESSAGE_MAX);
    async move {
        let failed = |e: &dyn std::fmt::Display| Error::Serve(e.to_string());
        let (health_reporter, health) = tonic_health::server::health_reporter();
        let reporting = report_health(node.clone(), health_reporter, cancel.clone());
        node.tasks.spawn(reporting);
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(seqsvr_proto::DESCRIPTORS)
            .build_v1()
            .map_err(|e| failed(&e))?;
        let sequence = SequenceServer::new(service::SequenceService(node.clone()))
            .max_decoding_message_size(message_max)
            .max_encoding_message_size(MESSAGE_MAX);
        let incoming = incoming(listener, node.connections.clone());
        Server::builder()
            .max_concurrent_streams(streams_max)
            .initial_stream_window_size(STREAM_WINDOW)
            .http2_keepalive_interval(Some(PING_INTERVAL))
            .http2_keepalive_timeout(Some(PING_TIMEOUT))
            .layer(node.calls.clone())
            .add_service(health)
            .add_service(reflection)
            .add_service(sequence)
            .add_service(AdminServer::new(admin::AdminService(node)))
            .serve_with_incoming_shutdown(incoming, cancel.cancelled_owned())
            .await
            .map_err(|e| failed(&e))
    }
}

/// SERVING while the lease holds.
async fn report_health(
    node: Arc<Node>,
    reporter: tonic_health::server::HealthReporter,
    cancel: CancellationToken,
) {
    loop {
        if node.has_lease() {
            reporter
                .set_serving::<SequenceServer<service::SequenceService>>()
                .await;
        } else {
            reporter
                .set_not_serving::<SequenceServer<service::SequenceService>>()
                .await;
        }
        if cancel
            .run_until_cancelled(tokio::time::sleep(Duration::from_millis(500)))
            .await
            .is_none()
        {
            return;
        }
    }
}
