//! Properties of families, workers and store time over random command sequences.
//!
//! Few workers, few names, small grants; time that advances, is set back and ends. Late, repeated
//! and contradicting commands meet in every order. `ledger` knows only what replies granted.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "ids_prop/ledger.rs"]
mod ledger;
#[path = "ids_prop/ops.rs"]
mod ops;
#[path = "ids_prop/world.rs"]
mod world;

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use seqsvr_core::command::Reply;
use seqsvr_core::family::{FamilyChange, IdsCommand, WorkerGrant};
use seqsvr_core::ids::FamilyId;

use ops::{IdOp, random_op, random_ops};
use world::{FAMILIES, IdWorld, PLAIN, STICKY};

/// Steps of time in milliseconds, each with what others do after it.
fn random_steps() -> impl Strategy<Value = Vec<(u64, Vec<IdOp>)>> {
    let others = prop::collection::vec(random_op(), 0..6);
    prop::collection::vec((1u64..=500, others), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_tick_of_a_lane_is_granted_to_one_epoch(ops in random_ops()) {
        let mut world = IdWorld::new();
        for op in ops {
            world.play_op(op)?;
        }
    }

    /// A state that was restarted in between, even after each command, is the same state.
    #[test]
    fn restart_changes_nothing(ops in random_ops()) {
        let (mut once, mut restarted) = (IdWorld::new(), IdWorld::new());
        for op in ops {
            let reply = once.play_op(op.clone())?;
            prop_assert_eq!(restarted.play_op(op)?, reply);
            restarted.restart()?;
        }
        prop_assert_eq!(once.state, restarted.state);
    }

    /// Store time passes at the rate of real time, and holders renew before half of their window
    /// has passed: none of them loses its worker to others.
    #[test]
    fn holder_that_renews_in_time_keeps_its_worker(
        steps in random_steps(),
        sticky in any::<bool>(),
    ) {
        let family = if sticky { STICKY } else { PLAIN };
        let mut world = IdWorld::new();
        let acquired = [0, 1].map(|holder| world.acquire(family, holder, None, 0));
        let mut held: Vec<WorkerGrant> = Vec::new();
        for reply in acquired {
            match reply? {
                Reply::Grant(grant) => held.push(grant),
                other => return Err(TestCaseError::fail(format!("{other:?}"))),
            }
        }
        for (step_ms, others) in steps {
            world.advance(step_ms)?;
            for op in others {
                // Other holders only, and no time but that which passes.
                match op {
                    IdOp::Acquire { holder: 2.., .. } => drop(world.play_op(op)?),
                    IdOp::Acquire { family, claim, window_ms, .. } => {
                        world.acquire(FAMILIES[family], 3, claim, window_ms)?;
                    }
                    _ => {}
                }
            }
            for grant in &held {
                let renew = IdsCommand::RenewWorker {
                    worker: grant.worker,
                    epoch: grant.epoch,
                    window_ms: 0,
                    nonce: world.nonce_of(grant.worker),
                };
                let reply = world.play(renew)?;
                prop_assert!(matches!(reply, Reply::Grant(_)), "{:?}", reply);
            }
        }
    }
}

/// The sequences reach what they are meant to test.
#[test]
fn generator_of_ids_reaches_every_reply() {
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeMap::<String, u32>::new();
    for _ in 0..60 {
        let mut world = IdWorld::new();
        for op in random_ops().new_tree(&mut runner).unwrap().current() {
            if let Some(reply) = world.play_op(op).unwrap() {
                let text = format!("{reply:?}")
                    .replace("Rejected(", "")
                    .replace("Ids(IdsRejection { cause: ", "");
                let name: String = text.chars().take_while(|c| c.is_alphanumeric()).collect();
                *seen.entry(name).or_default() += 1;
            }
        }
        for (name, times) in world.ledger.reached {
            *seen.entry(name.to_owned()).or_default() += times;
        }
    }
    for name in [
        "Done",
        "Grant",
        "FamilyFrozen",
        "FloorTooFar",
        "NoWorker",
        "WorkerHeld",
        "TooManyWorkers",
        "StaleWorker",
        "TooFarAhead",
        "TimeExhausted",
        "TimeWasSet",
        "Invalid",
        "another lane",
        "taken over from a holder",
        "released early",
    ] {
        let times = seen.get(name).copied().unwrap_or(0);
        assert!(times >= 10, "{name} came {times} times: {seen:?}");
    }
}

/// Two operators alter different limits; each alteration holds.
#[test]
fn change_of_one_limit_keeps_the_others() {
    let mut world = IdWorld::new();
    let change = |change| IdsCommand::AlterFamily {
        id: FamilyId(1),
        change,
    };
    let before = world.limits(PLAIN);
    let ahead = FamilyChange {
        ahead_ms: Some(300),
        ..FamilyChange::default()
    };
    let frozen = FamilyChange {
        frozen: Some(true),
        ..FamilyChange::default()
    };
    for alter in [ahead, frozen, ahead] {
        assert_eq!(world.play(change(alter)).unwrap(), Reply::Done);
    }
    let after = world.limits(PLAIN);
    assert_eq!((after.ahead_ms, after.frozen), (300, true));
    assert_eq!(after.window_ms, before.window_ms);
}
