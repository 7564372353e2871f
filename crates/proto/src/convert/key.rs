//! Key of a request, and its namespace.

use seqsvr_core::ids::Uid;
use seqsvr_core::routing_table::KeyRef;

use crate::v1;

/// Request with a `uid` or `key`.
pub trait RequestKey {
    /// Returns the key; None if the request has neither.
    fn key_ref(&self) -> Option<KeyRef<'_>>;
}

macro_rules! impl_request_key {
    ($message:ty, $uid:path, $key:path) => {
        impl RequestKey for $message {
            fn key_ref(&self) -> Option<KeyRef<'_>> {
                match self.key_kind.as_ref()? {
                    $uid(uid) => Some(KeyRef::Uid(Uid(*uid))),
                    $key(key) => Some(KeyRef::Key(key)),
                }
            }
        }
    };
}

impl_request_key!(
    v1::NextRequest,
    v1::next_request::KeyKind::Uid,
    v1::next_request::KeyKind::Key
);
impl_request_key!(
    v1::CurrentRequest,
    v1::current_request::KeyKind::Uid,
    v1::current_request::KeyKind::Key
);
impl_request_key!(
    v1::RaiseToRequest,
    v1::raise_to_request::KeyKind::Uid,
    v1::raise_to_request::KeyKind::Key
);

/// Returns the namespace of a request: an empty name is `default` for a uid and `keys` for a key.
pub fn namespace_name<'a>(name: &'a str, key: KeyRef<'_>) -> &'a str {
    match (name, key) {
        ("", KeyRef::Uid(_)) => seqsvr_core::namespace::DEFAULT_NAMESPACE,
        ("", KeyRef::Key(_)) => seqsvr_core::namespace::DEFAULT_KEYED_NAMESPACE,
        (name, _) => name,
    }
}
