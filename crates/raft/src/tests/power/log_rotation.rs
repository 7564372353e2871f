//! The power goes off at and after the moment at which the log begins a new file.
//!
//! raft-log before 0.3.0 did not sync the new file, so entries in it were acknowledged and lost.
//!
//! Needs root; prints loudly that it was skipped otherwise.

use std::collections::VecDeque;

use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::type_config::TypeConfigExt;

use crate::tests::disk::{Disk, skipped};
use crate::tests::power::model::workload_entry;
use crate::tests::power::sync_failure::{append_durably, open_member_storage, read_entries};
use crate::tests::*;
use crate::types::TypeConfig;

fn options(disk: &Disk) -> Options {
    let mut options = Options::new(1, "127.0.0.1:1", disk.mount.join("data"));
    options.log_file_bytes = 8_000;
    options
}

fn file_count(storage: &Storage) -> usize {
    let files = crate::storage::data_dir::list_files(&storage.directory.log_path()).unwrap();
    let wal = |f: &&std::path::PathBuf| f.extension().is_some_and(|e| e == "wal");
    files.iter().filter(wal).count()
}

/// Cuts the power while the log is in use, restores it and opens the log again.
fn cycle_power(disk: &mut Disk, storage: Storage) -> Storage {
    disk.cut().unwrap();
    drop(storage);
    disk.again().unwrap();
    open_storage(&options(disk)).unwrap()
}

fn expected_entries(count: u64) -> Vec<Entry> {
    (0..count).map(|index| workload_entry(1, index)).collect()
}

/// Shows the sync on the new file: records acknowledged in it are there after the cut, and a record
/// that was written behind them without a sync is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_acknowledged_in_new_log_file_survive_power_cut() {
    if skipped() {
        return;
    }
    for more in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        let mut disk = Disk::make(dir.path()).unwrap();
        let mut storage = open_member_storage(&options(&disk), 1).await;
        let mut next = 1;
        let before = file_count(&storage);
        while file_count(&storage) == before {
            append_durably(&mut storage.log, next).await.unwrap();
            next += 1;
        }
        for _ in 0..more {
            append_durably(&mut storage.log, next).await.unwrap();
            next += 1;
        }
        let last = log_id(1, next - 1);
        storage.log.save_committed(Some(last)).await.unwrap();

        let mut storage = cycle_power(&mut disk, storage);
        let kept = read_entries(&mut storage).await;
        assert_eq!(kept.len() as u64, next, "{more} after the rotation");
        assert_eq!(kept, expected_entries(next));
        let committed = storage.log.read_committed().await.unwrap();
        assert_eq!(
            committed, None,
            "the cut loses nothing, so it shows nothing"
        );
    }
}

/// The power goes off when the new file appears, with appends under way before and after it.
///
/// The blocks of one sync reach the disk in any order. If a later one did and an earlier one did
/// not, the record between them is neither whole nor at the end. The log is then rejected as
/// damaged: nothing is lost silently. That outcome ends a round as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_cut_at_log_rotation_loses_no_acknowledged_entry() {
    if skipped() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut disk = Disk::make(&dir.path().join("0")).unwrap();
    let mut storage = open_member_storage(&options(&disk), 1).await;
    let mut known = 1;
    for round in 1..=10 {
        let mut waiting = VecDeque::new();
        let before = file_count(&storage);
        let mut cut = disk.arm().unwrap();
        let mut acknowledged = known;
        let mut next = known;
        loop {
            let (tx, rx) = TypeConfig::oneshot();
            let queued = storage
                .log
                .append([workload_entry(1, next)], IOFlushed::signal(tx));
            queued.await.unwrap();
            waiting.push_back(rx);
            next += 1;
            let rotated = file_count(&storage) > before;
            // An append that completes from here on may do so only because the cut is not a real
            // one: ext4 answers a sync that it meets with success. With a real cut no caller would
            // receive that answer.
            while let Some(Ok(Ok(()))) = waiting.front_mut().map(|rx| rx.try_recv()) {
                waiting.pop_front();
                acknowledged += 1;
            }
            if rotated {
                cut.fire().unwrap();
                break;
            }
        }
        // More appends are under way when the cut comes.
        for more in 0..64 {
            let (tx, _) = TypeConfig::oneshot();
            let entry = workload_entry(1, next + more);
            if storage
                .log
                .append([entry], IOFlushed::signal(tx))
                .await
                .is_err()
            {
                break;
            }
        }
        cut.finish().unwrap();
        drop(storage);
        disk.again().unwrap();
        storage = match open_storage(&options(&disk)) {
            Ok(storage) => storage,
            Err(Error::Damaged { what, .. }) => {
                println!("round {round}: refused: {what}");
                disk = Disk::make(&dir.path().join(round.to_string())).unwrap();
                known = 1;
                storage = open_member_storage(&options(&disk), 1).await;
                continue;
            }
            Err(e) => panic!("round {round}: {e}"),
        };
        let kept = read_entries(&mut storage).await;
        known = kept.len() as u64;
        println!(
            "round {round}: {next} written at the rotation, {acknowledged} acknowledged, {known} kept"
        );
        assert!(known >= acknowledged, "{known} of {acknowledged} kept");
        assert_eq!(kept, expected_entries(known));
    }
}
