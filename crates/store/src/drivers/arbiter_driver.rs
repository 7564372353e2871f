//! Driver of the [`Arbiter`](crate::arbiter::Arbiter). It ticks every D/8. It also ticks at once
//! when a session becomes alive, when the routing table changes, or when its commands are
//! committed.
//!
//! Invariant: a command is proposed only after the tick that decided it has released the arbiter's
//! lock, with the session marked. At most one proposal of the arbiter is in flight.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_core::command::Command;
use seqsvr_core::state::State;
use tokio::task::JoinHandle;

use crate::arbiter::{ArbiterActions, TickInput, TimerRestart};
use crate::context::StoreContext;
use crate::read_index::ConfirmedRequest;

/// Interval at which a store that has no cluster or does not lead checks again.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Ticks until the store stops.
pub(crate) async fn run(context: Arc<StoreContext>) {
    let stop = context.stop.clone();
    stop.run_until_cancelled(run_ticks(&context)).await;
}

async fn run_ticks(context: &Arc<StoreContext>) {
    let mut leadership = context.node.leadership();
    let mut applied = context.node.watch_applied();
    let mut proposing: Option<JoinHandle<()>> = None;
    let mut table_version = 0;
    loop {
        let lease = context.node.with_state(State::lease);
        let interval = lease.map_or(IDLE_CHECK_INTERVAL, |d| d / 8);
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = context.arbiter_due.notified() => {}
            changed = leadership.changed() => if changed.is_err() { return },
            changed = applied.wait_for(|p| p.table_version != table_version) => match changed {
                Ok(progress) => table_version = progress.table_version,
                Err(_) => return,
            },
        }
        let Some(lease) = lease else { continue };
        let actions = run_tick(context, interval, lease).await;
        if let Some(cause) = actions.timer_restart {
            match cause {
                TimerRestart::NewTerm(_) => tracing::info!(%cause, "arbiter timers reset"),
                _ => tracing::warn!(%cause, "arbiter timers reset"),
            }
        }
        // The next tick returns again what this one may not propose.
        let may_propose = proposing.as_ref().is_none_or(JoinHandle::is_finished);
        if may_propose && !actions.commands.is_empty() {
            proposing = Some(tokio::spawn(propose_commands(
                context.clone(),
                actions.commands,
            )));
        }
    }
}

async fn run_tick(context: &StoreContext, interval: Duration, lease: Duration) -> ArbiterActions {
    let started = (context.clock)();
    let ready_term = || context.node.leadership().borrow().ready_term;
    let has_quorum = match ready_term() {
        None => false,
        Some(_) => {
            let round = context
                .read_index
                .confirm_leadership(ConfirmedRequest::Renewal);
            let round = tokio::time::timeout(lease / 4, round);
            matches!(round.await, Ok(Ok(())))
        }
    };
    let mut arbiter = context.arbiter.lock();
    // Both are read under the lock: neither is older than what another tick or renewal has read.
    let (leading_term, now) = (ready_term(), (context.clock)());
    context.node.with_state(|state| {
        arbiter.tick(TickInput {
            started,
            now,
            interval,
            leading_term,
            has_quorum,
            state,
        })
    })
}

async fn propose_commands(context: Arc<StoreContext>, commands: Vec<Command>) {
    for command in &commands {
        if let Command::ExpireSession { session, .. } = command {
            let name = |s: &State| s.session(*session).map(|s| s.name.clone());
            let name = context.node.with_state(name).unwrap_or_default();
            tracing::warn!(%session, alloc = %name, "session was not renewed for W; expiring it");
        }
    }
    let is_assign = |c: &&Command| matches!(c, Command::Assign { .. });
    let assigned = commands.iter().filter(is_assign).count();
    match context.proposer.propose(commands).await {
        Ok(_) => {
            if assigned > 0 {
                tracing::info!(slots = assigned, "assigned free slots");
            }
            context.arbiter_due.notify_one();
        }
        // The next tick of the leader at that time returns them again.
        Err(error) => tracing::warn!(%error, "commands of the arbiter were not committed"),
    }
}
