//! Caller that does what an AllocSvr does towards the store, and nothing else.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use seqsvr_core::ids::{NamespaceId, SectionId, SectionKey, SessionId, Slot};
use seqsvr_core::routing_table::{RoutingDelta, RoutingTable};
use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{self, section_command, section_reply};
use seqsvr_test_support::wait::TEST_TIMEOUT;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::store_cluster::{LEASE, call_leader};

pub(crate) struct FakeAlloc {
    pub(crate) session: u64,
    addresses: Vec<SocketAddr>,
    /// The table as Watch pushes it.
    pub(crate) table: watch::Receiver<Option<RoutingTable>>,
    /// t0 of the last renewal that was answered.
    pub(crate) renewed: watch::Receiver<Option<Instant>>,
    stop: CancellationToken,
}

impl FakeAlloc {
    /// Opens a session; watches at the last of the stores.
    pub(crate) async fn open(name: &str, addresses: &[SocketAddr]) -> Result<FakeAlloc, RpcError> {
        let request = v1::OpenSessionRequest {
            name: name.to_owned(),
            address: format!("{name}.example:7700"),
            incarnation: 1,
            nonce: u128_to_bytes(rand::random()),
            ..Default::default()
        };
        let opened = call_leader(addresses, |mut c| {
            let request = request.clone();
            async move { c.open_session(request).await }
        })
        .await?;
        assert_eq!(u128::from(opened.lease_ms), LEASE.as_millis());
        let (sender, table) = watch::channel(None);
        let stop = CancellationToken::new();
        let task = follow_routes(addresses.to_vec(), sender);
        let token = stop.clone();
        tokio::spawn(async move { token.run_until_cancelled(task).await });
        Ok(FakeAlloc {
            session: opened.session,
            addresses: addresses.to_vec(),
            table,
            renewed: watch::channel(None).1,
            stop,
        })
    }

    /// Opens a session and keeps it alive every D/3 until it is stopped.
    pub(crate) async fn open_renewing(
        name: &str,
        addresses: &[SocketAddr],
    ) -> Result<FakeAlloc, RpcError> {
        let mut alloc = FakeAlloc::open(name, addresses).await?;
        let (sender, renewed) = watch::channel(None);
        alloc.renewed = renewed;
        let (session, addresses, token) =
            (alloc.session, alloc.addresses.clone(), alloc.stop.clone());
        let keep = async move {
            loop {
                let t0 = Instant::now();
                if keep_alive(&addresses, session).await.is_err() {
                    return;
                }
                sender.send_replace(Some(t0));
                tokio::time::sleep(LEASE / 3).await;
            }
        };
        tokio::spawn(async move { token.run_until_cancelled(keep).await });
        Ok(alloc)
    }

    pub(crate) fn kill(&self) {
        self.stop.cancel();
    }

    /// Returns the slots that the table gives to this session, with epochs.
    pub(crate) fn slots(&self) -> Vec<(Slot, u64)> {
        let table = self.table.borrow();
        let own = table.iter().flat_map(|t| t.routes()).filter(|(_, route)| {
            let owner = route.owner.as_ref();
            owner.is_some_and(|o| o.session == SessionId(self.session))
        });
        own.map(|(slot, route)| (slot, route.epoch.0)).collect()
    }

    /// Waits until the table, as Watch pushes it, satisfies the condition.
    pub(crate) async fn wait_for_table(
        &self,
        condition: &str,
        is_met: impl Fn(&RoutingTable) -> bool,
    ) {
        let mut table = self.table.clone();
        let wait = table.wait_for(|t| t.as_ref().is_some_and(&is_met));
        let waited = tokio::time::timeout(TEST_TIMEOUT, wait).await;
        assert!(
            waited.is_ok_and(|w| w.is_ok()),
            "timed out waiting for {condition}"
        );
    }

    /// Returns fences of the first `count` sections of `default` in slots of this session.
    pub(crate) fn fences(&self, count: usize) -> Vec<v1::Fence> {
        let table = self.table.borrow().clone().unwrap();
        let own: std::collections::HashMap<_, _> = self.slots().into_iter().collect();
        let fence = |section: u32| {
            let slot = table.slot_of(SectionKey {
                namespace: NamespaceId(1),
                section: SectionId(section),
            });
            Some(v1::Fence {
                slot: u32::from(slot.0),
                epoch: *own.get(&slot)?,
                namespace: 1,
                section,
            })
        };
        (0..42_949).filter_map(fence).take(count).collect()
    }

    pub(crate) async fn submit(
        &self,
        commands: Vec<v1::SectionCommand>,
    ) -> Result<Vec<section_reply::Reply>, RpcError> {
        let request = v1::SubmitRequest {
            commands,
            cluster_tag: 0,
        };
        let response = call_leader(&self.addresses, |mut c| {
            let request = request.clone();
            async move { c.submit(request).await }
        });
        let replies = response.await?.replies.into_iter();
        Ok(replies.map(|r| r.reply.unwrap()).collect())
    }

    pub(crate) async fn keep_alive(&self) -> Result<v1::KeepAliveResponse, RpcError> {
        keep_alive(&self.addresses, self.session).await
    }
}

impl Drop for FakeAlloc {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn keep_alive(
    addresses: &[SocketAddr],
    session: u64,
) -> Result<v1::KeepAliveResponse, RpcError> {
    call_leader(addresses, |mut c| async move {
        let request = v1::KeepAliveRequest {
            session,
            table_version: 0,
            draining: false,
            cluster_tag: 0,
        };
        c.keep_alive(request).await
    })
    .await
}

/// Keeps the table by Watch alone, at the last store that can be reached.
async fn follow_routes(addresses: Vec<SocketAddr>, sender: watch::Sender<Option<RoutingTable>>) {
    let sender = Arc::new(sender);
    loop {
        for address in addresses.iter().rev() {
            let client = v1::store_client::StoreClient::connect(format!("http://{address}")).await;
            let Ok(mut client) = client else { continue };
            let table_version = sender.borrow().as_ref().map_or(0, |t| t.version());
            let Ok(stream) = client
                .watch(v1::WatchRequest {
                    table_version,
                    cluster_tag: 0,
                })
                .await
            else {
                continue;
            };
            let mut stream = stream.into_inner();
            while let Ok(Some(message)) = stream.message().await {
                let delta = RoutingDelta::try_from(&message).unwrap();
                sender.send_modify(|table| match table {
                    Some(table) => drop(table.apply_delta(delta).unwrap()),
                    None => *table = Some(RoutingTable::new(delta).unwrap()),
                });
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) fn open_command(fence: v1::Fence) -> v1::SectionCommand {
    v1::SectionCommand {
        fence: Some(fence),
        command: Some(section_command::Command::Open(v1::Open {
            expected: None,
            nonce: u128_to_bytes(rand::random()),
            step: 100,
        })),
    }
}

pub(crate) fn raise_command(fence: v1::Fence, generation: u64, to: u64) -> v1::SectionCommand {
    v1::SectionCommand {
        fence: Some(fence),
        command: Some(section_command::Command::Raise(v1::Raise {
            generation,
            to,
            raise_to: false,
            force: false,
        })),
    }
}

pub(crate) fn close_command(fence: v1::Fence, generation: u64, value: u64) -> v1::SectionCommand {
    v1::SectionCommand {
        fence: Some(fence),
        command: Some(section_command::Command::Close(v1::Close {
            generation,
            high_water_mark: value,
        })),
    }
}
