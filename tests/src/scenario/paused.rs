//! Processes are stopped (SIGSTOP) for three leases and go on (SIGCONT): an owner with requests waiting
//! in its sockets, the store leader, both at once, a majority of the stores. Nobody who wakes up
//! answers with an old number.

use std::time::Duration;

use seqsvr_check::Answer;
use seqsvr_client::Key;
use seqsvr_proto::v1::next_request::KeyKind;
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::{NextRequest, NextResponse};
use tokio::task::JoinHandle;
use tonic::{Request, Response, Status};

use super::Outcome;
use crate::caller::{Ask, next};
use crate::cluster::Cluster;
use crate::history::History;
use crate::load::{Load, UNTIL_STOPPED};
use crate::process::Signal;
use crate::subject::{self, Subject};

const LEASE: Duration = Duration::from_secs(1);
const EACH: u64 = 1_000;
const PATIENCE: Duration = Duration::from_secs(60);
/// Requests sent straight to the stopped owner while it is stopped.
const WAITING: usize = 150;

/// An owner is stopped for 3 D with requests in its sockets, and a caller keeps talking to it.
pub async fn owner_paused() -> Outcome {
    paused(&[], true).await
}

/// The store leader is stopped for 3 D.
pub async fn leader_paused() -> Outcome {
    paused(&[0], false).await
}

/// The store leader and an owner are stopped for 3 D.
pub async fn owner_and_leader_paused() -> Outcome {
    paused(&[0], true).await
}

/// Two of three stores are stopped for 3 D: nothing can be served for a while, and nothing is wrong
/// after.
pub async fn majority_paused() -> Outcome {
    paused(&[0, 1], false).await
}

/// Stops the leader (0) and the stores after it (1, 2), and perhaps the first AllocSvr.
async fn paused(stores: &[usize], owner: bool) -> Outcome {
    let mut outcome = Outcome::default();
    let mut cluster = Cluster::start(3, 3, LEASE.as_millis() as u32).await;
    let majority = stores.len() > 1;
    // A plain call at a stopped process waits with it: plain callers ask the others.
    let asked_plainly = cluster.alloc_addresses[1..].to_vec();
    let (callers, client) = super::callers(&cluster, &asked_plainly);
    subject::make_third(&client).await;
    let history = History::create(cluster.dir());
    let load = Load::start(&history, subject::all(), &callers, 6, UNTIL_STOPPED);
    load.answer_more(2 * EACH, PATIENCE).await;
    let leader = cluster.leader().await;
    let stopped: Vec<usize> = stores.iter().map(|i| (leader + i) % 3).collect();
    let before = load.answered();
    for store in &stopped {
        cluster.stores[*store].signal(Signal::STOP);
    }
    let mut direct = Vec::new();
    if owner {
        let subjects = super::owned_by(&client, "a1", 1).await;
        // Connected before it is stopped, so that what is sent waits in its sockets.
        let channel = SequenceClient::connect(format!("http://{}", cluster.alloc_addresses[0]));
        let channel = channel.await.expect("it listens");
        cluster.allocs[0].signal(Signal::STOP);
        for subject in subjects.into_iter().take(WAITING) {
            direct.push(send(channel.clone(), history.clone(), subject));
        }
        assert_eq!(direct.len(), WAITING);
    }
    tokio::time::sleep(3 * LEASE).await;
    if !majority {
        load.answer_more(EACH, PATIENCE).await;
        outcome.inside = load.answered() - before;
    }
    for store in &stopped {
        cluster.stores[*store].signal(Signal::CONT);
    }
    let mut answered_late = 0;
    if owner {
        cluster.allocs[0].signal(Signal::CONT);
        for sent in direct {
            answered_late += u64::from(sent.await.expect("it ends"));
        }
        outcome.note(format!(
            "of {WAITING} requests that waited in the stopped owner's sockets {answered_late} were answered with a number"
        ));
    }
    load.answer_more(2 * EACH, PATIENCE).await;
    let summary = load.stop().await;
    outcome.add("load", &summary);
    outcome.calls += answered_late;
    if majority {
        outcome.note(format!("{} calls failed, as must be", summary.failed));
        outcome.failed = 0;
        let other =
            |f: &&String| !f.to_lowercase().contains("unavailable") && !f.contains("within");
        let odd: Vec<_> = summary.failures.iter().filter(other).collect();
        assert!(odd.is_empty(), "{odd:?}");
    } else {
        assert_eq!(summary.failed, 0, "{:?}", summary.failures);
        assert!(outcome.inside >= EACH, "{} inside", outcome.inside);
    }
    cluster.assert_none_ended();
    let report = history.check();
    assert!(report.ordered_pairs > 10_000);
    outcome
}

/// One call straight to the stopped owner; whether it was answered with a number.
fn send(
    mut owner: SequenceClient<tonic::transport::Channel>,
    mut history: History,
    subject: Subject,
) -> JoinHandle<bool> {
    tokio::spawn(async move {
        let Key::Uid(uid) = subject.key else {
            panic!("a uid");
        };
        let mut request = Request::new(NextRequest {
            key_kind: Some(KeyKind::Uid(uid)),
            ..NextRequest::default()
        });
        request.set_timeout(Duration::from_secs(20));
        let begin = history.now();
        let answer: Result<Response<NextResponse>, Status> = owner.next(request).await;
        let end = history.now();
        let result = match answer {
            Ok(n) => {
                let n = n.into_inner();
                let answer: Answer = next(n.first, n.last, &subject);
                Ok((n.epoch, answer))
            }
            Err(status) => Err(status.to_string()),
        };
        history.record(&subject, Ask::Next(1), begin, end, &result);
        result.is_ok()
    })
}
