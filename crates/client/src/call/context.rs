//! What a call needs of its client.

use std::sync::Arc;
use std::time::Duration;

use crate::client_core::ClientCore;

/// Shared state and settings with which a client makes its calls.
#[derive(Clone)]
pub(crate) struct CallContext {
    pub(crate) core: Arc<ClientCore>,
    pub(crate) deadline: Duration,
    /// The store confirms every answer.
    pub(crate) strict: bool,
}
