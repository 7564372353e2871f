use seqsvr_core::ids::{Epoch, SessionId};
use seqsvr_core::routing_table::Route;

use super::*;

fn table_delta(cluster: u128, base: u64, version: u64, address: &str) -> v1::RoutingTable {
    let owner = SlotOwner {
        session: SessionId(1),
        name: "a1".into(),
        address: address.into(),
    };
    let route = Route {
        epoch: Epoch(version),
        owner: Some(owner),
        version,
    };
    v1::RoutingTable::from(&RoutingDelta {
        cluster: ClusterId(cluster),
        base,
        version,
        slot_count: 4,
        namespaces: Vec::new(),
        families: Vec::new(),
        routes: vec![(Slot(1), route)],
    })
}

fn apply(table: &TableCache<()>, wire: &v1::RoutingTable) -> Result<bool, ForeignCluster> {
    table.apply_update("s:1", wire, || true)
}

#[test]
fn table_update_is_applied_only_if_newer_and_of_own_cluster() {
    let table = TableCache::<()>::default();
    assert!(!apply(&table, &table_delta(1, 3, 4, "a:1")).unwrap());
    assert!(table.snapshot().is_none() && table.take_missed_update());
    assert!(apply(&table, &table_delta(1, 0, 4, "a:1")).unwrap());
    assert!(!apply(&table, &table_delta(1, 0, 3, "b:1")).unwrap());
    assert!(apply(&table, &table_delta(2, 0, 9, "b:1")).is_err());
    assert!(!apply(&table, &table_delta(1, 6, 7, "b:1")).unwrap());
    assert!(table.take_missed_update() && !table.take_missed_update());
    assert_eq!(table.snapshot().unwrap().addresses, ["a:1"]);
    assert!(apply(&table, &table_delta(1, 4, 7, "b:1")).unwrap());
    assert_eq!(table.snapshot().unwrap().addresses, ["b:1"]);
}

/// Schedule: a server whose table is of version 9 is gone; another one has version 4.
#[test]
fn contradicted_table_is_replaced_by_that_of_another_server() {
    let table = TableCache::<()>::default();
    let send = |from: &str, wire| table.apply_update(from, &wire, || true).unwrap();
    assert!(send("a:1", table_delta(1, 0, 4, "a:1")));
    assert!(send("r:1", table_delta(1, 4, 9, "r:1")));
    let version = || table.snapshot().unwrap().table.version();
    table.note_contradiction();
    assert!(!send("a:1", table_delta(1, 0, 4, "a:1")), "once is chance");
    table.note_contradiction();
    assert!(table.take_second_opinion());
    assert_eq!(table.doubted_server().as_deref(), Some("r:1"));
    assert!(!send("r:1", table_delta(1, 0, 5, "r:1")), "the same server");
    assert!(!send("a:1", table_delta(1, 3, 4, "a:1")), "not whole");
    assert!(!send("a:1", table_delta(1, 0, 3, "a:1")), "two have sent 4");
    assert_eq!(version(), 9);
    assert!(send("a:1", table_delta(1, 0, 4, "a:1")));
    assert_eq!((version(), table.doubted_server()), (4, None));
    assert_eq!(table.snapshot().unwrap().addresses, ["a:1"]);
}

/// A table that a second server has sent as well is contradicted by failures only: its owner is
/// gone, and the takeover is not over.
#[test]
fn table_that_two_servers_sent_is_not_doubted() {
    let table = TableCache::<()>::default();
    let send = |from: &str, wire| table.apply_update(from, &wire, || true).unwrap();
    assert!(send("a:1", table_delta(1, 0, 4, "a:1")));
    for _ in 0..2 {
        table.note_contradiction();
    }
    assert!(table.take_second_opinion());
    assert!(!send("b:1", table_delta(1, 0, 4, "a:1")), "the same table");
    for _ in 0..10 {
        table.note_contradiction();
    }
    assert!(!table.take_second_opinion() && table.doubted_server().is_none());
    assert!(!send("b:1", table_delta(1, 0, 3, "b:1")));
}

/// Schedules: those of the head of this file.
#[test]
fn epoch_is_lowered_only_to_a_confirmed_one_below_it() {
    let table = TableCache::<()>::default();
    let judge = |requested, confirmed| {
        let verdict = table.contradict_epoch(Slot(1), requested, confirmed);
        (verdict, table.epoch_seen(Slot(1)))
    };
    assert_eq!(judge(6, 4), (EpochVerdict::NotAbove, 0), "no table");
    apply(&table, &table_delta(1, 0, 4, "a:1")).unwrap();
    table.observe_epoch(Slot(1), 6);
    // The floor was wrong: the confirmed epoch is that of the request, or above it.
    for confirmed in [6, 7] {
        assert_eq!(judge(6, confirmed), (EpochVerdict::NotAbove, 6));
    }
    // A server of an older build does not name the epoch of the request.
    assert_eq!(judge(0, 5), (EpochVerdict::NotAbove, 6));
    // The floor was wrong, and a successor has answered since.
    assert_eq!(judge(5, 5), (EpochVerdict::NotAbove, 6));
    // The table names epoch 4.
    assert_eq!(judge(6, 3), (EpochVerdict::TableDisagrees, 6));
    table.observe_epoch(Slot(1), 1_000_000);
    assert_eq!(judge(6, 5), (EpochVerdict::Dropped, 1_000_000));
    assert_eq!(judge(1_000_000, 5), (EpochVerdict::Dropped, 5));
}

#[test]
fn epoch_seen_does_not_fall_with_an_answer() {
    let table = TableCache::<()>::default();
    table.observe_epoch(Slot(1), 5);
    assert_eq!(table.epoch_seen(Slot(1)), 0, "no table, no slots");
    apply(&table, &table_delta(1, 0, 4, "a:1")).unwrap();
    table.observe_epoch(Slot(1), 5);
    table.observe_epoch(Slot(1), 3);
    assert_eq!(
        (table.epoch_seen(Slot(1)), table.epoch_seen(Slot(2))),
        (5, 0)
    );
}
