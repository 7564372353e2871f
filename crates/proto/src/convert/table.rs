//! Routing tables: columns on the wire, with each owner once.
//!
//! An owner whose address is not `host:port` is left out, so its slots have no owner here. A table
//! that is rejected as a whole would stop all slots for one bad session, which a store of an older
//! build let in. A family that this build cannot read is left out for the same reason.

use std::collections::HashMap;

use seqsvr_core::family::Family;
use seqsvr_core::ids::{ClusterId, Epoch, SessionId};
use seqsvr_core::namespace::Namespace;
use seqsvr_core::routing_table::{Route, RoutingDelta, SlotOwner};
use seqsvr_core::server_address::check_server_address;

use super::{DecodeError, slot_from, u128_from, u128_to_bytes};
use crate::v1;

impl From<&RoutingDelta> for v1::RoutingTable {
    fn from(delta: &RoutingDelta) -> v1::RoutingTable {
        let mut table = v1::RoutingTable {
            cluster: u128_to_bytes(delta.cluster.0),
            base: delta.base,
            version: delta.version,
            slot_count: delta.slot_count,
            namespaces: delta.namespaces.iter().map(v1::Namespace::from).collect(),
            families: delta.families.iter().map(v1::Family::from).collect(),
            ..v1::RoutingTable::default()
        };
        let mut refs: HashMap<SessionId, u32> = HashMap::new();
        for (slot, route) in &delta.routes {
            let owner_ref = route.owner.as_ref().map_or(0, |owner| {
                *refs.entry(owner.session).or_insert_with(|| {
                    table.owners.push(v1::Owner {
                        session: owner.session.0,
                        name: owner.name.clone(),
                        address: owner.address.clone(),
                    });
                    table.owners.len() as u32
                })
            });
            table.slots.push(u32::from(slot.0));
            table.epochs.push(route.epoch.0);
            table.owner_indexes.push(owner_ref);
            table.slot_versions.push(route.version);
        }
        table
    }
}

impl TryFrom<&v1::RoutingTable> for RoutingDelta {
    type Error = DecodeError;

    fn try_from(table: &v1::RoutingTable) -> Result<RoutingDelta, DecodeError> {
        let n = table.slots.len();
        if [
            table.epochs.len(),
            table.owner_indexes.len(),
            table.slot_versions.len(),
        ] != [n; 3]
        {
            return Err(DecodeError("routing table with columns of unequal length"));
        }
        if table.slot_count == 0 || table.slot_count > seqsvr_core::geometry::SLOTS_MAX {
            return Err(DecodeError(
                "routing table with an impossible number of slots",
            ));
        }
        let owners: Vec<Option<SlotOwner>> = table.owners.iter().map(slot_owner_from).collect();
        let mut routes = Vec::with_capacity(n);
        for i in 0..n {
            let owner = match table.owner_indexes[i] {
                0 => None,
                r => owners
                    .get(r as usize - 1)
                    .ok_or(DecodeError("routing table: owner"))?
                    .clone(),
            };
            let route = Route {
                epoch: Epoch(table.epochs[i]),
                owner,
                version: table.slot_versions[i],
            };
            routes.push((slot_from(table.slots[i])?, route));
        }
        Ok(RoutingDelta {
            cluster: ClusterId(u128_from(&table.cluster, "cluster id")?),
            base: table.base,
            version: table.version,
            slot_count: table.slot_count,
            namespaces: table
                .namespaces
                .iter()
                .map(Namespace::try_from)
                .collect::<Result<_, _>>()?,
            families: table
                .families
                .iter()
                .filter_map(|family| Family::try_from(family).ok())
                .collect(),
            routes,
        })
    }
}

/// Returns an owner; None: its address is not `host:port`.
fn slot_owner_from(owner: &v1::Owner) -> Option<SlotOwner> {
    check_server_address(&owner.address).ok()?;
    Some(SlotOwner {
        session: SessionId(owner.session),
        name: owner.name.clone(),
        address: owner.address.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use seqsvr_core::command::{Batch, Command, OpenSession};
    use seqsvr_core::family::{FamilyLimits, FamilySpec, IdsCommand};
    use seqsvr_core::ids::{Nonce, Slot};
    use seqsvr_core::layout::TickScale;
    use seqsvr_core::state::State;

    use super::*;

    #[test]
    fn routing_delta_survives_the_wire() {
        let mut state = State::default();
        let open = OpenSession {
            name: "a1".into(),
            address: "127.0.0.1:7700".into(),
            incarnation: 7,
            nonce: Nonce(1),
            proof: None,
        };
        let assign = |slot| Command::Assign {
            slot: Slot(slot),
            from: Epoch(0),
            to: SessionId(1),
        };
        let commands = vec![
            Command::Init {
                cluster: ClusterId(9),
                lease_ms: 3000,
                slots: 8,
            },
            Command::OpenSession(open),
            assign(0),
            assign(5),
            Command::SetLevel { level: 3 },
            Command::Ids(IdsCommand::CreateFamily {
                spec: FamilySpec::new(
                    "orders",
                    "0:1,time:41,worker:10,seq:12".parse().unwrap(),
                    TickScale::new(1_767_225_600_000, 1).unwrap(),
                ),
                limits: FamilyLimits::DEFAULT,
            }),
        ];
        state.apply(1, &Batch { commands }, &mut BTreeSet::new());
        assert_eq!(state.families().count(), 1);
        for base in 0..=state.table_version() {
            let delta = state.delta_since(base).unwrap();
            assert_eq!(
                RoutingDelta::try_from(&v1::RoutingTable::from(&delta)).unwrap(),
                delta
            );
        }
    }

    /// Schedule: a store of an older build let in a session with another address. Its slots have no
    /// owner to connect to; the others stay reachable.
    #[test]
    fn owner_with_a_bad_address_hides_no_other_owner() {
        let owner = |session, address: &str| v1::Owner {
            session,
            name: format!("a{session}"),
            address: address.into(),
        };
        let table = v1::RoutingTable {
            cluster: u128_to_bytes(1),
            version: 1,
            slot_count: 2,
            owners: vec![owner(1, "a1:7700/path"), owner(2, "a2:7700")],
            slots: vec![0, 1],
            epochs: vec![5, 6],
            owner_indexes: vec![1, 2],
            slot_versions: vec![1, 1],
            ..Default::default()
        };
        let delta = RoutingDelta::try_from(&table).unwrap();
        let [(_, bad), (_, good)] = &delta.routes[..] else {
            panic!("{delta:?}")
        };
        assert_eq!((bad.epoch, &bad.owner), (Epoch(5), &None));
        assert_eq!(good.owner.as_ref().unwrap().address, "a2:7700");
    }

    #[test]
    fn malformed_routing_tables_are_rejected() {
        let table = v1::RoutingTable {
            cluster: u128_to_bytes(1),
            slot_count: 8,
            slots: vec![1],
            ..Default::default()
        };
        assert!(RoutingDelta::try_from(&table).is_err());
        let table = v1::RoutingTable {
            cluster: u128_to_bytes(1),
            slot_count: u32::MAX,
            ..Default::default()
        };
        assert!(RoutingDelta::try_from(&table).is_err());
    }
}
