//! Properties of the replicated state over random command sequences.
//!
//! Few slots, few sections, two names; fences, generations, nonces and terms that are sometimes
//! stale. So late, repeated and contradicting commands meet in every order. `checker` checks every
//! transition; `planted` shows that it detects faults.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "state_prop/checker.rs"]
mod checker;
#[path = "state_prop/generator.rs"]
mod generator;
#[path = "state_prop/ops.rs"]
mod ops;
#[path = "state_prop/owners.rs"]
mod owners;
#[path = "state_prop/planted.rs"]
mod planted;
#[path = "state_prop/rules.rs"]
mod rules;
#[path = "state_prop/stage.rs"]
mod stage;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use seqsvr_core::command::{Batch, Command, Reply};
use seqsvr_core::ids::ClusterId;
use seqsvr_core::routing_table::{RoutingTable, RoutingUpdateError};
use seqsvr_core::state::{RowKey, State};

use checker::{Ledger, Transition};
use generator::{initial_commands, to_command};
use ops::{Op, random_op};

/// A run: the state, its ledger, and all commands that were sent.
struct Run {
    state: State,
    ledger: Ledger,
    log: Vec<Command>,
    term: u64,
}

impl Run {
    fn new() -> Run {
        let mut run = Run {
            state: State::default(),
            ledger: Ledger::default(),
            log: vec![],
            term: 1,
        };
        for command in initial_commands() {
            run.play(command).unwrap();
        }
        run
    }

    fn apply(&mut self, command: &Command) -> (Reply, BTreeSet<RowKey>) {
        let mut touched = BTreeSet::new();
        let batch = Batch {
            commands: vec![command.clone()],
        };
        let replies = self.state.apply(self.term, &batch, &mut touched);
        assert_eq!(replies.len(), 1);
        (replies[0].clone(), touched)
    }

    /// Applies a command, has it judged, and applies it once more: a retry must find everything
    /// done.
    fn play(&mut self, command: Command) -> Result<Reply, TestCaseError> {
        let before = self.state.clone();
        let (reply, touched) = self.apply(&command);
        let judged = self.ledger.check(&Transition {
            before: &before,
            term: self.term,
            command: &command,
            reply: &reply,
            touched: &touched,
            after: &self.state,
        });
        prop_assert!(judged.is_ok(), "{:?}\n{:?}", judged, command);
        let done = self.state.clone();
        let (retry, touched) = self.apply(&command);
        // These end what their own fence names, so a second attempt is rejected; all others
        // answer as before.
        let fenced = matches!(
            command,
            Command::Assign { .. } | Command::CloseSection { .. } | Command::MoveSlot { .. }
        );
        let same = retry == reply || fenced && matches!(retry, Reply::Rejected(_));
        prop_assert!(same, "{:?}: first {:?}, then {:?}", command, reply, retry);
        prop_assert_eq!(
            &self.state,
            &done,
            "a retry of {:?} changed something",
            command
        );
        prop_assert!(
            touched.is_empty(),
            "a retry of {:?} touched {:?}",
            command,
            touched
        );
        check_counts(&self.state)?;
        self.log.push(command);
        Ok(reply)
    }

    /// Plays an op. Returns None if it is no command.
    fn play_op(&mut self, op: Op) -> Result<Option<Reply>, TestCaseError> {
        self.term += u64::from(matches!(op, Op::NewTerm));
        match to_command(op, &self.state, self.term, &self.log) {
            Some(command) => self.play(command).map(Some),
            None => Ok(None),
        }
    }
}

/// Checks that the counts that the state keeps are those of its rows.
fn check_counts(state: &State) -> Result<(), TestCaseError> {
    let open = state.sections().filter(|(_, s)| s.open).count() as u64;
    prop_assert_eq!(state.sections_open(), open);
    prop_assert_eq!(state.sections_known(), state.sections().count() as u64);
    prop_assert_eq!(state.rows_len(), state.rows().count() as u64);
    Ok(())
}

fn full_table(state: &State) -> RoutingTable {
    RoutingTable::new(state.delta_since(0).unwrap()).unwrap()
}

proptest! {
    /// A state made of rows, or by a restore, keeps the counts of its rows.
    #[test]
    fn rebuilt_state_keeps_its_counts(ops in prop::collection::vec(random_op(), 1..120)) {
        let mut run = Run::new();
        for op in ops {
            run.play_op(op)?;
        }
        let rebuilt = State::from_rows(run.state.rows()).unwrap();
        check_counts(&rebuilt)?;
        prop_assert_eq!(&rebuilt, &run.state);
        let restored = run.state.restored(ClusterId(2), run.state.least_margins());
        if let Ok(restored) = restored {
            check_counts(&restored)?;
            prop_assert_eq!(restored.sections_open(), 0);
        }
    }

    #[test]
    fn every_transition_keeps_the_invariants(ops in prop::collection::vec(random_op(), 1..120)) {
        let mut run = Run::new();
        for op in ops {
            run.play_op(op)?;
        }
    }

    /// One batch is the same as its commands one by one, and a replica that gets the same entries
    /// ends in the same state.
    #[test]
    fn batch_equals_its_commands_in_order(ops in prop::collection::vec(random_op(), 1..60)) {
        let mut run = Run::new();
        for op in ops.into_iter().filter(|op| !matches!(op, Op::NewTerm)) {
            run.play_op(op)?;
        }
        let (mut single, mut batched) = (State::default(), State::default());
        let mut replies = Vec::new();
        let (mut touched_single, mut touched_batched) = (BTreeSet::new(), BTreeSet::new());
        for command in &run.log {
            let batch = Batch { commands: vec![command.clone()] };
            replies.extend(single.apply(run.term, &batch, &mut touched_single));
        }
        let batch = Batch { commands: run.log.clone() };
        prop_assert_eq!(batched.apply(run.term, &batch, &mut touched_batched), replies);
        prop_assert_eq!(&batched, &single);
        prop_assert_eq!(&batched, &run.state);
        prop_assert_eq!(touched_batched, touched_single);
    }

    /// Any table becomes the full table by deltas from its own version or an older one, in any
    /// order and repeatedly. During that, no route ever goes back.
    #[test]
    fn deltas_lead_to_the_full_table(
        ops in prop::collection::vec(random_op(), 1..60),
        bases in prop::collection::vec(any::<Index>(), 1..12),
        order in prop::collection::vec(any::<Index>(), 1..30),
        start in any::<Index>(),
    ) {
        let mut run = Run::new();
        let mut states = vec![run.state.clone()];
        for op in ops {
            run.play_op(op)?;
            states.push(run.state.clone());
        }
        // Deltas as different stores at different times would send them.
        let deltas: Vec<_> = bases.iter().zip(order.iter().cycle()).map(|(base, to)| {
            to.get(&states).delta_since(base.get(&states).table_version()).unwrap()
        }).collect();
        let mut table = full_table(start.get(&states));
        for pick in &order {
            let before = table.clone();
            match table.apply_delta(pick.get(&deltas).clone()) {
                Ok(newer) => prop_assert_eq!(newer, table.version() > before.version()),
                Err(error) => {
                    let gap = matches!(error, RoutingUpdateError::MissingVersions { .. });
                    prop_assert!(gap, "{:?}", error);
                    prop_assert_eq!(&table, &before);
                }
            }
            for ((_, old), (_, new)) in before.routes().zip(table.routes()) {
                prop_assert!(new.epoch >= old.epoch && new.version >= old.version);
            }
            let at_version = states.iter().find(|s| s.table_version() == table.version()).unwrap();
            prop_assert_eq!(&table, &full_table(at_version));
        }
        let older = bases[0].get(&states).table_version().min(table.version());
        for base in [table.version(), older, 0] {
            let mut table = table.clone();
            table.apply_delta(run.state.delta_since(base).unwrap()).unwrap();
            prop_assert_eq!(&table, &full_table(&run.state));
            // A table that a node passes on is as good as the one the store sends.
            let mut relayed = full_table(&states[0]);
            relayed.apply_delta(table.delta_since(relayed.version())).unwrap();
            prop_assert_eq!(&relayed, &full_table(&run.state));
        }
    }
}

/// The sequences reach what they are meant to test. Without this test a generator that only
/// produces rejections would pass everything.
#[test]
fn generator_reaches_every_reply() {
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeMap::<String, u32>::new();
    for _ in 0..100 {
        let ops = prop::collection::vec(random_op(), 120)
            .new_tree(&mut runner)
            .unwrap()
            .current();
        let mut run = Run::new();
        for op in ops {
            if let Some(reply) = run.play_op(op).unwrap() {
                let text = format!("{reply:?}");
                let name: String = text
                    .trim_start_matches("Rejected(")
                    .chars()
                    .take_while(|c| c.is_alphanumeric())
                    .collect();
                *seen.entry(name).or_default() += 1;
            }
        }
    }
    for name in [
        "Done",
        "Session",
        "Slot",
        "Opened",
        "Raised",
        "Closed",
        "Namespace",
        "AlreadyInitialized",
        "NameTaken",
        "SessionNotFound",
        "NotOwner",
        "StaleGeneration",
        "JumpTooLarge",
        "SequenceExhausted",
        "NamespaceNotFound",
        "NamespaceExists",
        "Invalid",
    ] {
        let times = seen.get(name).copied().unwrap_or(0);
        assert!(times >= 10, "{name} came {times} times: {seen:?}");
    }
}
