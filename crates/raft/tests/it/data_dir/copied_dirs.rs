//! Copies of a data directory: a copy does not start beside its original; a volume that moved does.
//! A clone that no file in the directory reveals is found by its votes.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use seqsvr_raft::{Error, Options};

use super::damaged_files::open_error;
use super::disk_at_start::read_tree;
use crate::disk::{Disk, run, skipped};
use crate::support::running_node::{
    RunningNode, bind_loopback, leader, start_cluster, start_node, wait_until, wait_until_equal,
    wait_until_unlocked, write_session,
};

fn copy_tree(from: &Path, to: &Path) {
    run("cp", &["-a", from.to_str().unwrap(), to.to_str().unwrap()]).unwrap();
}

/// Returns a single node that has written something, stopped.
async fn stopped_single_node(dir: &Path) -> Options {
    let nodes = start_cluster(dir, 1, |_| {}).await;
    write_session(&nodes, "a").await;
    let options = nodes.into_iter().next().unwrap().kill().await;
    wait_until_unlocked(&options.data_dir).await;
    options
}

async fn assert_starts(options: &Options) {
    let node = RunningNode::restart(options.clone()).await.unwrap();
    let nodes = [node];
    write_session(&nodes, "again").await;
    wait_until_equal(&nodes, ["a", "again"].into_iter()).await;
    let [node] = nodes;
    node.kill().await;
    wait_until_unlocked(&options.data_dir).await;
}

async fn assert_rejected_as_copy(options: &Options) {
    let before = read_tree(&options.data_dir);
    let error = open_error(options).await;
    assert!(matches!(error, Error::Copied { .. }), "{error}");
    let text = error.to_string();
    for part in ["is a copy", "--moved-data-dir", "Start the original"] {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
    assert_eq!(
        read_tree(&options.data_dir),
        before,
        "the rejected start changed a file"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copied_data_dir_is_rejected_until_declared_moved() {
    let dir = tempfile::tempdir().unwrap();
    let options = stopped_single_node(dir.path()).await;
    let mut copy = options.clone();
    copy.data_dir = dir.path().join("copy");
    copy_tree(&options.data_dir, &copy.data_dir);
    assert_rejected_as_copy(&copy).await;
    // It is also rejected beside its original.
    let original = RunningNode::restart(options.clone()).await.unwrap();
    assert_rejected_as_copy(&copy).await;
    original.kill().await;

    copy.moved_data_dir = true;
    assert_starts(&copy).await;
    // It is bound to its new place from then on.
    copy.moved_data_dir = false;
    assert_starts(&copy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_dir_of_older_build_is_bound_at_first_start() {
    let dir = tempfile::tempdir().unwrap();
    let options = stopped_single_node(dir.path()).await;
    std::fs::remove_file(options.data_dir.join("binding")).unwrap();
    assert_starts(&options).await;
    let mut copy = options.clone();
    copy.data_dir = dir.path().join("copy");
    copy_tree(&options.data_dir, &copy.data_dir);
    assert_rejected_as_copy(&copy).await;
}

/// Neither path nor device belong to the binding: a volume returns elsewhere with its inodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_dir_with_same_inodes_starts_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = stopped_single_node(dir.path()).await;
    let renamed = dir.path().join("renamed");
    std::fs::rename(&options.data_dir, &renamed).unwrap();
    options.data_dir = renamed;
    assert_starts(&options).await;
    if skipped() {
        return;
    }

    let place = dir.path().join("volume");
    let mut volume = Disk::make(&place).unwrap();
    let first = volume.mount.join("data");
    copy_tree(&options.data_dir, &first);
    options.data_dir = first;
    options.moved_data_dir = true;
    assert_starts(&options).await;
    options.moved_data_dir = false;
    let device = std::fs::metadata(&volume.mount).unwrap().dev();
    volume.unmount().unwrap();
    // As another device, at another path, as on another host.
    let image = place.join("disk.img");
    let attached = run("losetup", &["-f", "--show", image.to_str().unwrap()]).unwrap();
    let elsewhere = dir.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let mount = elsewhere.to_str().unwrap();
    run("mount", &["-t", "ext4", &attached, mount]).unwrap();
    options.data_dir = elsewhere.join("data");
    let other = std::fs::metadata(&elsewhere).unwrap().dev();
    assert_starts(&options).await;
    run("umount", &["-l", mount]).unwrap();
    run("losetup", &["-d", &attached]).unwrap();
    assert_ne!(device, other);
}

/// Schedule B of finding B1: a clone of a store runs beside its original. It has the same id and
/// incarnation, and nothing in its directory says so. The original is elected once more; the clone
/// requests votes, and is answered with one for its own id that it never requested. Without the
/// rule about votes it takes that term over as its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cloned_store_is_detected_by_its_votes() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 3, |_| {}).await;
    write_session(&nodes, "a").await;
    let at = (leader(&nodes).await + 1) % 3;
    let options = nodes.remove(at).kill().await;
    wait_until_unlocked(&options.data_dir).await;
    let (listener, address) = bind_loopback().await;
    let mut clone = options.clone();
    clone.data_dir = dir.path().join("clone");
    copy_tree(&options.data_dir, &clone.data_dir);
    // As if the inodes had been cloned too.
    clone.moved_data_dir = true;
    clone.address = address;
    let id = options.node;
    nodes.push(RunningNode::restart(options).await.unwrap());
    let clone = RunningNode::start(clone, listener).await.unwrap();
    assert_eq!(clone.node.identity(), nodes[2].node.identity());

    write_session(&nodes, "b").await;
    while nodes[leader(&nodes).await].options.node != id {
        let at = leader(&nodes).await;
        // The transfer may fail, or another node may lead already.
        let _ = nodes[at].node.transfer_leader(Some(id)).await;
    }
    let said = async |clone: &RunningNode| {
        let failed = clone.node.watch_failure();
        wait_until("the clone ends", || failed.borrow().is_some()).await;
        let line = failed.borrow().clone().unwrap();
        for part in ["another process has this id", "not this process's own"] {
            assert!(line.contains(part), "no {part:?} in: {line}");
        }
        assert!(!line.contains('\n'), "{line}");
    };
    said(&clone).await;
    // Nor does it start again: its log still has the votes that it requested.
    let mut options = clone.kill().await;
    options.moved_data_dir = false;
    let clone = RunningNode::restart(options).await.unwrap();
    said(&clone).await;
    write_session(&nodes, "c").await;
    wait_until_equal(&nodes, ["a", "b", "c"].into_iter()).await;
    assert!(
        nodes
            .iter()
            .all(|n| n.node.watch_failure().borrow().is_none())
    );
}

/// A new directory is bound at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_data_dir_is_bound_at_first_start() {
    let dir = tempfile::tempdir().unwrap();
    let options = start_node(dir.path(), 1, |_| {}).await.kill().await;
    wait_until_unlocked(&options.data_dir).await;
    let mut copy = options.clone();
    copy.data_dir = dir.path().join("copy");
    copy_tree(&options.data_dir, &copy.data_dir);
    assert_rejected_as_copy(&copy).await;
}
