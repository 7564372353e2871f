//! Streamed backup of the applied state, and what helps to judge it at a restore.
//!
//! Invariant: the store sends the state at one moment, after a quorum round that began after the
//! call came in. So everything that was acknowledged before the call is in it. Schedule that breaks
//! it: a leader that was deposed without noticing sends what it has, and minutes of raises are
//! missing.
//!
//! Bounds: a few backups at a time, each a copy of the state in memory; the store drops a receiver
//! that takes nothing for a while.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::BackupChunk;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::context::Context;
use crate::fault;

/// Most backups at a time.
const AT_ONCE: usize = 2;
const CHUNK: usize = 64 << 10;
/// Chunks that wait for the receiver.
const AHEAD: usize = 4;
/// Longest time in which a receiver may take nothing.
const STALL: Duration = Duration::from_secs(30);

type Sender = mpsc::Sender<Result<BackupChunk, Status>>;

/// State that a store keeps for backups.
pub(crate) struct Backups {
    permits: Arc<Semaphore>,
}

impl Default for Backups {
    fn default() -> Backups {
        Backups {
            permits: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }
}

/// Returns the seconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "the one use of wall time: for people who choose margins later, for nothing else"
)]
fn wall_time() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |d| d.as_secs())
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
    let backup = context.node.backup(wall_time());
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
            // A receiver that is gone, or takes nothing, does not receive the reason.
            let _ = out.sender.try_send(Err(told));
        }
        drop(permit);
    });
    Ok(ReceiverStream::new(receiver))
}

/// Sends written bytes in chunks, at the receiver's pace.
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
