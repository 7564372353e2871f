//! Locates keys: their section and their place in it.

use seqsvr_core::geometry::{GeometryKind, KEY_MAX};
use seqsvr_core::ids::{SectionKey, Uid};
use seqsvr_core::key::KeyRef;
use seqsvr_core::namespace::Namespace;
use seqsvr_core::section::CounterKey;

/// Returns the section of a key, and the index of a uid in a dense section; None if the key does
/// not belong to the namespace.
#[inline]
pub(super) fn locate_key(key: KeyRef<'_>, namespace: &Namespace) -> Option<(SectionKey, u32)> {
    let geometry = &namespace.spec.geometry;
    let section = match (geometry.kind(), key) {
        (GeometryKind::Dense, KeyRef::Uid(uid)) => return locate_uid(Uid(uid), namespace),
        (GeometryKind::Dense, KeyRef::Key(_)) => return None,
        (GeometryKind::Keyed, KeyRef::Uid(uid)) => {
            let mut text = [0; DECIMAL_DIGITS_MAX];
            geometry.locate_key(write_decimal(uid, &mut text))?
        }
        (GeometryKind::Keyed, KeyRef::Key(key)) => {
            let whole = (1..=KEY_MAX).contains(&key.len());
            whole.then(|| geometry.locate_key(key))??
        }
    };
    let namespace = namespace.id;
    Some((SectionKey { namespace, section }, 0))
}

/// Returns the section and the index of a uid in a dense namespace.
#[inline]
pub(super) fn locate_uid(uid: Uid, namespace: &Namespace) -> Option<(SectionKey, u32)> {
    let (section, index) = namespace.spec.geometry.locate_uid(uid)?;
    let namespace = namespace.id;
    Some((SectionKey { namespace, section }, index))
}

/// Calls `then` with the key within its section.
#[inline]
pub(super) fn with_section_key<T>(
    key: KeyRef<'_>,
    namespace: &Namespace,
    index: u32,
    then: impl FnOnce(CounterKey<'_>) -> T,
) -> T {
    match (namespace.spec.geometry.kind(), key) {
        (GeometryKind::Dense, _) => then(CounterKey::Dense(index)),
        (GeometryKind::Keyed, KeyRef::Uid(uid)) => then(CounterKey::Keyed(write_decimal(
            uid,
            &mut [0; DECIMAL_DIGITS_MAX],
        ))),
        (GeometryKind::Keyed, KeyRef::Key(key)) => then(CounterKey::Keyed(key)),
    }
}

/// Digits of the greatest u64.
pub(super) const DECIMAL_DIGITS_MAX: usize = 20;

/// Writes the decimal text of a uid, which is its key in a keyed namespace, without allocating.
pub(super) fn write_decimal(uid: u64, text: &mut [u8; DECIMAL_DIGITS_MAX]) -> &[u8] {
    let mut at = DECIMAL_DIGITS_MAX;
    let mut rest = uid;
    loop {
        at -= 1;
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return &text[at..];
        }
    }
}
