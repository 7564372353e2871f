//! The state in which a scenario begins.

use std::collections::BTreeSet;

use crate::scenario::Scenario;
use crate::world::World;
use crate::world::action_counts::ActionCounts;
use crate::world::alloc_process::AllocProcess;
use crate::world::caller_ledger::ClusterLedgers;
use crate::world::replicated_state::{LivingSession, ReplicatedState, SectionState, SlotState};
use crate::world::store_node::{LogEnd, StoreNode};

/// Returns the state in which a scenario begins.
pub(super) fn build_initial_world(scenario: &Scenario) -> World {
    let is_served = !scenario.slot_free_at_start && !scenario.section_unopened_at_start;
    let state = build_initial_state(scenario, is_served);
    let processes = (0..scenario.processes).map(|process| {
        let is_member = process < scenario.members;
        let mut alloc = AllocProcess::new(process, is_member, is_served, &state);
        if !is_member && scenario.limits.new_clusters > 0 {
            // It has received nothing from a store yet.
            alloc.cluster = 0;
            alloc.route = SlotState { epoch: 0, owner: 0 };
        }
        alloc
    });
    let nodes =
        (0..scenario.nodes).map(|node| StoreNode::new(node == 0, scenario.timed_sessions, &state));
    World {
        log_end: LogEnd {
            term: 1,
            leader: 0,
            uncommitted: None,
        },
        nodes: nodes.collect(),
        renewals: Vec::new(),
        processes: processes.collect(),
        requests: BTreeSet::new(),
        replies: BTreeSet::new(),
        ledgers: ClusterLedgers::default(),
        spent: ActionCounts::NONE,
        state,
    }
}

fn build_initial_state(scenario: &Scenario, is_served: bool) -> ReplicatedState {
    let sessions = (1..=scenario.members).map(|id| LivingSession {
        id,
        name: (scenario.name_of_process)(id - 1),
        nonce: 100 + id,
    });
    ReplicatedState {
        section: SectionState {
            max: if is_served { scenario.step } else { 0 },
            generation: is_served.into(),
            base: 0,
            nonce: 0,
            open: is_served,
        },
        slot: SlotState {
            epoch: 1,
            owner: (!scenario.slot_free_at_start).into(),
        },
        sessions: sessions.collect(),
        newest_session: scenario.members,
        ..ReplicatedState::new_cluster(1)
    }
}
