//! From a key to its owner: getting a table, finding the key's place in it, choosing a server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use seqsvr_core::id::{Epoch, SectionKey, SessionId, Slot};
use seqsvr_core::namespace::Namespace;
use seqsvr_core::route::{KeyRef, Route};
use seqsvr_proto::convert::namespace_name;
use seqsvr_proto::v1;
use tokio::time::{sleep, timeout};

use crate::budget::Budget;
use crate::client::Inner;
use crate::failure::{Failure, Verdict};
use crate::table::Known;
use seqsvr_proto::v1::Reason;

/// How many servers are tried for a namespace that our table lacks: the namespace may be new.
const NAMESPACE_LOOKUPS: u32 = 3;
const NAMESPACE_PAUSE: Duration = Duration::from_millis(20);

/// The place of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) section: SectionKey,
    pub(crate) slot: Slot,
    pub(crate) stride: u32,
}

/// The owner of a slot and its epoch, by one table.
pub(crate) type Whose = Option<(Epoch, Option<SessionId>)>;

pub(crate) fn whose(route: Option<&Route>) -> Whose {
    route.map(|r| (r.epoch, r.owner.as_ref().map(|o| o.session)))
}

impl Inner {
    /// Returns a table that has these namespaces, if any server has them.
    pub(crate) async fn known(
        &self,
        namespaces: &[&str],
        budget: &mut Budget,
    ) -> Result<Arc<Known>, Failure> {
        let gap = self.table.take_gap();
        let mut known = match self.table.known() {
            Some(known) if !gap => known,
            _ => self.fetch(0, budget).await.inspect_err(|_| {
                if gap {
                    self.table.put_back_gap();
                }
            })?,
        };
        let lacks = |known: &Known| {
            namespaces
                .iter()
                .any(|n| known.table.namespace(n).is_none())
        };
        while lacks(&known) && budget.namespace_lookups < NAMESPACE_LOOKUPS {
            if budget.namespace_lookups > 0 {
                sleep(NAMESPACE_PAUSE.min(budget.left())).await;
            }
            known = self.fetch(known.table.version(), budget).await?;
            budget.namespace_lookups += 1;
        }
        Ok(known)
    }

    /// Requests from a server what a table of version `base` lacks. Callers that come during a
    /// fetch share its outcome.
    pub(crate) async fn fetch(
        &self,
        base: u64,
        budget: &mut Budget,
    ) -> Result<Arc<Known>, Failure> {
        let arrived = self.fetches.load(Ordering::Acquire);
        let Ok(mut outcome) = timeout(budget.left(), self.fetch.lock()).await else {
            return Err(no_table());
        };
        if self.fetches.load(Ordering::Acquire) == arrived {
            let known = self.table.known();
            let address = self
                .servers
                .any(known.as_ref().map_or(&[], |k| k.addresses.as_slice()));
            let reply = self
                .try_at(
                    &address,
                    v1::RoutesRequest {
                        base,
                        ..v1::RoutesRequest::default()
                    },
                    budget,
                )
                .await;
            *outcome = reply.err();
            self.fetches.fetch_add(1, Ordering::AcqRel);
        }
        match &*outcome {
            Some(failure) => Err(failure.clone()),
            None => self.table.known().ok_or_else(no_table),
        }
    }

    /// Returns the place of a key in the table, or why it has none.
    pub(crate) fn place(
        &self,
        known: &Known,
        namespace: &str,
        key: KeyRef<'_>,
    ) -> Result<Place, Failure> {
        place_in(known, namespace_in(known, namespace, key)?, key)
    }

    /// Returns the server to try: the owner, by its index in the table's addresses; any server if
    /// there is none or it is suspect.
    pub(crate) fn target(&self, known: &Known, owner: Option<usize>) -> String {
        match owner.and_then(|at| known.addresses.get(at)) {
            Some(address) if !self.servers.is_suspect(address) => address.clone(),
            _ => self.servers.any(&known.addresses),
        }
    }

    /// Returns the address of the former owner, if the table still has it.
    pub(crate) fn address(&self, was: Whose) -> Option<String> {
        let (_, session) = was?;
        let known = self.table.known()?;
        let mut owners = known.table.routes().filter_map(|(_, r)| r.owner.as_ref());
        let owner = owners.find(|owner| Some(owner.session) == session)?;
        Some(owner.address.clone())
    }

    /// Completes the failure of a request about a slot, sent when its owner and epoch were `was`.
    pub(crate) fn about(&self, slot: Slot, was: Whose, mut failure: Failure) -> Failure {
        // A namespace in our table exists: a server that lacks it is only behind.
        if failure.reason == Reason::NoSuchNamespace {
            failure.verdict = Verdict::Retry;
        }
        let Some(now) = self.table.known() else {
            return failure;
        };
        let route = now.table.route(slot);
        if whose(route) != was {
            failure.rerouted = route.is_some_and(|r| r.owner.is_some());
        }
        if failure.reason == Reason::NotOwner && route.is_some_and(|r| r.owner.is_none()) {
            failure.message = format!("slot {slot} has no owner yet (takeover in progress)");
        }
        failure
    }
}

/// Returns the namespace that is meant with a key of this kind.
pub(crate) fn namespace_in<'k>(
    known: &'k Known,
    namespace: &str,
    key: KeyRef<'_>,
) -> Result<&'k Namespace, Failure> {
    let name = namespace_name(namespace, key);
    known.table.namespace(name).ok_or_else(|| {
        Failure::new(
            Reason::NoSuchNamespace,
            Verdict::Final,
            format!("no namespace {name:?}; create it first, or check the name"),
        )
    })
}

/// Returns the place of a key in its namespace, or why it has none.
#[inline]
pub(crate) fn place_in(
    known: &Known,
    namespace: &Namespace,
    key: KeyRef<'_>,
) -> Result<Place, Failure> {
    match known.table.place(namespace, key) {
        Ok((section, slot)) => Ok(Place {
            section,
            slot,
            stride: namespace.spec.progression.stride,
        }),
        Err(e) => Err(Failure::new(Reason::Invalid, Verdict::Final, e.to_string())),
    }
}

fn no_table() -> Failure {
    Failure::new(
        Reason::Unreachable,
        Verdict::Retry,
        "no AllocSvr gave a usable routing table".into(),
    )
}
