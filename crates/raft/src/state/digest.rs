//! Digest over a set of rows: the sum of one 128-bit hash a row, so one changed row is one update.
//!
//! It detects disks and file systems that lose or mix writes; it does not stop forgers.

use std::io;

use seqsvr_core::state::{RowKey, StateRow};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

/// Digest of a set of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RowsDigest(u128);

impl RowsDigest {
    /// Returns the digest of one row.
    pub(crate) fn of_row(key: &RowKey, row: &StateRow) -> io::Result<RowsDigest> {
        let bytes = bincode::serde::encode_to_vec((key, row), bincode::config::standard())
            .map_err(io::Error::other)?;
        Ok(RowsDigest(xxh3_128(&bytes)))
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> RowsDigest {
        RowsDigest(u128::from_be_bytes(bytes))
    }

    pub(crate) fn add(&mut self, row: RowsDigest) {
        self.0 = self.0.wrapping_add(row.0);
    }

    pub(crate) fn remove(&mut self, row: RowsDigest) {
        self.0 = self.0.wrapping_sub(row.0);
    }
}
