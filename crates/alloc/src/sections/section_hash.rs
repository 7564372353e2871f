//! Hash of the map of loaded sections.
//!
//! Invariant: with any numbers of sections, and any secret of the process, hardly any two sections
//! begin their search at the same place. The map gives up a search that is too long and builds its
//! table again, of the same size while it is less than half full. If more sections begin at one
//! place than a search may be long, that never ends, and every caller of the map waits without end.
//! Schedule that happened: with foldhash, which is fast and not meant to spread every sequence
//! under every seed, one process in about a thousand hung permanently at its first few thousand
//! sections.
//!
//! So it is SipHash-1-3 under the secret. Sections found recently are not looked up in the map
//! (`lookup_cache`), so its time rarely matters.

use std::hash::BuildHasher;

use siphasher::sip::SipHasher13;

/// Hash under a secret of the process, so that no client can choose sections that collide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SectionHashBuilder(pub(crate) [u64; 2]);

impl BuildHasher for SectionHashBuilder {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        let SectionHashBuilder([first, second]) = *self;
        SipHasher13::new_with_keys(first, second)
    }
}

#[cfg(test)]
mod tests {
    use seqsvr_core::ids::{NamespaceId, SectionId, SectionKey};

    use super::*;

    /// Sections, and buckets of a table that is half full of them.
    const SECTIONS: u32 = 4_096;
    const BUCKETS: usize = 2 * SECTIONS as usize;
    /// Maximum sections in one bucket. By chance it is 8 or 9; a search may be 65 long.
    const COLLISIONS_MAX: u32 = 16;

    /// Returns the number of sections in the fullest bucket.
    fn largest_bucket(hash: impl BuildHasher, number: impl Fn(u32) -> u32) -> u32 {
        let mut places = vec![0; BUCKETS];
        for n in 0..SECTIONS {
            let key = SectionKey {
                namespace: NamespaceId(2),
                section: SectionId(number(n)),
            };
            places[hash.hash_one(key) as usize % BUCKETS] += 1;
        }
        places.into_iter().max().unwrap()
    }

    /// Returns secrets that differ in few bits, which may be the worst.
    fn secrets() -> impl Iterator<Item = [u64; 2]> {
        let few = (0..64).flat_map(|bit| [[1 << bit, 0], [0, 1 << bit], [u64::MAX, 1 << bit]]);
        few.chain([[0, 0], [u64::MAX, u64::MAX]])
    }

    #[test]
    fn section_hash_spreads_sections_under_every_secret() {
        for secret in secrets() {
            for stride in [1, 3, 1_000, 1 << 10, 1 << 20] {
                // All of them are below 2^32.
                let most = largest_bucket(SectionHashBuilder(secret), |n| n * stride);
                assert!(most <= COLLISIONS_MAX, "{secret:?}, {stride}: {most}");
            }
        }
    }

    /// The test above fails for a hash that is one multiplication by an unlucky number.
    #[test]
    fn multiplication_hash_does_not_spread_sections() {
        #[derive(Clone)]
        struct MultiplyHasher(u64, u64);

        impl std::hash::Hasher for MultiplyHasher {
            fn finish(&self) -> u64 {
                self.1.wrapping_mul(self.0)
            }

            fn write(&mut self, bytes: &[u8]) {
                for byte in bytes.iter().rev() {
                    self.1 = self.1 << 8 | u64::from(*byte);
                }
            }
        }

        impl BuildHasher for MultiplyHasher {
            type Hasher = MultiplyHasher;

            fn build_hasher(&self) -> MultiplyHasher {
                self.clone()
            }
        }
        assert!(
            largest_bucket(MultiplyHasher(0xD6E8_FEB8_6659_FD93 << 8, 0), |n| n) > COLLISIONS_MAX
        );
    }
}
