//! Confirmed reads of sections, slots and the requesting session.
//!
//! Invariant: everything committed before the request came in is in the answer. The store reads
//! after a quorum round that started after it, and after the state was applied up to its read
//! index.

use seqsvr_core::command::CommandRejection;
use seqsvr_core::ids::{NamespaceId, SectionId, SectionKey, SessionId};
use seqsvr_core::state::State;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::limits::READ_ROWS_MAX;
use seqsvr_proto::v1;

use crate::context::StoreContext;
use crate::rpc_errors;

pub(super) async fn read_confirmed(
    context: &StoreContext,
    request: v1::ReadRequest,
) -> Result<v1::ReadResponse, RpcError> {
    let count = request.sections.len() + request.slots.len();
    if count > READ_ROWS_MAX {
        return Err(rpc_errors::limit_exceeded(format!(
            "one Read names at most {READ_ROWS_MAX} sections and slots, not {count}"
        )));
    }
    context.confirm_leadership().await?;
    context.node.with_state(|state| read_state(state, &request))
}

fn read_state(state: &State, request: &v1::ReadRequest) -> Result<v1::ReadResponse, RpcError> {
    if let Some(session) = request.session
        && state.session(SessionId(session)).is_none()
    {
        return Err(rpc_errors::session_not_found(session));
    }
    let mut response = v1::ReadResponse::default();
    for section in &request.sections {
        response.sections.push(section_row(state, section)?);
    }
    for slot in &request.slots {
        let row = state.slots().get(*slot as usize);
        let row =
            row.ok_or_else(|| rpc_errors::invalid_request(format!("there is no slot {slot}")))?;
        response.epochs.push(row.epoch.0);
        response.owners.push(row.owner.map_or(0, |id| id.0));
    }
    Ok(response)
}

fn section_row(state: &State, section: &v1::SectionRef) -> Result<v1::SectionRow, RpcError> {
    let key = SectionKey {
        namespace: NamespaceId(section.namespace),
        section: SectionId(section.section),
    };
    let namespace = state.namespace(key.namespace);
    let namespace = namespace.ok_or_else(|| {
        rpc_errors::from_refusal(&CommandRejection::NamespaceNotFound(key.namespace))
    })?;
    if !namespace.spec.geometry.has_section(key.section) {
        return Err(rpc_errors::invalid_request(format!(
            "there is no section {key}"
        )));
    }
    Ok(match state.section(key) {
        Some(row) => v1::SectionRow {
            max_seq: row.max_seq,
            generation: row.generation.0,
        },
        None => v1::SectionRow {
            max_seq: state.unopened_max_seq(&namespace.spec.progression),
            generation: 0,
        },
    })
}
