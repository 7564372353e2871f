//! Backup files, and a cluster made from one.

use std::collections::BTreeSet;
use std::sync::Arc;

use seqsvr_core::command::{Batch, Command, Fence, RaiseCause, Reply};
use seqsvr_core::ids::{
    ClusterId, Epoch, Generation, NamespaceId, Nonce, SectionId, SectionKey, Slot,
};
use seqsvr_core::state::State;
use seqsvr_core::state::restore::RestoreMargins;
use seqsvr_net::TcpTransport;
use seqsvr_raft::backup::{self, StateBackup};
use seqsvr_raft::{Error, RaftNode, restore};

use crate::support::running_node::{
    RunningNode, bind_loopback, leader, start_cluster, start_node, wait_for_level, wait_until,
    wait_until_equal, wait_until_unlocked, write_session,
};

const NEW_CLUSTER: ClusterId = ClusterId(0xbeef);

pub(crate) fn test_section() -> SectionKey {
    SectionKey {
        namespace: NamespaceId(1),
        section: SectionId(3),
    }
}

/// Opens a section at its owner, which takes its slot first.
pub(crate) async fn open_section(node: &RaftNode) -> u64 {
    let slot = node.with_state(|s| s.slot_of(test_section())).unwrap();
    let to = node.with_state(|s| s.sessions().next().map(|(id, _)| id));
    let epoch = |slot: Slot| node.with_state(|s| s.slots()[usize::from(slot.0)].epoch);
    let from: Epoch = epoch(slot);
    let assign = Command::Assign {
        slot,
        from,
        to: to.unwrap(),
    };
    let generation = node.with_state(|s| s.section(test_section()).map(|s| s.generation));
    let open = Command::Open {
        fence: Fence {
            slot,
            epoch: Epoch(from.0 + 1),
            section: test_section(),
        },
        expected: generation.unwrap_or(Generation(0)),
        nonce: Nonce(77),
        step: 100,
    };
    let commands = vec![assign, open];
    let replies = node.propose(Batch { commands }).await.unwrap();
    match replies[..] {
        [Reply::Slot { .. }, Reply::Opened { base, .. }] => base,
        _ => panic!("{replies:?}"),
    }
}

const TAKEN_AT: u64 = 1_700_000_000;

/// Closes the section at its owner, with no number of it used.
pub(crate) async fn close_section(node: &RaftNode) {
    let slot = node.with_state(|s| s.slot_of(test_section())).unwrap();
    let close = Command::CloseSection {
        fence: Fence {
            slot,
            epoch: node.with_state(|s| s.slots()[usize::from(slot.0)].epoch),
            section: test_section(),
        },
        generation: node.with_state(|s| s.section(test_section()).unwrap().generation),
        value: 0,
    };
    let commands = vec![close];
    // The caller may cut it off from a quorum.
    let _ = node.propose(Batch { commands }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_is_restored_as_new_cluster() {
    // 1. Back up a cluster, and read the file.
    let dir = tempfile::tempdir().unwrap();
    let nodes = start_cluster(&dir.path().join("old"), 3, |_| {}).await;
    // A restored node would raise the level of an earlier backup.
    wait_for_level(&nodes).await;
    write_session(&nodes, "alloc-of-the-old-cluster").await;
    let at = leader(&nodes).await;
    assert_eq!(open_section(&nodes[at].node).await, 0);
    let index = nodes[at].node.confirm_leadership().await.unwrap();
    let taken = nodes[at].node.backup(TAKEN_AT).unwrap();
    assert!(taken.header.index >= index);
    assert_eq!(taken.header.usage.added, [(NamespaceId(1), 100)]);
    let whole = nodes[at].node.with_state(State::clone);
    assert!(whole.sessions().count() > 0 && whole.slots().iter().any(|s| s.owner.is_some()));
    assert_eq!(taken.state, whole.for_backup());

    let file = dir.path().join("backup");
    let mut bytes = Vec::new();
    taken.write(&mut bytes).unwrap();
    std::fs::write(&file, &bytes).unwrap();
    assert_eq!(backup::read_backup_file(&file).unwrap(), taken);
    // The nonce of a session proves who may supersede it.
    let name = b"alloc-of-the-old-cluster";
    assert!(whole.find_session("alloc-of-the-old-cluster").is_some());
    assert!(!bytes.windows(name.len()).any(|part| part == name));

    // 2. Restore it to a new directory.
    let margins = RestoreMargins {
        max_seq: 1_000,
        start: 10_000,
        epoch: 5,
        ids_from_ms: None,
    };
    let state = taken.state.restored(NEW_CLUSTER, margins).unwrap();
    // A file of an earlier build has the sessions.
    assert_eq!(whole.restored(NEW_CLUSTER, margins).unwrap(), state);
    let (listener, address) = bind_loopback().await;
    let options = seqsvr_raft::Options::new(7, address, dir.path().join("new"));
    let identity = restore::prepare_data_dir(&state, &options).await.unwrap();
    assert_eq!(identity.cluster, Some(NEW_CLUSTER));
    // A directory that is not empty is never overwritten.
    let again = restore::prepare_data_dir(&state, &options).await;
    assert!(matches!(again, Err(Error::Options(text)) if text.contains("not empty")));

    // 3. The node leads a cluster of its own, and continues above the margin.
    let mut new = vec![RunningNode::start(options, listener).await.unwrap()];
    wait_until("the restored node to lead", || new[0].is_ready_leader()).await;
    assert_eq!(new[0].node.identity(), identity);
    // Its directory has its store id as well.
    let mut expected = state.clone();
    expected.record_store_id(7, &mut BTreeSet::new());
    assert_eq!(new[0].node.with_state(State::clone), expected);
    write_session(&new, "b1").await;
    let base = open_section(&new[0].node).await;
    assert_eq!(base, state.section(test_section()).unwrap().max_seq);
    assert!(base >= 1_100);

    // 4. It starts again, and other nodes join it.
    let options = new.remove(0).kill().await;
    new.push(RunningNode::restart(options).await.unwrap());
    write_session(&new, "b2").await;
    new.push(start_node(dir.path(), 8, |_| {}).await);
    let member = new[1].member();
    let added = new[0]
        .node
        .add_member(8, &member.address, member.incarnation);
    added.await.unwrap();
    wait_until_equal(&new, ["b1", "b2"].into_iter()).await;

    // 5. A node of the old cluster does not join the new one.
    let member = nodes[0].member();
    let rejection = new[0]
        .node
        .add_member(1, &member.address, member.incarnation);
    assert!(rejection.await.is_err());
    let options = nodes.into_iter().next().unwrap().kill().await;
    wait_until_unlocked(&options.data_dir).await;
    let old = RaftNode::open(options, Arc::new(TcpTransport))
        .await
        .unwrap();
    assert_ne!(old.identity().cluster, Some(NEW_CLUSTER));
    old.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_backup_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = start_cluster(&dir.path().join("old"), 1, |_| {}).await;
    write_session(&nodes, "a1").await;
    open_section(&nodes[0].node).await;
    let taken: StateBackup = nodes[0].node.backup(TAKEN_AT).unwrap();
    let mut good = Vec::new();
    taken.write(&mut good).unwrap();
    let file = dir.path().join("backup");
    let read = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        backup::read_backup_file(&file)
    };
    assert_eq!(read(&good).unwrap(), taken);
    for byte in 0..good.len() {
        let mut bad = good.clone();
        bad[byte] ^= 1 << (byte % 8);
        assert!(
            matches!(read(&bad), Err(backup::Error::Damaged { .. })),
            "byte {byte}"
        );
        let cut = read(&good[..byte]);
        assert!(
            matches!(cut, Err(backup::Error::Damaged { .. })),
            "cut at {byte}"
        );
    }
    let mut newer = good.clone();
    newer[8] = 9;
    let head = crc32fast::hash(&newer[8..13]);
    newer[13..17].copy_from_slice(&head.to_be_bytes());
    let rejection = read(&newer);
    assert!(
        matches!(rejection, Err(backup::Error::Version { version: 9, .. })),
        "{rejection:?}"
    );
    let mut longer = good.clone();
    longer.push(0);
    assert!(matches!(read(&longer), Err(backup::Error::Damaged { .. })));
    let absent = backup::read_backup_file(&dir.path().join("absent"));
    assert!(matches!(absent, Err(backup::Error::Io { .. })));
}

/// Schedule: a store applies for days as a follower, leads for an hour, and makes a backup. If it
/// counted only its own proposals, its pace would be a small part of the true one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_report_counts_entries_applied_by_each_store() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = start_cluster(dir.path(), 3, |_| {}).await;
    write_session(&nodes, "a1").await;
    let at = leader(&nodes).await;
    open_section(&nodes[at].node).await;
    let index = nodes[at].node.watch_applied().borrow().index;
    for one in &nodes {
        wait_until("all have applied it", || {
            one.node.watch_applied().borrow().index >= index
        })
        .await;
        let seen = one.node.backup(TAKEN_AT).unwrap().header.usage;
        assert_eq!(seen.taken_at, TAKEN_AT);
        assert_eq!(seen.added, [(NamespaceId(1), 100)]);
        assert_eq!(seen.busiest_minute, [(NamespaceId(1), 100)]);
    }
}

/// Schedule: a store restarts and applies its log again. Those entries may be days old: counted in
/// the seconds since the start they would give any pace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_report_skips_entries_replayed_at_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 1, |_| {}).await;
    write_session(&nodes, "a1").await;
    open_section(&nodes[0].node).await;
    let options = nodes.remove(0).kill().await;
    // Without its rows it applies the whole log.
    std::fs::remove_dir_all(options.data_dir.join("state")).unwrap();
    nodes.push(RunningNode::restart(options).await.unwrap());
    leader(&nodes).await;
    let node = &nodes[0].node;
    wait_until("the section is there", || {
        node.with_state(|s| s.section(test_section()).is_some())
    })
    .await;
    let seen = node.backup(TAKEN_AT).unwrap().header.usage;
    assert_eq!((seen.added, seen.busiest_minute), (vec![], vec![]));
    let raise = Command::Raise {
        fence: Fence {
            slot: node.with_state(|s| s.slot_of(test_section())).unwrap(),
            epoch: Epoch(1),
            section: test_section(),
        },
        generation: Generation(1),
        to: 150,
        cause: RaiseCause::Refill,
    };
    let commands = vec![raise];
    node.propose(Batch { commands }).await.unwrap();
    let seen = node.backup(TAKEN_AT).unwrap().header.usage;
    assert_eq!(seen.added, [(NamespaceId(1), 50)]);
}

/// A snapshot is no backup: it does not say when it was taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshot_file_is_rejected_as_backup() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("snapshot");
    let golden = include_str!("../golden/snapshot.hex");
    let digits: Vec<u8> = golden.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    std::fs::write(&file, digits.chunks(2).map(byte).collect::<Vec<u8>>()).unwrap();
    let rejection = backup::read_backup_file(&file).unwrap_err();
    assert!(rejection.to_string().contains("begin like a backup"));
}
