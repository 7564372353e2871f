//! `seqsvr init`: creates the cluster, once.
//!
//! The command first requests the identity of every store, so that the membership names data
//! directories (their random incarnations), not just addresses. A retry after a lost answer takes
//! the cluster id of the first attempt.
//!
//! Invariant: success means that the cluster has the settings of the command. A store answers
//! `Init` for a cluster that exists as done, also with other settings, so that a retry is harmless.
//! Then the settings are compared with those that the leader reports.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::future::try_join_all;
use rand::RngExt;
use seqsvr_core::server_address::check_server_address;
use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{
    ClusterStatusRequest, ClusterStatusResponse, DescribeRequest, DescribeResponse, InitRequest,
    Member, Reason,
};
use tokio::time::{Instant, sleep};
use tonic::transport::{Channel, Endpoint};

use crate::cli;
use crate::output::exit_code::{BadInput, ServerUnavailable};
use crate::output::stdout;

pub(crate) async fn run(args: cli::InitArgs) -> anyhow::Result<()> {
    let mut stores = BTreeMap::new();
    for entry in &args.stores {
        let (id, address) = cli::parse_store_member(entry, "--stores")?;
        if stores.insert(id, address).is_some() {
            return Err(BadInput(format!("--stores names store {id} twice")).into());
        }
    }
    let deadline = Instant::now() + args.timeout;
    let (cluster, existed) =
        create_cluster(&stores, args.lease_ms, args.slots, args.timeout).await?;
    if existed {
        let settings = ClusterSettings {
            lease_ms: args.lease_ms,
            slots: Some(args.slots),
        };
        settings.check(&stores, deadline).await?;
    }
    stdout::print_line(format_args!("{cluster:032x}"))?;
    Ok(())
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
        stores: &BTreeMap<u64, String>,
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
    stores: &BTreeMap<u64, String>,
    deadline: Instant,
) -> anyhow::Result<ClusterStatusResponse> {
    loop {
        let mut last = String::new();
        // The leader may be a store that the command does not name.
        let mut leaders = Vec::new();
        for address in stores.values() {
            match request_status(address).await {
                Ok(status) => return Ok(status),
                Err(error) => {
                    leaders.push(error.detail.leader.clone());
                    last = format!("{address}: {error}");
                }
            }
        }
        leaders.retain(|leader| check_server_address(leader).is_ok());
        if let Some(leader) = leaders.first()
            && let Ok(status) = request_status(leader).await
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

async fn request_status(address: &str) -> Result<ClusterStatusResponse, RpcError> {
    let channel =
        open_channel(address).map_err(|e| RpcError::new(Reason::Invalid, format!("{e:#}")))?;
    let answer = AdminClient::new(channel)
        .cluster_status(ClusterStatusRequest {})
        .await;
    match answer {
        Ok(answer) => Ok(answer.into_inner()),
        Err(status) => Err(RpcError::from_status(&status)),
    }
}

/// Creates a cluster of these stores, or completes an earlier attempt. Returns the cluster id, and
/// whether a store had it before.
pub(crate) async fn create_cluster(
    stores: &BTreeMap<u64, String>,
    lease_ms: u32,
    slots: u32,
    timeout: Duration,
) -> anyhow::Result<(u128, bool)> {
    let deadline = Instant::now() + timeout;
    let described = try_join_all(
        stores
            .iter()
            .map(|(id, address)| describe_store(*id, address, deadline)),
    )
    .await?;
    let mut cluster_ids: Vec<_> = described
        .iter()
        .filter(|d| !d.cluster.is_empty())
        .map(|d| d.cluster.clone())
        .collect();
    cluster_ids.dedup();
    let cluster = match cluster_ids.as_slice() {
        [] => u128_to_bytes(rand::rng().random()),
        [one] => one.clone(),
        _ => bail!(
            "these stores belong to different clusters; nothing was changed; correct --stores"
        ),
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
        .zip(stores.values())
        .filter(|(d, _)| !is_retry || !d.cluster.is_empty())
        .map(|(_, address)| address.as_str())
        .take(if is_retry { usize::MAX } else { 1 })
        .collect();
    for address in addresses.into_iter().cycle() {
        let status = match StoreClient::new(open_channel(address)?)
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
    let cluster = cluster.as_ref().try_into();
    let cluster = cluster.context("a store returned a malformed cluster id")?;
    Ok((u128::from_be_bytes(cluster), is_retry))
}

/// Requests the identity of a store until it answers or the deadline has passed.
async fn describe_store(
    id: u64,
    address: &str,
    deadline: Instant,
) -> anyhow::Result<DescribeResponse> {
    loop {
        let response = StoreClient::new(open_channel(address)?)
            .describe(DescribeRequest {})
            .await;
        match response {
            Ok(response) => {
                let response = response.into_inner();
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
            Err(status) if Instant::now() > deadline => {
                let text = format!(
                    "store {id} at {address} does not answer ({}); start it with `seqsvr store --id {id} --listen {address} --data-dir DIR`",
                    status.message()
                );
                return Err(ServerUnavailable(text).into());
            }
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

fn open_channel(address: &str) -> anyhow::Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .with_context(|| format!("address {address:?}"))?;
    Ok(endpoint
        .connect_timeout(Duration::from_secs(1))
        .timeout(Duration::from_secs(10))
        .connect_lazy())
}
