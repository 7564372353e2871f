//! Codec that reads each message from one piece of memory.
//!
//! tonic's own decoder reads a message out of its growing buffer, and does the bookkeeping of that
//! buffer once for every entry of a column. This codec cuts the message off first, with one count
//! of references, so the bookkeeping is done once for a message.

use std::marker::PhantomData;

use bytes::Buf;
use prost::Message;
use tonic::Status;
use tonic::codec::{DecodeBuf, Decoder};
use tonic_prost::ProstEncoder;

/// The codec of all services.
#[derive(Clone, Debug)]
pub(crate) struct MessageCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for MessageCodec<T, U> {
    fn default() -> MessageCodec<T, U> {
        MessageCodec(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for MessageCodec<T, U>
where
    T: Message + 'static,
    U: Message + Default + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ContiguousDecoder<U>;

    fn encoder(&mut self) -> ProstEncoder<T> {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> ContiguousDecoder<U> {
        ContiguousDecoder(PhantomData)
    }
}

/// Reads messages.
#[derive(Clone, Debug)]
pub struct ContiguousDecoder<U>(pub(crate) PhantomData<U>);

impl<U: Message + Default> Decoder for ContiguousDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let message = buf.copy_to_bytes(buf.remaining());
        // This is the error of tonic's own codec.
        let decoded = U::decode(message).map_err(|error| Status::internal(error.to_string()))?;
        Ok(Some(decoded))
    }
}
