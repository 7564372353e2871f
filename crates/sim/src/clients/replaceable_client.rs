//! SDK client of a process.

use std::sync::Arc;

use parking_lot::Mutex;
use seqsvr_client::{Client, Error, ErrorKind};
use seqsvr_net::ChannelPool;

use super::run_context::RunContext;
use crate::cluster::{alloc_address, initial_alloc_ids};
use crate::network::{MachineId, machine_transport};
use crate::plan::RunPlan;

/// Creates the SDK client of a machine.
pub(super) fn create_client(id: MachineId, plan: &RunPlan, context: &RunContext) -> Client {
    let servers = initial_alloc_ids(&plan.setup).map(|id| alloc_address(id).to_string());
    let options = seqsvr_client::ClientOptions::new(servers)
        .with_seed(seqsvr_core::sim::draw_number("client"));
    let client = Client::over(
        ChannelPool::with_transport(machine_transport(&context.net, id)),
        options,
    );
    // All addresses are those of simulated machines.
    client.expect("valid addresses")
}

/// SDK client of a process. A new one replaces it when its cluster no longer exists.
pub(super) struct ReplaceableClient {
    id: MachineId,
    plan: RunPlan,
    context: Arc<RunContext>,
    current: Mutex<Client>,
}

impl ReplaceableClient {
    pub(super) fn new(
        id: MachineId,
        plan: &RunPlan,
        context: Arc<RunContext>,
    ) -> ReplaceableClient {
        ReplaceableClient {
            id,
            plan: plan.clone(),
            current: Mutex::new(create_client(id, plan, &context)),
            context,
        }
    }

    pub(super) fn current_client(&self) -> Client {
        self.current.lock().clone()
    }

    /// Replaces the client if the error says that every server belongs to another cluster.
    pub(super) fn replace_if_foreign(&self, client: &Client, error: Option<&Error>) {
        let is_foreign = error.is_some_and(|error| error.kind() == ErrorKind::ClusterMismatch);
        let mut current = self.current.lock();
        if is_foreign && current.cluster_tag() == client.cluster_tag() {
            seqsvr_core::reached!("client: it met another cluster only");
            *current = create_client(self.id, &self.plan, &self.context);
        }
    }
}
