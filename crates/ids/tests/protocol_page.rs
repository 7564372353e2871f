//! The ids of the page of the protocol, for holders in any language.

use seqsvr_core::layout::IdLayout;
use seqsvr_ids::codec::{IdCodec, IdParts};

const PAGE: &str = include_str!("../../../docs/guide/ids-protocol.md");

#[test]
fn ids_of_the_page_are_those_of_the_codec() {
    let mut compared = 0;
    for line in PAGE.lines() {
        let cells: Vec<&str> = line
            .split('|')
            .map(|cell| cell.trim_matches([' ', '`']))
            .collect();
        let [_, layout, numbers @ .., _] = cells.as_slice() else {
            continue;
        };
        let numbers: Result<Vec<u64>, _> = numbers.iter().map(|cell| cell.parse()).collect();
        let Ok([tick, dc, worker, lane, seq, rand, id]) = numbers.as_deref() else {
            continue;
        };
        let layout: IdLayout = layout.parse().unwrap();
        let part = |number: &u64| u32::try_from(*number).unwrap();
        let parts = IdParts {
            tick: *tick,
            dc: part(dc),
            worker: part(worker),
            lane: part(lane),
            seq: part(seq),
            rand: *rand,
        };
        assert_eq!(IdCodec::new(&layout).encode(&parts), Ok(*id), "{line}");
        compared += 1;
    }
    assert_eq!(compared, 9, "the page has lost its ids");
}
