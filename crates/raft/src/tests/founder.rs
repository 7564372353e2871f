//! The power goes off, or the disk fails, while a node makes a cluster, before its log begins.

use std::sync::Arc;
use std::time::{Duration, Instant};

use seqsvr_core::ids::ClusterId;
use seqsvr_net::TcpTransport;

use super::*;
use crate::node::{GroupMember, RaftNode};
use crate::storage::founder;
use crate::storage::identity::NodeIdentity;

const CLUSTER: ClusterId = ClusterId(0xc1);

/// Makes the directory as it is after a cut behind the adoption; `noted` says that the node was
/// requested to make the cluster.
async fn cut_after_adoption(options: &Options, noted: bool) -> GroupMember {
    let storage = open_storage(options).unwrap();
    let identity = NodeIdentity {
        cluster: Some(CLUSTER),
        ..storage.identity
    };
    if noted {
        founder::store_founded_cluster(&storage.directory, CLUSTER).unwrap();
    }
    storage.log.set_stamp(identity).await.unwrap();
    identity.store(&storage.directory).unwrap();
    GroupMember {
        id: identity.node,
        address: options.address.clone(),
        incarnation: identity.incarnation,
        is_voter: true,
    }
}

/// Opens the node as [`open_storage`] opens storage: a child of another test may hold the lock for
/// a moment.
async fn open_node(options: &Options) -> RaftNode {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        match RaftNode::open(options.clone(), Arc::new(TcpTransport)).await {
            Err(Error::Locked(_)) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            other => return other.unwrap(),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_init_continues_only_at_the_founder() {
    for noted in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new(1, "127.0.0.1:1", dir.path());
        let member = cut_after_adoption(&options, noted).await;
        let node = open_node(&options).await;
        let made = node.create_cluster(vec![member], CLUSTER, 3_000, 4).await;
        assert_eq!(made.is_ok(), noted, "{made:?}");
        node.shutdown().await;
    }
}

/// Invariant: a failed write ends the node, as a failed append does. Schedule that breaks it: the
/// stamp cannot be written into the log, whose writer is dead from then on; the node rejects each
/// later adoption, and continues to run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_write_during_adoption_stops_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(1, "127.0.0.1:1", dir.path());
    let node = open_node(&options).await;
    let identity = node.identity();
    let member = GroupMember {
        id: identity.node,
        address: options.address.clone(),
        incarnation: identity.incarnation,
        is_voter: true,
    };
    // The new identity is written under this name first, and a directory is in its way.
    let blocked = dir.path().join("identity.tmp");
    std::fs::create_dir(&blocked).unwrap();
    let refused = node.create_cluster(vec![member], CLUSTER, 3_000, 4).await;
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    let mut failed = node.watch_failure();
    let reason = tokio::time::timeout(Duration::from_secs(20), failed.wait_for(Option::is_some));
    let reason = reason.await.expect("the node ends").unwrap().clone();
    let reason = reason.unwrap();
    assert!(reason.contains(blocked.to_str().unwrap()), "{reason}");
    node.shutdown().await;
}
