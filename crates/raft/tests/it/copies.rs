//! Copies of a data directory: a copy does not start beside its original; a volume that moved does.
//! A clone that no file in the directory reveals is found by its votes.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use seqsvr_raft::{Error, Options};

use crate::common::{Running, agree, cluster, leader, listen, nobody_holds, start, until, write};
use crate::damage::refusal;
use crate::disk::{Disk, run, skipped};
use crate::disks_start::tree;

fn copy_tree(from: &Path, to: &Path) {
    run("cp", &["-a", from.to_str().unwrap(), to.to_str().unwrap()]).unwrap();
}

/// Returns a single node that has written something, stopped.
async fn stopped(dir: &Path) -> Options {
    let nodes = cluster(dir, 1, |_| {}).await;
    write(&nodes, "a").await;
    let options = nodes.into_iter().next().unwrap().kill().await;
    nobody_holds(&options.data_dir).await;
    options
}

async fn starts(options: &Options) {
    let node = Running::restart(options.clone()).await.unwrap();
    let nodes = [node];
    write(&nodes, "again").await;
    agree(&nodes, ["a", "again"].into_iter()).await;
    let [node] = nodes;
    node.kill().await;
    nobody_holds(&options.data_dir).await;
}

async fn is_refused(options: &Options) {
    let before = tree(&options.data_dir);
    let error = refusal(options).await;
    assert!(matches!(error, Error::Copied { .. }), "{error}");
    let text = error.to_string();
    for part in ["is a copy", "--moved-data-dir", "Start the original"] {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
    assert_eq!(tree(&options.data_dir), before, "refusing changed a file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copied_directory_is_refused_until_it_is_said_to_be_moved() {
    let dir = tempfile::tempdir().unwrap();
    let options = stopped(dir.path()).await;
    let mut copy = options.clone();
    copy.data_dir = dir.path().join("copy");
    copy_tree(&options.data_dir, &copy.data_dir);
    is_refused(&copy).await;
    // It is also rejected beside its original.
    let original = Running::restart(options.clone()).await.unwrap();
    is_refused(&copy).await;
    original.kill().await;

    copy.moved_data_dir = true;
    starts(&copy).await;
    // It is bound to its new place from then on.
    copy.moved_data_dir = false;
    starts(&copy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_an_older_build_is_bound_at_its_first_start() {
    let dir = tempfile::tempdir().unwrap();
    let options = stopped(dir.path()).await;
    std::fs::remove_file(options.data_dir.join("binding")).unwrap();
    starts(&options).await;
    let mut copy = options.clone();
    copy.data_dir = dir.path().join("copy");
    copy_tree(&options.data_dir, &copy.data_dir);
    is_refused(&copy).await;
}

/// Neither path nor device belong to the binding: a volume returns elsewhere with its inodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_kept_its_inodes_starts_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = stopped(dir.path()).await;
    let renamed = dir.path().join("renamed");
    std::fs::rename(&options.data_dir, &renamed).unwrap();
    options.data_dir = renamed;
    starts(&options).await;
    if skipped() {
        return;
    }

    let place = dir.path().join("volume");
    let mut volume = Disk::make(&place).unwrap();
    let first = volume.mount.join("data");
    copy_tree(&options.data_dir, &first);
    options.data_dir = first;
    options.moved_data_dir = true;
    starts(&options).await;
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
    starts(&options).await;
    run("umount", &["-l", mount]).unwrap();
    run("losetup", &["-d", &attached]).unwrap();
    assert_ne!(device, other);
}

/// Schedule B of finding B1: a clone of a store runs beside its original. It has the same id and
/// incarnation, and nothing in its directory says so. The original is elected once more; the clone
/// requests votes, and is answered with one for its own id that it never requested. Without the
/// rule about votes it takes that term over as its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clone_is_found_by_its_votes() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster(dir.path(), 3, |_| {}).await;
    write(&nodes, "a").await;
    let at = (leader(&nodes).await + 1) % 3;
    let options = nodes.remove(at).kill().await;
    nobody_holds(&options.data_dir).await;
    let (listener, address) = listen().await;
    let mut clone = options.clone();
    clone.data_dir = dir.path().join("clone");
    copy_tree(&options.data_dir, &clone.data_dir);
    // As if the inodes had been cloned too.
    clone.moved_data_dir = true;
    clone.address = address;
    let id = options.node;
    nodes.push(Running::restart(options).await.unwrap());
    let clone = Running::start(clone, listener).await.unwrap();
    assert_eq!(clone.node.identity(), nodes[2].node.identity());

    write(&nodes, "b").await;
    while nodes[leader(&nodes).await].options.node != id {
        let at = leader(&nodes).await;
        // The transfer may fail, or another node may lead already.
        let _ = nodes[at].node.transfer_leader(Some(id)).await;
    }
    let said = async |clone: &Running| {
        let failed = clone.node.failed();
        until("the clone ends", || failed.borrow().is_some()).await;
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
    let clone = Running::restart(options).await.unwrap();
    said(&clone).await;
    write(&nodes, "c").await;
    agree(&nodes, ["a", "b", "c"].into_iter()).await;
    assert!(nodes.iter().all(|n| n.node.failed().borrow().is_none()));
}

/// A new directory is bound at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_directory_is_bound() {
    let dir = tempfile::tempdir().unwrap();
    let options = start(dir.path(), 1, |_| {}).await.kill().await;
    nobody_holds(&options.data_dir).await;
    let mut copy = options.clone();
    copy.data_dir = dir.path().join("copy");
    copy_tree(&options.data_dir, &copy.data_dir);
    is_refused(&copy).await;
}
