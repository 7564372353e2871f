//! Namespaces of names, for versions 3 and 5.

use uuid::Uuid;

use crate::InputError;

/// Parses `dns`, `url`, `oid` or `x500`, the namespaces of RFC 9562, or a UUID of one's own.
///
/// # Errors
/// The text is neither.
pub fn parse_namespace(text: &str) -> Result<Uuid, InputError> {
    match text {
        "dns" => Ok(Uuid::NAMESPACE_DNS),
        "url" => Ok(Uuid::NAMESPACE_URL),
        "oid" => Ok(Uuid::NAMESPACE_OID),
        "x500" => Ok(Uuid::NAMESPACE_X500),
        _ => Uuid::parse_str(text).map_err(|error| {
            InputError(format!(
                "namespace {text:?} is not dns, url, oid or x500, and no UUID: {error}; use for \
                 example dns or 6ba7b810-9dad-11d1-80b4-00c04fd430c8"
            ))
        }),
    }
}
