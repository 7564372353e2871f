//! More load than one server should serve: ten thousand connections, and hostile clients with
//! random uids, keys, namespaces and half-finished calls.
//!
//! Fault: the overload. Measured: other callers are served as before, and the excess is rejected
//! with a reason.

pub mod call_floods;
mod hostile_clients;
mod idle_class;
mod noisy_neighbors;

use std::time::{Duration, Instant};

use futures::StreamExt;
use prost::Message;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seqsvr_proto::v1::{NextRequest, next_request::KeyKind};
use seqsvr_test_support::callers::TestCaller;
use seqsvr_test_support::history::History;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::process_stats::ProcessStats;
use seqsvr_test_support::raw_http2::{Http2Event, RawHttp2};
use seqsvr_test_support::recorded_load::{RecordedLoad, UNTIL_STOPPED};
use seqsvr_test_support::test_keys;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub use noisy_neighbors::noisy_neighbors;

use crate::scenario::ScenarioOutcome;

const CONNECTIONS: u64 = 10_000;
/// Connection limit of the AllocSvr: the crowd, and a few for the working caller.
const CONNECTIONS_MAX: u64 = 10_050;
/// Further connections, over the limit.
const EXCESS_CONNECTIONS: u64 = 100;
/// Connections made at one time: fewer than the kernel's accept queue holds.
const CONNECTS_IN_FLIGHT: usize = 64;
const TEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum memory of an idle connection, in bytes.
const CONNECTION_BYTES_MAX: u64 = 64 << 10;

/// Opens 10,000 connections to one AllocSvr, each of which makes one call and stays, while others
/// work. A connection over the limit is rejected with a reason.
pub async fn ten_thousand_connections() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();
    let files = CONNECTIONS + EXCESS_CONNECTIONS + 1_000;
    if !try_raise_file_limit(files) {
        let skipped = format!("SKIPPED: a process may not open {files} files here (ulimit -Hn)");
        eprintln!("{skipped}");
        outcome.note(skipped);
        return outcome;
    }

    // 1. Start an AllocSvr with a connection limit, and load it.
    let mut cluster = ProcessCluster::start(1, 1, 3_000).await;
    let alloc = &mut cluster.allocs[0];
    alloc.set_arg("--connections-max", &CONNECTIONS_MAX.to_string());
    // The AllocSvr lowers the limits of its endpoints if they do not fit together.
    alloc.set_arg("--redis-connections-max", "100");
    alloc.set_arg("--http-connections-max", "100");
    alloc.stop(TEST_TIMEOUT).await;
    alloc.restart();
    cluster.wait_until_assigned(1).await;
    let (address, pid) = (cluster.alloc_addresses[0].clone(), cluster.allocs[0].pid());
    let memory = || ProcessStats::read(pid, None).expect("it runs").memory_bytes;

    let client = cluster.new_client();
    test_keys::create_third_namespace(&client).await;
    let history = History::create(cluster.dir());
    let load = RecordedLoad::start(
        &history,
        test_keys::all_test_keys(),
        &[TestCaller::Sdk(client)],
        4,
        UNTIL_STOPPED,
    );
    load.wait_for_calls(20_000, TEST_TIMEOUT).await;

    // 2. Open the connections, each with one call.
    let (before, began) = (memory(), Instant::now());
    let inside = load.answered_calls();
    let crowd = futures::stream::iter(0..CONNECTIONS)
        .map(|n| connect_and_call(&address, n))
        .buffer_unordered(CONNECTS_IN_FLIGHT)
        .collect::<Vec<RawHttp2>>()
        .await;
    let took = began.elapsed();
    let held = cluster.counter(&address, "connections_open").await;
    assert!(held >= CONNECTIONS, "only {held} are held");
    let each = memory().saturating_sub(before) / CONNECTIONS;
    outcome.note(format!(
        "{CONNECTIONS} connections made, with one call each, in {took:.1?}; {each} bytes of the alloc's memory each"
    ));
    assert!(each < CONNECTION_BYTES_MAX, "{each} bytes a connection");

    // 3. They stay, and answer pings: otherwise the AllocSvr would close them.
    let mut staying = JoinSet::new();
    for mut raw in crowd {
        staying.spawn(async move { raw.next_event().await });
    }

    // 4. Connections over the limit are rejected with the reason.
    let mut rejected = 0;
    let mut more = Vec::new();
    for _ in 0..EXCESS_CONNECTIONS {
        let mut raw = RawHttp2::connect(&address, 65_535)
            .await
            .expect("it listens");
        match timeout(TEST_TIMEOUT, first_event(&mut raw)).await {
            Ok(Some(Http2Event::GoAway(why))) => {
                assert!(why.contains("too many connections"), "{why}");
                rejected += 1;
            }
            Ok(_) => more.push(raw),
            Err(_) => panic!("a connection over the limit waits without an answer"),
        }
    }
    outcome.note(format!(
        "{rejected} of {EXCESS_CONNECTIONS} connections over the limit were rejected with the reason"
    ));
    assert!(rejected >= EXCESS_CONNECTIONS / 2, "{rejected}");

    // 5. The load and the connections continue.
    load.wait_for_calls(5_000, TEST_TIMEOUT).await;
    outcome.calls_during_fault = load.answered_calls() - inside;
    if let Some(ended) = staying.try_join_next() {
        panic!("one of the {CONNECTIONS} ended: {ended:?}");
    }

    // 6. No call failed, and the history holds.
    let summary = load.stop().await;
    outcome.add_load("load", &summary);
    summary.assert_none_failed();
    cluster.assert_none_ended();
    history.check();
    outcome
}

/// Opens a connection and takes one number of its own uid.
async fn connect_and_call(address: &str, n: u64) -> RawHttp2 {
    let called = async {
        let mut raw = RawHttp2::connect(address, 65_535).await?;
        let message = NextRequest {
            key_kind: Some(KeyKind::Uid(3_000_000_000 + n)),
            ..NextRequest::default()
        };
        let message = message.encode_to_vec();
        let path = "/seqsvr.v1.Sequence/Next";
        raw.start_call(1, path, message.len(), &message).await?;
        let mut answered = 0;
        loop {
            match raw.next_event().await? {
                Http2Event::Data(n) => answered += n,
                Http2Event::End if answered > 0 => return Ok(raw),
                other => return Err(std::io::Error::other(format!("{other:?}"))),
            }
        }
    };
    match timeout(TEST_TIMEOUT, called).await {
        Ok(Ok(raw)) => raw,
        Ok(Err(error)) => panic!("connection {n}: {error}"),
        Err(_) => panic!("connection {n} is not served"),
    }
}

/// Returns the first event of a new connection: a rejection, or an answer.
async fn first_event(raw: &mut RawHttp2) -> Option<Http2Event> {
    let message = NextRequest {
        key_kind: Some(KeyKind::Uid(3_000_000_000)),
        ..NextRequest::default()
    };
    let message = message.encode_to_vec();
    let path = "/seqsvr.v1.Sequence/Next";
    // May fail if the connection is already closed. The reason can still be read.
    let _ = raw.start_call(1, path, message.len(), &message).await;
    raw.next_event().await.ok()
}

/// Returns whether this process may open `files` files. Raises its limit if necessary, as the
/// servers raise theirs.
pub(super) fn try_raise_file_limit(files: u64) -> bool {
    let now = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: Some(files),
        maximum: now.maximum,
    };
    now.current.is_none_or(|current| current >= files)
        || setrlimit(Resource::Nofile, raised).is_ok()
}
