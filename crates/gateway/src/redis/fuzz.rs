//! Arbitrary bytes as those of a Redis client: read in one piece and in many, they are the same
//! requests, and each has its place in a go.

use bytes::BytesMut;

use super::about::About;
use super::go::Go;
use super::request::{Broken, Requests};
use super::session::Session;

/// Reads requests; the first byte is the length of the pieces.
pub(crate) fn requests(data: &[u8]) {
    let Some((&piece, data)) = data.split_first() else {
        return;
    };
    let mut all = BytesMut::from(data);
    let mut whole = Requests::default();
    let broken = whole.read(&mut all, usize::MAX).err();

    let mut arrived = BytesMut::new();
    let (mut pieces, mut failed) = (Requests::default(), None::<Broken>);
    for piece in data.chunks(usize::from(piece).max(1)) {
        arrived.extend_from_slice(piece);
        failed = failed.or_else(|| pieces.read(&mut arrived, usize::MAX).err());
    }
    assert_eq!((whole.len(), whole.end()), (pieces.len(), pieces.end()));
    assert_eq!(broken, failed);

    let about = About::new(None);
    let session = Session::new(&about, ([127, 0, 0, 1], 1).into());
    let mut next = 0;
    while next < whole.len() {
        let mut go = Go::with_capacity(whole.len());
        let first = next;
        while next < whole.len() {
            let words: Vec<&[u8]> = whole.words(next, &all).collect();
            assert!(words.iter().copied().eq(pieces.words(next, &arrived)));
            if !words.is_empty() && !go.add(&words, &session) {
                break;
            }
            next += 1;
        }
        assert!(next > first, "a command that is of no go");
    }
}
