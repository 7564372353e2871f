//! Compares the log in memory with `raft-log`, and simulates crashes of it.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use openraft::EntryPayload;
use proptest::prelude::*;
use raft_log::RaftLog;
use raft_log::api::raft_log_writer::RaftLogWriter;
use tokio::runtime::Runtime;

use super::super::codec::LogTypes;
use super::disk::*;
use super::*;
use crate::storage::first_error::FirstError;
use crate::types::{CommittedLeaderId, LogId};

fn id(term: u64, index: u64) -> StoredLogId {
    StoredValue(LogId {
        leader_id: CommittedLeaderId::new(term),
        index,
    })
}

fn entry(term: u64, index: u64) -> StoredEntry {
    (id(term, index), StoredValue(EntryPayload::Blank))
}

#[derive(Clone, Debug)]
enum LogCall {
    Vote(u64),
    /// Entries behind the last one, or at this distance from it.
    Append {
        term: u64,
        count: u64,
        away: i64,
    },
    Truncate(u64),
    Purge(u64, u64),
    Commit(u64, u64),
    UserData(u64),
    Reopen,
}

fn call() -> impl Strategy<Value = LogCall> {
    let (term, index) = (0..4_u64, 0..30_u64);
    prop_oneof![
        1 => term.clone().prop_map(LogCall::Vote),
        8 => (term.clone(), 1..6_u64, prop_oneof![9 => Just(0_i64), 1 => -2..3_i64])
            .prop_map(|(term, count, away)| LogCall::Append { term, count, away }),
        2 => index.clone().prop_map(LogCall::Truncate),
        2 => (term.clone(), index.clone()).prop_map(|(term, index)| LogCall::Purge(term, index)),
        2 => (term, index).prop_map(|(term, index)| LogCall::Commit(term, index)),
        1 => (0..3_u64).prop_map(LogCall::UserData),
        1 => Just(LogCall::Reopen),
    ]
}

/// Both logs, and a runtime for their callbacks.
struct LogPair {
    runtime: Runtime,
    dir: tempfile::TempDir,
    real: Option<RaftLog<LogTypes>>,
    memory: MemoryLog<LogTypes>,
}

fn open_real(dir: &Path) -> RaftLog<LogTypes> {
    let config = raft_log::Config::new(dir.to_str().unwrap());
    RaftLog::open(Arc::new(config)).unwrap()
}

impl LogPair {
    fn new() -> LogPair {
        let dir = tempfile::tempdir().unwrap();
        let mut builder = tokio::runtime::Builder::new_current_thread();
        LogPair {
            runtime: builder.enable_time().start_paused(true).build().unwrap(),
            real: Some(open_real(dir.path())),
            memory: MemoryLog::open(dir.path()),
            dir,
        }
    }

    fn real(&mut self) -> &mut RaftLog<LogTypes> {
        self.real.as_mut().unwrap()
    }

    /// Makes a call of both logs, and returns whether each of them accepted it.
    fn make(&mut self, call: &LogCall) -> (bool, bool) {
        let next = next_index(self.memory.log_state().last());
        match *call {
            LogCall::Vote(term) => {
                let vote = || StoredValue(Vote::new(term, 1));
                (
                    self.real().save_vote(vote()).is_ok(),
                    self.memory.save_vote(vote()).is_ok(),
                )
            }
            LogCall::Append { term, count, away } => {
                let from = next.saturating_add_signed(away);
                let entries = || (from..from + count).map(|index| entry(term, index));
                (
                    self.real().append(entries()).is_ok(),
                    self.memory.append(entries()).is_ok(),
                )
            }
            LogCall::Truncate(index) => (
                self.real().truncate(index).is_ok(),
                self.memory.truncate(index).is_ok(),
            ),
            // Up to an entry that it has, or to the end of a snapshot that is ahead of it.
            LogCall::Purge(term, index) => {
                let ahead = self
                    .memory
                    .log_state()
                    .last()
                    .map_or(0, |last| last.0.leader_id.term);
                let known = self.memory.read(index, index + 1).next();
                let term = known.map_or(term.max(ahead), |entry| entry.unwrap().0.0.leader_id.term);
                let upto = || id(term, index);
                (
                    self.real().purge(upto()).is_ok(),
                    self.memory.purge(upto()).is_ok(),
                )
            }
            LogCall::Commit(term, index) => (
                self.real().commit(id(term, index)).is_ok(),
                self.memory.commit(id(term, index)).is_ok(),
            ),
            LogCall::UserData(node) => {
                let data = || {
                    let incarnation = 7;
                    let cluster = None;
                    let identity = NodeIdentity {
                        node,
                        incarnation,
                        cluster,
                    };
                    (node > 0).then_some(StoredValue(identity))
                };
                (
                    self.real().save_user_data(data()).is_ok(),
                    self.memory.save_user_data(data()).is_ok(),
                )
            }
            LogCall::Reopen => {
                self.flush();
                self.real = None;
                self.real = Some(open_real(self.dir.path()));
                self.memory = MemoryLog::open(self.dir.path());
                (true, true)
            }
        }
    }

    /// Flushes both, and waits for their callbacks.
    fn flush(&mut self) {
        let first_error = Arc::new(FirstError::new(self.dir.path()));
        let _runtime = self.runtime.enter();
        let (done, real) = FlushCallback::with_receiver(first_error.clone());
        self.real.as_mut().unwrap().flush(true, Some(done)).unwrap();
        let (done, memory) = FlushCallback::with_receiver(first_error);
        self.memory.flush(true, Some(done)).unwrap();
        self.runtime.block_on(async {
            real.await.unwrap().unwrap();
            memory.await.unwrap().unwrap();
        });
    }

    fn assert_equal(&mut self) {
        let real = self.real.as_ref().unwrap();
        let (a, b) = (real.log_state(), self.memory.log_state());
        assert_eq!(
            (
                a.vote(),
                a.last(),
                a.committed(),
                a.purged(),
                a.user_data.as_ref()
            ),
            (
                b.vote(),
                b.last(),
                b.committed(),
                b.purged(),
                b.user_data.as_ref()
            )
        );
        let all = |entries: &mut dyn Iterator<Item = io::Result<StoredEntry>>| -> Vec<StoredEntry> {
            entries.map(Result::unwrap).collect()
        };
        let entries = all(&mut real.read(0, u64::MAX));
        assert_eq!(entries, all(&mut self.memory.read(0, u64::MAX)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The log in memory answers each call as `raft-log` does, also after both were opened again.
    #[test]
    fn memory_log_answers_each_call_as_raft_log(calls in prop::collection::vec(call(), 1..60)) {
        let mut both = LogPair::new();
        for (n, call) in calls.iter().enumerate() {
            let (real, memory) = both.make(call);
            prop_assert_eq!(real, memory, "{:?}", call);
            if n % 3 == 0 {
                both.flush();
            }
            both.assert_equal();
        }
        remove(both.dir.path());
    }
}

fn in_runtime<T>(work: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(work)
}

async fn sync(log: &mut MemoryLog<LogTypes>) -> io::Result<()> {
    let (done, wait) = FlushCallback::with_receiver(Arc::new(FirstError::new(Path::new("log"))));
    log.flush(true, Some(done))?;
    wait.await.unwrap()
}

#[test]
fn memory_log_after_power_cut_keeps_synced_records_and_a_prefix() {
    in_runtime(async {
        let path = Path::new("cut");
        let mut log = MemoryLog::<LogTypes>::open(path);
        log.append((0..5).map(|index| entry(1, index))).unwrap();
        sync(&mut log).await.unwrap();
        log.append((5..9).map(|index| entry(1, index))).unwrap();
        cut_power(path, |dirty| dirty - 1);
        let log = MemoryLog::<LogTypes>::open(path);
        assert_eq!(log.log_state().last(), Some(&id(1, 7)));
        remove(path);
    });
}

/// Schedule: a sync fails; the process is started again, reads the page cache, and syncs it; the
/// power goes off. The rewritten record is there; the record that was only synced once more is not.
#[test]
fn memory_log_record_after_failed_sync_is_durable_only_if_rewritten() {
    for is_rewritten in [false, true] {
        in_runtime(async {
            let path = Path::new("failed");
            let mut log = MemoryLog::<LogTypes>::open(path);
            log.append([entry(1, 0)]).unwrap();
            let fails = SyncConduct {
                fails: true,
                ..SyncConduct::default()
            };
            set_conduct(path, fails);
            assert!(sync(&mut log).await.is_err());
            assert!(sync(&mut log).await.is_err(), "its writer has ended");
            set_conduct(path, SyncConduct::default());
            if is_rewritten {
                make_durable(path).unwrap();
            }
            let mut log = MemoryLog::<LogTypes>::open(path);
            assert_eq!(log.log_state().last(), Some(&id(1, 0)));
            sync(&mut log).await.unwrap();
            cut_power(path, |dirty| dirty);
            let left = MemoryLog::<LogTypes>::open(path)
                .log_state()
                .last()
                .is_some();
            assert_eq!(left, is_rewritten);
            remove(path);
        });
    }
}
