//! The queue's order and bounds, and the proposer's one entry in flight.

use std::sync::atomic::AtomicUsize;

use proptest::prelude::*;
use seqsvr_core::command::{Fence, OpenSession, RaiseCause, SlotHighWaterMark};
use seqsvr_core::ids::{
    Epoch, Generation, NamespaceId, Nonce, SectionId, SectionKey, SessionId, Slot,
};
use tokio::sync::Semaphore;

use super::proposal_queue::{QUEUE_BYTES_MAX, QUEUE_COMMANDS_MAX};
use super::*;

fn fence_of(n: u32) -> Fence {
    Fence {
        slot: Slot(u16::MAX),
        epoch: Epoch(u64::MAX),
        section: SectionKey {
            namespace: NamespaceId(u32::MAX),
            section: SectionId(n),
        },
    }
}

fn raise_command(n: u32) -> Command {
    Command::Raise {
        fence: fence_of(n),
        generation: Generation(u64::MAX),
        to: u64::MAX,
        cause: RaiseCause::Refill,
    }
}

fn open_command(n: u32) -> Command {
    Command::Open {
        fence: fence_of(n),
        expected: Generation(0),
        nonce: Nonce(u128::MAX),
        step: 1,
    }
}

fn session_command(n: u32) -> Command {
    Command::OpenSession(OpenSession {
        name: format!("a{n}"),
        address: "x".repeat(256),
        incarnation: 1,
        nonce: Nonce(1),
        proof: None,
    })
}

fn close_command(n: u32) -> Command {
    let last = seqsvr_core::command::HighWaterMark {
        section: fence_of(n).section,
        generation: Generation(u64::MAX),
        value: u64::MAX,
    };
    let chunk = SlotHighWaterMark {
        slot: Slot(1),
        epoch: Epoch(1),
        mark: last,
    };
    Command::CloseSession {
        session: SessionId(1),
        high_water_marks: vec![chunk; seqsvr_core::command::HIGH_WATER_MARKS_MAX],
        last: false,
    }
}

fn move_command(n: u32) -> Command {
    let last = seqsvr_core::command::HighWaterMark {
        section: fence_of(n).section,
        generation: Generation(u64::MAX),
        value: u64::MAX,
    };
    Command::MoveSlot {
        slot: Slot(1),
        epoch: Epoch(1),
        high_water_marks: vec![last; seqsvr_core::command::HIGH_WATER_MARKS_MAX],
        to: None,
    }
}

fn command_of_kind(kind: u8, n: u32) -> Command {
    match kind {
        0 => raise_command(n),
        1 => open_command(n),
        2 => close_command(n),
        _ => session_command(n),
    }
}

fn class_of_command(command: &Command) -> u8 {
    match command {
        Command::Raise { .. } => 0,
        Command::Open { .. } | Command::CloseSession { .. } | Command::MoveSlot { .. } => 1,
        _ => 2,
    }
}

#[test]
fn gather_orders_raises_first_and_creations_last() {
    let mut queue = ProposalQueue::default();
    let all = vec![
        (session_command(1), 0),
        (open_command(2), 1),
        (raise_command(3), 2),
        (open_command(4), 3),
        (raise_command(5), 4),
    ];
    queue.push(all).unwrap();
    let gathered = queue.gather(|_| false).unwrap();
    assert_eq!(gathered.waiters, vec![2, 4, 1, 3, 0]);
    assert!(queue.is_empty() && queue.gather(|_| false).is_none());
}

#[test]
fn gather_drops_commands_without_waiter() {
    let mut queue = ProposalQueue::default();
    queue
        .push((0..10).map(|n| (raise_command(n), n)).collect())
        .unwrap();
    let gathered = queue.gather(|n| n % 2 == 0).unwrap();
    assert_eq!(gathered.waiters, vec![1, 3, 5, 7, 9]);
    queue.push(vec![(raise_command(0), 0)]).unwrap();
    assert!(queue.gather(|_| true).is_none() && queue.is_empty());
}

#[test]
fn full_queue_rejects_whole_push() {
    let mut queue = ProposalQueue::default();
    let raises = |count: usize| {
        (0..count)
            .map(|n| (raise_command(n as u32), n))
            .collect::<Vec<_>>()
    };
    queue.push(raises(QUEUE_COMMANDS_MAX - 1)).unwrap();
    assert_eq!(queue.push(raises(2)), Err(QueueFull));
    assert_eq!(queue.len(), QUEUE_COMMANDS_MAX - 1);
    queue.push(raises(1)).unwrap();
    queue.gather(|_| false).unwrap();
    queue.push(raises(100)).unwrap();

    let mut queue = ProposalQueue::default();
    let mut pushed = 0;
    while queue.push(vec![(close_command(1), ())]).is_ok() {
        pushed += 1;
    }
    assert!(pushed > 100 && pushed * 34_000 <= QUEUE_BYTES_MAX);
}

#[test]
fn raise_flood_does_not_starve_lower_classes() {
    let mut queue = ProposalQueue::default();
    queue
        .push(vec![(session_command(0), true), (close_command(0), true)])
        .unwrap();
    let mut entries = 0;
    let mut rest = 0;
    while rest < 2 {
        while queue
            .push((0..1_000).map(|n| (raise_command(n), false)).collect())
            .is_ok()
        {}
        let gathered = queue.gather(|_| false).unwrap();
        rest += gathered.waiters.iter().filter(|w| **w).count();
        entries += 1;
        assert!(entries < 10, "left out without end");
    }
}

/// Schedule: at every gather raises and section commands fill more than an entry: three AllocSvrs
/// with full Submits, or a drain with large moves. Both lower classes were left out of the entry
/// before, so the second class fills the shared quarter, and the last class finds no room in any
/// entry.
#[test]
fn flood_of_higher_classes_does_not_starve_the_last() {
    for flood in [
        open_command as fn(u32) -> Command,
        close_command,
        move_command,
    ] {
        let mut queue = ProposalQueue::default();
        queue
            .push((0..100).map(|n| (session_command(n), true)).collect())
            .unwrap();
        let (mut entries, mut sessions, mut section_commands) = (0, 0, 0);
        while sessions < 100 {
            let raises = || (0..50).map(|n| (raise_command(n), false)).collect();
            while queue.push(vec![(flood(1), false)]).is_ok() && queue.push(raises()).is_ok() {}
            let gathered = queue.gather(|_| false).unwrap();
            sessions += gathered.waiters.iter().filter(|w| **w).count();
            let kinds = gathered.batch.commands.iter().map(class_of_command);
            section_commands += kinds.filter(|kind| *kind == 1).count();
            entries += 1;
            assert!(entries < 20, "left out without end: {sessions} of 100");
        }
        assert!(section_commands > 0, "section commands were left out");
    }
}

/// Returns the bytes of bincode's fixed-width encoding, counted by hand: the estimate must not be
/// below.
fn encoded_bytes(command: &Command) -> usize {
    4 + match command {
        Command::Raise { .. } => 18 + 8 + 8 + 4,
        Command::Open { .. } => 18 + 8 + 16 + 4,
        Command::CloseSession {
            high_water_marks, ..
        } => 8 + 8 + high_water_marks.len() * (10 + 24) + 1,
        Command::OpenSession(o) => 8 + o.name.len() + 8 + o.address.len() + 8 + 16 + 1,
        other => panic!("not made here: {other:?}"),
    }
}

proptest! {
    #[test]
    fn gathered_entries_are_bounded_ordered_and_complete(
        kinds in prop::collection::vec(0u8..4, 0..3_000),
    ) {
        let mut queue = ProposalQueue::default();
        let mut pushed = 0;
        for (n, k) in kinds.iter().enumerate() {
            if queue.push(vec![(command_of_kind(*k, n as u32), n)]).is_err() {
                break;
            }
            pushed += 1;
        }
        let mut seen = vec![Vec::new(); 3];
        let mut entries = 0;
        while let Some(gathered) = queue.gather(|_| false) {
            entries += 1;
            prop_assert!(gathered.batch.commands.len() <= ENTRY_COMMANDS_MAX);
            prop_assert_eq!(gathered.batch.commands.len(), gathered.waiters.len());
            let bytes: usize = gathered.batch.commands.iter().map(encoded_bytes).sum();
            prop_assert!(bytes < 64 * 1024, "{} bytes", bytes);
            for (c, n) in gathered.batch.commands.iter().zip(&gathered.waiters) {
                seen[usize::from(class_of_command(c))].push(*n);
            }
            prop_assert!(entries <= pushed);
        }
        prop_assert!(seen.iter().all(|class| class.is_sorted()));
        prop_assert_eq!(seen.concat().len(), pushed);
        prop_assert!(queue.is_empty());
    }
}

/// A log that holds each entry until it is released, and numbers its replies.
#[derive(Clone)]
struct HeldLog {
    entered: Arc<Semaphore>,
    release: Arc<Semaphore>,
    in_flight: Arc<AtomicUsize>,
    sizes: Arc<Mutex<Vec<usize>>>,
}

impl HeldLog {
    fn new() -> HeldLog {
        HeldLog {
            entered: Arc::new(Semaphore::new(0)),
            release: Arc::new(Semaphore::new(0)),
            in_flight: Arc::default(),
            sizes: Arc::default(),
        }
    }

    async fn write(self, batch: Batch) -> Result<Vec<Reply>, ProposalError> {
        assert_eq!(
            self.in_flight.fetch_add(1, Ordering::SeqCst),
            0,
            "one entry in flight"
        );
        self.sizes.lock().push(batch.commands.len());
        self.entered.add_permits(1);
        self.release.acquire().await.unwrap().forget();
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        let reply = |c: &Command| match c {
            Command::Raise { fence, .. } => Reply::Raised {
                generation: Generation(1),
                max_seq: u64::from(fence.section.section.0),
            },
            _ => Reply::Done,
        };
        Ok(batch.commands.iter().map(reply).collect())
    }
}

#[tokio::test]
async fn proposer_keeps_one_entry_in_flight_and_routes_replies() {
    let (proposer, log, stop) = (
        Proposer::default(),
        HeldLog::new(),
        CancellationToken::new(),
    );
    let runner = {
        let (proposer, log, stop) = (proposer.clone(), log.clone(), stop.clone());
        tokio::spawn(async move { proposer.run(|batch| log.clone().write(batch), stop).await })
    };
    let propose = |n: u32| {
        let proposer = proposer.clone();
        tokio::spawn(async move {
            proposer
                .propose(vec![raise_command(n), raise_command(n + 1)])
                .await
        })
    };
    let first = propose(1_000_000);
    log.entered.acquire().await.unwrap().forget();
    let callers: Vec<_> = (0..200).map(|n| propose(n * 2)).collect();
    while proposer.shared.inbox.lock().queue.len() < 400 {
        tokio::task::yield_now().await;
    }
    log.release.add_permits(2);
    assert!(first.await.unwrap().is_ok());
    for (n, caller) in callers.into_iter().enumerate() {
        let replies = caller.await.unwrap().unwrap();
        let max: Vec<u64> = replies
            .iter()
            .map(|r| match r {
                Reply::Raised { max_seq, .. } => *max_seq,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(max, vec![n as u64 * 2, n as u64 * 2 + 1]);
    }
    assert_eq!(*log.sizes.lock(), vec![2, 400]);
    let counters = seqsvr_metrics::to_counter_map("", proposer.collect_samples());
    assert_eq!(counters["proposer_raise_entries"], 2);
    assert_eq!(counters["proposer_raises"], 402);
    assert_eq!(counters["proposer_entry_commands_max"], 400);
    stop.cancel();
    runner.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn entry_without_outcome_returns_uncertain() {
    let (proposer, log, stop) = (
        Proposer::default(),
        HeldLog::new(),
        CancellationToken::new(),
    );
    let runner = {
        let (proposer, log, stop) = (proposer.clone(), log.clone(), stop.clone());
        tokio::spawn(async move { proposer.run(|batch| log.clone().write(batch), stop).await })
    };
    let outcome = proposer.propose_one(raise_command(1)).await;
    assert!(
        matches!(outcome, Err(ProposalError::Uncertain(_))),
        "{outcome:?}"
    );
    // Stopped: the entry in flight and the waiting commands all get an answer.
    log.in_flight.store(0, Ordering::SeqCst);
    let propose = |n| {
        let proposer = proposer.clone();
        tokio::spawn(async move { proposer.propose_one(raise_command(n)).await })
    };
    log.entered.acquire().await.unwrap().forget();
    let in_flight_call = propose(2);
    log.entered.acquire().await.unwrap().forget();
    let waiting_call = propose(3);
    while proposer.shared.inbox.lock().queue.is_empty() {
        tokio::task::yield_now().await;
    }
    stop.cancel();
    runner.await.unwrap();
    assert_eq!(in_flight_call.await.unwrap(), Err(ProposalError::Stopped));
    assert_eq!(waiting_call.await.unwrap(), Err(ProposalError::Stopped));
    assert_eq!(
        proposer.propose_one(raise_command(4)).await,
        Err(ProposalError::Stopped)
    );
}
