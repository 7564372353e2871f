//! The error of a directory for TLS, and of its files.

/// A directory for TLS, or a file, that cannot be used; the text says why, and what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadTlsDir(pub(super) String);
