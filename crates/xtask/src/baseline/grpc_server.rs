//! The baseline gRPC service. `/baseline.Baseline/Next` takes the messages of `Sequence.Next`,
//! `/baseline.Baseline/Stream` takes frames of numbers. Both count in memory.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use futures::{StreamExt, future};
use seqsvr_proto::v1::{NextRequest, NextResponse};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, BoxStream, Service, http};
use tonic::server::{Grpc, NamedService, StreamingService, UnaryService};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::foreign_messages::NumberFrame;

/// Path of the unary call.
pub(super) const NEXT_PATH: &str = "/baseline.Baseline/Next";
/// Path of the stream of frames.
pub(super) const STREAM_PATH: &str = "/baseline.Baseline/Stream";

/// Serves the baseline gRPC service until the process ends.
///
/// # Errors
/// The server cannot listen on the address.
pub async fn serve_grpc(listen: SocketAddr) -> io::Result<()> {
    let result = Server::builder()
        .tcp_nodelay(true)
        .add_service(BaselineGrpc::default())
        .serve(listen);
    result.await.map_err(io::Error::other)
}

/// The service; its value is the counter of the unary calls.
#[derive(Clone, Default)]
struct BaselineGrpc(Arc<AtomicU64>);

impl NamedService for BaselineGrpc {
    const NAME: &'static str = "baseline.Baseline";
}

impl Service<http::Request<Body>> for BaselineGrpc {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let counter = self.0.clone();
        Box::pin(async move {
            Ok(match request.uri().path() {
                NEXT_PATH => {
                    let mut grpc = Grpc::new(ProstCodec::default());
                    grpc.unary(NextMethod(counter), request).await
                }
                STREAM_PATH => {
                    let mut grpc = Grpc::new(ProstCodec::default());
                    grpc.streaming(StreamMethod, request).await
                }
                path => Status::unimplemented(path).into_http(),
            })
        })
    }
}

/// The unary method.
struct NextMethod(Arc<AtomicU64>);

impl UnaryService<NextRequest> for NextMethod {
    type Response = NextResponse;
    type Future = BoxFuture<Response<NextResponse>, Status>;

    fn call(&mut self, _: Request<NextRequest>) -> Self::Future {
        let number = self.0.fetch_add(1, Relaxed) + 1;
        Box::pin(future::ok(Response::new(NextResponse {
            first: number,
            last: number,
            epoch: 1,
            ..NextResponse::default()
        })))
    }
}

/// The streaming method; each stream has its own counter.
struct StreamMethod;

impl StreamingService<NumberFrame> for StreamMethod {
    type Response = NumberFrame;
    type ResponseStream = BoxStream<NumberFrame>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: Request<Streaming<NumberFrame>>) -> Self::Future {
        let mut counter = 0;
        let responses = request.into_inner().map(move |frame| {
            let mut frame = frame?;
            for number in &mut frame.values {
                counter += 1;
                *number = counter;
            }
            Ok(frame)
        });
        Box::pin(future::ok(Response::new(
            Box::pin(responses) as Self::ResponseStream
        )))
    }
}
