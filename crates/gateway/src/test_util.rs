//! A service for tests that need no numbers.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_access::{Access, Caller, Credentials};
use seqsvr_core::key::KeyRef;
use seqsvr_core::routing_table::RoutingTable;
use seqsvr_net::{ConnectionQuota, LocalSequence};
use seqsvr_proto::v1;
use seqsvr_proto::v1::sequence_server::Sequence;
use tonic::{Request, Response, Status, Streaming};

/// Judge of the callers of services for tests.
pub(crate) static BY_ROLE: Access = Access::by_role();

/// A service that answers no call. Its memory has one answer for all keys, or none.
#[derive(Default)]
pub(crate) struct NoopSequence(pub(crate) Option<v1::NextResponse>);

impl LocalSequence for NoopSequence {
    fn access(&self) -> &Access {
        &BY_ROLE
    }

    fn try_next(&self, _: &Caller, _: &str, _: KeyRef<'_>, _: u32) -> Option<v1::NextResponse> {
        self.0.clone()
    }

    async fn next_many_local(
        &self,
        _: &Caller,
        _: v1::NextManyRequest,
        _: &ConnectionQuota,
    ) -> Result<v1::NextManyResponse, Status> {
        Err(unavailable())
    }

    fn can_serve(&self) -> bool {
        false
    }

    async fn routing_table(&self, _: Duration) -> Result<Arc<RoutingTable>, Status> {
        Err(unavailable())
    }
}

/// Returns the caller of a connection on loopback.
pub(crate) fn local_operator() -> Caller {
    let remote = std::net::Ipv4Addr::LOCALHOST.into();
    let judged = BY_ROLE.judge(Credentials::Plaintext(remote));
    judged.unwrap()
}

#[tonic::async_trait]
impl Sequence for NoopSequence {
    type PipeStream = futures::stream::Empty<Result<v1::PipeResponse, Status>>;

    async fn next(&self, _: Request<v1::NextRequest>) -> SequenceResult<v1::NextResponse> {
        Err(unavailable())
    }
    async fn next_many(
        &self,
        _: Request<v1::NextManyRequest>,
    ) -> SequenceResult<v1::NextManyResponse> {
        Err(unavailable())
    }
    async fn current(&self, _: Request<v1::CurrentRequest>) -> SequenceResult<v1::CurrentResponse> {
        Err(unavailable())
    }
    async fn current_many(
        &self,
        _: Request<v1::CurrentManyRequest>,
    ) -> SequenceResult<v1::CurrentManyResponse> {
        Err(unavailable())
    }
    async fn raise_to(
        &self,
        _: Request<v1::RaiseToRequest>,
    ) -> SequenceResult<v1::RaiseToResponse> {
        Err(unavailable())
    }
    async fn routes(&self, _: Request<v1::RoutesRequest>) -> SequenceResult<v1::RoutingTable> {
        Err(unavailable())
    }
    async fn pipe(
        &self,
        _: Request<Streaming<v1::PipeRequest>>,
    ) -> SequenceResult<Self::PipeStream> {
        Err(unavailable())
    }
}

type SequenceResult<T> = Result<Response<T>, Status>;

fn unavailable() -> Status {
    Status::unavailable("this test service answers no call")
}
