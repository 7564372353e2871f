//! Floods of calls, each of which any caller may make: `Routes` and half-sent messages of every
//! service at an AllocSvr, status calls at the leading store.
//!
//! Fault: the floods, one after the other and then all at once, for longer than the lease and the
//! takeover wait. Measured: the AllocSvr keeps its lease and its session, and no store is elected.

use std::time::Duration;

use futures::future::join_all;
use prost::Message;
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::{ClusterStatusRequest, NextManyRequest, RoutesRequest};
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::raw_http2::RawHttp2;
use seqsvr_test_support::wait::wait_until;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use crate::scenario::ScenarioOutcome;

const LEASE_MS: u32 = 3_000;
/// Duration of one flood: longer than the lease, and than the wait after which a session expires.
const FLOOD_DURATION: Duration = Duration::from_secs(8);
/// Maximum time after a flood until its calls have ended; then they are dropped.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum time after a flood until the cluster answers a status call.
const STATUS_TIMEOUT: Duration = Duration::from_secs(60);
/// Calls in flight of one connection.
const CALLS_PER_CONNECTION: u32 = 1_024;
const ROUTES_CONNECTIONS: usize = 16;
const STATUS_CONNECTIONS: usize = 8;
const HALF_SENT_CONNECTIONS: usize = 16;
/// Fewer answers or rejections are no flood.
const FLOOD_CALLS_MIN: u64 = 1_000;
/// Pause of a caller after an error, so that a closed connection costs little.
const ERROR_PAUSE: Duration = Duration::from_millis(1);
/// Pause of a caller before it makes its connection again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);
/// Interval at which the lease is checked.
const LEASE_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum time of one check; then it is not counted.
const LEASE_CHECK_TIMEOUT: Duration = Duration::from_secs(1);
/// Fewer answered checks in one flood show nothing about the lease.
const LEASE_CHECKS_MIN: u64 = 10;
/// Calls whose messages are sent half, by turns a connection each.
const HALF_SENT_PATHS: [&str; 4] = [
    "/seqsvr.v1.Sequence/NextMany",
    "/seqsvr.v1.Admin/CreateNamespace",
    "/grpc.health.v1.Health/Check",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
];

/// Kind of a flood.
#[derive(Clone, Copy, Debug)]
enum FloodKind {
    /// Calls of `Sequence.Routes` at the AllocSvr.
    Routes,
    /// Calls of `Admin.ClusterStatus` at the leading store.
    StoreStatus,
    /// Calls at the AllocSvr whose messages are sent half.
    HalfSent,
}

/// What a lost lease or an election changes.
#[derive(Debug, PartialEq, Eq)]
struct ClusterStanding {
    session: u64,
    sessions_opened: u64,
    term: u64,
}

/// Floods a cluster of three stores and one AllocSvr.
pub async fn call_floods() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();
    let mut cluster = ProcessCluster::start(3, 1, LEASE_MS).await;
    let store = cluster.store_addresses[cluster.leader().await].clone();
    let alloc = cluster.alloc_addresses[0].clone();
    let before = read_standing(&cluster).await;
    let callers = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("flood")
        .enable_all()
        .build()
        .expect("a runtime");

    for kinds in [
        &[FloodKind::Routes][..],
        &[FloodKind::StoreStatus],
        &[FloodKind::HalfSent],
        &[
            FloodKind::Routes,
            FloodKind::StoreStatus,
            FloodKind::HalfSent,
        ],
    ] {
        let lease = LeaseWatch::start(cluster.endpoint_ports[0].http);
        let until = Instant::now() + FLOOD_DURATION;
        let floods = kinds.iter().map(|kind| match kind {
            FloodKind::Routes => flood_routes(&callers, &alloc, until),
            FloodKind::StoreStatus => flood_status(&callers, &store, until),
            FloodKind::HalfSent => hold_half_sent(&callers, &alloc, until),
        });
        let floods: Vec<_> = floods.collect();
        for (kind, callers) in kinds.iter().zip(floods) {
            let calls: u64 = join_all(callers)
                .await
                .into_iter()
                .map(Result::unwrap)
                .sum();
            outcome.note(format!(
                "{kinds:?}: {calls} calls of {kind:?} answered or held"
            ));
            assert!(calls >= FLOOD_CALLS_MIN, "{kind:?} is no flood: {calls}");
            outcome.calls_during_fault += calls;
            outcome.calls += calls;
        }
        let (checks, lapse) = lease.stop().await;
        outcome.note(format!("{kinds:?}: the lease was checked {checks} times"));
        assert_eq!(lapse, None, "{kinds:?} ended the lease");
        assert!(
            checks >= LEASE_CHECKS_MIN,
            "{kinds:?}: only {checks} checks of the lease were answered"
        );
        let standing = read_standing(&cluster).await;
        assert_eq!(standing, before, "after {kinds:?}");
    }
    callers.shutdown_background();
    cluster.assert_none_ended();
    outcome
}

/// Reads the session of the AllocSvr and the term of the stores.
async fn read_standing(cluster: &ProcessCluster) -> ClusterStanding {
    let (admin, alloc) = (cluster.new_client().admin(), &cluster.alloc_addresses[0]);
    wait_until("a status of the cluster", STATUS_TIMEOUT, async || {
        let status = admin.cluster_status().await.ok()?;
        let counters = admin.node_status(alloc).await.ok()?.counters;
        let [session] = &status.sessions[..] else {
            return None;
        };
        Some(ClusterStanding {
            session: session.session,
            sessions_opened: counters["sessions_opened"],
            term: status.term,
        })
    })
    .await
}

fn flood_routes(callers: &Runtime, address: &str, until: Instant) -> Vec<JoinHandle<u64>> {
    flood_calls(
        callers,
        address,
        ROUTES_CONNECTIONS,
        until,
        |channel| async {
            let mut client = SequenceClient::new(channel);
            client.routes(RoutesRequest::default()).await.map(drop)
        },
    )
}

fn flood_status(callers: &Runtime, address: &str, until: Instant) -> Vec<JoinHandle<u64>> {
    flood_calls(
        callers,
        address,
        STATUS_CONNECTIONS,
        until,
        |channel| async {
            let mut client = AdminClient::new(channel);
            client
                .cluster_status(ClusterStatusRequest {})
                .await
                .map(drop)
        },
    )
}

/// Keeps calls in flight on some connections. Each caller returns the number of its calls that were
/// answered or rejected.
fn flood_calls<F, Fut>(
    callers: &Runtime,
    address: &str,
    connections: usize,
    until: Instant,
    call: F,
) -> Vec<JoinHandle<u64>>
where
    F: Fn(Channel) -> Fut + Copy + Send + 'static,
    Fut: Future<Output = Result<(), Status>> + Send,
{
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    let _in = callers.enter();
    let channels: Vec<Channel> = (0..connections).map(|_| endpoint.connect_lazy()).collect();
    let one_each = channels
        .into_iter()
        .flat_map(|channel| (0..CALLS_PER_CONNECTION).map(move |_| channel.clone()));
    one_each
        .map(|channel| {
            callers.spawn(async move {
                let mut calls = 0;
                while Instant::now() < until {
                    match timeout_at(until + DRAIN_TIMEOUT, call(channel.clone())).await {
                        Ok(Ok(())) => calls += 1,
                        Ok(Err(_)) => {
                            calls += 1;
                            sleep(ERROR_PAUSE).await;
                        }
                        Err(_) => break,
                    }
                }
                calls
            })
        })
        .collect()
}

/// Begins calls on some connections and sends half of each message. A connection that the server
/// closes is made again. Each caller returns the number of calls that it began.
fn hold_half_sent(callers: &Runtime, address: &str, until: Instant) -> Vec<JoinHandle<u64>> {
    let request = NextManyRequest {
        uids: (0..100).collect(),
        ..NextManyRequest::default()
    };
    let message = request.encode_to_vec();
    let hold = |address: String, path: &'static str, message: Vec<u8>| async move {
        let mut calls = 0;
        while Instant::now() < until {
            let holding = hold_connection(&address, path, &message, &mut calls);
            // It ends early if the server closes the connection.
            let _ = timeout_at(until, holding).await;
            sleep(RECONNECT_PAUSE).await;
        }
        calls
    };
    (0..HALF_SENT_CONNECTIONS)
        .map(|n| {
            let path = HALF_SENT_PATHS[n % HALF_SENT_PATHS.len()];
            callers.spawn(hold(address.to_owned(), path, message.clone()))
        })
        .collect()
}

/// Begins calls on one connection, and keeps it until the server closes it.
async fn hold_connection(
    address: &str,
    path: &str,
    message: &[u8],
    calls: &mut u64,
) -> std::io::Result<()> {
    let mut connection = RawHttp2::connect(address, 65_535).await?;
    for n in 0..CALLS_PER_CONNECTION {
        let half = &message[..message.len() / 2];
        connection
            .start_call(2 * n + 1, path, message.len(), half)
            .await?;
        *calls += 1;
    }
    while connection.next_event().await.is_ok() {}
    Ok(())
}

/// Checks the lease of an AllocSvr by its HTTP endpoint, which has threads of its own.
struct LeaseWatch {
    stop: watch::Sender<bool>,
    watching: JoinHandle<(u64, Option<String>)>,
}

impl LeaseWatch {
    fn start(http_port: u16) -> LeaseWatch {
        let (stop, stopped) = watch::channel(false);
        let watching = tokio::spawn(async move {
            let mut checks = 0;
            while !*stopped.borrow() {
                let reading = timeout(LEASE_CHECK_TIMEOUT, read_readiness(http_port));
                // A check that fails is not counted; the caller requires a minimum.
                if let Ok(Ok(answer)) = reading.await {
                    if answer.contains("no valid lease") {
                        return (checks, Some(answer));
                    }
                    checks += u64::from(answer.starts_with("HTTP/1.1 200 "));
                }
                sleep(LEASE_CHECK_INTERVAL).await;
            }
            (checks, None)
        });
        LeaseWatch { stop, watching }
    }

    /// Returns the number of answers that showed a lease, and the one that showed none.
    async fn stop(self) -> (u64, Option<String>) {
        self.stop.send_replace(true);
        self.watching.await.expect("no panic")
    }
}

/// Requests `/readyz`.
async fn read_readiness(http_port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", http_port)).await?;
    let request = "GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
