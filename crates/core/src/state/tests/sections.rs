//! Commands to a section: what a late or repeated one must not change.

use super::*;

/// A raise sent before a close and arriving after it would widen what the next owner was given.
#[test]
fn raise_after_close_is_rejected_by_the_ended_generation() {
    let mut state = cluster();
    assert_eq!(state.one(open(1, 0, 1)), opened(1, 0, 100));
    state.one(close(1, 1, 40));
    assert_eq!(state.max_seq(), 40);
    assert!(stale(&state.one(raise(1, 1, 200, RaiseCause::Refill))));
    assert_eq!(state.one(open(1, 1, 2)), opened(2, 40, 140));
    assert!(stale(&state.one(raise(1, 1, 200, RaiseCause::Refill))));
    assert_eq!(state.max_seq(), 140);
}

/// A close of generation 1 that arrives after generation 2 was opened would hand numbers back that
/// generation 2 gives out.
#[test]
fn late_close_is_rejected_by_the_generation() {
    let mut state = cluster();
    state.one(open(1, 0, 1));
    state.one(open(1, 1, 2));
    assert!(stale(&state.one(close(1, 1, 10))));
    assert_eq!(state.max_seq(), 200);
}

/// A duplicate of an Open arriving late would begin a generation that no owner uses, and would end
/// the owner's current one.
#[test]
fn late_open_is_rejected_by_the_expected_generation() {
    let mut state = cluster();
    let first = open(1, 0, 1);
    let reply = state.one(first.clone());
    assert_eq!(state.one(first.clone()), reply, "the same nonce");
    state.one(close(1, 1, 10));
    assert!(stale(&state.one(first)));
    assert!(stale(&state.one(open(1, 0, 2))));
}

/// The first Open of a section at an epoch does not name the generation that it follows: at each
/// try the store fills in what it has applied. A late duplicate of it begins generations that
/// nothing uses. Each costs a window. The owner's own generations stay disjoint and in order,
/// because the duplicate cannot lower max_seq, and a generation that it ended accepts no raise and
/// no high-water mark.
#[test]
fn late_duplicate_of_a_first_open_costs_a_window_and_repeats_no_number() {
    let mut state = cluster();
    let late = |state: &State| {
        let last = state.section(KEY).map_or(0, |s| s.generation.0);
        open(1, last, 1)
    };
    let (first, taken) = (late(&state), opened(1, 0, 100));
    assert_eq!(state.one(first), taken);
    let again = late(&state);
    assert_eq!(state.one(again), taken, "its generation is open");

    state.one(close(1, 1, 10));
    let again = late(&state);
    assert_eq!(state.one(again), opened(2, 10, 110));
    assert!(stale(&state.one(open(1, 1, 2))), "the owner gets an error");
    assert_eq!(state.one(open(1, 2, 2)), opened(3, 110, 210));

    let again = late(&state);
    assert_eq!(state.one(again), opened(4, 210, 310));
    assert!(stale(&state.one(raise(1, 3, 250, RaiseCause::Refill))));
    assert!(stale(&state.one(close(1, 3, 150))));
    assert_eq!(state.one(open(1, 4, 3)), opened(5, 310, 410));

    state.one(move_slot(1, vec![last(5, 320)], Some(2)));
    let again = late(&state);
    assert!(not_owner(&state.one(again)), "the epoch is over");
    assert_eq!(state.max_seq(), 320);
}

/// A deposed owner can at most finish the window it has.
#[test]
fn deposed_owner_is_rejected_by_the_epoch() {
    let mut state = cluster();
    state.one(open(1, 0, 1));
    state.one(expire(1, TERM));
    assert_eq!(state.owner(), (Epoch(2), None));
    state.one(assign(2, 2));
    for command in [
        open(1, 1, 3),
        raise(1, 1, 200, RaiseCause::Refill),
        close(1, 1, 0),
        move_slot(1, vec![last(1, 0)], Some(1)),
    ] {
        assert!(not_owner(&state.one(command)));
    }
    assert_eq!(state.one(open(3, 1, 4)), opened(2, 100, 200));
}

#[test]
fn high_water_marks_are_clamped() {
    for (value, expect) in [(0, 100), (150, 150), (500, 200)] {
        let mut state = cluster();
        state.one(open(1, 0, 1));
        state.one(open(1, 1, 2));
        state.one(close(1, 2, value));
        assert_eq!(state.max_seq(), expect);
    }
}

#[test]
fn raises_are_absolute_and_bounded_by_their_cause() {
    let mut state = cluster();
    let limits = NamespaceLimits {
        step_max: 100,
        raise_to_max: 1_000,
        strict: false,
    };
    state.one(Command::AlterNamespace {
        id: KEY.namespace,
        step: 10,
        limits,
    });
    state.one(open(1, 0, 1));
    let raised = |max_seq| Reply::Raised {
        generation: Generation(1),
        max_seq,
    };
    let above = |to, bound| Reply::Rejected(CommandRejection::JumpTooLarge { to, bound });
    let jump = |force| RaiseCause::RaiseTo { force };
    assert_eq!(
        state.one(raise(1, 1, 201, RaiseCause::Refill)),
        above(201, 200)
    );
    for to in [150, 120, 150] {
        assert_eq!(state.one(raise(1, 1, to, RaiseCause::Refill)), raised(150));
    }
    assert_eq!(state.one(raise(1, 1, 750, jump(false))), raised(750));
    assert_eq!(
        state.one(raise(1, 1, 750, jump(false))),
        raised(750),
        "retry"
    );
    // Counted per section: 600 of 1,000 are used up, in later generations too.
    assert_eq!(state.one(open(1, 1, 2)), opened(2, 750, 850));
    let too_far = state.one(raise(1, 2, 1_251, jump(false)));
    assert_eq!(too_far, above(1_251, 1_250));
    let forced = state.one(raise(1, 2, SEQ_MAX, jump(true)));
    assert!(matches!(
        forced,
        Reply::Raised {
            max_seq: SEQ_MAX,
            ..
        }
    ));
    let beyond = state.one(raise(1, 2, SEQ_MAX + 1, jump(true)));
    assert_eq!(beyond, above(SEQ_MAX + 1, SEQ_MAX));
    let exhausted = Reply::Rejected(CommandRejection::SequenceExhausted(KEY));
    assert_eq!(state.one(open(1, 2, 3)), exhausted);
}

#[test]
fn steps_count_numbers_of_the_progression() {
    let mut state = cluster();
    let mut spec = NamespaceSpec::new("odd", Geometry::Keyed { sections: 1 });
    spec.progression = Progression {
        start: 10,
        stride: 2,
        offset: 1,
    };
    assert_eq!(
        state.one(Command::CreateNamespace(spec)),
        Reply::Namespace(NamespaceId(3))
    );
    let fence = Fence {
        section: SectionKey {
            namespace: NamespaceId(3),
            section: SectionId(0),
        },
        ..fence(1)
    };
    let command = Command::Open {
        fence,
        expected: Generation(0),
        nonce: Nonce(1),
        step: 100,
    };
    // 11, 13 … 209.
    assert_eq!(state.one(command), opened(1, 9, 209));
}
