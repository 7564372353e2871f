//! A service in the same process, for those whose callers ask for one number after the other.

use seqsvr_core::route::KeyRef;

use crate::v1::NextResponse;
use crate::v1::sequence_server::Sequence;

/// A [`Sequence`] that is a function call away.
pub trait LocalSequence: Sequence {
    /// Takes `count` numbers of a key, at once, if this process owns it and has them in memory; without news of
    /// routes. None: a call finds out why not, and what to do. An empty namespace is that of the key's kind.
    fn take(&self, namespace: &str, key: KeyRef<'_>, count: u32) -> Option<NextResponse>;
}
