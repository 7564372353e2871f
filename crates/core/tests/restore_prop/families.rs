//! Families that a backup knows and that it does not know, before and after a restore.

use std::collections::BTreeSet;

use proptest::prelude::*;
use seqsvr_core::command::{Batch, Command, Reply};
use seqsvr_core::family::{AcquireWorker, FamilyLimits, FamilySpec, IdsCommand};
use seqsvr_core::ids::Nonce;
use seqsvr_core::layout::TickScale;
use seqsvr_core::state::State;
use seqsvr_core::state::restore::RestoreMargins;

use super::NEW;
use super::world::World;

/// Units of ticks, of one family each.
const UNITS_MS: [u64; 3] = [1, 10, 1_000];
const TERM: u64 = 1;

/// A cluster, and what its families granted.
struct Families {
    state: State,
    nonce: u128,
    /// First and last time of all ticks that were granted.
    granted_ms: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
enum FamilyOp {
    Create(usize),
    Acquire(usize),
    Advance(u64),
    SetBack(u64),
}

fn random_ops() -> impl Strategy<Value = Vec<FamilyOp>> {
    let op = prop_oneof![
        (0..UNITS_MS.len()).prop_map(FamilyOp::Create),
        (0..UNITS_MS.len()).prop_map(FamilyOp::Acquire),
        (0..60_000u64).prop_map(FamilyOp::Advance),
        (0..60_000u64).prop_map(FamilyOp::SetBack),
    ];
    proptest::collection::vec(op, 0..20)
}

impl Families {
    fn new(state: State, nonce: u128) -> Families {
        Families {
            state,
            nonce,
            granted_ms: None,
        }
    }

    fn play(&mut self, command: Command) -> Reply {
        let commands = vec![command];
        let replies = self
            .state
            .apply(TERM, &Batch { commands }, &mut BTreeSet::new());
        replies.into_iter().next().unwrap()
    }

    fn play_op(&mut self, op: FamilyOp) -> Reply {
        let time = self.state.store_time();
        let (now_ms, resets) = (time.high_ms, time.resets);
        self.play(Command::Ids(match op {
            FamilyOp::Create(number) => IdsCommand::CreateFamily {
                spec: spec(number),
                limits: FamilyLimits {
                    window_max_ms: 20_000,
                    ..FamilyLimits::DEFAULT
                },
            },
            FamilyOp::Acquire(number) => return self.acquire(number),
            FamilyOp::Advance(by_ms) => IdsCommand::AdvanceTime {
                now_ms: now_ms + by_ms,
                resets,
            },
            FamilyOp::SetBack(by_ms) => IdsCommand::SetTime {
                now_ms: now_ms.saturating_sub(by_ms),
                resets,
            },
        }))
    }

    /// Acquires a worker under a new name, and notes what is granted.
    fn acquire(&mut self, number: usize) -> Reply {
        let spec = spec(number);
        let Some(row) = self.state.find_family(&spec.name) else {
            return Reply::Done;
        };
        self.nonce += 1;
        let request = AcquireWorker {
            family: row.family.id,
            holder: format!("h{}", self.nonce),
            nonce: Nonce(self.nonce),
            worker: None,
            window_ms: 0,
        };
        let reply = self.play(Command::Ids(IdsCommand::AcquireWorker(request)));
        if let Reply::Grant(grant) = &reply {
            let [from, until] = [grant.from, grant.until].map(|tick| spec.scale.unix_ms_of(tick));
            let (first, last) = self.granted_ms.unwrap_or((from, until));
            self.granted_ms = Some((first.min(from), last.max(until)));
        }
        reply
    }
}

fn spec(number: usize) -> FamilySpec {
    let layout = "0:1,time:41,worker:10,seq:12".parse().unwrap();
    let scale = TickScale::new(0, UNITS_MS[number]).unwrap();
    FamilySpec::new(&format!("f{number}"), layout, scale)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    /// Families are created, and their workers acquired, at any moment.
    #[test]
    fn restored_cluster_grants_no_tick_before_ids_from(
        level in 1..=3u32,
        before in random_ops(),
        after in random_ops(),
        more in random_ops(),
    ) {
        let mut old = Families::new(World::new().state, 0);
        old.play(Command::SetLevel { level });
        for op in before {
            old.play_op(op);
        }
        let backup = old.state.for_backup();
        old.play(Command::SetLevel { level: 3 });
        for op in after {
            old.play_op(op);
        }
        let least = backup.least_margins();
        let granted_until_ms = old.granted_ms.map(|(_, last)| last);
        let ids_from_ms = granted_until_ms.max(least.ids_from_ms);
        let margins = RestoreMargins { ids_from_ms, ..least };
        let state = backup.restored(NEW, margins).unwrap();

        let mut new = Families::new(state, old.nonce);
        new.play(Command::SetLevel { level: 3 });
        for op in more {
            new.play_op(op);
        }
        let ids_from_ms = ids_from_ms.unwrap_or(0);
        for number in 0..UNITS_MS.len() {
            new.play_op(FamilyOp::Create(number));
            new.play_op(FamilyOp::Advance(ids_from_ms));
            let reply = new.play_op(FamilyOp::Acquire(number));
            prop_assert!(matches!(reply, Reply::Grant(_)), "{reply:?}");
        }
        let (first_ms, _) = new.granted_ms.unwrap();
        prop_assert!(first_ms >= ids_from_ms, "{first_ms} before {ids_from_ms}");
    }
}
