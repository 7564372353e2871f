//! A backup of the applied state, streamed, and what helps to judge it at a restore.
//!
//! Invariant: what is sent is the state at one moment, after a quorum round that began after the call
//! came in: whatever was acknowledged before the call is in it. Schedule that breaks it: a leader that
//! was deposed without noticing sends what it has, and minutes of raises are missing.
//!
//! Bounds: a few backups at a time, each a copy of the state in memory; a receiver that takes nothing
//! for a while is dropped.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use seqsvr_core::command::{Batch, Command, Reply};
use seqsvr_core::id::{NamespaceId, SectionKey};
use seqsvr_core::state::State;
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::BackupChunk;
use seqsvr_raft::backup::Seen;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::context::Context;
use crate::fault;

/// Most backups at a time.
const AT_ONCE: usize = 2;
const CHUNK: usize = 64 << 10;
/// Chunks that wait for the receiver.
const AHEAD: usize = 4;
/// How long a receiver may take nothing.
const STALL: Duration = Duration::from_secs(30);

type Sender = mpsc::Sender<Result<BackupChunk, Status>>;

/// What a store keeps for backups.
pub(crate) struct Backups {
    permits: Arc<Semaphore>,
    since: Instant,
    /// Numbers added since then by entries of this leader.
    added: Mutex<BTreeMap<NamespaceId, u64>>,
}

impl Default for Backups {
    fn default() -> Backups {
        Backups {
            permits: Arc::new(Semaphore::new(AT_ONCE)),
            since: Instant::now(),
            added: Mutex::default(),
        }
    }
}

/// Sections an entry opens or raises, one a command, and where their max_seq was.
pub(crate) struct Before {
    sections: Vec<Option<SectionKey>>,
    max_seq: BTreeMap<SectionKey, u64>,
}

impl Before {
    /// To be called with the state on which the entry will be applied.
    pub(crate) fn of(batch: &Batch, state: &State) -> Before {
        let sections = batch.commands.iter().map(|command| match command {
            Command::Open { fence, .. } | Command::Raise { fence, .. } => Some(fence.section),
            _ => None,
        });
        let sections: Vec<_> = sections.collect();
        let at = |key: &SectionKey| Some((*key, state.section(*key)?.max_seq));
        Before {
            max_seq: sections.iter().flatten().filter_map(at).collect(),
            sections,
        }
    }
}

impl Backups {
    /// Counts the numbers that an entry added.
    pub(crate) fn count(&self, mut before: Before, replies: &[Reply], state: &State) {
        let mut added = self.added.lock();
        for (key, reply) in before.sections.iter().zip(replies) {
            let (Some(key), Reply::Opened { max_seq, .. } | Reply::Raised { max_seq, .. }) =
                (key, reply)
            else {
                continue;
            };
            let Some(namespace) = state.namespace(key.namespace) else {
                continue;
            };
            let progression = namespace.spec.progression;
            let was = before.max_seq.entry(*key).or_insert(progression.floor());
            let more = progression.count_between(*was, *max_seq);
            *was = *max_seq;
            let sum = added.entry(key.namespace).or_default();
            *sum = sum.saturating_add(more);
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the one use of wall time: for people who choose margins later, for nothing else"
    )]
    fn seen(&self) -> Seen {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Seen {
            taken_at: now.map_or(0, |d| d.as_secs()),
            watched: self.since.elapsed().as_secs(),
            added: self.added.lock().iter().map(|(k, v)| (*k, *v)).collect(),
        }
    }
}

pub(super) async fn backup(
    context: &Context,
) -> Result<ReceiverStream<Result<BackupChunk, Status>>, Fault> {
    let permit = context.backups.permits.clone().try_acquire_owned();
    let permit = permit.map_err(|_| {
        fault::too_many(format!(
            "{AT_ONCE} backups are under way already: try again when one is done"
        ))
    })?;
    context.confirm().await?;
    let backup = context.node.backup(context.backups.seen());
    let backup = backup.ok_or_else(fault::not_initialised)?;
    let (sender, receiver) = mpsc::channel(AHEAD);
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || {
        let mut out = Chunks {
            bytes: Vec::with_capacity(CHUNK),
            sender,
            runtime,
        };
        if let Err(e) = backup.write(&mut out).and_then(|()| out.flush()) {
            tracing::warn!("a backup was not sent to its end: {e}");
            let told = Status::unavailable(format!("the backup broke off: {e}; repeat it"));
            // Whoever is gone, or takes nothing, is not told.
            let _ = out.sender.try_send(Err(told));
        }
        drop(permit);
    });
    Ok(ReceiverStream::new(receiver))
}

/// Sends what is written in chunks, at the receiver's pace.
struct Chunks {
    bytes: Vec<u8>,
    sender: Sender,
    runtime: Handle,
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..taken]);
        if self.bytes.len() == CHUNK {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let data = std::mem::replace(&mut self.bytes, Vec::with_capacity(CHUNK));
        let chunk = Ok(BackupChunk { data: data.into() });
        let sent = self
            .runtime
            .block_on(async { timeout(STALL, self.sender.send(chunk)).await });
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::Error::other("the receiver hung up")),
            Err(_) => Err(io::Error::other("the receiver took nothing")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use seqsvr_core::command::{Cause, Fence, OpenSession};
    use seqsvr_core::id::{ClusterId, Epoch, Generation, Nonce, SectionId, SessionId, Slot};

    use super::*;

    #[test]
    fn numbers_added_are_counted_once() {
        let key = SectionKey {
            namespace: NamespaceId(1),
            section: SectionId(0),
        };
        let fence = Fence {
            slot: Slot(0),
            epoch: Epoch(1),
            section: key,
        };
        let raise = |to| Command::Raise {
            fence,
            generation: Generation(1),
            to,
            cause: Cause::Refill,
        };
        let open = Command::Open {
            fence,
            expected: Generation(0),
            nonce: Nonce(2),
            step: 100,
        };
        let mut state = State::default();
        let backups = Backups::default();
        let mut play = |commands: Vec<Command>| {
            let batch = Batch { commands };
            let before = Before::of(&batch, &state);
            let replies = state.apply(1, &batch, &mut BTreeSet::new());
            backups.count(before, &replies, &state);
            backups.seen().added
        };
        play(vec![
            Command::Init {
                cluster: ClusterId(1),
                lease_ms: 3_000,
                slots: 1,
            },
            Command::OpenSession(OpenSession {
                name: "a1".into(),
                address: "x:1".into(),
                incarnation: 1,
                nonce: Nonce(1),
                proof: None,
            }),
            Command::Assign {
                slot: Slot(0),
                from: Epoch(0),
                to: SessionId(1),
            },
        ]);
        let added = |n| vec![(NamespaceId(1), n)];
        assert_eq!(play(vec![open.clone()]), added(100));
        // A retry of each, and two raises of one section in one entry.
        assert_eq!(play(vec![open, raise(150), raise(150)]), added(150));
        assert_eq!(play(vec![raise(150), raise(400)]), added(400));
        // Refused: nothing was added.
        let stale = Command::Raise {
            fence,
            generation: Generation(9),
            to: 500,
            cause: Cause::Refill,
        };
        assert_eq!(play(vec![stale]), added(400));
    }
}
