//! From a key to its owner: get a table, locate the key in it, choose a server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use seqsvr_core::id::{Epoch, SectionKey, SessionId, Slot};
use seqsvr_core::namespace::Namespace;
use seqsvr_core::route::{KeyRef, Route};
use seqsvr_proto::convert::namespace_name;
use seqsvr_proto::v1;
use tokio::time::{sleep, timeout};

use crate::call::attempt_error::{AttemptError, RetryDecision};
use crate::call::retry_budget::RetryBudget;
use crate::client::ClientCore;
use crate::routing::table_cache::TableSnapshot;
use seqsvr_proto::v1::Reason;

/// Maximum fetches for a namespace that the table lacks, since the namespace may be new. After them
/// the namespace counts as unknown.
const NAMESPACE_LOOKUPS_MAX: u32 = 3;
/// Pause between two of these fetches.
const NAMESPACE_LOOKUP_INTERVAL: Duration = Duration::from_millis(20);

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

impl ClientCore {
    /// Returns a table that has these namespaces, if any server has them.
    pub(crate) async fn get_table(
        &self,
        namespaces: &[&str],
        budget: &mut RetryBudget,
    ) -> Result<Arc<TableSnapshot>, AttemptError> {
        let missed_update = self.table.take_missed_update();
        let mut snapshot = match self.table.snapshot() {
            Some(snapshot) if !missed_update => snapshot,
            _ => self.fetch_table(0, budget).await.inspect_err(|_| {
                if missed_update {
                    self.table.restore_missed_update();
                }
            })?,
        };
        let lacks = |snapshot: &TableSnapshot| {
            namespaces
                .iter()
                .any(|n| snapshot.table.namespace(n).is_none())
        };
        while lacks(&snapshot) && budget.namespace_lookups < NAMESPACE_LOOKUPS_MAX {
            if budget.namespace_lookups > 0 {
                sleep(NAMESPACE_LOOKUP_INTERVAL.min(budget.time_left())).await;
            }
            snapshot = self.fetch_table(snapshot.table.version(), budget).await?;
            budget.namespace_lookups += 1;
        }
        Ok(snapshot)
    }

    /// Requests from a server what a table of version `base` lacks. Callers that arrive during a
    /// fetch share its outcome.
    pub(crate) async fn fetch_table(
        &self,
        base: u64,
        budget: &mut RetryBudget,
    ) -> Result<Arc<TableSnapshot>, AttemptError> {
        let fetches_at_start = self.fetches_ended.load(Ordering::Acquire);
        let Ok(mut outcome) = timeout(budget.time_left(), self.last_fetch.lock()).await else {
            return Err(no_table_error());
        };
        if self.fetches_ended.load(Ordering::Acquire) == fetches_at_start {
            let snapshot = self.table.snapshot();
            let address = self
                .servers
                .pick_server(snapshot.as_ref().map_or(&[], |k| k.addresses.as_slice()));
            let reply = self
                .attempt_unary(
                    &address,
                    v1::RoutesRequest {
                        base,
                        ..v1::RoutesRequest::default()
                    },
                    budget,
                )
                .await;
            *outcome = reply.err();
            self.fetches_ended.fetch_add(1, Ordering::AcqRel);
        }
        match &*outcome {
            Some(failure) => Err(failure.clone()),
            None => self.table.snapshot().ok_or_else(no_table_error),
        }
    }

    /// Returns the location of a key by the table, or why it has none.
    pub(crate) fn locate(
        &self,
        snapshot: &TableSnapshot,
        namespace: &str,
        key: KeyRef<'_>,
    ) -> Result<KeyLocation, AttemptError> {
        locate_in(snapshot, find_namespace(snapshot, namespace, key)?, key)
    }

    /// Returns the address to send to: the owner's, by its index in the table's addresses; any
    /// server if there is none or it is suspect.
    pub(crate) fn choose_address(&self, snapshot: &TableSnapshot, owner: Option<usize>) -> String {
        match owner.and_then(|index| snapshot.addresses.get(index)) {
            Some(address) if !self.servers.is_suspect(address) => address.clone(),
            _ => self.servers.pick_server(&snapshot.addresses),
        }
    }

    /// Returns the address of the former owner, if the table still has it.
    pub(crate) fn owner_address(&self, previous_owner: RouteOwner) -> Option<String> {
        let (_, session) = previous_owner?;
        let snapshot = self.table.snapshot()?;
        let mut owners = snapshot
            .table
            .routes()
            .filter_map(|(_, r)| r.owner.as_ref());
        let owner = owners.find(|owner| Some(owner.session) == session)?;
        Some(owner.address.clone())
    }

    /// Completes the failure of a request about a slot with what the table says now.
    /// `previous_owner` is the route by which the request was sent.
    pub(crate) fn with_route_context(
        &self,
        slot: Slot,
        previous_owner: RouteOwner,
        mut failure: AttemptError,
    ) -> AttemptError {
        // A namespace in our table exists: a server that lacks it is only behind.
        if failure.reason == Reason::NoSuchNamespace {
            failure.decision = RetryDecision::Retry;
        }
        let Some(now) = self.table.snapshot() else {
            return failure;
        };
        let route = now.table.route(slot);
        if route_owner(route) != previous_owner {
            failure.rerouted = route.is_some_and(|r| r.owner.is_some());
        }
        if failure.reason == Reason::NotOwner && route.is_some_and(|r| r.owner.is_none()) {
            failure.message = format!("slot {slot} has no owner yet (takeover in progress)");
        }
        failure
    }
}

/// Returns the namespace of a key of this kind; an empty name stands for the default of the kind.
pub(crate) fn find_namespace<'k>(
    snapshot: &'k TableSnapshot,
    namespace: &str,
    key: KeyRef<'_>,
) -> Result<&'k Namespace, AttemptError> {
    let name = namespace_name(namespace, key);
    snapshot.table.namespace(name).ok_or_else(|| {
        AttemptError::new(
            Reason::NoSuchNamespace,
            RetryDecision::Stop,
            format!("no namespace {name:?}; create it first, or check the name"),
        )
    })
}

/// Returns the location of a key in its namespace, or why it has none.
#[inline]
pub(crate) fn locate_in(
    snapshot: &TableSnapshot,
    namespace: &Namespace,
    key: KeyRef<'_>,
) -> Result<KeyLocation, AttemptError> {
    match snapshot.table.place(namespace, key) {
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

fn no_table_error() -> AttemptError {
    AttemptError::new(
        Reason::Unreachable,
        RetryDecision::Retry,
        "no AllocSvr gave a usable routing table".into(),
    )
}
