//! Files that are sound and not this node's, or not of this time: another node's, another
//! cluster's, an older copy's. The node rejects those that matter by name, and starts once the
//! right ones are back. Rows are quarantined and rebuilt.

use std::fs;
use std::path::Path;

use seqsvr_core::state::State;
use seqsvr_raft::{Error, Options};

use super::damaged_files::{
    assert_restarts_with, copy_dir, count_quarantined, list_files, open_error,
    stopped_node_with_history,
};
use super::disk_at_start::{assert_names_path, list_log_files, read_tree};
use crate::support::running_node::{
    RunningNode, start_cluster, wait_for_level, wait_until, wait_until_equal, write_session,
};

/// Puts `theirs` in the place of `ours`, checks the rejection, and puts ours back.
async fn assert_foreign_is_rejected(
    options: &Options,
    ours: &Path,
    theirs: &Path,
    named: &Path,
    parts: &[&str],
) {
    let kept = options.data_dir.with_extension("kept");
    fs::rename(ours, &kept).unwrap();
    match theirs.is_dir() {
        true => copy_dir(theirs, ours),
        false => drop(fs::copy(theirs, ours).unwrap()),
    }
    let before = read_tree(&options.data_dir);
    let error = open_error(options).await;
    assert!(
        matches!(
            error,
            Error::Damaged { .. } | Error::WrongNode { .. } | Error::LogLost { .. }
        ),
        "{error}"
    );
    assert_names_path(&error, named, parts);
    assert_eq!(
        read_tree(&options.data_dir),
        before,
        "the rejected start changed a file"
    );
    assert_eq!(count_quarantined(options), 0);
    match ours.is_dir() {
        true => fs::remove_dir_all(ours).unwrap(),
        false => fs::remove_file(ours).unwrap(),
    }
    fs::rename(&kept, ours).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_another_node_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = start_cluster(dir.path(), 3, |o| {
        o.snapshot_interval_entries = 30;
        o.keep_entries = 5;
    })
    .await;
    for i in 0..80 {
        write_session(&nodes, &format!("n{i}")).await;
    }
    wait_until("a snapshot and a purge everywhere", || {
        nodes.iter().all(|n| n.node.counters().purged_index > 30)
    })
    .await;
    wait_until_equal(&nodes, ["n79"].into_iter()).await;
    let mut all = Vec::new();
    for node in nodes {
        all.push(node.kill().await);
    }
    let (two, one) = (&all[1], all[0].data_dir.clone());
    let ours = two.data_dir.clone();
    let log = ours.join("log");
    assert_foreign_is_rejected(
        two,
        &log,
        &one.join("log"),
        &log,
        &["written by node 1", "not by this directory's node 2"],
    )
    .await;
    let identity = ours.join("identity");
    assert_foreign_is_rejected(
        two,
        &identity,
        &one.join("identity"),
        &ours,
        &["belongs to node 1", "check --id and --data-dir"],
    )
    .await;
    assert_foreign_is_rejected(
        two,
        &ours,
        &one,
        &ours,
        &["belongs to node 1", "check --id and --data-dir"],
    )
    .await;

    // Rows of another node are at best the same: they are not used, and nothing is lost.
    let rows = ours.join("state");
    copy_dir(&one.join("state"), &rows);
    let mut nodes = Vec::new();
    for options in &all {
        nodes.push(RunningNode::restart(options.clone()).await.unwrap());
    }
    assert_eq!(count_quarantined(two), 1);
    write_session(&nodes, "after").await;
    wait_until_equal(&nodes, ["n0", "n79", "after"].into_iter()).await;
}

/// Two clusters with histories of the same shape, so that ids of entries are equal in both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_another_cluster_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let (options, state) = stopped_node_with_history(&dir.path().join("a")).await;
    let (other, alien) = start_similar_node(&dir.path().join("b"), &options).await;
    let (ours, theirs) = (options.data_dir.clone(), other.data_dir.clone());
    for part in ["log", "identity"] {
        let path = ours.join(part);
        let log = ours.join("log");
        assert_foreign_is_rejected(&options, &path, &theirs.join(part), &log, &["incarnation"])
            .await;
    }
    // In the place of ours, and beside it under a name that sorts after it.
    let own = list_files(&ours.join("snapshots")).pop().unwrap();
    let alien_snapshot = list_files(&theirs.join("snapshots")).pop().unwrap();
    let beside = ours
        .join("snapshots")
        .join(alien_snapshot.file_name().unwrap());
    assert!(beside >= own, "{beside:?} sorts before {own:?}");
    if beside != own {
        fs::copy(&alien_snapshot, &beside).unwrap();
        let before = read_tree(&ours);
        assert_names_path(&open_error(&options).await, &beside, &["it is of cluster"]);
        assert_eq!(
            read_tree(&ours),
            before,
            "the rejected start changed a file"
        );
        fs::remove_file(&beside).unwrap();
    }
    assert_foreign_is_rejected(
        &options,
        &own,
        &alien_snapshot,
        &ours.join("snapshots"),
        &["is damaged"],
    )
    .await;
    assert_restarts_with(&options, &state).await;

    // Rows of the same last applied id, and of another cluster.
    copy_dir(&theirs.join("state"), &ours.join("state"));
    assert_ne!(state, alien);
    assert_restarts_with(&options, &state).await;
    assert_eq!(count_quarantined(&options), 1);
    // As written by a build that did not note their owner.
    copy_dir(&theirs.join("state"), &ours.join("state"));
    let db = sled::open(ours.join("state")).unwrap();
    db.remove(b"p").unwrap().expect("the note");
    drop(db);
    assert_restarts_with(&options, &state).await;
    assert_eq!(count_quarantined(&options), 2);
}

/// Returns a node of another cluster that has applied the same ids as the one of `options`.
async fn start_similar_node(dir: &Path, options: &Options) -> (Options, State) {
    let mut like = crate::support::running_node::start_node(dir, 1, |o| {
        let (address, data_dir) = (o.address.clone(), o.data_dir.clone());
        *o = Options {
            address,
            data_dir,
            ..options.clone()
        };
    })
    .await;
    let cluster = seqsvr_core::ids::ClusterId(0xa11e);
    let member = like.member();
    like.node
        .create_cluster(vec![member], cluster, 3_000, 64)
        .await
        .unwrap();
    wait_for_level(std::slice::from_ref(&like)).await;
    let own = RunningNode::restart(options.clone()).await.unwrap();
    wait_until("it leads", || own.is_ready_leader()).await;
    let goal = own.node.counters();
    own.kill().await;
    // As many terms, then as many entries.
    while like.node.counters().term < goal.term {
        like = RunningNode::restart(like.kill().await).await.unwrap();
        wait_until("it leads", || like.is_ready_leader()).await;
    }
    while like.node.counters().last_log_index < goal.last_log_index {
        let name = format!("other{}", like.node.counters().last_log_index);
        write_session(std::slice::from_ref(&like), &name).await;
    }
    wait_until("its snapshot", || like.node.counters().snapshot_index > 30).await;
    let (ours, theirs) = (goal, like.node.counters());
    assert_eq!(
        (ours.term, ours.last_log_index),
        (theirs.term, theirs.last_log_index)
    );
    let state = like.node.with_state(State::clone);
    (like.kill().await, state)
}

/// A voter that continues from an older copy of its log has lost what it acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_log_beside_newer_rows_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = start_cluster(dir.path(), 1, |_| {}).await;
    for i in 0..20 {
        write_session(&nodes, &format!("early{i}")).await;
    }
    let options = nodes.into_iter().next().unwrap().kill().await;
    let (log, old) = (options.data_dir.join("log"), dir.path().join("old"));
    copy_dir(&log, &old);
    let nodes = vec![RunningNode::restart(options.clone()).await.unwrap()];
    wait_for_level(&nodes).await;
    for i in 0..20 {
        write_session(&nodes, &format!("late{i}")).await;
    }
    let state = nodes[0].node.with_state(State::clone);
    nodes.into_iter().next().unwrap().kill().await;
    assert_foreign_is_rejected(&options, &log, &old, &log, &["older copy or lost its end"]).await;
    assert_restarts_with(&options, &state).await;

    // Whole records cut off its end: sound to every checksum.
    let wal = list_log_files(&log).pop().unwrap();
    let good = fs::read(&wal).unwrap();
    fs::write(&wal, &good[..good.len() - 600]).unwrap();
    assert_names_path(
        &open_error(&options).await,
        &log,
        &["older copy or lost its end"],
    );
    fs::write(&wal, &good).unwrap();
    for extra in list_log_files(&log).into_iter().filter(|f| *f > wal) {
        fs::remove_file(extra).unwrap();
    }
    assert_restarts_with(&options, &state).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_snapshot_in_place_of_newer_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let (options, _) = stopped_node_with_history(dir.path()).await;
    let snapshots = options.data_dir.join("snapshots");
    let old = dir.path().join("old");
    copy_dir(&snapshots, &old);
    let nodes = vec![RunningNode::restart(options.clone()).await.unwrap()];
    let before = nodes[0].node.counters().purged_index;
    for i in 0..60 {
        write_session(&nodes, &format!("late{i}")).await;
    }
    wait_until("a later purge", || {
        nodes[0].node.counters().purged_index > before + 30
    })
    .await;
    let state = nodes[0].node.with_state(State::clone);
    nodes.into_iter().next().unwrap().kill().await;
    assert_foreign_is_rejected(
        &options,
        &snapshots,
        &old,
        &snapshots,
        &["a snapshot is missing"],
    )
    .await;
    assert_restarts_with(&options, &state).await;
}

/// An identity from before the node joined its cluster: the log has the right one, and no other
/// cluster may adopt the node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identity_from_before_the_cluster_is_updated_from_log() {
    let dir = tempfile::tempdir().unwrap();
    let options = crate::support::running_node::start_node(dir.path(), 1, |_| {})
        .await
        .kill()
        .await;
    let identity = options.data_dir.join("identity");
    let waiting = fs::read(&identity).unwrap();
    let node = RunningNode::restart(options.clone()).await.unwrap();
    let members = vec![node.member()];
    node.node
        .create_cluster(members, crate::support::running_node::CLUSTER, 3_000, 64)
        .await
        .unwrap();
    wait_for_level(std::slice::from_ref(&node)).await;
    write_session(std::slice::from_ref(&node), "a").await;
    let state = node.node.with_state(State::clone);
    node.kill().await;
    let joined = fs::read(&identity).unwrap();
    assert_ne!(joined, waiting);
    fs::write(&identity, &waiting).unwrap();
    assert_restarts_with(&options, &state).await;
    assert_eq!(fs::read(&identity).unwrap(), joined);
}
