//! Driver of the [`Arbiter`](super::Arbiter). It ticks every D/8. It also ticks at once when a
//! session comes alive, when the routing table changes, or when what it wanted is committed.
//!
//! Invariant: a command is proposed only after the tick that decided it has released the arbiter's
//! lock, with the session marked. At most one proposal of the arbiter is in flight.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_core::command::Command;
use seqsvr_core::state::State;
use tokio::task::JoinHandle;

use super::{Restart, Tick, Wanted};
use crate::context::Context;

/// How often a store that has no cluster or does not lead checks again.
const IDLE: Duration = Duration::from_millis(100);

pub(crate) async fn run(context: Arc<Context>) {
    let stop = context.stop.clone();
    stop.run_until_cancelled(ticks(&context)).await;
}

async fn ticks(context: &Arc<Context>) {
    let mut leadership = context.node.leadership();
    let mut applied = context.node.applied();
    let mut proposing: Option<JoinHandle<()>> = None;
    let mut table_version = 0;
    loop {
        let lease = context.node.with_state(State::lease);
        let interval = lease.map_or(IDLE, |d| d / 8);
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
        let wanted = tick(context, interval, lease).await;
        if let Some(why) = wanted.restarted {
            match why {
                Restart::NewTerm(_) => tracing::info!("arbiter restarted its timers: {why}"),
                _ => tracing::warn!("arbiter restarted its timers: {why}"),
            }
        }
        // What is wanted while a proposal is in flight is wanted again at the next tick.
        let free = proposing.as_ref().is_none_or(JoinHandle::is_finished);
        if free && !wanted.commands.is_empty() {
            proposing = Some(tokio::spawn(propose(context.clone(), wanted.commands)));
        }
    }
}

async fn tick(context: &Context, interval: Duration, lease: Duration) -> Wanted {
    let begun = (context.clock)();
    let ready = || context.node.leadership().borrow().ready_term;
    let quorum = match ready() {
        None => false,
        Some(_) => {
            let round = tokio::time::timeout(lease / 4, context.confirmer.confirm());
            matches!(round.await, Ok(Ok(())))
        }
    };
    let mut arbiter = context.arbiter.lock();
    // Both are read under the lock: neither is older than what another tick or renewal has seen.
    let (lead, now) = (ready(), (context.clock)());
    context.node.with_state(|state| {
        arbiter.tick(Tick {
            begun,
            now,
            interval,
            lead,
            quorum,
            state,
        })
    })
}

async fn propose(context: Arc<Context>, commands: Vec<Command>) {
    for command in &commands {
        if let Command::ExpireSession { session, .. } = command {
            let name = |s: &State| s.session(*session).map(|s| s.name.clone());
            let name = context.node.with_state(name).unwrap_or_default();
            tracing::warn!("session {session} of AllocSvr {name:?} was silent for W: it ends");
        }
    }
    let assigns = |c: &&Command| matches!(c, Command::Assign { .. });
    let assigns = commands.iter().filter(assigns).count();
    match context.proposer.propose(commands).await {
        Ok(_) => {
            if assigns > 0 {
                tracing::info!("assigned {assigns} free slots");
            }
            context.arbiter_due.notify_one();
        }
        // The next tick of the leader at that time wants them again.
        Err(e) => tracing::warn!("the arbiter's commands were not committed: {e}"),
    }
}
