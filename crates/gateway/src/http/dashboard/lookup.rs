//! Slots and their owners, and the slot and owner of a uid or key, by the routing table of this
//! AllocSvr.

use hashbrown::HashMap;
use seqsvr_core::geometry::GeometryKind;
use seqsvr_core::key::KeyRef;
use seqsvr_core::namespace::{DEFAULT_KEYED_NAMESPACE, DEFAULT_NAMESPACE};
use seqsvr_core::routing_table::{RoutingTable, SlotOwner};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;
use serde::Deserialize;
use serde_json::{Value, json};
use tonic::Status;

/// The fields of a request for `/v1/route`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LookupQuery {
    /// Empty: `default` for a uid, `keys` for a key.
    #[serde(default)]
    namespace: String,
    uid: Option<String>,
    key: Option<String>,
}

/// Returns the owner and epoch of each slot, as columns: entry i is slot i. An owner is its index
/// in `owners` plus 1; 0 is no owner.
pub(super) fn slots_json(table: &RoutingTable) -> Value {
    let mut owners: Vec<&SlotOwner> = Vec::new();
    let mut owner_indexes = HashMap::new();
    let (mut slot_owners, mut epochs) = (Vec::new(), Vec::new());
    for (_, route) in table.routes() {
        let owner = route.owner.as_ref().map(|owner| {
            *owner_indexes.entry(owner.session).or_insert_with(|| {
                owners.push(owner);
                owners.len()
            })
        });
        slot_owners.push(owner.unwrap_or(0));
        epochs.push(route.epoch.0);
    }
    let owners: Vec<Value> = owners
        .iter()
        .map(|o| json!({ "name": o.name, "address": o.address, "session": o.session.0 }))
        .collect();
    let namespaces: Vec<Value> = table
        .namespaces()
        .iter()
        .map(|n| {
            let keyed = n.spec.geometry.kind() == GeometryKind::Keyed;
            json!({ "name": n.spec.name, "kind": if keyed { "keyed" } else { "dense" } })
        })
        .collect();
    json!({ "version": table.version(), "namespaces": namespaces, "owners": owners, "owner_indexes": slot_owners, "epochs": epochs })
}

/// Returns namespace, section, slot, epoch and owner of a uid or key.
///
/// # Errors
/// The request is invalid.
pub(super) fn route_json(table: &RoutingTable, lookup: &LookupQuery) -> Result<Value, Status> {
    let (key, default_namespace) = match (&lookup.uid, &lookup.key) {
        (Some(uid), None) => {
            let is_decimal = uid.bytes().all(|byte| byte.is_ascii_digit());
            let uid = uid.parse().ok().filter(|_| is_decimal).ok_or_else(|| {
                Status::invalid_argument(format!(
                    "invalid uid {uid:?}: a uid is a decimal below 2^64"
                ))
            })?;
            (KeyRef::Uid(uid), DEFAULT_NAMESPACE)
        }
        (None, Some(key)) => (KeyRef::Key(key.as_bytes()), DEFAULT_KEYED_NAMESPACE),
        _ => {
            let text = "the request must have exactly one of uid and key";
            return Err(Status::invalid_argument(text));
        }
    };
    let name = match lookup.namespace.as_str() {
        "" => default_namespace,
        name => name,
    };
    let namespace = table.namespace(name).ok_or_else(|| {
        let text = format!("there is no namespace {name:?}: `seqsvr namespace list` shows them");
        RpcError::new(Reason::NamespaceNotFound, text)
    })?;
    let location = table.locate(namespace, key);
    let (section, slot) = location.map_err(RpcError::from)?;
    let route = table.route(slot).cloned().unwrap_or_default();
    let owner = route
        .owner
        .map(|o| json!({ "name": o.name, "address": o.address, "session": o.session.0 }));
    Ok(json!({
        "namespace": name, "namespace_id": section.namespace.0, "section": section.section.0, "slot": slot.0,
        "epoch": route.epoch.0, "owner": owner,
    }))
}
