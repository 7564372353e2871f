//! `seqsvr init`: creates the cluster, once.
//!
//! The command first asks every store for its identity, so that the membership names data
//! directories (their random incarnations), not just addresses. A retry after a lost answer takes
//! the cluster id of the first attempt.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::future::try_join_all;
use rand::RngExt;
use seqsvr_proto::convert::u128_bytes;
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{DescribeRequest, DescribeResponse, InitRequest, Member};
use tokio::time::{Instant, sleep};
use tonic::transport::{Channel, Endpoint};

use crate::exit::{BadInput, Unavailable};
use crate::{cli, out};

pub(crate) async fn run(args: cli::Init) -> anyhow::Result<()> {
    let mut stores = BTreeMap::new();
    for entry in &args.stores {
        let (id, address) = cli::store_at(entry, "--stores")?;
        if stores.insert(id, address).is_some() {
            return Err(BadInput(format!("--stores names store {id} twice")).into());
        }
    }
    let cluster = make(&stores, args.lease_ms, args.slots, args.timeout).await?;
    out::line(format_args!("{cluster:032x}"))?;
    Ok(())
}

/// Creates a cluster of these stores, or completes an earlier attempt. Returns the cluster id.
pub(crate) async fn make(
    stores: &BTreeMap<u64, String>,
    lease_ms: u32,
    slots: u32,
    wait: Duration,
) -> anyhow::Result<u128> {
    let deadline = Instant::now() + wait;
    let described = try_join_all(
        stores
            .iter()
            .map(|(id, address)| describe(*id, address, deadline)),
    )
    .await?;
    let mut ids: Vec<_> = described
        .iter()
        .filter(|d| !d.cluster.is_empty())
        .map(|d| d.cluster.clone())
        .collect();
    ids.dedup();
    let cluster = match ids.as_slice() {
        [] => u128_bytes(rand::rng().random()),
        [one] => one.clone(),
        _ => bail!("these stores belong to different clusters already; nothing was changed"),
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
    let began = described.iter().any(|d| !d.cluster.is_empty());
    let addresses: Vec<&str> = described
        .iter()
        .zip(stores.values())
        .filter(|(d, _)| !began || !d.cluster.is_empty())
        .map(|(_, address)| address.as_str())
        .take(if began { usize::MAX } else { 1 })
        .collect();
    for address in addresses.into_iter().cycle() {
        let status = match StoreClient::new(channel(address)?)
            .init(request.clone())
            .await
        {
            Ok(_) => break,
            Err(status) => status,
        };
        let fault = Fault::from_status(&status);
        let passing = matches!(
            status.code(),
            tonic::Code::Unavailable | tonic::Code::DeadlineExceeded
        );
        if !passing || Instant::now() > deadline {
            bail!("store {address} did not make the cluster: {fault}");
        }
        sleep(Duration::from_millis(200)).await;
    }
    Ok(u128::from_be_bytes(
        cluster
            .as_ref()
            .try_into()
            .context("a store gave a malformed cluster id")?,
    ))
}

async fn describe(id: u64, address: &str, deadline: Instant) -> anyhow::Result<DescribeResponse> {
    loop {
        let asked = StoreClient::new(channel(address)?)
            .describe(DescribeRequest {})
            .await;
        match asked {
            Ok(found) => {
                let found = found.into_inner();
                if found.node != id {
                    return Err(BadInput(format!(
                        "{address} is store {}, not store {id}; correct --stores",
                        found.node
                    ))
                    .into());
                }
                return Ok(found);
            }
            Err(status) if Instant::now() > deadline => {
                let text = format!(
                    "store {id} at {address} does not answer ({}); start it with `seqsvr store --id {id} --listen {address} --data-dir DIR`",
                    status.message()
                );
                return Err(Unavailable(text).into());
            }
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

fn channel(address: &str) -> anyhow::Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .with_context(|| format!("address {address:?}"))?;
    Ok(endpoint
        .connect_timeout(Duration::from_secs(1))
        .timeout(Duration::from_secs(10))
        .connect_lazy())
}
