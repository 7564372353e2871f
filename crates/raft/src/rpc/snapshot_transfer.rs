//! Sends a snapshot file to a follower, and decides when the follower has stopped making progress.
//!
//! Invariant: a transfer is given up only if nothing happens, not because it takes long in total.
//! Schedule that breaks it: an install takes 100 s and a transfer may take 90 s; the leader gives
//! up, sends the snapshot again from its beginning, and never stops.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seqsvr_proto::v1::RaftSnapshotChunk;
use tokio::sync::mpsc::{self, Sender};
use tokio_stream::wrappers::ReceiverStream;

use crate::state::snapshot::SnapshotFile;

/// Data of one snapshot chunk.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks that are read ahead.
const CHUNKS_AHEAD_MAX: usize = 4;
/// Chunks that may lie between this process and the peer: those read ahead, and buffers of the
/// connection. If the connection has taken more, the peer takes part.
const BUFFERED_CHUNKS_MAX: u64 = CHUNKS_AHEAD_MAX as u64 + 64;
/// Bytes a second of the slowest receiver: after the last chunk it reads the file back, checks it
/// and syncs it.
const CHECK_BYTES_PER_SECOND_MIN: u32 = 1 << 20;

/// A snapshot on its way.
pub(crate) struct SnapshotTransfer {
    /// Chunks that the connection has taken.
    taken: Arc<AtomicU64>,
    /// Number of chunks.
    chunk_count: u64,
    file_bytes: u64,
    pub(crate) reader: tokio::task::JoinHandle<io::Result<()>>,
}

impl SnapshotTransfer {
    /// Begins to read the file. The stream has `first` and then the file.
    pub(crate) fn start(
        snapshot: SnapshotFile,
        first: RaftSnapshotChunk,
    ) -> (SnapshotTransfer, ReceiverStream<RaftSnapshotChunk>) {
        // A file that cannot be read returns its error when it is read.
        let bytes = snapshot.file_len().unwrap_or(0);
        let (tx, rx) = mpsc::channel(CHUNKS_AHEAD_MAX);
        let taken = Arc::new(AtomicU64::new(0));
        let count = taken.clone();
        let reader = tokio::spawn(send_chunks(snapshot.file, first, tx, count));
        let transfer = SnapshotTransfer {
            taken,
            chunk_count: 1 + bytes.div_ceil(CHUNK_BYTES as u64),
            file_bytes: bytes,
            reader,
        };
        (transfer, ReceiverStream::new(rx))
    }

    /// Resolves once no chunk has been taken for `limit`, or once the receiver has had that time
    /// and the time that a slow disk needs since the last chunk.
    pub(crate) async fn wait_until_stalled(&self, limit: Duration) {
        let check = Duration::from_secs(self.file_bytes) / CHECK_BYTES_PER_SECOND_MIN;
        let mut seen = self.chunks_taken();
        loop {
            let is_sent = seen >= self.chunk_count;
            let wait = if is_sent { limit + check } else { limit };
            tokio::time::sleep(wait).await;
            let taken = self.chunks_taken();
            if taken == seen {
                return;
            }
            seen = taken;
        }
    }

    /// Returns whether the peer has certainly taken some of it.
    pub(crate) fn is_peer_active(&self) -> bool {
        self.chunks_taken() > BUFFERED_CHUNKS_MAX
    }

    fn chunks_taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }
}

/// Sends `first` and then the file, and counts the chunks in `taken`.
async fn send_chunks(
    mut file: File,
    first: RaftSnapshotChunk,
    chunks: Sender<RaftSnapshotChunk>,
    taken: Arc<AtomicU64>,
) -> io::Result<()> {
    file.rewind()?;
    let mut chunk = first;
    while chunks.send(chunk).await.is_ok() {
        taken.fetch_add(1, Ordering::Release);
        let read = seqsvr_os::spawn_blocking(move || read_chunk(&file).map(|data| (file, data)));
        let (rest, data) = read.await.map_err(io::Error::other)??;
        if data.is_empty() {
            break;
        }
        file = rest;
        chunk = RaftSnapshotChunk {
            header: None,
            description: Default::default(),
            data: data.into(),
        };
    }
    Ok(())
}

fn read_chunk(file: &File) -> io::Result<Vec<u8>> {
    let mut data = Vec::with_capacity(CHUNK_BYTES);
    file.take(CHUNK_BYTES as u64).read_to_end(&mut data)?;
    Ok(data)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio_stream::StreamExt;

    use super::*;

    const STALL_TIMEOUT: Duration = Duration::from_secs(2);

    fn begin(chunks: usize) -> (SnapshotTransfer, ReceiverStream<RaftSnapshotChunk>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; chunks * CHUNK_BYTES]).unwrap();
        let snapshot = SnapshotFile::open(&path).unwrap();
        SnapshotTransfer::start(snapshot, RaftSnapshotChunk::default())
    }

    /// Schedule: a transfer takes longer than the limit, and a chunk is taken all the time.
    #[tokio::test]
    async fn transfer_with_progress_does_not_stall() {
        let (transfer, mut stream) = begin(100);
        let begun = Instant::now();
        let receive = async {
            while let Some(_chunk) = stream.next().await {
                tokio::time::sleep(STALL_TIMEOUT / 60).await;
            }
        };
        tokio::select! {
            () = receive => {}
            () = transfer.wait_until_stalled(STALL_TIMEOUT) => panic!("given up after {:?}", begun.elapsed()),
        }
        assert!(begun.elapsed() > STALL_TIMEOUT, "the test shows nothing");
        assert!(transfer.is_peer_active());
        // After that it has to be answered.
        let answer = tokio::time::timeout(
            20 * STALL_TIMEOUT,
            transfer.wait_until_stalled(STALL_TIMEOUT / 10),
        );
        answer.await.unwrap();
    }

    #[tokio::test]
    async fn transfer_without_progress_stalls() {
        let (transfer, stream) = begin(100);
        let given_up = tokio::time::timeout(
            20 * STALL_TIMEOUT,
            transfer.wait_until_stalled(STALL_TIMEOUT / 10),
        );
        given_up.await.unwrap();
        assert!(!transfer.is_peer_active());
        drop(stream);
        transfer.reader.await.unwrap().unwrap();
    }
}
