//! Arbitrary bytes as those of a Redis client: the parser reads the same requests from one piece
//! and from many, and each command fits into a batch.

use bytes::BytesMut;
use seqsvr_access::{Access, Credentials};

use super::command_batch::CommandBatch;
use super::parser::{ProtocolError, RequestParser};

/// Parses requests and plans their batches; the first byte is the length of the pieces.
pub(crate) fn fuzz_requests(data: &[u8]) {
    let Some((&piece, data)) = data.split_first() else {
        return;
    };
    let mut all = BytesMut::from(data);
    let mut at_once = RequestParser::default();
    let error = at_once.parse(&mut all, usize::MAX).err();

    let mut arrived = BytesMut::new();
    let (mut in_pieces, mut error_in_pieces) = (RequestParser::default(), None::<ProtocolError>);
    for piece in data.chunks(usize::from(piece).max(1)) {
        arrived.extend_from_slice(piece);
        error_in_pieces =
            error_in_pieces.or_else(|| in_pieces.parse(&mut arrived, usize::MAX).err());
    }
    assert_eq!(
        (at_once.request_count(), at_once.complete_bytes()),
        (in_pieces.request_count(), in_pieces.complete_bytes())
    );
    assert_eq!(error, error_in_pieces);

    let shown = Credentials::Plaintext([127, 0, 0, 1].into());
    let caller = Access::by_role().judge(shown).ok();
    let mut index = 0;
    while index < at_once.request_count() {
        let mut batch = CommandBatch::with_capacity(at_once.request_count(), caller.as_ref());
        let first = index;
        while index < at_once.request_count() {
            let words: Vec<&[u8]> = at_once.request_words(index, &all).collect();
            assert!(
                words
                    .iter()
                    .copied()
                    .eq(in_pieces.request_words(index, &arrived))
            );
            if !words.is_empty() && !batch.try_add(&words) {
                break;
            }
            index += 1;
        }
        assert!(index > first, "an empty batch rejects a command");
    }
}
