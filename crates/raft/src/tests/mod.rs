//! Tests that need the inside of the crate: storage by itself, without openraft's core.

mod calls;
mod disk;
mod format_versions;
mod founder;
mod golden;
mod log_damage;
mod power;
#[path = "../../tests/it/support/running_node.rs"]
#[allow(dead_code, reason = "the tests from outside need all of it")]
mod running_node;
mod samples;
mod snapshot_install;
mod snapshot_race;
mod state_divergence;
mod storage_suite;

use std::collections::BTreeMap;
use std::sync::Arc;

use openraft::EntryPayload;
use openraft::storage::RaftLogStorage;
use seqsvr_core::command::{Batch, Command};

use crate::error::Error;
use crate::log::LogStore;
use crate::open::Storage;
use crate::options::Options;
use crate::types::{CommittedLeaderId, Entry, LogId, Payload, Peer, Proposal};

fn log_id(term: u64, index: u64) -> LogId {
    LogId {
        leader_id: CommittedLeaderId::new(term),
        index,
    }
}

fn entry(term: u64, index: u64, commands: Vec<Command>) -> Entry {
    Entry {
        log_id: log_id(term, index),
        payload: EntryPayload::Normal(Proposal(Arc::new(Batch { commands }))),
    }
}

fn peer(id: u64) -> Peer {
    Peer {
        address: format!("10.0.0.{id}:7800"),
        incarnation: 0x1000 + id,
    }
}

fn membership(ids: impl IntoIterator<Item = u64>) -> openraft::Membership<u64, Peer> {
    let peers: BTreeMap<u64, Peer> = ids.into_iter().map(|id| (id, peer(id))).collect();
    openraft::Membership::from(peers)
}

/// Opens storage and retries. Tests of this binary start processes; between fork and exec such a
/// process holds copies of our locked files. So a lock that was just dropped may look taken for a
/// moment.
fn open_storage(options: &Options) -> Result<Storage, Error> {
    for _ in 0..1_000 {
        match Storage::open(options) {
            Err(Error::Locked(_)) => std::thread::sleep(std::time::Duration::from_millis(5)),
            other => return other,
        }
    }
    Storage::open(options)
}
