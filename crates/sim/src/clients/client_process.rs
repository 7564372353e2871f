//! Client processes: they call the cluster and record the answers.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;

use super::cluster_operator::ClusterOperator;
use super::load_caller::LoadCaller;
use super::replaceable_client::ReplaceableClient;
use super::rogue_alloc::run_rogue;
use super::run_context::{FAMILY, NAMESPACE, RunContext};
use crate::cluster;
use crate::faults::OperatorCommand;
use crate::network::MachineId;
use crate::plan::RunPlan;
use crate::random_stream::RandomStream;

/// Runs one client process. The first one also initializes the cluster and is the operator.
pub async fn run_client(
    id: MachineId,
    plan: RunPlan,
    context: Arc<RunContext>,
    commands: Option<UnboundedReceiver<OperatorCommand>>,
) {
    let setup = &plan.setup;
    let client = Arc::new(ReplaceableClient::new(id, &plan, context.clone()));
    if let Some(commands) = commands {
        let operator = ClusterOperator::new(id, &plan, context.clone());
        operator.init_cluster().await;
        tokio::spawn(operator.serve_commands(commands));
        if plan.has_rogue {
            tokio::spawn(run_rogue(id, plan.clone(), context.clone()));
        }
    }
    while client
        .current_client()
        .namespace(NAMESPACE)
        .next(0_u64)
        .await
        .is_err()
    {
        sleep(Duration::from_millis(20)).await;
    }
    while setup.family.is_some() && client.current_client().family(FAMILY).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    context.ready_clients.fetch_add(1, Relaxed);
    let client_index = cluster::client_ids(setup)
        .position(|client| client == id)
        .unwrap_or(0);
    let (callers, think_ms) = match client_index {
        0 => (plan.load.busy_callers, plan.load.busy_think_ms),
        n => (
            2,
            plan.load.slow_think_ms.get(n - 1).copied().unwrap_or(1_000),
        ),
    };
    let mut tasks = Vec::new();
    for n in 0..callers {
        let caller = u64::from(id) * 100 + u64::from(n);
        let random = RandomStream::new(plan.seed, &format!("caller {caller}"));
        let caller = LoadCaller {
            id: caller,
            machine: id,
            client: client.clone(),
            context: context.clone(),
        };
        tasks.push(tokio::spawn(caller.run_calls(
            plan.load.clone(),
            think_ms,
            random,
        )));
    }
    for task in tasks {
        let _ = task.await;
    }
    while !context.may_begin_last_round.load(Relaxed) {
        sleep(Duration::from_millis(10)).await;
    }
    let last_caller = LoadCaller {
        id: u64::from(id) * 100 + 99,
        machine: id,
        client,
        context: context.clone(),
    };
    last_caller.call_all_until_answered(&plan.load).await;
    context.finished_clients.fetch_add(1, Relaxed);
    last_caller.run_calm_calls(plan.load.keys).await;
    context.calm_clients.fetch_add(1, Relaxed);
}
