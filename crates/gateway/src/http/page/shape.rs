//! The cluster as JSON.

use seqsvr_proto::v1::{ClusterStatusResponse, HotSection, NodeStatusResponse};
use serde_json::{Value, json};

/// The answer of each address, or the reason why there is none.
pub type Nodes = Vec<(String, Result<NodeStatusResponse, String>)>;

/// Returns the cluster as its leader sees it, and every process's own counters: one object.
pub fn status(c: &ClusterStatusResponse, nodes: &Nodes) -> Value {
    let stores: Vec<Value> = c
        .stores
        .iter()
        .map(|s| json!({ "id": s.id, "address": s.address, "leader": s.leader, "voter": s.voter, "matched": s.matched, "heard_ms_ago": s.heard_ms_ago }))
        .collect();
    let sessions: Vec<Value> = c
        .sessions
        .iter()
        .map(|s| json!({ "session": s.session, "name": s.name, "address": s.address, "slots": s.slots, "draining": s.draining, "renewed_ms_ago": s.renewed_ms_ago }))
        .collect();
    let nodes: Vec<Value> = nodes
        .iter()
        .map(|(address, node)| match node {
            Ok(n) => json!({
                "address": address, "role": n.role, "name": n.name, "version": n.version, "counters": n.counters,
                "hottest": n.hottest.iter().map(hot).collect::<Vec<_>>(),
            }),
            Err(error) => json!({ "address": address, "error": error }),
        })
        .collect();
    let cluster: String = c.cluster.iter().map(|b| format!("{b:02x}")).collect();
    json!({
        "cluster": cluster, "lease_ms": c.lease_ms, "slots": c.slot_count, "free_slots": c.free_slots,
        "table_version": c.table_version, "term": c.term, "sections_open": c.sections_open,
        "sections_known": c.sections_known, "moves_planned": c.moves_planned, "stores": stores, "sessions": sessions, "nodes": nodes,
    })
}

fn hot(h: &HotSection) -> Value {
    json!({
        "namespace": h.namespace, "section": h.section, "slot": h.slot, "window_left": h.window_left,
        "per_second": h.per_second, "keys_touched": h.keys_touched,
    })
}
