//! `Sequence.Routes` for callers of other processes, whose answers share their bytes.
//!
//! A generated service encodes each answer for itself. The table of 1,024 slots has some ten
//! kilobytes, and every client requests it, so this service answers that method.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use seqsvr_proto::encoded_message::{EncodedMessage, EncodedMessageCodec};
use seqsvr_proto::limits::MESSAGE_BYTES_MAX;
use seqsvr_proto::v1::RoutesRequest;
use seqsvr_proto::v1::sequence_server::SequenceServer;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};

use crate::api::sequence_service::SequenceService;
use crate::metrics::call_metrics::CallMethod;

/// Path of the method.
const ROUTES_PATH: &str = "/seqsvr.v1.Sequence/Routes";

/// `Sequence` service for other processes.
#[derive(Clone)]
pub(crate) struct RoutesService {
    routes: Arc<SequenceService>,
    rest: SequenceServer<SequenceService>,
}

impl RoutesService {
    /// Creates the service. A message of a caller has at most `message_max` bytes.
    pub(crate) fn new(sequence: SequenceService, message_max: usize) -> RoutesService {
        let routes = Arc::new(sequence);
        RoutesService {
            rest: SequenceServer::from_arc(routes.clone())
                .max_decoding_message_size(message_max)
                .max_encoding_message_size(MESSAGE_BYTES_MAX),
            routes,
        }
    }
}

impl NamedService for RoutesService {
    const NAME: &'static str = <SequenceServer<SequenceService> as NamedService>::NAME;
}

impl Service<http::Request<Body>> for RoutesService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if request.uri().path() != ROUTES_PATH {
            return self.rest.call(request);
        }
        let method = RoutesMethod(self.routes.clone());
        Box::pin(async move {
            let codec = EncodedMessageCodec::<RoutesRequest>::default();
            let limit = Some(MESSAGE_BYTES_MAX);
            let mut grpc = Grpc::new(codec).apply_max_message_size_config(limit, limit);
            Ok(grpc.unary(method, request).await)
        })
    }
}

/// The method `Routes`.
struct RoutesMethod(Arc<SequenceService>);

impl UnaryService<RoutesRequest> for RoutesMethod {
    type Response = EncodedMessage;
    type Future = BoxFuture<Response<EncodedMessage>, Status>;

    fn call(&mut self, request: Request<RoutesRequest>) -> Self::Future {
        let service = self.0.clone();
        Box::pin(async move {
            let SequenceService(parts) = service.as_ref();
            let answer =
                service.with_metrics(CallMethod::Routes, request, |arrival, request| async move {
                    parts.table_for(&request, arrival.deadline).await?;
                    // There is a table: it was waited for.
                    let missing = || Status::internal("internal error: there is no table");
                    parts
                        .shared
                        .table
                        .encoded_since(request.base, &arrival.caller)
                        .ok_or_else(missing)
                });
            answer.await
        })
    }
}
