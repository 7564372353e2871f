//! An AllocSvr whose process has no memory left for another counter.
//!
//! The memory of counters belongs to the process, so this test runs in a process of its own.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking; clippy.toml allows it only inside test functions"
)]

#[path = "../in_process/harness.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod harness;

use std::num::NonZeroU32;
use std::time::Duration;

use seqsvr_core::section::{Key, Open, Section, memory};
use seqsvr_proto::v1::{self, CurrentKind, Reason};
use tonic::{Code, Request};

use crate::harness::{
    Cluster, D, caller, counter, create, dense, forwarded, next_of, refused, start, until,
};

const PATIENT: Duration = Duration::from_secs(30);
/// Uids of a section; a chunk of memory has the counters of 1,024.
const SIZE: u32 = 100_000;
const FAR: u64 = 1_000_000;

fn with_timeout<T>(message: T, timeout: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(timeout);
    request
}

/// Returns sections that use all memory allowed for counters.
fn fill_memory() -> Vec<Section> {
    let open = Open {
        generation: 1,
        base: 0,
        max_seq: 1_000,
        first: Some(1),
        stride: 1,
    };
    let mut sections = Vec::new();
    loop {
        let section = Section::dense(open, SIZE);
        let touched = (0..SIZE).all(|uid| section.next(Key::Dense(uid), NonZeroU32::MIN).is_ok());
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
    let cluster = Cluster::start(1, D).await;
    let alloc = start(seqsvr_alloc::Options {
        memory_budget: 1 << 20,
        ..cluster.options("a1")
    })
    .await;
    let allocs = [alloc.clone()];
    harness::settle(&allocs).await;
    create(&allocs, &dense("full", SIZE, 1_000_000, 1_000)).await;
    let mut plain = caller(&alloc).await;
    let first = plain.next(next_of("full", 7)).await.unwrap();
    assert_eq!(first.into_inner().first, 1);

    let filled = fill_memory();
    assert!(memory().is_tight());
    let second = plain.next(next_of("full", 8)).await.unwrap();
    assert_eq!(second.into_inner().first, 1, "its chunk was touched before");
    let short = Duration::from_millis(500);
    let late = plain
        .next(with_timeout(next_of("full", 20_000), short))
        .await;
    let (code, reason, text) = refused(late);
    assert_eq!((code, reason), (Code::ResourceExhausted, Reason::TooMany));
    assert!(text.contains("--memory-mib"), "{text}");

    let sent_on = forwarded(next_of("full", 30_000));
    let mut other = plain.clone();
    let waits = tokio::spawn(async move { other.next(with_timeout(sent_on, PATIENT)).await });
    let raises = counter(&alloc, "raises").await;
    let raise = v1::RaiseToRequest {
        namespace: "full".into(),
        key_kind: Some(v1::raise_to_request::KeyKind::Uid(40_000)),
        value: FAR,
        ..v1::RaiseToRequest::default()
    };
    let mut other = caller(&alloc).await;
    let call = tokio::spawn(async move { other.raise_to(with_timeout(raise, PATIENT)).await });
    until("the window to be raised", async || {
        (counter(&alloc, "raises").await > raises).then_some(())
    })
    .await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    until("only the forwarded call to wait", async || {
        (counter(&alloc, "waiting").await == 1).then_some(())
    })
    .await;

    drop(filled);
    let answered = waits.await.unwrap().unwrap().into_inner();
    assert_eq!(answered.first, 1);
    until("the counter to be set", async || {
        let current = v1::CurrentRequest {
            namespace: "full".into(),
            key_kind: Some(v1::current_request::KeyKind::Uid(40_000)),
            ..v1::CurrentRequest::default()
        };
        let current = plain.current(current).await.ok()?.into_inner();
        (current.kind() == CurrentKind::Exact && current.value == FAR).then_some(())
    })
    .await;
    cluster.stop(&allocs).await;
}
