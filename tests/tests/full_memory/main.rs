//! An AllocSvr whose process has no memory left for another counter.
//!
//! The memory of counters belongs to the process, so this test runs in a process of its own.

use std::num::NonZeroU32;
use std::time::Duration;

use seqsvr_core::section::{CounterKey, Section, SectionGrant, counter_memory};
use seqsvr_proto::v1::{self, CurrentKind, Reason};
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, create_namespace, dense_namespace, expect_rejection, mark_forwarded,
    new_caller, next_request, read_counter, start_alloc, wait_until_assigned,
};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tonic::{Code, Request};

const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Uids of a section; a chunk of memory has the counters of 1,024.
const SECTION_SIZE: u32 = 100_000;
const FAR_VALUE: u64 = 1_000_000;

fn with_timeout<T>(message: T, timeout: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(timeout);
    request
}

/// Returns sections that use all memory allowed for counters.
fn fill_memory() -> Vec<Section> {
    let open = SectionGrant {
        generation: 1,
        base: 0,
        max_seq: 1_000,
        first: Some(1),
        stride: 1,
    };
    let mut sections = Vec::new();
    loop {
        let section = Section::dense(open, SECTION_SIZE);
        let touched = (0..SECTION_SIZE).all(|uid| {
            section
                .next(CounterKey::Dense(uid), NonZeroU32::MIN)
                .is_ok()
        });
        sections.push(section);
        if !touched {
            return sections;
        }
    }
}

/// Schedule: no memory is left. Calls for new keys wait, among them one that another AllocSvr
/// forwarded and a RaiseTo. The window is raised for the RaiseTo, then its caller goes away, then
/// memory is freed. The counter must be set: otherwise the window would stay open up to it, and a
/// crash would skip all of that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_for_new_keys_wait_for_memory() {
    // 1. Start an AllocSvr with a small budget.
    let cluster = InProcessCluster::start(1, LEASE).await;
    let alloc = start_alloc(seqsvr_alloc::Options {
        memory_budget: 1 << 20,
        ..cluster.alloc_options("a1")
    })
    .await;
    let allocs = [alloc.clone()];
    wait_until_assigned(&allocs).await;
    create_namespace(
        &allocs,
        &dense_namespace("full", SECTION_SIZE, 1_000_000, 1_000),
    )
    .await;
    let mut plain = new_caller(&alloc).await;
    let first = plain.next(next_request("full", 7)).await.unwrap();
    assert_eq!(first.into_inner().first, 1);

    // 2. Fill the memory: a touched chunk is served, a new one is rejected at the deadline.
    let filled = fill_memory();
    assert!(counter_memory().is_tight());
    let second = plain.next(next_request("full", 8)).await.unwrap();
    assert_eq!(second.into_inner().first, 1, "its chunk was touched before");
    let short = Duration::from_millis(500);
    let late = plain
        .next(with_timeout(next_request("full", 20_000), short))
        .await;
    let (code, reason, text) = expect_rejection(late);
    assert_eq!(
        (code, reason),
        (Code::ResourceExhausted, Reason::Overloaded)
    );
    assert!(text.contains("--section-memory-mib"), "{text}");

    // 3. A forwarded call waits, and so does a RaiseTo whose caller goes away.
    let forwarded = mark_forwarded(next_request("full", 30_000));
    let mut other = plain.clone();
    let waits =
        tokio::spawn(async move { other.next(with_timeout(forwarded, CALL_TIMEOUT)).await });
    let raises = read_counter(&alloc, "raises").await;
    let raise = v1::RaiseToRequest {
        namespace: "full".into(),
        key_kind: Some(v1::raise_to_request::KeyKind::Uid(40_000)),
        value: FAR_VALUE,
        ..v1::RaiseToRequest::default()
    };
    let mut other = new_caller(&alloc).await;
    let call = tokio::spawn(async move { other.raise_to(with_timeout(raise, CALL_TIMEOUT)).await });
    wait_until("the window to be raised", TEST_TIMEOUT, async || {
        (read_counter(&alloc, "raises").await > raises).then_some(())
    })
    .await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    wait_until(
        "only the forwarded call to wait",
        TEST_TIMEOUT,
        async || (read_counter(&alloc, "queued_items").await == 1).then_some(()),
    )
    .await;

    // 4. Free the memory: the call is answered, and the counter of the RaiseTo is set.
    drop(filled);
    let answered = waits.await.unwrap().unwrap().into_inner();
    assert_eq!(answered.first, 1);
    wait_until("the counter to be set", TEST_TIMEOUT, async || {
        let current = v1::CurrentRequest {
            namespace: "full".into(),
            key_kind: Some(v1::current_request::KeyKind::Uid(40_000)),
            ..v1::CurrentRequest::default()
        };
        let current = plain.current(current).await.ok()?.into_inner();
        (current.kind() == CurrentKind::Exact && current.value == FAR_VALUE).then_some(())
    })
    .await;
    cluster.stop(&allocs).await;
}
