//! What a UUID says.
//!
//! Versions and variants are those of RFC 9562, sections 4 and 5; version 2 is that of DCE 1.1,
//! Authentication and Security Services, section 5.2.1.1.

use uuid::timestamp::UUID_TICKS_BETWEEN_EPOCHS;
use uuid::{Uuid, Variant};

use super::is_plausible_time;

/// Ticks of 100 ns in a millisecond.
const TICKS_PER_MS: u64 = 10_000;
/// Bits of the fraction of a second in the draft of 2021, below 36 bits of seconds.
const DRAFT_FRACTION_BITS: u32 = 24;
/// The bit of a node that no network card has.
const MULTICAST: u8 = 1;

/// A UUID that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UuidReading {
    /// The form of the text: `hyphenated`, `simple`, `braced` or `urn`.
    pub form: &'static str,
    /// The UUID with hyphens, in small letters.
    pub id: String,
    /// What it means by RFC 9562.
    pub meaning: UuidMeaning,
    /// What else it can be, with a time that is plausible.
    pub others: Vec<UuidMeaning>,
}

/// A way to read a UUID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UuidMeaning {
    /// How it is read.
    pub how: &'static str,
    /// Version; None if the variant has none.
    pub version: Option<usize>,
    /// Variant.
    pub variant: &'static str,
    /// What its bits are.
    pub content: &'static str,
    /// Unix time in milliseconds, of versions 1, 2, 6 and 7; None before 1970.
    pub time_ms: Option<u64>,
    /// Further parts, by name.
    pub parts: Vec<(&'static str, String)>,
}

/// Reads a UUID or GUID: 32 hexadecimal digits, or with hyphens, and then in braces or as a URN.
/// Returns None if the text is none.
pub fn read_uuid(text: &str, now_ms: u64) -> Option<UuidReading> {
    let text = text.trim();
    let uuid = Uuid::try_parse(text).ok()?;
    let form = match text.len() {
        32 => "simple",
        36 => "hyphenated",
        38 => "braced",
        _ => "urn",
    };
    let is_plausible = |meaning: &UuidMeaning| {
        let time_ms = meaning.time_ms;
        time_ms.is_some_and(|time_ms| is_plausible_time(time_ms, now_ms))
    };
    let meaning = describe(uuid, "by RFC 9562");
    // A dump of the bytes that Windows holds in memory.
    let swapped = Uuid::from_bytes(uuid.to_bytes_le());
    let swapped = describe(
        swapped,
        "as a GUID whose first three parts are little-endian",
    );
    let mut others = vec![swapped];
    if meaning.version == Some(7) && !is_plausible(&meaning) {
        others.push(describe_draft(uuid));
    }
    others.retain(is_plausible);
    Some(UuidReading {
        form,
        id: uuid.to_string(),
        meaning,
        others,
    })
}

fn describe(uuid: Uuid, how: &'static str) -> UuidMeaning {
    let (variant, version) = match uuid.get_variant() {
        Variant::RFC4122 => ("RFC 9562", Some(uuid.get_version_num())),
        Variant::NCS => ("NCS", None),
        Variant::Microsoft => ("Microsoft", None),
        _ => ("future", None),
    };
    let content = match version {
        _ if uuid.is_nil() => "nil: no id",
        _ if uuid.is_max() => "max: greater than all others",
        None => "the variant has no version",
        Some(1) => "time and node",
        Some(2) => "time, node and a local id (DCE); the time is up to 430 s later",
        Some(3) => "MD5 hash of a name, which cannot be read from it",
        Some(4) => "random bits",
        Some(5) => "SHA-1 hash of a name, which cannot be read from it",
        Some(6) => "time and node, sorted by time",
        Some(7) => "Unix time and random bits",
        Some(8) => "bits of the maker's own",
        Some(_) => "no standard defines this version",
    };
    UuidMeaning {
        how,
        version,
        variant,
        content,
        time_ms: version.and_then(|version| time_of(uuid, version)),
        parts: version.map_or_else(Vec::new, |version| parts_of(uuid, version)),
    }
}

fn time_of(uuid: Uuid, version: usize) -> Option<u64> {
    let (_, middle, high, rest) = uuid.as_fields();
    let uuid = match version {
        // Version 1 with the local id in place of the low bits of the time.
        2 => Uuid::from_fields(0, middle, high & 0xfff | 0x1000, rest),
        _ => uuid,
    };
    let (ticks, _) = uuid.get_timestamp()?.to_gregorian();
    Some(ticks.checked_sub(UUID_TICKS_BETWEEN_EPOCHS)? / TICKS_PER_MS)
}

fn parts_of(uuid: Uuid, version: usize) -> Vec<(&'static str, String)> {
    let (low, _, _, rest) = uuid.as_fields();
    let mut parts = match version {
        1 | 6 => vec![("clock_sequence", count_of(uuid))],
        2 => vec![
            ("local_id", low.to_string()),
            ("domain", name_domain(rest[1])),
            ("clock_sequence", (rest[0] & 0x3f).to_string()),
        ],
        _ => return Vec::new(),
    };
    let node: Vec<_> = rest[2..].iter().map(|byte| format!("{byte:02x}")).collect();
    let owner = match rest[2] & MULTICAST {
        0 => "address of a network card",
        _ => "random",
    };
    parts.extend([("node", node.join(":")), ("node_kind", owner.to_owned())]);
    parts
}

fn name_domain(domain: u8) -> String {
    match ["POSIX user", "POSIX group", "organization"].get(usize::from(domain)) {
        Some(name) => format!("{domain} ({name})"),
        None => domain.to_string(),
    }
}

/// Returns the 14 bits after the variant.
fn count_of(uuid: Uuid) -> String {
    let (.., rest) = uuid.as_fields();
    u16::from_be_bytes([rest[0] & 0x3f, rest[1]]).to_string()
}

/// Describes a UUID by draft 02 of "New UUID Formats" of 2021, in which version 7 counted seconds.
fn describe_draft(uuid: Uuid) -> UuidMeaning {
    let (low, middle, high, _) = uuid.as_fields();
    let time = u128::from(low) << 28 | u128::from(middle) << 12 | u128::from(high & 0xfff);
    let time_ms = (time * 1_000) >> DRAFT_FRACTION_BITS;
    UuidMeaning {
        content: "36 bits of seconds, 24 of their fraction, and random bits",
        time_ms: Some(time_ms as u64),
        parts: vec![("seq", count_of(uuid))],
        ..describe(uuid, "by the draft of 2021, as PyPI uuid7 0.1.0 makes them")
    }
}
