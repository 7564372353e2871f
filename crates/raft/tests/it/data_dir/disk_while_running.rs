//! Disks that fail under a running node: it stops with one clear last line, loses nothing that was
//! acknowledged, and continues once the disk works. Needs root and loop devices; says so otherwise.

use std::path::{Path, PathBuf};
use std::time::Duration;

use seqsvr_core::state::State;
use seqsvr_raft::{Options, ProposeError, RaftRole};

use crate::disk::{Disk, run, skipped};
use crate::support::running_node::{
    RunningNode, TEST_TIMEOUT, session_batch, start_cluster, wait_until,
};

/// Longest time in which a stopped node must release its directory.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(8);

/// Starts one node with a cluster of its own.
async fn start_single(dir: &Path) -> RunningNode {
    let mut nodes = start_cluster(dir, 1, |o| {
        o.snapshot_interval_entries = 1_000;
        o.log_file_bytes = 1 << 20;
    })
    .await;
    nodes.remove(0)
}

/// Writes `names` one after the other until one fails; returns the number of successes and the
/// error.
async fn write_until_stopped(node: &RunningNode, prefix: &str, most: usize) -> (usize, String) {
    for i in 0..most {
        let batch = session_batch(&format!("{prefix}{i}"));
        match tokio::time::timeout(TEST_TIMEOUT, node.node.propose(batch)).await {
            Ok(Ok(_)) => {}
            Ok(Err(ProposeError::Stopped(why))) => return (i, why),
            other => panic!("write {i}: {other:?}"),
        }
    }
    panic!("{most} writes were acknowledged by a broken disk");
}

/// Checks that the node stopped by itself, hangs nowhere, and names path and remedy in one line.
async fn assert_stopped(node: RunningNode, path: &Path, says: &str, remedy: &str) -> Options {
    let mut failed = node.node.watch_failure();
    let reason = tokio::time::timeout(TEST_TIMEOUT, failed.wait_for(Option::is_some)).await;
    let reason = reason.unwrap().unwrap().clone().unwrap();
    println!("last line: {reason}");
    for part in [&path.display().to_string(), says, remedy] {
        assert!(reason.contains(part), "no {part:?} in: {reason}");
    }
    assert!(!reason.contains('\n'), "more than one line: {reason}");
    assert!(reason.starts_with("cannot "), "not in our words: {reason}");
    assert_eq!(node.node.leadership().borrow().role, RaftRole::Stopped);
    let options = tokio::time::timeout(RELEASE_TIMEOUT, node.kill()).await;
    options.expect("a stopped node lets go of its directory")
}

async fn wait_for_writes(node: &RunningNode, prefix: &str, count: usize) {
    wait_until("the acknowledged writes are back", || {
        let state = node.node.with_state(State::clone);
        (0..count).all(|i| state.find_session(&format!("{prefix}{i}")).is_some())
    })
    .await;
}

async fn assert_continues(options: Options, count: usize) {
    let node = RunningNode::restart(options).await.unwrap();
    wait_for_writes(&node, "b", count).await;
    wait_until("it leads", || node.is_ready_leader()).await;
    node.node.propose(session_batch("after")).await.unwrap();
    node.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_with_full_disk_stops_until_space_is_freed() {
    if skipped() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::sized(dir.path(), "32M").unwrap();
    let node = start_single(&disk.mount).await;
    node.node.propose(session_batch("a")).await.unwrap();
    let ballast = disk.fill();
    let (count, why) = write_until_stopped(&node, "b", 200_000).await;
    println!("{count} writes fitted; then: {why}");
    let data = node.options.data_dir.clone();
    let options = assert_stopped(node, &data, "No space left", "free space").await;

    // Started again while the disk is still full: at each attempt it runs or says what is missing,
    // and it sets nothing aside.
    for _ in 0..3 {
        match RunningNode::restart(options.clone()).await {
            Ok(node) => {
                let data = data.clone();
                let (_, why) = write_until_stopped(&node, "c", 200_000).await;
                println!("started on a full disk, then: {why}");
                assert_stopped(node, &data, "No space left", "free space").await;
            }
            Err(e) => {
                let e = e.to_string();
                println!("start on a full disk: {e}");
                assert!(
                    e.contains("No space left") && e.contains("free space"),
                    "{e}"
                );
            }
        }
    }
    assert_eq!(
        count_quarantined(&data),
        0,
        "rows were quarantined for want of space"
    );
    std::fs::remove_file(ballast).unwrap();
    assert_continues(options, count).await;
}

fn count_quarantined(data: &Path) -> usize {
    let entries = std::fs::read_dir(data).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|n| n.starts_with("state.bad.")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_with_read_only_disk_stops() {
    if skipped() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut disk = Disk::sized(dir.path(), "64M").unwrap();
    let node = start_single(&disk.mount).await;
    for i in 0..100 {
        node.node
            .propose(session_batch(&format!("b{i}")))
            .await
            .unwrap();
    }
    disk.turn_read_only().unwrap();
    let (more, _) = write_until_stopped(&node, "c", 10).await;
    assert_eq!(more, 0, "a read-only disk acknowledged");
    let data = node.options.data_dir.clone();
    // A write that the failing journal was busy with is an I/O error; later writes are read-only.
    let options = assert_stopped(node, &data, "os error", "start this node again").await;
    disk.again().unwrap();
    disk.remount("ro").unwrap();
    let error = RunningNode::restart(options.clone())
        .await
        .map(drop)
        .unwrap_err()
        .to_string();
    println!("start: {error}");
    assert!(error.contains("Read-only file system") && error.contains("make it writable"));
    assert!(error.contains(&data.display().to_string()), "{error}");
    disk.remount("rw").unwrap();
    assert_continues(options, 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_with_dead_disk_stops() {
    if skipped() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut disk = Disk::sized(dir.path(), "64M").unwrap();
    let node = start_single(&disk.mount).await;
    for i in 0..100 {
        node.node
            .propose(session_batch(&format!("b{i}")))
            .await
            .unwrap();
    }
    disk.cut().unwrap();
    let (more, _) = write_until_stopped(&node, "c", 10).await;
    assert_eq!(more, 0, "a dead disk acknowledged");
    let data = node.options.data_dir.clone();
    let options = assert_stopped(node, &data, "Input/output error", "system log").await;
    let error = RunningNode::restart(options.clone())
        .await
        .map(drop)
        .unwrap_err()
        .to_string();
    println!("start: {error}");
    assert!(
        error.contains("Input/output error") && error.contains("system log"),
        "{error}"
    );
    disk.again().unwrap();
    assert_continues(options, 100).await;
}

/// A disk of its own for one part of the data directory, so that this part fails and the others do
/// not: if the rows cannot be stored, sled's threads are the first to get the error.
struct PartDisk {
    disk: Disk,
    options: Options,
    part: PathBuf,
}

impl PartDisk {
    async fn make(dir: &Path, part: &str) -> PartDisk {
        let disk = Disk::sized(&dir.join("part"), "16M").unwrap();
        let options = start_single(dir).await.kill().await;
        let part = options.data_dir.join(part);
        run("cp", &["-a", &format!("{}/.", part.display()), disk.path()]).unwrap();
        let part = PartDisk {
            disk,
            options,
            part,
        };
        part.bind();
        part
    }

    fn bind(&self) {
        let part = self.part.to_str().unwrap();
        run("mount", &["--bind", self.disk.path(), part]).unwrap();
    }

    /// Unbinds once no process has a file of it open: threads of a failed node may take a while to
    /// end.
    async fn unbind(&self) {
        let part = self.part.to_str().unwrap();
        wait_until("no process has a file open", || {
            run("umount", &[part]).is_ok()
        })
        .await;
    }
}

impl Drop for PartDisk {
    fn drop(&mut self) {
        let _ = run("umount", &["-l", self.part.to_str().unwrap()]);
    }
}

async fn run_failing_part(part: &str) {
    for how in ["full", "read-only", "dead"] {
        let dir = tempfile::tempdir().unwrap();
        let mut own = PartDisk::make(dir.path(), part).await;
        let node = RunningNode::restart(own.options.clone()).await.unwrap();
        wait_until("it leads", || node.is_ready_leader()).await;
        let says = match how {
            "full" => {
                own.disk.fill();
                "No space left"
            }
            "read-only" => {
                own.disk.turn_read_only().unwrap();
                "os error"
            }
            _ => {
                own.disk.cut().unwrap();
                "Input/output error"
            }
        };
        let (count, _) = write_until_stopped(&node, "b", 200_000).await;
        println!("{part} {how}: {count} writes acknowledged before it failed");
        assert_stopped(node, &own.part.clone(), says, "start this node again").await;
        own.unbind().await;
        if how == "full" {
            std::fs::remove_file(own.disk.mount.join("ballast")).unwrap();
        } else {
            own.disk.again().unwrap();
        }
        own.bind();
        assert_continues(own.options.clone(), count).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_with_failing_rows_disk_stops_though_log_works() {
    if !skipped() {
        run_failing_part("state").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_with_failing_log_disk_stops() {
    if !skipped() {
        run_failing_part("log").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_with_failing_snapshot_disk_stops() {
    if !skipped() {
        run_failing_part("snapshots").await;
    }
}
