//! Senders that are slow, or send too much.

use futures::stream;

use super::*;

const CHUNK: usize = 64 << 10;

/// Returns chunks of this size, one in each interval, without an end.
fn chunks_every(
    interval: Duration,
    bytes: usize,
) -> impl Stream<Item = Result<RaftSnapshotChunk, Status>> + Unpin {
    Box::pin(
        stream::repeat_with(move || bytes).then(move |bytes| async move {
            tokio::time::sleep(interval).await;
            Ok(RaftSnapshotChunk {
                data: vec![7; bytes].into(),
                ..RaftSnapshotChunk::default()
            })
        }),
    )
}

/// Returns the error of a receiver, and the time after which it came.
async fn receive(
    chunks: impl Stream<Item = Result<RaftSnapshotChunk, Status>> + Unpin,
    bytes_max: u64,
) -> (Status, Duration) {
    let began = Instant::now();
    let mut chunks = ChunkStream::new(chunks, None);
    let file = tempfile::tempfile().unwrap();
    let error = chunks.write_to(file, bytes_max).await.unwrap_err();
    (error, began.elapsed())
}

/// Schedule: one byte every 9 s, which is within the time of a chunk.
#[tokio::test(start_paused = true)]
async fn trickling_sender_loses_the_place() {
    let trickle = chunks_every(Duration::from_secs(9), 1);
    let (error, after) = receive(trickle, u64::MAX).await;
    assert_eq!(error.code(), tonic::Code::DeadlineExceeded);
    assert!(after <= SLOW_SENDER_GRACE + CHUNK_TIMEOUT, "{after:?}");
    let silent = stream::pending();
    let (error, after) = receive(silent, u64::MAX).await;
    assert_eq!(error.code(), tonic::Code::DeadlineExceeded);
    assert_eq!(after, CHUNK_TIMEOUT);
}

/// Schedule: a sender is just fast enough, and never ends.
#[tokio::test(start_paused = true)]
async fn endless_sender_loses_the_place() {
    let endless = chunks_every(Duration::from_millis(900), CHUNK);
    let (error, after) = receive(endless, u64::MAX).await;
    assert_eq!(error.code(), tonic::Code::DeadlineExceeded);
    assert_eq!(after, RECEIVE_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn snapshot_over_its_bound_is_rejected() {
    let fast = chunks_every(Duration::from_millis(1), CHUNK);
    let (error, _) = receive(fast, 10 * CHUNK as u64).await;
    assert_eq!(error.code(), tonic::Code::ResourceExhausted);
    assert!(error.message().contains("655360 bytes"), "{error}");
}

#[test]
fn snapshot_bound_follows_own_snapshot_and_free_space() {
    let dir = tempfile::tempdir().unwrap();
    let free = statvfs(dir.path()).unwrap();
    let half = free.f_bavail * free.f_frsize / 2;
    // The free space changes while the test runs.
    let is_bound = |bytes: u64| {
        let bound = snapshot_bytes_max(dir.path());
        match bytes < half / 10 * 9 {
            true => bound == bytes,
            false => bound <= half / 10 * 11,
        }
    };
    assert!(is_bound(FIRST_SNAPSHOT_BYTES_MAX));
    // Sparse files, which take no space.
    for (name, bytes) in [("1.snapshot", 9 << 30), ("2.snapshot", 2 << 30)] {
        let file = File::create(dir.path().join(name)).unwrap();
        file.set_len(bytes).unwrap();
    }
    assert!(is_bound(8 << 30), "four times the newest");
    let file = File::create(dir.path().join("3.snapshot")).unwrap();
    file.set_len(1_000).unwrap();
    assert!(is_bound(SNAPSHOT_BYTES_MIN));
}
