//! Service in the same process, for code that answers many callers with it.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_access::{Access, Caller};
use seqsvr_core::key::KeyRef;
use seqsvr_core::namespace::Namespace;
use seqsvr_core::routing_table::RoutingTable;
use seqsvr_proto::limits::CALL_TIMEOUT_DEFAULT;
use seqsvr_proto::v1::sequence_server::Sequence;
use seqsvr_proto::v1::{NextManyRequest, NextManyResponse, NextResponse};
use tonic::Status;

use crate::connection_quota::ConnectionQuota;

/// A [`Sequence`] that is a function call away.
pub trait LocalSequence: Sequence {
    /// Returns the judge of the callers at the endpoints of this process.
    fn access(&self) -> &Access;

    /// Takes `count` numbers of a key at once, if the caller may, this process owns it and has them
    /// in memory. The answer has no news of routes. None: a call finds out why not, and what to do.
    /// An empty namespace means that of the key's kind.
    fn try_next(
        &self,
        caller: &Caller,
        namespace: &str,
        key: KeyRef<'_>,
        count: u32,
    ) -> Option<NextResponse>;

    /// Does [`Sequence::next_many`] for a caller of this connection, without what is made for a
    /// network, and without news of routes. `lasts` is empty if every item takes one number, and
    /// one of `epochs` may hold for all.
    ///
    /// # Errors
    /// Those of the call.
    fn next_many_local(
        &self,
        caller: &Caller,
        request: NextManyRequest,
        quota: &ConnectionQuota,
    ) -> impl Future<Output = Result<NextManyResponse, Status>> + Send;

    /// Returns whether this process holds a lease and has routes: without them it answers no
    /// request for numbers now, but may soon.
    fn can_serve(&self) -> bool;

    /// Returns the routing table that this process has; waits for the first one.
    ///
    /// # Errors
    /// There is no table within the time-out.
    fn routing_table(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Arc<RoutingTable>, Status>> + Send;

    /// Returns the namespace with this name; None: the table has none.
    ///
    /// # Errors
    /// There is no table in time.
    fn namespace(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<Option<Namespace>, Status>> + Send {
        async move {
            let table = self.routing_table(CALL_TIMEOUT_DEFAULT).await?;
            Ok(table.namespace(name).cloned())
        }
    }
}
