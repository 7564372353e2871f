//! A service for tests that need none.

use seqsvr_core::route::KeyRef;
use seqsvr_proto::LocalSequence;
use seqsvr_proto::transport::Share;
use seqsvr_proto::v1;
use seqsvr_proto::v1::sequence_server::Sequence;
use tonic::{Request, Response, Status, Streaming};

/// A service that answers no call; its memory has one answer for all keys, or none.
#[derive(Default)]
pub(crate) struct Nobody(pub(crate) Option<v1::NextResponse>);

impl LocalSequence for Nobody {
    fn take(&self, _: &str, _: KeyRef<'_>, _: u32) -> Option<v1::NextResponse> {
        self.0.clone()
    }

    async fn take_many(
        &self,
        _: v1::NextManyRequest,
        _: &Share,
    ) -> Result<v1::NextManyResponse, Status> {
        Err(nobody())
    }
}

#[tonic::async_trait]
impl Sequence for Nobody {
    type PipeStream = futures::stream::Empty<Result<v1::PipeResponse, Status>>;

    async fn next(&self, _: Request<v1::NextRequest>) -> Answer<v1::NextResponse> {
        Err(nobody())
    }
    async fn next_many(&self, _: Request<v1::NextManyRequest>) -> Answer<v1::NextManyResponse> {
        Err(nobody())
    }
    async fn current(&self, _: Request<v1::CurrentRequest>) -> Answer<v1::CurrentResponse> {
        Err(nobody())
    }
    async fn current_many(
        &self,
        _: Request<v1::CurrentManyRequest>,
    ) -> Answer<v1::CurrentManyResponse> {
        Err(nobody())
    }
    async fn raise_to(&self, _: Request<v1::RaiseToRequest>) -> Answer<v1::RaiseToResponse> {
        Err(nobody())
    }
    async fn routes(&self, _: Request<v1::RoutesRequest>) -> Answer<v1::RoutingTable> {
        Err(nobody())
    }
    async fn pipe(&self, _: Request<Streaming<v1::PipeRequest>>) -> Answer<Self::PipeStream> {
        Err(nobody())
    }
}

type Answer<T> = Result<Response<T>, Status>;

fn nobody() -> Status {
    Status::unavailable("nobody is here")
}
