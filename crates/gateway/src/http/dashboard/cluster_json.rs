//! The cluster as JSON.

use seqsvr_proto::v1::{ClusterStatusResponse, HotSection, NodeStatusResponse};
use serde_json::{Value, json};

/// The status of the server at each address, or the reason why there is none.
pub type NodeStatuses = Vec<(String, Result<NodeStatusResponse, String>)>;

/// Returns one object with the cluster as its leader sees it, and the counters of every process.
pub fn cluster_status_json(cluster: &ClusterStatusResponse, nodes: &NodeStatuses) -> Value {
    let stores: Vec<Value> = cluster
        .stores
        .iter()
        .map(|s| json!({ "id": s.id, "address": s.address, "leader": s.leader, "voter": s.voter, "match_index": s.match_index, "last_ack_age_ms": s.last_ack_age_ms }))
        .collect();
    let sessions: Vec<Value> = cluster
        .sessions
        .iter()
        .map(|s| json!({ "session": s.session, "name": s.name, "address": s.address, "slots": s.slots, "draining": s.draining, "last_renewal_age_ms": s.last_renewal_age_ms }))
        .collect();
    let nodes: Vec<Value> = nodes
        .iter()
        .map(|(address, node)| match node {
            Ok(n) => json!({
                "address": address, "role": n.role, "name": n.name, "version": n.version, "counters": n.counters,
                "http_address": n.http_address,
                "hottest": n.hottest.iter().map(hot_section_json).collect::<Vec<_>>(),
            }),
            Err(error) => json!({ "address": address, "error": error }),
        })
        .collect();
    let cluster_id: String = cluster.cluster.iter().map(|b| format!("{b:02x}")).collect();
    json!({
        "cluster": cluster_id, "lease_ms": cluster.lease_ms, "slots": cluster.slot_count, "free_slots": cluster.free_slots,
        "table_version": cluster.table_version, "term": cluster.term, "sections_open": cluster.sections_open,
        "sections_known": cluster.sections_known, "moves_planned": cluster.moves_planned, "stores": stores, "sessions": sessions, "nodes": nodes,
    })
}

fn hot_section_json(hot: &HotSection) -> Value {
    json!({
        "namespace": hot.namespace, "section": hot.section, "slot": hot.slot, "window_remaining": hot.window_remaining,
        "numbers_per_second": hot.numbers_per_second, "keys_in_memory": hot.keys_in_memory,
    })
}
