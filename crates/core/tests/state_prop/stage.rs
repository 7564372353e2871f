//! A state with its ledger, on which planted faults are played.

use std::collections::BTreeSet;

use seqsvr_core::command::{Batch, Command, Fence, OpenSession, Reply};
use seqsvr_core::ids::{
    ClusterId, Epoch, Generation, NamespaceId, Nonce, SectionId, SectionKey, SessionId,
};
use seqsvr_core::state::{RowKey, State, StateRow};

use crate::checker::{Ledger, Transition};

pub(crate) const TERM: u64 = 1;
pub(crate) const KEY: SectionKey = SectionKey {
    namespace: NamespaceId(1),
    section: SectionId(0),
};

/// A state with its ledger, one slot, and two sessions.
pub(crate) struct Stage {
    pub(crate) state: State,
    pub(crate) ledger: Ledger,
}

pub(crate) fn open_session_command(name: &str, nonce: u128) -> Command {
    Command::OpenSession(OpenSession {
        name: name.into(),
        address: "127.0.0.1:7700".into(),
        incarnation: 1,
        nonce: Nonce(nonce),
        proof: None,
    })
}

pub(crate) fn fence_of(state: &State) -> Fence {
    let slot = state.slot_of(KEY).unwrap();
    Fence {
        slot,
        epoch: state.slots()[usize::from(slot.0)].epoch,
        section: KEY,
    }
}

impl Stage {
    /// Creates a state in which session 1 owns the slot, and generation 1 is open with the window
    /// (0, 100].
    pub(crate) fn new() -> Stage {
        let mut stage = Stage {
            state: State::default(),
            ledger: Ledger::default(),
        };
        let cluster = ClusterId(7);
        stage.play(&Command::Init {
            cluster,
            lease_ms: 3_000,
            slots: 1,
        });
        stage.play(&open_session_command("a1", 1));
        stage.play(&open_session_command("a2", 2));
        let slot = stage.state.slot_of(KEY).unwrap();
        stage.play(&Command::Assign {
            slot,
            from: Epoch(0),
            to: SessionId(1),
        });
        let open = stage.open_command(0, 10);
        stage.play(&open);
        stage
    }

    pub(crate) fn open_command(&self, expected: u64, nonce: u128) -> Command {
        Command::Open {
            fence: fence_of(&self.state),
            expected: Generation(expected),
            nonce: Nonce(nonce),
            step: 100,
        }
    }

    /// Plays a command, which must keep all rules.
    pub(crate) fn play(&mut self, command: &Command) {
        assert_eq!(self.play_falsified(command, |_, _| ()), None);
    }

    /// Plays a command, lets `falsify` change the rows that come out and the reply, takes every row
    /// that then differs as touched, and returns the rule that is broken.
    pub(crate) fn play_falsified(
        &mut self,
        command: &Command,
        falsify: impl Fn(&mut Vec<(RowKey, StateRow)>, &mut Reply),
    ) -> Option<&'static str> {
        let before = self.state.clone();
        let batch = Batch {
            commands: vec![command.clone()],
        };
        let mut replies = self.state.apply(TERM, &batch, &mut BTreeSet::new());
        let mut rows: Vec<_> = self.state.rows().collect();
        falsify(&mut rows, &mut replies[0]);
        self.state = State::from_rows(rows).unwrap();
        let keys: BTreeSet<_> = before
            .rows()
            .chain(self.state.rows())
            .map(|(key, _)| key)
            .collect();
        let touched = keys
            .into_iter()
            .filter(|k| before.row(*k) != self.state.row(*k))
            .collect();
        let verdict = self.ledger.check(&Transition {
            before: &before,
            term: TERM,
            command,
            reply: &replies[0],
            touched: &touched,
            after: &self.state,
        });
        verdict.err().map(|broken| broken.rule)
    }
}

/// Falsifies the one section row.
pub(crate) fn falsify_section(
    change: impl Fn(&mut seqsvr_core::state::SectionRow),
) -> impl Fn(&mut Vec<(RowKey, StateRow)>, &mut Reply) {
    move |rows, _| {
        for (_, row) in rows {
            if let StateRow::Section(section) = row {
                change(section);
            }
        }
    }
}

/// Falsifies the one slot row.
pub(crate) fn falsify_slot(
    change: impl Fn(&mut seqsvr_core::state::SlotRow),
) -> impl Fn(&mut Vec<(RowKey, StateRow)>, &mut Reply) {
    move |rows, _| {
        for (_, row) in rows {
            if let StateRow::Slot(slot) = row {
                change(slot);
            }
        }
    }
}
