//! Properties and items of a frame, as callers give them.

use seqsvr_proto::limits::ITEMS_MAX;

use crate::batch_item::BatchItemKey;

/// Maximum items of a frame: as many as a server answers at one time. A longer batch is split.
pub(crate) const FRAME_ITEMS_MAX: usize = 1_024;
/// Maximum ids of a frame. A call for more takes several.
pub(crate) const FRAME_IDS_MAX: usize = ITEMS_MAX;

/// Properties that the items of one frame have in common.
#[derive(Clone, Copy)]
pub(crate) struct FrameKey<'a> {
    pub(crate) operation: PipeOperation,
    /// Namespace of the keys, or family of the ids.
    pub(crate) namespace: &'a str,
    /// The items are keys, not uids.
    pub(crate) keyed: bool,
    pub(crate) strict: bool,
    /// Version of the table by which the items were located; 0 for ids.
    pub(crate) table_version: u64,
}

/// Operation that all items of a frame request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PipeOperation {
    Next,
    Current,
    /// Each item is one id. A call for several has neighboring items.
    Ids,
}

/// One item of a frame.
#[derive(Clone, Copy)]
pub(crate) struct FrameItem<'a> {
    pub(crate) key: BatchItemKey<'a>,
    /// Numbers that the item takes; 0 for `current`.
    pub(crate) count: u32,
    /// Last number that the caller has seen; 0: none.
    pub(crate) floor: u64,
    /// Highest epoch seen of the slot; 0: none.
    pub(crate) epoch: u64,
}
