//! Progress of a request on the slow path.

use std::collections::HashMap;

use seqsvr_proto::error::RpcError;

use crate::batch::item::ItemAnswer;
use crate::slow_path::wait_key::{PendingReason, WaitKey};

/// Answers of a request so far, and what its other items wait for.
#[derive(Default)]
pub(crate) struct RequestProgress {
    pub(crate) answers: Vec<Option<Result<ItemAnswer, RpcError>>>,
    /// Items that are tried in the next round.
    pub(crate) open_items: Vec<u32>,
    /// Reasons why items are not answered yet.
    pub(crate) pending_reasons: HashMap<u32, PendingReason>,
    /// Answers taken for strict items, which wait for a confirmation.
    pub(crate) awaiting_confirmation: HashMap<u32, ItemAnswer>,
    /// Whether a renewal for a newer table was requested.
    pub(crate) is_renewed: bool,
    /// Items that wait, by what they wait for.
    pub(crate) waiting_items: HashMap<WaitKey, Vec<u32>>,
}
