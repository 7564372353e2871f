//! Golden bytes of everything stored or sent. A difference means that deployed nodes could not read
//! their disks: raise the format version and keep reading the old one instead.
//!
//! A new value's file is written by `SEQSVR_GOLDEN=write cargo test -p seqsvr-raft golden`.

use std::fmt::Debug;
use std::path::PathBuf;

use openraft::raft::{
    AppendEntriesRequest, SnapshotResponse, TransferLeaderRequest, VoteRequest, VoteResponse,
};
use openraft::storage::{IOFlushed, RaftLogReader};
use openraft::type_config::TypeConfigExt;
use seqsvr_core::ids::{ClusterId, NamespaceId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::samples::{append_answers, commands, first_commands, level_payload, payloads, rows};
use super::*;
use crate::backup::{self, BackupHeader, StateBackup, UsageReport};
use crate::record::{self, HasFormatLevel};
use crate::state::applied_state::RowsMeta;
use crate::state::digest::RowsDigest;
use crate::state::sled_rows::DurabilityProof;
use crate::state::snapshot::{self, SnapshotFile};
use crate::storage::identity::NodeIdentity;
use crate::storage::lock_binding::LockBinding;
use crate::types::{SnapshotMeta, StoredMembership, TypeConfig, Vote};

fn to_hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|b| format!("{b:02x}")).collect::<String>();
    bytes.chunks(32).map(|l| line(l) + "\n").collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn check_golden_bytes(name: &str, bytes: &[u8]) -> Vec<u8> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = dir.join(format!("{name}.hex"));
    if !path.exists() && std::env::var("SEQSVR_GOLDEN").is_ok_and(|v| v == "write") {
        std::fs::write(&path, to_hex(bytes)).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    assert_eq!(
        to_hex(bytes),
        stored,
        "{name} is written differently than before"
    );
    from_hex(&stored)
}

fn check_golden<T: Serialize + DeserializeOwned + Debug>(name: &str, value: &T) {
    check_golden_at_level(1, name, value);
}

fn check_golden_at_level<T: Serialize + DeserializeOwned + Debug>(
    level: u32,
    name: &str,
    value: &T,
) {
    let bytes = record::encode_at_level(level, value).unwrap();
    // By this byte a build of an older level rejects the record.
    assert_eq!(u32::from(bytes[0]), level, "{name}");
    let read: T = record::decode(&check_golden_bytes(name, &bytes)).unwrap();
    assert_eq!(format!("{read:?}"), format!("{value:?}"), "{name}");
}

fn stored_membership() -> StoredMembership {
    StoredMembership::new(Some(log_id(1, 0)), membership([1, 2, 3]))
}

#[test]
fn golden_identity() {
    let identity = |cluster| NodeIdentity {
        node: 3,
        incarnation: 0x1122_3344_5566_7788,
        cluster,
    };
    check_golden("identity-waiting", &identity(None));
    check_golden("identity", &identity(Some(ClusterId(0xc1))));
    check_golden("binding", &LockBinding { inode: 1_234_567 });
    check_golden("founder", &ClusterId(0xc1));
}

#[test]
fn golden_log() {
    check_golden("log-id", &log_id(5, 1_234));
    check_golden("log-vote", &Vote::new(5, 2));
    check_golden("log-vote-committed", &Vote::new_committed(5, 2));
    for (name, payload) in payloads() {
        check_golden(name, &payload);
    }
    for (name, command) in commands() {
        check_golden_at_level(command.format_level(), &format!("command-{name}"), &command);
    }
    // A build of an older level must reject the entry that raises the level, not apply it.
    for (level, name) in [(2, "log-level"), (3, "log-level-3")] {
        let payload = level_payload(level);
        assert_eq!(payload.format_level(), level);
        check_golden_at_level(level, name, &payload);
    }
}

/// The records of `raft-log` around our own: the bytes of a whole file.
#[tokio::test]
async fn golden_log_file() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(3, "127.0.0.1:1", dir.path());
    let identity = NodeIdentity {
        node: 3,
        incarnation: 0x1122_3344_5566_7788,
        cluster: Some(ClusterId(0xc1)),
    };
    {
        let directory = crate::storage::data_dir::DataDir::open(dir.path()).unwrap();
        let mut log = LogStore::open(&directory, options.log_file_bytes).unwrap();
        log.set_stamp(identity).await.unwrap();
        identity.store(&directory).unwrap();
        log.save_vote(&Vote::new_committed(5, 2)).await.unwrap();
        let all = payloads().into_iter().zip(0..);
        let entries = all.map(|((_, payload), index)| Entry {
            log_id: log_id(5, index),
            payload,
        });
        let (tx, rx) = TypeConfig::oneshot();
        let entries: Vec<Entry> = entries.collect();
        log.append(entries, IOFlushed::signal(tx)).await.unwrap();
        rx.await.unwrap().unwrap();
        log.truncate_after(Some(log_id(5, 2))).await.unwrap();
        log.save_committed(Some(log_id(5, 2))).await.unwrap();
        log.purge(log_id(5, 0)).await.unwrap();
    }
    let mut files = crate::storage::data_dir::list_files(&dir.path().join("log")).unwrap();
    files.retain(|f| f.extension().is_some_and(|e| e == "wal"));
    assert_eq!(files.len(), 1, "{files:?}");
    let stored = check_golden_bytes("log-file", &std::fs::read(&files[0]).unwrap());
    std::fs::write(&files[0], stored).unwrap();

    let directory = crate::storage::data_dir::DataDir::open(dir.path()).unwrap();
    let mut log = LogStore::open(&directory, options.log_file_bytes).unwrap();
    assert_eq!(log.identity_stamp(), Some(identity));
    let vote = log.read_vote().await.unwrap();
    assert_eq!(vote, Some(Vote::new_committed(5, 2)));
    assert_eq!(log.last_purged(), Some(log_id(5, 0)));
    assert_eq!(log.read_committed().await.unwrap(), Some(log_id(5, 2)));
    let left = log.try_get_log_entries(..).await.unwrap();
    let left: Vec<Payload> = left.into_iter().map(|e| e.payload).collect();
    let kept = payloads().into_iter().map(|(_, payload)| payload);
    assert_eq!(left, kept.skip(1).take(2).collect::<Vec<_>>());
}

#[test]
fn golden_rows() {
    let rows_3 = rows(3).into_iter();
    let new_rows = rows_3.filter(|(key, _)| rows(2).iter().all(|(known, _)| known != key));
    for (key, row) in rows(2).into_iter().chain(new_rows) {
        let name = format!("{row:?}");
        let name = name.split('(').next().unwrap().to_lowercase();
        check_golden_at_level(row.level(), &format!("row-{name}"), &row);
        let key_bytes = crate::state::sled_rows::encode_row_key(&key).unwrap();
        let stored = check_golden_bytes(&format!("key-{name}"), &key_bytes);
        assert!(crate::state::sled_rows::decode_row_key(&stored).is_ok_and(|k| k == key));
    }
    let mut digest = RowsDigest::default();
    for (key, row) in rows(1) {
        digest.add(RowsDigest::of_row(&key, &row).unwrap());
    }
    let meta = RowsMeta {
        last_applied: Some(log_id(5, 1_234)),
        membership: stored_membership(),
        digest,
    };
    let read: RowsMeta = record::decode(&check_golden_bytes(
        "row-meta",
        &record::encode(&meta).unwrap(),
    ))
    .unwrap();
    assert_eq!(read.digest, digest);
    assert_eq!(read.last_applied, meta.last_applied);
    assert_eq!(read.membership, stored_membership());
    check_golden(
        "row-proven",
        &DurabilityProof {
            incarnation: 0x1122_3344_5566_7788,
            entry: log_id(5, 1_234),
        },
    );
}

#[test]
fn golden_snapshot() {
    golden_snapshot_at(1, "snapshot");
    golden_snapshot_at(2, "snapshot-level-2");
    golden_snapshot_at(3, "snapshot-level-3");
}

fn golden_snapshot_at(level: u32, name: &str) {
    let dir = tempfile::tempdir().unwrap();
    let directory = crate::storage::data_dir::DataDir::open(dir.path()).unwrap();
    let meta = SnapshotMeta {
        last_log_id: Some(log_id(5, 1_234)),
        last_membership: stored_membership(),
    };
    let state = seqsvr_core::state::State::from_rows(rows(level)).unwrap();
    let path = snapshot::write_snapshot(&directory, &meta, &state)
        .unwrap()
        .path;
    let stored = check_golden_bytes(name, &std::fs::read(&path).unwrap());
    std::fs::write(&path, stored).unwrap();
    let (read, rows) = snapshot::read_snapshot(&SnapshotFile::open(&path).unwrap()).unwrap();
    assert_eq!((read, rows), (meta, state));
}

#[test]
fn golden_backup() {
    golden_backup_at(1, "backup", Vec::new());
    golden_backup_at(1, "backup-peaks", vec![(NamespaceId(1), 4_000)]);
    golden_backup_at(2, "backup-level-2", Vec::new());
    golden_backup_at(3, "backup-level-3", Vec::new());
}

fn golden_backup_at(level: u32, name: &str, peak: Vec<(NamespaceId, u64)>) {
    let state = seqsvr_core::state::State::from_rows(rows(level)).unwrap();
    let taken = StateBackup {
        header: BackupHeader {
            cluster: state.cluster().unwrap().id,
            term: 5,
            index: 1_234,
            usage: UsageReport {
                taken_at: 1_700_000_000,
                watched_secs: 3_600,
                added: vec![(NamespaceId(1), 20_000)],
                busiest_minute: peak,
            },
        },
        state,
    };
    let mut bytes = Vec::new();
    taken.write(&mut bytes).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("backup");
    std::fs::write(&file, check_golden_bytes(name, &bytes)).unwrap();
    assert_eq!(backup::read_backup_file(&file).unwrap(), taken);
}

#[test]
fn golden_calls() {
    check_golden(
        "call-append",
        &AppendEntriesRequest::<TypeConfig> {
            vote: Vote::new_committed(5, 2),
            prev_log_id: Some(log_id(4, 6)),
            entries: vec![entry(5, 7, first_commands())],
            leader_commit: Some(log_id(4, 6)),
        },
    );
    for (name, answer) in append_answers() {
        check_golden(name, &answer);
    }
    let vote = Vote::new(6, 1);
    check_golden(
        "call-vote",
        &VoteRequest::<TypeConfig>::new(vote, Some(log_id(4, 6))),
    );
    check_golden(
        "call-vote-answer",
        &VoteResponse::<TypeConfig>::new(vote, Some(log_id(4, 6)), true),
    );
    let meta = SnapshotMeta {
        last_log_id: Some(log_id(5, 1_234)),
        last_membership: stored_membership(),
    };
    check_golden("call-snapshot", &(Vote::new_committed(5, 2), meta));
    check_golden(
        "call-snapshot-answer",
        &SnapshotResponse::<TypeConfig>::new(vote),
    );
    check_golden(
        "call-transfer",
        &TransferLeaderRequest::<TypeConfig>::new(Vote::new_committed(5, 2), 3, Some(log_id(4, 6))),
    );
}
