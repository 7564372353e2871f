//! Sessions and the slots that they own: expiry, assignment, moves.

use super::*;

/// The arbiter of an older term decided; since then a new leader may have renewed the session.
#[test]
fn expiry_decided_in_another_term_does_nothing() {
    let mut state = cluster();
    for term in [TERM - 1, TERM + 1] {
        assert_eq!(state.one(expire(1, term)), Reply::Done);
    }
    assert_eq!(state.owner(), (Epoch(1), Some(SessionId(1))));
}

#[test]
fn assign_takes_free_slots_at_the_epoch_seen() {
    let mut state = cluster();
    assert!(not_owner(&state.one(assign(1, 2))), "owned");
    state.one(move_slot(1, vec![], None));
    assert!(not_owner(&state.one(assign(1, 2))), "decided before");
    let rejected = Reply::Rejected(CommandRejection::SessionNotFound(SessionId(9)));
    assert_eq!(state.one(assign(2, 9)), rejected);
    state.one(assign(2, 2));
    assert_eq!(state.owner(), (Epoch(3), Some(SessionId(2))));
}

/// Schedule: a store of an older build proposed a session whose address is no `host:port`; this
/// build reads that entry. A rejection here would make the states of two builds differ.
#[test]
fn entry_of_an_older_build_with_another_address_applies() {
    let mut state = cluster();
    let Command::OpenSession(mut open) = session("a3", 3, None) else {
        unreachable!()
    };
    open.address = "a3\n".into();
    assert_eq!(state.one(Command::OpenSession(open)), opened_session(3));
    assert_eq!(state.session(SessionId(3)).unwrap().address, "a3\n");
}

#[test]
fn session_is_superseded_only_with_its_own_nonce() {
    let mut state = cluster();
    let proof = |session, nonce| {
        Some(SessionProof {
            session: SessionId(session),
            nonce: Nonce(nonce),
        })
    };
    for wrong in [None, proof(1, 2), proof(2, 1), proof(2, 2)] {
        let reply = state.one(session("a1", 3, wrong));
        assert!(matches!(
            reply,
            Reply::Rejected(CommandRejection::NameTaken { .. })
        ));
    }
    assert_eq!(
        state.one(session("a1", 1, None)),
        opened_session(1),
        "retry"
    );
    let restart = session("a1", 3, proof(1, 1));
    assert_eq!(state.one(restart.clone()), opened_session(3));
    assert_eq!(state.one(restart), opened_session(3), "retry");
    assert_eq!(state.owner(), (Epoch(2), Some(SessionId(3))));
    assert_eq!(state.session(SessionId(1)), None);
}

#[test]
fn move_applies_matching_high_water_marks_and_skips_others() {
    let mut state = cluster();
    state.one(open(1, 0, 1));
    let elsewhere = HighWaterMark::new(NamespaceId(2), SectionId(0), Generation(1), 1);
    let high_water_marks = vec![last(0, 5), last(2, 6), elsewhere, last(1, 30), last(1, 20)];
    let reply = Reply::Slot {
        epoch: Epoch(2),
        owner: Some(SessionId(2)),
    };
    assert_eq!(state.one(move_slot(1, high_water_marks, Some(2))), reply);
    assert_eq!(state.max_seq(), 30, "the first that matched ended it");
    assert_eq!(state.one(open(2, 1, 2)), opened(2, 30, 130));
    let to_dead = state.one(move_slot(2, vec![], Some(9)));
    let free = Reply::Slot {
        epoch: Epoch(3),
        owner: None,
    };
    assert_eq!(to_dead, free);
    let many = vec![last(2, 0); HIGH_WATER_MARKS_MAX + 1];
    let reply = state.one(move_slot(3, many, None));
    assert!(matches!(
        reply,
        Reply::Rejected(CommandRejection::Invalid(_))
    ));
}

/// High-water marks of a session that has lost the slot would hand back its successor's numbers.
#[test]
fn close_session_fences_each_high_water_mark() {
    let mut state = cluster();
    state.one(open(1, 0, 1));
    let chunk = |session, epoch, value, ends| Command::CloseSession {
        session: SessionId(session),
        high_water_marks: vec![SlotHighWaterMark {
            slot: SLOT,
            epoch: Epoch(epoch),
            mark: last(1, value),
        }],
        last: ends,
    };
    for wrong in [chunk(2, 1, 1, false), chunk(1, 0, 2, false)] {
        assert_eq!(state.one(wrong), Reply::Done);
        assert_eq!(state.max_seq(), 100);
    }
    assert_eq!(state.one(chunk(1, 1, 3, false)), Reply::Done);
    assert_eq!(state.max_seq(), 3);
    assert_eq!(state.owner(), (Epoch(1), Some(SessionId(1))), "not yet");
    assert_eq!(state.one(chunk(1, 1, 4, true)), Reply::Done);
    assert_eq!(state.owner(), (Epoch(2), None));
    assert_eq!(state.session(SessionId(1)), None);
    assert_eq!(state.max_seq(), 3);
}

/// Schedule: as many AllocSvrs as there may be have registered. Another one must be able to tell
/// that it may wait, from a mistake of its own.
#[test]
fn full_table_of_sessions_admits_the_next_when_one_ends() {
    let mut state = cluster();
    for n in 3..=SESSIONS_MAX as u64 {
        let name = format!("b{n}");
        assert_eq!(
            state.one(session(&name, u128::from(n), None)),
            opened_session(n)
        );
    }
    let rejected = Reply::Rejected(CommandRejection::TooManySessions);
    assert_eq!(state.one(session("late", 9_999, None)), rejected);
    assert_eq!(
        state.one(session("a1", 1, None)),
        opened_session(1),
        "retry"
    );
    state.one(expire(2, TERM));
    let next = opened_session(SESSIONS_MAX as u64 + 1);
    assert_eq!(state.one(session("late", 9_999, None)), next);
}
