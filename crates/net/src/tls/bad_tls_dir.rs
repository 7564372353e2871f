//! The error of a directory for TLS.

/// A directory for TLS that cannot be used; the text says why, and what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadTlsDir(pub(super) String);
