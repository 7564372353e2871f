//! Future format versions: every stored record that has one is rejected by file and by version,
//! and nothing changes it. In the rows it costs the shortcut only.

use std::fs;
use std::path::{Path, PathBuf};

use openraft::storage::{IOFlushed, RaftLogStorage, RaftSnapshotBuilder, RaftStateMachine};
use openraft::type_config::TypeConfigExt;
use seqsvr_core::ids::{ClusterId, SessionId};

use super::*;
use crate::record;
use crate::storage::identity::NodeIdentity;
use crate::tests::disk::run;
use crate::types::{TypeConfig, Vote};

const NEWER: u8 = record::VERSION_MAX + 1;

/// Returns the positions at which records begin: their head has a checksum of its own. A body of
/// five bytes looks like a head too, so whole records are stepped over.
fn find_records(bytes: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while at + 13 <= bytes.len() {
        let head = &bytes[at..at + 9];
        let known = (1..=record::VERSION_MAX).contains(&head[0]);
        if known && crc32fast::hash(&head[..5]).to_be_bytes() == head[5..9] {
            found.push(at);
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            at += 13 + length as usize;
        } else {
            at += 1;
        }
    }
    found
}

/// Returns the same file with one record of a newer version.
fn with_newer_version(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] = NEWER;
    let head = crc32fast::hash(&bytes[at..at + 5]);
    bytes[at + 5..at + 9].copy_from_slice(&head.to_be_bytes());
    bytes
}

fn options(dir: &Path) -> Options {
    Options::new(1, "127.0.0.1:1", dir.join("data"))
}

/// Writes a directory with at least one record of every kind: identity, stamp, vote, entries of
/// each kind, committed id, a cut tail, a snapshot with rows, a purge, and rows.
async fn write_every_record(dir: &Path) {
    let mut storage = open_storage(&options(dir)).unwrap();
    let cluster = ClusterId(0xc1);
    let identity = NodeIdentity {
        cluster: Some(cluster),
        ..storage.identity
    };
    let (log, machine) = (&mut storage.log, &mut storage.machine);
    log.set_stamp(identity).await.unwrap();
    identity.store(&storage.directory).unwrap();
    log.save_vote(&Vote::new_committed(1, 1)).await.unwrap();
    let init = Command::Init {
        cluster,
        lease_ms: 3_000,
        slots: 16,
    };
    let expire = |n| Command::ExpireSession {
        session: SessionId(n),
        term: 1,
    };
    let members = Entry {
        log_id: log_id(1, 0),
        payload: EntryPayload::Membership(membership([1])),
    };
    let blank = Entry {
        log_id: log_id(1, 1),
        payload: EntryPayload::Blank,
    };
    let mut entries = vec![members, blank, entry(1, 2, vec![init])];
    entries.push(entry(1, 3, vec![Command::SetLevel { level: 2 }]));
    entries.extend((4..9).map(|i| entry(1, i, vec![expire(i)])));
    let (tx, rx) = TypeConfig::oneshot();
    log.append(entries.clone(), IOFlushed::signal(tx))
        .await
        .unwrap();
    rx.await.unwrap().unwrap();
    log.truncate_after(Some(log_id(1, 7))).await.unwrap();
    log.save_committed(Some(log_id(1, 7))).await.unwrap();
    entries.truncate(8);
    let items = entries.into_iter().map(|e| Ok((e, None)));
    machine.apply(futures::stream::iter(items)).await.unwrap();
    let mut builder = machine.get_snapshot_builder().await;
    builder.build_snapshot().await.unwrap();
    log.purge(log_id(1, 3)).await.unwrap();
}

fn only_file(dir: PathBuf, extension: &str) -> PathBuf {
    let mut files = crate::storage::data_dir::list_files(&dir).unwrap();
    files.retain(|f| f.extension().is_some_and(|e| e == extension));
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

#[tokio::test]
async fn record_of_newer_version_is_rejected_by_file_and_version() {
    let dir = tempfile::tempdir().unwrap();
    write_every_record(dir.path()).await;
    let data = dir.path().join("data");
    let log = only_file(data.join("log"), "wal");
    // Identity; header, rows and trailer; in the log at least stamp, vote, eight entries with their
    // ids, and the ids of the truncation, the commit and the purge.
    for (file, least) in [
        (data.join("identity"), 1),
        (only_file(data.join("snapshots"), "snapshot"), 3),
        (log.clone(), 2 + 2 * 9 + 3),
    ] {
        let good = fs::read(&file).unwrap();
        let frames = find_records(&good);
        assert!(
            frames.len() >= least,
            "{} in {}",
            frames.len(),
            file.display()
        );
        for at in frames {
            fs::write(&file, with_newer_version(&good, at)).unwrap();
            let error = open_storage(&options(dir.path())).map(drop).unwrap_err();
            assert!(
                matches!(&error, Error::Version { file: f, version: NEWER } if file.starts_with(f)),
                "byte {at} of {}: {error}",
                file.display()
            );
            let text = error.to_string();
            assert!(
                text.contains("start the newer build that wrote it"),
                "{text}"
            );
            assert_eq!(fs::read(&file).unwrap(), with_newer_version(&good, at));
        }
        fs::write(&file, good).unwrap();
    }
    let storage = open_storage(&options(dir.path())).unwrap();
    assert_eq!(
        storage.machine.shared_state().applied.read().last_index(),
        7
    );
}

#[tokio::test]
async fn rows_of_newer_version_are_quarantined_and_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    write_every_record(dir.path()).await;
    let state = dir.path().join("data/state");
    let keys: Vec<Vec<u8>> = {
        let db = sled::open(&state).unwrap();
        db.iter().keys().map(|k| k.unwrap().to_vec()).collect()
    };
    // Description, proof, and a row each of the cluster, two namespaces and the slots.
    assert!(keys.len() >= 2 + 3, "{keys:?}");
    let copy = dir.path().join("copy");
    run(
        "cp",
        &["-a", state.to_str().unwrap(), copy.to_str().unwrap()],
    )
    .unwrap();
    for (n, key) in (1..).zip(&keys) {
        fs::remove_dir_all(&state).unwrap();
        run(
            "cp",
            &["-a", copy.to_str().unwrap(), state.to_str().unwrap()],
        )
        .unwrap();
        let db = sled::open(&state).unwrap();
        let good = db.get(key).unwrap().unwrap();
        db.insert(key.as_slice(), with_newer_version(&good, 0))
            .unwrap();
        drop(db);
        let mut storage = open_storage(&options(dir.path())).unwrap();
        let aside = dir.path().join(format!("data/state.bad.{n}"));
        assert!(aside.exists(), "key {key:?} was believed");
        let mut helper =
            openraft::StorageHelper::new(&mut storage.log, &mut storage.machine).with_id(1);
        helper.get_initial_state().await.unwrap();
        assert_eq!(
            storage.machine.shared_state().applied.read().last_index(),
            7
        );
    }
}
