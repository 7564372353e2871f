//! Key of a request, and its namespace.

use seqsvr_core::key::KeyRef;

use crate::key::KeyBuf;
use crate::v1;

/// Request with a `uid` or `key`.
pub trait RequestKey {
    /// Returns the key; None if the request has neither.
    fn key_ref(&self) -> Option<KeyRef<'_>>;
}

macro_rules! impl_request_key {
    ($message:ident, $module:ident) => {
        impl RequestKey for v1::$message {
            fn key_ref(&self) -> Option<KeyRef<'_>> {
                Some(match self.key_kind.as_ref()? {
                    v1::$module::KeyKind::Uid(uid) => KeyRef::Uid(*uid),
                    v1::$module::KeyKind::Key(key) => KeyRef::Key(key),
                })
            }
        }

        impl From<KeyBuf> for v1::$module::KeyKind {
            fn from(key: KeyBuf) -> v1::$module::KeyKind {
                match key {
                    KeyBuf::Uid(uid) => v1::$module::KeyKind::Uid(uid),
                    KeyBuf::Key(key) => v1::$module::KeyKind::Key(key),
                }
            }
        }
    };
}

impl_request_key!(NextRequest, next_request);
impl_request_key!(CurrentRequest, current_request);
impl_request_key!(RaiseToRequest, raise_to_request);

/// Returns the namespace of a request: an empty name is `default` for a uid and `keys` for a key.
pub fn namespace_name<'a>(name: &'a str, key: KeyRef<'_>) -> &'a str {
    match (name, key) {
        ("", KeyRef::Uid(_)) => seqsvr_core::namespace::DEFAULT_NAMESPACE,
        ("", KeyRef::Key(_)) => seqsvr_core::namespace::DEFAULT_KEYED_NAMESPACE,
        (name, _) => name,
    }
}
