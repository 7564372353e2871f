//! Test doubles and helpers of this target.

pub(crate) mod cuttable_link;
pub(crate) mod harness;
pub(crate) mod history;
pub(crate) mod memory_net;
pub(crate) mod test_clock;
