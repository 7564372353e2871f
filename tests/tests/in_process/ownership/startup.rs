//! AllocSvrs that start under a name in use, or without any store.
//!
//! Checks the error and the time until it.

use std::time::{Duration, Instant};

use seqsvr_alloc::{AllocServer, Error};
use seqsvr_client::{Code, Reason};
use seqsvr_core::ids::ClusterId;
use seqsvr_metrics::ServerProbe;
use seqsvr_proto::convert::{u128_from, u128_to_bytes};
use seqsvr_proto::v1::{ClusterStatusRequest, KeepAliveRequest, OpenSessionRequest};
use seqsvr_test_support::in_process::{
    InProcessCluster, any_port, expect_rejection, new_caller, new_client, next_request,
    read_counter, start_alloc,
};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tonic::Request;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_alloc_of_a_name_gives_up_and_the_first_continues() {
    let cluster = InProcessCluster::start(1, Duration::from_secs(1)).await;
    let allocs = cluster.start_allocs(["twin"]).await;
    let first = new_client(&allocs);
    assert_eq!(first.default_namespace().next(1).await.unwrap().first, 1);
    let wait = Duration::from_secs(3);
    let began = Instant::now();
    let second = start_alloc(seqsvr_alloc::Options {
        name_conflict_timeout: wait,
        ..cluster.alloc_options("twin")
    })
    .await;
    let failed = second.failed();
    tokio::pin!(failed);
    let mut last = 1;
    let numbers = first.default_namespace();
    let error = loop {
        tokio::select! {
            error = &mut failed => break error,
            answer = numbers.next(1) => {
                last += 1;
                assert_eq!(answer.unwrap().first, last, "the first is disturbed");
            }
        }
    };
    assert!(
        matches!(&error, Error::NameTaken { name, .. } if name == "twin"),
        "{error}"
    );
    println!("taken name: after {:.1?}: {error}", began.elapsed());
    assert!(began.elapsed() >= wait);
    assert!(first.default_namespace().next(1).await.unwrap().first > last);
    second.shutdown().await;
    assert!(first.default_namespace().next(1).await.unwrap().first > last);
    cluster.stop(&allocs).await;
}

/// Schedule: a session of another name lives at the address of an AllocSvr that starts. Its process
/// is gone, but the session is renewed at first, as by a process with a wrong `--advertise`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alloc_at_address_of_another_session_waits_for_its_end() {
    let cluster = InProcessCluster::start(1, Duration::from_secs(1)).await;
    cluster.leader().await;
    let held = std::net::TcpListener::bind(any_port()).unwrap();
    let listen = held.local_addr().unwrap();
    drop(held);
    let mut store = cluster.store_client(0).await;
    let request = OpenSessionRequest {
        name: "other".into(),
        address: listen.to_string(),
        incarnation: 1,
        nonce: u128_to_bytes(1),
        ..OpenSessionRequest::default()
    };
    let session = wait_until("a session", TEST_TIMEOUT, async || {
        store.open_session(request.clone()).await.ok()
    });
    let session = session.await.into_inner().session;
    let renewing = tokio::spawn(async move {
        loop {
            let request = KeepAliveRequest {
                session,
                ..KeepAliveRequest::default()
            };
            store.keep_alive(request).await.unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    let options = |wait| seqsvr_alloc::Options {
        listen,
        name_conflict_timeout: wait,
        ..cluster.alloc_options("mine")
    };
    let refused = start_alloc(options(Duration::from_secs(1))).await;
    let error = refused.failed().await;
    let address = listen.to_string();
    assert!(
        matches!(&error, Error::AddressTaken { address: a, holder } if *a == address && holder.contains("\"other\"")),
        "{error}"
    );
    refused.shutdown().await;
    // With the session the address is free.
    let waiting = start_alloc(options(Duration::from_secs(60))).await;
    assert!(!renewing.is_finished(), "a renewal failed");
    renewing.abort();
    wait_until("its lease", TEST_TIMEOUT, async || {
        waiting.has_lease().then_some(())
    })
    .await;
    cluster.stop(&[waiting]).await;
}

/// Returns why a health check of an AllocSvr fails; None: it does not.
fn check_failure(alloc: &AllocServer, name: &str) -> Option<String> {
    let mut checks = alloc.health_checks().into_iter();
    let check = checks.find(|check| check.name == name);
    check.expect("the check").failure
}

/// Returns why an AllocSvr has not met itself at its address; None: it has.
fn address_failure(alloc: &AllocServer) -> Option<String> {
    check_failure(alloc, "address")
}

/// Waits until an AllocSvr has renewed its lease some times more.
async fn wait_for_renewals(alloc: &AllocServer, count: u64) {
    let before = read_counter(alloc, "lease_renewals").await;
    wait_until("renewals", TEST_TIMEOUT, async || {
        let renewed = read_counter(alloc, "lease_renewals").await;
        (renewed >= before + count).then_some(())
    })
    .await;
}

async fn session_names(cluster: &InProcessCluster) -> Vec<String> {
    let mut admin = cluster.admin_client(0).await;
    let status = admin.cluster_status(ClusterStatusRequest {}).await.unwrap();
    let sessions = status.into_inner().sessions.into_iter();
    sessions.map(|session| session.name).collect()
}

/// Schedule: an AllocSvr is started with an address at which nothing listens. It renews, so it
/// would get slots, and every call to one of their keys would fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alloc_takes_no_slots_before_its_address_leads_to_it() {
    let cluster = InProcessCluster::start(1, Duration::from_secs(1)).await;
    let [first] = cluster.start_allocs(["a1"]).await;
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind(any_port()).unwrap();
    let address = held.local_addr().unwrap().to_string();
    let second = start_alloc(seqsvr_alloc::Options {
        advertise: Some(address.clone()),
        ..cluster.alloc_options("a2")
    })
    .await;
    let failure = wait_until("a failed attempt", TEST_TIMEOUT, async || {
        address_failure(&second).filter(|text| text.contains("--advertise"))
    })
    .await;
    assert!(failure.contains(&address), "{failure}");
    wait_for_renewals(&first, 5).await;
    assert_eq!(session_names(&cluster).await, ["a1"]);
    assert!(!second.has_lease());

    // Something carries calls from that address to it now.
    let listener = held.listen(16).unwrap();
    let to = second.local_addr();
    let carrier = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((mut near, _)) = listener.accept().await {
            connections.spawn(async move {
                let mut far = tokio::net::TcpStream::connect(to).await?;
                tokio::io::copy_bidirectional(&mut near, &mut far).await
            });
        }
    });
    wait_until("its slots", TEST_TIMEOUT, async || {
        let owned = read_counter(&second, "slots_owned").await;
        (owned > 0 && second.has_lease()).then_some(())
    })
    .await;
    assert_eq!(address_failure(&second), None);
    // It has met itself: a failure of that path costs no lease.
    carrier.abort();
    wait_for_renewals(&second, 5).await;
    assert!(second.has_lease());
    cluster.stop(&[first, second]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alloc_at_address_of_another_alloc_takes_no_slots() {
    let cluster = InProcessCluster::start(1, Duration::from_secs(1)).await;
    let [first] = cluster.start_allocs(["a1"]).await;
    let second = start_alloc(seqsvr_alloc::Options {
        advertise: Some(first.local_addr().to_string()),
        ..cluster.alloc_options("a2")
    })
    .await;
    let failure = wait_until("a failed attempt", TEST_TIMEOUT, async || {
        address_failure(&second).filter(|text| text.contains("--advertise"))
    })
    .await;
    assert!(
        failure.contains("another server") && failure.contains("\"a1\""),
        "{failure}"
    );
    wait_for_renewals(&first, 5).await;
    assert_eq!(session_names(&cluster).await, ["a1"]);
    cluster.stop(&[first, second]).await;
}

/// Schedule: the state directory records another cluster, and its disk is full. The operator starts
/// the AllocSvr with `--join-cluster`. If it gave numbers, the old record would decide the next
/// start, and the numbers of the other cluster would be given again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alloc_that_cannot_record_its_cluster_takes_no_slots_before_it_does() {
    let cluster = InProcessCluster::start(1, Duration::from_secs(1)).await;
    let [first] = cluster.start_allocs(["a1"]).await;
    let mut admin = cluster.admin_client(0).await;
    let status = admin.cluster_status(ClusterStatusRequest {}).await.unwrap();
    let own = u128_from(&status.into_inner().cluster, "cluster id").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let record = |cluster: u128| format!(r#"{{"format":1,"cluster":"{cluster:032x}"}}"#);
    let read_record = || std::fs::read_to_string(dir.path().join("cluster")).unwrap();
    std::fs::write(dir.path().join("cluster"), record(!own)).unwrap();
    // In the way of the new file, for root as well.
    let obstacle = dir.path().join("cluster.new");
    std::fs::create_dir(&obstacle).unwrap();
    let second = start_alloc(seqsvr_alloc::Options {
        state_dir: Some(dir.path().to_owned()),
        join_cluster: Some(ClusterId(own)),
        ..cluster.alloc_options("a2")
    })
    .await;
    let failure = wait_until("a failed attempt", TEST_TIMEOUT, async || {
        check_failure(&second, "state directory")
    })
    .await;
    let path = dir.path().display().to_string();
    for words in [&path, "os error", "takes no slots"] {
        assert!(failure.contains(words), "{failure}");
    }
    // A renewed session would have got slots in that time.
    wait_for_renewals(&first, 5).await;
    assert!(!second.has_lease());
    assert_eq!(read_counter(&second, "slots_owned").await, 0);
    assert_eq!(read_counter(&second, "cluster_unrecorded").await, 1);
    assert_eq!(read_record(), record(!own));
    // It serves through the owner.
    let taken = new_caller(&second).await.next(next_request("", 1)).await;
    taken.unwrap();

    std::fs::remove_dir(&obstacle).unwrap();
    wait_until("its slots", TEST_TIMEOUT, async || {
        let owned = read_counter(&second, "slots_owned").await;
        (owned > 0 && second.has_lease()).then_some(())
    })
    .await;
    assert_eq!(read_record(), record(own));
    assert_eq!(check_failure(&second, "state directory"), None);
    assert_eq!(read_counter(&second, "cluster_unrecorded").await, 0);
    cluster.stop(&[first, second]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alloc_without_a_store_names_the_stores_it_tried() {
    // A port without a listener: it was free a moment ago, and is held without listening.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind(any_port()).unwrap();
    let address = held.local_addr().unwrap().to_string();
    let alloc = start_alloc(seqsvr_alloc::Options::new(
        "lonely",
        any_port(),
        vec![address.clone()],
    ))
    .await;
    // On a busy machine the caller may give up before the answer arrives.
    let (code, reason, text) = wait_until("the answer of the server", TEST_TIMEOUT, async || {
        let mut request = Request::new(next_request("", 1));
        request.set_timeout(Duration::from_secs(1));
        let rejection = expect_rejection(new_caller(&alloc).await.next(request).await);
        (rejection.0 != Code::Cancelled).then_some(rejection)
    })
    .await;
    println!("no store: {text}");
    assert_eq!((code, reason), (Code::Unavailable, Reason::Unreachable));
    assert!(text.contains(&address), "{text}");
    let client = new_client(std::slice::from_ref(&alloc)).with_deadline(Duration::from_secs(2));
    let error = client.default_namespace().next(1).await.unwrap_err();
    println!("no store, by the client: {error}");
    // The client used its whole deadline; the text says for what.
    assert_eq!(
        (error.code(), error.reason()),
        (Code::DeadlineExceeded, Reason::Unreachable)
    );
    assert!(error.to_string().contains(&address), "{error}");
    assert!(!alloc.has_lease());
    alloc.shutdown().await;
}
