//! Where a key belongs, by a routing table.

use seqsvr_core::ids::{Epoch, SectionKey, SessionId, Slot};
use seqsvr_core::key::KeyRef;
use seqsvr_core::namespace::Namespace;
use seqsvr_core::routing_table::{Route, RoutingTable};
use seqsvr_proto::convert::namespace_name;
use seqsvr_proto::v1::Reason;

use crate::attempt::attempt_error::AttemptError;
use crate::attempt::retry_decision::RetryDecision;

/// Section and slot of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyLocation {
    pub(crate) section: SectionKey,
    pub(crate) slot: Slot,
    pub(crate) stride: u32,
}

/// Epoch of a slot and session of its owner, by one table; None: the table has no such slot.
pub(crate) type RouteOwner = Option<(Epoch, Option<SessionId>)>;

/// Returns the epoch and the owner that a route names.
pub(crate) fn route_owner(route: Option<&Route>) -> RouteOwner {
    route.map(|r| (r.epoch, r.owner.as_ref().map(|o| o.session)))
}

/// Returns the location of a key by the table, or why it has none.
pub(crate) fn locate(
    table: &RoutingTable,
    namespace: &str,
    key: KeyRef<'_>,
) -> Result<KeyLocation, AttemptError> {
    locate_in(table, find_namespace(table, namespace, key)?, key)
}

/// Returns the namespace of a key of this kind; an empty name stands for the default of the kind.
pub(crate) fn find_namespace<'k>(
    table: &'k RoutingTable,
    namespace: &str,
    key: KeyRef<'_>,
) -> Result<&'k Namespace, AttemptError> {
    let name = namespace_name(namespace, key);
    table.namespace(name).ok_or_else(|| {
        AttemptError::new(
            Reason::NamespaceNotFound,
            RetryDecision::Stop,
            format!("no namespace {name:?}; create it first, check the name, or grant the caller a right on it"),
        )
    })
}

/// Returns the location of a key in its namespace, or why it has none.
#[inline]
pub(crate) fn locate_in(
    table: &RoutingTable,
    namespace: &Namespace,
    key: KeyRef<'_>,
) -> Result<KeyLocation, AttemptError> {
    match table.locate(namespace, key) {
        Ok((section, slot)) => Ok(KeyLocation {
            section,
            slot,
            stride: namespace.spec.progression.stride,
        }),
        Err(e) => Err(AttemptError::new(
            Reason::Invalid,
            RetryDecision::Stop,
            e.to_string(),
        )),
    }
}
