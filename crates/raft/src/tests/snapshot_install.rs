//! Cost of an install of a snapshot, and the remains of one that was cut off.

use std::collections::BTreeSet;
use std::time::Duration;

use openraft::StoredMembership;
use openraft::storage::{RaftSnapshotBuilder, RaftStateMachine};
use seqsvr_core::state::State;

use super::*;
use crate::state::applied_state::AppliedState;
use crate::state::snapshot::{self, SnapshotFile};
use crate::tests::calls::scripted_leader::{ScriptedLeader, TEST_TIMEOUT};
use crate::tests::power::model::workload_entry;
use crate::tests::power::sync_failure::{append_durably, open_member_storage};
use crate::types::SnapshotMeta;

/// Returns the state that the entries up to `index` make.
fn state_at(index: u64) -> State {
    let mut state = State::default();
    for index in 0..=index {
        if let EntryPayload::Normal(proposal) = workload_entry(1, index).payload {
            state.apply(1, &proposal.0, &mut BTreeSet::new());
        }
    }
    state
}

fn meta_at(index: u64) -> SnapshotMeta {
    SnapshotMeta {
        last_log_id: Some(log_id(1, index)),
        last_membership: StoredMembership::new(Some(log_id(1, 0)), membership([1, 2, 3])),
    }
}

fn applied_at(index: u64) -> AppliedState {
    let meta = meta_at(index);
    AppliedState::new(state_at(index), meta.last_log_id, meta.last_membership).unwrap()
}

async fn apply_entries(storage: &mut Storage, indexes: std::ops::RangeInclusive<u64>) {
    let entries = indexes.map(|index| Ok((workload_entry(1, index), None)));
    let applied = storage.machine.apply(futures::stream::iter(entries));
    applied.await.unwrap();
}

/// A received snapshot is read when it comes, and not again: its file may be empty by then.
#[tokio::test]
async fn install_does_not_read_received_file_again() {
    let dir = tempfile::tempdir().unwrap();
    let sender = open_storage(&Options::new(2, "127.0.0.1:1", dir.path().join("2"))).unwrap();
    let state = state_at(40);
    let written = snapshot::write_snapshot(&sender.directory, &meta_at(40), &state).unwrap();
    let options = Options::new(1, "127.0.0.1:1", dir.path().join("1"));
    let mut storage = open_storage(&options).unwrap();
    let path = storage.directory.snapshots_path().join("received.part");
    std::fs::copy(&written.path, &path).unwrap();
    let received = SnapshotFile::open(&path).unwrap();
    let received = received.into_prepared().unwrap();
    std::fs::write(&path, b"").unwrap();
    let meta = meta_at(40);
    let installed = storage.machine.install_snapshot(&meta, received);
    installed.await.unwrap();
    assert_eq!(storage.machine.shared_state().applied.read().state, state);
}

/// Makes a log of 130 entries, rows of entry 50, and in memory the state of a snapshot at
/// entry 120. Returns the state that it replaced as well.
async fn installed_at_120(options: &Options) -> (Storage, AppliedState) {
    let mut storage = open_member_storage(options, 0).await;
    for index in 0..=130 {
        append_durably(&mut storage.log, index).await.unwrap();
    }
    apply_entries(&mut storage, 0..=50).await;
    let old = storage.machine.replace_state(applied_at(120));
    (storage, old)
}

/// Schedule: a snapshot at entry 120 is installed over rows of entry 50, and the process is killed
/// after some of the parts. The next start never continues from a mixture.
#[tokio::test]
async fn rows_of_interrupted_install_are_rebuilt() {
    let mut found = BTreeSet::new();
    for parts in [0, 1, 2, 5, usize::MAX] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new(1, "127.0.0.1:1", dir.path().join("data"));
        let (storage, old) = installed_at_120(&options).await;
        storage.machine.store_some_rows(old, 40, parts);
        drop(storage);
        let mut storage = open_storage(&options).unwrap();
        let (applied, _) = storage.machine.applied_state().await.unwrap();
        let expected = applied.map_or_else(State::default, |id| state_at(id.index));
        let state = storage.machine.shared_state().applied.read().state.clone();
        assert_eq!(state, expected, "{parts} parts");
        found.insert(applied.map(|id| id.index));
        // It continues from there, to the state that the log makes.
        apply_entries(&mut storage, applied.map_or(0, |id| id.index + 1)..=130).await;
        let state = storage.machine.shared_state().applied.read().state.clone();
        assert_eq!(state, state_at(130), "{parts} parts");
    }
    let all = [None, Some(50), Some(120)];
    assert_eq!(found.into_iter().collect::<Vec<_>>(), all);
}

/// Returns once the rows of the newest install are stored.
async fn wait_until_backfilled(storage: &Storage) {
    let deadline = std::time::Instant::now() + TEST_TIMEOUT;
    while storage.machine.row_backfill().is_pending() {
        assert!(std::time::Instant::now() < deadline, "rows are not stored");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn count_quarantined(dir: &std::path::Path) -> usize {
    let names = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap());
    let names = names.filter(|e| e.file_name().to_string_lossy().contains("state.bad"));
    names.count()
}

/// openraft saves no vote before an install is done, so an install does not wait until its rows are
/// stored. At that time the only thread for blocking work is busy with another task.
#[test]
fn install_does_not_wait_for_its_rows() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(1, "127.0.0.1:1", dir.path().join("1"));
    let busy = || {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let wait = move || released.recv_timeout(TEST_TIMEOUT).unwrap_or_default();
        tokio::task::spawn_blocking(wait);
        release
    };
    runtime.block_on(async {
        let mut storage = open_member_storage(&options, 0).await;
        for index in 0..=130 {
            append_durably(&mut storage.log, index).await.unwrap();
        }
        let meta = meta_at(120);
        let built = snapshot::write_snapshot(&storage.directory, &meta, &state_at(120)).unwrap();
        let received = built.into_prepared().unwrap();
        let first = busy();
        let mut machine = storage.machine.clone();
        let install = tokio::spawn(async move { machine.install_snapshot(&meta, received).await });
        tokio::task::yield_now().await;
        let second = busy();
        drop(first);
        let install = tokio::time::timeout(TEST_TIMEOUT / 2, install).await;
        install.expect("it waits").unwrap().unwrap();
        assert!(storage.machine.row_backfill().is_pending());
        // Entries are applied before the rows are stored, and while they are.
        apply_entries(&mut storage, 121..=125).await;
        drop(second);
        apply_entries(&mut storage, 126..=130).await;
        wait_until_backfilled(&storage).await;
    });
    // The current rows need no rebuilding.
    let reopened = open_storage(&options).unwrap();
    let shared = reopened.machine.shared_state();
    assert_eq!(shared.applied.read().state, state_at(130));
    assert_eq!(count_quarantined(&options.data_dir), 0);
}

/// Schedule: rows of an install are stored in parts; entries are applied between two parts and
/// store the rows they change, with the digest over all; the process is killed before the last
/// part.
#[tokio::test]
async fn rows_of_entries_during_interrupted_install_are_rebuilt() {
    for (parts, is_whole) in [(0, false), (1, false), (3, false), (usize::MAX, true)] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new(1, "127.0.0.1:1", dir.path().join("data"));
        let (mut storage, old) = installed_at_120(&options).await;
        apply_entries(&mut storage, 121..=123).await;
        storage.machine.store_some_rows(old, 40, parts);
        apply_entries(&mut storage, 124..=125).await;
        drop(storage);
        let mut storage = open_storage(&options).unwrap();
        let (applied, _) = storage.machine.applied_state().await.unwrap();
        let expected = is_whole.then_some(125);
        assert_eq!(applied.map(|id| id.index), expected, "{parts} parts");
        apply_entries(&mut storage, applied.map_or(0, |id| id.index + 1)..=130).await;
        let state = storage.machine.shared_state().applied.read().state.clone();
        assert_eq!(state, state_at(130), "{parts} parts");
    }
}

/// Schedule: a part is read from memory, an entry changes one of its rows and stores it, the part
/// is stored over it. One thread stores all rows again and again while entries are applied.
#[tokio::test]
async fn backfill_never_overwrites_newer_row() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(1, "127.0.0.1:1", dir.path().join("data"));
    let mut storage = open_member_storage(&options, 0).await;
    for index in 0..=400 {
        append_durably(&mut storage.log, index).await.unwrap();
    }
    apply_entries(&mut storage, 0..=20).await;
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (machine, stopped) = (storage.machine.clone(), stop.clone());
    let storing = std::thread::spawn(move || {
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            machine.store_some_rows(AppliedState::default(), 40, usize::MAX);
        }
    });
    for index in 21..=400 {
        apply_entries(&mut storage, index..=index).await;
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    storing.join().unwrap();
    drop(storage);
    let storage = open_storage(&options).unwrap();
    assert_eq!(count_quarantined(&options.data_dir), 0);
    assert_eq!(
        storage.machine.shared_state().applied.read().state,
        state_at(400)
    );
}

/// Schedule: a sender goes away before it has the answer, and sends the snapshot again once it is
/// installed. The node does not read the file of the second attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn installed_snapshot_is_not_received_again() {
    let stage = ScriptedLeader::new().await;
    let meta = SnapshotMeta {
        last_log_id: Some(log_id(4, 100)),
        last_membership: StoredMembership::new(Some(log_id(1, 0)), membership([2, 3])),
    };
    let vote = stage.send_snapshot(4, meta.clone()).await;
    let again = stage.send_changed(4, meta, |path| std::fs::write(path, b"").unwrap());
    assert_eq!(again.await, vote);
    let newer = SnapshotMeta {
        last_log_id: Some(log_id(4, 101)),
        last_membership: StoredMembership::new(Some(log_id(1, 0)), membership([2, 3])),
    };
    assert_eq!(stage.send_snapshot(4, newer).await, vote);
    assert_eq!(stage.follower.watch_applied().borrow().index, 101);
    stage.follower.shutdown().await;
}

/// While a snapshot is sent no other is built, unless the log would grow without bound or the
/// snapshot is damaged.
#[tokio::test]
async fn snapshot_is_not_built_while_one_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::new(1, "127.0.0.1:1", dir.path().join("data"));
    options.snapshot_interval_entries = 5;
    let mut storage = open_member_storage(&options, 0).await;
    for index in 0..=100 {
        append_durably(&mut storage.log, index).await.unwrap();
    }
    apply_entries(&mut storage, 0..=50).await;
    let mut machine = storage.machine.clone();
    let turns = machine.turns.clone();
    let send = turns.try_send().unwrap();
    assert!(machine.try_create_snapshot_builder(false).await.is_none());
    machine.rebuild_snapshot();
    let rebuilt = machine.try_create_snapshot_builder(false).await;
    assert!(rebuilt.is_some() && turns.try_send().is_none());
    drop(rebuilt);
    assert!(machine.try_create_snapshot_builder(false).await.is_none());
    assert!(machine.try_create_snapshot_builder(true).await.is_some());
    apply_entries(&mut storage, 51..=80).await;
    assert!(machine.try_create_snapshot_builder(false).await.is_some());
    drop(send);
    let mut built = machine.try_create_snapshot_builder(false).await.unwrap();
    built.build_snapshot().await.unwrap();
    // It is built, so it may be sent.
    assert!(turns.try_send().is_some());
}

/// A callback that fails records why before openraft gets its error, and no entry is applied after
/// that.
#[tokio::test]
async fn failed_snapshot_callback_is_recorded() {
    for callback in ["build", "read", "install"] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new(1, "127.0.0.1:1", dir.path().join("data"));
        let mut storage = open_storage(&options).unwrap();
        apply_entries(&mut storage, 0..=10).await;
        let machine = &mut storage.machine;
        let mut builder = machine.get_snapshot_builder().await;
        let failed = if callback == "build" {
            std::fs::remove_dir_all(storage.directory.snapshots_path()).unwrap();
            builder.build_snapshot().await.map(drop)
        } else {
            let built = builder.build_snapshot().await.unwrap().snapshot;
            if callback == "read" {
                std::fs::remove_file(&built.path).unwrap();
                machine.get_current_snapshot().await.map(drop)
            } else {
                machine.install_snapshot(&meta_at(11), built).await
            }
        };
        let failed = failed.unwrap_err().to_string();
        let recorded = machine.shared_state();
        let recorded = recorded.first_error.get().map(ToString::to_string);
        assert_eq!(recorded.as_ref(), Some(&failed), "{callback}");
        let next = futures::stream::iter([Ok((workload_entry(1, 11), None))]);
        let refused = machine.apply(next).await.unwrap_err();
        assert_eq!(refused.to_string(), failed, "{callback}");
    }
}
