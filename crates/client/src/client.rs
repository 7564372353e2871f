//! The client and its calls.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_core::ids::SectionKey;
use seqsvr_core::ids::Slot;
use seqsvr_core::routing_table::{Route, RoutingTable};
use seqsvr_proto::convert::namespace_name;
use seqsvr_proto::limits::{ALLOC_PORT, ITEMS_MAX};
use seqsvr_proto::v1;
use seqsvr_proto::v1::raise_to_request;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::admin::Admin;
use crate::batch_item::BatchItem;
use crate::call::batch::execution::call_batch;
use crate::call::context::CallContext;
use crate::call::decode::{decode_current, decode_numbers};
use crate::call::key::single::{SingleCall, call_routed};
use crate::call::retry_budget::RetryBudget;
use crate::call::sequence_call::{CurrentBatch, NextBatch};
use crate::call::table_fetch::get_table;
use crate::client_core::ClientCore;
use crate::error::Error;
use crate::key::Key;
use crate::options::{NextOptions, Options};
use crate::pipe::PipeOperation;
use crate::routing::locate::locate;
use crate::routing::server_set::ServerSet;
use crate::types::{Current, IssuedRange, Raised, validate_count};
use seqsvr_net::{ChannelPool, parse_server_address};

/// Sender of each uid or key to its owner. Clones are cheap and share connections and table.
#[derive(Clone)]
pub struct Client {
    context: CallContext,
}

impl Client {
    /// Creates a client of the cluster behind these servers. Connects to nothing yet; rejects
    /// addresses that cannot be right.
    pub fn new(options: Options) -> Result<Client, Error> {
        Client::over(ChannelPool::new(), options)
    }

    /// Creates a client over the caller's own channels, such as those of a simulation.
    pub fn over(channels: ChannelPool, options: Options) -> Result<Client, Error> {
        let servers = options
            .servers
            .iter()
            .map(|s| parse_server_address(s, ALLOC_PORT));
        let servers: Vec<String> = servers
            .collect::<Result<_, _>>()
            .map_err(|bad| Error::invalid(bad.to_string()))?;
        if servers.is_empty() {
            return Err(Error::invalid(
                "no server address; give at least one AllocSvr, such as 127.0.0.1:7700",
            ));
        }
        let servers = ServerSet::new(servers, options.seed);
        let items_max = options.items_max.clamp(1, ITEMS_MAX);
        Ok(Client {
            context: CallContext {
                core: Arc::new(ClientCore::new(channels, servers, items_max)),
                deadline: options.deadline,
                strict: false,
            },
        })
    }

    /// Returns this client with another deadline.
    pub fn with_deadline(&self, deadline: Duration) -> Client {
        let mut client = self.clone();
        client.context.deadline = deadline;
        client
    }

    /// Returns this client in strict mode: the store confirms every answer of `next` and `current`
    /// after the call began, so that the order does not depend on clocks. Costs a round trip to the
    /// store.
    pub fn strict(&self) -> Client {
        let mut client = self.clone();
        client.context.strict = true;
        client
    }

    /// Takes the next `count` numbers of a key. A call that fails may have burned numbers, but
    /// never repeats them.
    pub async fn next(
        &self,
        namespace: &str,
        key: impl Into<Key>,
        count: u32,
    ) -> Result<IssuedRange, Error> {
        self.take_numbers(namespace, &key.into(), count, None).await
    }

    /// [`Client::next`] with all options.
    pub async fn next_with(
        &self,
        key: impl Into<Key>,
        options: NextOptions,
    ) -> Result<IssuedRange, Error> {
        let NextOptions {
            namespace,
            count,
            floor,
        } = options;
        self.take_numbers(&namespace, &key.into(), count, floor)
            .await
    }

    async fn take_numbers(
        &self,
        namespace: &str,
        key: &Key,
        count: u32,
        floor: Option<u64>,
    ) -> Result<IssuedRange, Error> {
        validate_count(count)?;
        let call = SingleCall {
            operation: PipeOperation::Next,
            namespace,
            key,
            count,
            floor: floor.unwrap_or(0),
        };
        call.run(&self.context, |raw, location| {
            decode_numbers(raw, location.stride, count, floor)
        })
        .await
    }

    /// Takes numbers of many keys, in parallel from their owners: of uids as they are, or of
    /// [`BatchItem`]s that say more. Returns one result an item, in their order. One bad or slow
    /// item never fails or hides the others, and the client retries only failed items.
    pub async fn next_many<I: BatchItem>(
        &self,
        namespace: &str,
        items: &[I],
    ) -> Vec<Result<IssuedRange, Error>> {
        call_batch::<NextBatch<I>>(&self.context, namespace, items).await
    }

    /// Returns the last number given out, without taking one.
    pub async fn current(&self, namespace: &str, key: impl Into<Key>) -> Result<Current, Error> {
        let call = SingleCall {
            operation: PipeOperation::Current,
            namespace,
            key: &key.into(),
            count: 0,
            floor: 0,
        };
        call.run(&self.context, |raw, _| decode_current(raw)).await
    }

    /// Returns the last numbers of many keys, without taking any; one result a key, in their order.
    pub async fn current_many(&self, namespace: &str, keys: &[Key]) -> Vec<Result<Current, Error>> {
        call_batch::<CurrentBatch>(&self.context, namespace, keys).await
    }

    /// Makes every later number of a key greater than `value` (rounded up to the namespace's next
    /// number). Never lowers. `force` skips the namespace's bound on jumps.
    pub async fn raise_to(
        &self,
        namespace: &str,
        key: impl Into<Key>,
        value: u64,
        force: bool,
    ) -> Result<Raised, Error> {
        let key = key.into();
        let request = v1::RaiseToRequest {
            namespace: namespace.to_owned(),
            key_kind: Some(match &key {
                Key::Uid(uid) => raise_to_request::KeyKind::Uid(*uid),
                Key::Key(key) => raise_to_request::KeyKind::Key(key.clone()),
            }),
            value,
            force,
            ..v1::RaiseToRequest::default()
        };
        call_routed(
            &self.context,
            namespace,
            key.as_ref(),
            request,
            |reply, _| {
                if reply.value < value {
                    return Err("value is below the requested value");
                }
                Ok(Raised {
                    value: reply.value,
                    epoch: reply.epoch,
                })
            },
        )
        .await
    }

    /// Returns the routing table of this client, which fetches one if it has none.
    pub async fn routes(&self) -> Result<Arc<RoutingTable>, Error> {
        let mut budget = RetryBudget::new(self.context.deadline);
        let core = &self.context.core;
        loop {
            match get_table(core, &[], &mut budget).await {
                Ok(snapshot) => return Ok(snapshot.table.clone()),
                Err(failure) => sleep(core.plan_retry(&mut budget, &failure)?).await,
            }
        }
    }

    /// Returns where a key belongs and which server owns it, by the table of this client.
    pub async fn route(
        &self,
        namespace: &str,
        key: impl Into<Key>,
    ) -> Result<(SectionKey, Slot, Route), Error> {
        let key = key.into();
        let name = namespace_name(namespace, key.as_ref());
        let mut budget = RetryBudget::new(self.context.deadline);
        let core = &self.context.core;
        loop {
            let snapshot = get_table(core, &[name], &mut budget).await;
            let located = snapshot.and_then(|snapshot| {
                let location = locate(&snapshot.table, namespace, key.as_ref())?;
                let route = snapshot
                    .table
                    .route(location.slot)
                    .cloned()
                    .unwrap_or_default();
                Ok((location.section, location.slot, route))
            });
            match located {
                Ok(located) => return Ok(located),
                Err(failure) => sleep(core.plan_retry(&mut budget, &failure)?).await,
            }
        }
    }

    /// Returns the tag of this client's cluster; 0 before the first table. For the checks of a
    /// simulation.
    #[cfg(sim)]
    pub fn cluster_tag(&self) -> u64 {
        self.context.core.table.cluster_tag().0
    }

    /// Returns the calls for operators.
    pub fn admin(&self) -> Admin {
        Admin::new(self.context.clone())
    }

    /// Returns what a call is waiting for now, in words; None: nothing. If several calls wait, the
    /// text is that of the last one.
    pub fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.context.core.wait_status.subscribe()
    }
}
