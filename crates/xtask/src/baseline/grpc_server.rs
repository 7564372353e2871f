//! The service: `/bare.Bare/Next` answers the messages of `Sequence.Next`, `/bare.Bare/Stream`
//! frames of numbers, both out of counters in memory.

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

use super::foreign_messages::Numbers;

pub(super) const NEXT: &str = "/bare.Bare/Next";
pub(super) const STREAM: &str = "/bare.Bare/Stream";

/// Serves until the process ends.
///
/// # Errors
/// The address cannot be listened on.
pub async fn serve(listen: SocketAddr) -> io::Result<()> {
    let served = Server::builder()
        .tcp_nodelay(true)
        .add_service(Bare::default())
        .serve(listen);
    served.await.map_err(io::Error::other)
}

#[derive(Clone, Default)]
struct Bare(Arc<AtomicU64>);

impl NamedService for Bare {
    const NAME: &'static str = "bare.Bare";
}

impl Service<http::Request<Body>> for Bare {
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
                NEXT => {
                    let mut grpc = Grpc::new(ProstCodec::default());
                    grpc.unary(Next(counter), request).await
                }
                STREAM => {
                    let mut grpc = Grpc::new(ProstCodec::default());
                    grpc.streaming(Stream, request).await
                }
                path => Status::unimplemented(path).into_http(),
            })
        })
    }
}

struct Next(Arc<AtomicU64>);

impl UnaryService<NextRequest> for Next {
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

struct Stream;

impl StreamingService<Numbers> for Stream {
    type Response = Numbers;
    type ResponseStream = BoxStream<Numbers>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: Request<Streaming<Numbers>>) -> Self::Future {
        let mut counter = 0;
        let answers = request.into_inner().map(move |frame| {
            let mut frame = frame?;
            for number in &mut frame.of {
                counter += 1;
                *number = counter;
            }
            Ok(frame)
        });
        Box::pin(future::ok(Response::new(
            Box::pin(answers) as Self::ResponseStream
        )))
    }
}
