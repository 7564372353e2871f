//! The command lines of `seqsvr cert` and `seqsvr auth`.

mod auth;
mod cert;

pub(super) use auth::AUTH_HELP;
pub(crate) use auth::{
    AddAuthArgs, AnyRight, AuthCommand, CanAuthArgs, CheckAuthArgs, ListAuthArgs, RemoveAuthArgs,
};
pub(super) use cert::CERT_HELP;
pub(crate) use cert::{CertCommand, InitCertArgs, ShowCertArgs, UserCertArgs};
