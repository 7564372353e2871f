//! A snapshot built here while a leader's snapshot is installed.

use std::sync::atomic::{AtomicBool, Ordering};

use openraft::StoredMembership;
use openraft::storage::{RaftSnapshotBuilder, RaftStateMachine};

use super::*;
use seqsvr_core::state::State;

use crate::state::snapshot;
use crate::types::SnapshotMeta;

/// Schedule: a snapshot is built and renamed; before its builder continues, an install that ends
/// deletes all snapshots older than its own. A thread deletes without a pause, so it meets the time
/// between the rename and the sync of the directory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshot_build_beside_install_does_not_stop_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(1, "127.0.0.1:1", dir.path().join("data"));
    let mut storage = open_storage(&options).unwrap();
    let installed = SnapshotMeta {
        last_log_id: Some(log_id(1, 200)),
        last_membership: StoredMembership::default(),
    };
    let installed = snapshot::snapshot_path(&storage.directory, &installed);
    let (directory, stop) = (storage.directory.clone(), Arc::new(AtomicBool::new(false)));
    let stopped = stop.clone();
    let installs = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            // The builder deletes older ones too, and then the file may be gone already.
            let _ = snapshot::remove_older_than(&directory, &installed);
        }
    });
    for build in 0..50 {
        let built = async {
            let mut builder = storage.machine.get_snapshot_builder().await;
            let built = builder.build_snapshot().await.map_err(|e| e.to_string())?;
            snapshot::read_snapshot(&built.snapshot).map_err(|e| e.to_string())
        };
        if let Err(e) = built.await {
            stop.store(true, Ordering::Relaxed);
            panic!("build {build} stops the node: {e}");
        }
    }
    stop.store(true, Ordering::Relaxed);
    installs.join().unwrap();
}

/// The check before a snapshot gets its name detects damage anywhere in its file.
#[test]
fn snapshot_verification_detects_any_damage() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(1, "127.0.0.1:1", dir.path().join("data"));
    let directory = open_storage(&options).unwrap().directory;
    let meta = SnapshotMeta {
        last_log_id: Some(log_id(1, 100)),
        last_membership: StoredMembership::new(Some(log_id(1, 0)), membership([1, 2, 3])),
    };
    let state = State::from_rows(super::samples::rows(1)).unwrap();
    let written = snapshot::write_snapshot(&directory, &meta, &state).unwrap();
    snapshot::verify_snapshot(&written, &meta).unwrap();
    let good = std::fs::read(&written.path).unwrap();
    for at in (0..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        std::fs::write(&written.path, bad).unwrap();
        snapshot::verify_snapshot(&written, &meta).expect_err("damage");
    }
    for kept in [0, 8, good.len() / 2, good.len() - 1] {
        std::fs::write(&written.path, &good[..kept]).unwrap();
        snapshot::verify_snapshot(&written, &meta).expect_err("a cut");
    }
}
