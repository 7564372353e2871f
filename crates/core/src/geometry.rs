//! Place of a uid or key: uid or key -> section -> slot.
//!
//! Clients in any language compute these. So the vectors below and in `docs/design.md` pin both
//! functions. A change of either would send old keys to new sections and break every promise.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::ids::{NamespaceId, SectionId, SectionKey, Slot, Uid};

/// Most bytes a key may have. At least one.
pub const KEY_MAX: usize = 128;
/// Most numbers one call may take.
pub const COUNT_MAX: u32 = 100_000;

/// Division of the uids or keys of a namespace into sections. Immutable once created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Geometry {
    /// Neighboring uids share a section.
    Dense {
        /// uids per section, 1 ..= 2^24.
        section_size: u32,
        /// uids are below this.
        max_uid: u64,
    },
    /// Keys are spread over a fixed number of sections by their hash.
    Keyed {
        /// Number of sections, 1 ..= 2^20.
        sections: u32,
    },
}

/// Kind of a namespace: it takes uids or keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryKind {
    /// Takes uids below `max_uid`.
    Dense,
    /// Takes keys; a number is the key of its decimal text.
    Keyed,
}

/// Most uids a dense section may have.
pub const SECTION_SIZE_MAX: u32 = 1 << 24;
/// Most sections a keyed namespace may have.
pub const KEYED_SECTIONS_MAX: u32 = 1 << 20;
/// Most slots a cluster may have.
pub const SLOTS_MAX: u32 = 1 << 14;

impl Geometry {
    /// Returns whether it is dense or keyed.
    pub fn kind(&self) -> GeometryKind {
        match self {
            Geometry::Dense { .. } => GeometryKind::Dense,
            Geometry::Keyed { .. } => GeometryKind::Keyed,
        }
    }

    /// Returns the section of a uid and the uid's place in it; None if the namespace is keyed or
    /// the uid is not below `max_uid`.
    #[inline]
    pub fn locate_uid(&self, uid: Uid) -> Option<(SectionId, u32)> {
        match *self {
            Geometry::Dense {
                section_size,
                max_uid,
            } if uid.0 < max_uid => {
                // A division of 32 bits takes half as long as one of 64.
                if let Ok(uid) = u32::try_from(uid.0) {
                    return Some((SectionId(uid / section_size), uid % section_size));
                }
                let size = u64::from(section_size);
                // Fits: `check` bounds max_uid / section_size to u32.
                Some((SectionId((uid.0 / size) as u32), (uid.0 % size) as u32))
            }
            _ => None,
        }
    }

    /// Returns the section of a key; None if the namespace is dense.
    pub fn locate_key(&self, key: &[u8]) -> Option<SectionId> {
        match *self {
            Geometry::Keyed { sections } => {
                Some(SectionId((key_hash(key) % u64::from(sections)) as u32))
            }
            Geometry::Dense { .. } => None,
        }
    }

    /// Returns whether such a section exists.
    pub fn has_section(&self, section: SectionId) -> bool {
        match *self {
            Geometry::Dense {
                section_size,
                max_uid,
            } => u64::from(section.0) * u64::from(section_size) < max_uid,
            Geometry::Keyed { sections } => section.0 < sections,
        }
    }

    /// Rejects geometries outside the documented bounds; the text says which bound.
    pub fn validate(&self) -> Result<(), String> {
        match *self {
            Geometry::Dense {
                section_size,
                max_uid,
            } => {
                if section_size == 0 || section_size > SECTION_SIZE_MAX {
                    return Err(format!(
                        "section size must be 1 to {SECTION_SIZE_MAX} uids, not {section_size}"
                    ));
                }
                if max_uid == 0 {
                    return Err("max_uid must be at least 1".into());
                }
                if (max_uid - 1) / u64::from(section_size) > u64::from(u32::MAX) {
                    return Err(format!(
                        "max_uid {max_uid} needs more than 2^32 sections of {section_size} uids; use a keyed namespace for sparse ids"
                    ));
                }
                Ok(())
            }
            Geometry::Keyed { sections } if sections == 0 || sections > KEYED_SECTIONS_MAX => Err(
                format!("a keyed namespace has 1 to {KEYED_SECTIONS_MAX} sections, not {sections}"),
            ),
            Geometry::Keyed { .. } => Ok(()),
        }
    }
}

/// Returns the hash of a key: XXH3, 64 bits, seed 0.
pub fn key_hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// Mixes (namespace, section) into 64 well-spread bits: the finalizer of SplitMix64 (Steele, Lea,
/// Flood 2014) over `namespace << 32 | section`, after one addition of the golden gamma.
#[inline]
pub fn mix_section(namespace: NamespaceId, section: SectionId) -> u64 {
    let mut z =
        (u64::from(namespace.0) << 32 | u64::from(section.0)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the slot of a section in a cluster of `slots` slots (1 ..= [`SLOTS_MAX`]).
#[inline]
pub fn slot_of(key: SectionKey, slots: u32) -> Slot {
    let mixed = mix_section(key.namespace, key.section);
    let slots = u64::from(slots);
    // The usual numbers of slots need no division.
    Slot(match slots.is_power_of_two() {
        true => mixed & (slots - 1),
        false => mixed % slots,
    } as u16)
}

/// Returns the decimal text of a uid, which is its key in a keyed namespace.
pub fn uid_as_key(uid: Uid) -> String {
    uid.0.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_section_matches_pinned_values() {
        let m = |n, s| mix_section(NamespaceId(n), SectionId(s));
        // The first is SplitMix64's published first output for seed 0; all four and the hashes
        // below were also computed by an independent implementation in Python.
        assert_eq!(m(0, 0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(m(1, 0), 0xc42c_5a1a_a382_0138);
        assert_eq!(m(1, 1), 0x2043_91a6_fd59_956f);
        assert_eq!(m(2, 4095), 0x65e4_c932_10c2_a9f0);
    }

    #[test]
    fn key_hash_matches_pinned_values() {
        assert_eq!(key_hash(b""), 0x2d06_8005_38d3_94c2);
        assert_eq!(key_hash(b"alice"), 0x4da1_0dd6_1a01_16b0);
        assert_eq!(key_hash(b"42"), 0x1217_cb28_c0ef_2191);
    }

    #[test]
    fn dense_geometry_locates_uids() {
        let g = Geometry::Dense {
            section_size: 100_000,
            max_uid: 1 << 32,
        };
        assert_eq!(g.locate_uid(Uid(42)), Some((SectionId(0), 42)));
        assert_eq!(g.locate_uid(Uid(100_000)), Some((SectionId(1), 0)));
        assert_eq!(
            g.locate_uid(Uid((1 << 32) - 1)),
            Some((SectionId(42_949), 67_295))
        );
        assert_eq!(g.locate_uid(Uid(1 << 32)), None);
        assert!(g.has_section(SectionId(42_949)));
        assert!(!g.has_section(SectionId(42_950)));
        assert_eq!(g.locate_key(b"alice"), None);
    }

    #[test]
    fn slot_of_spreads_sections_evenly() {
        let mut load = [0u32; 1024];
        for s in 0..42_950 {
            load[slot_of(
                SectionKey {
                    namespace: NamespaceId(1),
                    section: SectionId(s),
                },
                1024,
            )
            .0 as usize] += 1;
        }
        assert!(load.iter().all(|n| (15..80).contains(n)), "{load:?}");
    }

    #[test]
    fn bounds() {
        assert!(
            Geometry::Dense {
                section_size: 0,
                max_uid: 1
            }
            .validate()
            .is_err()
        );
        assert!(
            Geometry::Dense {
                section_size: 1,
                max_uid: 1 << 33
            }
            .validate()
            .is_err()
        );
        assert!(
            Geometry::Dense {
                section_size: 1,
                max_uid: 1 << 32
            }
            .validate()
            .is_ok()
        );
        assert!(Geometry::Keyed { sections: 0 }.validate().is_err());
        assert!(Geometry::Keyed { sections: 4096 }.validate().is_ok());
    }
}
