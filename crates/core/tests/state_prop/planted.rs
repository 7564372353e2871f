//! Planted faults: a checker that never finds one would prove nothing. Each test takes a transition
//! of the real state, falsifies its outcome by hand, and shows which rule detects it.

use std::collections::BTreeSet;

use seqsvr_core::command::{Command, RaiseCause, Reply};
use seqsvr_core::ids::{Epoch, Generation, SessionId};
use seqsvr_core::state::{RowKey, State, StateRow};

use crate::checker::{Ledger, Transition};
use crate::stage::{Stage, TERM, falsify_section, falsify_slot, fence_of};

#[test]
fn max_seq_falling_without_a_mark_is_detected() {
    let mut stage = Stage::new();
    let again = stage.open_command(0, 10);
    let rule = stage.play_falsified(&again, falsify_section(|s| s.max_seq = 50));
    assert_eq!(
        rule,
        Some("max_seq falls by a matching high-water mark only")
    );
}

#[test]
fn mark_below_base_is_detected() {
    let mut stage = Stage::new();
    let second = stage.open_command(1, 11);
    stage.play(&second);
    let fence = fence_of(&stage.state);
    let close = Command::CloseSection {
        fence,
        generation: Generation(2),
        value: 3,
    };
    let rule = stage.play_falsified(&close, falsify_section(|s| s.max_seq = 3));
    assert_eq!(rule, Some("base <= max_seq <= 2^63-1"));
}

#[test]
fn mark_of_older_generation_is_detected() {
    let mut stage = Stage::new();
    let second = stage.open_command(1, 11);
    stage.play(&second);
    let fence = fence_of(&stage.state);
    let late = Command::CloseSection {
        fence,
        generation: Generation(1),
        value: 150,
    };
    let falsify = |rows: &mut Vec<(RowKey, StateRow)>, reply: &mut Reply| {
        falsify_section(|s| (s.max_seq, s.open) = (150, false))(rows, reply);
        *reply = Reply::Closed {
            generation: Generation(1),
            max_seq: 150,
        };
    };
    assert_eq!(
        stage.play_falsified(&late, falsify),
        Some("a generation ends by its high-water mark only")
    );
}

#[test]
fn generation_inside_older_window_is_detected() {
    let mut stage = Stage::new();
    let second = stage.open_command(1, 11);
    let rule = stage.play_falsified(&second, falsify_section(|s| s.base = 99));
    assert_eq!(rule, Some("base is the max_seq before"));
}

/// The ledger detects by itself what the rows no longer show: here the row was lost in between.
#[test]
fn generation_inside_window_lost_from_rows_is_detected() {
    let mut stage = Stage::new();
    let lost = stage.state.rows().map(|(key, row)| match row {
        StateRow::Section(s) => (
            key,
            StateRow::Section(seqsvr_core::state::SectionRow { max_seq: 40, ..s }),
        ),
        row => (key, row),
    });
    stage.state = State::from_rows(lost).unwrap();
    let second = stage.open_command(1, 11);
    let rule = stage.play_falsified(&second, |_, _| ());
    assert_eq!(rule, Some("a generation begins above every older window"));
}

#[test]
fn falling_generation_is_detected() {
    let mut stage = Stage::new();
    let second = stage.open_command(1, 11);
    let rule = stage.play_falsified(&second, falsify_section(|s| s.generation = Generation(0)));
    assert_eq!(rule, Some("generation never falls"));
}

#[test]
fn raise_of_closed_generation_is_detected() {
    let mut stage = Stage::new();
    let fence = fence_of(&stage.state);
    let close = Command::CloseSection {
        fence,
        generation: Generation(1),
        value: 60,
    };
    stage.play(&close);
    let cause = RaiseCause::Refill;
    let raise = Command::Raise {
        fence,
        generation: Generation(1),
        to: 200,
        cause,
    };
    let falsify = |rows: &mut Vec<(RowKey, StateRow)>, reply: &mut Reply| {
        falsify_section(|s| s.max_seq = 200)(rows, reply);
        *reply = Reply::Raised {
            generation: Generation(1),
            max_seq: 200,
        };
    };
    let rule = stage.play_falsified(&raise, falsify);
    assert_eq!(rule, Some("max_seq grows by its owner's Raise only"));
}

#[test]
fn grant_above_stored_max_seq_is_detected() {
    let mut stage = Stage::new();
    let cause = RaiseCause::Refill;
    let raise = Command::Raise {
        fence: fence_of(&stage.state),
        generation: Generation(1),
        to: 200,
        cause,
    };
    let rule = stage.play_falsified(&raise, falsify_section(|s| s.max_seq = 150));
    assert_eq!(rule, Some("a grant is durable"));
}

#[test]
fn owner_changed_at_same_epoch_is_detected() {
    let mut stage = Stage::new();
    let again = stage.open_command(0, 10);
    let rule = stage.play_falsified(&again, falsify_slot(|s| s.owner = Some(SessionId(2))));
    assert_eq!(rule, Some("an owner changes under the next epoch only"));
}

#[test]
fn falling_epoch_is_detected() {
    let mut stage = Stage::new();
    let again = stage.open_command(0, 10);
    let rule = stage.play_falsified(&again, falsify_slot(|s| s.epoch = Epoch(0)));
    assert_eq!(rule, Some("epoch never falls"));
}

#[test]
fn epoch_reused_for_another_session_is_detected() {
    let mut stage = Stage::new();
    let slot = fence_of(&stage.state).slot;
    // The slot's row is lost and the slot assigned again from epoch 0: each step looks right alone.
    let lost = stage.state.rows().map(|(key, row)| match row {
        StateRow::Slot(_) => (key, StateRow::Slot(Default::default())),
        row => (key, row),
    });
    stage.state = State::from_rows(lost).unwrap();
    let assign = Command::Assign {
        slot,
        from: Epoch(0),
        to: SessionId(2),
    };
    let rule = stage.play_falsified(&assign, |_, _| ());
    assert_eq!(rule, Some("one session per slot and epoch"));
}

#[test]
fn expiry_of_another_term_is_detected() {
    let mut stage = Stage::new();
    let expire = Command::ExpireSession {
        session: SessionId(2),
        term: TERM + 1,
    };
    let falsify = |rows: &mut Vec<(RowKey, StateRow)>, _: &mut Reply| {
        rows.retain(|(key, _)| *key != RowKey::Session(SessionId(2)));
    };
    let rule = stage.play_falsified(&expire, falsify);
    assert_eq!(
        rule,
        Some("a session ends by its own request, proof or expiry of this term")
    );
}

#[test]
fn wrong_set_of_touched_rows_is_detected() {
    let stage = Stage::new();
    let command = stage.open_command(0, 10);
    let reply = Reply::Opened {
        generation: Generation(1),
        base: 0,
        max_seq: 100,
    };
    let other = State::default();
    for (before, touched) in [
        (&stage.state, BTreeSet::from([RowKey::Cluster])),
        (&other, BTreeSet::new()),
    ] {
        let verdict = Ledger::default().check(&Transition {
            before,
            term: TERM,
            command: &command,
            reply: &reply,
            touched: &touched,
            after: &stage.state,
        });
        assert_eq!(
            verdict.unwrap_err().rule,
            "touched rows are the changed rows"
        );
    }
}

#[test]
fn rejection_with_a_change_is_detected() {
    let mut stage = Stage::new();
    let second = stage.open_command(1, 11);
    let falsify = |_: &mut Vec<(RowKey, StateRow)>, reply: &mut Reply| {
        *reply = Reply::Rejected(seqsvr_core::command::CommandRejection::NotInitialized);
    };
    assert_eq!(
        stage.play_falsified(&second, falsify),
        Some("a rejection changes nothing")
    );
}

/// An Open answered from a generation that has ended: its numbers were handed back.
#[test]
fn grant_of_ended_generation_is_detected() {
    let mut stage = Stage::new();
    let first = stage.open_command(0, 10);
    let close = Command::CloseSection {
        fence: fence_of(&stage.state),
        generation: Generation(1),
        value: 60,
    };
    stage.play(&close);
    let falsify = |_: &mut Vec<(RowKey, StateRow)>, reply: &mut Reply| {
        *reply = Reply::Opened {
            generation: Generation(1),
            base: 0,
            max_seq: 60,
        };
    };
    let rule = stage.play_falsified(&first, falsify);
    assert_eq!(rule, Some("a grant is of the open generation"));
}

#[test]
fn assignment_of_owned_slot_is_detected() {
    let mut stage = Stage::new();
    let slot_id = fence_of(&stage.state).slot;
    let assign = Command::Assign {
        slot: slot_id,
        from: Epoch(1),
        to: SessionId(2),
    };
    let falsify = |rows: &mut Vec<(RowKey, StateRow)>, reply: &mut Reply| {
        falsify_slot(|s| (s.epoch, s.owner) = (Epoch(2), Some(SessionId(2))))(rows, reply);
        *reply = Reply::Slot {
            epoch: Epoch(2),
            owner: Some(SessionId(2)),
        };
    };
    let rule = stage.play_falsified(&assign, falsify);
    assert_eq!(rule, Some("a slot is given away by the right command only"));
}
