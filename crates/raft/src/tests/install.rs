//! What an install of a snapshot costs, and what is left of one that was cut off.

use std::collections::BTreeSet;

use openraft::StoredMembership;
use openraft::storage::RaftStateMachine;
use seqsvr_core::state::State;

use super::failed_sync::{append, opened};
use super::model::work;
use super::*;
use crate::applied::Applied;
use crate::snapshot::{self, SnapshotFile};
use crate::types::SnapshotMeta;

/// The state that the entries up to `index` make.
fn state_at(index: u64) -> State {
    let mut state = State::default();
    for index in 0..=index {
        if let EntryPayload::Normal(proposal) = work(1, index).payload {
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

async fn apply(storage: &mut Storage, indexes: std::ops::RangeInclusive<u64>) {
    let entries = indexes.map(|index| Ok((work(1, index), None)));
    let applied = storage.machine.apply(futures::stream::iter(entries));
    applied.await.unwrap();
}

/// A received snapshot is read when it comes, and not again: its file may be empty by then.
#[tokio::test]
async fn an_install_does_not_read_the_received_file_again() {
    let dir = tempfile::tempdir().unwrap();
    let sender = open_storage(&Options::new(2, "127.0.0.1:1", dir.path().join("2"))).unwrap();
    let state = state_at(40);
    let written = snapshot::write(&sender.directory, &meta_at(40), &state).unwrap();
    let options = Options::new(1, "127.0.0.1:1", dir.path().join("1"));
    let mut storage = open_storage(&options).unwrap();
    let path = storage.directory.snapshots().join("received.part");
    std::fs::copy(&written.path, &path).unwrap();
    let received = SnapshotFile::open(&path).unwrap();
    let content = snapshot::read(&received).unwrap();
    std::fs::write(&path, b"").unwrap();
    let received = received.with_content(content);
    let meta = meta_at(40);
    let installed = storage.machine.install_snapshot(&meta, received);
    installed.await.unwrap();
    assert_eq!(storage.machine.shared().applied.read().state, state);
}

/// Schedule: a snapshot at entry 120 is installed over rows of entry 50, and the process is killed
/// after some of the parts. The next start never continues from a mixture.
#[tokio::test]
async fn rows_of_an_install_that_was_cut_off_are_rebuilt() {
    let new = Applied::new(
        state_at(120),
        Some(log_id(1, 120)),
        meta_at(120).last_membership,
    );
    let new = new.unwrap();
    let mut found = BTreeSet::new();
    for parts in [0, 1, 2, 5, usize::MAX] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new(1, "127.0.0.1:1", dir.path().join("data"));
        let mut storage = opened(&options, 0).await;
        for index in 0..=130 {
            append(&mut storage.log, index).await.unwrap();
        }
        apply(&mut storage, 0..=50).await;
        storage.machine.store_rows(&new, 40, parts).unwrap();
        drop(storage);
        let mut storage = open_storage(&options).unwrap();
        let (applied, _) = storage.machine.applied_state().await.unwrap();
        let expected = applied.map_or_else(State::default, |id| state_at(id.index));
        let state = storage.machine.shared().applied.read().state.clone();
        assert_eq!(state, expected, "{parts} parts");
        found.insert(applied.map(|id| id.index));
        // It goes on from there, to the state that the log makes.
        apply(&mut storage, applied.map_or(0, |id| id.index + 1)..=130).await;
        let state = storage.machine.shared().applied.read().state.clone();
        assert_eq!(state, state_at(130), "{parts} parts");
    }
    let all = [None, Some(50), Some(120)];
    assert_eq!(found.into_iter().collect::<Vec<_>>(), all);
}
