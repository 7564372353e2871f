//! Forwards items to their owner, for callers that have no routes. Never forwards an item twice.
//!
//! Invariant: a table that the owner attaches is not applied; see `table_updater`. Its version is a
//! hint: if it is above ours, a renewal brings the table of a store.

use std::time::Duration;

use seqsvr_core::ids::Epoch;
use seqsvr_core::planted;
use seqsvr_proto::cluster_tag::{ClusterTag, ClusterTagged};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::key::key_columns;
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::{
    CurrentManyRequest, ItemError, NextManyRequest, RaiseToRequest, Reason, RoutingTable,
};
use tokio::time::{Instant, timeout_at};
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::batch::item::{ItemAnswer, ItemOperation, RequestItem};
use crate::batch::request_context::RequestContext;
use crate::shared_parts::SharedParts;
use crate::slow_path::resolution::{Resolution, is_transient, resolve_all, retry_all};

/// Maximum time of one attempt at an owner, which may be dead; after it the item is retried. An
/// attempt ends earlier if a newer table shows that the owner has lost all its slots.
const FORWARD_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Response of an owner.
struct OwnerResponse {
    /// Cluster that it named.
    cluster: ClusterTag,
    /// Result of each item.
    results: Vec<Result<ItemAnswer, RpcError>>,
    /// Its newer routes.
    routes: Option<RoutingTable>,
}

/// Forwards items to their owner.
pub(crate) struct Forwarder {
    pub(crate) shared: SharedParts,
}

impl Forwarder {
    /// Sends items to the owner at this address. Returns which are answered and which to retry.
    pub(crate) async fn forward(
        &self,
        call: &RequestContext,
        items: &[RequestItem],
        address: String,
        members: Vec<u32>,
    ) -> Vec<Resolution> {
        self.shared.counters.forwarded.add(members.len() as u64);
        let deadline = call.deadline.min(Instant::now() + FORWARD_ATTEMPT_TIMEOUT);
        let is_last_attempt = deadline == call.deadline;
        let owner_items: Vec<&RequestItem> = members.iter().map(|i| &items[*i as usize]).collect();
        let sent = async {
            let channel = self
                .shared
                .channels
                .get(&address)
                .map_err(|e| Status::unavailable(e.to_string()))?;
            let client = SequenceClient::new(channel);
            self.send_items(client, call, &owner_items, deadline).await
        };
        let unreachable =
            |text| RpcError::new(Reason::Unreachable, format!("AllocSvr {address} {text}"));
        let answer = tokio::select! {
            biased;
            sent = timeout_at(deadline, sent) => match sent {
                Ok(Ok(forwarded)) => Ok(forwarded),
                Ok(Err(status)) => Err(RpcError::from_status(&status)),
                Err(_) => Err(unreachable("did not answer in time")),
            },
            // A process that is stopped keeps its connections, so no error ends the attempt.
            () = self.wait_until_replaced(&address) => {
                Err(unreachable("owns no slots any more"))
            }
        };
        // Numbers of another cluster are never passed on as this one's. An AllocSvr of another
        // cluster may have been given the address of the owner.
        let checked = match planted!(ForwardAnyCluster) {
            true => answer,
            false => self
                .shared
                .own_cluster
                .check_answer(answer, |answer| answer.cluster),
        };
        let mut fault = match checked {
            Ok(OwnerResponse {
                results, routes, ..
            }) => {
                let is_behind = self.is_newer(routes.as_ref());
                return self
                    .resolve_forwarded(call, members, results, is_last_attempt, is_behind)
                    .await;
            }
            Err(fault) => fault,
        };
        // Taken here, so that no item passes it on to the caller.
        let is_behind = self.is_newer(fault.detail.routes.take().as_ref());
        if should_retry_item(fault.reason(), is_last_attempt)
            || fault.reason() == Reason::Unspecified
        {
            // The owner may be gone. The next table shows it.
            tracing::debug!(%address, %fault, "forwarding failed");
            self.wait_before_retry(call, is_behind).await;
            return retry_all(members);
        }
        resolve_all(members, &Err(fault))
    }

    /// Waits until the AllocSvr at an address owns no slot.
    async fn wait_until_replaced(&self, address: &str) {
        let mut version = self.shared.table.subscribe();
        loop {
            // Marked before the table is read, so that no change between both is missed.
            version.mark_unchanged();
            let owns_slots = self.shared.table.peek().as_ref().is_some_and(|table| {
                let mut owners = table.routes().filter_map(|(_, route)| route.owner.as_ref());
                owners.any(|owner| owner.address == address)
            });
            if !owns_slots || version.changed().await.is_err() {
                return;
            }
        }
    }

    /// Whether an attached table has a version above that of ours.
    fn is_newer(&self, attached: Option<&RoutingTable>) -> bool {
        attached.is_some_and(|attached| attached.version > self.shared.table.version())
    }

    /// Waits for a renewal if the owner has a newer table than this process, or else for a moment.
    async fn wait_before_retry(&self, call: &RequestContext, is_behind: bool) {
        let version = self.shared.table.version();
        if is_behind {
            self.shared.renewals.renew_and_wait(call.deadline).await;
        }
        // A false hint brings no newer table: the retry must not come at once.
        if self.shared.table.version() == version {
            self.shared.random.back_off().await;
        }
    }

    async fn resolve_forwarded(
        &self,
        call: &RequestContext,
        members: Vec<u32>,
        results: Vec<Result<ItemAnswer, RpcError>>,
        is_last_attempt: bool,
        is_behind: bool,
    ) -> Vec<Resolution> {
        let mut outcomes = Vec::with_capacity(members.len());
        let mut retry = false;
        for (index, result) in members.into_iter().zip(results) {
            let outcome = match result {
                Err(fault) if should_retry_item(fault.reason(), is_last_attempt) => {
                    retry = true;
                    None
                }
                result => Some(result),
            };
            outcomes.push((index, outcome));
        }
        if retry {
            self.wait_before_retry(call, is_behind).await;
        } else if is_behind {
            self.shared.renewals.request_renewal();
        }
        outcomes
    }

    async fn send_items(
        &self,
        client: SequenceClient<Channel>,
        call: &RequestContext,
        items: &[&RequestItem],
        deadline: Instant,
    ) -> Result<OwnerResponse, Status> {
        // All items of one call have the same kind of operation.
        match items.first().map(|item| item.operation) {
            Some(ItemOperation::Next { .. }) => self.send_next(client, call, items, deadline).await,
            Some(ItemOperation::Current) => self.send_current(client, call, items, deadline).await,
            Some(ItemOperation::RaiseTo { .. }) => {
                self.send_raise(client, call, items, deadline).await
            }
            None => Ok(OwnerResponse {
                cluster: ClusterTag::NONE,
                results: Vec::new(),
                routes: None,
            }),
        }
    }

    async fn send_next(
        &self,
        mut client: SequenceClient<Channel>,
        call: &RequestContext,
        items: &[&RequestItem],
        deadline: Instant,
    ) -> Result<OwnerResponse, Status> {
        let (uids, keys) = key_columns(items.iter().map(|item| item.key.clone()));
        let mut request = NextManyRequest {
            namespace: call.namespace.clone(),
            uids,
            keys,
            table_version: self.shared.table.version(),
            forwarded: true,
            cluster_tag: self.shared.own_cluster.tag().0,
            strict: call.strict,
            ..NextManyRequest::default()
        };
        for item in items {
            if let ItemOperation::Next { count, floor } = item.operation {
                request.counts.push(count.get());
                request.floors.push(floor);
                request.epochs.push(item.epoch);
            }
        }
        let response = client
            .next_many(request_with_deadline(request, deadline, call))
            .await?
            .into_inner();
        let columns = [
            response.firsts.len(),
            response.lasts.len(),
            response.epochs.len(),
        ];
        let mut results = answers_from_columns(columns, items.len(), |i| ItemAnswer::Numbers {
            first: response.firsts[i],
            last: response.lasts[i],
            epoch: Epoch(response.epochs[i]),
        })?;
        let cluster = response.cluster_tag();
        set_item_errors(&mut results, response.errors);
        Ok(OwnerResponse {
            cluster,
            results,
            routes: response.routes,
        })
    }

    async fn send_current(
        &self,
        mut client: SequenceClient<Channel>,
        call: &RequestContext,
        items: &[&RequestItem],
        deadline: Instant,
    ) -> Result<OwnerResponse, Status> {
        let (uids, keys) = key_columns(items.iter().map(|item| item.key.clone()));
        let request = CurrentManyRequest {
            namespace: call.namespace.clone(),
            uids,
            keys,
            strict: call.strict,
            table_version: self.shared.table.version(),
            forwarded: true,
            cluster_tag: self.shared.own_cluster.tag().0,
            epochs: items.iter().map(|item| item.epoch).collect(),
        };
        let response = client
            .current_many(request_with_deadline(request, deadline, call))
            .await?
            .into_inner();
        let columns = [
            response.kinds.len(),
            response.values.len(),
            response.epochs.len(),
        ];
        let kinds: Vec<_> = response.kinds().collect();
        let mut results = answers_from_columns(columns, items.len(), |i| ItemAnswer::Current {
            kind: kinds.get(i).copied().unwrap_or_default(),
            value: response.values[i],
            epoch: Epoch(response.epochs[i]),
        })?;
        let cluster = response.cluster_tag();
        set_item_errors(&mut results, response.errors);
        Ok(OwnerResponse {
            cluster,
            results,
            routes: response.routes,
        })
    }

    async fn send_raise(
        &self,
        mut client: SequenceClient<Channel>,
        call: &RequestContext,
        items: &[&RequestItem],
        deadline: Instant,
    ) -> Result<OwnerResponse, Status> {
        let mut results = Vec::with_capacity(items.len());
        let (mut cluster, mut routes) = (ClusterTag::NONE, None);
        for item in items {
            let ItemOperation::RaiseTo {
                value,
                force,
                if_none,
            } = item.operation
            else {
                continue;
            };
            let (value, value_if_none) = if if_none { (0, value) } else { (value, 0) };
            let request = RaiseToRequest {
                namespace: call.namespace.clone(),
                key_kind: Some(item.key.clone().into()),
                value,
                value_if_none,
                force,
                table_version: self.shared.table.version(),
                forwarded: true,
                cluster_tag: self.shared.own_cluster.tag().0,
                epoch: Some(item.epoch),
            };
            let response = client
                .raise_to(request_with_deadline(request, deadline, call))
                .await?
                .into_inner();
            cluster = response.cluster_tag();
            if cluster.conflicts_with(self.shared.own_cluster.tag()) {
                break;
            }
            results.push(Ok(ItemAnswer::Raised {
                value: response.value,
                had_number: response.had_number,
                epoch: Epoch(response.epoch),
            }));
            routes = response.routes.or(routes);
        }
        Ok(OwnerResponse {
            cluster,
            results,
            routes,
        })
    }
}

/// Returns whether to retry an item. One attempt is shorter than the caller's deadline. So an owner
/// that ran out of its time while it waited for a window has not used up the caller's time.
fn should_retry_item(reason: Reason, is_last_attempt: bool) -> bool {
    is_transient(reason) || (reason == Reason::WindowExhausted && !is_last_attempt)
}

fn request_with_deadline<T>(message: T, deadline: Instant, call: &RequestContext) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(trace) = &call.trace {
        trace.inject(&mut request);
    }
    request.set_timeout(deadline.saturating_duration_since(Instant::now()));
    request
}

fn answers_from_columns(
    columns: [usize; 3],
    items: usize,
    answer: impl Fn(usize) -> ItemAnswer,
) -> Result<Vec<Result<ItemAnswer, RpcError>>, Status> {
    if columns != [items; 3] {
        return Err(Status::internal(
            "internal error: the owner returned another number of answers than items",
        ));
    }
    Ok((0..items).map(|i| Ok(answer(i))).collect())
}

fn set_item_errors(results: &mut [Result<ItemAnswer, RpcError>], errors: Vec<ItemError>) {
    for error in errors {
        if let Some(result) = results.get_mut(error.index as usize) {
            *result = Err(RpcError::from_item_error(error));
        }
    }
}

#[cfg(test)]
mod tests;
