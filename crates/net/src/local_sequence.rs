//! Service in the same process, for code that answers many callers with it.

use seqsvr_core::key::KeyRef;
use tonic::Status;

use crate::connection_quota::ConnectionQuota;
use seqsvr_proto::v1::sequence_server::Sequence;
use seqsvr_proto::v1::{NextManyRequest, NextManyResponse, NextResponse};

/// A [`Sequence`] that is a function call away.
pub trait LocalSequence: Sequence {
    /// Takes `count` numbers of a key at once, if this process owns it and has them in memory. The
    /// answer has no news of routes. None: a call finds out why not, and what to do. An empty
    /// namespace means that of the key's kind.
    fn try_next(&self, namespace: &str, key: KeyRef<'_>, count: u32) -> Option<NextResponse>;

    /// Does [`Sequence::next_many`] for a caller of this connection, without what is made for a
    /// network, and without news of routes. `lasts` is empty if every item takes one number, and
    /// one of `epochs` may hold for all.
    ///
    /// # Errors
    /// Those of the call.
    fn next_many_local(
        &self,
        request: NextManyRequest,
        quota: &ConnectionQuota,
    ) -> impl Future<Output = Result<NextManyResponse, Status>> + Send;
}
