//! Golden bytes of everything stored or sent. A difference means that nodes in the field could not
//! read their disks: raise the format version and keep reading the old one instead.
//!
//! A new value's file is written by `SEQSVR_GOLDEN=write cargo test -p seqsvr-raft golden`.

use std::fmt::Debug;
use std::path::PathBuf;

use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};
use seqsvr_core::command::{Cause, Fence, Final, OpenSession, Proof, SlotFinal};
use seqsvr_core::id::{
    ClusterId, Epoch, Generation, NamespaceId, Nonce, SectionId, SectionKey, SessionId, Slot,
};
use seqsvr_core::namespace::{Limits, Namespace, Spec};
use seqsvr_core::state::{Cluster, Row, RowKey, Section, Session, SlotRow};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;
use crate::digest::Digest;
use crate::frame;
use crate::identity::Identity;
use crate::rows::Meta;
use crate::snapshot::{self, SnapshotFile};
use crate::types::{SnapshotMeta, StoredMembership, TypeConfig, Vote};

fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|b| format!("{b:02x}")).collect::<String>();
    bytes.chunks(32).map(|l| line(l) + "\n").collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn golden(name: &str, bytes: &[u8]) -> Vec<u8> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = dir.join(format!("{name}.hex"));
    if !path.exists() && std::env::var("SEQSVR_GOLDEN").is_ok_and(|v| v == "write") {
        std::fs::write(&path, hex(bytes)).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    assert_eq!(
        hex(bytes),
        stored,
        "{name} is written differently than before"
    );
    unhex(&stored)
}

fn check<T: Serialize + DeserializeOwned + Debug>(name: &str, value: &T) {
    let bytes = frame::encode(value).unwrap();
    let read: T = frame::decode(&golden(name, &bytes)).unwrap();
    assert_eq!(format!("{read:?}"), format!("{value:?}"), "{name}");
}

fn section() -> SectionKey {
    SectionKey {
        namespace: NamespaceId(1),
        section: SectionId(42),
    }
}

fn every_command() -> Vec<Command> {
    let fence = Fence {
        slot: Slot(7),
        epoch: Epoch(3),
        section: section(),
    };
    let last = Final {
        section: section(),
        generation: Generation(2),
        value: 900,
    };
    vec![
        Command::Init {
            cluster: ClusterId(0xc1),
            lease_ms: 3_000,
            slots: 1_024,
        },
        Command::OpenSession(OpenSession {
            name: String::from("a1"),
            address: String::from("10.0.0.9:7700"),
            incarnation: 99,
            nonce: Nonce(5),
            proof: Some(Proof {
                session: SessionId(1),
                nonce: Nonce(4),
            }),
        }),
        Command::CloseSession {
            session: SessionId(2),
            finals: vec![SlotFinal {
                slot: Slot(7),
                epoch: Epoch(3),
                last,
            }],
            last: true,
        },
        Command::ExpireSession {
            session: SessionId(3),
            term: 8,
        },
        Command::Assign {
            slot: Slot(7),
            from: Epoch(2),
            to: SessionId(3),
        },
        Command::Open {
            fence,
            expected: Generation(1),
            nonce: Nonce(6),
            step: 10_000,
        },
        Command::Raise {
            fence,
            generation: Generation(2),
            to: 20_000,
            cause: Cause::Refill,
        },
        Command::Raise {
            fence,
            generation: Generation(2),
            to: 20_000,
            cause: Cause::RaiseTo { force: true },
        },
        Command::CloseSection {
            fence,
            generation: Generation(2),
            value: 900,
        },
        Command::MoveSlot {
            slot: Slot(7),
            epoch: Epoch(3),
            finals: vec![last],
            to: Some(SessionId(4)),
        },
        Command::CreateNamespace(Spec::default_keyed()),
        Command::AlterNamespace {
            id: NamespaceId(2),
            step: 500,
            limits: Limits::DEFAULT,
        },
    ]
}

fn every_row() -> Vec<(RowKey, Row)> {
    let cluster = Cluster {
        id: ClusterId(0xc1),
        lease_ms: 3_000,
        slots: 1,
        table_version: 12,
        next_session: 5,
        next_namespace: 3,
    };
    let namespace = Namespace {
        id: NamespaceId(1),
        spec: Spec::default_dense(),
        version: 1,
    };
    let row = Section {
        max_seq: 20_000,
        generation: Generation(2),
        base: 10_000,
        nonce: Nonce(6),
        open: true,
        raised: 3,
    };
    let slot = SlotRow {
        epoch: Epoch(3),
        owner: Some(SessionId(4)),
        version: 11,
    };
    let session = Session {
        name: String::from("a1"),
        address: String::from("10.0.0.9:7700"),
        incarnation: 99,
        nonce: Nonce(5),
    };
    vec![
        (RowKey::Cluster, Row::Cluster(cluster)),
        (RowKey::Namespace(NamespaceId(1)), Row::Namespace(namespace)),
        (RowKey::Section(section()), Row::Section(row)),
        (RowKey::Slot(Slot(0)), Row::Slot(slot)),
        (RowKey::Session(SessionId(4)), Row::Session(session)),
    ]
}

fn stored_membership() -> StoredMembership {
    StoredMembership::new(Some(log_id(1, 0)), membership([1, 2, 3]))
}

#[test]
fn golden_identity() {
    let identity = |cluster| Identity {
        node: 3,
        incarnation: 0x1122_3344_5566_7788,
        cluster,
    };
    check("identity-waiting", &identity(None));
    check("identity", &identity(Some(ClusterId(0xc1))));
}

#[test]
fn golden_log() {
    check("log-id", &log_id(5, 1_234));
    check("log-vote", &Vote::new(5, 2));
    check("log-vote-committed", &Vote::new_committed(5, 2));
    check("log-blank", &Payload::Blank);
    check(
        "log-membership",
        &Payload::Membership(membership([1, 2, 3])),
    );
    check("log-batch", &entry(5, 7, every_command()).payload);
}

#[test]
fn golden_rows() {
    for (key, row) in every_row() {
        let name = format!("{row:?}");
        let name = name.split('(').next().unwrap().to_lowercase();
        check(&format!("row-{name}"), &row);
        let key_bytes = crate::rows::row_key(&key).unwrap();
        let stored = golden(&format!("key-{name}"), &key_bytes);
        assert!(crate::rows::parse_key(&stored).is_ok_and(|k| k == key));
    }
    let mut digest = Digest::default();
    for (key, row) in every_row() {
        digest.add(Digest::of_row(&key, &row).unwrap());
    }
    let meta = Meta {
        last_applied: Some(log_id(5, 1_234)),
        membership: stored_membership(),
        digest,
    };
    let read: Meta = frame::decode(&golden("row-meta", &frame::encode(&meta).unwrap())).unwrap();
    assert_eq!(read.digest, digest);
    assert_eq!(read.membership, stored_membership());
}

#[test]
fn golden_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let directory = crate::directory::Directory::open(dir.path()).unwrap();
    let meta = SnapshotMeta {
        last_log_id: Some(log_id(5, 1_234)),
        last_membership: stored_membership(),
    };
    let state = seqsvr_core::state::State::from_rows(every_row()).unwrap();
    let path = snapshot::write(&directory, &meta, &state).unwrap();
    let stored = golden("snapshot", &std::fs::read(&path).unwrap());
    std::fs::write(&path, stored).unwrap();
    let (read, rows) = snapshot::read(&SnapshotFile::open(&path).unwrap()).unwrap();
    assert_eq!((read, rows), (meta, state));
}

#[test]
fn golden_calls() {
    check(
        "call-append",
        &AppendEntriesRequest::<TypeConfig> {
            vote: Vote::new_committed(5, 2),
            prev_log_id: Some(log_id(4, 6)),
            entries: vec![entry(5, 7, every_command())],
            leader_commit: Some(log_id(4, 6)),
        },
    );
    let conflict = AppendEntriesResponse::<TypeConfig>::PartialSuccess(Some(log_id(4, 6)));
    check("call-append-answer", &conflict);
    let vote = Vote::new(6, 1);
    check(
        "call-vote",
        &VoteRequest::<TypeConfig>::new(vote, Some(log_id(4, 6))),
    );
    check(
        "call-vote-answer",
        &VoteResponse::<TypeConfig>::new(vote, Some(log_id(4, 6)), true),
    );
}
