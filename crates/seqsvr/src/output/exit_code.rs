//! Exit codes for scripts: 0 success; 1 failed or rejected; 2 bad input (clap's own code); 3 no
//! server was reachable, or the command timed out, or a server had no lease, no store or no room at
//! the moment, so that a retry makes sense. Servers of different clusters are bad input: the
//! addresses are wrong.

use std::io;

use seqsvr_bench::InvalidSettings;
use seqsvr_client::{Code, Error, ErrorKind};
use seqsvr_ids::InputError;
use seqsvr_net::with_open_files_remedy;

use crate::output::log;

/// Exit code of a command that failed or that a server rejected.
pub(crate) const FAILED_CODE: i32 = 1;
/// Exit code of bad input.
pub(crate) const BAD_INPUT_CODE: i32 = 2;
/// Exit code of a command that no server answered in time, or that none was able to serve at the
/// moment; a retry makes sense.
pub(crate) const UNAVAILABLE_CODE: i32 = 3;

/// Bad input that was found before any request was sent.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadInput(pub(crate) String);

/// Returns the error of a file or directory, named by the operator, that cannot be read. It is bad
/// input, after which a service manager does not start the process again, only if its name, its
/// mode or its content causes it. A disk that fails, or a lack of descriptors, may be over at the
/// next start.
pub(crate) fn unreadable_input(what: &str, cause: &io::Error, advice: &str) -> anyhow::Error {
    use io::ErrorKind;
    match cause.kind() {
        ErrorKind::NotFound
        | ErrorKind::PermissionDenied
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::InvalidInput
        | ErrorKind::InvalidData => {
            BadInput(format!("{what}: cannot be read: {cause}; {advice}")).into()
        }
        _ => anyhow::anyhow!(
            "{what}: cannot be read: {cause}; the system log may have the reason; once it can be read, start this process again"
        ),
    }
}

/// A server that cannot be reached, or that does not answer in time.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ServerUnavailable(pub(crate) String);

/// Prints the error as the last line and ends the process with its exit code. Advice on bad input
/// and on a wrong setting may have several lines; any other error may have text that a server sent.
pub(crate) fn report_and_exit(error: &anyhow::Error) -> ! {
    let text = with_open_files_remedy(format!("{error:#}"));
    match error.is::<BadInput>() || is_wrong_setting(error) {
        true => log::exit_with_advice(text, exit_code(error)),
        false => log::exit_with_error(text, exit_code(error)),
    }
}

/// Returns the exit code of an error.
fn exit_code(error: &anyhow::Error) -> i32 {
    if error.is::<BadInput>() || error.is::<InputError>() || error.is::<InvalidSettings>() {
        return BAD_INPUT_CODE;
    }
    if is_wrong_setting(error) {
        return BAD_INPUT_CODE;
    }
    if error.is::<ServerUnavailable>() {
        return UNAVAILABLE_CODE;
    }
    let failure = error.downcast_ref::<Error>();
    if failure.is_some_and(|failure| failure.kind() == ErrorKind::ClusterMismatch) {
        return BAD_INPUT_CODE;
    }
    match failure.map(Error::code) {
        // UNIMPLEMENTED: the address is that of another kind of server.
        Some(Code::InvalidArgument | Code::NotFound | Code::OutOfRange | Code::Unimplemented) => {
            BAD_INPUT_CODE
        }
        // A limit that stays reached, such as that of namespaces, has no time to retry after.
        Some(Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted)
            if failure.is_some_and(Error::is_retryable) =>
        {
            UNAVAILABLE_CODE
        }
        _ => FAILED_CODE,
    }
}

/// Returns whether a server does not start because of a setting.
fn is_wrong_setting(error: &anyhow::Error) -> bool {
    let store = error.downcast_ref::<seqsvr_store::Error>();
    let alloc = error.downcast_ref::<seqsvr_alloc::Error>();
    store.is_some_and(seqsvr_store::Error::is_wrong_setting)
        || alloc.is_some_and(seqsvr_alloc::Error::is_wrong_setting)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;
    use seqsvr_proto::error::RpcError;
    use seqsvr_proto::v1::Reason;

    use super::*;

    #[test]
    fn rejection_is_code_3_only_if_the_same_command_may_succeed_later() {
        let rejection = |reason| RpcError::new(reason, "");
        let full = rejection(Reason::LimitExceeded).with_code(Code::ResourceExhausted);
        for (rejection, code) in [
            (rejection(Reason::NoLease), UNAVAILABLE_CODE),
            (rejection(Reason::WindowExhausted), UNAVAILABLE_CODE),
            (
                rejection(Reason::Overloaded).with_retry_after_ms(20),
                UNAVAILABLE_CODE,
            ),
            (full, FAILED_CODE),
            (rejection(Reason::LimitExceeded), BAD_INPUT_CODE),
        ] {
            let error = anyhow::Error::from(Error::from(rejection));
            assert_eq!(exit_code(&error), code, "{error:?}");
        }
    }

    /// Schedule: a disk fails for a moment, or descriptors are short, while a server starts. After
    /// exit code 2 its unit stays down.
    #[test]
    fn failing_disk_is_no_bad_input() {
        for (errno, code) in [
            (Errno::IO, FAILED_CODE),
            (Errno::MFILE, FAILED_CODE),
            (Errno::NFILE, FAILED_CODE),
            (Errno::NOENT, BAD_INPUT_CODE),
            (Errno::ACCESS, BAD_INPUT_CODE),
            (Errno::NOTDIR, BAD_INPUT_CODE),
        ] {
            let error = unreadable_input("--data-dir /d", &errno.into(), "name another");
            assert_eq!(exit_code(&error), code, "{error}");
            let text = error.to_string();
            assert!(
                text.starts_with("--data-dir /d: cannot be read: "),
                "{text}"
            );
            assert_eq!(
                text.contains("name another"),
                code == BAD_INPUT_CODE,
                "{text}"
            );
        }
    }
}
