//! An answer that is encoded once and sent to many callers.

use std::marker::PhantomData;

use bytes::{BufMut, Bytes};
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, EncodeBuf, Encoder};

use crate::codec::ContiguousDecoder;

/// An encoded message; clones share its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedMessage(Bytes);

impl EncodedMessage {
    /// Encodes a message.
    pub fn new(message: &impl Message) -> EncodedMessage {
        EncodedMessage(message.encode_to_vec().into())
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Codec of a method whose answers are encoded already. `U` is its request.
#[derive(Clone, Debug)]
pub struct EncodedMessageCodec<U>(PhantomData<U>);

impl<U> Default for EncodedMessageCodec<U> {
    fn default() -> EncodedMessageCodec<U> {
        EncodedMessageCodec(PhantomData)
    }
}

impl<U: Message + Default + 'static> Codec for EncodedMessageCodec<U> {
    type Encode = EncodedMessage;
    type Decode = U;
    type Encoder = BytesEncoder;
    type Decoder = ContiguousDecoder<U>;

    fn encoder(&mut self) -> BytesEncoder {
        BytesEncoder(())
    }

    fn decoder(&mut self) -> ContiguousDecoder<U> {
        ContiguousDecoder(PhantomData)
    }
}

/// Encoder that copies encoded messages.
#[derive(Clone, Debug)]
pub struct BytesEncoder(());

impl Encoder for BytesEncoder {
    type Item = EncodedMessage;
    type Error = Status;

    fn encode(&mut self, message: EncodedMessage, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(message.0);
        Ok(())
    }
}
