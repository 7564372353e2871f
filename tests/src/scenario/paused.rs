//! Processes are paused (SIGSTOP) for three leases and continue (SIGCONT).
//!
//! Fault: pause of an owner with requests in its sockets, of the store leader, of both at once, or
//! of a majority of the stores. Checked: no process that continues answers with an old number.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use seqsvr_check::Answer;
use seqsvr_client::Key;
use seqsvr_proto::v1::next_request::KeyKind;
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::{NextRequest, NextResponse};
use tokio::task::JoinHandle;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use super::Outcome;
use crate::caller::{Ask, next};
use crate::cluster::Cluster;
use crate::history::History;
use crate::load::{Load, UNTIL_STOPPED};
use crate::process::Signal;
use crate::subject::{self, Subject};
use crate::wait::until;

const LEASE: Duration = Duration::from_secs(1);
const EACH: u64 = 1_000;
const PATIENCE: Duration = Duration::from_secs(60);
/// Requests sent directly to the paused owner.
const WAITING: usize = 150;
/// Timeout of each of them.
const WAITS: Duration = Duration::from_secs(20);
/// Calls in flight of the direct caller, which calls only one AllocSvr, and the number of its
/// sequences.
const DIRECT: usize = 16;
const DIRECT_OF: usize = 32;
/// Its deadline: while the AllocSvr is paused, each call times out and another is sent.
const DIRECT_WAITS: Duration = Duration::from_millis(700);

/// Pauses an owner for 3 D with requests in its sockets, while a caller keeps calling it.
pub async fn owner_paused() -> Outcome {
    paused(&[], true).await
}

/// Pauses the store leader for 3 D.
pub async fn leader_paused() -> Outcome {
    paused(&[0], false).await
}

/// Pauses the store leader and an owner for 3 D.
pub async fn owner_and_leader_paused() -> Outcome {
    paused(&[0], true).await
}

/// Pauses two of three stores for 3 D. No call may be served for a while, and no answer may be
/// wrong afterwards.
pub async fn majority_paused() -> Outcome {
    paused(&[0, 1], false).await
}

/// Pauses the leader (0) and the stores after it (1, 2), and the first AllocSvr if `owner`.
async fn paused(stores: &[usize], owner: bool) -> Outcome {
    let mut outcome = Outcome::default();
    let mut cluster = Cluster::start(3, 3, LEASE.as_millis() as u32).await;
    let majority = stores.len() > 1;
    // A plain call to a paused process waits with it, so plain callers call the others.
    let asked_plainly = cluster.alloc_addresses[1..].to_vec();
    let (callers, client) = super::callers(&cluster, &asked_plainly);
    subject::make_third(&client).await;
    let history = History::create(cluster.dir());
    let load = Load::start(&history, subject::all(), &callers, 6, UNTIL_STOPPED);
    load.answer_more(2 * EACH, PATIENCE).await;
    let leader = cluster.leader().await;
    let stopped: Vec<usize> = stores.iter().map(|i| (leader + i) % 3).collect();
    let mut waiting = Vec::new();
    let subjects = super::owned_by(&client, "a1", WAITING).await;
    // Connected before the pause, so that later requests wait in its sockets.
    let channel = SequenceClient::connect(format!("http://{}", cluster.alloc_addresses[0]));
    let a1 = channel.await.expect("it listens");
    let direct = Direct::start(&a1, &history, &subjects[..DIRECT_OF]);
    direct.answer_more().await;
    let before = load.answered();
    for store in &stopped {
        cluster.stores[*store].signal(Signal::STOP);
    }
    if owner {
        cluster.allocs[0].signal(Signal::STOP);
        for subject in subjects.into_iter().take(WAITING) {
            let (a1, history) = (a1.clone(), history.clone());
            waiting.push(tokio::spawn(send(a1, history, subject, WAITS)));
        }
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
        for sent in waiting {
            answered_late += u64::from(sent.await.expect("it ends"));
        }
        outcome.note(format!(
            "of {WAITING} requests that waited in the stopped owner's sockets {answered_late} were answered with a number"
        ));
    }
    load.answer_more(2 * EACH, PATIENCE).await;
    direct.answer_more().await;
    let (answered, failed) = direct.stop().await;
    outcome.note(format!(
        "a caller that talked to a1 all along: {answered} calls answered, {failed} given up or refused"
    ));
    outcome.calls += answered;
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

/// A caller that calls only one AllocSvr, also while that is paused.
struct Direct {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Direct {
    fn start(to: &SequenceClient<Channel>, history: &History, subjects: &[Subject]) -> Direct {
        let mut direct = Direct {
            stop: Arc::default(),
            answered: Arc::default(),
            failed: Arc::default(),
            tasks: Vec::new(),
        };
        for task in 0..DIRECT {
            let (to, history) = (to.clone(), history.clone());
            let stop = direct.stop.clone();
            let counts = [direct.answered.clone(), direct.failed.clone()];
            let subjects = subjects.to_vec();
            direct.tasks.push(tokio::spawn(async move {
                for subject in subjects.iter().cycle().skip(task) {
                    if stop.load(Relaxed) {
                        return;
                    }
                    let sent = send(to.clone(), history.clone(), subject.clone(), DIRECT_WAITS);
                    counts[usize::from(!sent.await)].fetch_add(1, Relaxed);
                }
            }));
        }
        direct
    }

    /// Waits for further answers.
    async fn answer_more(&self) {
        let before = self.answered.load(Relaxed);
        until("an answer to the direct caller", PATIENCE, async || {
            (self.answered.load(Relaxed) > before + DIRECT as u64).then_some(())
        })
        .await;
    }

    /// Ends the caller. Returns the number of answered and of failed calls.
    async fn stop(self) -> (u64, u64) {
        self.stop.store(true, Relaxed);
        for task in self.tasks {
            task.await.expect("no task panics");
        }
        (self.answered.load(Relaxed), self.failed.load(Relaxed))
    }
}

/// Makes one call directly to an AllocSvr. Returns whether a number was answered.
async fn send(
    mut to: SequenceClient<Channel>,
    mut history: History,
    subject: Subject,
    patience: Duration,
) -> bool {
    let Key::Uid(uid) = subject.key else {
        panic!("a uid");
    };
    let mut request = Request::new(NextRequest {
        key_kind: Some(KeyKind::Uid(uid)),
        ..NextRequest::default()
    });
    request.set_timeout(patience);
    let begin = history.now();
    let answer: Result<Response<NextResponse>, Status> = to.next(request).await;
    let end = history.now();
    let result = match answer {
        Ok(n) => {
            let n = n.into_inner();
            let answer: Answer = next(n.first, n.last, &subject);
            Ok((Some(n.epoch), answer))
        }
        Err(status) => Err(status.to_string()),
    };
    history.record(&subject, Ask::Next(1), begin, end, &result);
    result.is_ok()
}
