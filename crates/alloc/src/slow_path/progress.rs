//! What has become of the items of a request so far.

use std::collections::HashMap;

use seqsvr_proto::error::Fault;

use crate::batch::item::ItemAnswer;
use crate::slow_path::wait_key::{PendingReason, WaitKey};

/// What has become of a request's items so far.
#[derive(Default)]
pub(crate) struct RequestProgress {
    pub(crate) answers: Vec<Option<Result<ItemAnswer, Fault>>>,
    /// Why an item is not answered yet.
    pub(crate) pending_reasons: HashMap<u32, PendingReason>,
    /// Taken for strict items, and waiting for a confirmation.
    pub(crate) awaiting_confirmation: HashMap<u32, ItemAnswer>,
    /// Whether the store was asked for a newer table.
    pub(crate) is_renewed: bool,
    /// Items found to wait, by what they wait for.
    pub(crate) waiting_items: HashMap<WaitKey, Vec<u32>>,
}
