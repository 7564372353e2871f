//! A worker as its keeper knows it.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use crate::held_worker::HeldWorker;

/// A worker as its keeper knows it.
pub(crate) struct KeptWorker {
    pub(crate) held: Arc<HeldWorker>,
    /// Nonce of its acquisition.
    pub(crate) nonce: Bytes,
    /// Place among the workers of this process, which is a part of its name in a sticky family.
    pub(crate) place: usize,
    /// Its epoch has passed: what is left of the grant is used, and never renewed.
    pub(crate) is_lost: bool,
    pub(crate) is_renewing: bool,
    pub(crate) renew_at: Instant,
    /// First unused tick when the worker was last seen in use, and that moment.
    pub(crate) used: (u64, Instant),
}
