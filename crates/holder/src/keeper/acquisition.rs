//! An acquisition, which is repeated unchanged until it is answered.

use std::io;

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
    ///
    /// # Errors
    /// The system provides no randomness. A nonce that a forked child draws as well would give both
    /// one grant.
    pub(crate) fn new(name: &str, is_sticky: bool, kept: &[KeptWorker]) -> io::Result<Self> {
        let is_taken = |place: &usize| kept.iter().any(|k| !k.is_lost && k.place == *place);
        let place = (0..kept.len()).find(|place| !is_taken(place));
        let place = place.unwrap_or(kept.len());
        Ok(Acquisition {
            // 0 is none.
            nonce: u128_to_bytes(seqsvr_os::unique_u128()?.max(1)),
            name: match place {
                1.. if is_sticky => format!("{name}#{}", place + 1),
                _ => name.to_owned(),
            },
            place,
        })
    }
}
