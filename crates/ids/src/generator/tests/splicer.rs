//! Ids of positions, compared with the codec.

use proptest::prelude::*;

use super::super::{Run, Splicer};
use crate::codec::{IdCodec, IdParts};
use seqsvr_core::layout::IdLayout;

#[expect(clippy::unwrap_used, reason = "helper of tests")]
fn layout(text: &str) -> IdLayout {
    text.parse().unwrap()
}

proptest! {
    #[test]
    fn spliced_ids_are_those_of_the_codec(
        text in prop::sample::select(vec![
            "0:1,time:41,dc:5,worker:5,seq:12",
            "0:1,time:39,seq:8,worker:16",
            "0:1,time:39,lane:2,worker:10,seq:12",
            "0:1,worker:10,time:41,seq:12",
            "0:1,time~:41,worker:10,seq~:12",
            "unsigned,const:3=5,time:39,worker:10,seq:12",
            "time:40,worker:4,seq:6,rand:3",
        ]),
        least in 0..40u32, first in 0..100_000u64, count in 1..2_000u64,
    ) {
        let layout = layout(text);
        let codec = IdCodec::new(&layout);
        let splicer = Splicer::new(&layout, 0, 3, least);
        let splicer = splicer.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let capacity = splicer.grid().capacity();
        prop_assert_eq!(capacity, (1 << layout.bits_of("seq")) - u64::from(least));
        let lane = (splicer.grid().lanes() - 1) as u8;
        let mut ids = vec![0; count as usize];
        splicer.fill(Run { lane, first, count }, &mut ids);
        for (id, position) in ids.iter().zip(first..) {
            prop_assert_eq!(*id, splicer.id(lane, position));
            let parts = IdParts {
                tick: position / capacity,
                worker: 3,
                lane: lane.into(),
                seq: (position % capacity) as u32 + least,
                ..IdParts::default()
            };
            prop_assert_eq!(codec.decode(*id).ok(), Some(parts));
            let random = splicer.random_mask();
            let all_random = IdParts { rand: codec.max_parts().rand, ..parts };
            prop_assert_eq!(codec.decode(*id | random).ok(), Some(all_random));
        }
        if layout.is_inverted() {
            prop_assert!(ids.is_sorted_by(|a, b| a > b));
        }
    }
}

/// A sequence of no bits may lie above all others, at bit 64.
#[test]
fn sequence_of_no_bits_is_spliced_anywhere() {
    for text in [
        "unsigned,seq:0,time:42,worker:22",
        "time:42,seq:0,worker:21",
    ] {
        let splicer = Splicer::new(&layout(text), 0, 5, 0);
        let id = splicer.map(|splicer| splicer.id(0, 9));
        let shift = if text.starts_with("unsigned") { 22 } else { 21 };
        assert_eq!(id, Ok(9 << shift | 5), "{text}");
    }
}

/// A generator counts time, lanes and sequence in one word.
#[test]
fn layout_has_a_generator_up_to_63_bits() {
    for (text, sum) in [
        ("0:1,time:63,seq:0", None),
        ("0:1,time:60,lane:3,seq:0", None),
        ("0:1,time:33,seq:30", None),
        ("0:1,time:50,lane:1,seq:12", None),
        ("time:41,worker:3,seq:9", None),
        ("unsigned,time:48,lane:3,seq:12", None),
        (
            "unsigned,time:50,lane:2,seq:12",
            Some("time 50 + lane 2 + seq 12 are 64 bits"),
        ),
        (
            "unsigned,time:51,lane:1,seq:12",
            Some("time 51 + lane 1 + seq 12 are 64 bits"),
        ),
        (
            "unsigned,time:48,seq:16",
            Some("time 48 + lane 0 + seq 16 are 64 bits"),
        ),
        (
            "unsigned,seq:30,time:34",
            Some("time 34 + lane 0 + seq 30 are 64 bits"),
        ),
    ] {
        let error = Splicer::new(&layout(text), 0, 0, 0).err();
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        match sum {
            None => assert_eq!(error, "", "{text}"),
            Some(sum) => {
                let has_bounds = error.contains(sum) && error.contains("at most 63 bits");
                assert!(has_bounds && error.contains("time:41"), "{text}: {error}");
            }
        }
    }
}

#[test]
fn parts_that_do_not_fit_are_rejected() {
    let layout = layout("0:1,time:41,dc:5,worker:5,seq:12");
    for (dc, worker, seq_min) in [(32, 0, 0), (0, 32, 0), (0, 0, 4_096)] {
        assert!(Splicer::new(&layout, dc, worker, seq_min).is_err());
    }
    let capacity = Splicer::new(&layout, 31, 31, 0).map(|splicer| splicer.grid().capacity());
    assert_eq!(capacity, Ok(4_096));
}
