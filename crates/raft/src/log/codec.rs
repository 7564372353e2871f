//! Encoding of ids, votes and entries in the log files: each value is a record of its own.

use std::io;

use raft_log::codeq::{Decode, Encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::flush_callback::FlushCallback;
use crate::record::{self, HasFormatLevel};
use crate::storage::identity::NodeIdentity;
use crate::types::{LogId, Payload, Vote};

/// A value stored as a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StoredValue<T>(pub(crate) T);

impl<T: Serialize + HasFormatLevel> Encode for StoredValue<T> {
    fn encode<W: io::Write>(&self, mut writer: W) -> io::Result<usize> {
        let bytes = record::encode_at_level(self.0.format_level(), &self.0)?;
        writer.write_all(&bytes)?;
        Ok(bytes.len())
    }
}

impl<T: DeserializeOwned> Decode for StoredValue<T> {
    fn decode<R: io::Read>(mut reader: R) -> io::Result<Self> {
        record::read_value(&mut reader).map(StoredValue)
    }
}

/// Types of the values in the log of a node. User data is the identity that wrote the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogTypes;

impl raft_log::Types for LogTypes {
    type LogId = StoredValue<LogId>;
    type LogPayload = StoredValue<Payload>;
    type Vote = StoredValue<Vote>;
    type Callback = FlushCallback;
    type UserData = StoredValue<NodeIdentity>;

    fn log_index(log_id: &Self::LogId) -> u64 {
        log_id.0.index
    }

    fn payload_size(payload: &Self::LogPayload) -> u64 {
        record::encoded_len(&payload.0) as u64
    }
}
