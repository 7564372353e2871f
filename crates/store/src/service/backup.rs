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
use std::time::{Duration, SystemTime};

use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::BackupChunk;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::context::{BACKUPS_MAX, StoreContext};
use crate::rpc_errors;

/// Bytes of one message.
const CHUNK_BYTES: usize = 64 << 10;
/// Most chunks that wait for the receiver; after them the store waits.
const CHUNKS_AHEAD_MAX: usize = 4;
/// Time in which a receiver must read something; after it the store ends the backup.
const RECEIVER_STALL_TIMEOUT: Duration = Duration::from_secs(30);

type ChunkSender = mpsc::Sender<Result<BackupChunk, Status>>;

/// Returns the seconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "the one use of wall time: for people who choose margins later, for nothing else"
)]
fn wall_time_s() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |d| d.as_secs())
}

pub(super) async fn start_backup(
    context: &StoreContext,
) -> Result<ReceiverStream<Result<BackupChunk, Status>>, RpcError> {
    let permit = context.backup_permits.clone().try_acquire_owned();
    let permit = permit.map_err(|_| {
        rpc_errors::overloaded(format!(
            "{BACKUPS_MAX} backups are already in progress; retry when one has finished"
        ))
    })?;
    context.confirm_leadership().await?;
    let backup = context.node.backup(wall_time_s());
    let backup = backup.ok_or_else(rpc_errors::not_initialized)?;
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD_MAX);
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || {
        let mut out = ChunkWriter {
            bytes: Vec::with_capacity(CHUNK_BYTES),
            sender,
            runtime,
        };
        if let Err(error) = backup.write(&mut out).and_then(|()| out.flush()) {
            tracing::warn!(%error, "backup was not sent completely");
            let status =
                Status::unavailable(format!("the backup was interrupted: {error}; repeat it"));
            // A receiver that is gone, or takes nothing, does not receive the reason.
            let _ = out.sender.try_send(Err(status));
        }
        drop(permit);
    });
    Ok(ReceiverStream::new(receiver))
}

/// Sends written bytes in chunks, at the receiver's pace.
struct ChunkWriter {
    bytes: Vec<u8>,
    sender: ChunkSender,
    runtime: Handle,
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(CHUNK_BYTES - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..count]);
        if self.bytes.len() == CHUNK_BYTES {
            self.flush()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let data = std::mem::replace(&mut self.bytes, Vec::with_capacity(CHUNK_BYTES));
        let chunk = Ok(BackupChunk { data: data.into() });
        let sent = self
            .runtime
            .block_on(async { timeout(RECEIVER_STALL_TIMEOUT, self.sender.send(chunk)).await });
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::Error::other("the receiver closed the stream")),
            Err(_) => Err(io::Error::other(format!(
                "the receiver read nothing for {RECEIVER_STALL_TIMEOUT:?}"
            ))),
        }
    }
}
