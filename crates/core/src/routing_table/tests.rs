//! Deltas that would make a table deaf to later ones.

use super::*;
use crate::namespace::NamespaceSpec;

fn owned_route(version: u64) -> Route {
    Route {
        epoch: Epoch(version),
        owner: Some(SlotOwner {
            session: SessionId(version),
            name: "a1".into(),
            address: "127.0.0.1:7700".into(),
        }),
        version,
    }
}

/// Returns a delta of two slots; slot 0 changed at `row`.
fn delta(base: u64, version: u64, row: u64) -> RoutingDelta {
    RoutingDelta {
        cluster: ClusterId(1),
        base,
        version,
        slot_count: 2,
        namespaces: Vec::new(),
        families: Vec::new(),
        routes: vec![(Slot(0), owned_route(row))],
    }
}

/// Schedule: a table of version 2^64-1 is applied; the tables of the store, which come later, are
/// older.
#[test]
fn version_that_no_cluster_reaches_is_rejected() {
    for version in [TABLE_VERSION_END, u64::MAX] {
        let rejected = Err(RoutingUpdateError::VersionOutOfRange(version));
        assert_eq!(RoutingTable::new(delta(0, version, 4)).map(drop), rejected);
        let mut table = RoutingTable::new(delta(0, 4, 4)).unwrap();
        assert_eq!(table.apply_delta(delta(4, version, 5)).map(drop), rejected);
        assert_eq!(table.apply_delta(delta(4, 5, 5)), Ok(true));
        assert_eq!(table.route(Slot(0)), Some(&owned_route(5)));
    }
    let mut highest = RoutingTable::new(delta(0, 4, 4)).unwrap();
    let last = TABLE_VERSION_END - 1;
    assert_eq!(highest.apply_delta(delta(4, last, last)), Ok(true));
}

/// Schedule: a delta of the next version has a row of a version far above; no later route of that
/// slot is applied.
#[test]
fn row_newer_than_its_delta_is_rejected_and_nothing_applied() {
    let mut table = RoutingTable::new(delta(0, 4, 4)).unwrap();
    let before = table.clone();
    let rejected = RoutingUpdateError::RowNewerThanTable { row: 6, table: 5 };
    assert_eq!(table.apply_delta(delta(4, 5, 6)), Err(rejected.clone()));
    let namespace = Namespace {
        id: NamespaceId(1),
        spec: NamespaceSpec::default_dense(),
        version: 6,
    };
    let newer_namespace = RoutingDelta {
        namespaces: vec![namespace],
        ..delta(4, 5, 5)
    };
    assert_eq!(table.apply_delta(newer_namespace), Err(rejected));
    assert_eq!(table, before);
}
