//! The paths of Leaf and Tinyid, for clients of these services.

mod leaf;
mod spring_error;
mod tag_request;
mod tinyid;

use std::sync::Arc;

use axum::Router;
use seqsvr_net::LocalSequence;

use super::memory_limit::MemoryLimit;

/// Returns the routes of Leaf and Tinyid.
pub(super) fn compat_routes<S: LocalSequence>(sequence: Arc<S>, memory: MemoryLimit) -> Router {
    leaf::leaf_routes(sequence.clone()).merge(tinyid::tinyid_routes(sequence, memory))
}
