//! A deposed owner gives no number below those of the new owner.
//!
//! An owner is paused, loses its slots to another AllocSvr, and continues at a moment when it can
//! reach no store. It has only its windows, its clocks, and callers that call it. It must answer
//! none of them with a number below those that the new owner has given.
//!
//! The stores are restarted while the owner is paused, so that no message waits in its sockets, and
//! are paused before it continues. So only its own lease, or the confirmation that strict mode
//! waits for, keeps it from answering. Without both, the exact check must find a violation (`cargo
//! xtask accept --unleased`).

use std::time::{Duration, Instant};

use super::Outcome;
use crate::caller::{Ask, Caller, Result};
use crate::cluster::Cluster;
use crate::history::History;
use crate::plain::Plain;
use crate::process::Signal;
use crate::subject::Subject;
use crate::wait::until;

const LEASE_MS: u32 = 1_000;
const PATIENCE: Duration = Duration::from_secs(90);
/// Sequences whose slots change hands.
const SUBJECTS: usize = 100;
/// Calls of each sequence at the new owner.
const ROUNDS: usize = 10;

/// Wakes up an owner that has lost its slots while it can reach no store.
pub async fn deposed_owner() -> Outcome {
    let mut outcome = Outcome::default();
    let mut cluster = Cluster::start(3, 2, LEASE_MS).await;
    let client = cluster.client().with_deadline(PATIENCE);
    let mut history = History::create(cluster.dir());
    let mut subjects = super::owned_by(&client, "a1", SUBJECTS).await;
    subjects.truncate(SUBJECTS);
    let through_client = Caller::Client(client.clone());
    let a1 = &cluster.alloc_addresses[..1];
    let to_a1 = Caller::Plain(Plain::new(a1, client));
    all_answered(&mut history, &mut outcome, &to_a1, &subjects).await;

    cluster.allocs[0].signal(Signal::STOP);
    for store in &mut cluster.stores {
        store.kill();
        store.reap();
    }
    for store in &mut cluster.stores {
        store.restart();
    }
    for _ in 0..ROUNDS {
        all_answered(&mut history, &mut outcome, &through_client, &subjects).await;
        outcome.inside += SUBJECTS as u64;
    }
    for store in &cluster.stores {
        store.signal(Signal::STOP);
    }
    cluster.allocs[0].signal(Signal::CONT);
    let alone = ask(&mut history, &to_a1, &subjects).await;
    let answered = alone.iter().flatten().count();
    outcome.note(format!(
        "of {SUBJECTS} calls the deposed owner answered {answered} while it heard from no store"
    ));

    for store in &cluster.stores {
        store.signal(Signal::CONT);
    }
    until("the deposed owner to serve again", PATIENCE, async || {
        let results = ask(&mut history, &to_a1, &subjects).await;
        results.iter().all(Result::is_ok).then_some(())
    })
    .await;
    all_answered(&mut history, &mut outcome, &through_client, &subjects).await;
    cluster.whole(2).await;
    cluster.assert_none_ended();
    history.check();
    outcome
}

/// Takes and records one number of each sequence.
async fn ask(history: &mut History, caller: &Caller, subjects: &[Subject]) -> Vec<Result> {
    let items: Vec<&Subject> = subjects.iter().collect();
    let begin = history.now();
    let results = caller.ask(0, Ask::Next(1), &items).await;
    let end = history.now();
    for (subject, result) in subjects.iter().zip(&results) {
        history.record(subject, Ask::Next(1), begin, end, result);
    }
    results
}

/// Takes and records one number of each sequence. Every call must be answered.
async fn all_answered(
    history: &mut History,
    outcome: &mut Outcome,
    caller: &Caller,
    subjects: &[Subject],
) {
    let began = Instant::now();
    for result in ask(history, caller, subjects).await {
        result.expect("it is answered");
        outcome.add_call(began.elapsed());
    }
}
