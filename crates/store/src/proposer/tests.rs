//! The queue's order and bounds, and the proposer's one entry in flight.

use std::sync::atomic::AtomicUsize;

use proptest::prelude::*;
use seqsvr_core::command::{Cause, Fence, OpenSession, SlotFinal};
use seqsvr_core::id::{
    Epoch, Generation, NamespaceId, Nonce, SectionId, SectionKey, SessionId, Slot,
};
use tokio::sync::Semaphore;

use super::queue::{QUEUE_BYTES_MAX, QUEUE_COMMANDS_MAX};
use super::*;

fn fence(n: u32) -> Fence {
    Fence {
        slot: Slot(u16::MAX),
        epoch: Epoch(u64::MAX),
        section: SectionKey {
            namespace: NamespaceId(u32::MAX),
            section: SectionId(n),
        },
    }
}

fn raise(n: u32) -> Command {
    Command::Raise {
        fence: fence(n),
        generation: Generation(u64::MAX),
        to: u64::MAX,
        cause: Cause::Refill,
    }
}

fn open(n: u32) -> Command {
    Command::Open {
        fence: fence(n),
        expected: Generation(0),
        nonce: Nonce(u128::MAX),
        step: 1,
    }
}

fn session(n: u32) -> Command {
    Command::OpenSession(OpenSession {
        name: format!("a{n}"),
        address: "x".repeat(256),
        incarnation: 1,
        nonce: Nonce(1),
        proof: None,
    })
}

fn close_session(n: u32) -> Command {
    let last = seqsvr_core::command::Final {
        section: fence(n).section,
        generation: Generation(u64::MAX),
        value: u64::MAX,
    };
    let chunk = SlotFinal {
        slot: Slot(1),
        epoch: Epoch(1),
        last,
    };
    Command::CloseSession {
        session: SessionId(1),
        finals: vec![chunk; seqsvr_core::command::FINALS_MAX],
        last: false,
    }
}

fn large_move(n: u32) -> Command {
    let last = seqsvr_core::command::Final {
        section: fence(n).section,
        generation: Generation(u64::MAX),
        value: u64::MAX,
    };
    Command::MoveSlot {
        slot: Slot(1),
        epoch: Epoch(1),
        finals: vec![last; seqsvr_core::command::FINALS_MAX],
        to: None,
    }
}

fn command(kind: u8, n: u32) -> Command {
    match kind {
        0 => raise(n),
        1 => open(n),
        2 => close_session(n),
        _ => session(n),
    }
}

fn kind(command: &Command) -> u8 {
    match command {
        Command::Raise { .. } => 0,
        Command::Open { .. } | Command::CloseSession { .. } | Command::MoveSlot { .. } => 1,
        _ => 2,
    }
}

#[test]
fn raises_first_creations_last() {
    let mut queue = Queue::default();
    let all = vec![
        (session(1), 0),
        (open(2), 1),
        (raise(3), 2),
        (open(4), 3),
        (raise(5), 4),
    ];
    queue.push(all).unwrap();
    let gathered = queue.gather(|_| false).unwrap();
    assert_eq!(gathered.waiters, vec![2, 4, 1, 3, 0]);
    assert!(queue.is_empty() && queue.gather(|_| false).is_none());
}

#[test]
fn what_nobody_waits_for_is_not_proposed() {
    let mut queue = Queue::default();
    queue
        .push((0..10).map(|n| (raise(n), n)).collect())
        .unwrap();
    let gathered = queue.gather(|n| n % 2 == 0).unwrap();
    assert_eq!(gathered.waiters, vec![1, 3, 5, 7, 9]);
    queue.push(vec![(raise(0), 0)]).unwrap();
    assert!(queue.gather(|_| true).is_none() && queue.is_empty());
}

#[test]
fn a_full_queue_takes_nothing() {
    let mut queue = Queue::default();
    let some = |count: usize| (0..count).map(|n| (raise(n as u32), n)).collect::<Vec<_>>();
    queue.push(some(QUEUE_COMMANDS_MAX - 1)).unwrap();
    assert_eq!(queue.push(some(2)), Err(Full));
    assert_eq!(queue.len(), QUEUE_COMMANDS_MAX - 1);
    queue.push(some(1)).unwrap();
    queue.gather(|_| false).unwrap();
    queue.push(some(100)).unwrap();

    let mut queue = Queue::default();
    let mut pushed = 0;
    while queue.push(vec![(close_session(1), ())]).is_ok() {
        pushed += 1;
    }
    assert!(pushed > 100 && pushed * 34_000 <= QUEUE_BYTES_MAX);
}

#[test]
fn a_flood_of_raises_does_not_stop_the_rest() {
    let mut queue = Queue::default();
    queue
        .push(vec![(session(0), true), (close_session(0), true)])
        .unwrap();
    let mut entries = 0;
    let mut rest = 0;
    while rest < 2 {
        while queue
            .push((0..1_000).map(|n| (raise(n), false)).collect())
            .is_ok()
        {}
        let gathered = queue.gather(|_| false).unwrap();
        rest += gathered.waiters.iter().filter(|w| **w).count();
        entries += 1;
        assert!(entries < 10, "left out for ever");
    }
}

/// Schedule: at every gather raises and section commands fill more than an entry: three AllocSvrs
/// with full Submits, or a drain with large moves. Both lower classes were left out of the entry
/// before, so the second class fills the shared quarter, and the last class finds no room in any
/// entry.
#[test]
fn a_flood_of_all_higher_classes_does_not_stop_the_last() {
    for flood in [open as fn(u32) -> Command, close_session, large_move] {
        let mut queue = Queue::default();
        queue
            .push((0..100).map(|n| (session(n), true)).collect())
            .unwrap();
        let (mut entries, mut sessions, mut section_commands) = (0, 0, 0);
        while sessions < 100 {
            let raises = || (0..50).map(|n| (raise(n), false)).collect();
            while queue.push(vec![(flood(1), false)]).is_ok() && queue.push(raises()).is_ok() {}
            let gathered = queue.gather(|_| false).unwrap();
            sessions += gathered.waiters.iter().filter(|w| **w).count();
            let kinds = gathered.batch.commands.iter().map(kind);
            section_commands += kinds.filter(|kind| *kind == 1).count();
            entries += 1;
            assert!(entries < 20, "left out for ever: {sessions} of 100");
        }
        assert!(section_commands > 0, "section commands were left out");
    }
}

/// Returns the bytes of bincode's fixed-width encoding, counted by hand: the estimate must not be
/// below.
fn encoded(command: &Command) -> usize {
    4 + match command {
        Command::Raise { .. } => 18 + 8 + 8 + 4,
        Command::Open { .. } => 18 + 8 + 16 + 4,
        Command::CloseSession { finals, .. } => 8 + 8 + finals.len() * (10 + 24) + 1,
        Command::OpenSession(o) => 8 + o.name.len() + 8 + o.address.len() + 8 + 16 + 1,
        other => panic!("not made here: {other:?}"),
    }
}

proptest! {
    #[test]
    fn entries_are_bounded_ordered_and_complete(kinds in prop::collection::vec(0u8..4, 0..3_000)) {
        let mut queue = Queue::default();
        let mut pushed = 0;
        for (n, k) in kinds.iter().enumerate() {
            if queue.push(vec![(command(*k, n as u32), n)]).is_err() {
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
            let bytes: usize = gathered.batch.commands.iter().map(encoded).sum();
            prop_assert!(bytes < 64 * 1024, "{} bytes", bytes);
            for (c, n) in gathered.batch.commands.iter().zip(&gathered.waiters) {
                seen[usize::from(kind(c))].push(*n);
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

    async fn write(self, batch: Batch) -> Result<Vec<Reply>, Error> {
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
async fn one_entry_in_flight_the_next_gathers_and_replies_find_their_callers() {
    let (proposer, log, stop) = (
        Proposer::default(),
        HeldLog::new(),
        CancellationToken::new(),
    );
    let runner = {
        let (proposer, log, stop) = (proposer.clone(), log.clone(), stop.clone());
        tokio::spawn(async move { proposer.run(|batch| log.clone().write(batch), stop).await })
    };
    let ask = |n: u32| {
        let proposer = proposer.clone();
        tokio::spawn(async move { proposer.propose(vec![raise(n), raise(n + 1)]).await })
    };
    let first = ask(1_000_000);
    log.entered.acquire().await.unwrap().forget();
    let callers: Vec<_> = (0..200).map(|n| ask(n * 2)).collect();
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
    let counters = seqsvr_metrics::by_name("", proposer.figures());
    assert_eq!(counters["proposer_raise_entries"], 2);
    assert_eq!(counters["proposer_raises"], 402);
    assert_eq!(counters["proposer_entry_commands_max"], 400);
    stop.cancel();
    runner.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_said_to_be_unknown() {
    let (proposer, log, stop) = (
        Proposer::default(),
        HeldLog::new(),
        CancellationToken::new(),
    );
    let runner = {
        let (proposer, log, stop) = (proposer.clone(), log.clone(), stop.clone());
        tokio::spawn(async move { proposer.run(|batch| log.clone().write(batch), stop).await })
    };
    let outcome = proposer.propose_one(raise(1)).await;
    assert!(matches!(outcome, Err(Error::Uncertain(_))), "{outcome:?}");
    // Stopped: the entry in flight and the waiting commands all get an answer.
    log.in_flight.store(0, Ordering::SeqCst);
    let ask = |n| {
        let proposer = proposer.clone();
        tokio::spawn(async move { proposer.propose_one(raise(n)).await })
    };
    log.entered.acquire().await.unwrap().forget();
    let flying = ask(2);
    log.entered.acquire().await.unwrap().forget();
    let waiting = ask(3);
    while proposer.shared.inbox.lock().queue.is_empty() {
        tokio::task::yield_now().await;
    }
    stop.cancel();
    runner.await.unwrap();
    assert_eq!(flying.await.unwrap(), Err(Error::Stopped));
    assert_eq!(waiting.await.unwrap(), Err(Error::Stopped));
    assert_eq!(proposer.propose_one(raise(4)).await, Err(Error::Stopped));
}
