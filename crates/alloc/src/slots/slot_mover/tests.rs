use seqsvr_core::command::Fence;
use seqsvr_core::ids::{ClusterId, NamespaceId, SectionId, SectionKey};
use seqsvr_core::routing_table::{Route, RoutingDelta, SlotOwner};
use tokio::time::timeout;

use super::*;
use crate::fast_path::tests::FastPathFixture;

/// Returns the delta to version 2 in which a slot has moved to session 2.
fn moved_delta(slot: Slot, slot_count: u32) -> RoutingDelta {
    let owner = SlotOwner {
        session: SessionId(2),
        name: "a2".into(),
        address: "127.0.0.1:2".into(),
    };
    let route = Route {
        epoch: Epoch(2),
        owner: Some(owner),
        version: 2,
    };
    RoutingDelta {
        cluster: ClusterId(1),
        base: 1,
        version: 2,
        slot_count,
        namespaces: Vec::new(),
        families: Vec::new(),
        routes: vec![(slot, route)],
    }
}

/// The response of a move changes no route, so it does not matter that it is lost here. The table
/// still names this process, and the slot is frozen until a later table ends that.
#[tokio::test]
async fn moved_slot_is_not_served_before_newer_table() {
    let fixture = FastPathFixture::new().await;
    let (sections, session) = (&fixture.sections, fixture.session.clone());
    let slot_mover = fixture.alloc.components.slot_mover.clone();
    let table = fixture.table.load().unwrap();
    let section = SectionKey {
        namespace: NamespaceId(1),
        section: SectionId(0),
    };
    let (slot, epoch) = (table.slot_of(section), Epoch(1));
    let fence = Fence {
        slot,
        epoch,
        section,
    };
    assert!(sections.get(section).is_some());
    let moving = (slot_mover.clone(), session.clone());
    tokio::spawn(async move {
        let (slot_mover, session) = moving;
        slot_mover
            .move_slot(&session, slot, epoch, SessionId(2))
            .await
    });
    let stopped = async {
        while !sections.is_frozen(slot, epoch) || sections.get(section).is_some() {
            tokio::task::yield_now().await;
        }
    };
    let limit = Duration::from_secs(10);
    timeout(limit, stopped).await.expect("the slot is stopped");

    assert_eq!(
        slot_mover.epoch_and_owner(slot),
        Some((epoch, Some(session.id)))
    );
    let opened = timeout(
        limit,
        fixture
            .slow_path
            .lifecycle
            .open_section(fence, session.clone()),
    )
    .await;
    let refused = opened.expect("no store is called").unwrap_err();
    assert_eq!(refused.reason(), Reason::NotOwner);
    let again = timeout(
        limit,
        slot_mover.move_slot(&session, slot, epoch, SessionId(3)),
    )
    .await;
    let refused = again.expect("no store is called").unwrap_err();
    assert_eq!(refused.reason(), Reason::NotOwner);

    let slots = table.routes().count() as u32;
    assert!(fixture.table.apply(moved_delta(slot, slots)).unwrap());
    sections.drop_stale(&fixture.table.load().unwrap());
    assert_eq!(
        slot_mover.epoch_and_owner(slot),
        Some((Epoch(2), Some(SessionId(2))))
    );
    assert!(!sections.is_frozen(slot, epoch));
}
