//! What the report of a failed run shows of its end: calls without an answer, and the servers.

use crate::clients::RunContext;
use crate::cluster::{SimCluster, machine_name};
use crate::machine::{MachineRole, SimMachine};

/// Returns a line for each call without an answer, and for each server in use.
pub(super) fn describe_end(cluster: &SimCluster, context: &RunContext) -> Vec<String> {
    let mut lines = context.unanswered_calls.lock().describe(cluster.now_ms);
    let in_use = cluster.machines.values().filter(|m| m.is_in_use);
    lines.extend(in_use.filter_map(describe_server));
    lines
}

fn describe_server(machine: &SimMachine) -> Option<String> {
    let text = match (
        &machine.role,
        machine.running_store(),
        machine.running_alloc(),
    ) {
        (MachineRole::Client | MachineRole::Holder(_), ..) => return None,
        (_, Some(store), _) => {
            let view = store.look();
            let ended = view.failure.map(|failure| format!(", ended: {failure}"));
            format!(
                "store {}, term {}, names leader {:?}, voters {:?}, applied {:?}{}",
                machine.store_id,
                view.term,
                view.leader,
                view.voters,
                view.applied,
                ended.unwrap_or_default()
            )
        }
        (_, _, Some(alloc)) => {
            let view = alloc.look();
            let session = view.session.map(|session| session.id);
            let slots = view.slots.len();
            format!(
                "session {session:?}, {slots} slots, {} items wait",
                view.waiting
            )
        }
        _ => String::from("does not run"),
    };
    Some(format!("{}: {text}", machine_name(machine.id)))
}
