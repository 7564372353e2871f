//! Helpers of the tests.

pub(crate) mod cuttable_links;
pub(crate) mod running_node;
