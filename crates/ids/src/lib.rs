//! Ids that carry the time in which they were made, without a store.
//!
//! What it may not know: disks, networks, tasks, the replicated state. Every reading of a clock
//! comes in as an argument.
