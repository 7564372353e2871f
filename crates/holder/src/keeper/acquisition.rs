//! An acquisition, which is repeated unchanged until it is answered.

use bytes::Bytes;
use seqsvr_proto::convert::u128_to_bytes;

use super::kept_worker::KeptWorker;

/// What an acquisition is repeated with.
pub(crate) struct Acquisition {
    pub(crate) nonce: Bytes,
    pub(crate) name: String,
    /// Place of the worker among those of this process.
    pub(crate) place: usize,
}

impl Acquisition {
    /// Returns another acquisition of the holder `name`, beside the workers that it keeps. In a
    /// sticky family each worker has a name of its own, by which it is found again.
    pub(crate) fn new(name: &str, is_sticky: bool, kept: &[KeptWorker]) -> Acquisition {
        let is_taken = |place: &usize| kept.iter().any(|k| !k.is_lost && k.place == *place);
        let place = (0..kept.len()).find(|place| !is_taken(place));
        let place = place.unwrap_or(kept.len());
        let (high, low) = (seqsvr_os::random_u64(), seqsvr_os::random_u64());
        let nonce = u128::from(high) << 64 | u128::from(low);
        Acquisition {
            // 0 is none.
            nonce: u128_to_bytes(nonce.max(1)),
            name: match place {
                1.. if is_sticky => format!("{name}#{}", place + 1),
                _ => name.to_owned(),
            },
            place,
        }
    }
}
