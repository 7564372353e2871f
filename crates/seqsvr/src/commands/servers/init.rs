//! `seqsvr init`: creates the cluster, once.
//!
//! The command first requests the identity of every store, so that the membership names data
//! directories (their random incarnations), not just addresses. A retry after a lost answer takes
//! the cluster id of the first attempt.
//!
//! Invariant: success means that the cluster has the settings of the command. A store answers
//! `Init` for a cluster that exists as done, also with other settings, so that a retry is harmless.
//! Then the settings are compared with those that the leader reports.
//!
//! Invariant: success means that all stores of the command belong to the cluster. Schedule that
//! breaks it: a cluster loses the directory of one store, and an operator repeats `init` to get the
//! store back. The other stores answer that the cluster exists. The empty one stays out, and the
//! cluster does not survive the loss of one more. A store that belongs to no cluster after the
//! others have completed it is rejected with a line for each store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::future::try_join_all;
use parking_lot::Mutex;
use rand::RngExt;
use seqsvr_core::server_address::check_server_address;
use seqsvr_net::tls::Role;
use seqsvr_net::{Transport, connect_lazy, for_role, is_refused};
use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::error::{RpcError, local_cause};
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{
    ClusterStatusRequest, ClusterStatusResponse, DescribeRequest, DescribeResponse, InitRequest,
    Member, Reason,
};
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::{Channel, Endpoint};

use crate::cli;
use crate::output::exit_code::{BadInput, ServerUnavailable};
use crate::output::{log, stdout};
use crate::server::tls::command_flag;

/// Maximum time of one request for the identity of a store; after it, it is sent again.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum wait for a silent store once another one has named its cluster, and for a store to join
/// a cluster that the command completes; after it the command fails.
const SILENT_STORE_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) async fn run(args: cli::InitArgs) -> anyhow::Result<()> {
    let mut members = BTreeMap::new();
    for entry in &args.stores {
        let (id, address) = cli::parse_store_member(entry, "--stores")?;
        if members.insert(id, address).is_some() {
            return Err(BadInput(format!("--stores names store {id} twice")).into());
        }
    }
    let stores = InitialStores {
        members,
        transport: for_role(&cli::read_transport(args.tls_dir.as_deref())?, Role::Store),
    };
    let deadline = Instant::now() + args.timeout;
    let (cluster, existed) =
        create_cluster(&stores, args.lease_ms, args.slots, args.timeout).await?;
    if existed {
        if let Some(table) = await_all_joined(&stores).await? {
            return Err(BadInput(format!(
                "a cluster of these stores exists, and some of them do not belong to it; `init` gives no store its place back: if most stores of the cluster live, add the empty ones under new ids with `seqsvr member add`, and remove the lost ones with `seqsvr member remove`; otherwise restore a backup{table}"
            ))
            .into());
        }
        let settings = ClusterSettings {
            lease_ms: args.lease_ms,
            slots: Some(args.slots),
        };
        settings.check(&stores, deadline).await?;
    }
    stdout::print_line(format_args!("{cluster:032x}"))?;
    let is_new = if existed {
        "existed already"
    } else {
        "is created"
    };
    let stores: Vec<&str> = stores.members.values().map(String::as_str).collect();
    log::log_unfiltered(format_args!(
        "the cluster with the id above {is_new}; start its AllocSvrs: seqsvr alloc --name a1 --stores {}{}",
        stores.join(","),
        command_flag(args.tls_dir.is_some())
    ));
    Ok(())
}

/// Stores that a command makes a cluster.
pub(crate) struct InitialStores {
    /// Their addresses, by id.
    pub(crate) members: BTreeMap<u64, String>,
    /// Network to them.
    pub(crate) transport: Arc<dyn Transport>,
}

impl InitialStores {
    async fn request_status(&self, address: &str) -> Result<ClusterStatusResponse, RpcError> {
        let channel = self
            .open_channel(address)
            .map_err(|e| RpcError::new(Reason::Invalid, format!("{e:#}")))?;
        let answer = AdminClient::new(channel)
            .cluster_status(ClusterStatusRequest {})
            .await;
        match answer {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => Err(RpcError::from_status(&status)),
        }
    }

    fn open_channel(&self, address: &str) -> anyhow::Result<Channel> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .with_context(|| format!("address {address:?}"))?;
        let endpoint = endpoint
            .connect_timeout(Duration::from_secs(1))
            .timeout(Duration::from_secs(10));
        Ok(connect_lazy(self.transport.clone(), &endpoint))
    }
}

/// Settings that a command requests of a cluster.
pub(crate) struct ClusterSettings {
    /// Lease D.
    pub(crate) lease_ms: u32,
    /// Number of slots; None if the command does not say it.
    pub(crate) slots: Option<u32>,
}

impl ClusterSettings {
    /// Rejects settings that the cluster of these stores does not have.
    pub(crate) async fn check(
        &self,
        stores: &InitialStores,
        deadline: Instant,
    ) -> anyhow::Result<()> {
        let found = fetch_status(stores, deadline).await?;
        let mut differences = Vec::new();
        if found.lease_ms != u64::from(self.lease_ms) {
            let (requested, found) = (self.lease_ms, found.lease_ms);
            differences.push(format!(
                "--lease-ms is {requested}, the cluster has {found}"
            ));
        }
        if let Some(requested) = self.slots.filter(|slots| *slots != found.slot_count) {
            let found = found.slot_count;
            differences.push(format!("--slots is {requested}, the cluster has {found}"));
        }
        if differences.is_empty() {
            return Ok(());
        }
        let id = <[u8; 16]>::try_from(found.cluster.as_ref()).unwrap_or_default();
        let id = u128::from_be_bytes(id);
        bail!(BadInput(format!(
            "cluster {id:032x} exists with other settings, which cannot be changed: {}; nothing was changed; use the values of the cluster, or create another one on empty data directories",
            differences.join("; ")
        )))
    }
}

/// Requests the status of the cluster from its leader, until it answers or the deadline has passed.
async fn fetch_status(
    stores: &InitialStores,
    deadline: Instant,
) -> anyhow::Result<ClusterStatusResponse> {
    loop {
        let mut last = String::new();
        // The leader may be a store that the command does not name.
        let mut leaders = Vec::new();
        for address in stores.members.values() {
            match stores.request_status(address).await {
                Ok(status) => return Ok(status),
                Err(error) => {
                    leaders.push(error.detail.leader.clone());
                    last = format!("{address}: {error}");
                }
            }
        }
        leaders.retain(|leader| check_server_address(leader).is_ok());
        if let Some(leader) = leaders.first()
            && let Ok(status) = stores.request_status(leader).await
        {
            return Ok(status);
        }
        if Instant::now() > deadline {
            bail!(ServerUnavailable(format!(
                "the cluster exists, but its settings could not be compared, since its leader does not answer ({last}); check the stores, then repeat the command"
            )));
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Creates a cluster of these stores, or completes an earlier attempt. Returns the cluster id, and
/// whether a store had it before.
pub(crate) async fn create_cluster(
    stores: &InitialStores,
    lease_ms: u32,
    slots: u32,
    timeout: Duration,
) -> anyhow::Result<(u128, bool)> {
    let deadline = Instant::now() + timeout;
    let described = describe_stores(stores, deadline).await?;
    let mut named = described.iter().filter(|d| !d.cluster.is_empty());
    let cluster = match named.next() {
        None => u128_to_bytes(rand::rng().random()),
        Some(first) if named.all(|other| other.cluster == first.cluster) => first.cluster.clone(),
        Some(_) => bail!(BadInput(format!(
            "the stores belong to different clusters, which may give the same numbers; nothing was changed; correct --stores so that it names the stores of one cluster{}",
            cluster_table(stores, &described)
        ))),
    };
    let members = described
        .iter()
        .map(|d| Member {
            id: d.node,
            address: d.address.clone(),
            incarnation: d.incarnation,
        })
        .collect();
    let request = InitRequest {
        cluster: cluster.clone(),
        members,
        lease_ms,
        slots,
    };
    // If no store has a cluster, any store can create it. Otherwise only stores that have it get
    // the request: one of them received the first request and continues. A store without a
    // cluster would create it a second time.
    let is_retry = described.iter().any(|d| !d.cluster.is_empty());
    let addresses: Vec<&str> = described
        .iter()
        .zip(stores.members.values())
        .filter(|(d, _)| !is_retry || !d.cluster.is_empty())
        .map(|(_, address)| address.as_str())
        .take(if is_retry { usize::MAX } else { 1 })
        .collect();
    for address in addresses.into_iter().cycle() {
        let status = match StoreClient::new(stores.open_channel(address)?)
            .init(request.clone())
            .await
        {
            Ok(_) => break,
            Err(status) => status,
        };
        let rpc_error = RpcError::from_status(&status);
        let is_transient = matches!(
            status.code(),
            tonic::Code::Unavailable | tonic::Code::DeadlineExceeded
        );
        if !is_transient || Instant::now() > deadline {
            bail!("store {address} did not create the cluster: {rpc_error}");
        }
        sleep(Duration::from_millis(200)).await;
    }
    let cluster: [u8; 16] = cluster.as_ref().try_into().map_err(|_| {
        anyhow::Error::msg("a store returned a malformed cluster id; check --stores")
    })?;
    Ok((u128::from_be_bytes(cluster), is_retry))
}

/// Waits until each store belongs to the cluster that is complete now. An interrupted `init` leaves
/// stores that join a moment after the others; an empty directory of a former store never joins.
/// Returns a table of the stores, a line each, if some stay out.
///
/// # Errors
/// A store does not answer.
pub(crate) async fn await_all_joined(stores: &InitialStores) -> anyhow::Result<Option<String>> {
    let deadline = Instant::now() + SILENT_STORE_TIMEOUT;
    loop {
        let described = describe_stores(stores, deadline).await?;
        if described.iter().all(|d| !d.cluster.is_empty()) {
            return Ok(None);
        }
        if Instant::now() >= deadline {
            return Ok(Some(cluster_table(stores, &described)));
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Returns a line for each store with its cluster.
fn cluster_table(stores: &InitialStores, described: &[DescribeResponse]) -> String {
    let line = |((id, address), found): ((&u64, &String), &DescribeResponse)| {
        let cluster = match <[u8; 16]>::try_from(found.cluster.as_ref()) {
            Ok(bytes) => format!("cluster {:032x}", u128::from_be_bytes(bytes)),
            Err(_) if found.cluster.is_empty() => "no cluster".to_owned(),
            Err(_) => "a malformed cluster id".to_owned(),
        };
        format!("\n  store {id} at {address} -> {cluster}")
    };
    stores.members.iter().zip(described).map(line).collect()
}

/// Requests the identities of all stores at once, in the order of their ids.
async fn describe_stores(
    stores: &InitialStores,
    deadline: Instant,
) -> anyhow::Result<Vec<DescribeResponse>> {
    // One that names its cluster brings it forward: the stores are not being started for the first
    // time.
    let deadline = Mutex::new(deadline);
    let requests = stores
        .members
        .iter()
        .map(|(id, address)| describe_store(stores, *id, address, &deadline));
    try_join_all(requests).await
}

/// Requests the identity of a store until it answers or the deadline has passed.
async fn describe_store(
    stores: &InitialStores,
    id: u64,
    address: &str,
    deadline: &Mutex<Instant>,
) -> anyhow::Result<DescribeResponse> {
    loop {
        let mut store = StoreClient::new(stores.open_channel(address)?);
        let described = store.describe(DescribeRequest {});
        let described = timeout(DESCRIBE_TIMEOUT, described).await;
        let response = described.unwrap_or_else(|_| {
            let text = format!("no answer within {DESCRIBE_TIMEOUT:?}");
            Err(tonic::Status::deadline_exceeded(text))
        });
        match response {
            Ok(response) => {
                let response = response.into_inner();
                if !response.cluster.is_empty() {
                    let mut deadline = deadline.lock();
                    *deadline = (*deadline).min(Instant::now() + SILENT_STORE_TIMEOUT);
                }
                if response.node != id {
                    return Err(BadInput(format!(
                        "{address} is store {}, not store {id}; correct --stores",
                        response.node
                    ))
                    .into());
                }
                check_server_address(&response.address)
                    .with_context(|| format!("store {id} at {address}: --advertise"))?;
                return Ok(response);
            }
            Err(status) if status.code() == tonic::Code::Unimplemented => {
                return Err(BadInput(format!(
                    "{address} is no StoreSvr, so it cannot be store {id}; correct --stores"
                ))
                .into());
            }
            Err(status)
                if is_refused(&status)
                    || matches!(
                        status.code(),
                        tonic::Code::PermissionDenied | tonic::Code::Unauthenticated
                    ) =>
            {
                bail!("store {id} at {address}: {}", cause_of(&status));
            }
            Err(status) if Instant::now() > *deadline.lock() => {
                let cause = cause_of(&status);
                let text = format!(
                    "store {id} at {address} does not answer ({cause}); start it with `seqsvr store --id {id} --listen {address} --data-dir DIR`"
                );
                return Err(ServerUnavailable(text).into());
            }
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Returns what this process saw, or what the server said.
fn cause_of(status: &tonic::Status) -> String {
    local_cause(status).unwrap_or_else(|| status.message().to_owned())
}
