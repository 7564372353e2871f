//! Ids of families: merged into frames, each given once, rising at one client if servers fail.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod fake;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::Bytes;
use fake::ids::{RISING, add_family};
use fake::{FakeAlloc, bind_listeners, new_client, routing_table};
use futures::future::{join, join_all};
use seqsvr_client::{Client, Code, ErrorKind, FamilyHandle, LocalOptions, Reason};
use seqsvr_holder::{BootClock, FamilyHolder, HolderOptions, StoreClock, WorkerCalls};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1;
use seqsvr_test_support::in_process::run_in_forked_child;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// Starts servers of a cluster with a family, and returns a handle of it.
async fn start<const N: usize>(layout: &str) -> ([FakeAlloc; N], Client, FamilyHandle) {
    let (listeners, addresses) = bind_listeners::<N>().await;
    let mut table = routing_table(5, |slot| {
        Some((addresses[usize::from(slot) % N].clone(), 1))
    });
    add_family(&mut table, "orders", layout);
    let nodes = listeners.map(|listener| FakeAlloc::start(listener, &Arc::default(), &table));
    let client = new_client(&addresses.each_ref());
    let orders = client.family("orders").await.unwrap();
    (nodes, client, orders)
}

/// Returns the counts and floors of the requests that a server received since the last time.
fn take_requests(node: &FakeAlloc) -> Vec<(u32, Option<u64>)> {
    let requests = std::mem::take(&mut *node.ids_requests.lock());
    assert!(requests.iter().all(|r| r.family == "orders" && !r.runs));
    requests.iter().map(|r| (r.count(), r.floor)).collect()
}

#[tokio::test]
async fn merged_callers_get_each_id_once_and_those_of_late_ones_stay_unused() {
    let ([node], client, orders) = start(RISING).await;
    assert_eq!(orders.next().await.unwrap(), 1);
    node.script.lock().delay = Duration::from_millis(300);
    let hurried = client.with_deadline(Duration::from_millis(100));
    let hurried = hurried.family("orders").await.unwrap();
    take_requests(&node);
    let late = join_all((0..50).map(|_| hurried.many(3)));
    let patient = join_all((0..50).map(|_| orders.many(2)));
    let single = join_all((0..50).map(|_| orders.next()));
    let (late, (patient, single)) = join(late, join(patient, single)).await;
    for error in late.into_iter().map(Result::unwrap_err) {
        assert!(error.to_string().contains("no answer from"), "{error}");
    }
    // All are in one frame, in the order in which they were called: 50 x 3, then 50 x 2.
    assert_eq!(take_requests(&node)[0], (300, Some(1)));
    let patient = patient.into_iter().flat_map(Result::unwrap);
    assert!(patient.eq(152..252));
    assert!(single.into_iter().map(Result::unwrap).eq(252..302));
    node.script.lock().delay = Duration::ZERO;
    assert!(orders.next().await.unwrap() > node.last_id.load(SeqCst) - 1);
}

#[tokio::test]
async fn callers_of_an_aborted_call_take_no_id_of_others() {
    let ([node], _, orders) = start(RISING).await;
    orders.next().await.unwrap();
    node.script.lock().delay = Duration::from_millis(100);
    let call = |_| {
        let orders = orders.clone();
        tokio::spawn(async move { orders.many(4).await })
    };
    let calls: Vec<_> = (0..40).map(call).collect();
    while node.frames_received.load(SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    calls.iter().step_by(2).for_each(|call| call.abort());
    let mut given = BTreeSet::new();
    for call in calls.into_iter().skip(1).step_by(2) {
        given.extend(call.await.unwrap().unwrap());
    }
    assert_eq!(given.len(), 80, "one was given twice");
    let next = orders.next().await.unwrap();
    assert!(next > node.last_id.load(SeqCst) - 1 && given.last() < Some(&next));
}

#[tokio::test]
async fn floor_is_the_greatest_id_of_the_client() {
    let ([node], client, orders) = start(RISING).await;
    let last = *orders.many(7).await.unwrap().last().unwrap();
    let again = client.clone().family("orders").await.unwrap();
    assert_eq!(again.next().await.unwrap(), last + 1);
    orders.next().await.unwrap();
    let floors = [(7, None), (1, Some(last)), (1, Some(last + 1))];
    assert_eq!(take_requests(&node), floors);
    // Another client has its own.
    let other = new_client(&[&node.address]);
    other.family("orders").await.unwrap().next().await.unwrap();
    assert_eq!(take_requests(&node), [(1, None)]);
}

#[tokio::test]
async fn ids_that_break_the_contract_are_never_handed_out() {
    let ([node], _, orders) = start(RISING).await;
    let last = *orders.many(9).await.unwrap().last().unwrap();
    take_requests(&node);
    let alterations: [fn(&mut Vec<u64>); 8] = [
        |ids| ids[3] = ids[2],
        |ids| ids.swap(2, 3),
        |ids| ids.truncate(4),
        |ids| ids.push(u64::MAX >> 1),
        |ids| ids.clear(),
        |ids| *ids = (1..=ids.len() as u64).collect(),
        |ids| ids.iter_mut().for_each(|id| *id |= 1 << 63),
        |ids| *ids = (9..9 + ids.len() as u64).collect(),
    ];
    for alter in alterations {
        node.last_id.fetch_max(1_000, SeqCst);
        node.script.lock().alters_ids = Some(alter);
        // The ids of one call rise, those of both together need not.
        let (first, second) = join(orders.many(3), orders.many(3)).await;
        for result in [first, second] {
            let error = result.unwrap_err();
            assert_eq!(error.code(), Code::Internal);
            assert!(error.to_string().contains("malformed reply"), "{error}");
        }
        assert_eq!(
            take_requests(&node),
            [(6, Some(last))],
            "sent again, or a new floor"
        );
    }
    // The last id alone has a bit that no id has.
    node.script.lock().alters_ids = Some(|ids| ids[2] |= 1 << 63);
    let error = orders.many(3).await.unwrap_err();
    assert_eq!(error.code(), Code::Internal);
    node.script.lock().alters_ids = None;
    assert!(orders.next().await.unwrap() > last);
}

#[tokio::test]
async fn ids_that_fall_with_time_have_no_floor() {
    let ([node], _, orders) = start("0:1,time~:41,worker:10,seq~:12").await;
    node.script.lock().alters_ids = Some(|ids| ids.reverse());
    assert_eq!(orders.many(3).await.unwrap(), [3, 2, 1]);
    assert_eq!(orders.next().await.unwrap(), 4);
    assert_eq!(take_requests(&node), [(3, None), (1, None)]);
    node.script.lock().alters_ids = Some(|ids| ids.truncate(1));
    let error = orders.many(2).await.unwrap_err();
    assert_eq!(error.code(), Code::Internal);
}

#[tokio::test]
async fn many_takes_parts_one_after_the_other() {
    let ([node], _, orders) = start(RISING).await;
    let ids = orders.many(25_000).await.unwrap();
    assert!(ids.len() == 25_000 && ids.is_sorted_by(|a, b| a < b));
    let parts = [
        (10_000, None),
        (10_000, Some(ids[9_999])),
        (5_000, Some(ids[19_999])),
    ];
    assert_eq!(take_requests(&node), parts);
    // A worker makes 6,400 in 100 ms.
    let ([slow], _, few) = start("0:1,time:41,worker:16,seq:6").await;
    let ids = few.many(8_000).await.unwrap();
    let parts = [(6_400, None), (1_600, Some(ids[6_399]))];
    assert_eq!(take_requests(&slow), parts);
    for count in [0, 1_000_001] {
        let error = orders.many(count).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("1 to 1000000, not"), "{error}");
    }
    assert!(take_requests(&node).is_empty());
}

#[tokio::test]
async fn unknown_family_is_an_error_that_names_the_known_ones() {
    let ([node], client, _) = start(RISING).await;
    let fetched = node.fetched_bases.lock().len();
    for (name, text) in [
        (
            "invoices",
            "no family is named \"invoices\": there are orders; make it with",
        ),
        ("", "`seqsvr id create snowflake`"),
    ] {
        let error = client.family(name).await.map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FamilyNotFound);
        assert!(error.to_string().contains(text), "{error}");
    }
    assert!(node.fetched_bases.lock().len() > fetched, "no newer table");
    add_family(&mut node.table.lock(), "invoices", RISING);
    add_family(&mut node.table.lock(), "snowflake", RISING);
    assert_eq!(client.family("invoices").await.unwrap().name(), "invoices");
    assert_eq!(client.family("").await.unwrap().name(), "snowflake");
}

/// The servers' ids are far apart: only the floor keeps them rising.
#[tokio::test]
async fn client_stays_at_one_server_until_it_fails_and_ids_rise() {
    let (nodes, _, orders) = start::<2>(RISING).await;
    nodes[0].last_id.store(1 << 40, SeqCst);
    let mut last = orders.next().await.unwrap();
    for change in [
        "no other",
        "broken pipe",
        "server stops",
        "no hint",
        "no worker",
    ] {
        let (mine, other) = match nodes[0].ids_requests.lock().len() {
            0 => (&nodes[1], &nodes[0]),
            _ => (&nodes[0], &nodes[1]),
        };
        let no_worker = RpcError::new(Reason::NoWorker, "all are held").with_retry_after_ms(1);
        match change {
            "broken pipe" => mine.script.lock().breaks_pipe = true,
            "server stops" => {
                let received = mine.frames_received.load(SeqCst);
                mine.script.lock().closes_after = Some(received + 5);
            }
            "no hint" => {
                let fault = RpcError::new(Reason::ClockSuspect, "no time");
                mine.script.lock().ids_errors.push(fault);
            }
            "no worker" => mine.script.lock().ids_errors.push(no_worker),
            _ => {}
        }
        let moves = change != "no other";
        for _ in 0..20 {
            let id = orders.next().await.unwrap();
            assert!(id > last, "{change}: {id} after {last}");
            last = id;
        }
        take_requests(mine);
        assert_eq!(!take_requests(other).is_empty(), moves, "{change}");
        last = orders.many(2).await.unwrap()[1];
        let [stays, went] = [mine, other].map(|node| !node.ids_requests.lock().is_empty());
        assert_eq!((stays, went), (!moves, moves), "{change}");
    }
}

#[tokio::test]
async fn server_that_is_new_in_the_table_is_used_when_others_are_silent() {
    let ([listener], [address]) = bind_listeners().await;
    let (nodes, client, _) = start::<2>(RISING).await;
    let client = client.with_deadline(Duration::from_secs(2));
    let orders = client.family("orders").await.unwrap();
    let last = orders.next().await.unwrap();
    let mut table = routing_table(9, |_| Some((address.clone(), 2)));
    add_family(&mut table, "orders", RISING);
    let added = FakeAlloc::start(listener, &Arc::default(), &table);
    for node in &nodes {
        *node.table.lock() = table.clone();
        node.script.lock().delay = Duration::from_secs(60);
    }
    assert!(orders.next().await.unwrap() > last);
    assert_eq!(take_requests(&added), [(1, Some(last))]);
}

#[tokio::test]
async fn hint_of_a_server_is_honored_and_final_errors_end_the_call() {
    let ([node], _, orders) = start(RISING).await;
    let ahead = RpcError::new(Reason::TooFarAhead, "ask again").with_retry_after_ms(30);
    let over = RpcError::new(Reason::TimeExhausted, "the time of orders is over");
    node.script.lock().ids_errors = vec![over, ahead.clone(), ahead];
    let begin = std::time::Instant::now();
    let error = orders.next().await.unwrap_err();
    assert!(begin.elapsed() >= Duration::from_millis(60));
    assert_eq!(
        (error.reason(), error.attempts()),
        (Reason::TimeExhausted, 3)
    );
    let suspect = RpcError::new(Reason::ClockSuspect, "ask later").with_retry_after_ms(900);
    node.script.lock().ids_errors = vec![suspect];
    let short = new_client(&[&node.address]).with_deadline(Duration::from_millis(200));
    let error = short.family("orders").await.unwrap().next().await;
    assert_eq!(error.unwrap_err().code(), Code::DeadlineExceeded);
}

/// Schedule: one AllocSvr holds the only worker, and the call goes to another one.
#[tokio::test]
async fn servers_that_have_no_id_are_all_called_before_the_call_waits() {
    let none = |reason| RpcError::new(reason, "not now").with_retry_after_ms(7_000);
    for none in [
        none(Reason::NoWorker),
        none(Reason::TooFarAhead),
        none(Reason::NoWorker).with_code(Code::AlreadyExists),
    ] {
        let (nodes, client, _) = start::<3>(RISING).await;
        let client = client.with_deadline(Duration::from_secs(1));
        let orders = client.family("orders").await.unwrap();
        for node in &nodes[1..] {
            node.script.lock().ids_errors = vec![none.clone(); 100];
        }
        let begin = std::time::Instant::now();
        orders.next().await.unwrap();
        assert!(begin.elapsed() < Duration::from_millis(450), "{none}");
        let called = |node: &FakeAlloc| node.ids_requests.lock().len();
        assert!(nodes.iter().all(|node| called(node) <= 1), "{none}");

        // None has an id at first, and the hint is longer than the call.
        nodes[0].script.lock().ids_errors = vec![none.clone()];
        orders.next().await.unwrap();
        let short = client.with_deadline(Duration::from_millis(300));
        nodes[0].script.lock().ids_errors = vec![none.clone(); 100];
        let error = short.family("orders").await.unwrap().next().await;
        let error = error.unwrap_err();
        assert_eq!(error.reason(), none.reason(), "{error}");
        assert!(error.attempts() > 3, "{error}");
    }
}

#[tokio::test]
async fn ids_are_read_without_a_call() {
    let ([node], _, orders) = start(RISING).await;
    let read = orders.decode((77 << 22) + (5 << 12) + 9).unwrap();
    let parts = read.parts;
    assert_eq!((read.time_ms, parts.worker, parts.seq), (77, 5, 9));
    let error = orders.decode(1 << 63).unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        (Code::InvalidArgument, Reason::NotAnId)
    );
    let range = orders.range(77..79).unwrap();
    assert_eq!(range, 77 << 22..=(79 << 22) - 1);
    assert_eq!(
        orders.range(77..77).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(node.frames_received.load(SeqCst), 0);
}

#[tokio::test]
async fn acquisition_goes_to_another_server_if_one_hangs() {
    let (nodes, _, orders) = start::<2>(RISING).await;
    for node in &nodes {
        node.script.lock().delay = Duration::from_secs(60);
    }
    let begin = std::time::Instant::now();
    let options = LocalOptions::default();
    let local = tokio::spawn(async move { orders.local(options).await.err().unwrap() });
    let has_received = |node: &FakeAlloc| node.acquisitions.load(SeqCst) > 0;
    while !nodes.iter().any(has_received) {
        tokio::task::yield_now().await;
    }
    let other = nodes.iter().find(|node| !has_received(node)).unwrap();
    other.script.lock().delay = Duration::ZERO;
    let error = local.await.unwrap();
    assert_eq!(error.reason(), Reason::NoWorker, "{error}");
    // The keeper repeats a call after 2 s.
    assert!(begin.elapsed() < Duration::from_secs(2));
}

/// Calls of a holder whose acquisition is never answered; its nonce is passed on.
struct UnansweredCalls(UnboundedSender<Bytes>);

impl WorkerCalls for UnansweredCalls {
    async fn acquire(
        &self,
        request: v1::AcquireWorkerRequest,
    ) -> Result<v1::WorkerGrant, RpcError> {
        self.0.send(request.nonce).unwrap();
        std::future::pending().await
    }

    async fn renew(&self, _: v1::Renewal) -> Result<v1::WorkerGrant, RpcError> {
        unreachable!("there is no grant")
    }

    async fn release(&self, _: v1::ReleaseWorkerRequest) -> Result<(), RpcError> {
        unreachable!("there is no grant")
    }
}

/// Returns a byte of the nonce with which a holder in this process acquires, below 200.
fn nonce_byte() -> u8 {
    let mut table = routing_table(1, |_| None);
    add_family(&mut table, "orders", RISING);
    let family = table.families()[0].clone();
    let (sender, mut nonces) = unbounded_channel();
    let options = HolderOptions {
        name: "pod-3".to_owned(),
        workers: 1..=1,
        claimed: None,
        window_ms: 0,
    };
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().build().unwrap();
    runtime.block_on(async {
        let calls = Arc::new(UnansweredCalls(sender));
        let clock = StoreClock::new(BootClock::Exact);
        let _holder = FamilyHolder::start(family, clock, calls, options);
        nonces.recv().await.unwrap()[0] % 200
    })
}

/// Schedule: a process draws a random number and forks children that each acquire a worker under
/// one name. A nonce that both draw from their copies of its generator is one acquisition for the
/// store: both get one grant, and each id is made twice.
#[test]
fn forked_children_acquire_with_nonces_of_their_own() {
    let _: u64 = rand::random();
    let drawn: Vec<i32> = (0..6).map(|_| run_in_forked_child(nonce_byte)).collect();
    assert!(
        drawn.iter().all(|byte| (0..200).contains(byte)),
        "{drawn:?}"
    );
    let different: BTreeSet<_> = drawn.iter().collect();
    assert!(different.len() > 1, "all children drew {drawn:?}");
}
