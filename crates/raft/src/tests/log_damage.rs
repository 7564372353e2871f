//! The log's tail: a torn record is dropped and a damaged one is rejected. The two are never
//! confused, because the second kind was acknowledged.

use std::fs;
use std::path::{Path, PathBuf};

use openraft::storage::{IOFlushed, RaftLogReader};
use openraft::type_config::TypeConfigExt;
use seqsvr_core::ids::{ClusterId, SessionId};

use super::*;
use crate::storage::identity::NodeIdentity;
use crate::types::{TypeConfig, Vote};

fn options(dir: &Path) -> Options {
    Options::new(1, "127.0.0.1:1", dir.join("data"))
}

fn workload_entry(index: u64) -> Entry {
    let commands = (0..3).map(|i| Command::ExpireSession {
        session: SessionId(index * 3 + i),
        term: 1,
    });
    entry(1, index, commands.collect())
}

/// Writes and closes a log with a vote and `count` acknowledged entries; returns its only file.
async fn write_log(dir: &Path, count: u64) -> PathBuf {
    let mut storage = open_storage(&options(dir)).unwrap();
    let identity = NodeIdentity {
        cluster: Some(ClusterId(1)),
        ..storage.identity
    };
    storage.log.set_stamp(identity).await.unwrap();
    identity.store(&storage.directory).unwrap();
    storage.log.save_vote(&Vote::new(1, 1)).await.unwrap();
    for index in 0..count {
        let (tx, rx) = TypeConfig::oneshot();
        let append = storage
            .log
            .append([workload_entry(index)], IOFlushed::signal(tx));
        append.await.unwrap();
        rx.await.unwrap().unwrap();
    }
    let files = crate::storage::data_dir::list_files(&storage.directory.log_path()).unwrap();
    let mut files = files
        .into_iter()
        .filter(|f| f.extension().is_some_and(|e| e == "wal"));
    files.next().unwrap()
}

#[tokio::test]
async fn log_with_flipped_bit_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let file = write_log(dir.path(), 12).await;
    let good = fs::read(&file).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(&file, &bad).unwrap();
        match open_storage(&options(dir.path())).map(drop) {
            Err(Error::Damaged { .. }) => {}
            other => panic!("byte {at} of {}: {other:?}", good.len()),
        }
        assert_eq!(fs::read(&file).unwrap(), bad, "refusing changed the file");
    }
    fs::write(&file, &good).unwrap();
    open_storage(&options(dir.path())).unwrap();
}

#[tokio::test]
async fn log_with_torn_tail_keeps_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let file = write_log(dir.path(), 12).await;
    let good = fs::read(&file).unwrap();
    for cut in 1..40 {
        fs::write(&file, &good[..good.len() - cut]).unwrap();
        let mut storage = open_storage(&options(dir.path())).unwrap();
        let entries = storage.log.try_get_log_entries(..).await.unwrap();
        let expected: Vec<Entry> = (0..entries.len() as u64).map(workload_entry).collect();
        assert_eq!(entries, expected);
        assert!((10..12).contains(&entries.len()), "{} left", entries.len());
        drop(storage);
        for extra in crate::storage::data_dir::list_files(file.parent().unwrap()).unwrap() {
            fs::remove_file(extra).unwrap();
        }
    }
}

/// The remains of a power cut on ext4: the file has its length, and its last blocks are zeros.
#[tokio::test]
async fn log_with_unwritten_tail_blocks_keeps_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let file = write_log(dir.path(), 100).await;
    let good = fs::read(&file).unwrap();
    let mut lengths = Vec::new();
    for lost in (1_024..good.len() - 16).step_by(512) {
        let mut torn = good.clone();
        torn[lost..].fill(0);
        fs::write(&file, &torn).unwrap();
        let mut storage = open_storage(&options(dir.path())).unwrap();
        let entries = storage.log.try_get_log_entries(..).await.unwrap();
        let expected: Vec<Entry> = (0..entries.len() as u64).map(workload_entry).collect();
        assert_eq!(entries, expected);
        lengths.push(entries.len());
        drop(storage);
        for extra in crate::storage::data_dir::list_files(file.parent().unwrap()).unwrap() {
            fs::remove_file(extra).unwrap();
        }
    }
    assert!(lengths.len() > 5 && lengths.is_sorted(), "{lengths:?}");
    // Zeros behind whole records take none of them away.
    let mut longer = good.clone();
    longer.resize(good.len() + 5_000, 0);
    fs::write(&file, &longer).unwrap();
    let mut storage = open_storage(&options(dir.path())).unwrap();
    let entries = storage.log.try_get_log_entries(..).await.unwrap();
    assert_eq!(entries.len(), 100);
}

#[tokio::test]
async fn emptied_log_of_member_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let file = write_log(dir.path(), 3).await;
    for content in [&b""[..], &[0; 512]] {
        fs::write(&file, content).unwrap();
        let error = open_storage(&options(dir.path())).map(drop).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
    }
}

#[tokio::test]
async fn log_of_newer_build_is_rejected_by_version() {
    let dir = tempfile::tempdir().unwrap();
    let file = write_log(dir.path(), 3).await;
    let mut bytes = fs::read(&file).unwrap();
    let vote = crate::record::encode(&Vote::new(1, 1)).unwrap();
    let at = bytes.windows(vote.len()).position(|w| w == vote).unwrap();
    bytes[at] = crate::record::VERSION_MAX + 1;
    let head = crc32fast::hash(&bytes[at..at + 5]);
    bytes[at + 5..at + 9].copy_from_slice(&head.to_be_bytes());
    fs::write(&file, bytes).unwrap();
    let error = open_storage(&options(dir.path())).map(drop).unwrap_err();
    let newer = crate::record::VERSION_MAX + 1;
    assert!(
        matches!(error, Error::Version { version, .. } if version == newer),
        "{error}"
    );
}
