//! Faults as callers see them: reason, code, and a text that says what to do.

use seqsvr_core::command::{CommandRejection, Reply};
use seqsvr_core::family::{IdsRejection, IdsRejectionCause};
use seqsvr_core::ids::SessionId;
use seqsvr_core::layout::format_utc_ms;
use seqsvr_core::server_address::{check_server_address, is_unspecified_address};
use seqsvr_core::state::SessionRow;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;
use tonic::Code;

use crate::proposer::ProposalError;
use crate::read_index::ReadIndexError;
use crate::store_time::{NS_PER_MS, NoTime};

/// Delay after which a caller rejected by a full queue may retry.
const FULL_RETRY_AFTER_MS: u32 = 50;

pub(crate) fn not_initialized() -> RpcError {
    let text = "this store belongs to no cluster yet: run `seqsvr init --stores ...` once, naming every store";
    RpcError::new(Reason::NotInitialized, text)
}

pub(crate) fn not_leader(leader: Option<String>) -> RpcError {
    let text = match &leader {
        Some(address) => format!("this store does not lead: send the request to {address}"),
        None => {
            "this store does not lead and has no leader yet: retry, or use another store".to_owned()
        }
    };
    RpcError::new(Reason::NotLeader, text).with_leader(leader)
}

pub(crate) fn invalid_request(text: impl Into<String>) -> RpcError {
    RpcError::new(Reason::Invalid, text)
}

/// Checks an address that a request or another server names.
///
/// The check is made before a command is proposed, never when it applies: entries of an older build
/// may have other addresses, and all stores must apply them alike.
///
/// # Errors
/// The text is not `host:port`, or names no machine.
pub(crate) fn check_address(address: &str) -> Result<(), RpcError> {
    check_server_address(address).map_err(|bad| invalid_request(bad.to_string()))?;
    match is_unspecified_address(address) {
        true => Err(invalid_request(format!(
            "{address} names no machine: start the server with --advertise, the address under which others reach it"
        ))),
        false => Ok(()),
    }
}

pub(crate) fn overloaded(text: impl Into<String>) -> RpcError {
    RpcError::new(Reason::Overloaded, text).with_retry_after_ms(FULL_RETRY_AFTER_MS)
}

/// Makes the fault for a limit that the caller itself ignored: no retry helps.
pub(crate) fn limit_exceeded(text: impl Into<String>) -> RpcError {
    RpcError::new(Reason::LimitExceeded, text)
}

pub(crate) fn unavailable(text: impl Into<String>) -> RpcError {
    RpcError::new(Reason::Unreachable, text)
}

pub(crate) fn unexpected_reply(reply: &Reply) -> RpcError {
    unavailable(format!("unexpected reply {reply:?}"))
}

pub(crate) fn session_not_found(session: u64) -> RpcError {
    let text = format!("session {session} has ended: open another session");
    RpcError::new(Reason::SessionNotFound, text)
}

/// Makes the fault for an address that belongs to a living session of another name.
pub(crate) fn address_taken(session: SessionId, holder: &SessionRow) -> RpcError {
    let text = format!(
        "an AllocSvr named {:?} is already registered from {} (session {session}): give this AllocSvr another address, or stop the other one; if that one is dead, its session expires soon",
        holder.name, holder.address
    );
    RpcError::new(Reason::AddressTaken, text)
}

pub(crate) fn from_proposal_error(error: ProposalError) -> RpcError {
    match error {
        ProposalError::Full => overloaded(error.to_string()),
        ProposalError::NotLeader { leader } => not_leader(leader),
        ProposalError::Uncertain(_) | ProposalError::Stopped => unavailable(error.to_string()),
    }
}

pub(crate) fn from_read_index_error(error: ReadIndexError) -> RpcError {
    match error {
        ReadIndexError::Full => overloaded(error.to_string()),
        ReadIndexError::NotLeader { leader } => not_leader(leader),
        ReadIndexError::NoQuorum | ReadIndexError::Stopped => unavailable(error.to_string()),
    }
}

pub(crate) fn from_refusal(refusal: &CommandRejection) -> RpcError {
    let reason = match refusal {
        CommandRejection::NotInitialized => return not_initialized(),
        CommandRejection::SessionNotFound(session) => return session_not_found(session.0),
        CommandRejection::NameTaken { .. } => {
            let text = format!(
                "{refusal}: give this AllocSvr another name, or stop the other one; if that one is dead, its session expires soon"
            );
            return RpcError::new(Reason::NameTaken, text);
        }
        CommandRejection::NamespaceExists(_) => {
            let text = format!("{refusal}: choose another name, or repeat the same settings");
            return RpcError::new(Reason::Rejected, text).with_code(Code::AlreadyExists);
        }
        // A session ends some time: an AllocSvr waits for a place.
        CommandRejection::TooManySessions => return overloaded(refusal.to_string()),
        // No namespace does.
        CommandRejection::TooManyNamespaces => {
            return limit_exceeded(refusal.to_string()).with_code(Code::ResourceExhausted);
        }
        CommandRejection::NamespaceNotFound(_) => Reason::NamespaceNotFound,
        CommandRejection::SequenceExhausted(_) => Reason::SequenceExhausted,
        CommandRejection::JumpTooLarge { .. } => Reason::JumpTooLarge,
        CommandRejection::Invalid(_) => Reason::Invalid,
        CommandRejection::Ids(rejection) => return from_id_rejection(rejection),
        CommandRejection::AlreadyInitialized(_)
        | CommandRejection::NotOwner { .. }
        | CommandRejection::StaleGeneration { .. } => Reason::Rejected,
    };
    RpcError::new(reason, refusal.to_string())
}

/// Returns the answer to a command while there is no store time.
pub(crate) fn no_time(why: NoTime) -> RpcError {
    match why {
        NoTime::Settling => {
            let text =
                "the new leader has not read the clocks of the other stores yet; retry".to_owned();
            RpcError::new(Reason::ClockSuspect, text).with_retry_after_ms(FULL_RETRY_AFTER_MS)
        }
        NoTime::Suspect(suspect) => {
            let text = format!(
                "the clocks of the stores show {}, more than 30 days after the last time of the cluster; correct them, or run `seqsvr id clock accept` if they are right",
                format_utc_ms(suspect.agreed_ns / NS_PER_MS)
            );
            RpcError::new(Reason::ClockSuspect, text)
        }
    }
}

fn from_id_rejection(rejection: &IdsRejection) -> RpcError {
    use IdsRejectionCause as Cause;
    let (reason, code) = match rejection.cause {
        Cause::LevelTooLow => (Reason::LevelTooLow, None),
        Cause::FamilyNotFound => (Reason::FamilyNotFound, None),
        Cause::FamilyExists => (Reason::Rejected, Some(Code::AlreadyExists)),
        Cause::FamilyFrozen | Cause::TimeWasSet => (Reason::Rejected, None),
        Cause::FloorTooFar => (Reason::JumpTooLarge, None),
        Cause::NoWorker => (Reason::NoWorker, None),
        Cause::WorkerHeld => (Reason::NoWorker, Some(Code::AlreadyExists)),
        Cause::StaleWorker => (Reason::StaleWorker, None),
        Cause::TooFarAhead => (Reason::TooFarAhead, None),
        Cause::TimeExhausted => (Reason::TimeExhausted, None),
        Cause::TooManyFamilies | Cause::TooManyWorkers => {
            (Reason::LimitExceeded, Some(Code::ResourceExhausted))
        }
    };
    let wait_ms = rejection.retry_after_ms.unwrap_or(0);
    let error = RpcError::new(reason, rejection.to_string());
    let code = code.unwrap_or(error.code);
    error
        .with_code(code)
        .with_retry_after_ms(u32::try_from(wait_ms).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_tables_are_no_mistakes_of_the_caller() {
        let sessions = from_refusal(&CommandRejection::TooManySessions);
        assert_eq!(sessions.reason(), Reason::Overloaded);
        assert!(sessions.detail.retry_after_ms > 0, "no hint: {sessions}");
        let namespaces = from_refusal(&CommandRejection::TooManyNamespaces);
        assert_eq!(namespaces.reason(), Reason::LimitExceeded);
        for fault in [sessions, namespaces] {
            assert_eq!(fault.code, Code::ResourceExhausted, "{fault}");
            assert!(fault.message.contains("4096"), "{fault}");
        }
    }
}
