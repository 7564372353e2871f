//! Entry points of a fuzzer (`cargo xtask fuzz`): any bytes as what a gRPC caller sends.

use prost::Message;

use crate::entry_scanner::EntryScanner;
use seqsvr_proto::v1::{CurrentManyRequest, NextManyRequest, PipeRequest};

/// Checks that bytes read in one piece and in many give the same, and that a message that passes
/// takes no more memory than counted. The first byte selects the kind of call and the length of
/// pieces.
pub fn entries(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else {
        return;
    };
    let frames = first & 1 == 1;
    let whole = EntryScanner::new(frames).read(data);
    let mut pieces = EntryScanner::new(frames);
    let mut parts = data.chunks(usize::from(first >> 1).max(1));
    let sum = parts.try_fold(0, |sum, piece| pieces.read(piece).map(|kept| sum + kept));
    assert_eq!(whole.as_ref().ok(), sum.as_ref().ok());
    // Only for one message that came whole; the decoder rejects others.
    if let (Ok(kept), Some((prefix, message))) = (whole, data.split_first_chunk::<5>())
        && u64::from_be_bytes([
            0, 0, 0, prefix[0], prefix[1], prefix[2], prefix[3], prefix[4],
        ]) == message.len() as u64
    {
        check(frames, message, kept);
    }
}

fn check(frames: bool, message: &[u8], kept: usize) {
    let most = kept + message.len() * 2;
    let keys = match frames {
        true => PipeRequest::decode(message).map_or(0, |frame| match frame.operation {
            Some(seqsvr_proto::v1::pipe_request::Operation::Next(next)) => next.keys.len(),
            Some(seqsvr_proto::v1::pipe_request::Operation::Current(current)) => current.keys.len(),
            Some(seqsvr_proto::v1::pipe_request::Operation::Ids(_)) | None => 0,
        }),
        false => {
            let next = NextManyRequest::decode(message).map_or(0, |next| next.keys.len());
            let current = CurrentManyRequest::decode(message);
            next.max(current.map_or(0, |current| current.keys.len()))
        }
    };
    assert!(
        keys * size_of::<bytes::Bytes>() <= most,
        "{keys} keys of {most} bytes"
    );
}
