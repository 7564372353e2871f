use std::sync::Arc;

use seqsvr_core::family::AcquireWorker;
use seqsvr_core::ids::{FamilyId, Nonce};

use super::*;

/// Some day of 2026.
const DAY_MS: u64 = 1_795_000_000_000;

fn at(unix_ms: u64, boot_ms: u64) -> WallReading {
    WallReading {
        unix_ns: unix_ms * NS_PER_MS,
        boot_ns: boot_ms * NS_PER_MS,
    }
}

fn view(term: u64, high_ms: u64, resets: u64) -> LeaderView {
    LeaderView {
        term,
        time: TimeRow {
            high_ms,
            resets,
            ..TimeRow::default()
        },
        own_id: 1,
        voters: vec![1, 2, 3],
    }
}

/// Store time with a clock that the test sets.
fn store_time(first: WallReading) -> (StoreTime, Arc<Mutex<WallReading>>) {
    let now = Arc::new(Mutex::new(first));
    let clock = now.clone();
    (StoreTime::new(Arc::new(move || *clock.lock())), now)
}

#[test]
fn new_leader_waits_for_the_clocks_of_the_others() {
    let (time, clock) = store_time(at(DAY_MS + 3_600_000, 5));
    let first = view(1, DAY_MS, 0);
    assert_eq!(time.read(&first), Err(NoTime::Settling));
    time.record_clock(2, DAY_MS * NS_PER_MS, 5 * NS_PER_MS);
    assert_eq!(time.read(&first), Ok(DAY_MS));
    // Its own decides after a second, in a term in which no other answers.
    *clock.lock() = at(DAY_MS + 10_000, 100_000);
    let second = view(2, DAY_MS, 0);
    assert_eq!(time.read(&second), Err(NoTime::Settling));
    *clock.lock() = at(DAY_MS + 11_000, 101_000);
    assert_eq!(time.read(&second), Ok(DAY_MS + 11_000));
}

#[test]
fn set_back_begins_at_the_time_of_the_state() {
    let (time, _) = store_time(at(DAY_MS, 0));
    time.record_clock(2, DAY_MS * NS_PER_MS, 0);
    assert_eq!(
        time.read(&view(1, DAY_MS + 3_600_000, 0)),
        Ok(DAY_MS + 3_600_000)
    );
    assert_eq!(time.read(&view(1, DAY_MS - 1, 1)), Ok(DAY_MS));
}

#[test]
fn entry_gets_the_time_if_its_commands_need_it() {
    let (time, _) = store_time(at(DAY_MS, 0));
    time.record_clock(2, DAY_MS * NS_PER_MS, 0);
    let acquire = Command::Ids(IdsCommand::AcquireWorker(AcquireWorker {
        family: FamilyId(1),
        holder: "h".to_owned(),
        nonce: Nonce(1),
        worker: None,
        window_ms: 0,
    }));
    let level = Command::SetLevel { level: 3 };
    for (commands, stamps) in [
        (vec![level.clone()], false),
        (vec![level, acquire.clone()], true),
    ] {
        let mut batch = Batch {
            commands: commands.clone(),
        };
        assert!(!time.stamp(&mut batch, || None));
        assert_eq!(time.stamp(&mut batch, || Some(view(1, DAY_MS, 4))), stamps);
        let time = Command::Ids(IdsCommand::AdvanceTime {
            now_ms: DAY_MS,
            resets: 4,
        });
        let mut expected = commands;
        if stamps {
            expected.insert(0, time);
        }
        assert_eq!(batch.commands, expected);
    }
}
