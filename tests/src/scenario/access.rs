//! Strangers at the ports of a cluster, and an AllocSvr that speaks for another one: a forged close
//! of a section, calls in another session, and half-sent messages that fill a store.
//!
//! The same attacks are made on a cluster without TLS, where they succeed, so that the test would
//! see them. Checked under TLS: no call of a caller fails, the history holds, no lease is lost.

mod silent_connections;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use seqsvr_client::{Client, Key};
use seqsvr_core::routing_table::SlotOwner;
use seqsvr_net::tls::TlsTransport;
use seqsvr_net::{ChannelPool, TcpTransport, Transport};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::rejected::Kind;
use seqsvr_proto::v1::section_reply::Reply;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{
    Close, CloseSessionRequest, Fence, KeepAliveRequest, MoveSlotRequest, OpenSessionRequest,
    Reason, SectionCommand, SubmitRequest, SubmitResponse, section_command,
};
use seqsvr_test_support::callers::{EndpointCaller, TestCaller};
use seqsvr_test_support::history::History;
use seqsvr_test_support::process_cluster::{ProcessCluster, ProcessPki};
use seqsvr_test_support::raw_http2::RawHttp2;
use seqsvr_test_support::recorded_load::{RecordedLoad, UNTIL_STOPPED};
use seqsvr_test_support::test_keys;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

use crate::scenario::ScenarioOutcome;

const LEASE_MS: u32 = 3_000;
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
const CALLS_PER_PHASE: u64 = 3_000;
/// Uid whose section is closed by force.
const VICTIM: u64 = 8;
/// Numbers that its callers have before that.
const NUMBERS_BEFORE: u64 = 100_000;
/// Generations of the section that the stranger tries.
const GENERATIONS: u64 = 8;
/// Connections that hold messages, and what each sends: together more than a store takes.
const HOLDERS: usize = 4;
const HELD_CALLS: u32 = 20;
const HELD_BYTES: usize = 4 << 20;
/// Time of the half-sent messages: longer than the lease, and than the wait after which a session
/// expires.
const HOLD_DURATION: Duration = Duration::from_secs(10);
const APPEND: &str = "/seqsvr.v1.Raft/Append";

/// One who reaches the ports.
struct Stranger {
    what: &'static str,
    transport: Arc<dyn Transport>,
}

/// Strangers without a certificate, with one of another CA, and with one of a caller reach all
/// ports. They take nothing, change nothing and stop no lease.
pub async fn strangers_change_nothing() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. Without TLS the attack succeeds: numbers repeat.
    let plain: Arc<dyn Transport> = Arc::new(TcpTransport);
    let mut open = ProcessCluster::start(3, 2, LEASE_MS).await;
    let client = open.new_client();
    let last = take_numbers(&client).await;
    let forged = forge_close(&open, &client, plain.clone()).await;
    forged.expect("a store without TLS takes the commands of every caller");
    kill_owner(&mut open, &client).await;
    let again = client.with_deadline(TEST_TIMEOUT).default_namespace();
    let first = again.next(VICTIM).await.expect("the other AllocSvr serves");
    assert!(
        first.first <= last,
        "{} after {last}: no attack",
        first.first
    );
    outcome.note(format!("without TLS: {last}, then {} again", first.first));
    drop(open);

    // 2. The same cluster under TLS, under load.
    let mut cluster = ProcessCluster::start_secured(3, 2, LEASE_MS).await;
    let client = cluster.new_client();
    test_keys::create_third_namespace(&client).await;
    let [redis, http] = EndpointCaller::redis_and_http(&cluster, &cluster.alloc_addresses)
        .map(TestCaller::Endpoint);
    let callers = [TestCaller::Sdk(client.clone()), redis, http];
    let history = History::create(cluster.dir());
    let keys = test_keys::all_test_keys();
    let load = RecordedLoad::start(&history, keys, &callers, 8, UNTIL_STOPPED);
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
    let before = load.answered_calls();
    let sessions = count_sessions(&cluster).await;
    let last = take_numbers(&client).await;

    let tls = |dir: &Path| TlsTransport::from_dir(dir).expect("a good directory");
    let foreign = ProcessPki::create(&cluster.dir().join("foreign")).await;
    let strangers = [
        Stranger {
            what: "a caller without TLS",
            transport: plain,
        },
        Stranger {
            what: "an AllocSvr of another CA",
            transport: tls(&foreign.issue("alloc", "a1").await),
        },
        Stranger {
            what: "a caller of numbers",
            transport: tls(&cluster.pki().issue("client", "billing").await),
        },
        Stranger {
            what: "an operator",
            transport: tls(&cluster.pki().issue("admin", "mallory").await),
        },
    ];

    let leader = cluster.leader().await;
    let silent = tokio::spawn(silent_connections::hold_handshakes(
        cluster.store_addresses[leader].clone(),
        cluster.stores[leader].pid(),
        strangers[3].transport.clone(),
    ));
    check_dashboard(&cluster).await;

    // 3. No forged command reaches the state.
    for stranger in &strangers {
        let forged = forge_close(&cluster, &client, stranger.transport.clone()).await;
        let status = forged.expect_err(stranger.what);
        let code = status.code();
        let is_refused = matches!(
            code,
            Code::PermissionDenied | Code::Unavailable | Code::Unknown
        );
        assert!(is_refused, "{}: {status}", stranger.what);
        outcome.note(format!("{}: {code:?}", stranger.what));
    }

    // 4. The other AllocSvr speaks for itself only, and does what is its own.
    forge_as_sibling(&cluster, &client).await;

    // 5. Handshakes that are never completed delay no other.
    outcome.note(silent.await.expect("as checked there"));

    // 6. Half-sent messages of all of them at once stop no renewal.
    let holds = strangers
        .iter()
        .map(|stranger| hold_messages(&cluster.store_addresses, &stranger.transport));
    let held = join_all(holds).await;
    for (stranger, held) in strangers.iter().zip(held) {
        outcome.note(format!("{}: {held} messages were begun", stranger.what));
    }
    assert_eq!(count_sessions(&cluster).await, sessions);
    outcome.calls_during_fault = load.answered_calls() - before;
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
    let summary = load.stop().await;
    outcome.add_load("load", &summary);
    summary.assert_none_failed();
    cluster.assert_none_ended();
    let report = history.check();
    assert_eq!(report.answered_calls(), summary.answered);

    // 7. The section has its numbers also after its owner is gone.
    kill_owner(&mut cluster, &client).await;
    let again = client.with_deadline(TEST_TIMEOUT).default_namespace();
    let first = again.next(VICTIM).await.expect("the other AllocSvr serves");
    assert!(first.first > last, "{} after {last}", first.first);
    outcome
}

/// Checks that the dashboard of an AllocSvr reaches every process.
async fn check_dashboard(cluster: &ProcessCluster) {
    let address = format!("127.0.0.1:{}", cluster.endpoint_ports[0].http);
    let mut stream = TcpStream::connect(&address).await.expect("it listens");
    let request =
        format!("GET /v1/cluster HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    let read = timeout(TEST_TIMEOUT, stream.read_to_string(&mut answer)).await;
    read.expect("an answer in time").expect("an answer");
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let view: serde_json::Value = serde_json::from_str(body).expect(body);
    let nodes = view["nodes"].as_array().expect("nodes");
    let servers = cluster.stores.len() + cluster.allocs.len();
    assert_eq!(nodes.len(), servers, "{view:#}");
    assert!(nodes.iter().all(|n| n["error"].is_null()), "{view:#}");
}

/// Takes numbers of the victim. Returns the last one.
async fn take_numbers(client: &Client) -> u64 {
    let numbers = client.default_namespace();
    let taken = numbers.next_n(VICTIM, NUMBERS_BEFORE as u32).await;
    taken.expect("numbers").last
}

/// Returns the fence of the section of the victim, and the session that owns it.
async fn find_victim(client: &Client) -> (Fence, SlotOwner) {
    let table = client.routes().await.expect("routes");
    let namespace = table.namespace("default").expect("it always exists");
    let key = Key::Uid(VICTIM);
    let (section, slot) = table.locate(namespace, key.as_ref()).expect("a uid");
    let route = table.route(slot).expect("its route");
    let fence = Fence {
        slot: slot.0.into(),
        epoch: route.epoch.0,
        namespace: section.namespace.0,
        section: section.section.0,
    };
    (fence, route.owner.clone().expect("an owner"))
}

/// Connects to the leading store.
async fn connect_to_leader(
    cluster: &ProcessCluster,
    transport: Arc<dyn Transport>,
) -> StoreClient<Channel> {
    let leader = &cluster.store_addresses[cluster.leader().await];
    let channel = ChannelPool::with_transport(transport).get(leader);
    StoreClient::new(channel.expect("a good address"))
}

/// Submits to the leading store that the section of the victim was closed at 0, under the epoch and
/// the generations that it may have.
async fn forge_close(
    cluster: &ProcessCluster,
    client: &Client,
    transport: Arc<dyn Transport>,
) -> Result<SubmitResponse, Status> {
    let (fence, _) = find_victim(client).await;
    let close = |generation| SectionCommand {
        fence: Some(fence),
        command: Some(section_command::Command::Close(Close {
            generation,
            high_water_mark: 0,
        })),
    };
    let mut store = connect_to_leader(cluster, transport).await;
    let request = SubmitRequest {
        commands: (1..=GENERATIONS).map(close).collect(),
        cluster_tag: 0,
    };
    let submitting = timeout(TEST_TIMEOUT, store.submit(request));
    let submitted = submitting.await.expect("an answer in time");
    submitted.map(Response::into_inner)
}

/// Speaks for the AllocSvr that owns the victim with the certificate of the other one: in its
/// session, under its name, and for its section.
async fn forge_as_sibling(cluster: &ProcessCluster, client: &Client) {
    let (fence, owner) = find_victim(client).await;
    let sibling = match owner.name.as_str() {
        "a1" => "a2",
        _ => "a1",
    };
    let own_dir = cluster.pki().issued("alloc", sibling);
    let transport = TlsTransport::from_dir(&own_dir).expect("a good directory");
    let mut store = connect_to_leader(cluster, transport.clone()).await;
    let session = owner.session.0;
    let renewal = KeepAliveRequest {
        session,
        draining: true,
        ..KeepAliveRequest::default()
    };
    let close = CloseSessionRequest {
        session,
        last: true,
        ..CloseSessionRequest::default()
    };
    let moving = MoveSlotRequest {
        session,
        slot: fence.slot,
        epoch: fence.epoch,
        ..MoveSlotRequest::default()
    };
    let opening = OpenSessionRequest {
        name: owner.name,
        address: owner.address,
        nonce: vec![1; 16].into(),
        ..OpenSessionRequest::default()
    };
    let answers = [
        store.keep_alive(renewal).await.map(drop),
        store.close_session(close).await.map(drop),
        store.move_slot(moving).await.map(drop),
        store.open_session(opening).await.map(drop),
    ];
    let reasons = answers.map(|answer| {
        let status = answer.expect_err("another AllocSvr's");
        RpcError::from_status(&status).reason()
    });
    let none = Reason::SessionNotFound;
    assert_eq!(reasons, [none, none, none, Reason::PermissionDenied]);
    let submitted = forge_close(cluster, client, transport).await;
    let replies = submitted.expect("each command has a reply").replies;
    assert_eq!(replies.len() as u64, GENERATIONS);
    for reply in replies {
        let is_refused =
            matches!(&reply.reply, Some(Reply::Rejected(r)) if r.kind() == Kind::NotOwner);
        assert!(is_refused, "{reply:?}");
    }
}

/// Kills the AllocSvr that owns the victim.
async fn kill_owner(cluster: &mut ProcessCluster, client: &Client) {
    let (_, owner) = find_victim(client).await;
    let mut addresses = cluster.alloc_addresses.iter();
    let index = addresses.position(|address| *address == owner.address);
    cluster.kill_alloc(index.expect("an AllocSvr of the cluster"));
}

/// Returns how many sessions the AllocSvrs have opened: one more for each lost lease.
async fn count_sessions(cluster: &ProcessCluster) -> u64 {
    let allocs = &cluster.alloc_addresses;
    cluster.sum_counter(allocs, "sessions_opened").await
}

/// Sends all but the last byte of large messages of Raft to every store, again and again. Returns
/// how many were begun.
async fn hold_messages(stores: &[String], transport: &Arc<dyn Transport>) -> u64 {
    let until = Instant::now() + HOLD_DURATION;
    let mut holders = JoinSet::new();
    for _ in 0..HOLDERS {
        for address in stores {
            let (address, transport) = (address.clone(), transport.clone());
            holders.spawn(async move {
                let mut begun = 0;
                while Instant::now() < until {
                    let holding = hold_connection(&address, &transport, &mut begun);
                    // It ends early if the store closes the connection.
                    let _ = timeout_at(until, holding).await;
                    sleep(Duration::from_millis(50)).await;
                }
                begun
            });
        }
    }
    holders.join_all().await.into_iter().sum()
}

async fn hold_connection(
    address: &str,
    transport: &Arc<dyn Transport>,
    begun: &mut u64,
) -> std::io::Result<()> {
    let stream = transport.connect(address.to_owned()).await?;
    let mut connection = RawHttp2::over(stream, 65_535).await?;
    let message = vec![0; HELD_BYTES - 1];
    for n in 0..HELD_CALLS {
        connection
            .start_call(2 * n + 1, APPEND, HELD_BYTES, &message)
            .await?;
        *begun += 1;
    }
    while connection.next_event().await.is_ok() {}
    Ok(())
}
