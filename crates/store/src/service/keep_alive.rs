//! Renewal of a session, on which a lease rests.
//!
//! Invariant: an answer with D means that, at some moment after the request came in (hence after
//! the owner's t0), no store of a quorum had a newer leader than this one. It also means that this
//! leader's arbiter does not expire the session before W has passed since a moment after that. So
//! every leader that ends the session ends it when the lease t0 + D is over. The arbiter of this
//! one counts from its stamp, and that of a newer leader from its own election, which is later than
//! t0.
//!
//! Schedules that would break it:
//! - *Confirmed before the request* (a shared round already under way, or a leader lease): a newer
//!   leader may be older than t0; it waits W since its election and frees the slots before t0 + D.
//! - *Stamped without the lock, or session looked up before it*: the arbiter marks and expires in
//!   between, and D is granted to a session whose slots are given away in the next entry.
//! - *Applied state not awaited*: a session ended by the former leader's entry still appears alive.
//! - *Stamped in another term than confirmed*: the stamp would count for a leadership that the
//!   round does not confirm.

use seqsvr_core::ids::SessionId;
use seqsvr_core::planted;
use seqsvr_core::state::State;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1;

use crate::arbiter::RenewalError;
use crate::context::StoreContext;
use crate::read_index::ConfirmedRequest;
use crate::rpc_errors;
use crate::service::sender::{Sender, check_session};

pub(super) async fn serve_keep_alive(
    context: &StoreContext,
    request: v1::KeepAliveRequest,
    sender: Sender,
) -> Result<v1::KeepAliveResponse, RpcError> {
    // A quorum round starts now, after the request came in; then the state is applied up to its
    // read index.
    let term = match planted!(RenewWithoutConfirm) {
        true => context.node.leadership().borrow().ready_term.unwrap_or(0),
        false => {
            let renewal = ConfirmedRequest::Renewal;
            context.confirm_leadership_for(renewal).await?
        }
    };
    let session = SessionId(request.session);
    check_session(context, &sender, session).await?;
    stamp_renewal(context, session, term, request.draining)?;
    let (moves, moves_planned) = context.planned_moves(session);
    // This is later than the stamp, so the table may be newer than it: better for the caller.
    context.node.with_state(|state| {
        let cluster = state.cluster().ok_or_else(rpc_errors::not_initialized)?;
        Ok(v1::KeepAliveResponse {
            lease_ms: cluster.lease_ms,
            routes: table_delta(state, request.table_version),
            moves,
            moves_planned,
            stores: store_addresses(context),
            ..v1::KeepAliveResponse::default()
        })
    })
}

fn stamp_renewal(
    context: &StoreContext,
    session: SessionId,
    term: u64,
    draining: bool,
) -> Result<(), RpcError> {
    let stamped = {
        let mut arbiter = context.arbiter.lock();
        let leading_term = context.node.leadership().borrow().ready_term;
        let now = (context.clock)();
        context.node.with_state(|state| {
            arbiter.stamp_renewal(session, term, now, leading_term, state, draining)
        })
    };
    match stamped {
        Ok(is_newly_alive) => {
            if is_newly_alive {
                context.arbiter_due.notify_one();
            }
            Ok(())
        }
        Err(RenewalError::NotLeader) => Err(rpc_errors::not_leader(context.leader_address())),
        Err(RenewalError::SessionNotFound | RenewalError::SessionExpiring) => {
            Err(rpc_errors::session_not_found(session.0))
        }
    }
}

/// Returns the addresses of the members, this leader first.
fn store_addresses(context: &StoreContext) -> Vec<String> {
    let mut stores = vec![context.address.clone()];
    let members = context.node.members().into_iter().map(|m| m.address);
    stores.extend(members.filter(|address| *address != context.address));
    stores
}

/// Returns what a routing table of that version misses, if anything; the full one if the version is
/// not of this cluster.
fn table_delta(state: &State, version: u64) -> Option<v1::RoutingTable> {
    if version == state.table_version() {
        return None;
    }
    state
        .delta_since(version)
        .map(|d| v1::RoutingTable::from(&d))
}
