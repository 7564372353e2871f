//! Encoding of ids, votes and entries in the log files: each value is a frame of its own.

use std::io;

use raft_log::codeq::{Decode, Encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::done::Done;
use crate::frame::{self, Leveled};
use crate::identity::Identity;
use crate::types::{LogId, Payload, Vote};

/// A value stored as a frame.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Framed<T>(pub(crate) T);

impl<T: Serialize + Leveled> Encode for Framed<T> {
    fn encode<W: io::Write>(&self, mut writer: W) -> io::Result<usize> {
        let bytes = frame::encode_at(self.0.level(), &self.0)?;
        writer.write_all(&bytes)?;
        Ok(bytes.len())
    }
}

impl<T: DeserializeOwned> Decode for Framed<T> {
    fn decode<R: io::Read>(mut reader: R) -> io::Result<Self> {
        frame::read(&mut reader).map(Framed)
    }
}

/// Types of the values in our log. User data is the identity that wrote the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kinds;

impl raft_log::Types for Kinds {
    type LogId = Framed<LogId>;
    type LogPayload = Framed<Payload>;
    type Vote = Framed<Vote>;
    type Callback = Done;
    type UserData = Framed<Identity>;

    fn log_index(log_id: &Self::LogId) -> u64 {
        log_id.0.index
    }

    fn payload_size(payload: &Self::LogPayload) -> u64 {
        frame::body_len(&payload.0) as u64
    }
}
