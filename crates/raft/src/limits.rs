//! Bounds on members, addresses and sizes.

/// Longest address of a node, in bytes.
pub(crate) const ADDRESS_BYTES_MAX: usize = 256;
/// Most members of a group, so that the stored membership stays under 4 KiB.
pub const MEMBERS_MAX: usize = 9;
/// Longest encoded batch, in bytes. The proposer stays under half of it.
pub(crate) const BATCH_BYTES_MAX: usize = 128 << 10;
/// Most entries of one append call.
pub(crate) const ENTRIES_PER_APPEND_MAX: u64 = 64;
/// Bytes of entries in one append call; the last entry may pass it. Otherwise a call on a slow link
/// could take longer than its timeout, and the same entries would be sent again without an end.
pub(crate) const APPEND_BYTES_MAX: usize = 256 << 10;
