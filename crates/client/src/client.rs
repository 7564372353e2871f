//! The client.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_core::routing_table::RoutingTable;
use seqsvr_core::server_address::parse_server_address;
use seqsvr_proto::limits::{ALLOC_PORT, ITEMS_MAX};
use tokio::sync::watch;
use tonic::metadata::MetadataMap;

use crate::admin::Admin;
use crate::call::context::CallContext;
use crate::call::retry_budget::RetryBudget;
use crate::call::table_fetch::get_table;
use crate::client_core::ClientCore;
use crate::error::Error;
use crate::ids::FamilyHandle;
use crate::namespace_handle::NamespaceHandle;
use crate::options::ClientOptions;
use crate::routing::server_set::ServerSet;
use seqsvr_net::ChannelPool;

/// Sender of each uid or key to its owner. Clones are cheap and share connections and table.
#[derive(Clone)]
pub struct Client {
    context: CallContext,
}

impl Client {
    /// Creates a client of the cluster behind these servers. Connects at the first call.
    ///
    /// # Errors
    /// There is no address, or one is malformed; or a file for TLS or the token cannot be used; or
    /// an address must not receive the token.
    pub fn new(options: ClientOptions) -> Result<Client, Error> {
        Client::over(options.channels()?, options)
    }

    /// Creates a client over the caller's own channels, such as those of a simulation; they decide
    /// about TLS and the token.
    ///
    /// # Errors
    /// There is no address, or one is malformed, or must not receive the token of the channels.
    pub fn over(channels: ChannelPool, options: ClientOptions) -> Result<Client, Error> {
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
        for address in &servers {
            let authorized = channels.authorize(address, &mut MetadataMap::new());
            authorized.map_err(|why| Error::invalid(why.to_string()))?;
        }
        let servers = ServerSet::new(servers, options.seed);
        let batch_items_max = options.batch_items_max.clamp(1, ITEMS_MAX);
        Ok(Client {
            context: CallContext {
                core: Arc::new(ClientCore::new(channels, servers, batch_items_max)),
                deadline: options.deadline,
                strict: false,
            },
        })
    }

    /// Returns this client with another deadline.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Client {
        let mut client = self.clone();
        client.context.deadline = deadline;
        client
    }

    /// Returns this client in strict mode: the store confirms every answer of `next` and `current`
    /// after the call began, so that the order does not depend on clocks. Costs a round trip to the
    /// store.
    #[must_use]
    pub fn strict(&self) -> Client {
        let mut client = self.clone();
        client.context.strict = true;
        client
    }

    /// Returns the handle of a namespace. Sends nothing: the calls of a handle whose name is
    /// invalid or unknown fail. As in the protocol, an empty name is
    /// [`Client::default_namespace`].
    pub fn namespace(&self, name: &str) -> NamespaceHandle {
        NamespaceHandle::new(self.context.clone(), name)
    }

    /// Returns the handle of the namespaces that every cluster has: `default` for uids, `keys` for
    /// other keys.
    pub fn default_namespace(&self) -> NamespaceHandle {
        self.namespace("")
    }

    /// Returns the handle of a family of ids. The layout comes with the routing table of this
    /// client, which fetches a newer one if its own lacks the family. An empty name is `snowflake`.
    ///
    /// # Errors
    /// The cluster has no such family, or no server answered before the deadline.
    pub async fn family(&self, name: &str) -> Result<FamilyHandle, Error> {
        FamilyHandle::find(self.context.clone(), name).await
    }

    /// Returns the routing table of this client, which fetches one if it has none.
    ///
    /// # Errors
    /// No server answered before the deadline.
    pub async fn routes(&self) -> Result<Arc<RoutingTable>, Error> {
        let mut budget = RetryBudget::new(self.context.deadline);
        let core = &self.context.core;
        loop {
            match get_table(core, &[], &mut budget).await {
                Ok(snapshot) => return Ok(snapshot.table.clone()),
                Err(failure) => budget.pause_for_retry(core, &failure).await?,
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
        let context = self.context.clone();
        Admin { context }
    }

    /// Returns what a call is waiting for now, in words; None: nothing. If several calls wait, the
    /// text is that of the last one.
    pub fn wait_status(&self) -> watch::Receiver<Option<String>> {
        self.context.core.wait_status.subscribe()
    }
}
