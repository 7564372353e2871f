//! The client and its calls.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use seqsvr_core::geometry::COUNT_MAX;
use seqsvr_core::id::SectionKey;
use seqsvr_core::id::Slot;
use seqsvr_core::route::{Route, RoutingTable};
use seqsvr_proto::convert::namespace_name;
use seqsvr_proto::limits::{ALLOC_PORT, ITEMS_MAX};
use seqsvr_proto::v1;
use seqsvr_proto::v1::{Reason, raise_to_request};
use tokio::sync::{Mutex, watch};
use tokio::time::sleep;

use crate::admin::Admin;
use crate::answer::{Current, Numbers, Raised};
use crate::batch::{CurrentBatch, NextBatch};
use crate::budget::Budget;
use crate::channels::{Channels, server_address};
use crate::error::Error;
use crate::failure::Failure;
use crate::item::Item;
use crate::key::Key;
use crate::keyed::One;
use crate::options::{NextOptions, Options};
use crate::pipe::{Asks, Pipes};
use crate::servers::Servers;
use crate::table::Table;
use crate::trouble::Trouble;

/// Sender of each uid or key to its owner. Clones are cheap and share connections and table.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
    pub(crate) deadline: Duration,
    pub(crate) strict: bool,
}

/// State that all clones share.
pub(crate) struct Inner {
    pub(crate) channels: Channels,
    pub(crate) pipes: Pipes,
    pub(crate) servers: Servers,
    pub(crate) table: Table,
    pub(crate) trouble: Trouble,
    /// Most items of one frame.
    pub(crate) items_max: usize,
    /// Lock held while a table is fetched; how the last fetch failed, if it did.
    pub(crate) fetch: Mutex<Option<Failure>>,
    /// Fetches ended so far.
    pub(crate) fetches: AtomicU64,
}

impl Client {
    /// Creates a client of the cluster behind these servers. Connects to nothing yet; rejects
    /// addresses that cannot be right.
    pub fn new(options: Options) -> Result<Client, Error> {
        Client::over(Channels::new(), options)
    }

    /// Creates a client over the caller's own channels, as a simulation has them.
    pub fn over(channels: Channels, options: Options) -> Result<Client, Error> {
        let servers = options
            .servers
            .iter()
            .map(|s| server_address(s, ALLOC_PORT));
        let servers: Vec<String> = servers
            .collect::<Result<_, _>>()
            .map_err(|bad| Error::invalid(bad.to_string()))?;
        if servers.is_empty() {
            return Err(Error::invalid(
                "no server address; give at least one AllocSvr, such as 127.0.0.1:7700",
            ));
        }
        Ok(Client {
            inner: Arc::new(Inner {
                channels,
                pipes: Pipes::default(),
                servers: Servers::new(servers, options.seed),
                table: Table::default(),
                trouble: Trouble::new(),
                items_max: options.items_max.clamp(1, ITEMS_MAX),
                fetch: Mutex::new(None),
                fetches: AtomicU64::new(0),
            }),
            deadline: options.deadline,
            strict: false,
        })
    }

    /// Returns this client with another deadline.
    pub fn with_deadline(&self, deadline: Duration) -> Client {
        Client {
            deadline,
            ..self.clone()
        }
    }

    /// Returns this client in strict mode: the store confirms every answer of `next` and `current`
    /// after the call began, so that the order does not depend on clocks. Costs a round trip to the
    /// store.
    pub fn strict(&self) -> Client {
        Client {
            strict: true,
            ..self.clone()
        }
    }

    /// Takes the next `count` numbers of a key. A call that fails may have burned numbers, but
    /// never repeats them.
    pub async fn next(
        &self,
        namespace: &str,
        key: impl Into<Key>,
        count: u32,
    ) -> Result<Numbers, Error> {
        self.take(namespace, &key.into(), count, None).await
    }

    /// [`Client::next`] with all options.
    pub async fn next_with(
        &self,
        key: impl Into<Key>,
        options: NextOptions,
    ) -> Result<Numbers, Error> {
        let NextOptions {
            namespace,
            count,
            floor,
        } = options;
        self.take(&namespace, &key.into(), count, floor).await
    }

    async fn take(
        &self,
        namespace: &str,
        key: &Key,
        count: u32,
        floor: Option<u64>,
    ) -> Result<Numbers, Error> {
        check_count(count)?;
        let one = One {
            asks: Asks::Next,
            namespace,
            key,
            count,
            floor: floor.unwrap_or(0),
        };
        self.one(one, |got, place| {
            Numbers::read(got, place.stride, count, floor)
        })
        .await
    }

    /// Takes numbers of many keys, in parallel from their owners: of uids as they are, or of
    /// [`Item`]s that say more. Returns one result an item, in their order. One bad or slow item
    /// never fails or hides the others, and the client retries only failed items.
    pub async fn next_many<I: Item>(
        &self,
        namespace: &str,
        items: &[I],
    ) -> Vec<Result<Numbers, Error>> {
        self.many::<NextBatch<I>>(namespace, items).await
    }

    /// Returns the last number given out, without taking one.
    pub async fn current(&self, namespace: &str, key: impl Into<Key>) -> Result<Current, Error> {
        let one = One {
            asks: Asks::Current,
            namespace,
            key: &key.into(),
            count: 0,
            floor: 0,
        };
        self.one(one, |got, _| Current::read(got)).await
    }

    /// Runs [`Client::current`] for many keys; results as with [`Client::next_many`].
    pub async fn current_many(&self, namespace: &str, keys: &[Key]) -> Vec<Result<Current, Error>> {
        self.many::<CurrentBatch>(namespace, keys).await
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
        self.keyed(namespace, key.as_ref(), request, |reply, _| {
            if reply.value < value {
                return Err("a value below the one asked for");
            }
            Ok(Raised {
                value: reply.value,
                epoch: reply.epoch,
            })
        })
        .await
    }

    /// Returns the routing table of this client, which fetches one if it has none.
    pub async fn routes(&self) -> Result<Arc<RoutingTable>, Error> {
        let mut budget = Budget::new(self.deadline);
        loop {
            match self.inner.known(&[], &mut budget).await {
                Ok(known) => return Ok(known.table.clone()),
                Err(failure) => sleep(self.inner.pause(&mut budget, &failure)?).await,
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
        let mut budget = Budget::new(self.deadline);
        loop {
            let known = self.inner.known(&[name], &mut budget).await;
            let placed = known.and_then(|known| {
                let place = self.inner.place(&known, namespace, key.as_ref())?;
                let route = known.table.route(place.slot).cloned().unwrap_or_default();
                Ok((place.section, place.slot, route))
            });
            match placed {
                Ok(placed) => return Ok(placed),
                Err(failure) => sleep(self.inner.pause(&mut budget, &failure)?).await,
            }
        }
    }

    /// Returns the tag of this client's cluster; 0 before the first table. For the judges of a
    /// simulation.
    #[cfg(sim)]
    pub fn cluster_tag(&self) -> u64 {
        self.inner.table.cluster_tag().0
    }

    /// Returns the calls for operators.
    pub fn admin(&self) -> Admin {
        Admin::new(self.clone())
    }

    /// Returns what a call is waiting for at the moment, in words; None: nothing. With several
    /// calls in trouble, the text of the last one.
    pub fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.inner.trouble.subscribe()
    }
}

impl Inner {
    /// Returns how long to wait before the next try, or the error to end with.
    pub(crate) fn pause(&self, budget: &mut Budget, failure: &Failure) -> Result<Duration, Error> {
        let known = self.table.known();
        let addresses = known.as_ref().map_or(&[][..], |known| &known.addresses);
        let is_about_servers = matches!(
            failure.reason,
            Reason::Unreachable | Reason::ClusterMismatch
        );
        if is_about_servers && let Some((foreign, all)) = self.servers.count_foreign(addresses) {
            let failure = failure.among_foreign(foreign, all);
            return budget.pause(&failure, &self.servers, &self.trouble);
        }
        budget.pause(failure, &self.servers, &self.trouble)
    }
}

/// Rejects a bad count here, so that it cannot fail a batch.
pub(crate) fn check_count(count: u32) -> Result<(), Error> {
    if count == 0 || count > COUNT_MAX {
        return Err(Error::invalid(format!(
            "count must be 1 to {COUNT_MAX}, not {count}"
        )));
    }
    Ok(())
}
