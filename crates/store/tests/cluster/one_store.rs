//! One store: from its start to the end of a session.
//!
//! Fault: an AllocSvr falls silent. Measured: the time until its session ends.

use std::time::{Duration, Instant};

use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::section_reply::Reply;
use seqsvr_proto::v1::{self, Reason};
use seqsvr_store::{Error, StoreServer};
use seqsvr_test_support::in_process::{InProcessCluster, SLOTS};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tonic::Code;

use crate::fake_alloc::{FakeAlloc, close_command, open_command, raise_command};
use crate::store_cluster::{LEASE, start_cluster, start_stores, store_options};

/// W: after a lease of D an owner waits for it to expire.
const TAKEOVER_WAIT: Duration = Duration::from_millis(LEASE.as_millis() as u64 * 5 / 4);

async fn is_serving(cluster: &InProcessCluster) -> bool {
    let address = format!("http://{}", cluster.addresses[0]);
    let channel = tonic::transport::Channel::from_shared(address).unwrap();
    let mut health =
        tonic_health::pb::health_client::HealthClient::new(channel.connect().await.unwrap());
    let mut serving = Vec::new();
    for service in ["", "seqsvr.v1.Store", "seqsvr.v1.Admin"] {
        let service = service.to_owned();
        let request = tonic_health::pb::HealthCheckRequest { service };
        let status = health.check(request).await.unwrap().into_inner().status();
        serving.push(status == tonic_health::pb::health_check_response::ServingStatus::Serving);
    }
    assert!(serving.iter().all(|s| *s == serving[0]), "{serving:?}");
    serving[0]
}

/// Returns the services as gRPC reflection lists them.
async fn listed_services(cluster: &InProcessCluster) -> Vec<String> {
    use tonic_reflection::pb::v1 as pb;
    let address = format!("http://{}", cluster.addresses[0]);
    let channel = tonic::transport::Channel::from_shared(address).unwrap();
    let channel = channel.connect().await.unwrap();
    let mut client = pb::server_reflection_client::ServerReflectionClient::new(channel);
    let ask = pb::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(pb::server_reflection_request::MessageRequest::ListServices(
            String::new(),
        )),
    };
    let stream = client.server_reflection_info(tokio_stream::once(ask));
    let answer = stream.await.unwrap().into_inner().message().await.unwrap();
    match answer.unwrap().message_response.unwrap() {
        pb::server_reflection_response::MessageResponse::ListServicesResponse(list) => {
            list.service.into_iter().map(|s| s.name).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn init_repeated_creates_cluster_once() {
    let mut cluster = start_stores(1).await;
    let mut store = cluster.store_client(0).await;
    let who = store.describe(v1::DescribeRequest {}).await.unwrap();
    assert!(who.into_inner().cluster.is_empty());
    assert!(!is_serving(&cluster).await);
    let status = store
        .keep_alive(v1::KeepAliveRequest::default())
        .await
        .unwrap_err();
    let fault = RpcError::from_status(&status);
    assert_eq!(fault.reason(), Reason::NotInitialized);
    assert!(fault.message.contains("seqsvr init"), "{fault}");
    let status = store.watch(v1::WatchRequest::default()).await.unwrap_err();
    assert_eq!(
        RpcError::from_status(&status).reason(),
        Reason::NotInitialized
    );

    let good = cluster.init_request(7).await;
    let mut bad = [good.clone(), good.clone(), good.clone(), good.clone()];
    bad[0].members.clear();
    bad[1].members[0].incarnation ^= 1;
    bad[2].lease_ms = 1;
    bad[3].slots = 0;
    for bad in bad {
        let status = store.init(bad).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    }
    store.init(good.clone()).await.unwrap();
    store.init(good.clone()).await.unwrap();
    let mut other = good;
    other.cluster = seqsvr_proto::convert::u128_to_bytes(8);
    let status = store.init(other).await.unwrap_err();
    assert_eq!(RpcError::from_status(&status).reason(), Reason::Rejected);
    wait_until("health", TEST_TIMEOUT, async || {
        is_serving(&cluster).await.then_some(())
    })
    .await;

    assert!(
        listed_services(&cluster)
            .await
            .contains(&"seqsvr.v1.Store".to_owned())
    );

    // After a restart it is what it was before, and its address is taken while it runs.
    cluster.stop_store(0).await;
    cluster.restart_store(0).await;
    cluster.leader().await;
    let dir = tempfile::tempdir().unwrap();
    match StoreServer::start(store_options(2, cluster.addresses[0], dir.path())).await {
        Err(e @ Error::AddressInUse(_)) => {
            assert!(e.to_string().contains(&cluster.addresses[0].to_string()));
        }
        other => panic!("{:?}", other.err()),
    }
    cluster.stop_store(0).await;
}

#[tokio::test]
async fn session_opens_serves_and_expires_after_w() {
    // 1. A session opens and gets all slots.
    let cluster = start_cluster(1).await;
    let addresses = &cluster.addresses;
    let observer = FakeAlloc::open("observer", addresses).await.unwrap();
    let alloc = FakeAlloc::open_renewing("a1", addresses).await.unwrap();
    let rejection = FakeAlloc::open("a1", addresses).await.err().unwrap();
    assert_eq!(rejection.reason(), Reason::NameTaken);

    // Watch pushes its slots, not its next keep-alive.
    alloc
        .wait_for_table("all slots", |t| t.routes().all(|(_, r)| r.owner.is_some()))
        .await;
    assert_eq!(alloc.slots().len(), SLOTS as usize);

    // 2. It opens, raises, reads and closes a section.
    let fence = alloc.fences(1)[0];
    let replies = alloc
        .submit(vec![open_command(fence), raise_command(fence, 1, 500)])
        .await
        .unwrap();
    // Raises go first, so this one meets no generation yet: it is fenced, and sent again.
    assert!(
        matches!(&replies[0], Reply::Opened(o) if (o.generation, o.base, o.max_seq) == (1, 0, 100))
    );
    assert!(matches!(&replies[1], Reply::Rejected(_)));
    let replies = alloc
        .submit(vec![raise_command(fence, 1, 500)])
        .await
        .unwrap();
    assert!(matches!(&replies[0], Reply::Raised(r) if r.max_seq == 500));

    let mut store = cluster.store_client(0).await;
    let mut request = v1::ReadRequest {
        session: Some(alloc.session),
        sections: [fence.section, fence.section + 40_000]
            .map(|section| v1::SectionRef {
                namespace: 1,
                section,
            })
            .to_vec(),
        slots: vec![fence.slot],
        cluster_tag: 0,
    };
    request.sections[1].section = alloc.fences(2)[1].section;
    let read = store.read(request.clone()).await.unwrap().into_inner();
    let rows: Vec<_> = read
        .sections
        .iter()
        .map(|r| (r.max_seq, r.generation))
        .collect();
    assert_eq!(rows, [(500, 1), (0, 0)]);
    assert_eq!(
        (read.epochs, read.owners),
        (vec![fence.epoch], vec![alloc.session])
    );
    request.session = Some(99);
    let status = store.read(request).await.unwrap_err();
    assert_eq!(
        RpcError::from_status(&status).reason(),
        Reason::SessionNotFound
    );

    let replies = alloc
        .submit(vec![close_command(fence, 1, 123)])
        .await
        .unwrap();
    assert!(matches!(&replies[0], Reply::Closed(r) if r.max_seq == 123));
    let replies = alloc
        .submit(vec![raise_command(fence, 1, 600)])
        .await
        .unwrap();
    assert!(
        matches!(&replies[0], Reply::Rejected(r) if r.kind() == v1::rejected::Kind::StaleGeneration)
    );

    // 3. The session falls silent: it ends W after its last renewal, not before, and not much
    // later.
    let before = cluster.store_counters(0).await;
    alloc.kill();
    let t0 = alloc.renewed.borrow().unwrap();
    let gone = v1::ReadRequest {
        session: Some(alloc.session),
        ..Default::default()
    };
    wait_until("the session's end", TEST_TIMEOUT, async || {
        store.read(gone.clone()).await.err()
    })
    .await;
    let after = t0.elapsed();
    let late =
        cluster.store_counters(0).await["arbiter_timer_resets"] - before["arbiter_timer_resets"];
    println!(
        "session ended {after:?} after its last renewal was requested; W = {TAKEOVER_WAIT:?}; {late} restarts"
    );
    assert!(after >= TAKEOVER_WAIT, "{after:?}");
    assert!(
        late > 0 || after < TAKEOVER_WAIT + Duration::from_secs(2),
        "{after:?}"
    );

    // 4. Its slots and its name are free.
    observer
        .wait_for_table("freed slots", |t| {
            t.routes().all(|(_, r)| r.owner.is_none())
        })
        .await;
    let rejection = alloc.keep_alive().await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::SessionNotFound);
    // The name is free again.
    FakeAlloc::open("a1", addresses).await.unwrap();
}

#[tokio::test]
async fn closed_session_hands_over_its_slots() {
    let cluster = start_cluster(1).await;
    let addresses = &cluster.addresses;
    let first = FakeAlloc::open_renewing("a1", addresses).await.unwrap();
    first
        .wait_for_table("all slots", |t| t.routes().all(|(_, r)| r.owner.is_some()))
        .await;
    let second = FakeAlloc::open_renewing("a2", addresses).await.unwrap();
    let fence = first.fences(1)[0];
    first.submit(vec![open_command(fence)]).await.unwrap();
    first.kill();
    let mut store = cluster.store_client(0).await;
    let closed = Instant::now();
    let last = v1::CloseSessionRequest {
        session: first.session,
        high_water_marks: vec![v1::SectionHighWaterMark {
            fence: Some(fence),
            generation: 1,
            value: 42,
        }],
        last: true,
        cluster_tag: 0,
    };
    store.close_session(last).await.unwrap();
    let mine = second.session;
    second
        .wait_for_table("the closed one's slots", |t| {
            t.routes()
                .all(|(_, r)| r.owner.as_ref().is_some_and(|o| o.session.0 == mine))
        })
        .await;
    println!(
        "slots of a closed session assigned after {:?}",
        closed.elapsed()
    );
    let fence = second.fences(1)[0];
    let replies = second.submit(vec![open_command(fence)]).await.unwrap();
    assert!(matches!(&replies[0], Reply::Opened(o) if (o.generation, o.base) == (2, 42)));
}

#[tokio::test]
async fn session_with_valid_proof_supersedes_at_once() {
    // 1. A session opens and gets all slots.
    let cluster = start_cluster(1).await;
    let mut store = cluster.store_client(0).await;
    let observer = FakeAlloc::open("observer", &cluster.addresses)
        .await
        .unwrap();
    let nonce = |n: u128| seqsvr_proto::convert::u128_to_bytes(n);
    let first = v1::OpenSessionRequest {
        name: "a1".into(),
        address: "a1.example:7700".into(),
        incarnation: 1,
        nonce: nonce(1),
        ..Default::default()
    };
    wait_until("a leader", TEST_TIMEOUT, async || {
        store.open_session(first.clone()).await.ok()
    })
    .await;
    let old = store
        .open_session(first.clone())
        .await
        .unwrap()
        .into_inner()
        .session;
    let keep = |session| v1::KeepAliveRequest {
        session,
        table_version: 0,
        draining: false,
        cluster_tag: 0,
    };
    let mut again = first.clone();
    again.nonce = nonce(2);
    // Kept alive during that time, or it would be expired before it owns anything.
    wait_until("its slots", TEST_TIMEOUT, async || {
        let kept = store.keep_alive(keep(old)).await.unwrap().into_inner();
        let routes = kept.routes.unwrap();
        routes.owner_indexes.iter().all(|o| *o == 1).then_some(())
    })
    .await;

    // 2. Half a proof and a wrong one are rejected.
    again.proof_session = Some(old);
    let status = store.open_session(again.clone()).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "half a proof");
    again.proof_nonce = nonce(3);
    let status = store.open_session(again.clone()).await.unwrap_err();
    assert_eq!(RpcError::from_status(&status).reason(), Reason::NameTaken);

    // 3. With the right proof a new session gets the slots at once, and the old one has ended.
    again.proof_nonce = nonce(1);
    let new = store
        .open_session(again)
        .await
        .unwrap()
        .into_inner()
        .session;
    assert!(new > old);
    let owns = |r: &seqsvr_core::routing_table::Route| {
        r.owner.as_ref().is_some_and(|o| o.session.0 == new)
    };
    observer
        .wait_for_table("the new session's slots", |t| {
            t.routes().all(|(_, r)| owns(r))
        })
        .await;
    let status = store.keep_alive(keep(old)).await.unwrap_err();
    assert_eq!(
        RpcError::from_status(&status).reason(),
        Reason::SessionNotFound
    );
    store.keep_alive(keep(new)).await.unwrap();
}
