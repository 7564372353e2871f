//! The cryptography of TLS. Nothing else names its provider.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};

/// Versions of TLS that are spoken.
pub(super) const VERSIONS: [&rustls::SupportedProtocolVersion; 1] = [&rustls::version::TLS13];

/// Returns the provider.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
