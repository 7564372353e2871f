//! Connections to a port for TLS that do not complete their handshake.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Pid;
use seqsvr_net::{ChannelPool, Transport};
use seqsvr_proto::v1::DescribeRequest;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_test_support::process_stats::ProcessStats;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::TEST_TIMEOUT;
use crate::scenario::overload::try_raise_file_limit;

const CONNECTIONS: usize = 2_000;
/// What they send: nothing, one byte, and half of a ClientHello of 512 bytes.
const BEGINNINGS: [&[u8]; 3] = [
    &[],
    &[22],
    &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3, 7, 7, 7, 7],
];
/// Maximum time of a connection: that of a handshake, and what a loaded machine adds.
const OPEN_MAX: Duration = Duration::from_secs(12);
const HANDSHAKE_P99_MAX: Duration = Duration::from_secs(1);
const MEMORY_GROWTH_MAX: u64 = 100 << 20;

/// Opens such connections to a store. Checks that the store closes them, and that a new caller
/// with a certificate is served at the same time. Returns what was measured.
pub(super) async fn hold_handshakes(
    store: String,
    store_process: Pid,
    caller: Arc<dyn Transport>,
) -> String {
    assert!(try_raise_file_limit(8_192), "raise the limit of open files");
    let read_memory = || {
        let stats = ProcessStats::read(store_process, None);
        stats.expect("the store runs").memory_bytes
    };
    let memory_before = read_memory();
    let mut held = JoinSet::new();
    for n in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(&store).await.expect("it listens");
        let opened = Instant::now();
        let begin = BEGINNINGS[n % BEGINNINGS.len()];
        stream.write_all(begin).await.expect("sent");
        held.spawn(async move {
            let mut rest = Vec::new();
            // A reset ends it as well.
            let ended = timeout(TEST_TIMEOUT, stream.read_to_end(&mut rest)).await;
            ended.is_ok().then(|| opened.elapsed())
        });
    }
    let (mut handshakes, mut open_max) = (Vec::new(), Duration::ZERO);
    let mut memory_max = memory_before;
    while !held.is_empty() {
        let began = Instant::now();
        let channel = ChannelPool::with_transport(caller.clone()).get(&store);
        let mut client = StoreClient::new(channel.expect("a good address"));
        let described = timeout(TEST_TIMEOUT, client.describe(DescribeRequest {})).await;
        described.expect("an answer in time").expect("an answer");
        handshakes.push(began.elapsed());
        memory_max = memory_max.max(read_memory());
        while let Some(ended) = held.try_join_next() {
            let open = ended.expect("no panic").expect("the store closes it");
            open_max = open_max.max(open);
        }
        sleep(Duration::from_millis(25)).await;
    }
    handshakes.sort_unstable();
    let p99 = handshakes[handshakes.len() * 99 / 100];
    let growth = memory_max - memory_before;
    let measured = format!(
        "{CONNECTIONS} silent connections: open for {open_max:.1?} at most, {} handshakes beside them, p99 {p99:.0?}, memory + {} KiB",
        handshakes.len(),
        growth >> 10
    );
    assert!(open_max <= OPEN_MAX, "{measured}");
    assert!(handshakes.len() >= 20, "{measured}");
    assert!(p99 <= HANDSHAKE_P99_MAX, "{measured}");
    assert!(growth <= MEMORY_GROWTH_MAX, "{measured}");
    measured
}
