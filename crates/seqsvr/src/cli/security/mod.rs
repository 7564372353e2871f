//! The command lines of commands about who may call.

mod cert;

pub(super) use cert::CERT_HELP;
pub(crate) use cert::{CertCommand, InitCertArgs, ShowCertArgs, UserCertArgs};
