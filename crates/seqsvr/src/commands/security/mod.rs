//! Commands about who may call: certificates, and callers with tokens.

pub(super) mod auth;
pub(super) mod cert;
